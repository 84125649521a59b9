"""The round loop of PTS-style tests: cells one after another, until five rounds look alike.

A round is one pass over all cells in the standard's order, which is not shuffled. After each
round every tracking variable is judged over the last five; the test ends when all are steady, or
after 25 rounds with "steady state not reached". What it publishes are means over the window and
no bounds: a rule that is optimistic in a third of cases (`nox -s judge-the-judges`) validates
nothing. An unfinished test begins again on resume: its rounds are a history of the drive.

Overhead: one generator start per cell.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from ssdbench.engine.journal import utc_now
from ssdbench.engine.progress import Reporter
from ssdbench.engine.section import Section
from ssdbench.engine.seeds import derived
from ssdbench.engine.stage import LEAST_AHEAD_BYTES, Context, Lasting, RateHint, StagePlan
from ssdbench.generator.base import Job
from ssdbench.model.finding import Code, Finding, Severity
from ssdbench.model.result import StageResult
from ssdbench.model.target import TargetInfo
from ssdbench.model.workload import Workload
from ssdbench.stats.histogram import Histogram
from ssdbench.stats.ptsrounds import RoundWindow, round_window
from ssdbench.stats.standardrules import ROUNDS

MINUTE_S = 60.0
MAX_ROUNDS = 25
Record = dict[str, object]


@dataclass(frozen=True, slots=True)
class Cell:
    """One minute of a round."""

    name: str  # "0/100 4 KiB"
    workload: Workload
    seconds: float = MINUTE_S


@dataclass(frozen=True, slots=True)
class Tracking:
    """What must be steady: one metric of one cell."""

    cell: str
    metric: str = "iops"  # or throughput_bytes_per_s, mean_ns


@dataclass(frozen=True, slots=True)
class Rounds:
    """A PTS-style test as cells, tracking variables and what follows in steady state."""

    name: str
    test: str  # iops | throughput | latency | composite | demand
    form: str  # enterprise | client
    cells: tuple[Cell, ...]
    tracking: tuple[Tracking, ...]
    finale: tuple[Cell, ...] = ()  # measured once, after the window
    max_rounds: int = MAX_ROUNDS
    scale: float = 1.0  # of every duration; below 1 only for demonstrations
    skipped: tuple[Finding, ...] = ()
    kind: str = "pts"
    title: str = "PTS-style test"
    destructive: bool = True
    lasting: Lasting = Lasting.RESULTS

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """From five rounds to 25; bytes from the drive's likely rates."""
        rounds = (min(ROUNDS, self.max_rounds), self.max_rounds)
        one = self.scale * sum(cell.seconds for cell in self.cells)
        last = self.scale * sum(cell.seconds for cell in self.finale)
        rates = [self._bytes_per_round(iops) for iops in hint.random_write_iops]
        written = (round(rounds[0] * rates[0]), round(rounds[1] * rates[1]))
        return StagePlan(
            name=self.name,
            kind=self.kind,
            title=self.title,
            destructive=True,
            jobs=tuple(f"{cell.name}: {cell.workload.label()}" for cell in self.cells),
            seconds=(rounds[0] * one + last, rounds[1] * one + last),
            bytes_written=written,
            fills=(written[0] / target.size_bytes, written[1] / target.size_bytes),
            notes=(f"rounds of {len(self.cells)} cells, until five are alike, at most "
                   f"{self.max_rounds}",),
        )  # fmt: skip

    def _bytes_per_round(self, write_iops: float) -> float:
        """As if every size of block were written at the byte rate of 4 KiB."""
        share = sum(c.seconds * (100 - c.workload.read_percent) / 100 for c in self.cells)
        return self.scale * share * write_iops * 4096

    def run(self, context: Context) -> StageResult:
        """Rounds until all tracking variables are steady, then the finale."""
        started_at, wall = utc_now(), time.monotonic()
        test = _Test(self, context)
        cut_short = test.rounds()
        windows = test.windows()
        steady = bool(windows) and all(window.steady for window in windows)
        last: list[Record] = []
        if not cut_short:
            last, cut_short = test.measure_all(self.finale, 0)
        result = StageResult(
            name=self.name,
            kind=self.kind,
            title=self.title,
            started_at=started_at,
            duration_s=test.seconds,
            wall_s=time.monotonic() - wall,
            bytes_read=test.bytes_read,
            bytes_written=test.bytes_written,
            summary=self._summary(steady=steady, rounds=test.count),
            findings=tuple(self._findings(steady=steady, cut_short=cut_short)),
            data={
                "steady_state": [
                    _header(tracked, window)
                    for tracked, window in zip(self.tracking, windows, strict=False)
                ],
                "means_over_the_window": _means(test.records, windows),
                **({"in_steady_state": last} if last else {}),
                "rounds": test.records,
            },
            complete=not cut_short,
        )
        if result.complete:
            context.store.save("stage.json", result)
        return result

    def _summary(self, *, steady: bool, rounds: int) -> dict[str, str | int | float | bool | None]:
        depths = sorted({c.workload.iodepth for c in self.cells})
        threads = sorted({c.workload.numjobs for c in self.cells})
        range_ = self.cells[0].workload.range
        return {
            "test": f"PTS-style {self.test}, {self.form} form",
            "steady_state": "reached" if steady else "not reached",
            "rounds": rounds,
            "active_range_bytes": range_.length_bytes,
            "data_pattern": str(self.cells[0].workload.content),
            "outstanding_per_thread": ", ".join(map(str, depths)),
            "threads": ", ".join(map(str, threads)),
            "durations": "as in the standard" if self.scale == 1 else f"SCALED by {self.scale:g}",
        }

    def _findings(self, *, steady: bool, cut_short: str) -> list[Finding]:
        found = list(self.skipped)
        if self.scale != 1:
            found.append(
                Finding(
                    code=Code.QUICK_RULE,
                    severity=Severity.INVALIDATES,
                    message=f"all durations of the standard were scaled by {self.scale:g}",
                    advice="Set `scale: 1` for anything but a demonstration.",
                    stage=self.name,
                )
            )
        if cut_short:
            found.append(
                Finding(
                    code=Code.CUT_SHORT,
                    severity=Severity.INVALIDATES,
                    message=f"the test ended early: {cut_short}",
                    advice="Go on with `ssdbench resume`, which begins this test again.",
                    stage=self.name,
                )
            )
        elif not steady:
            found.append(
                Finding(
                    code=Code.NOT_STEADY,
                    severity=Severity.INVALIDATES,
                    message=f"steady state not reached in {self.max_rounds} rounds; what is shown "
                    "are the last five",
                    advice="See the convergence plots; the standard lets you go on or stop.",
                    stage=self.name,
                )
            )
        return found


