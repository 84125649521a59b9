"""Define how a measured point, its repeats and its estimates are stored."""

from typing import Annotated, Literal

from pydantic import Field

from ssdbench.model.base import Model
from ssdbench.model.finding import Code, Finding, Severity
from ssdbench.model.workload import Point
from ssdbench.units import fills_noun


class UnitRecord(Model):
    """Store one finished unit of a stage; it is stored before the journal says "finished"."""

    findings: tuple[Finding, ...] = ()


class SteadyVerdict(Model):
    """Store the verdict of one steady-state rule on one series, with the evidence."""

    rule: str
    steady: bool
    checked_s: float  # time of the last check, on the clock of the series
    volume_fills: float  # bytes written by the workload / span, or overwritten units / units
    unit_bytes: int = 0  # mapping unit whose overwrites count as fills; 0: bytes count
    window_from_s: float = 0.0
    window_to_s: float = 0.0
    window_blocks: tuple[float, ...] = ()  # means of the window's blocks, bytes/s or IOPS
    mean: float = 0.0
    lower_bound: float = 0.0  # the rate that the rule would publish
    slope_per_s: float = 0.0  # of the straight line fitted to the window
    intercept: float = 0.0  # its value at window_from_s
    criteria: dict[str, tuple[float, float]] = {}  # name -> (measured, allowed)
    reason: str = ""  # why not steady, as a sentence
    shape: str = "flat"  # flat | bistable | periodic: how the rate moves once it is steady
    lower_mode: float | None = None  # mean of the lower level or phase; bistable and periodic only

    @property
    def fills_are(self) -> str:
        """Return the plural noun for the units that `volume_fills` counts, such as drive fills."""
        return fills_noun(self.unit_bytes)


# These names are what rules call their criteria; all except the counts are shares of the mean.
_CRITERIA = {
    "halves": "Difference between the two halves of the window",
    "cv": "Variation of the tenths of the window (CV)",
    "pairs": "Highest minus lowest fifth of the window",
    "slope": "Drift of the fitted line over the window",
    "newest_minute": "Newest minute below the slowest earlier minute",
    "difference": "Difference between the two sections",
    "excursion": "Highest minus lowest round",
    "drift": "Drift of the levels",
    "visits_per_step": "Changes of level per minute",
    "missing_visits": "Visits to a level still missing",
    "moves": "Rise or fall beyond noise in the judged part",
}
_COUNTS = ("visits_per_step", "missing_visits")


def criterion_words(name: str) -> str:
    """Return the name of a criterion in words."""
    return _CRITERIA.get(name, name.replace("_", " "))


def criterion_value(name: str, value: float) -> str:
    """Format a measured value of a criterion, or its limit, with its unit."""
    if name in _CRITERIA and name not in _COUNTS:
        return f"{100 * value:.2g} %"
    return f"{value:.4g}"


class Estimate(Model):
    """Store a value with its interval, its pessimistic bound, the sample size and the method."""

    metric: str  # iops, bw_bytes_per_s, lat_mean_ns, lat_p99_ns, …
    unit: str  # 1/s, B/s, ns, …
    value: float
    ci_low: float | None = None  # two-sided 95 % interval; None if unknown
    ci_high: float | None = None
    bound: float | None = None  # the pessimistic bound for plans
    n: int = 0  # number of independent samples (repeats, batches or I/Os)
    method: str = ""  # "t on 10 repeats", "merged histograms, n_eff 12 345", …
    direction: str = "total"  # read | write | flush | trim | total
    status: str = "published"  # published | indicative | suppressed
    # The upper limit that is compared with targets, for percentiles that are not published.
    limit_for_targets: float | None = None
    at_least: bool = False  # a latency in fio's last bin, so the true value may be higher
    artifacts: tuple[str, ...] = ()  # paths below the run directory


Rate = Annotated[float, Field(ge=0, allow_inf_nan=False)]  # no repeat has another one
Verdict = Literal["VALIDATED", "NOT VALIDATED", "MEASURED, NOT PLANNABLE"]


