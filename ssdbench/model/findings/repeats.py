"""Define findings about repeats: whether they agree, and whether there are enough."""

import math
from typing import ClassVar

from ssdbench.model.finding import Code, FindingKind, NoteKind, Severity, WarningKind
from ssdbench.units import counted, format_change, format_count, format_duration, format_size


class TooFewRepeats(FindingKind):
    """The point has fewer repeats than a bound needs."""

    code = Code.TOO_FEW_REPEATS
    remedy = "Set `repeats` to 10 or more, or resume the run."

    repeats: int
    least: int

    def message(self) -> str:
        return f"only {counted(self.repeats, 'repeat')}; at least {self.least} are needed"


class TooFewSearches(FindingKind):
    """The result has fewer searches for a rate, or trials of a load, than a verdict needs."""

    code = Code.TOO_FEW_REPEATS
    remedy = (
        "Set `repeats` to 5 or more: the lowest of five results is a bound with 97 % confidence."
    )

    searches: int
    least: int
    trials: bool = False  # whether they are trials of one load

    def message(self) -> str:
        one, several = ("trial", "trials") if self.trials else ("search", "searches")
        searches = f"1 {one}" if self.searches == 1 else f"{self.searches} {several}"
        return f"only {searches} finished; at least {self.least} are needed"


class NotSustained(FindingKind):
    """No repeat ran long enough, or was flat enough, to show that the rate of a point lasts."""

    code = Code.NOT_SUSTAINED
    remedy = (
        "Heat, read disturb or spare area that is used up can slow a drive down, but only after "
        "minutes of one load. Leave `settle: {unbroken: 30m}` as it is, and set no shorter "
        "`max_time`; if the rate kept falling, plan with a lower rate than the one shown."
    )

    longest_s: float  # longest time of the load without a break before a window
    least_s: float
    reason: str  # why the rate was not flat in it; empty if it was too short

    def message(self) -> str:
        ran = f"the load ran without a break for {format_duration(self.longest_s)} at most"
        wanted = (
            f"{format_duration(self.least_s)} or more, with a rate that is flat over the last two "
            "thirds, would show that the rate lasts"
        )
        return (
            f"{ran}, and its rate was not flat ({self.reason}); {wanted}"
            if self.reason
            else (f"{ran}; {wanted}")
        )


class SharedChange(FindingKind):
    """The drive's rate changed while another point was measured in the same hours."""

    code = Code.SHARED_CHANGE
    remedy = (
        "A cause that slows one load down for a while may slow all loads. Find out what the "
        "drive or the host does at such times, or measure for longer, so that each load runs at "
        "such a time."
    )

    other: str  # label of the other point
    seen: str  # code of its finding
    alternations: int  # how often the other point was slow before and after this one was not

    def message(self) -> str:
        return (
            f"the drive changed under {self.other} in the same hours ({self.seen}), and nothing "
            "shows that only that load is affected. That would need repeats of this point that "
            "were not slow, each between two slow ones of that load, at least "
            f"{counted(ALTERNATIONS, 'time')}; this was seen {counted(self.alternations, 'time')}"
        )


ENOUGH_PERIODS = 5  # of a wave, for means and bounds that include all of it
ALTERNATIONS = 2  # of a slow point and one that is not, to show that only the first is slow


class Wave(FindingKind):
    """The rate rises and falls over hours."""

    code = Code.WAVE
    severities = (Severity.INVALIDATES, Severity.WARNS)
    remedy = (
        "The drive, or what shares it, has slow hours. Measure for at least five such periods "
        "(`repeats`, `window`), and find what causes them."
    )

    period_s: float
    swing: float  # from the lowest to the highest, as a share of the mean
    periods: float  # number of periods that were measured
    p: float

    def severity(self) -> Severity:
        return Severity.WARNS if self.periods >= ENOUGH_PERIODS else Severity.INVALIDATES

    def message(self) -> str:
        return (
            f"the rate rises and falls by {100 * self.swing:.2g} % about every "
            f"{format_duration(self.period_s)}, and the run saw {self.periods:.1f} such periods "
            f"(p = {self.p:.2g})"
        )


class RepeatsVary(FindingKind):
    """The repeats differ by more than the limit."""

    code = Code.CV_TOO_HIGH
    remedy = (
        "All repeats count and are shown; look for other work on the host and for throttling, "
        "lengthen the windows, and plan with the bound."
    )

    cv: float  # standard deviation over mean
    allowed_cv: float

    def message(self) -> str:
        return (
            f"the repeats vary by {100 * self.cv:.1f} % (coefficient of variation), "
            f"allowed {100 * self.allowed_cv:g} %"
        )


class LevelsSeenTooLittle(FindingKind):
    """The repeats differ because the rate moves between two levels, which were seen too rarely."""

    code = Code.CV_TOO_HIGH
    remedy = (
        "The drive does this, not the host. Set longer windows (`window`) or more repeats, so that "
        "each level is seen more often."
    )

    cv: float  # standard deviation over mean
    allowed_cv: float
    lower_iops: float
    upper_iops: float

    def message(self) -> str:
        return (
            f"the repeats vary by {100 * self.cv:.1f} % (allowed {100 * self.allowed_cv:g} %), "
            f"because the rate moves between about {format_count(self.lower_iops)} and "
            f"{format_count(self.upper_iops)} IOPS; the bound is computed for the lower "
            "level, and the levels were seen too rarely to plan on"
        )


