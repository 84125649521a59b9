"""What a capacity plan was not told, what it lacks for that, and what would give it."""

from collections.abc import Iterator
from dataclasses import dataclass

from ssdbench.model.profile import CapacityPlan


@dataclass(frozen=True, slots=True)
class Unknown:
    """Something that the plan cannot say because nobody told what it depends on."""

    what: str
    without: str  # what is missing from the plan for it
    option: str  # of `ssdbench capacity`, which gives it


def unknown(
    wanted: CapacityPlan, *, writes: bool, waf: float | None, reads: float | None
) -> tuple[Unknown, ...]:
    """Every input that is absent; `waf` and `reads` are what the run itself tells, if anything."""
    absent = [(wanted.outstanding, wanted.p99_s) == (None, None), wanted.p99_s is None]
    return (
        *(_of_wear(wanted, waf) if writes else ()),
        *(one for one, is_absent in zip(_OF_LOAD, absent, strict=True) if is_absent),
        *([_REBUILD] if wanted.rebuild_iops is None and wanted.failure_reserve else []),
        *(one for name, one in _OF_SET.items() if getattr(wanted, name) is None),
        *([_READS] if reads is None else []),
    )


def _of_wear(wanted: CapacityPlan, waf: float | None) -> Iterator[Unknown]:
    uncorrected = "life is not corrected for it"
    if wanted.endurance_tb is None:
        yield Unknown("rated endurance", "no life, no drive writes a day", "--endurance")
    if waf is None:
        yield Unknown("write amplification of this workload", uncorrected, "--waf")
    if wanted.waf_rating is None:
        yield Unknown("write amplification behind the rating", uncorrected, "--waf-rating")


_OF_LOAD = (
    Unknown("requests outstanding on a drive", "all depths count", "--outstanding"),
    Unknown("limit of p99", "no limit of latency is kept", "--p99"),
)
_REBUILD = Unknown("load of a rebuild", "none is counted while a drive is missing", "--rebuild")
_READS = Unknown(
    "rate of reads alone at this block size",
    "no room for reads",
    "a point of 100 % reads in the profile, which settles",
)
_OF_SET = {
    "capacity_tb": Unknown("data to hold", "drives are counted for the rate alone", "--capacity"),
    "failure_rate_percent": Unknown("failure rate", "no failures to expect", "--failure-rate"),
    "rebuild_time_s": Unknown(
        "time until a failed drive is replaced and rebuilt",
        "nobody can say how often the reserve is too small",
        "--rebuild-time",
    ),
    "power_w": Unknown("power of a drive", "no power", "--power"),
    "price": Unknown("price of a drive", "no cost", "--price"),
}
