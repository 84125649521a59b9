"""What PTS-style tests are made of: cells of a minute, and phases that last."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ssdbench.model.findings.course import CutShort
from ssdbench.model.findings.kind import FindingKind
from ssdbench.model.findings.preparation import WriteCacheOfForm
from ssdbench.model.findings.pts import PtsAverages, PtsNotSteady, PtsScaled
from ssdbench.model.target import TargetInfo
from ssdbench.model.workload import Workload
from ssdbench.stats.writecache import cache_enabled

MINUTE_S = 60.0
MAX_ROUNDS = 25
SPACING = 31  # one-minute samples from one round of a long phase to the next: 30 min in between
Record = dict[str, object]


@dataclass(frozen=True, slots=True)
class Cell:
    """One minute of a round, or a longer measurement of its own."""

    name: str  # "0/100 4 KiB"
    workload: Workload
    seconds: float = MINUTE_S


@dataclass(frozen=True, slots=True)
class Tracking:
    """What must be steady: one metric of one cell."""

    cell: str
    metric: str = "iops"  # or throughput_bytes_per_s, mean_ns


@dataclass(frozen=True, slots=True)
class Phase:
    """One workload without a break, in samples of a minute."""

    name: str
    workload: Workload
    seconds: float  # at most
    fills: float | None = None  # ends after as many drive fills of writes
    until_steady: bool = False  # ends when five samples, 30 min apart, are alike
    sample_s: float = MINUTE_S

    def active_s(self, from_s: float, to_s: float) -> float:
        """The time between two times in which requests flow by plan.

        The first burst of fio lasts a whole cycle (3.33: its clock of pauses starts with one).
        """
        burst = self.workload.burst_us
        cycle = burst + self.workload.thinktime_us
        if not burst:
            return to_s - from_s
        first = min(to_s, cycle / 1e6) - min(from_s, cycle / 1e6)
        return first + (to_s - from_s - first) * burst / cycle

    def idle_s(self) -> float:
        """Planned seconds without a request, at full length."""
        burst, pause = self.workload.burst_us, self.workload.thinktime_us
        return self.seconds * pause / (burst + pause) if burst else 0.0


def warm_up_s() -> float:
    """How long a phase lasts that gives up after 25 samples, 30 min apart."""
    return ((MAX_ROUNDS - 1) * SPACING + 1) * MINUTE_S


def rule_findings(
    *, steady: bool | None, scale: float, where: str, cut_short: CutShort | None
) -> list[FindingKind]:
    """What a reader must know before believing a PTS-style number.

    `steady`: by the PTS rule, or None where the test has none; `where`: it was judged.
    """
    found: list[FindingKind] = [PtsScaled(scale)] if scale != 1 else []
    if cut_short:
        found.append(cut_short)
    elif steady is None:
        found.append(PtsAverages())
    else:
        found.append(PtsAverages(where) if steady else PtsNotSteady(where))
    return found


def wanted_cache(form: str) -> bool:
    """Whether a form of the standard wants the volatile write cache to be on."""
    return form == "client"


def cache_of_form(
    target: TargetInfo, form: str, settings: Sequence[Mapping[str, str]] = ()
) -> list[FindingKind]:
    """Whether the volatile write cache is as the form asks: off for enterprise, on for client.

    `settings`: what the run has set.
    """
    present, enabled = cache_enabled(target, settings)
    if not present or enabled is None or enabled == wanted_cache(form):
        return []
    return [WriteCacheOfForm(enabled, form)]
