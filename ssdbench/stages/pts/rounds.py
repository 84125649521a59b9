"""Run PTS-style tests that measure in rounds, until the results of five rounds are alike.

A cell is one workload for one minute. A round measures all cells in the order of the standard.
After each round, each tracking variable (a metric of one cell) is judged over the last five rounds.
The test ends when all variables are steady, or as "steady state not reached" after 25 rounds. A
resumed test keeps its finished rounds. The first round after a resume is not judged, because the
drive may have recovered during the pause.

Overhead: the generator starts once for each cell.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ssdbench.engine.stage import Context, Lasting, Unit
from ssdbench.model.finding import Finding
from ssdbench.model.findings.pts import PtsPaused, PtsWarmUpNotSteady
from ssdbench.model.profile.standard import PtsTest
from ssdbench.model.pts import (
    Pts,
    PtsAbsent,
    PtsCell,
    PtsLatency,
    PtsMeasured,
    PtsRate,
    PtsRound,
)
from ssdbench.stages.pts.stage import (
    PtsStage,
    header,
    measured_by,
    unit,
)
from ssdbench.stages.pts.work import (
    FIVE_NINES,
    LEVEL_BEYOND,
    MAX_ROUNDS,
    Cell,
    Length,
    Measure,
    Phase,
    PtsRecord,
    Tracking,
    histogram_of,
    in_steady_state,
    measured_cell,
    measured_phase,
    window_of,
)
from ssdbench.stats.percentiles import QUANTILES, percentile
from ssdbench.stats.steady.ptsrounds import Demand, RoundWindow, levels, round_window
from ssdbench.stats.steady.rules import ROUNDS

PRE_WRITE_S = 3600.0  # time of writes before each demand's histogram
LEVEL_S = 600.0  # time of each histogram
LEVELS = 3


@dataclass(frozen=True, kw_only=True)
class Rounds(PtsStage):
    """Run a PTS-style test that consists of cells, repeated in rounds, and tracking variables."""

    cells: tuple[Cell, ...]
    tracking: tuple[Tracking, ...]
    absent: tuple[PtsAbsent, ...] = ()  # cells that this drive cannot do
    warm_up: Phase | None = None  # runs until steady, before the first round
    max_rounds: int = MAX_ROUNDS
    units_last = Lasting.CONTENT

    @property
    def parts(self) -> Sequence[Cell]:
        """Return the cells that each round measures."""
        return self.cells

    def lengths(self) -> Iterator[Length]:
        """Yield the time of each cell in five rounds (least) and in all rounds (most)."""
        for cell in self.cells:
            least = min(ROUNDS, self.max_rounds) * cell.seconds
            yield Length(cell.workload, least, self.max_rounds * cell.seconds)
        if self.warm_up:
            yield Length(self.warm_up.workload, 0.0, self.warm_up.seconds)
        if self.test.over_demand:
            seconds = LEVELS * (PRE_WRITE_S + LEVEL_S)
            yield Length(self.cells[0].workload, seconds, seconds)

    def notes(self) -> Sequence[str]:
        """Return a note for the plan that says when the rounds end."""
        count = len(self.cells)
        return [f"rounds of {count} cells, until five are alike, at most {self.max_rounds}"]

    def own_units(self, context: Context, done: Sequence[PtsRecord]) -> Iterator[Unit[Measure]]:
        """Yield warm-up, rounds and, if there are demands, a histogram for each of the three."""
        if self.warm_up:
            yield unit("warm-up", partial(self._warm_up, self.warm_up), self.warm_up.name)
        while not self._over(rounds := measured_by(done).rounds):
            number = len(rounds) + 1
            yield unit(f"round-{number:02d}", partial(self._round, number), f"round {number}")
        if self.test.over_demand:
            demands = [
                Demand(m.cell, m.threads, m.queue, m.iops, m.latency.mean_ns if m.latency else 0.0)
                for m in _means(rounds, self._windows(rounds))
                if not m.pre_write
            ]
            cells = {cell.name: cell for cell in self.cells}
            for level, chosen in levels(demands).items():
                measure = partial(self._level, level, cells[chosen.name])
                yield unit(f"demand-{level}", measure, f"{level} demand")

    def found(self, measured: PtsMeasured) -> Pts:
        """Return each tracking variable's last window, and the means of all cells over a window."""
        windows = self._windows(measured.rounds)
        slim = [
            one.model_copy(
                update={"cells": tuple(c.model_copy(update={"bins": None}) for c in one.cells)}
            )
            for one in measured.rounds
        ]  # without the histograms, which only the means need
        found = self.result(
            measured.model_copy(update={"rounds": tuple(slim)}),
            steady=bool(windows) and all(window.steady for window in windows),
            windows=[
                header(tracked.cell, tracked.metric, window)
                for tracked, window in zip(self.tracking, windows, strict=False)
            ],
            means=_means(measured.rounds, windows),
        )
        return found.model_copy(update={"not_applicable": self.absent})

    def where(self, found: Pts) -> str:
        """Return a text: which rounds were steady, or that none of the rounds were."""
        if found.steady:
            return f"in {found.windows[0].rounds}"
        return f"in {len(found.rounds)} rounds; the last five are shown"

    def about(self, found: Pts) -> Iterator[Finding]:
        """Yield findings: the warm-up was not steady; rounds after a pause were not judged."""
        window = window_of(found.warm_up)
        if found.warm_up and not (window and window.steady):
            yield PtsWarmUpNotSteady().finding()
        if paused := tuple(one.number for one in found.rounds if not one.counted):
            yield PtsPaused(paused).finding()

    def _over(self, rounds: Sequence[PtsRound]) -> bool:
        """Tell whether all tracking variables are steady, or all allowed rounds are done."""
        windows = self._windows(rounds)
        steady = bool(windows) and all(window.steady for window in windows)
        return steady or sum(one.counted for one in rounds) >= self.max_rounds

    def _windows(self, rounds: Sequence[PtsRound]) -> list[RoundWindow]:
        """Return each tracking variable's newest window of five rounds; empty before round 1."""
        counted = [one for one in rounds if one.counted]
        numbers = [one.number for one in counted]
        cells = [cell for one in counted for cell in one.cells]
        return [
            round_window([c.tracked(t.metric) for c in cells if c.cell == t.cell], numbers)
            for t in self.tracking
            if counted
        ]

    def _warm_up(self, phase: Phase, context: Context) -> PtsRecord:
        measured = measured_phase(context, phase, self.scale)
        return PtsRecord(measured=PtsMeasured(warm_up=measured.samples))

    def _round(self, number: int, context: Context) -> PtsRecord | None:
        """Measure one round; return None if the round is cut short."""
        cells: list[PtsCell] = []
        for place, cell in enumerate(self.cells):
            share = (number - 1 + place / len(self.cells)) / self.max_rounds
            context.reporter.doing(f"round {number}, {cell.name}", partial(float, share))
            cell_result = measured_cell(
                context,
                cell,
                self.scale,
                part=f"{place:02d}",
                bins=self.test is PtsTest.LATENCY,  # to merge the histograms of a window
            )
            if cell_result is None:
                return None
            cells.append(cell_result)
        counted = not context.unit.after_pause
        found_round = PtsRound(number=number, counted=counted, cells=tuple(cells))
        return PtsRecord(measured=PtsMeasured(rounds=(found_round,)))

    def _level(self, level: str, chosen: Cell, context: Context) -> PtsRecord | None:
        """Write for an hour, then measure latencies for ten minutes at one demand."""
        phase = Phase(f"pre-write before {level}", self.cells[0].workload, PRE_WRITE_S)
        before = measured_phase(context, phase, self.scale, part="pre-write")
        cell = Cell(f"{level} demand, {chosen.name}", chosen.workload, LEVEL_S)
        found = in_steady_state(context, cell, self.scale, part="histogram")
        if found is None:
            return None
        rates = tuple(PtsRate(phase=s.phase, t_s=s.t_s, iops=s.iops) for s in before.samples)
        return PtsRecord(measured=PtsMeasured(pre_writes=rates, in_steady_state=(found,)))


