"""What a run knows of a drive besides the repeats of a point, and the evidence that both make."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ssdbench.model.result import Repeat
from ssdbench.model.workload import Point, Workload
from ssdbench.stats.bounds.evidence import Role, Stretch
from ssdbench.stats.bounds.measured import Measured
from ssdbench.stats.bounds.sustained import Evidence
from ssdbench.stats.histogram import Histogram


@dataclass(frozen=True, slots=True)
class Around:
    """The warm-up before the points and the return to its workload after them.

    Where the drive was filled in order between the two, they still tell whether it changed, but
    the warm-up is no evidence of any point any more.
    """

    workload: Workload | None = None  # of the warm-up
    warm_up: Stretch | None = None  # the seconds that were judged steady
    again: Stretch | None = None
    rhythm_s: float | None = None  # of the rate under the warm-up, where it matters
    capacity_bytes: int = 0
    refilled: bool = False
    # Of the steady part of the warm-up, by direction, in parts of about ten minutes.
    latencies: Mapping[str, Sequence[Histogram]] = field(default_factory=dict)

    def latencies_of(self, workload: Workload) -> Mapping[str, Sequence[Histogram]]:
        """Those that are evidence of a workload: of the same, with no fill in between."""
        return {} if workload != self.workload or self.refilled else self.latencies

    @property
    def stretches(self) -> tuple[Stretch, ...]:
        """Both, in the order of time, where they are known."""
        return tuple(stretch for stretch in (self.warm_up, self.again) if stretch is not None)


def evidence_of(
    point: Point, repeats: Sequence[Repeat], measured: Sequence[Measured], around: Around
) -> Evidence:
    """All seconds of the point's workload, and those of the warm-up's where it is another one."""
    own = [_stretch(repeat, m, around) for repeat, m in zip(repeats, measured, strict=True)]
    if point.workload != around.workload or around.refilled:
        return Evidence(tuple(own), around.stretches, around.rhythm_s)
    first = [around.warm_up] if around.warm_up else []
    last = [around.again] if around.again else []
    return Evidence((*first, *own, *last), (), around.rhythm_s)


def _stretch(repeat: Repeat, measured: Measured, around: Around) -> Stretch:
    written = (
        float(measured.write_bytes.sum()) / around.capacity_bytes if around.capacity_bytes else 0
    )
    return Stretch(
        role=Role.REPEAT,
        series=measured.evidence,
        number=repeat.repeat,
        from_fills=repeat.at_fills,
        to_fills=repeat.at_fills + written,
        from_s=began_s(repeat, measured),
    )


def began_s(repeat: Repeat, measured: Measured) -> float:
    """When the evidence of a repeat began, on the clock of the run; 0 where that is not known."""
    before_s = measured.evidence.t_s[-1] if len(measured.evidence.t_s) else 0.0
    return (repeat.at_s or 0.0) + repeat.measure_to_s - float(before_s)
