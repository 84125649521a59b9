"""What a run does within a time that the user gave, and what it can prove in it."""

from ssdbench.model.base import Model


class Budget(Model):
    """A profile cut down to a time; without cuts the whole profile fits."""

    seconds: float  # as given
    likely_s: float  # of what is left, on the target's clock
    counted_on: str  # which rates that stands on
    cuts: tuple[str, ...] = ()  # in the order in which they were made
    lacks: tuple[str, ...] = ()  # why it can never be VALIDATED; empty where it can
    validated_from_s: float | None = None  # likely; None where no longer time would help
    risk: str = ""  # how often such evidence misled, on drives whose truth is known
    whole_sha256: str = ""  # of the profile before it was cut; "" in older runs

    @property
    def validates(self) -> bool:
        """Whether the run can be VALIDATED at all."""
        return not self.lacks

    @property
    def proves(self) -> str:
        """One sentence about the verdict."""
        if self.lacks:
            return f"cannot be VALIDATED: {'; '.join(self.lacks)}"
        return "can be VALIDATED, if the drive is steady and the time is enough"