def _means(rounds: Sequence[PtsRound], windows: Sequence[RoundWindow]) -> list[PtsCell]:
    """Return each cell's means over the rounds of the first variable's window."""
    numbers = windows[0].rounds if windows else ()
    inside = [one.cells for one in rounds if one.counted and one.number in numbers]
    return [_mean(own) for own in zip(*inside, strict=True)]


def _mean(cells: Sequence[PtsCell]) -> PtsCell:
    used = [cell.cpu_percent for cell in cells if cell.cpu_percent is not None]
    return cells[0].model_copy(
        update={
            "iops": sum(cell.iops for cell in cells) / len(cells),
            "throughput_bytes_per_s": sum(c.throughput_bytes_per_s for c in cells) / len(cells),
            "cpu_percent": sum(used) / len(used) if used else None,
            "latency": _latency(cells),
            "bins": None,
        }
    )


def _latency(cells: Sequence[PtsCell]) -> PtsLatency | None:
    """Return mean and extreme latencies over rounds; None if no round has a latency.

    The percentile p99.999 is computed over the I/Os of all rounds together; it is left out if too
    few I/Os are slower.
    """
    seen = [cell.latency for cell in cells if cell.latency is not None]
    if not seen:
        return None
    nines = percentile(
        [histogram_of(cell) for cell in cells if cell.bins is not None], QUANTILES[FIVE_NINES]
    )
    enough = nines is not None and not nines.at_least and nines.beyond >= LEVEL_BEYOND
    return PtsLatency(
        min_ns=min(latency.min_ns for latency in seen),
        mean_ns=sum(latency.mean_ns for latency in seen) / len(seen),
        percentiles_ns={FIVE_NINES: nines.value_ns} if nines and enough else {},
        max_ns=max(latency.max_ns for latency in seen),
    )