class RhythmTooLong(FindingKind):
    """The repeats differ because the rate is periodic, and its period is longer than a window."""

    code = Code.CV_TOO_HIGH

    cv: float  # standard deviation over mean
    allowed_cv: float
    rhythm_s: float
    window_s: float  # length of a window with five periods
    total_s: float  # of all such windows of the point

    def advice(self) -> str:
        return (
            f"The drive does this, not the host. Windows of {format_duration(self.window_s)} "
            f"(`window`) hold five periods; all windows of this point then take "
            f"{format_duration(self.total_s)}."
        )

    def message(self) -> str:
        return (
            f"the repeats vary by {100 * self.cv:.1f} % (allowed {100 * self.allowed_cv:g} %), "
            f"because the rate changes with a period of {format_duration(self.rhythm_s)} and each "
            "window sees only a part of a period"
        )


class LevelVaries(FindingKind):
    """The rate moves between two levels, and the lower level differs from time to time."""

    code = Code.CV_TOO_HIGH
    remedy = "Set longer windows, so that the bound of the lower level is computed from more data."

    cv: float  # coefficient of variation of the visits to the lower level
    allowed_cv: float
    lower_iops: float

    def message(self) -> str:
        return (
            f"the rate on the lower level, {format_count(self.lower_iops)} IOPS, varies by "
            f"{100 * self.cv:.1f} % (coefficient of variation), allowed {100 * self.allowed_cv:g} %"
        )


class PointOnTwoLevels(WarningKind):
    """The rate of a point keeps returning to a lower level, for which its bound is computed."""

    code = Code.BISTABLE
    remedy = "Plan on the bound, which is computed for the lower level; never plan on the mean."

    lower_iops: float
    upper_iops: float
    lower_share: float  # of the time
    visits: int  # to the lower level

    def message(self) -> str:
        return (
            f"the rate moves between two levels: {format_count(self.lower_iops)} IOPS for "
            f"{100 * self.lower_share:.0f} % of the time ({counted(self.visits, 'visit')}), and "
            f"{format_count(self.upper_iops)}; the bound is computed for the lower level"
        )


class RateChanged(FindingKind):
    """The same workload ran at another rate later in the run than before."""

    code = Code.CHANGED
    remedy = (
        "The rate is no longer the rate that was proven. Let the drive work longer before the "
        "points (`steady: {rule: pss-paranoid}`), look for heat and for other work, and measure "
        "again."
    )

    before_iops: float
    after_iops: float
    place: str
    of_warm_up: bool = False  # whether it was the warm-up's workload, not the point's own

    def message(self) -> str:
        share = 100 * (self.after_iops / self.before_iops - 1) if self.before_iops else 0.0
        way = "down" if share < 0 else "up"
        what = "the warm-up's workload" if self.of_warm_up else "the same workload"
        return (
            f"the rate of {what} is {way} {abs(share):.2g} % {self.place}: "
            f"{format_count(self.before_iops)} IOPS before, "
            f"{format_count(self.after_iops)} since then"
        )


class StoppedInWarmUp(WarningKind):
    """The drive nearly stopped, but only in the warm-up; the bound of a point is this low rate."""

    code = Code.CHANGED
    remedy = (
        "Find the cause in the kernel log, in the drive's health log, and in other work on the "
        "host. If you removed the cause, measure again in a new run; if you cannot exclude that "
        "it happens again, plan on the bound."
    )

    stalled_iops: float
    mean_iops: float  # of all evidence of the point
    horizon_s: float

    def message(self) -> str:
        return (
            f"the drive nearly stopped in the warm-up: {format_count(self.stalled_iops)} IOPS over "
            f"{format_duration(self.horizon_s)}, and {format_count(self.mean_iops)} IOPS on "
            "average after the drive was steady; the bound is the lower rate"
        )


class RepeatsMove(FindingKind):
    """The repeats rise or fall in the order in which they were made."""

    code = Code.TREND
    remedy = "The drive was still changing: use a stricter rule for steady state (`pss-paranoid`)."

    change: float  # from the first to the last, as a share of the median
    tau: float  # Kendall's
    p: float

    def message(self) -> str:
        return (
            f"IOPS changed by {format_change(100 * self.change)} from the first repeat to the last "
            f"(Kendall tau {self.tau:+.2f}, p = {self.p:.2g})"
        )


class WindowsDrift(FindingKind):
    """The rate in the second half of the windows differs from the first half."""

    code = Code.DRIFT_IN_WINDOW
    remedy = "The settle phase was too short for this workload; lengthen it."

    change: float  # second half against first, as a share
    repeats: int
    p: float

    def message(self) -> str:
        change = format_change(100 * self.change)
        return (
            f"the rate in the second half of the windows differs from the first half by {change} "
            f"(over {counted(self.repeats, 'repeat')}, p = {self.p:.2g})"
        )


