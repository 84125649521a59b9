"""Read the request sizes and rates of a user's fio job in the way of fio; no I/O.

A job may have `bs`, `bsrange` and `bssplit` at the same time, also for single directions. If
`bssplit` is present, fio chooses random sizes from it; otherwise from `bsrange` if present;
otherwise all requests have the size of `bs` (get_next_buflen of its io_u.c).

fio applies a rate to each direction of each thread. Without Poisson arrivals fio limits bytes per
second; a rate in requests is multiplied by the smallest block size (`usec_for_io` and `setup_rate`
of its backend.c and init.c). With `rate_process=poisson` fio limits requests per second. The limit
is the rate in bytes divided by the smallest block size, also if most requests are larger.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ssdbench.errors import UsageError
from ssdbench.foreign import plain
from ssdbench.generator.fio.arrivals import US_PER_S, arriving_iops
from ssdbench.generator.fio.userjobs import Option
from ssdbench.generator.fio.useroptions import (
    Directions,
    by_direction,
    fio_time_us,
    is_nonzero,
    is_on,
    shown,
    size_in_bytes,
    wrong,
)
from ssdbench.model.profile.streams import MOST_NAME
from ssdbench.model.workload import Arrivals

DEFAULT_BLOCK_BYTES = 4096  # fio's default
LARGEST_BLOCK_BYTES = 64 << 20  # largest read or write
LARGEST_TRIM_BYTES = 4 << 30  # largest trim, which needs no buffer

_SHARE = re.compile(r"([0-9]{1,3})(?:\.[0-9]*)?")

_Split = tuple[tuple[int, int], ...]  # size in bytes and percent, in the user's order
_Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Side:
    """Hold the request sizes of one direction: reads, writes or trims."""

    bytes: tuple[int, ...]  # each size; for a range, its least and its most
    mean_bytes: float
    smallest_bytes: int  # fio computes rates with this size


@dataclass(frozen=True, slots=True)
class Sizes:
    """Hold the sizes of reads, writes and trims, and the fio options that set them."""

    sides: tuple[Side, Side, Side]
    options: tuple[tuple[str, str], ...]
    told: tuple[str, ...] = ()  # sentences about surprises of fio

    def all(self, does: Directions) -> tuple[int, ...]:
        """Return the request sizes of the used directions, without repetitions."""
        return tuple(dict.fromkeys(size for side in self._used(does) for size in side.bytes))

    def smallest_of(self, does: Directions) -> tuple[int, ...]:
        """Return the smallest size of each used direction."""
        return tuple(side.smallest_bytes for side in self._used(does))

    def several(self, does: Directions) -> bool:
        """Tell whether some direction has requests of several sizes."""
        return any(len(side.bytes) > 1 for side in self._used(does))

    def _used(self, does: Directions) -> list[Side]:
        return [side for side, share in zip(self.sides, does.shares, strict=True) if share]

    def mean_bytes(self, does: Directions) -> float:
        """Return the mean size of reads and writes, or of trims if there are only trims."""
        shares = does.shares if does.trim_percent == 100 else (*does.shares[:2], 0.0)
        means = [side.mean_bytes for side in self.sides]
        return sum(s * mean for s, mean in zip(shares, means, strict=True)) / sum(shares)

    @property
    def smallest_bytes(self) -> int:
        """Return the smallest size of all directions, even unused; fio rounds offsets to it."""
        return min(side.smallest_bytes for side in self.sides)


def sizes_of(options: Mapping[str, Option]) -> Sizes:
    """Parse the options `bs`, `bsrange` and `bssplit` in the order in which the user wrote them."""
    blocks = [DEFAULT_BLOCK_BYTES] * 3
    ranges: list[_Range | None] = [None] * 3
    splits: list[_Split | None] = [None] * 3
    told: dict[str, None] = {}  # in order, without repetitions
    for option in options.values():
        if option.name not in ("bs", "bsrange", "bssplit"):
            continue
        for number, text in enumerate(by_direction(option)):
            if not text:
                continue
            if option.name == "bs":
                blocks[number] = _block(re.split("[/:-]", text)[0], option)
            elif option.name == "bsrange":
                ranges[number] = _range(text, option)
            else:
                splits[number] = _split(text, option, told)
                ranges[number] = _ends(splits[number] or ())
            for ends, split in zip(ranges, splits, strict=True):
                if ends and split and min(size for size, _ in split) < ends[0]:
                    raise wrong(
                        option,
                        "begins above the smallest size of the bssplit before it, and fio then "
                        "sends nothing",
                        hint="remove one of the two",
                    )
        if option.name == "bs" and set("/:-") & set(option.value):
            told[
                f"{option.place}: bs has neither shares nor ranges: fio sends reads of "
                f"{blocks[0]}, writes of {blocks[1]} and trims of {blocks[2]} bytes"
            ] = None
    reads, writes, trims = map(_side, blocks, ranges, splits)
    return Sizes((reads, writes, trims), tuple(_written(blocks, ranges, splits)), tuple(told))


def _written(
    blocks: Sequence[int], ranges: Sequence[_Range | None], splits: Sequence[_Split | None]
) -> Iterator[tuple[str, str]]:
    """Yield the sizes as fio options; leave out a `bs` that has no effect."""
    if not all(ranges):
        yield "bs", _joined([str(size) for size in blocks])
    texts = [":".join(f"{size}/{share}" for size, share in split or ()) for split in splits]
    if any(texts):
        yield "bssplit", _joined(texts)
    own = [
        "" if ends is None or (split and _ends(split) == ends) else f"{ends[0]}-{ends[1]}"
        for ends, split in zip(ranges, splits, strict=True)
    ]
    if any(own):
        yield "bsrange", _joined(own)


def _joined(texts: list[str]) -> str:
    """Join the values of reads, writes and trims; while the last two are equal, drop the last."""
    while len(texts) > 1 and texts[-1] == texts[-2]:
        texts = texts[:-1]
    return ",".join(texts)


def _side(block: int, ends: _Range | None, split: _Split | None) -> Side:
    least, most = ends or (block, block)
    if least == most:
        return Side((least,), float(least), least)
    if split is None:
        # fio draws evenly from [least, least + most), rounds down to a multiple of the least, and
        # takes the most for anything above. So all multiples of the least are equally frequent.
        whole = most // least
        mean = least * least / most * whole * (whole + 1) / 2 + most - whole * least
        return Side((least, most), mean, least)
    # fio uses the smallest share first, up to 100 % in sum; the last size gets the remaining
    # percent.
    shares: dict[int, int] = {}
    left = 100
    order = sorted((one for one in split if one[1]), key=lambda one: one[1])
    for number, (size, share) in enumerate(order, 1):
        taken = left if number == len(order) else min(share, left)
        left -= taken
        sent = min(size - size % least, most)
        shares[sent] = shares.get(sent, 0) + taken
    drawn = tuple(size for size, share in sorted(shares.items()) if share)
    return Side(drawn, sum(size * share for size, share in shares.items()) / 100, least)


def _block(text: str, option: Option) -> int:
    size = size_in_bytes(text, option)
    if not 0 < size <= LARGEST_TRIM_BYTES:
        raise wrong(
            option,
            f"has a block of {size} bytes; it must have 1 byte to 64 MiB, of trims up to 4 GiB",
        )
    return size


def _ends(split: _Split) -> _Range:
    return min(size for size, _ in split), max(size for size, _ in split)


def _range(text: str, option: Option) -> _Range:
    low, dash, high = text.partition("-" if "-" in text else ":")
    if not dash:
        raise wrong(option, "is not a range", hint="write `bsrange=4k-64k`, or `bs`")
    least, most = sorted((_block(low, option), _block(high, option)))
    return least, most


def _split(text: str, option: Option, told: dict[str, None]) -> _Split:
    """Parse sizes and shares of one direction like fio; add sentences on changes to `told`.

    fio reads a size up to a "-" and a share up to a "." (split_parse_ddir of its options.c).
    """
    parts = [part.partition("/") for part in text.split(":")]
    sizes = []
    for size, _, _ in parts:
        first, dash, last = size.partition("-")
        sizes.append(_block(first, option))
        if dash:
            _block(last, option)
            told[
                f"{option.place}: bssplit has no ranges: of {plain(size, MOST_NAME)} fio sends "
                f"{plain(first, MOST_NAME)} only"
            ] = None
    shares = []
    for _, _, share in parts:
        found = _SHARE.fullmatch(share.strip().removesuffix("%") or "0")
        if found is None:
            raise wrong(option, "has a share that is not a whole percentage")
        shares.append(min(100, int(found[1])))
    # fio treats a share of 0 as a missing share.
    given, empty = sum(shares), shares.count(0)
    if empty and given > 100:
        raise wrong(
            option,
            f"has shares that add up to {given} %, which leaves less than nothing for a size "
            "without a share",
        )
    if not empty and given != 100:
        told[
            f"{option.place}: the shares of bssplit add up to {given} %, not 100 %: fio takes the "
            "smallest shares first, and the size with the largest share gets the rest of 100 %"
        ] = None
    # Like fio, divide the remaining percent evenly, in whole numbers.
    rest = (100 - given) // empty if empty else 0
    return tuple((size, share or rest) for size, share in zip(sizes, shares, strict=True))


_PACING = ("rate", "rate_iops", "thinktime")


@dataclass(frozen=True, slots=True)
class Offered:
    """Hold the load that a job offers to the drive."""

    does: Directions  # share of reads as the rates make it, not `rwmixread`
    paced: bool = False  # True if a rate or pauses limit the job
    iops: float | None = None  # of all threads together, if rates give it
    told: tuple[str, ...] = ()  # sentences on what fio does differently than one may expect


def offered(options: Mapping[str, Option], numjobs: int, sizes: Sizes, does: Directions) -> Offered:
    """Return the load that a job offers by its rates and pauses. Raises UsageError."""
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
            f"{place}: only the {name} have a rate, and fio fills the remaining time with the "
            "other direction, as fast as the drive allows",
            hint="give both a rate, or write two jobs",
        )
    each = sum(rates)
    if most is not None and (most <= each or is_on(options.get("rate_ignore_thinktime"))):
        told = (
            f"{pause}: the pauses set the pace, not the rate: each job asks for {each:,.6g} "
            f"requests a second, but its pauses allow at most {most:,.6g}"
        )
        return Offered(does, paced=True, told=(told,))
    mixed, told_mix = _mixed(rates, does)
    return Offered(
        mixed, paced=True, iops=each * numjobs, told=tuple(f"{place}: {one}" for one in told_mix)
    )


def _mixed(rates: Sequence[float], does: Directions) -> tuple[Directions, list[str]]:
    """Return the share of reads that results from the rates of reads and writes."""
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
    options: Mapping[str, Option], sizes: Sizes, does: Directions
) -> tuple[tuple[float, ...], bool]:
    """Return a thread's reads, writes and trims per second, and whether a rate is set.

    In a job with trims and writes, the rate of writes also holds for trims (get_rw_ddir and
    set_rw_ddir of fio's io_u.c).
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
    """Return the requests per second that one thread sends at a rate in bytes per second."""
    if not poisson:
        return rate_bytes / side.mean_bytes
    whole = rate_bytes // side.smallest_bytes
    if not whole:
        raise wrong(
            option,
            f"is less than one block of {side.smallest_bytes} bytes a second, with which fio ends "
            "itself under rate_process=poisson",
            hint="set a higher rate, or leave out rate_process",
        )
    # Gaps are whole microseconds, so with more than one request per microsecond they are 0.
    return arriving_iops(whole, Arrivals.POISSON) if whole <= US_PER_S else 0.0


def _between_pauses(options: Mapping[str, Option]) -> tuple[float | None, str]:
    """Return the most requests per second that a thread's pauses allow, and the option's place."""
    pause = options.get("thinktime")
    pause_us = fio_time_us(pause.value) if pause is not None else None
    if pause is None or not pause_us:
        return None, ""
    if is_nonzero(options, "thinktime_iotime") and "thinktime_blocks" not in options:
        return None, ""  # requests between pauses catch up with the rate
    blocks = options.get("thinktime_blocks")
    number = max(1, size_in_bytes(blocks.value, blocks)) if blocks is not None else 1
    return number * US_PER_S / pause_us, f"{pause.place}: {shown(pause)}"
