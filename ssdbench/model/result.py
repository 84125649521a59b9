"""What a run found, as it is stored and as reports read it.

Schema history, newest first:
1  the first
"""

from typing import Annotated, Literal

from pydantic import Field

from ssdbench.model.base import Model
from ssdbench.model.estimate import Estimate
from ssdbench.model.finding import Finding
from ssdbench.model.target import TargetInfo
from ssdbench.model.workload import Point
from ssdbench.model.writecache import WriteCache

SCHEMA = 1

Rate = Annotated[float, Field(ge=0, allow_inf_nan=False)]  # no repeat has another one
Verdict = Literal["VALIDATED", "NOT VALIDATED", "MEASURED, NOT PLANNABLE"]


class SteadyVerdict(Model):
    """The answer of one steady-state rule about one series, with its evidence."""

    rule: str
    steady: bool
    checked_s: float  # time of the last check, on the series' clock
    volume_fills: float  # bytes written by the workload / span
    window_from_s: float = 0.0
    window_to_s: float = 0.0
    window_blocks: tuple[float, ...] = ()  # means of the window's blocks, bytes/s or IOPS
    mean: float = 0.0
    lower_bound: float = 0.0  # what the rule is ready to publish
    slope_per_s: float = 0.0  # of the straight line fitted to the window
    intercept: float = 0.0  # its value at window_from_s
    criteria: dict[str, tuple[float, float]] = {}  # name -> (measured, allowed)
    reason: str = ""  # why not steady, as a sentence
    shape: str = "flat"  # flat | bistable | periodic: how the rate moves once it is steady
    lower_mode: float | None = None  # mean of the lower level or phase; bistable and periodic only


class HostDuring(Model):
    """The host in the measured window of a repeat; None where it does not tell.

    "Most" and "least" are those of the readings, or of the 10 s between two of them.
    """

    frequency_mhz_least: float | None = None  # mean over the CPUs
    frequency_mhz_most: float | None = None
    temperature_c_most: float | None = None  # of the hottest zone
    stolen_percent_most: float = 0.0  # of the CPUs' time
    other_cpus_most: float = 0.0  # CPUs kept busy by other programs
    switches_per_s: float = 0.0
    interrupts_per_s: tuple[float, ...] = ()  # of each CPU
    foreign_ios: int = 0  # requests on the drive that were not ours


class Repeat(Model):
    """One measured section of one point."""

    repeat: int
    pass_order: int  # position in its shuffled pass
    sequence: int  # position over all sections of the stage, for the trend test
    seed: int
    settle_s: float
    settle: SteadyVerdict | None
    measure_from_s: float
    measure_to_s: float
    iops: Rate
    bw_bytes_per_s: Rate
    worst_second_iops: Rate
    worst_minute_iops: Rate
    findings: tuple[Finding, ...] = ()
    host: HostDuring | None = None  # None on a simulated drive
    artifacts: str  # directory below the run directory; holds seconds.csv and histograms.npz


class PointResult(Model):
    """One point over all its repeats."""

    point: Point
    repeats: tuple[Repeat, ...]
    estimates: tuple[Estimate, ...]
    verdict: Verdict
    findings: tuple[Finding, ...] = ()

    def estimate(self, metric: str) -> Estimate | None:
        """The estimate of one metric, or None."""
        return next((e for e in self.estimates if e.metric == metric), None)


class StageResult(Model):
    """What one stage did; `series` and other bulk data lie in its directory."""

    name: str  # "02-steady"
    kind: str  # precondition | steady | sweep | span | blocksize | purge | …
    title: str
    started_at: str  # ISO 8601, UTC
    duration_s: float  # on the target's clock
    wall_s: float
    bytes_read: int = 0
    bytes_written: int = 0
    summary: dict[str, str | int | float | bool | None] = {}
    steady: tuple[SteadyVerdict, ...] = ()
    other_rules: tuple[SteadyVerdict, ...] = ()  # what the others say of the same seconds
    points: tuple[PointResult, ...] = ()
    findings: tuple[Finding, ...] = ()
    figures: tuple[dict[str, str], ...] = ()  # {"kind": "series", "csv": path, "title": …}
    data: dict[str, object] = Field(default_factory=dict)  # stage-specific, JSON only
    complete: bool = True


class FlashWritten(Model):
    """Bytes by a drive's own logs: NVMe Data Units Written, OCP Physical Media Units Written."""

    host_bytes: int
    media_bytes: int

    @property
    def amplification(self) -> float:
        """Bytes to flash over bytes from the host."""
        return self.media_bytes / self.host_bytes


class RunResult(Model):
    """A whole run: everything that a report needs besides the bulk files."""

    schema_version: int = SCHEMA
    run_id: str
    title: str
    ssdbench_version: str
    started_at: str
    finished_at: str | None
    target: TargetInfo
    profile_text: str
    seed: int
    verdict: Verdict
    findings: tuple[Finding, ...]
    stages: tuple[StageResult, ...]
    host: dict[str, str] = {}
    settings: tuple[dict[str, str], ...] = ()  # host settings that were changed, with reasons
    bytes_written: int = 0
    endurance_tb: float | None = None  # rated: as given, or as the profile has it
    flash_written: FlashWritten | None = None  # over the run, where the drive's logs tell both
    write_cache: WriteCache | None = None  # None in results that are older than it
    interrupted: bool = False
