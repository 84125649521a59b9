"""Define the results of stages: one model per kind of stage, identified by its field `kind`.

Each result is a part of a StageResult; the engine adds times, bytes and findings to the
StageResult.
"""

import re
from typing import Annotated, Literal, Self

from pydantic import Field

from ssdbench.model.base import Model
from ssdbench.model.inside import BlockSizeFound, ProbeFound
from ssdbench.model.kind import PointsKind, StageKind
from ssdbench.model.point import PointResult, Repeat, SteadyVerdict, Verdict
from ssdbench.model.pts import Pts
from ssdbench.model.rates import LoadFound, RateFound
from ssdbench.model.replay import ReplayFound
from ssdbench.model.workload import Workload
from ssdbench.units import format_count, format_size

ComparedKind = Literal[
    StageKind.SCHEDULERS,
    StageKind.QUEUE,
    StageKind.ENGINES,
    StageKind.DEPTH,
    StageKind.INTERRUPTS,
    StageKind.LATENCY_PATH,
    StageKind.CPU_COST,
    StageKind.SURFACE,
    StageKind.FILE_WRITERS,
    StageKind.FILE_MIX,
    StageKind.APPLICATIONS,
]


_PAUSES = re.compile(r"(?P<time>[\d.e+-]+ ms) after (?P<share>[\d.e+-]+ %)")


def workload_words(name: str) -> str:
    """Return the name of a workload in words: `1 ms after 10 %` is a pause after 10 % of writes.

    Seeds, directories and stored results have the short name, so it stays.
    """
    found = _PAUSES.fullmatch(name)
    return f"pause of {found['time']} after {found['share']} of the writes" if found else name


class Median(Model):
    """Store the median of one quantity for one workload under one variant.

    A field is None if the host does not report this quantity.
    """

    workload: str
    variant: str
    repeats: int
    iops: float
    iops_least: float
    iops_most: float
    bw_bytes_per_s: int
    lat_p50_ns: int | None = None
    lat_p99_ns: int | None = None
    cpu_us_per_io: float | None = None  # of fio's threads
    host_cpu_us_per_io: float | None = None  # of all programs
    iops_per_core: int | None = None
    iops_per_watt: float | None = None
    merges_per_io: float | None = None
    interrupts_per_io: float | None = None
    in_flight: float | None = None
    more: dict[str, float] = {}  # further values from a probe or a program, by name with unit
    disturbed: int = 0  # number of disturbed repeats

    def spoken(self) -> Self:
        """Return the same median with its workload in words for a reader, as on the page."""
        return self.model_copy(update={"workload": workload_words(self.workload)})


class ThreadsMedian(Median):
    """Store the median for one number of threads on a file system."""

    file_system: str
    state: str  # fresh or aged; with the part of the drive if it is not the whole drive
    threads: int
    direction: str  # read | write


class Comparison(Model):
    """Store a comparison of host settings, or of ways to use a file, under the same workloads."""

    kind: ComparedKind
    medians: tuple[Median, ...] = ()
    repeats: int = 0  # planned passes
    file_system: str = ""  # of the files; empty for the bare drive
    programs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # things that could not be measured
    cells_csv: str = ""


class FileSystemComparison(Model):
    """Store the medians of one file system, fresh and aged, for different numbers of threads."""

    kind: Literal[StageKind.FILESYSTEM] = StageKind.FILESYSTEM
    medians: tuple[ThreadsMedian, ...] = ()
    file_system: str = ""
    made_with: str = ""  # the command
    measured: str = ""  # through the page cache, or not
    notes: tuple[str, ...] = ()
    cells_csv: str = ""


class PurgeDone(Model):
    """Store the method of a purge, and the drive's own reports before and after it."""

    kind: Literal[StageKind.PURGE] = StageKind.PURGE
    done: str = ""
    before: dict[str, str] = {}
    after: dict[str, str] = {}


class FillDone(Model):
    """Store the bytes that the fills wrote, as planned and as two counters show them."""

    kind: Literal[StageKind.PRECONDITION] = StageKind.PRECONDITION
    planned_bytes: int = 0
    counted_bytes: int = 0  # by `counter`
    counter: str = ""  # kernel | simulated drive | none
    smart_written_bytes: int | None = None  # by the drive's health log; None if it has no count
    level_percent: float = 100.0  # of the drive
    filled_bytes: int = 0
    fills: float = 0.0  # bytes written over the capacity
    seconds_csv: tuple[str, ...] = ()
    ordered_bytes_per_s: float | None = None  # at the end of the last fill in order
    random_bytes_per_s: float | None = None  # at the end of the last fill in random order
    random_block_bytes: int = 0
    # whole, sampled: was read back; known: simulated drive; None: not read back, or older version
    read_back: Literal["whole", "sampled", "known"] | None = None
    read_back_bytes: int | None = None
    read_back_reads: int | None = None
    wrong_reads: int | None = None  # returned other data than the fill wrote


