"""Parse and format sizes, durations and rates.

Sizes of blocks and ranges have binary units (`4KiB`, `4k`). Capacities and throughput are printed
in decimal units, as makers do. In the code, a size is an `int` in bytes, and a time is an `int` in
nanoseconds or a `float` in seconds; the name says the unit.
"""

import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import TypeVar

from ssdbench.foreign import brief

N = TypeVar("N", int, float)
KIB = 1024
MIB = 1024**2
GIB = 1024**3
TIB = 1024**4
NS_PER_S = 1_000_000_000
LARGEST_BYTES = 2**63 - 1  # the kernel has signed 64-bit sizes
LONGEST_NS = 100 * 365 * 86_400 * NS_PER_S
MOST_PERCENT = 1_000_000
MOST_DIGITS = 30  # of a number; a longer one is too large
MOST_GIVEN = 100  # characters of a wrong value that a message shows

_BINARY: dict[str, int] = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgtp", start=1):
    _BINARY[_letter] = _BINARY[f"{_letter}ib"] = 1024**_power

_DURATION_NS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": NS_PER_S,
    "m": 60 * NS_PER_S,
    "min": 60 * NS_PER_S,
    "h": 3600 * NS_PER_S,
    "d": 86400 * NS_PER_S,
}

_DECIMAL = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_FIGURE = re.compile(r"\s*([0-9]{1,30}(?:\.[0-9]{1,30})?)\s*([kKMGTP]?)(|B|B/s)\s*")
_NUMBER = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z%µ]*)\s*")


def parse_size(text: object) -> int:
    """Parse a size such as `4k`, `4KiB`, `512` or `1.5GiB`; return bytes.

    `4KB` is refused, because it may mean 4000 or 4096. Raises ValueError with a sentence.
    """
    if isinstance(text, bool) or not isinstance(text, str | int):
        raise ValueError(f"a size looks like 4KiB or 512, got {_given(text)}")
    size = text if isinstance(text, int) else _size(text)
    if size < 0:
        raise ValueError(f"a size cannot be negative, got {_given(text)}")
    if size > LARGEST_BYTES:
        raise ValueError(f"a size is below 8,192 PiB, got {_given(text)}")
    return size


def _size(text: str) -> int:
    found = _NUMBER.fullmatch(text)
    if not found:
        raise ValueError(f"a size looks like 4KiB or 512, got {_given(text)}")
    number, unit = found.groups()
    if re.fullmatch(r"[kmgtp]b", unit.lower()):
        first = unit[0].upper() if unit[0].lower() != "k" else "K"
        raise ValueError(
            f"{_given(text)} is ambiguous (1000 or 1024?); write {brief(number, MOST_GIVEN)}"
            f"{first}iB for the binary size"
        )
    factor = _BINARY.get(unit.lower())
    if factor is None:
        raise ValueError(
            f"unknown unit {_given(unit)} in size {_given(text)}; write B, KiB, MiB, GiB or TiB"
        )
    whole, _, fraction = number.partition(".")
    if len(whole.lstrip("0")) > MOST_DIGITS or len(fraction) > MOST_DIGITS:
        return LARGEST_BYTES + 1
    scaled = int(whole + fraction) * int(factor)
    size, rest = divmod(scaled, int(10 ** len(fraction)))
    if rest:
        raise ValueError(f"{_given(text)} is not a whole number of bytes")
    return size


def parse_duration_ns(text: object) -> int:
    """Parse a duration such as `10ms`, `90s` or `1.5h`; return nanoseconds.

    A number without a unit is refused. Raises ValueError with a sentence.
    """
    found = _NUMBER.fullmatch(text) if isinstance(text, str) else None
    factor = _DURATION_NS.get(found.group(2)) if found else None
    if not found or factor is None:
        raise ValueError(f"a duration looks like 10ms, 90s or 2h, got {_given(text)}")
    duration_ns = float(found.group(1)) * factor
    if duration_ns > LONGEST_NS:
        raise ValueError(f"a duration is at most 100 years, got {_given(text)}")
    return round(duration_ns)


def parse_percent(text: object) -> float:
    """Parse a percentage, such as `25%` gives 25.0. Raises ValueError with a sentence."""
    found = _NUMBER.fullmatch(text) if isinstance(text, str) else None
    if not found or found.group(2) != "%":
        raise ValueError(f"a percentage looks like 25%, got {_given(text)}")
    percent = float(found.group(1))
    if percent > MOST_PERCENT:
        raise ValueError(f"a percentage is at most {MOST_PERCENT}%, got {_given(text)}")
    return percent


