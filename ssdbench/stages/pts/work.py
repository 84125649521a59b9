"""A PTS-style test at work: its sections, what they moved, and why it must end."""

from collections.abc import Iterator, Sequence
from functools import partial

from ssdbench.engine.progress import Reporter
from ssdbench.engine.section import Section
from ssdbench.engine.seeds import derived
from ssdbench.engine.stage import LEAST_AHEAD_BYTES, Context
from ssdbench.generator.base import Job, Outcome, Second
from ssdbench.model.workload import Workload
from ssdbench.stages.pts.parts import SPACING, Cell, Phase, Record
from ssdbench.stats.histogram import LOWER_EDGES_NS, Histogram
from ssdbench.stats.percentiles import INDICATIVE_BEYOND, QUANTILES
from ssdbench.stats.ptsrounds import RoundWindow, round_window
from ssdbench.stats.standardrules import ROUNDS

BINS = "latency_bins"  # of a record


class Work:
    """Cells and phases of one test, one after another."""

    def __init__(self, name: str, context: Context, scale: float) -> None:
        self.seconds = 0.0
        self.bytes_read = 0
        self.bytes_written = 0
        self.cut_short = ""
        self.histograms: dict[str, dict[str, list[int]]] = {}
        self._name = name
        self._context = context
        self._scale = scale
        self._reporter = Reporter(name, emit=context.emit, wall=context.wall)

    def cells(
        self,
        cells: Sequence[Cell],
        number: int,
        *,
        of: int,
        keep: bool = False,
        bins: bool = False,
    ) -> list[Record]:
        """One pass over cells; what came after the end of the run is missing.

        `bins`: each record holds its latencies in bins, so that rounds can be added up.
        """
        records: list[Record] = []
        for place, cell in enumerate(cells):
            done = (number - 1 + place / len(cells)) / of
            text = f"round {number}, {cell.name}" if number else cell.name
            self._reporter.doing(text, partial(max, done, 0.0))
            record = self._cell(cell, number, f"round-{number:02d}/{place:02d}", keep=keep)
            if record is None:
                break
            measured, latency = record
            records.append({**measured, BINS: _sparse(latency)} if bins else measured)
        return records

    def phase(self, phase: Phase, place: int) -> list[Record]:
        """One phase as samples; the drive fills count from its start."""
        unit = f"phase-{place:02d}"
        if self._out_of_limits():
            return []
        sample_s = phase.sample_s * self._scale
        seconds = phase.seconds * self._scale
        job = self._job(phase, unit, seconds, max(1, round(sample_s)))
        samples = _Samples(phase, sample_s)
        began_s, size = self.seconds, self._context.target.size_bytes
        self._reporter.doing(
            phase.name, lambda: _fraction(phase, samples.t_s / seconds, samples.written / size)
        )
        with Section(
            self._context,
            [job],
            directory=self._context.store.fresh_directory(unit),
            unit=unit,
            phase=phase.name,
            reporter=self._reporter,
            step_s=max(1, int(sample_s)),
        ) as section:
            for second in section:
                if samples.add(second) and samples.over(size):
                    section.stop()
            outcome = section.outcome()
        self._moved(section)
        latencies = outcome.latencies(every_s=sample_s)
        return [
            {
                "phase": phase.name,
                "from_start_s": began_s + float(str(record["t_s"])),
                **record,
                "fills": float(str(record["written"])) / size,
                **_latency(latencies.get(place, Histogram.empty())),
            }
            for place, record in enumerate(samples.records)
        ]

    def _cell(
        self, cell: Cell, number: int, unit: str, *, keep: bool
    ) -> tuple[Record, Histogram] | None:
        if self._out_of_limits():
            return None
        job = self._job(cell, unit, cell.seconds * self._scale, 1)
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
        length = self._moved(section)
        if section.cut_short:
            return None
        latency = Histogram.merged(
            outcome.latency(direction, from_s=0.0, to_s=length) for direction in ("read", "write")
        )
        if keep:
            self.histograms[cell.name] = _sparse(latency)
        ios = float(
            section.series.column("read_ios").sum() + section.series.column("write_ios").sum()
        )
        moved = section.bytes_read + section.bytes_written
        measured: Record = {
            "round": number,
            "cell": cell.name,
            "block_bytes": _mean_block(cell.workload),
            "read_percent": cell.workload.read_percent,
            "queue": cell.workload.iodepth,
            "threads": cell.workload.numjobs,
            "iops": ios / length if length else 0.0,
            "throughput_bytes_per_s": moved / length if length else 0.0,
            **_latency(latency),
            **self._cpu(outcome),
        }
        if keep:  # for a table of its own, without levels that too few I/Os lie beyond
            del measured["p99.999_ns"]
            measured |= _levels(latency)
        return measured, latency

    def _cpu(self, outcome: Outcome) -> Record:
        """Of the generator's busiest thread; in virtual time its use is made up."""
        if self._context.target.simulated or not outcome.jobs:
            return {}
        used = max(job.cpu_user_percent + job.cpu_system_percent for job in outcome.jobs)
        return {"cpu_percent": round(used, 2)}

    def _job(self, part: Cell | Phase, unit: str, seconds: float, histogram_s: int) -> Job:
        return Job(
            name="measure",
            workload=part.workload,
            seed=derived(self._context.seed, self._name, unit),
            runtime_s=seconds,
            histogram_log=True,
            histogram_s=histogram_s,
        )

    def _moved(self, section: Section) -> float:
        """Count what a section did; its length."""
        length = float(section.series.t_s[-1]) if len(section.series) else 0.0
        self.seconds += length
        self.bytes_read += section.bytes_read
        self.bytes_written += section.bytes_written
        self.cut_short = section.cut_short
        return length

    def _out_of_limits(self) -> bool:
        if not self.cut_short:
            self.cut_short = self._context.meter.exceeded(ahead_bytes=LEAST_AHEAD_BYTES) or ""
        return bool(self.cut_short)


