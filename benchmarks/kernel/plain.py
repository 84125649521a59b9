"""An experiment whose model is set from a paper, or follows from another's: no class of its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.kernel.experiment import Claim, Model


@dataclass(frozen=True)
class Plain:
    """A model, a guest's script, and claims."""

    name: str
    about: str
    model: Callable[[str], Model]  # by the kernel's series
    text: Callable[[Model, int], str]  # by model and seed
    claimed: tuple[Claim, ...]
    cpus: int = 1

    def freeze(self, series: str) -> Model:
        """The model; compares nothing."""
        return self.model(series)

    def script(self, model: Model, seed: int) -> str:
        """Shell text that prints lines `row CASE METRIC VALUE`."""
        return self.text(model, seed)

    def claims(self) -> Sequence[Claim]:
        """What is judged."""
        return self.claimed
