"""A measured point and its repeats, as they are stored."""

from typing import Annotated, Literal

from pydantic import Field

from ssdbench.model.base import Model
from ssdbench.model.estimate import Estimate
from ssdbench.model.finding import Code, Finding, Severity
from ssdbench.model.steadyverdict import SteadyVerdict
from ssdbench.model.unitrecord import UnitRecord
from ssdbench.model.workload import Point

Rate = Annotated[float, Field(ge=0, allow_inf_nan=False)]  # no repeat has another one
Verdict = Literal["VALIDATED", "NOT VALIDATED", "MEASURED, NOT PLANNABLE"]


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


class Repeat(UnitRecord):
    """One measured start of one point."""

    point: str = ""  # Point.id; empty in results of schema 1
    repeat: int
    pass_order: int  # position in its shuffled pass
    sequence: int  # position over all sections of the stage, for the trend test
    seed: int
    settle_s: float
    settle: SteadyVerdict | None
    counts_from_s: float | None = None  # evidence from here on; None in results older than it
    at_fills: float = 0.0  # drive fills that the run had written when it began
    at_s: float | None = None  # of the run, on the target's clock; None in results older than it
    unbroken_s: float = 0.0  # how long its load had to run without a break before its window
    settled_after_s: float = 0.0  # others of its point must settle for as long; 0 for as usual
    measure_from_s: float
    measure_to_s: float
    iops: Rate
    bw_bytes_per_s: Rate
    worst_second_iops: Rate
    worst_minute_iops: Rate
    zone_resets: int | None = None  # settling included; None without zones, and by fio before 3.42
    host: HostDuring | None = None  # None on a simulated drive
    artifacts: str  # directory below the run directory; holds seconds.csv and histograms.npz

    @property
    def settled(self) -> bool:
        """Whether the phase before its window had become steady."""
        return self.settle is None or self.settle.steady

    @property
    def disturbed(self) -> bool:
        """Whether something else was at work on the host or the drive meanwhile."""
        return any(finding.code is Code.DISTURBED for finding in self.findings)


class Basis(Model):
    """What the bound of a point stands on, besides its windows."""

    horizon_s: float  # the bound is about means over this time
    pieces: int  # such means, or shorter ones, behind it
    seconds: float  # of this workload that were judged steady: warm-up, settling, windows, return
    fills: float  # drive fills that the run wrote meanwhile
    rhythm_s: float | None = None  # of the rate, where it has one that matters
    lower_level_iops: float | None = None  # where the rate moves between two levels
    upper_level_iops: float | None = None
    lower_share: float | None = None  # of the time
    unseen_drift_per_fill: float | None = None  # a larger one would have been seen (95 %)
    unseen_drift_per_day: float | None = None  # likewise, of the drive's clock
    longest_wave_s: float | None = None  # a wave of 10 % with a longer period may go unseen


class StreamResult(Model):
    """One stream of a point, or a group of them, over all repeats."""

    name: str
    label: str
    estimates: tuple[Estimate, ...]


class PointResult(Model):
    """One point over all its repeats."""

    point: Point
    repeats: tuple[Repeat, ...]
    estimates: tuple[Estimate, ...]
    verdict: Verdict
    basis: Basis | None = None  # None in results that are older than it
    findings: tuple[Finding, ...] = ()
    streams: tuple[StreamResult, ...] = ()  # where its workload has streams

    def estimate(self, metric: str) -> Estimate | None:
        """The estimate of one metric, or None."""
        return next((e for e in self.estimates if e.metric == metric), None)

    @property
    def unsteady(self) -> bool:
        """Whether something says that the rate was still moving: its numbers are "at most"."""
        return any(
            f.code in (Code.NOT_STEADY, Code.NOT_STEADY_POINT)
            and f.severity is Severity.INVALIDATES
            for f in self.findings
        )
