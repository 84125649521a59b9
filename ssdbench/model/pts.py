"""Define the stored results of a PTS-style test: of its parts, and of the whole test.

In phases with planned pauses, the stored rate is the rate in the bursts between the pauses. A
latency is None, not 0, if no request was completed.
"""

from collections.abc import Iterable
from enum import StrEnum
from itertools import chain
from typing import Literal, Self

from ssdbench.model.base import Model
from ssdbench.model.kind import StageKind
from ssdbench.model.profile.standard import PtsForm, PtsTest
from ssdbench.model.workload import Content


class PtsMetric(StrEnum):
    """Name the metric that a test tracks over its rounds."""

    IOPS = "iops"
    THROUGHPUT = "throughput_bytes_per_s"
    MEAN = "mean_ns"


class PtsBins(Model):
    """Store, for each of fio's bins that is not empty, the number of latencies in the bin."""

    latency_ns: tuple[int, ...]  # lower edges
    count: tuple[int, ...]


class PtsLatency(Model):
    """Store the latencies of the requests that were completed."""

    min_ns: float
    mean_ns: float
    percentiles_ns: dict[str, float] = {}  # by name, such as "p99.999"; never averaged
    max_ns: float


class PtsCell(Model):
    """Store one workload, measured once or averaged over the rounds of the steady window."""

    cell: str  # "0/100 4 KiB"
    block_bytes: int  # the mean if there are several sizes
    read_percent: int
    queue: int
    threads: int
    iops: float
    throughput_bytes_per_s: float
    cpu_percent: float | None = None  # of the generator's busiest thread; None in virtual time
    latency: PtsLatency | None = None
    pre_write: bool = False  # whether it only prepares the cells after it
    bins: PtsBins | None = None  # if latencies are added up or drawn

    def tracked(self, metric: PtsMetric) -> float:
        """Return the cell's value of a metric; a mean latency is 0 if no latency is stored."""
        match metric:
            case PtsMetric.IOPS:
                return self.iops
            case PtsMetric.THROUGHPUT:
                return self.throughput_bytes_per_s
            case PtsMetric.MEAN:
                return self.latency.mean_ns if self.latency else 0.0


class PtsRound(Model):
    """Store one round: a pass over all cells, in the order of the standard."""

    number: int
    counted: bool = True  # False for the first round after a pause: the drive has recovered
    cells: tuple[PtsCell, ...]


class PtsRate(Model):
    """Store the rate of requests in one sample."""

    phase: str
    t_s: float  # end of the sample, since the start of its phase
    iops: float


class PtsSample(PtsRate):
    """Store one sample: a minute of a phase, or whole cycles of bursts and pauses."""

    from_start_s: float  # since the start of the first phase
    sample: int  # from 1, in its phase
    written_bytes: int  # since the start of its phase
    fills: float = 0.0  # the same over the capacity of the drive; 0 in older results
    throughput_bytes_per_s: float
    idle_s: float  # whole seconds without a request
    latency: PtsLatency | None = None


class PtsWaited(Model):
    """Store a phase whose requests waited for queue slots; its samples have no latencies."""

    phase: str
    submit_percent: float  # of the latency
    latency: PtsLatency


class PtsStep(Model):
    """Store one step of the preparation: a purge or a fill."""

    step: str  # purge | fill
    done: str
    took_s: float  # on the target's clock
    written_bytes: int


class PtsWindow(Model):
    """Store one tracking variable over five rounds, as reports of the standard show it."""

    cell: str
    metric: PtsMetric
    first_round: int
    last_round: int
    average: float
    allowed_data_excursion: float
    measured_data_excursion: float
    allowed_slope_excursion: float
    measured_slope_excursion: float
    fit: str  # "-2 x + 108", x the number of the round
    correlation: float
    steady: bool

    @property
    def rounds(self) -> str:
        """Return the rounds of the window in words, such as `rounds 1 to 5`."""
        return f"rounds {self.first_round} to {self.last_round}"


class PtsPhase(Model):
    """Store the averages of one phase."""

    number: int
    phase: str
    samples: int
    iops: float
    throughput_bytes_per_s: float
    mean_ns: float | None
    max_ns: float | None
    idle_s: float
    samples_until_level: int | None  # None if the rate never recovered


class PtsAbsent(Model):
    """Store a cell of the test that this drive cannot do."""

    cell: str
    block_bytes: int
    read_percent: int


class PtsMeasured(Model):
    """Store all measurements of a test, in order."""

    preparation: tuple[PtsStep, ...] = ()
    warm_up: tuple[PtsSample, ...] = ()  # before the first round
    rounds: tuple[PtsRound, ...] = ()
    samples: tuple[PtsSample, ...] = ()  # of all phases
    waited: tuple[PtsWaited, ...] = ()
    pre_writes: tuple[PtsRate, ...] = ()  # before the histogram of each demand
    in_steady_state: tuple[PtsCell, ...] = ()  # measured once, after the window

    @classmethod
    def joined(cls, parts: Iterable["PtsMeasured"]) -> Self:
        """Join the measurements of several parts of a test into one, in order."""
        every = [dict(part) for part in parts]
        return cls(
            **{
                name: tuple(chain.from_iterable(part[name] for part in every))
                for name in PtsMeasured.model_fields
            }
        )


class Pts(PtsMeasured):
    """Store a PTS-style test, with the verdict of the rule of five rounds."""

    kind: Literal[StageKind.PTS] = StageKind.PTS
    test: PtsTest
    load: str = ""  # for a test with several workloads: "65/35 8 KiB"
    form: PtsForm
    scale: float = 1.0  # factor of all durations of the standard
    steady: bool | None = None  # by the PTS rule; None if the test has no rule
    active_range_bytes: int
    data_pattern: Content = Content.RANDOM
    outstanding_per_thread: tuple[int, ...] = ()
    threads: tuple[int, ...] = ()
    block_split: tuple[tuple[int, int], ...] = ()  # ((block bytes, percent), …) of a mixture
    zones: tuple[tuple[float, float], ...] = ()  # ((percent of I/O, percent of range), …)
    windows: tuple[PtsWindow, ...] = ()  # of each tracking variable
    means: tuple[PtsCell, ...] = ()  # over the window; extremes are over all its rounds
    phases: tuple[PtsPhase, ...] = ()
    not_applicable: tuple[PtsAbsent, ...] = ()
