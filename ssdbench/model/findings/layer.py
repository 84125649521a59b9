"""What the block layer costs, where the same point was measured through it and past it."""

from dataclasses import dataclass

from ssdbench.model.finding import Code, Severity
from ssdbench.model.findings.kind import FindingKind
from ssdbench.units import format_count, format_ns, format_size


@dataclass(frozen=True)
class BlockLayerCost(FindingKind):
    """A point through the block layer against the same one past it; None with too few repeats."""

    code = Code.BLOCK_LAYER
    severities = (Severity.NOTES,)
    remedy = (
        "Plan on the points that an application's own way in corresponds to: few go past the block "
        "layer."
    )

    workload: str
    through: str  # the engine
    through_iops: float  # mean
    past_iops: float
    cost_ns: float  # of one request: median of all differences (Hodges-Lehmann)
    cost_low_ns: float | None  # 95 %
    cost_high_ns: float | None
    p: float
    shown: bool  # p is at most 0.05

    def message(self) -> str:
        rates = (
            f"{self.workload}: {format_count(self.through_iops)} IOPS through the block layer "
            f"({self.through}) and {format_count(self.past_iops)} past it (io_uring_cmd)"
        )
        if not self.shown:
            return f"{rates}; {self._over()} do not show what the layer costs (p = {self.p:.2g})"
        costs = "costs" if self.cost_ns >= 0 else "saves"
        return (
            f"{rates}; the layer {costs} {format_ns(abs(self.cost_ns))} of each request's time"
            f"{self._interval()}"
        )

    def _over(self) -> str:
        return "so few repeats" if self.cost_low_ns is None else "these repeats"

    def _interval(self) -> str:
        if self.cost_low_ns is None or self.cost_high_ns is None:
            return ""
        ends = sorted((abs(self.cost_low_ns), abs(self.cost_high_ns)))
        return f" (95 %: {format_ns(ends[0])} to {format_ns(ends[1])})"


@dataclass(frozen=True)
class LogDisagrees(FindingKind):
    """The drive's health log does not tell what was written past the kernel's counters."""

    code = Code.BLOCK_LAYER
    severities = (Severity.WARNS,)
    remedy = (
        "Some drives bring the log up to date late. Else something else writes to the drive, or "
        "writes did not reach it: look at its other namespaces and at the kernel log."
    )

    fio_bytes: int
    log_bytes: int

    def message(self) -> str:
        return (
            f"fio wrote {format_size(self.fio_bytes)} past the block layer, where no kernel "
            f"counts, and the drive's health log tells of {format_size(self.log_bytes)}"
        )
