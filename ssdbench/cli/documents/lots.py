"""Documents of commands that take many drives together."""

from typing import Literal

from ssdbench.cli.documents import Document, Part
from ssdbench.cli.documents.stored import CapacityPlanned
from ssdbench.stats.lots.population import LotPoint, Questions
from ssdbench.stats.planning.lotplan import Spread


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
