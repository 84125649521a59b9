"""Documents of commands that read stored runs, logs and traces, of one drive or of many."""

from typing import Literal

from ssdbench.cli.documents import Document, Part
from ssdbench.model.profile import CapacityPlan
from ssdbench.model.replay import TraceSummary
from ssdbench.stats.lots.population import LotPoint, Questions
from ssdbench.stats.planning.capacity import Plan
from ssdbench.stats.planning.lotplan import Spread
from ssdbench.stats.planning.runplan import Change, Depth, Unknown


class Rendered(Document):
    """The files of a report, the page first."""

    document: Literal["report"] = "report"
    schema_version: Literal[1] = 1
    report: str
    files: tuple[str, ...]


class ComparedRun(Part):
    """A run of a comparison."""

    run: str
    target: str
    simulated: bool
    verdict: str


class ComparedPoint(Part):
    """One point of two runs: `second` against `first`."""

    point: str
    first: str
    second: str
    shift_percent: float | None
    shift: float  # Hodges-Lehmann, in IOPS
    shift_low: float | None  # 95 %
    shift_high: float | None
    effect: float  # P(second > first) + P(equal)/2; 0.5 is no difference
    p_mann_whitney: float
    p_brunner_munzel: float
    p_serial: float
    autocorrelation: float
    entangled: bool
    p_holm: float
    bounds: tuple[float | None, float | None]  # IOPS of the first and of the second
    bound_percent: float | None
    cannot_tell: bool
    answer: str
    validated: bool


class Compared(Document):
    """Stored runs side by side."""

    document: Literal["compare"] = "compare"
    schema_version: Literal[1] = 1
    runs: tuple[ComparedRun, ...]
    pairs: tuple[ComparedPoint, ...]
    left_out: tuple[str, ...]


class CapacityPlanned(Document):
    """How many drives a demand needs, and what that stands on."""

    document: Literal["capacity"] = "capacity"
    schema_version: Literal[1] = 1
    run: str
    target: str
    simulated: bool
    validated: bool
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
    demand: CapacityPlan
    plan: Plan | None
    changes: tuple[Change, ...]  # the same plan with one input changed


class Candidates(Document):
    """Several drives for one demand, the cheapest sound one first where prices are given."""

    document: Literal["capacity-candidates"] = "capacity-candidates"
    schema_version: Literal[1] = 1
    candidates: tuple[CapacityPlanned, ...]


class DirectionLatencies(Part):
    """Percentiles of reads, writes or trims, by name (p50, p99, p99.9 …)."""

    n: int
    percentiles_ns: dict[str, float | None]  # null when suppressed
    status: dict[str, str]
    max_ns: float


class Latencies(Document):
    """Percentiles of fio's latency logs, by direction."""

    document: Literal["latencies"] = "latencies"
    schema_version: Literal[1] = 1
    directions: dict[str, DirectionLatencies]


class Traced(Document):
    """A trace of block I/O in numbers."""

    document: Literal["trace"] = "trace"
    schema_version: Literal[1] = 1
    file: str
    trace: TraceSummary


class Donated(Document):
    """An archive that can be given away."""

    document: Literal["donate"] = "donate"
    schema_version: Literal[1] = 1
    archive: str
    files: tuple[str, ...]


class MergedDrive(Part):
    """A drive of the lot."""

    run: str
    target: str
    id: str
    serial: str
    verdict: str
    conditions: dict[str, str | float | None]  # firmware, slot, host, temperature (°C), wear (%)


class Merged(Document):
    """What runs of many drives of one model say together."""

    document: Literal["merge"] = "merge"
    schema_version: Literal[1] = 1
    model: str
    size_bytes: int
    simulated: bool
    method: int
    profile_sha256: str  # of the profile as it was run
    asked: Questions
    drives: tuple[MergedDrive, ...]
    points: tuple[LotPoint, ...]  # `rates` are in the order of `drives`
    notes: tuple[str, ...]


class LotPlanned(Document):
    """How many drives of a lot a demand needs."""

    document: Literal["capacity-lot"] = "capacity-lot"
    schema_version: Literal[1] = 1
    spread: Spread
    runs: tuple[str, ...]
    rates_iops: tuple[float, ...]  # of each run's drive; 0 for one that counts as a failure
    planned: CapacityPlanned  # its bound is that of a drive of the set


class ComparedLotPoint(Part):
    """One point of two lots: the second against the first, with drives as the sample."""

    point: str
    drives: tuple[int, int]
    failed: tuple[int, int]
    median_iops: tuple[float, float]
    shift_percent: float | None
    shift: float  # Hodges-Lehmann, in IOPS
    shift_low: float | None  # 95 %
    shift_high: float | None
    effect: float  # P(drive of the second > of the first) + P(equal)/2
    p_mann_whitney: float
    p_brunner_munzel: float
    p_holm: float
    answer: str


class ComparedLots(Document):
    """Two lots of drives, point by point."""

    document: Literal["compare-population"] = "compare-population"
    schema_version: Literal[1] = 1
    lots: tuple[str, str]
    pairs: tuple[ComparedLotPoint, ...]
    notes: tuple[str, ...]


class StoreAdded(Document):
    """Runs that were added, and those that the store had already."""

    document: Literal["store-add"] = "store-add"
    schema_version: Literal[1] = 1
    directory: str
    added: tuple[str, ...]
    there: tuple[str, ...]


class StoreChecked(Document):
    """What is wrong with a store, a sentence for each; empty when it is whole."""

    document: Literal["store-check"] = "store-check"
    schema_version: Literal[1] = 1
    directory: str
    parts: int
    runs: int
    wrong: tuple[str, ...]


class StoreCompacted(Document):
    """How many parts fewer a store has after it was compacted."""

    document: Literal["store-compact"] = "store-compact"
    schema_version: Literal[1] = 1
    directory: str
    fewer: int


class StoreSigned(Document):
    """Parts that were signed now."""

    document: Literal["store-sign"] = "store-sign"
    schema_version: Literal[1] = 1
    directory: str
    signed: tuple[str, ...]


class Queried(Document):
    """The rows of a query; what is neither number, text nor truth is text."""

    document: Literal["query"] = "query"
    schema_version: Literal[1] = 1
    columns: tuple[str, ...]
    rows: tuple[tuple[str | int | float | bool | None, ...], ...]
    method: int | None
    notes: tuple[str, ...]