class _Test:
    """One test at work."""

    def __init__(self, asked: Rounds, context: Context) -> None:
        self._asked = asked
        self._context = context
        self._reporter = Reporter(asked.name, emit=context.emit, wall=context.wall)
        self.records: list[Record] = []
        self.count = 0
        self.seconds = 0.0
        self.bytes_read = 0
        self.bytes_written = 0

    def rounds(self) -> str:
        """Rounds until steady or the maximum; why it ended early, if it did."""
        for number in range(1, self._asked.max_rounds + 1):
            records, cut_short = self.measure_all(self._asked.cells, number)
            if cut_short:
                return cut_short
            self.records += records
            self.count = number
            self._context.session.save()
            if number >= ROUNDS and all(window.steady for window in self.windows()):
                break
        return ""

    def windows(self) -> list[RoundWindow]:
        """The newest window of each tracking variable; none before the first round."""
        if not self.count:
            return []
        return [
            round_window([float(str(r[t.metric])) for r in self.records if r["cell"] == t.cell])
            for t in self._asked.tracking
        ]

    def measure_all(self, cells: Sequence[Cell], number: int) -> tuple[list[Record], str]:
        """One pass over cells, and why it ended early, if it did."""
        records: list[Record] = []
        for place, cell in enumerate(cells):
            limit = self._context.meter.exceeded(ahead_bytes=LEAST_AHEAD_BYTES)
            if limit:
                return records, limit
            done = (number - 1 + place / len(cells)) / self._asked.max_rounds
            self._reporter.doing(f"round {number}, {cell.name}", partial(max, done, 0.0))
            record, cut_short = self._cell(cell, number, place)
            if cut_short:
                return records, cut_short
            records.append(record)
        return records, ""

    def _cell(self, cell: Cell, number: int, place: int) -> tuple[Record, str]:
        unit = f"round-{number:02d}/{place:02d}"
        seconds = cell.seconds * self._asked.scale
        job = Job(
            name="measure",
            workload=cell.workload,
            seed=derived(self._context.seed, self._asked.name, unit),
            runtime_s=seconds,
            histogram_log=True,
        )
        with Section(
            self._context,
            [job],
            directory=self._context.store.fresh_directory(unit),
            unit=unit,
            phase="measure",
            reporter=self._reporter,
        ) as section:
            for _ in section:
                pass
            outcome = section.outcome()
        length = float(section.series.t_s[-1]) if len(section.series) else 0.0
        self.seconds += length
        self.bytes_read += section.bytes_read
        self.bytes_written += section.bytes_written
        latency = Histogram.merged(
            outcome.latency(direction, from_s=0.0, to_s=length) for direction in ("read", "write")
        )
        ios = float(
            section.series.column("read_ios").sum() + section.series.column("write_ios").sum()
        )
        record: Record = {
            "round": number,
            "cell": cell.name,
            "block_bytes": cell.workload.block_bytes,
            "read_percent": cell.workload.read_percent,
            "queue": cell.workload.iodepth,
            "threads": cell.workload.numjobs,
            "iops": ios / length if length else 0.0,
            "throughput_bytes_per_s": (section.bytes_read + section.bytes_written) / length
            if length
            else 0.0,
            "mean_ns": latency.mean_ns() if latency.n else 0.0,
            "p99.999_ns": latency.percentile_ns(0.99999) if latency.n else 0.0,
            "max_ns": latency.max_ns() if latency.n else 0.0,
        }
        return record, section.cut_short


def _header(tracked: Tracking, window: RoundWindow) -> Record:
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
        "window": f"rounds {window.rounds[0]} to {window.rounds[-1]}",
        "steady": window.steady,
    }


_AVERAGED = ("iops", "throughput_bytes_per_s", "mean_ns", "max_ns")


def _means(records: Sequence[Record], windows: Sequence[RoundWindow]) -> list[Record]:
    """Every cell averaged over the rounds of the window; the maximum is the highest."""
    if not windows:
        return []
    inside = [r for r in records if r["round"] in windows[0].rounds]
    found = []
    for cell in dict.fromkeys(record["cell"] for record in inside):
        own = [record for record in inside if record["cell"] == cell]
        numbers = {name: [float(str(r[name])) for r in own] for name in _AVERAGED}
        kept = {
            key: own[0][key] for key in ("cell", "block_bytes", "read_percent", "queue", "threads")
        }
        means = {n: sum(v) / len(v) for n, v in numbers.items() if n != "max_ns"}
        found.append({**kept, **means, "max_ns": max(numbers["max_ns"])})
    return found
