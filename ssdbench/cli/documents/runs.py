"""Documents of commands that plan or measure a run, and of those that follow one."""

from typing import Literal

from ssdbench.cli.documents import Document, Part
from ssdbench.model.finding import Finding
from ssdbench.model.inside import (
    BlockCandidate,
    ProbeNumbers,
    Scalar,
    Searched,
    SmallestEffect,
    StrideScore,
)
from ssdbench.model.result import Budget, RunResult
from ssdbench.model.target import TargetInfo


class Ran(Document):
    """A run, of `run` and `resume`: its result is result.json in the run directory."""

    document: Literal["run"] = "run"
    schema_version: Literal[1] = 1
    directory: str
    report: str
    exit_code: int
    verdict: str
    simulated: bool
    result: RunResult


class RanOne(Part):
    """What became of one of several targets."""

    target: str
    directory: str
    exit_code: int
    error: str | None
    ran: Ran | None  # None where an error ended the run


class SideBySide(Part):
    """Whether the drives were measured at the same time, and what the trial before that found."""

    side_by_side: bool
    says: str
    evidence: str | None  # file with every rate; None where nothing was tried


class RanSeveral(Document):
    """A run on each of several targets, one after another unless `side_by_side` says otherwise."""

    document: Literal["run-several"] = "run-several"
    schema_version: Literal[1] = 1
    directory: str
    runs: tuple[RanOne, ...]
    trial: SideBySide | None = None  # where --side-by-side was asked for


class Detached(Document):
    """A run that goes on in the background, and the commands that follow and stop it."""

    document: Literal["run-detached"] = "run-detached"
    schema_version: Literal[1] = 1
    directory: str
    attach: list[str]
    stop: list[str]


class Attached(Document):
    """How a run ended that `attach` or `run --attach-or-start` followed."""

    document: Literal["attach"] = "attach"
    schema_version: Literal[1] = 1
    directory: str
    exit_code: int
    report: str


class Stopped(Document):
    """A run that was stopped; `exit_code` is null when it left none."""

    document: Literal["stop"] = "stop"
    schema_version: Literal[1] = 1
    directory: str
    pid: int
    exit_code: int | None


class BlockSizeEvidence(Part):
    """The evidence for the answer."""

    searched: tuple[Searched, ...]
    candidates: tuple[BlockCandidate, ...]
    strides: tuple[StrideScore, ...]
    smallest_effects: tuple[SmallestEffect, ...]


class BlockSizeAnswered(Document):
    """The block size and the write buffer of a drive."""

    document: Literal["detect-blocksize"] = "detect-blocksize"
    schema_version: Literal[1] = 1
    directory: str
    report: str
    simulated: bool
    complete: bool
    bytes_written: int
    answer: str
    block_bytes: int | None
    at_most: bool
    phase_bytes: int | None
    p_value: float | None
    confidence: float | None
    strides_agreeing: int | None
    buffer_bytes: int | None
    buffer_least_bytes: int | None
    buffer_most_bytes: int | None
    buffer: str
    median_latency_ns: float | None
    asked: str
    evidence_from: str | None
    evidence: BlockSizeEvidence
    findings: tuple[Finding, ...]


class ProbeAnswer(ProbeNumbers):
    """The answer of one probe; numbers that are none of its own are null."""

    probe: str
    answer: str
    measured: tuple[dict[str, Scalar], ...]


class Probed(Document):
    """The inner structure of a drive."""

    document: Literal["probe"] = "probe"
    schema_version: Literal[1] = 1
    directory: str
    report: str
    simulated: bool
    complete: bool
    bytes_written: int
    probes: tuple[ProbeAnswer, ...]


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
