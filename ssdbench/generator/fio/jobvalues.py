"""How the values of a job file are read, as fio reads them; pure.

Numbers, times, directions and shares; `jobsizes` has the sizes of requests, `jobrates` how often
they come. Raises UsageError, with the place, for what is none.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ssdbench.errors import UsageError
from ssdbench.foreign import plain
from ssdbench.generator.fio.joboptions import shown
from ssdbench.generator.fio.userjobs import Option
from ssdbench.model.asked.jobs import MOST_NAME

_MIXED = -1
_WAYS: Mapping[str, tuple[int, int]] = {  # percent of reads in what is moved, and of trims in all
    "read": (100, 0),
    "write": (0, 0),
    "trim": (0, 100),
    "rw": (_MIXED, 0),
    "readwrite": (_MIXED, 0),
    "trimwrite": (0, 50),
}
_AT_RANDOM = "rand"
# fio's own: without `kb_base` its ki, mi, gi are powers of 1000, and k, m, g of 1024.
_SIZE = re.compile(r"(0x[0-9a-f]{1,15}|[0-9]{1,18})(?:([kmgtp])(i)?)?b?", re.IGNORECASE)
_POWERS = "kmgtp"
_TIMES_US: Mapping[str, int] = {
    **dict.fromkeys(("us", "usec"), 1),
    **dict.fromkeys(("ms", "msec"), 1000),
    **dict.fromkeys(("s", "sec"), 1_000_000),
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}


def fio_bytes(text: str) -> int | None:
    """A size as fio reads it, or None for what is none."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        return None
    power = _POWERS.index(found[2].lower()) + 1 if found[2] else 0
    number = int(found[1], 16 if found[1].lower().startswith("0x") else 10)
    return number * math.prod([1000 if found[3] else 1024] * power)


def fio_time_us(text: str, *, bare_us: int = 1) -> int | None:
    """A time as fio reads it, in microseconds, or None for what is none.

    `bare_us` is the unit of a number without one.
    """
    found = re.fullmatch(r"([0-9]{1,12})([a-z]*)", text.strip().lower())
    unit_us = {**_TIMES_US, "": bare_us}.get(found[2]) if found else None
    return None if found is None or unit_us is None else int(found[1]) * unit_us


def size_in_bytes(text: str, option: Option) -> int:
    """A size in an option. Raises UsageError for what is none."""
    size = fio_bytes(text)
    if size is None:
        raise UsageError(f"{option.place}: {shown(option)}: {plain(text, MOST_NAME)!r} is no size")
    return size


def by_direction(option: Option) -> tuple[str, str, str]:
    """Values for reads, writes and trims; empty where the option says nothing of one.

    fio's rule (handle_option of its parse.c): the last value is also for those behind it, unless a
    comma follows it.
    """
    parts = [part.strip() for part in option.value.split(",")]
    if len(parts) > 3:
        raise UsageError(f"{option.place}: {shown(option)} has more than three directions")
    reads, writes, trims = (parts[min(side, len(parts) - 1)] for side in range(3))
    return reads, writes, trims


def over(before: Option, option: Option) -> Option:
    """An option that is given again, for each direction: what it leaves empty stays as it was."""
    pairs = zip(by_direction(option), by_direction(before), strict=True)
    return Option(option.name, ",".join(new or old for new, old in pairs), option.place)


@dataclass(frozen=True, slots=True)
class Way:
    """What `rw` says."""

    random: bool
    read_percent: int  # of what is moved
    trim_percent: int  # of the requests
    way: str

    @property
    def shares(self) -> tuple[float, float, float]:
        """Of reads, writes and trims in all requests, in percent."""
        moves = 100 - self.trim_percent
        reads = moves * self.read_percent / 100
        return reads, moves - reads, float(self.trim_percent)


def direction(options: Mapping[str, Option]) -> Way:
    """What `rw` and the share of reads or of writes say; only the last of both is in `options`."""
    option = options.get("rw")
    if option is None:
        return Way(False, 100, 0, "read")
    way, colon, skip = option.value.partition(":")
    plainly = way.removeprefix(_AT_RANDOM)
    if plainly not in _WAYS or way == "randreadwrite":
        raise UsageError(
            f"{option.place}: {shown(option)} is no direction", hint="one of " + ", ".join(_WAYS)
        )
    back = "-" if plainly == way else ""  # a sequence may go backwards
    if colon and fio_bytes(skip.removeprefix(back)) is None:
        raise UsageError(f"{option.place}: {shown(option)}: {skip!r} is no number")
    percent, trims = _WAYS[plainly]
    if percent == _MIXED:
        percent = whole_number(options, "rwmixread", -1, least=0, most=100)
        if percent < 0:
            percent = 100 - whole_number(options, "rwmixwrite", 50, least=0, most=100)
    return Way(plainly != way, percent, trims, option.value)


def whole_number(
    options: Mapping[str, Option], name: str, default: int, *, least: int = 1, most: int
) -> int:
    """An option as a whole number, or its default. Raises UsageError beyond its bounds."""
    option = options.get(name)
    if option is None:
        return default
    number = int(option.value) if re.fullmatch(r"[0-9]{1,9}", option.value) else -1
    if not least <= number <= most:
        raise UsageError(
            f"{option.place}: {shown(option)} is no whole number from {least} to {most:,}"
        )
    return number


def is_nonzero(options: Mapping[str, Option], name: str) -> int:
    """0 where the option is not there or is off; else something else."""
    option = options.get(name)
    return 0 if option is None or re.fullmatch(r"0*[a-z]*", option.value) else 1


def flushes(options: Mapping[str, Option]) -> bool:
    """Whether the job asks for what it writes to be safe."""
    return any(is_nonzero(options, key) for key in ("fsync", "fdatasync")) or is_set(
        options.get("sync")
    )


def is_on(option: Option | None) -> bool:
    """A flag of fio: on when it is named without a value."""
    return option is not None and option.value not in ("0", "false")


def is_set(option: Option | None) -> bool:
    """An option with a value that is not off."""
    return option is not None and option.value not in ("0", "none")