class TwoModes(WarningKind):
    """The rates of the repeats form two levels."""

    code = Code.BIMODAL
    remedy = "Plan on the lower level; the drive seldom runs at the mean of the two."

    lower_iops: float
    upper_iops: float
    lower_share: float  # of the repeats

    def message(self) -> str:
        return (
            f"the repeats fall on two levels: {format_count(self.lower_iops)} "
            f"IOPS ({100 * self.lower_share:.0f} % of the repeats) and "
            f"{format_count(self.upper_iops)} IOPS"
        )


class FewSamples(NoteKind):
    """Too few I/Os are slower than some percentiles, so these are indicative or left out."""

    code = Code.FEW_SAMPLES
    remedy = "Lengthen the windows or add repeats."

    read_indicative: tuple[str, ...]  # "p99.9"
    read_left_out: tuple[str, ...]
    write_indicative: tuple[str, ...]
    write_left_out: tuple[str, ...]
    flush_indicative: tuple[str, ...]
    flush_left_out: tuple[str, ...]

    def message(self) -> str:
        parts = [
            f"{direction} {', '.join(names)} {words}"
            for direction in ("read", "write", "flush")
            for kind, words in (("indicative", "only indicative"), ("left_out", "left out"))
            if (names := getattr(self, f"{direction}_{kind}"))
        ]
        return f"too few independent I/Os for some percentiles: {'; '.join(parts)}"


class ExtraRepeats(NoteKind):
    """There are more repeats than planned, because the profile allows extra repeats."""

    code = Code.EXTRA_REPEATS

    extra: int
    points: int
    most: int  # per point

    def message(self) -> str:
        return (
            f"{counted(self.extra, 'extra repeat')} of {counted(self.points, 'point')}, declared "
            f"before the run (at most {self.most} per point); all repeats count and are shown"
        )


class WideInterval(WarningKind):
    """The interval of the mean is too wide even after all extra repeats."""

    code = Code.WIDE_INTERVAL
    remedy = "Plan with the bound; for a narrower interval, allow more repeats (raise `most`)."

    repeats: int
    half_width: float  # of the 95 % interval, as a share of the mean; inf without an interval
    declared: float

    def message(self) -> str:
        is_still = (
            f"the 95 % interval is still ±{100 * self.half_width:.2g} %"
            if math.isfinite(self.half_width)
            else "there is no interval yet"
        )
        after = counted(self.repeats, "repeat")
        return f"after {after} {is_still}; the profile asks for ±{100 * self.declared:g} %"


class QueueNotFull(FindingKind):
    """Rate times latency differs from the queue depth of the workload (Little's law, 1961)."""

    code = Code.LITTLE_MISMATCH
    remedy = (
        "The program that makes the load did not keep the queue full, or its times are wrong: give "
        "it more CPU or fewer requests per job."
    )

    in_flight: float  # requests, by IOPS x latency
    queue_depth: int

    def message(self) -> str:
        return (
            f"IOPS x latency gives {self.in_flight:.3g} requests in flight, "
            f"but the workload asked for {self.queue_depth}"
        )


class QueueFull(NoteKind):
    """Requests waited until the kernel took them: the drive's queue had no free slot."""

    code = Code.QUEUE_FULL
    remedy = (
        "More requests in flight than the drive has slots raise the latency, not the rate: use "
        "fewer."
    )

    submit_percent: float  # of the latency

    def message(self) -> str:
        return (
            f"{self.submit_percent:.0f} % of the latency was spent before the kernel took the "
            "request, mostly waiting for a free slot of the drive's queue. The latencies include "
            "this wait and cover whole repeats with their settle phase; the plots over time do "
            "not include this wait"
        )


class WindowHiddenByBuffer(FindingKind):
    """A window wrote too few bytes to exceed the drive's write buffer."""

    code = Code.HIDDEN_BY_BUFFER
    remedy = "Lengthen the measured windows (`window`)."
    windows: ClassVar[str] = "a window"

    buffers_written: float  # in the smallest window, or in all windows together
    least_buffers: float
    buffer_bytes: int

    def message(self) -> str:
        return (
            f"{self.windows} wrote {self.buffers_written:.1f} times the drive's write buffer of "
            f"{format_size(self.buffer_bytes)}; at least {self.least_buffers:g} times are needed"
        )


class WindowsHiddenByBuffer(WindowHiddenByBuffer):
    """All windows of a point together wrote too few bytes to exceed the drive's write buffer."""

    windows: ClassVar[str] = "the windows"

    window_s: float  # length that would be enough; 0 if nothing was written
    total_s: float  # of all such windows

    def advice(self) -> str:
        if not self.window_s:
            return self.remedy
        return (
            f"Lengthen the windows to {format_duration(self.window_s)} (`window`): all together "
            f"then take {format_duration(self.total_s)}, and the point writes "
            f"{format_size(round(self.least_buffers * self.buffer_bytes))}. If a `probe` stage "
            "before the points finds the buffer, ssdbench lengthens the windows itself."
        )
