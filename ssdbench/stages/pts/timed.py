"""PTS-style tests that are a history of the drive: write saturation, host idle, cross-stimulus.

One workload after another, each without a break and in samples of a minute. A sample's latencies
come from the generator's own intervals and may lie a second beside it. An unfinished test begins
again from its purge on resume, because its history is what it measures.

Overhead: one generator start per phase.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from ssdbench.engine.journal import utc_now
from ssdbench.engine.stage import Context, Lasting, RateHint, StagePlan
from ssdbench.model.finding import Finding
from ssdbench.model.findings.course import CutShort
from ssdbench.model.findings.pts import PausesBusy
from ssdbench.model.kind import StageKind
from ssdbench.model.result import StageResult, stage_result
from ssdbench.model.target import TargetInfo
from ssdbench.stages.pts.parts import Cell, Phase, Record, Tracking, cache_of_form, rule_findings
from ssdbench.stages.pts.preparation import Preparation, Prepared
from ssdbench.stages.pts.rounds import durations, header
from ssdbench.stages.pts.work import Work, window_of
from ssdbench.stats.ptslevels import recovery

LEAST_IDLE = 0.5  # of the planned pauses; only whole seconds without a request are seen
SHORTEST_SEEN_US = 3_000_000


@dataclass(frozen=True, slots=True)
class Timed:
    """A test as phases; steadiness is judged in the first that lasts until it is steady."""

    name: str
    test: str  # saturation | idle | crossed
    form: str
    phases: tuple[Phase, ...]
    preparation: Preparation
    finale: tuple[Cell, ...] = ()
    skipped: tuple[Finding, ...] = ()  # workloads that this drive cannot do, or only with a read
    scale: float = 1.0
    kind: StageKind = StageKind.PTS
    title: str = "PTS-style test"
    destructive: bool = True
    lasting: Lasting = Lasting.RESULTS

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """At most the phases' lengths; those that end when steady may end earlier."""
        before = self.preparation.plans(target, hint)
        last = self.scale * sum(cell.seconds for cell in self.finale)
        most = last + self.scale * sum(p.seconds for p in self.phases)
        least = last + self.scale * sum(p.seconds for p in self.phases if not p.until_steady)
        written = [sum(plan.bytes_written[end] for plan in before) for end in (0, 1)]
        for end, length in enumerate((least, most)):
            rate = hint.random_write_iops[end] * 4096
            fills = [self._bounded(phase, target) for phase in self.phases]
            written[end] += round(min(length * rate, sum(fills) + last * rate))
        return StagePlan(
            name=self.name,
            kind=self.kind,
            title=self.title,
            destructive=True,
            jobs=(
                *(job for plan in before for job in plan.jobs),
                *(f"{phase.name}: {phase.workload.label()}" for phase in self.phases),
            ),
            seconds=(
                sum(plan.seconds[0] for plan in before) + least,
                sum(plan.seconds[1] for plan in before) + most,
            ),
            bytes_written=(written[0], max(written)),
            fills=(written[0] / target.size_bytes, max(written) / target.size_bytes),
        )

    def run(self, context: Context) -> StageResult:
        """All phases in order."""
        started_at, wall = utc_now(), time.monotonic()
        prepared = self.preparation.run(context)
        work = Work(self.name, context, self.scale)
        work.cut_short = prepared.cut_short
        samples: dict[str, list[Record]] = {}
        for place, phase in enumerate(self.phases, start=1):
            if not work.cut_short:
                samples[phase.name] = work.phase(phase, place)
                context.session.save()
        last = [] if work.cut_short else work.cells(self.finale, 0, of=1, keep=True)
        result = stage_result(
            name=self.name,
            kind=self.kind,
            title=self.title,
            started_at=started_at,
            duration_s=prepared.seconds + work.seconds,
            wall_s=time.monotonic() - wall,
            bytes_read=work.bytes_read,
            bytes_written=prepared.bytes_written + work.bytes_written,
            summary=self._summary(samples),
            findings=tuple(self._findings(context, prepared, work, samples)),
            data={
                "steady_state": self._headers(samples),
                "phases": [
                    {"number": number, **_phase(p, samples[p.name])}
                    for number, p in enumerate(self.phases, start=1)
                    if samples.get(p.name)
                ],
                **({"in_steady_state": last} if last else {}),
                **({"histograms": work.histograms} if work.histograms else {}),
                "preparation": prepared.records,
                "samples": [record for own in samples.values() for record in own],
            },
            complete=not work.cut_short,
        )
        if result.complete:
            context.store.save("stage.json", result)
        return result

    def _bounded(self, phase: Phase, target: TargetInfo) -> float:
        return math.inf if phase.fills is None else phase.fills * target.size_bytes

    def _judged(self) -> Phase | None:
        return next((phase for phase in self.phases if phase.until_steady), None)

    def _headers(self, samples: dict[str, list[Record]]) -> list[Record]:
        phase = self._judged()
        window = window_of(samples.get(phase.name, [])) if phase else None
        return [header(Tracking(phase.name), window)] if phase and window else []

    def _steady(self, samples: dict[str, list[Record]]) -> bool | None:
        """None where the test has no rule."""
        phase = self._judged()
        if phase is None:
            return None
        window = window_of(samples.get(phase.name, []))
        return window is not None and window.steady

    def _summary(
        self, samples: dict[str, list[Record]]
    ) -> dict[str, str | int | float | bool | None]:
        steady = self._steady(samples)
        first = self.phases[0].workload
        words = {None: "not judged by this test", True: "reached", False: "not reached"}
        return {
            "test": f"PTS-style {self.test}, {self.form} form",
            "steady_state": words[steady],
            "active_range_bytes": first.range.length_bytes,
            "data_pattern": str(first.content),
            "outstanding_per_thread": str(first.iodepth),
            "threads": str(first.numjobs),
            "durations": durations(self.scale),
        }

    def _findings(
        self,
        context: Context,
        prepared: Prepared,
        work: Work,
        samples: dict[str, list[Record]],
    ) -> list[Finding]:
        judged, steady = self._judged(), self._steady(samples)
        taken = len(samples.get(judged.name, [])) if judged else 0
        why = work.cut_short
        known = [finding.model_copy(update={"stage": self.name}) for finding in self.skipped]
        found = cache_of_form(context.target, self.form, context.settings)
        found += [PausesBusy(p.name) for p in self.phases if _was_busy(p, samples, self.scale)]
        found += rule_findings(
            steady=steady,
            scale=self.scale,
            where="by five samples 30 min apart" if steady else f"in {taken} samples of a minute",
            cut_short=CutShort(len(samples), len(self.phases), "phases", why) if why else None,
        )
        return [*known, *prepared.findings, *(kind.finding(stage=self.name) for kind in found)]


def _phase(phase: Phase, samples: Sequence[Record]) -> Record:
    """Averages of one phase; the time of recovery is that to its own end."""
    rates = [float(str(r["iops"])) for r in samples]
    after = recovery(rates)
    return {
        "phase": phase.name,
        "samples": len(samples),
        "iops": sum(rates) / len(rates),
        "throughput_bytes_per_s": _mean(samples, "throughput_bytes_per_s"),
        "mean_ns": _mean(samples, "mean_ns"),
        "max_ns": max(float(str(r["max_ns"])) for r in samples),
        "idle_s": sum(float(str(r["idle_s"])) for r in samples),
        "samples_until_level": "never" if after is None else after,
    }


def _was_busy(phase: Phase, samples: dict[str, list[Record]], scale: float) -> bool:
    """Whether the planned pauses were not pauses for the drive; shorter ones cannot be seen."""
    if phase.name not in samples or phase.workload.thinktime_us < SHORTEST_SEEN_US:
        return False
    planned = phase.idle_s() * scale
    return sum(float(str(r["idle_s"])) for r in samples[phase.name]) < LEAST_IDLE * planned


def _mean(samples: Sequence[Record], name: str) -> float:
    return sum(float(str(r[name])) for r in samples) / len(samples)
