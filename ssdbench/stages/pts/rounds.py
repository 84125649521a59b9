"""The round loop of PTS-style tests: cells one after another, until five rounds look alike.

A round is one pass over all cells in the standard's order, which is not shuffled. After each
round every tracking variable is judged over the last five; the test ends when all are steady, or
after 25 rounds with "steady state not reached". What it publishes are means over the window and
no bounds: a rule that is optimistic in a third of cases (`nox -s judge-the-judges`) validates
nothing. A resumed test keeps its finished rounds and runs one that does not count, because the
drive may have recovered in the pause.

Overhead: one generator start per cell.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from ssdbench.engine.journal import utc_now
from ssdbench.engine.stage import Context, Lasting, RateHint, StagePlan
from ssdbench.model.finding import Finding
from ssdbench.model.findings.course import CutShort
from ssdbench.model.findings.pts import PtsPaused, PtsWarmUpNotSteady
from ssdbench.model.kind import StageKind
from ssdbench.model.result import StageResult, stage_result
from ssdbench.model.target import TargetInfo
from ssdbench.model.workload import Workload
from ssdbench.stages.pts.parts import (
    MAX_ROUNDS,
    Cell,
    Phase,
    Record,
    Tracking,
    cache_of_form,
    rule_findings,
)
from ssdbench.stages.pts.preparation import Preparation
from ssdbench.stages.pts.progress import FILE, Progress
from ssdbench.stages.pts.work import BINS, Work, merged, window_of
from ssdbench.stats.percentiles import percentile
from ssdbench.stats.ptslevels import Demand, levels
from ssdbench.stats.ptsrounds import RoundWindow, round_window
from ssdbench.stats.standardrules import ROUNDS
from ssdbench.units import format_size

PRE_WRITE_S = 3600.0  # before the histogram of each level of demand
LEVEL_S = 600.0


@dataclass(frozen=True, slots=True)
class Rounds:
    """A PTS-style test as cells, tracking variables and what follows in steady state."""

    name: str
    test: str  # iops | throughput | latency | composite | demand
    form: str  # enterprise | client
    cells: tuple[Cell, ...]
    tracking: tuple[Tracking, ...]
    absent: tuple[Cell, ...] = ()  # not applicable to this drive
    finale: tuple[Cell, ...] = ()  # measured once, after the window
    warm_up: Phase | None = None  # before the first round, until it is steady
    adds_up: bool = False  # latencies of the window's rounds become one histogram
    demand: bool = False  # ends at the highest, the middle and the lowest demand
    preparation: Preparation = Preparation()
    max_rounds: int = MAX_ROUNDS
    scale: float = 1.0  # of every duration; below 1 only for demonstrations
    skipped: tuple[Finding, ...] = ()  # cells that this drive cannot do, or only with a read
    kind: StageKind = StageKind.PTS
    title: str = "PTS-style test"
    destructive: bool = True
    lasting: Lasting = Lasting.RESULTS

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """From five rounds to 25; bytes from the drive's likely rates."""
        rounds = (min(ROUNDS, self.max_rounds), self.max_rounds)
        before = self.preparation.plans(target, hint)
        one = self.scale * sum(cell.seconds for cell in self.cells)
        last = self.scale * sum(cell.seconds for cell in self.finale)
        last += self.scale * 3 * (PRE_WRITE_S + LEVEL_S) if self.demand else 0.0
        warm = self.scale * self.warm_up.seconds if self.warm_up else 0.0
        writing = last + warm
        written = [
            round(
                sum(plan.bytes_written[end] for plan in before)
                + (rounds[end] * self._writing_s() + writing) * iops * 4096
            )
            for end, iops in enumerate(hint.random_write_iops)
        ]
        return StagePlan(
            name=self.name,
            kind=self.kind,
            title=self.title,
            destructive=True,
            jobs=(
                *(job for plan in before for job in plan.jobs),
                *(f"{cell.name}: {cell.workload.label()}" for cell in self.cells),
            ),
            seconds=(
                sum(plan.seconds[0] for plan in before) + rounds[0] * one + last,
                sum(plan.seconds[1] for plan in before) + rounds[1] * one + last + warm,
            ),
            bytes_written=(written[0], written[1]),
            fills=(written[0] / target.size_bytes, written[1] / target.size_bytes),
            notes=(f"rounds of {len(self.cells)} cells, until five are alike, at most "
                   f"{self.max_rounds}",),
        )  # fmt: skip

    def _writing_s(self) -> float:
        """Seconds of writing in a round, as if every block were written at the rate of 4 KiB."""
        share = sum(c.seconds * (100 - c.workload.read_percent) / 100 for c in self.cells)
        return self.scale * share

    def run(self, context: Context) -> StageResult:
        """Rounds until all tracking variables are steady, then the finale."""
        started_at, wall = utc_now(), time.monotonic()
        work = Work(self.name, context, self.scale)
        test = _Test(self, context, work)
        test.prepare()
        test.rounds()
        windows = test.windows()
        steady = len(windows) > 0 and all(window.steady for window in windows)
        means = _means(test.progress.records(), windows)
        last = [] if work.cut_short else test.finale(means)
        spent = test.progress.spent(work)
        result = stage_result(
            name=self.name,
            kind=self.kind,
            title=self.title,
            started_at=started_at,
            duration_s=spent.seconds,
            wall_s=time.monotonic() - wall,
            bytes_read=spent.bytes_read,
            bytes_written=spent.bytes_written,
            summary=self._summary(test.progress, windows, steady=steady),
            findings=tuple(self._findings(context, test.progress, work.cut_short, steady=steady)),
            data={
                "steady_state": [
                    header(tracked, window)
                    for tracked, window in zip(self.tracking, windows, strict=False)
                ],
                "means_over_the_window": means,
                **({"in_steady_state": last} if last else {}),
                **(
                    {"not_applicable": [_absent(cell) for cell in self.absent]}
                    if self.absent
                    else {}
                ),
                **({"histograms": work.histograms} if work.histograms else {}),
                **({"pre_writes": test.pre_writes} if test.pre_writes else {}),
                "preparation": list(test.progress.preparation),
                **({"warm_up": list(test.progress.warm_up)} if test.progress.warm_up else {}),
                "rounds": [
                    {name: value for name, value in record.items() if name != BINS}
                    for record in test.progress.records()
                ],
            },
            complete=not work.cut_short,
        )
        if result.complete:
            context.store.save("stage.json", result)
        return result

    def _summary(
        self, progress: Progress, windows: Sequence[RoundWindow], *, steady: bool
    ) -> dict[str, str | int | float | bool | None]:
        depths = sorted({c.workload.iodepth for c in self.cells})
        threads = sorted({c.workload.numjobs for c in self.cells})
        range_ = self.cells[0].workload.range
        return {
            "test": f"PTS-style {self.test}, {self.form} form",
            "steady_state": "reached" if steady else "not reached",
            "rounds": len(progress.rounds),
            "window": span(windows[0]) if windows else None,
            "active_range_bytes": range_.length_bytes,
            "data_pattern": str(self.cells[0].workload.content),
            "outstanding_per_thread": ", ".join(map(str, depths)),
            "threads": ", ".join(map(str, threads)),
            "durations": durations(self.scale),
            **_mixture(self.cells[-1].workload),
        }

    def _findings(
        self, context: Context, progress: Progress, cut_short: str, *, steady: bool
    ) -> list[Finding]:
        counted = [done for done in progress.rounds if done.counted]
        where = f"in {len(progress.rounds)} rounds; the last five are shown"
        if steady:
            where = f"in rounds {counted[-ROUNDS].number} to {counted[-1].number}"
        known = [finding.model_copy(update={"stage": self.name}) for finding in self.skipped]
        found = cache_of_form(context.target, self.form, context.settings)
        if paused := [done.number for done in progress.rounds if not done.counted]:
            found.append(PtsPaused(tuple(paused)))
        found += rule_findings(
            steady=steady,
            scale=self.scale,
            where=where,
            cut_short=CutShort(len(progress.rounds), None, "rounds", cut_short)
            if cut_short
            else None,
        )
        return [*known, *progress.findings, *(kind.finding(stage=self.name) for kind in found)]


