"""Documents of commands that take many drives together."""

from typing import Literal

from ssdbench.cli.documents import Document, Part
from ssdbench.cli.documents.stored import CapacityPlanned
from ssdbench.stats.lotplan import Spread
from ssdbench.stats.population import LotPoint, Questions


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