class HostDuring(Model):
    """Store the host's state in the measured window of a repeat; None means not reported.

    "Most" and "least" are the extremes over the readings, or over the 10 s between two readings.
    """

    frequency_mhz_least: float | None = None  # mean over the CPUs
    frequency_mhz_most: float | None = None
    temperature_c_most: float | None = None  # of the hottest zone
    stolen_percent_most: float = 0.0  # of the CPUs' time, by the hypervisor
    other_cpus_most: float = 0.0  # CPUs that other programs kept busy
    switches_per_s: float = 0.0
    interrupts_per_s: tuple[float, ...] = ()  # of each CPU
    watts: float | None = None  # mean of the CPU packages (RAPL)
    foreign_ios: int = 0  # requests of other programs on the drive


class PowerDuring(Model):
    """Store the power of the drive in the measured window of a repeat, if it was measured."""

    source: Literal["meter", "drive"]  # the user's meter, or the drive's own health log
    watts: Annotated[float, Field(gt=0, allow_inf_nan=False)]  # mean over the window
    readings: int


class SlowDuring(Model):
    """Store the slow requests of a repeat, in the buckets of the drive's latency monitor."""

    begins_ms: tuple[int, ...]  # where each bucket begins
    of_drive: tuple[int, ...]  # requests in each bucket that the drive also counted
    of_host: tuple[int, ...]  # requests that were slow, but not in the drive


class Repeat(UnitRecord):
    """Store the measurements of one repeat of one point."""

    point: str = ""  # Point.id
    repeat: int
    pass_order: int  # position in its shuffled pass
    sequence: int  # position among all repeats of the stage, for the trend test
    seed: int
    settle_s: float
    settle: SteadyVerdict | None
    counts_from_s: float | None = None  # steady from here on; None in older results
    at_fills: float = 0.0  # drive fills that the run had written before
    at_s: float | None = None  # start, on the target's clock; None in older results
    unbroken_s: float = 0.0  # how long the load had to run without a break before the window
    settled_after_s: float = 0.0  # least settle time for the point's other repeats; 0: as usual
    measure_from_s: float
    measure_to_s: float
    iops: Rate
    bw_bytes_per_s: Rate
    worst_second_iops: Rate
    worst_minute_iops: Rate
    zone_resets: int | None = None  # with the settle phase; None without zones or before fio 3.42
    host: HostDuring | None = None  # None on a simulated drive
    power: PowerDuring | None = None  # of the drive
    slow: SlowDuring | None = None  # None without the drive's latency monitor
    artifacts: str  # directory below the run directory; holds seconds.csv and histograms.npz

    @property
    def settled(self) -> bool:
        """Tell whether the settle phase before the measured window became steady."""
        return self.settle is None or self.settle.steady

    @property
    def disturbed(self) -> bool:
        """Tell whether other work disturbed the host or the drive during the repeat."""
        return any(finding.code is Code.DISTURBED for finding in self.findings)


class Basis(Model):
    """Store the evidence behind the bound of a point, in addition to its measured windows."""

    horizon_s: float  # the bound is for means over this time
    pieces: int  # number of such means, or of shorter ones
    seconds: float  # steady seconds of this workload, in all phases of the run
    fills: float  # drive fills that the run wrote during this time
    rhythm_s: float | None = None  # period of the rate, if it has one that matters
    lower_level_iops: float | None = None  # if the rate moves between two levels
    upper_level_iops: float | None = None
    lower_share: float | None = None  # share of the time on the lower level
    unseen_drift_per_fill: float | None = None  # a larger drift would have been seen (95 %)
    unseen_drift_per_day: float | None = None  # the same per day of the drive's clock
    longest_wave_s: float | None = None  # waves of 10 % with a longer period may be missed


class StreamResult(Model):
    """Store the estimates of one stream of a point, or of a group of streams, over all repeats."""

    name: str
    label: str
    estimates: tuple[Estimate, ...]


class PointResult(Model):
    """Store the result of one point over all its repeats."""

    point: Point
    repeats: tuple[Repeat, ...]
    estimates: tuple[Estimate, ...]
    verdict: Verdict
    basis: Basis | None = None  # None in older results
    findings: tuple[Finding, ...] = ()
    streams: tuple[StreamResult, ...] = ()  # if the workload has streams

    def estimate(self, metric: str) -> Estimate | None:
        """Return the point's estimate of one metric; None if there is no such estimate."""
        return next((e for e in self.estimates if e.metric == metric), None)

    @property
    def unsteady(self) -> bool:
        """Tell whether the rate was still changing, so that its numbers are upper limits."""
        return any(
            f.code in (Code.NOT_STEADY, Code.NOT_STEADY_POINT)
            and f.severity is Severity.INVALIDATES
            for f in self.findings
        )
