"""What a user agreed to, for one drive: one value from the command line to the guard."""

from typing import Self

from ssdbench.model.base import Model


class Consent(Model):
    """What the command line agreed to; never part of a profile, and nothing of it by default."""

    identity: str | None = None  # --destroy: what this drive holds may be destroyed
    overwrite: bool = False  # --overwrite-signatures: partition tables, file systems not in use
    data: bool = False  # --overwrite-data: what it holds without a signature
    shared: bool = False  # --accept-shared: other paths and hosts lead to it
    unproven: bool = False  # --accept-unproven: it is one drive, though it does not show that
    wear: bool = False  # --accept-wear: more than FREE_SHARE of its rated endurance

    run: str = ""  # that works on it: what this very run left in a file is its own

    def overwriting(self) -> Self:
        """The same where signatures do not matter: they are our own, or nothing is written."""
        return self.model_copy(update={"overwrite": True})

    def of_run(self, run: str) -> Self:
        """The same for the work of one run."""
        return self.model_copy(update={"run": run})
