"""Define the JSON documents (`--json`) of the commands that plan, measure, follow or stop a run."""

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
    WriteSize,
)
from ssdbench.model.result import Budget, RunResult
from ssdbench.model.target import TargetInfo
from ssdbench.suite.plan import Question


class Ran(Document):
    """A finished run, from `run` or `resume`; `result` is the content of result.json."""

    document: Literal["run"] = "run"
    directory: str
    report: str
    exit_code: int
    verdict: str
    simulated: bool
    result: RunResult


class RanOne(Part):
    """The outcome of the run on one of several targets."""

    target: str
    directory: str
    exit_code: int
    error: str | None
    ran: Ran | None  # null when an error ended the run


class SideBySide(Part):
    """Whether the drives were measured at the same time, and why."""

    side_by_side: bool
    says: str
    evidence: str | None  # file with all rates of the trial; null when there was no trial


class RanSeveral(Document):
    """The runs on several targets, measured one after another or side by side."""

    document: Literal["run-several"] = "run-several"
    directory: str
    runs: tuple[RanOne, ...]
    trial: SideBySide | None = None  # only with --side-by-side


class Detached(Document):
    """A run in the background, and the commands that follow and stop it."""

    document: Literal["run-detached"] = "run-detached"
    directory: str
    attach: list[str]
    stop: list[str]


class Attached(Document):
    """The end of a run that `attach` or `run --attach-or-start` followed."""

    document: Literal["attach"] = "attach"
    directory: str
    exit_code: int
    report: str


class Stopped(Document):
    """A run that was stopped; `exit_code` is null if the run stored no exit code."""

    document: Literal["stop"] = "stop"
    directory: str
    pid: int
    exit_code: int | None


class BlockSizeEvidence(Part):
    """The measurements behind the answer about the block size."""

    searched: tuple[Searched, ...]
    candidates: tuple[BlockCandidate, ...]
    strides: tuple[StrideScore, ...]
    smallest_effects: tuple[SmallestEffect, ...]


class Inside(Document):
    """A run of `probe` or `detect-blocksize`: its directory, its report, and bytes written."""

    directory: str
    report: str
    simulated: bool
    complete: bool
    bytes_written: int


class BlockSizeAnswered(Inside):
    """The best size and alignment of writes to a drive: its block, its mapping unit, its buffer."""

    document: Literal["detect-blocksize"] = "detect-blocksize"
    answer: str
    write_bytes: int | None
    block_bytes: int | None
    at_most: bool
    remap_unit_bytes: int | None
    stripe_bytes: int | None
    parts: tuple[WriteSize, ...]
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
    """The answer of one probe; numbers of other probes are null."""

    probe: str
    answer: str
    measured: tuple[dict[str, Scalar], ...]


class Probed(Inside):
    """The inner structure of a drive."""

    document: Literal["probe"] = "probe"
    probes: tuple[ProbeAnswer, ...]


class PlannedStage(Part):
    """The plan of a stage; each range goes from the lowest to the highest likely value."""

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
    """The most that a run may write, compared with the rated endurance of the drive."""

    most_bytes: int
    likely_bytes: tuple[int, int] | None
    endurance_tb: float | None
    reported_tb: float | None  # by the drive's own counters of wear and data written
    share: float | None
    said: str


class Planned(Document):
    """What `run` would do."""

    document: Literal["plan"] = "plan"
    title: str
    target: TargetInfo
    simulated: bool
    seed: int
    stages: tuple[PlannedStage, ...]
    seconds: tuple[float, float]
    wait_s: tuple[float, float] | None  # host's time; null for a real drive
    bytes_written: tuple[int, int]
    drive_fills: tuple[float, float]
    longest_s: float  # if each repeat settles as late as it may
    rates: str  # from which the plan is estimated, and their source
    host_settings: dict[str, str]
    host_changes: tuple[str, ...]
    host_notes: tuple[str, ...]
    budget: Budget | None  # the time of --budget and the plan for it; null without --budget
    lba_format: str
    wear: PlannedWear
    question: Question | None  # of `plan` in the profile; null without a demand
    refusals: tuple[str, ...]
    command: tuple[str, ...]  # the command line that runs the plan; empty if no option allows it