class _Samples:
    """Seconds of a phase, gathered into samples; a last one that is too short is left out."""

    def __init__(self, phase: Phase, sample_s: float) -> None:
        self.records: list[Record] = []
        self.t_s = 0.0
        self.written = 0
        self._phase = phase
        self._sample_s = sample_s
        self._from_s = 0.0
        self._ios = self._bytes = 0
        self._idle_s = 0.0

    def add(self, second: Second) -> bool:
        """One second on; whether it ended a sample."""
        self.t_s = second.t_s
        self.written += second.write_bytes
        self._ios += second.ios
        self._bytes += second.bytes
        self._idle_s += 0.0 if second.ios else second.duration_s
        if second.t_s < self._from_s + self._sample_s - 1e-6:
            return False
        active_s = self._phase.active_s(self._from_s, second.t_s)
        self.records.append(
            {
                "sample": len(self.records) + 1,
                "t_s": second.t_s,
                "written": self.written,
                "iops": self._ios / active_s,
                "throughput_bytes_per_s": self._bytes / active_s,
                "idle_s": self._idle_s,
            }
        )
        self._from_s = second.t_s
        self._ios = self._bytes = 0
        self._idle_s = 0.0
        return True

    def over(self, size_bytes: int) -> bool:
        """Whether the phase has what it was for."""
        fills = self._phase.fills
        if fills is not None and self.written >= fills * size_bytes:
            return True
        if not self._phase.until_steady or len(self.records) % SPACING != 1:
            return False
        window = window_of(self.records)
        return window is not None and window.steady


def window_of(samples: Sequence[Record]) -> RoundWindow | None:
    """The newest five samples that lie 30 min apart, or None before there are five."""
    rounds = [float(str(record["iops"])) for record in samples[::SPACING]]
    return round_window(rounds) if len(rounds) >= ROUNDS else None


def _fraction(phase: Phase, time: float, fills: float) -> float:
    return max(time, fills / phase.fills if phase.fills else 0.0)


def _latency(latency: Histogram) -> Record:
    if not latency.n:
        return {"min_ns": 0.0, "mean_ns": 0.0, "p99.999_ns": 0.0, "max_ns": 0.0}
    return {
        "min_ns": latency.min_ns(),
        "mean_ns": latency.mean_ns(),
        "p99.999_ns": latency.percentile_ns(0.99999),
        "max_ns": latency.max_ns(),
    }


def _levels(latency: Histogram) -> Iterator[tuple[str, float]]:
    """The levels of the standard's histogram that enough I/Os lie beyond."""
    for name, quantile in QUANTILES.items():
        if quantile >= 0.99 and latency.n * (1 - quantile) >= INDICATIVE_BEYOND:
            yield f"{name}_ns", latency.percentile_ns(quantile)


def _mean_block(workload: Workload) -> int:
    """The block, or the mean of a mixture by its shares."""
    split = workload.block_split or ((workload.block_bytes, 100),)
    return round(sum(size * share for size, share in split) / sum(share for _, share in split))


def _sparse(latency: Histogram) -> dict[str, list[int]]:
    used = latency.counts.nonzero()[0]
    return {
        "latency_ns": LOWER_EDGES_NS[used].tolist(),
        "count": latency.counts[used].tolist(),
    }


def merged(records: Sequence[Record]) -> list[Histogram]:
    """The latencies that records hold in bins, one histogram each; none where they hold none."""
    held = [record[BINS] for record in records if isinstance(record.get(BINS), dict)]
    return [
        Histogram.from_bins(dict(zip(bins["latency_ns"], bins["count"], strict=True)))
        for bins in held
        if isinstance(bins, dict)
    ]
