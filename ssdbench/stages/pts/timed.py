"""Run PTS-style tests over time: write saturation, host idle, cross-stimulus.

A phase is one workload without a break, measured in samples of a minute. A sample's latencies may
be shifted by a second, because the intervals of fio's log do not begin and end exactly with the
samples. A resumed test begins again with its purge, because the test measures how the drive changes
after the purge.

Overhead: the generator starts once for each phase.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ssdbench.engine.stage import Context, Lasting, Unit
from ssdbench.model.finding import Finding
from ssdbench.model.findings.pts import PausesBusy, PtsQueueFull
from ssdbench.model.pts import Pts, PtsMeasured, PtsMetric, PtsPhase, PtsSample, PtsWaited
from ssdbench.stages.pts.stage import PtsStage, header, unit
from ssdbench.stages.pts.work import (
    MINUTE_S,
    SPACING_S,
    Length,
    Measure,
    Phase,
    PtsRecord,
    measured_phase,
    window_of,
)
from ssdbench.stats.steady.ptsrounds import recovery
from ssdbench.units import format_minutes

LEAST_IDLE = 0.5  # of the planned pauses; only whole idle seconds are seen
SHORTEST_SEEN_US = 3_000_000  # shorter pauses are not checked


@dataclass(frozen=True, kw_only=True)
class Timed(PtsStage):
    """Run a PTS-style test of phases; the first phase with `until_steady` is judged."""

    phases: tuple[Phase, ...]
    units_last = Lasting.NOTHING

    @property
    def parts(self) -> Sequence[Phase]:
        """Return the phases of the test."""
        return self.phases

    def lengths(self) -> Iterator[Length]:
        """Yield the time of each phase; phases with `until_steady` may end earlier."""
        for phase in self.phases:
            least = 0.0 if phase.until_steady else phase.seconds
            yield Length(phase.workload, least, phase.seconds, phase.fills or math.inf)

    def own_units(self, context: Context, done: Sequence[PtsRecord]) -> Iterator[Unit[Measure]]:
        """Yield one unit for each phase."""
        began_s = context.meter.seconds
        for place, phase in enumerate(self.phases, start=1):
            measure = partial(self._phase, phase, context.meter.seconds - began_s)
            yield unit(f"phase-{place:02d}", measure, phase.name)

    def found(self, measured: PtsMeasured) -> Pts:
        """Return the means of each phase, and the last five judged samples as a window."""
        taken = [(phase, _of(phase, measured.samples)) for phase in self.phases]
        judged, samples = next((t for t in taken if t[0].until_steady), (None, ()))
        window = window_of(samples)
        return self.result(
            measured,
            steady=None if judged is None else window is not None and window.steady,
            windows=[header(judged.name, PtsMetric.IOPS, window)] if judged and window else [],
            phases=[
                _averaged(number, own, measured.waited)
                for number, (_, own) in enumerate(taken, start=1)
                if own
            ],
        )

    def where(self, found: Pts) -> str:
        """Return a text: which samples were steady, or in how many samples none were."""
        if found.steady:
            return f"by five samples {format_minutes(SPACING_S * self.scale)} apart"
        judged = next(phase for phase in self.phases if phase.until_steady)
        length = format_minutes(MINUTE_S * self.scale)
        return f"in {len(_of(judged, found.samples))} samples of {length}"

    def about(self, found: Pts) -> Iterator[Finding]:
        """Yield findings: requests waited for the drive's queue; pauses were not idle."""
        for one in found.waited:
            yield PtsQueueFull(one.phase, one.submit_percent).finding()
        for phase in self.phases:
            own = _of(phase, found.samples)
            if own and phase.workload.thinktime_us >= SHORTEST_SEEN_US:
                idle_s = sum(sample.idle_s for sample in own)
                if idle_s < LEAST_IDLE * phase.idle_s() * self.scale:
                    yield PausesBusy(phase.name).finding()

    def _phase(self, phase: Phase, from_start_s: float, context: Context) -> PtsRecord:
        found = measured_phase(context, phase, self.scale, from_start_s=from_start_s)
        return PtsRecord(measured=found)


def _of(phase: Phase, samples: Sequence[PtsSample]) -> list[PtsSample]:
    return [sample for sample in samples if sample.phase == phase.name]


def _averaged(number: int, samples: Sequence[PtsSample], waited: Sequence[PtsWaited]) -> PtsPhase:
    """Return a phase's means, and after how many samples its rate reached the final level."""
    latencies = [sample.latency for sample in samples if sample.latency is not None]
    mean_ns = _mean_ns(samples)
    if whole := next((one for one in waited if one.phase == samples[0].phase), None):
        latencies, mean_ns = [whole.latency], whole.latency.mean_ns
    return PtsPhase(
        number=number,
        phase=samples[0].phase,
        samples=len(samples),
        iops=sum(sample.iops for sample in samples) / len(samples),
        throughput_bytes_per_s=sum(s.throughput_bytes_per_s for s in samples) / len(samples),
        mean_ns=mean_ns,
        max_ns=max((one.max_ns for one in latencies), default=None),
        idle_s=sum(sample.idle_s for sample in samples),
        samples_until_level=recovery([sample.iops for sample in samples]),
    )


def _mean_ns(samples: Sequence[PtsSample]) -> float | None:
    """Return the mean latency over all I/Os of the samples; None if the samples have no I/O."""
    known = [(one.iops, one.latency.mean_ns) for one in samples if one.latency is not None]
    ios = sum(iops for iops, _ in known)
    return sum(iops * mean_ns for iops, mean_ns in known) / ios if ios else None