class _Test:
    """One test at work."""

    def __init__(self, asked: Rounds, context: Context, work: Work) -> None:
        self._asked = asked
        self._context = context
        self._work = work
        self.progress = Progress.stored(context)
        self.pre_writes: list[Record] = []  # before the histogram of each level of demand
        self._paused = bool(self.progress.rounds)

    def prepare(self) -> None:
        """Purge, fill and warm up, unless a finished round stands on it already."""
        if self.progress.rounds:
            return
        self.progress = Progress()
        done = self._asked.preparation.run(self._context)
        warm_up: list[Record] = []
        self._work.cut_short = done.cut_short
        if self._asked.warm_up is not None:
            warm_up = self._work.phase(self._asked.warm_up, 0)
        self.progress = self.progress.prepared(done, warm_up)
        window = window_of(warm_up)
        if self._asked.warm_up is not None and not (window and window.steady):
            found = (*self.progress.findings, PtsWarmUpNotSteady().finding(stage=self._asked.name))
            self.progress = self.progress.model_copy(update={"findings": found})

    def rounds(self) -> None:
        """Rounds until steady, the maximum, or the end of the run."""
        asked, journal = self._asked, self._context.journal
        first = len(self.progress.rounds) + 1
        # The round after a pause is one more, so that the maximum stays one of rounds that count.
        uncounted = sum(not done.counted for done in self.progress.rounds) + self._paused
        last = asked.max_rounds + uncounted
        for number in range(first, last + 1):
            if self._work.cut_short or self._steady():
                return
            unit = f"round-{number:02d}"
            journal.begun(unit)
            records = self._work.cells(asked.cells, number, of=last, bins=asked.adds_up)
            if self._work.cut_short:
                return
            counted = not (self._paused and number == first)
            self.progress = self.progress.and_round(number, records, counted=counted)
            self._context.session.save()
            self._context.store.save(FILE, self.progress.spent(self._work))
            journal.finished(unit)

    def windows(self) -> list[RoundWindow]:
        """The newest window of each tracking variable; none before the first round."""
        counted = [done for done in self.progress.rounds if done.counted]
        if not counted:
            return []
        numbers = [done.number for done in counted]
        return [
            round_window(
                [
                    float(str(r[t.metric]))
                    for d in counted
                    for r in d.records
                    if r["cell"] == t.cell
                ],
                numbers,
            )
            for t in self._asked.tracking
        ]

    def finale(self, means: Sequence[Record]) -> list[Record]:
        """What is measured once, in steady state."""
        records = self._work.cells(self._asked.finale, 0, of=1, keep=True)
        if not self._asked.demand or not means:
            return records
        cells = {cell.name: cell for cell in self._asked.cells}
        pre_write = self._asked.cells[0].workload
        for place, (level, chosen) in enumerate(levels(_demands(means)).items(), start=1):
            phase = Phase(f"pre-write before {level}", pre_write, PRE_WRITE_S)
            samples = self._work.phase(phase, place)
            self.pre_writes += [{name: s[name] for name in _PRE_WRITTEN} for s in samples]
            cell = Cell(f"{level} demand, {chosen.name}", cells[chosen.name].workload, LEVEL_S)
            records += self._work.cells((cell,), 0, of=1, keep=True)
        return records

    def _steady(self) -> bool:
        windows = self.windows()
        return bool(windows) and all(window.steady for window in windows)


