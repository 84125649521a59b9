"""The document of `plan`."""

from typing import Literal

from ssdbench.cli.documents import Document, Part
from ssdbench.model.result import Budget
from ssdbench.model.target import TargetInfo


class PlannedStage(Part):
    """What a stage would do; ranges are from the least to the most that is likely."""

    name: str
    kind: str
    title: str
    destructive: bool
    jobs: tuple[str, ...]
    seconds: tuple[float, float]  # on the target's clock
    bytes_written: tuple[int, int]
    bytes_read: tuple[int, int]
    drive_fills: tuple[float, float]
    notes: tuple[str, ...]


class PlannedWear(Part):
    """The most that a run may write, against what the drive is rated for."""

    most_bytes: int
    endurance_tb: float | None
    share: float | None
    said: str


class Planned(Document):
    """What `run` would do."""

    document: Literal["plan"] = "plan"
    schema_version: Literal[1] = 1
    title: str
    target: TargetInfo
    simulated: bool
    seed: int
    stages: tuple[PlannedStage, ...]
    seconds: tuple[float, float]
    bytes_written: tuple[int, int]
    drive_fills: tuple[float, float]
    host_settings: dict[str, str]
    host_changes: tuple[str, ...]
    host_notes: tuple[str, ...]
    budget: Budget | None  # where a time was given, and what fits into it
    lba_format: str
    wear: PlannedWear
    refusals: tuple[str, ...]
    command: tuple[str, ...]  # that would run it; empty when nothing would let it pass
