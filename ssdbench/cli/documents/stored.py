"""Define the documents of commands that read stored runs, logs and traces."""

from typing import Literal

from ssdbench.cli.documents import Document, Part
from ssdbench.model.profile import CapacityPlan
from ssdbench.model.rates import PlannedRound
from ssdbench.model.replay import TraceSummary
from ssdbench.stats.lots.population import LotPoint, Questions
from ssdbench.stats.planning.capacity import Plan
from ssdbench.stats.planning.lotplan import Spread
from ssdbench.stats.planning.runplan import Change, Depth, PlannedLatency, Unknown


class Rendered(Document):
    """The files of a report; the HTML page comes first."""

    document: Literal["report"] = "report"
    report: str
    files: tuple[str, ...]


class ComparedRun(Part):
    """One of the runs that a comparison compares."""

    run: str
    target: str
    simulated: bool
    verdict: str


class ComparedSamples(Part):
    """The comparison of two samples of one point; a positive shift means the second is faster."""

    point: str
    shift_percent: float | None
    shift: float  # Hodges-Lehmann, in IOPS
    shift_low: float | None  # 95 % interval
    shift_high: float | None
    effect: float  # P(second > first) + P(equal)/2; 0.5 means no difference
    p_mann_whitney: float
    p_brunner_munzel: float
    p_holm: float
    answer: str


class ComparedPoint(ComparedSamples):
    """The comparison of one point in two runs; a positive shift means `second` is faster."""

    first: str
    second: str
    p_serial: float
    autocorrelation: float
    entangled: bool
    bounds: tuple[float | None, float | None]  # IOPS of the first and of the second
    bound_percent: float | None
    cannot_tell: bool
    validated: bool


class ComparedNumber(Part):
    """A rate within a limit of latency, or a p99, of two runs."""

    label: str
    metric: str  # rate_within_limit_iops or lat_p99_ns
    direction: str  # read or write; total for both
    first: str
    second: str
    values: tuple[float, float]  # of the first and of the second
    intervals: tuple[tuple[float, float] | None, tuple[float, float] | None]
    p_holm: float | None  # of a rate, from its searches
    differs: bool | None  # null if it cannot be tested
    answer: str
    validated: bool


class Compared(Document):
    """The comparison of stored runs, point by point."""

    document: Literal["compare"] = "compare"
    answer: tuple[str, ...]  # what differs, in words, for each run against the first
    runs: tuple[ComparedRun, ...]
    pairs: tuple[ComparedPoint, ...]
    rates: tuple[ComparedNumber, ...]
    latencies: tuple[ComparedNumber, ...]
    left_out: tuple[str, ...]


class CapacityPlanned(Document):
    """How many drives a demand needs, and the numbers from which this follows."""

    document: Literal["capacity"] = "capacity"
    answer: str  # in one line
    question: str  # the demand in words, with every default
    run: str
    target: str
    simulated: bool
    validated: bool
    verdict: str  # VALIDATED, NOT VALIDATED or INCOMPLETE
    complete: bool
    reasons: tuple[str, ...]
    incomplete: tuple[str, ...]
    unknown: tuple[Unknown, ...]
    notes: tuple[str, ...]
    point: str | None
    why_point: str | None
    depths: tuple[Depth, ...]
    bound_iops: float | None
    slo_iops: float | None
    read_bound_iops: float | None
    waf: float | None
    waf_source: str | None
    power_w: float | None  # of one drive
    power_source: str | None  # whether it is given or measured
    demand: CapacityPlan
    plan: Plan | None
    latencies: tuple[PlannedLatency, ...]  # p99 at the planned load of a drive
    other_load_iops: float | None  # the nearest load with a p99, if none is the planned load
    missed_drives: int | None  # fewer drives, at whose load p99 missed its limit
    kept_load_iops: float | None  # highest validated load of one drive that kept p99
    missed_load_iops: float | None  # lowest such load that missed a limit of p99
    rounds: tuple[PlannedRound, ...]  # at the planned load, if the first missed a limit of p99
    no: str  # a measured no: p99 at each load, of which all missed a limit; empty otherwise
    changes: tuple[Change, ...]  # the same plan with one input changed