def _demands(means: Sequence[Record]) -> list[Demand]:
    return [
        Demand(
            str(m["cell"]),
            int(str(m["threads"])),
            int(str(m["queue"])),
            float(str(m["iops"])),
            float(str(m["mean_ns"])),
        )
        for m in means
        if not str(m["cell"]).startswith("pre-write")
    ]


def durations(scale: float) -> str:
    """How the durations relate to the standard's."""
    return "as in the standard" if scale == 1 else f"SCALED by {scale:g}"


def span(window: RoundWindow) -> str:
    """`rounds 1 to 5`."""
    return f"rounds {window.rounds[0]} to {window.rounds[-1]}"


def header(tracked: Tracking, window: RoundWindow) -> Record:
    """The rows of the standard's report header for one tracking variable."""
    return {
        "tracking": f"{tracked.cell}, {tracked.metric.replace('_', ' ')}",
        "average": window.average,
        "allowed_data_excursion": window.allowed_excursion,
        "measured_data_excursion": window.excursion,
        "allowed_slope_excursion": window.allowed_slope_excursion,
        "measured_slope_excursion": window.slope_excursion,
        "fit": window.fit,
        "correlation": f"{window.correlation:+.4f}",
        "window": span(window),
        "steady": window.steady,
    }


_AVERAGED = ("iops", "throughput_bytes_per_s")
_PRE_WRITTEN = ("phase", "t_s", "iops")
_FIVE_NINES = 0.99999


