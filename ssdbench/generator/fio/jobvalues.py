"""How the values of a job file are read, as fio reads them; pure.

Sizes, directions, shares and rates. Raises UsageError, with the place, for what is none.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ssdbench.errors import UsageError
from ssdbench.foreign import plain
from ssdbench.generator.fio.joboptions import shown
from ssdbench.generator.fio.userjobs import Option
from ssdbench.model.asked.jobs import MOST_NAME

DEFAULT_BLOCK_BYTES = 4096  # fio's own

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


def fio_bytes(text: str) -> int | None:
    """A size as fio reads it, or None for what is none."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        return None
    power = _POWERS.index(found[2].lower()) + 1 if found[2] else 0
    number = int(found[1], 16 if found[1].lower().startswith("0x") else 10)
    return number * math.prod([1000 if found[3] else 1024] * power)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of a request with their shares: of reads, writes and trims, and fio's options."""

    sides: "tuple[_Side, _Side, _Side]"
    options: tuple[tuple[str, str], ...]

    def only(self, does: "Way") -> "Sizes":
        """Of the directions that there are."""
        reads, writes, trims = (
            side if share else () for side, share in zip(self.sides, does.shares, strict=True)
        )
        return Sizes((reads, writes, trims), self.options)

    @property
    def all(self) -> tuple[int, ...]:
        """Each size once."""
        return tuple(dict.fromkeys(size for side in self.sides for size, _ in side))

    def mean(self, does: "Way") -> float:
        """Of reads and writes; of trims where there is nothing else."""
        shares = does.shares if does.trim_percent == 100 else (*does.shares[:2], 0.0)
        means = map(_mean, self.sides)
        return sum(s * mean for s, mean in zip(shares, means, strict=True)) / sum(shares)


def _mean(sizes: Sequence[tuple[int, float]]) -> float:
    total = sum(share for _, share in sizes)
    return sum(size * share for size, share in sizes) / total if total else 0.0


def sizes_of(options: Mapping[str, Option]) -> Sizes:
    """What `bssplit`, `bsrange` or `bs` says, the first of them that is there."""
    for name, read in (("bssplit", _split), ("bsrange", _span)):
        if (option := options.get(name)) is not None:
            sides = _sides(option, partial(read, option=option))
            text = _joined(_written(name, side) for side in sides)
            return Sizes(sides, ((name, text),))
    option = options.get("bs")
    if option is None:
        whole = ((DEFAULT_BLOCK_BYTES, 1.0),)
        return Sizes((whole, whole, whole), (("bs", str(DEFAULT_BLOCK_BYTES)),))
    sides = _sides(option, lambda text: ((_bytes(text, option), 1.0),))
    return Sizes(sides, (("bs", _joined(str(side[0][0]) for side in sides)),))


_Side = tuple[tuple[int, float], ...]


def _sides(option: Option, read: Callable[[str], _Side]) -> tuple[_Side, _Side, _Side]:
    """Values for reads, writes and trims: the last given one is for the rest, an empty one fio's
    default.
    """
    parts = directions(option)
    default: _Side = ((DEFAULT_BLOCK_BYTES, 1.0),)
    given = [read(part) if part else default for part in parts]
    reads, writes, trims = (given[min(side, len(given) - 1)] for side in range(3))
    return reads, writes, trims


def directions(option: Option) -> list[str]:
    parts = [part.strip() for part in option.value.split(",")]
    if len(parts) > 3:
        raise UsageError(f"{option.place}: {shown(option)} has more than three directions")
    return parts


def _joined(sides: Iterable[str]) -> str:
    """Of reads, of writes and of trims; the last ones only where they differ."""
    texts = list(sides)
    while len(texts) > 1 and texts[-1] == texts[-2]:
        texts.pop()
    return ",".join(texts)


def _written(name: str, side: _Side) -> str:
    if name == "bsrange":
        return "-".join(str(size) for size, _ in side)
    return ":".join(f"{size}/{share:g}" for size, share in side)


def _split(text: str, option: Option) -> _Side:
    parts = [part.partition("/") for part in text.split(":")]
    sizes = [_bytes(size, option) for size, _, _ in parts]
    shares = [share.strip().removesuffix("%") for _, _, share in parts]
    if any(share and not re.fullmatch(r"[0-9]{1,3}", share) for share in shares):
        raise UsageError(f"{option.place}: {shown(option)} has a share that is no whole percentage")
    given = sum(int(share) for share in shares if share)
    empty = shares.count("")
    if given > 100 or (given < 100 and not empty):
        raise UsageError(
            f"{option.place}: the shares of {shown(option)} add up to {given} %, not 100 %"
        )
    # As fio does it: what is left is shared evenly, in whole percentages.
    rest = (100 - given) // empty if empty else 0
    return tuple(
        (size, float(int(share) if share else rest))
        for size, share in zip(sizes, shares, strict=True)
    )


def _span(text: str, option: Option) -> _Side:
    low, dash, high = text.partition("-")
    least, most = _bytes(low, option), _bytes(high if dash else low, option)
    return tuple((size, 1.0) for size in sorted((least, most)))


def _bytes(text: str, option: Option) -> int:
    size = fio_bytes(text)
    if size is None:
        raise UsageError(f"{option.place}: {shown(option)}: {plain(text, MOST_NAME)!r} is no size")
    return size


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
    """What `rw` and the shares of reads and writes say."""
    option = options.get("rw")
    if option is None:
        return Way(False, 100, 0, "read")
    way, colon, skip = option.value.partition(":")
    plainly = way.removeprefix(_AT_RANDOM)
    if plainly not in _WAYS or way == "randreadwrite":
        raise UsageError(
            f"{option.place}: {shown(option)} is no direction", hint="one of " + ", ".join(_WAYS)
        )
    if colon and fio_bytes(skip) is None:
        raise UsageError(f"{option.place}: {shown(option)}: {skip!r} is no number")
    percent, trims = _WAYS[plainly]
    if percent == _MIXED:
        percent = whole_number(options, "rwmixread", -1, least=0, most=100)
        if percent < 0:
            percent = 100 - whole_number(options, "rwmixwrite", 50, least=0, most=100)
    return Way(plainly != way, percent, trims, option.value)


def offered(options: Mapping[str, Option], numjobs: int, sizes: Sizes, does: Way) -> float | None:
    """Requests per second that the rates of all its jobs ask for; None without a rate.

    fio applies a rate to each direction on its own; one value is for all of them. A trim before a
    write waits for the rate of the writes (get_rw_ddir and set_rw_ddir of its io_u.c).
    """
    found: float | None = None
    means = [_mean(side) for side in sizes.sides]
    smallest = [min((size for size, _ in side), default=0) for side in sizes.sides]
    before_writes = 0 < does.trim_percent < 100
    for name in ("rate_iops", "rate"):
        option = options.get(name)
        if option is None:
            continue
        parts = directions(option)
        total = 0.0
        for side, share in enumerate(does.shares):
            given = 1 if before_writes else side
            text = parts[min(given, len(parts) - 1)]  # the last is for the rest
            if not share:
                continue
            if not text:
                return None  # this direction has no limit
            each = _bytes(text, option)
            # fio paces bytes: a rate in requests is one of its smallest blocks.
            rate_bytes = each * smallest[side] if name == "rate_iops" else each
            total += rate_bytes / means[side]
        found = total * numjobs if found is None else min(found, total * numjobs)
    return found or None


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
