"""What a run costs a drive of its life (pure)."""

from dataclasses import dataclass

from ssdbench.units import format_capacity

FREE_SHARE = 0.01  # of the rated endurance; more needs consent
TB = 10**12


@dataclass(frozen=True, slots=True)
class Wear:
    """The most that a run may write, against what the drive is rated for.

    SMART has no rated endurance, so it can only come from the user; None when it did not.
    """

    most_bytes: int
    endurance_tb: float | None = None

    @property
    def share(self) -> float | None:
        """Share of the rated endurance, or None when that is not known."""
        return self.most_bytes / TB / self.endurance_tb if self.endurance_tb else None

    @property
    def needs_consent(self) -> bool:
        """Above FREE_SHARE, and when the share cannot be known."""
        return self.most_bytes > 0 and (self.share is None or self.share > FREE_SHARE)

    @property
    def sentence(self) -> str:
        """What it would cost."""
        written = f"it would write up to {format_capacity(self.most_bytes)}"
        if self.share is None:
            return f"{written}; its rated endurance is unknown (give it with --endurance TBW)"
        rated = f"{self.endurance_tb:g} TB"
        return f"{written}, {100 * self.share:.2g} % of its rated endurance of {rated}"
