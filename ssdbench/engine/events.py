"""What happens during a run, as values; the command line renders them, tests compare them."""

from dataclasses import dataclass
from pathlib import Path

from ssdbench.model.finding import Finding
from ssdbench.model.result import RunResult, StageResult
from ssdbench.model.target import TargetInfo


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The run directory exists and the first stage is about to begin."""

    run_id: str
    directory: Path
    target: TargetInfo
    stages: tuple[str, ...]  # titles, in order
    resumed: bool = False


@dataclass(frozen=True, slots=True)
class StageStarted:
    """A stage begins; `number` counts from 1 to `of`."""

    stage: str  # "02-steady"
    title: str
    number: int
    of: int
    seconds: tuple[float, float] = (0.0, 0.0)  # estimate on the target's clock, low and high
    ends_after_s: tuple[float, float] | None = None  # the run; None while nothing is known of it


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a stage is; sent at most about once a second of wall time."""

    stage: str
    fraction: float | None  # 0 to 1; None while nobody can tell
    left_s: float | None  # seconds of wall time left in this stage, None while unknown
    text: str  # what it does, such as "4 KiB random write, QD 32 x 4, repeat 2 of 10"
    rate_bytes_per_s: float = 0.0
    rate_iops: float = 0.0
    written_fills: float | None = None  # by the run so far, as a share of the drive's size
    ran_s: float = 0.0  # the run so far, on the target's clock
    ends_after_s: tuple[float, float] | None = None  # the run; None while nothing is known of it


@dataclass(frozen=True, slots=True)
class FindingRaised:
    """Something that the user must know was seen."""

    finding: Finding


@dataclass(frozen=True, slots=True)
class StageFinished:
    """A stage ended; its result is stored. `reused`: it stood from before a crash."""

    result: StageResult
    reused: bool = False


@dataclass(frozen=True, slots=True)
class RunFinished:
    """The run ended and result.json is written."""

    result: RunResult
    directory: Path


Event = RunStarted | StageStarted | Progress | FindingRaised | StageFinished | RunFinished
