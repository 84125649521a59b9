"""The sizes of the requests of a job, as fio draws them; pure.

`bs`, `bsrange` and `bssplit` may all be there, also for some directions only. fio draws from a
split if there is one, else from the range, else it takes the one size (get_next_buflen of its
io_u.c), and paces a rate in requests by the smallest (setup_rate of its init.c).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ssdbench.errors import UsageError
from ssdbench.generator.fio.joboptions import shown
from ssdbench.generator.fio.jobvalues import Way, by_direction, size_in_bytes
from ssdbench.generator.fio.userjobs import Option

DEFAULT_BLOCK_BYTES = 4096  # fio's own
LARGEST_BLOCK_BYTES = 64 << 20

_SHARE = re.compile(r"[0-9]{1,3}")

_Split = tuple[tuple[int, int], ...]  # size in bytes and percent, in the user's order
_Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Side:
    """Sizes of the requests of one direction."""

    bytes: tuple[int, ...]  # each one, or the least and the most of a range
    mean_bytes: float
    smallest_bytes: int  # by which fio paces


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of reads, writes and trims, and the options that ask fio for them."""

    sides: tuple[Side, Side, Side]
    options: tuple[tuple[str, str], ...]

    def all(self, does: Way) -> tuple[int, ...]:
        """Each size once, of the directions that there are."""
        return tuple(dict.fromkeys(size for side in self._used(does) for size in side.bytes))

    def smallest_of(self, does: Way) -> tuple[int, ...]:
        """The smallest of each direction that there is."""
        return tuple(side.smallest_bytes for side in self._used(does))

    def several(self, does: Way) -> bool:
        """Whether the requests of some direction are of several sizes."""
        return any(len(side.bytes) > 1 for side in self._used(does))

    def _used(self, does: Way) -> list[Side]:
        return [side for side, share in zip(self.sides, does.shares, strict=True) if share]

    def mean_bytes(self, does: Way) -> float:
        """Of reads and writes; of trims where there is nothing else."""
        shares = does.shares if does.trim_percent == 100 else (*does.shares[:2], 0.0)
        means = [side.mean_bytes for side in self.sides]
        return sum(s * mean for s, mean in zip(shares, means, strict=True)) / sum(shares)

    @property
    def smallest_bytes(self) -> int:
        """Of all directions, whether the job uses them or not: places are rounded to it."""
        return min(side.smallest_bytes for side in self.sides)


def sizes_of(options: Mapping[str, Option]) -> Sizes:
    """What `bs`, `bsrange` and `bssplit` say together, in the user's order."""
    blocks = [DEFAULT_BLOCK_BYTES] * 3
    ranges: list[_Range | None] = [None] * 3
    splits: list[_Split | None] = [None] * 3
    for option in options.values():
        if option.name not in ("bs", "bsrange", "bssplit"):
            continue
        for number, text in enumerate(by_direction(option)):
            if not text:
                continue
            if option.name == "bs":
                blocks[number] = _block(text, option)
            elif option.name == "bsrange":
                ranges[number] = _range(text, option)
            else:
                splits[number] = _split(text, option)
                ranges[number] = _ends(splits[number] or ())
            for ends, split in zip(ranges, splits, strict=True):
                if ends and split and min(size for size, _ in split) < ends[0]:
                    raise UsageError(
                        f"{option.place}: {shown(option)} begins above the smallest size of the "
                        "bssplit before it, and fio then sends nothing",
                        hint="leave out one of both",
                    )
    reads, writes, trims = map(_side, blocks, ranges, splits)
    return Sizes((reads, writes, trims), tuple(_written(blocks, ranges, splits)))


def _written(
    blocks: Sequence[int], ranges: Sequence[_Range | None], splits: Sequence[_Split | None]
) -> Iterator[tuple[str, str]]:
    """As options, in an order in which fio comes to the same; `bs` only where it says something."""
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
    """Of reads, of writes and of trims; the last ones only where they differ."""
    while len(texts) > 1 and texts[-1] == texts[-2]:
        texts = texts[:-1]
    return ",".join(texts)


def _side(block: int, ends: _Range | None, split: _Split | None) -> Side:
    least, most = ends or (block, block)
    if least == most:
        return Side((least,), float(least), least)
    if split is None:
        # Evenly from the least on, over as much as the most is, cut down to a multiple of the
        # least: each multiple comes as often, and the most instead of those above it.
        whole = most // least
        mean = least * least / most * whole * (whole + 1) / 2 + most - whole * least
        return Side((least, most), mean, least)
    # The smallest share is looked at first; what is left of 100 % is for the last.
    order = sorted(split, key=lambda one: one[1])
    left = 100 - sum(share for _, share in order)
    sizes = [
        (min(size - size % least, most), share + (left if number == len(order) else 0))
        for number, (size, share) in enumerate(order, 1)
    ]
    drawn = dict.fromkeys(size for size, share in sorted(sizes) if share)
    return Side(tuple(drawn), sum(size * share for size, share in sizes) / 100, least)


def _block(text: str, option: Option) -> int:
    size = size_in_bytes(text, option)
    if not 0 < size <= LARGEST_BLOCK_BYTES:
        raise UsageError(f"{option.place}: a block of {size} bytes: 1 byte to 64 MiB are possible")
    return size


def _ends(split: _Split) -> _Range:
    return min(size for size, _ in split), max(size for size, _ in split)


def _range(text: str, option: Option) -> _Range:
    low, dash, high = text.partition("-" if "-" in text else ":")
    if not dash:
        raise UsageError(
            f"{option.place}: {shown(option)} is no range", hint="write `bsrange=4k-64k`, or `bs`"
        )
    least, most = sorted((_block(low, option), _block(high, option)))
    return least, most


def _split(text: str, option: Option) -> _Split:
    parts = [part.partition("/") for part in text.split(":")]
    sizes = [_block(size, option) for size, _, _ in parts]
    shares = [share.strip().removesuffix("%") for _, _, share in parts]
    if any(share and not _SHARE.fullmatch(share) for share in shares):
        raise UsageError(f"{option.place}: {shown(option)} has a share that is no whole percentage")
    # A share of 0 is none that is given.
    given = sum(int(share) for share in shares if share)
    empty = sum(not share.strip("0") for share in shares)
    if given > 100 or (given < 100 and not empty):
        raise UsageError(
            f"{option.place}: the shares of {shown(option)} add up to {given} %, not 100 %"
        )
    # As fio does it: what is left is shared evenly, in whole percentages.
    rest = (100 - given) // empty if empty else 0
    return tuple(
        (size, int(share) if share.strip("0") else rest)
        for size, share in zip(sizes, shares, strict=True)
    )