class Candidates(Document):
    """Plans with different drives for one demand; with prices, the cheapest valid plan first."""

    document: Literal["capacity-candidates"] = "capacity-candidates"
    answer: str  # in one line
    question: str  # the demand in words, with every default
    candidates: tuple[CapacityPlanned, ...]


class DirectionLatencies(Part):
    """Latency percentiles of reads, writes or trims, by name (p50, p99, p99.9 …)."""

    n: int
    percentiles_ns: dict[str, float | None]  # null when suppressed
    status: dict[str, str]
    max_ns: float


class Latencies(Document):
    """Latency percentiles from fio's logs, by direction (read, write, trim)."""

    document: Literal["latencies"] = "latencies"
    directions: dict[str, DirectionLatencies]


class Traced(Document):
    """Statistics of a trace of block I/O."""

    document: Literal["trace"] = "trace"
    file: str
    trace: TraceSummary


class Donated(Document):
    """An anonymous archive of a run, and the files in it."""

    document: Literal["donate"] = "donate"
    archive: str
    files: tuple[str, ...]


class MergedDrive(Part):
    """A measured drive of a lot."""

    run: str
    target: str
    id: str
    serial: str
    verdict: str
    conditions: dict[str, str | float | None]  # firmware, slot, host, temperature (°C), wear (%)


class Merged(Document):
    """The estimate for a lot and a model from runs of several drives."""

    document: Literal["merge"] = "merge"
    model: str
    size_bytes: int
    simulated: bool
    method: int
    profile_sha256: str  # of the profile that the runs used
    asked: Questions
    drives: tuple[MergedDrive, ...]
    points: tuple[LotPoint, ...]  # `rates` have the order of `drives`
    notes: tuple[str, ...]


class LotPlanned(Document):
    """How many drives a demand needs, from runs of a whole lot."""

    document: Literal["capacity-lot"] = "capacity-lot"
    spread: Spread
    runs: tuple[str, ...]
    rates_iops: tuple[float, ...]  # one per run; 0 for a drive that counts as a failure
    planned: CapacityPlanned  # its bound is for one drive of the set


class ComparedLotPoint(ComparedSamples):
    """The comparison of one point in two lots, where each drive is one sample."""

    drives: tuple[int, int]
    failed: tuple[int, int]
    median_iops: tuple[float, float]


class ComparedLots(Document):
    """The comparison of two lots of drives, point by point."""

    document: Literal["compare-population"] = "compare-population"
    lots: tuple[str, str]
    pairs: tuple[ComparedLotPoint, ...]
    notes: tuple[str, ...]


class StoreAdded(Document):
    """Runs that were added to a store, and runs that were already in the store."""

    document: Literal["store-add"] = "store-add"
    directory: str
    added: tuple[str, ...]
    there: tuple[str, ...]


class StoreChecked(Document):
    """The damage found in a store, one sentence each; empty when the store is whole."""

    document: Literal["store-check"] = "store-check"
    directory: str
    parts: int
    runs: int
    wrong: tuple[str, ...]


class StoreCompacted(Document):
    """The number of parts by which a store shrank when it was compacted."""

    document: Literal["store-compact"] = "store-compact"
    directory: str
    fewer: int


class StoreSigned(Document):
    """Parts of a store that this command signed."""

    document: Literal["store-sign"] = "store-sign"
    directory: str
    signed: tuple[str, ...]


class Queried(Document):
    """The rows of a query; a value without a type in JSON becomes text."""

    document: Literal["query"] = "query"
    columns: tuple[str, ...]
    rows: tuple[tuple[str | int | float | bool | None, ...], ...]
    method: int | None
    notes: tuple[str, ...]
