"""How often the requests of a job come: by its rates, by its pauses, or as fast as it goes; pure.

fio applies a rate to each direction of each thread on its own. Evenly it paces bytes, and a rate in
requests is one of its smallest blocks (`usec_for_io` and `setup_rate` of its backend.c and init.c).
With `rate_process=poisson` it paces requests, as many as smallest blocks would fit into the rate,
whatever their sizes are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ssdbench.errors import UsageError
from ssdbench.generator.fio.joboptions import shown
from ssdbench.generator.fio.jobsizes import Side, Sizes
from ssdbench.generator.fio.jobvalues import (
    Way,
    by_direction,
    fio_time_us,
    is_nonzero,
    is_on,
    size_in_bytes,
)
from ssdbench.generator.fio.pace import US_PER_S, arriving_iops
from ssdbench.generator.fio.userjobs import Option
from ssdbench.model.workload import Arrivals

_PACING = ("rate", "rate_iops", "thinktime")


@dataclass(frozen=True, slots=True)
class Offered:
    """What a job offers a drive."""

    does: Way  # with the share of reads that the rates make, whatever `rwmixread` says
    paced: bool = False  # by a rate, or by pauses
    iops: float | None = None  # over all its threads, where rates say it
    told: tuple[str, ...] = ()  # what fio makes of it that a reader may not expect


def offered(options: Mapping[str, Option], numjobs: int, sizes: Sizes, does: Way) -> Offered:
    """What the rates and pauses of a job offer. Raises UsageError for what fio cannot pace."""
    used = [side for side, share in enumerate(does.shares) if share]
    rates, asked = _rates(options, sizes, does)
    most, pause = _between_pauses(options)
    if not asked and most is None:
        return Offered(does, paced=is_nonzero(options, "thinktime") != 0)
    place = next(options[name].place for name in _PACING if name in options)
    rated = [side for side in used if rates[side]]
    if not rated:
        return Offered(does, paced=True)
    if len(rated) < len(used):
        name = ("reads", "writes")[rated[0]]
        raise UsageError(
            f"{place}: only the {name} have a rate: fio fills all that they leave with the others, "
            "and how many these are is neither the job's nor rwmixread's to say",
            hint="give both a rate, or make two jobs of it",
        )
    each = sum(rates)
    if most is not None and (most <= each or is_on(options.get("rate_ignore_thinktime"))):
        told = (
            f"{pause}: the pauses set the pace and not the rate: {each:,.6g} requests a second of "
            f"each job are asked, and pauses leave at most {most:,.6g}"
        )
        return Offered(does, paced=True, told=(told,))
    mixed, told_mix = _mixed(rates, does)
    return Offered(
        mixed, paced=True, iops=each * numjobs, told=tuple(f"{place}: {one}" for one in told_mix)
    )


def _mixed(rates: Sequence[float], does: Way) -> tuple[Way, list[str]]:
    """With the share of reads that rates make: each direction is sent when it is due."""
    reads, writes, _ = rates
    if not (reads and writes):
        return does, []
    percent = min(99, max(1, round(100 * reads / (reads + writes))))
    if percent == does.read_percent:
        return does, []
    told = (
        f"the rates make {percent} % reads of it, whatever rwmixread says ({does.read_percent} %)"
    )
    return replace(does, read_percent=percent), [told]


def _rates(
    options: Mapping[str, Option], sizes: Sizes, does: Way
) -> tuple[tuple[float, ...], bool]:
    """Requests per second of one thread, of reads, writes and trims; and whether a rate is asked.

    A trim before a write waits for the rate of the writes (get_rw_ddir and set_rw_ddir of fio's
    io_u.c).
    """
    before_writes = 0 < does.trim_percent < 100
    process = options.get("rate_process")
    poisson = process is not None and process.value == str(Arrivals.POISSON)
    found = [0.0, 0.0, 0.0]
    asked = False
    for name in ("rate_iops", "rate"):
        if (option := options.get(name)) is None:
            continue
        texts = by_direction(option)
        values = [size_in_bytes(text, option) if text else 0 for text in texts]
        asked |= any(values)
        for number, (side, share) in enumerate(zip(sizes.sides, does.shares, strict=True)):
            value = values[1 if before_writes else number]
            if value and share:
                rate_bytes = value * side.smallest_bytes if name == "rate_iops" else value
                found[number] = _sent(rate_bytes, side, option, poisson=poisson)
    return tuple(found), asked


def _sent(rate_bytes: int, side: Side, option: Option, *, poisson: bool) -> float:
    """Requests per second that one thread sends of a rate in bytes."""
    if not poisson:
        return rate_bytes / side.mean_bytes
    whole = rate_bytes // side.smallest_bytes
    if not whole:
        raise UsageError(
            f"{option.place}: {shown(option)} is less than one block of {side.smallest_bytes} "
            "bytes a second, at which fio ends itself with rate_process=poisson",
            hint="set a higher rate, or leave out rate_process",
        )
    # Gaps are whole microseconds: of more than one request in each they are 0.
    return arriving_iops(whole, Arrivals.POISSON) if whole <= US_PER_S else 0.0


def _between_pauses(options: Mapping[str, Option]) -> tuple[float | None, str]:
    """Requests per second that the pauses of one thread allow at most, and where they stand."""
    pause = options.get("thinktime")
    pause_us = fio_time_us(pause.value) if pause is not None else None
    if pause is None or not pause_us:
        return None, ""
    if is_nonzero(options, "thinktime_iotime") and "thinktime_blocks" not in options:
        return None, ""  # between pauses requests flow for a time, and what was missed is made up
    blocks = options.get("thinktime_blocks")
    number = max(1, size_in_bytes(blocks.value, blocks)) if blocks is not None else 1
    return number * US_PER_S / pause_us, f"{pause.place}: {shown(pause)}"