def _absent(cell: Cell) -> Record:
    """Where a cell that this drive cannot do stands in the tables."""
    workload = cell.workload
    return {
        "cell": cell.name,
        "block_bytes": workload.block_bytes,
        "read_percent": workload.read_percent,
    }


def _mixture(workload: Workload) -> dict[str, str | int | float | bool | None]:
    """What a composite workload mixes; records then hold its mean block."""
    if not workload.block_split:
        return {}
    blocks = (f"{format_size(size)} {share} %" for size, share in workload.block_split)
    zones = (f"{io:g} % of I/O on {part:g} % of the range" for io, part in workload.zones)
    return {"block_sizes": ", ".join(blocks), "zones": ", ".join(zones)}


def _means(records: Sequence[Record], windows: Sequence[RoundWindow]) -> list[Record]:
    """Every cell averaged over the rounds of the window; extremes are those of all of them."""
    if not windows:
        return []
    inside = [r for r in records if r["round"] in windows[0].rounds and r.get("counted", True)]
    found: list[Record] = []
    for cell in dict.fromkeys(record["cell"] for record in inside):
        own = [record for record in inside if record["cell"] == cell]
        kept = {
            key: own[0][key] for key in ("cell", "block_bytes", "read_percent", "queue", "threads")
        }
        means = {n: sum(float(str(r[n])) for r in own) / len(own) for n in _AVERAGED}
        used = [float(str(r["cpu_percent"])) for r in own if "cpu_percent" in r]
        cpu = {"cpu_percent": sum(used) / len(used)} if used else {}
        found.append({**kept, **means, **cpu, **_latencies(own)})
    return found


def _latencies(records: Sequence[Record]) -> Record:
    """Mean and extremes over rounds; 99.999 % of all their I/Os, where enough lie beyond it.

    A round in which no request ended has no latency, and none of 0. Percentiles are never
    averaged over rounds.
    """
    seen = [record for record in records if float(str(record["mean_ns"])) > 0]
    if not seen:
        return dict.fromkeys(("mean_ns", "min_ns", "max_ns"), 0.0)
    found: Record = {
        "mean_ns": sum(float(str(r["mean_ns"])) for r in seen) / len(seen),
        "min_ns": min(float(str(r["min_ns"])) for r in seen),
        "max_ns": max(float(str(r["max_ns"])) for r in seen),
    }
    nines = percentile(merged(seen), _FIVE_NINES)
    if nines is not None and nines.status != "suppressed":
        found["p99.999_ns"] = nines.value_ns
    return found