class Heated(Model):
    """Store how warm the drive became under the workload that moves most bytes."""

    label: str  # of the workload
    seconds: float
    from_c: float
    to_c: float
    flat: bool  # whether the temperature had stopped rising


class MappingUnit(Model):
    """Store the drive's mapping unit, and whether the measured rates prove this unit.

    A drive that maps its flash in units writes a whole unit for each smaller random write. So, per
    second, such a drive completes as many writes of one unit as smaller writes, but fewer writes of
    two units.
    """

    unit_bytes: int
    source: str  # the source of this size
    block_iops: float  # of the warm-up's writes, which are smaller than the unit
    unit_iops: float = 0.0  # of writes of a unit
    double_iops: float = 0.0  # of writes of two units
    proven: bool = False

    def says(self) -> str:
        """Say whether units or bytes were counted, with the rates that decided it."""
        unit, double = format_size(self.unit_bytes), format_size(2 * self.unit_bytes)
        rates = (
            f"{format_count(self.block_iops)} smaller writes per second, "
            f"{format_count(self.unit_iops)} of {unit}, "
            f"{format_count(self.double_iops)} of {double}"
        )
        if self.proven:
            return (
                f"drive fills are counted in mapping units of {unit} ({self.source}); the rates "
                f"show that this is the unit: {rates}"
            )
        return (
            "drive fills are counted in bytes: the rates do not show that the mapping unit is "
            f"{unit} ({self.source}): {rates}"
        )


class WarmUp(Model):
    """Store the verdict of one rule on steady state under one workload, and of other rules."""

    kind: Literal[StageKind.STEADY] = StageKind.STEADY
    workload: Workload | None = None
    label: str = ""  # of the workload
    verdict: SteadyVerdict | None = None  # None if the warm-up ended before a rate was seen
    says: str = ""
    unit: str = "B/s"  # of the verdict's rates
    other_rules: tuple[SteadyVerdict, ...] = ()  # verdicts of other rules on the same seconds
    heated: Heated | None = None  # None without a sensor, or without another workload
    mapping: MappingUnit | None = None  # None if its writes are not known to be smaller than a unit
    seconds_csv: str = ""


class DeclaredExtra(Model):
    """Store the extra repeats that the profile declared before the run started."""

    most_repeats: int
    unsettled_repeats: int = 0  # extra repeats because some had not settled
    widest_interval_percent: float | None = None
    against_disturbance: bool = False


class WriteLoad(Model):
    """The latency of reads beside one write load."""

    point: str  # its id
    write_iops: float  # offered
    write_bytes_per_s: float
    reached_percent: float  # of the write load, in the repeat that reached least
    read_iops: float
    value_ns: float  # the percentile of the reads
    upper_ns: float | None = None  # its upper 95 % limit; None with too few reads
    kept: bool  # the upper limit is within the limit, and the drive took the write load
    validated: bool


class InterferenceCurve(Model):
    """The latency of one read load for each write load, from the lowest write load.

    All write loads up to `kept_iops` kept the limit; `failed_iops` is the lowest that did not.
    `likely_iops` is the write load at which the line that connects the measured percentiles reaches
    the limit; this ignores the uncertainty of the percentiles.
    """

    readers: str  # for people
    percentile: str
    limit_ns: float
    loads: tuple[WriteLoad, ...]
    kept_iops: float | None = None  # None if the lowest load did not keep the limit
    likely_iops: float | None = None  # None in a jump of the percentile, and above all loads
    failed_iops: float | None = None  # None if all loads kept the limit
    verdict: Verdict = "NOT VALIDATED"


class Points(Model):
    """Store the points that a stage measured, each with its repeats."""

    kind: PointsKind
    points: tuple[PointResult, ...] = ()
    repeats: int = 0  # measured, over all points
    order: tuple[str, ...] = ()  # names of the repeats, in the order of measurement
    declared: DeclaredExtra | None = None
    again: Repeat | None = None  # the warm-up's workload, measured again after all points
    conversions: tuple[Repeat, ...] = ()  # change the layout of the data; part of no point
    host_ceiling_iops: dict[str, float] = {}  # by point: the rate of this host without a drive
    interference: tuple[InterferenceCurve, ...] = ()  # one for each read load


AnyFound = (
    PurgeDone
    | FillDone
    | WarmUp
    | Points
    | Pts
    | RateFound
    | LoadFound
    | ReplayFound
    | BlockSizeFound
    | ProbeFound
    | Comparison
    | FileSystemComparison
)
Found = Annotated[AnyFound, Field(discriminator="kind")]