def parse_figure(value: object, unit: str) -> float:
    """Return a figure of a data sheet as a number, from text such as `200k`, `3.5GB/s`, `7008TB`.

    `unit` is "", "B/s" or "B"; only "" accepts a bare number. Prefixes such as k and M are decimal.
    Raises ValueError with a sentence for the user.
    """
    if not unit and isinstance(value, int | float) and not isinstance(value, bool):
        value = f"{value:f}"
    found = _FIGURE.fullmatch(value) if isinstance(value, str) else None
    if not found or found.group(3) != unit:
        example = {"": "200k", "B/s": "3.5GB/s"}.get(unit, "7008TB")
        raise ValueError(f"a data sheet's figure looks like {example} here, got {_given(value)}")
    return float(found.group(1)) * _DECIMAL[found.group(2).upper()]


def parse_moment(text: str) -> datetime:
    """Parse a time in ISO 8601; without a time zone it is UTC. Raises ValueError."""
    found = datetime.fromisoformat(text)
    if not 1900 < found.year < 9000:  # avoids overflow when zones or durations are added
        raise ValueError(f"the year {found.year} is not between 1901 and 8999")
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)


def _given(value: object) -> str:
    return brief(repr(value), MOST_GIVEN)


def format_size(size_bytes: int) -> str:
    """Format the size of a block or range in binary units, such as `4 KiB`, `1.5 GiB`."""
    for unit, factor in (("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if size_bytes >= factor:
            value = size_bytes / factor
            return f"{value:.0f} {unit}" if value.is_integer() else f"{value:.4g} {unit}"
    return f"{size_bytes} B"


def fills_noun(unit_bytes: int) -> str:
    """Return what a number of fills counts: drive fills, or overwrites of each such unit."""
    return f"overwrites of each {format_size(unit_bytes)} unit" if unit_bytes else "drive fills"


def format_capacity(size_bytes: int) -> str:
    """Format the capacity of a drive in decimal units, such as `160 GB`, `3.84 TB`."""
    for unit, factor in _DECIMAL_UNITS:
        if size_bytes >= factor:
            return f"{size_bytes / factor:.4g} {unit}"
    return f"{size_bytes} B"


_DECIMAL_UNITS = (
    ("PB", 10**15), ("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3),
)  # fmt: skip


def format_rate(bytes_per_s: float) -> str:
    """Format a throughput in decimal units, such as `212 MB/s`."""
    for unit, factor in (("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)):
        if bytes_per_s >= factor:
            return f"{bytes_per_s / factor:.4g} {unit}"
    return f"{bytes_per_s:.4g} B/s"


def format_count(number: float) -> str:
    """Format a count, such as `51,758`; below 1000 with four significant digits: `3.142`."""
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"


def format_figure(number: float, digits: int = 3) -> str:
    """Format a number with significant digits and without exponent, such as `0.00002`, `7,140`."""
    text = f"{number:.{digits}g}"
    return f"{Decimal(text):,f}" if math.isfinite(number) else text


def format_bound(number: float) -> str:
    """Format a lower bound, rounded down to a whole number, or below 100 to three digits."""
    if not 1e-200 < number < 100:
        return format_count(math.floor(number) if math.isfinite(number) else number)
    step = 10.0 ** (math.floor(math.log10(number)) - 2)
    return format_count(math.floor(number / step * (1 + 1e-12)) * step)


def format_change(percent: float) -> str:
    """Format a change with its sign, such as `+5.2 %`, `-0.034 %`; below 0.005 % it is `0 %`."""
    if abs(percent) < 0.005:
        return "0 %"
    digits = 0 if abs(percent) >= 100 else 1
    return f"{percent:+.{digits}f} %" if abs(percent) >= 1 else f"{percent:+.2g} %"


def format_ns(duration_ns: float) -> str:
    """Format a latency in a suitable unit, such as `812 ns`, `81.2 us`, `5.31 ms`, `2.1 s`."""
    for unit, factor in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if duration_ns >= factor:
            return f"{duration_ns / factor:.4g} {unit}"
    return f"{duration_ns:.0f} ns"


def format_minutes(duration_s: float) -> str:
    """Format the length of a test in minutes, or in seconds if short, such as `20 min`, `12 s`."""
    return f"{duration_s / 60:g} min" if duration_s >= 60 else f"{duration_s:g} s"


def format_duration(duration_s: float) -> str:
    """Format a duration, such as `48 s`, `5 min 20 s`, `2 h 05 min`, `3 d 4 h`."""
    if not math.isfinite(duration_s):  # possible in a stored result that was edited
        return "unknown"
    seconds = round(duration_s)
    if seconds < 1:
        return f"{duration_s:.2g} s"
    if seconds < 60:
        return f"{seconds} s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes} min {seconds:02d} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02d} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"


def counted(number: int, noun: str) -> str:
    """Format a number with its noun, such as `1 repeat`, `10 repeats`, `12,000 requests`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def ranged(form: Callable[[N], str], ends: tuple[N, N]) -> str:
    """Format a range, such as `2 h to 3 h`; one number if both ends look equal."""
    low, high = (form(end) for end in ends)
    return low if low == high else f"{low} to {high}"


def listed(items: Sequence[str]) -> str:
    """Join names for a sentence, such as `a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, [", ".join(items[:-1]), *items[-1:]]))
