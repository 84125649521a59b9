"""fio jobs that a user wrote, as workloads that are measured; pure.

Job files are foreign input. Every option is on a list here or is refused by name, with its line:
nothing in a job file starts a program, names a file or a device, or says how long it runs. The
place is checked against the part of the drive that this run fills.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from ssdbench.errors import UsageError
from ssdbench.foreign import plain
from ssdbench.generator.fio.userjobs import (
    ASYNCHRONOUS,
    DEFAULT_ENGINE,
    GLOBAL,
    SYNCHRONOUS,
    Option,
    job_file,
)
from ssdbench.generator.fio.userjobs import Section as UserSection
from ssdbench.model.asked.jobs import MOST_NAME, title
from ssdbench.model.workload import ActiveRange, Content, Pattern, Stream, Workload

MOST_STREAMS = 64
MOST_JOBS = 1024  # threads of one phase
LARGEST_BLOCK_BYTES = 64 << 20
MOST_BUFFERS_BYTES = 4 << 30  # of one phase: fio takes a buffer for each request in flight
DEFAULT_BLOCK_BYTES = 4096  # fio's own

_ALIASES: Mapping[str, str] = {
    "readwrite": "rw",
    "blocksize": "bs",
    "blocksize_range": "bsrange",
    "blockalign": "ba",
    "fileoffset": "offset",
    "ratemin": "rate_min",
    "iodepth_batch_submit": "iodepth_batch",
    "wait_for_previous": "stonewall",
    "io_limit": "io_size",
    "timeout": "runtime",
}

# What a job does, handed to fio as it is.
_REQUESTS = frozenset(
    [
        "rwmixread",
        "rwmixwrite",
        "rw_sequencer",
        "ba",
        "percentage_random",
        "random_distribution",
        "norandommap",
        "softrandommap",
        "random_generator",
        "iodepth_batch",
        "iodepth_batch_complete",
        "iodepth_batch_complete_min",
        "iodepth_batch_complete_max",
        "iodepth_low",
        "serialize_overlap",
        "fsync",
        "fdatasync",
        "sync",
        "prio",
        "prioclass",
        "cmdprio_percentage",
        "cmdprio_class",
        "cmdprio",
        "cmdprio_bssplit",
        "zero_buffers",
        "refill_buffers",
        "scramble_buffers",
        "buffer_compress_percentage",
        "buffer_compress_chunk",
        "dedupe_percentage",
    ]
)
_PACE = frozenset(
    [
        "rate",
        "rate_iops",
        "rate_process",
        "rate_cycle",
        "rate_ignore_thinktime",
        "thinktime",
        "thinktime_spin",
        "thinktime_blocks",
        "thinktime_blocks_type",
        "thinktime_iotime",
    ]
)
_READ = frozenset(  # understood here, and written anew
    ["rw", "bs", "bsrange", "bssplit", "iodepth", "numjobs", "size", "offset", "offset_increment",
     "ioengine", "direct", "buffered", "stonewall", "new_group"]
)  # fmt: skip

_LENGTH = "each repeat settles and is then counted for the window of the profile"
_SEEDS = "each repeat has other offsets and data, from the seed of the run"
_REPORT = "the report is made by ssdbench"
_SETTLED: Mapping[str, str] = {
    **dict.fromkeys(("runtime", "time_based", "io_size", "loops", "number_ios", "ramp_time",
                     "startdelay", "exitall"), _LENGTH),
    **dict.fromkeys(("randrepeat", "allrandrepeat", "randseed"), _SEEDS),
    **dict.fromkeys(("group_reporting", "percentile_list", "lat_percentiles", "clat_percentiles",
                     "slat_percentiles", "disk_util", "log_avg_msec", "log_hist_msec",
                     "log_max_value", "log_unix_epoch", "description"), _REPORT),
    **dict.fromkeys(("thread", "name", "invalidate", "group_reporting"), ""),
}  # fmt: skip

_PROGRAM = "it starts a program"
_PLACE = "the place is the target of the run"
_OUTPUT = "ssdbench decides where output goes"
_STOPS = "it would end the job, or change it, by what is measured"
_UNPRICED = "its time is no time of the drive"
_REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("exec_prerun", "exec_postrun"), _PROGRAM),
    **dict.fromkeys(("filename", "directory", "filename_format", "opendir", "nrfiles", "openfiles",
                     "file_service_type", "unlink", "uri"), _PLACE),
    **dict.fromkeys(("write_bw_log", "write_lat_log", "write_iops_log", "write_hist_log",
                     "write_iolog", "per_job_logs", "verify_state_save", "aux_path"), _OUTPUT),
    **dict.fromkeys(("read_iolog", "replay_redirect"), "a trace is measured with `- replay:`"),
    **dict.fromkeys(("latency_target", "latency_window", "latency_percentile", "latency_run",
                     "max_latency", "rate_min", "rate_iops_min", "steadystate", "ss",
                     "exit_what", "continue_on_error", "wait_for"), _STOPS),
    **dict.fromkeys(("verify", "do_verify", "verify_only", "experimental_verify"), _UNPRICED),
    **dict.fromkeys(("ioscheduler", "cpus_allowed", "cpumask", "numa_cpu_nodes", "numa_mem_policy",
                     "nice", "uid", "gid", "cgroup"), "settings of the host are the profile's"),
    "buffer_pattern": "it may name a file",
    "profile": "it makes jobs of its own",
    "kb_base": "sizes are read with fio's own units",
}  # fmt: skip
_PRIORITY = frozenset(
    ["prio", "prioclass", "cmdprio", "cmdprio_class", "cmdprio_percentage", "cmdprio_bssplit"]
)
_BUFFERS = frozenset(["zero_buffers", "refill_buffers", "buffer_compress_percentage"])

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


@dataclass(frozen=True, slots=True)
class Room:
    """Where the jobs may work: the part of the drive that the run fills, from its start."""

    length_bytes: int
    block_bytes: int  # the target's logical block
    simulated: bool = False
    content: Content = Content.RANDOM
    discards: bool = False  # whether the target takes them


@dataclass(frozen=True, slots=True)
class Phase:
    """The jobs between two stonewalls, and where each option of theirs stands."""

    workload: Workload
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class MeasuredJobs:
    """A job file as phases, and what is not as the user wrote it, as sentences."""

    phases: tuple[Phase, ...]
    changes: tuple[str, ...]


def measured_jobs(text: str, *, path: str, room: Room) -> MeasuredJobs:
    """The phases of a job file. Raises UsageError, with `path` and line, for what is refused."""
    return phases_of(job_file(text, path=path), path=path, room=room)


def phases_of(sections: Sequence[UserSection], *, path: str, room: Room) -> MeasuredJobs:
    """The phases of sections in the order of a job file. Raises UsageError."""
    reading = _Reading(room)
    for section in sections:
        reading.take(section)
    if not reading.phases:
        raise UsageError(f"{path}: no job in it", hint="write at least one section with a job")
    for streams, options in reading.phases:
        _require_refilled(streams, options)
    name = title(path)
    phases = tuple(
        Phase(
            _workload(
                name if len(reading.phases) == 1 else f"{name} {number}", streams, room.content
            ),
            tuple(options),
        )
        for number, (streams, options) in enumerate(reading.phases, 1)
    )
    return MeasuredJobs(phases, tuple(reading.changes))


def uncapped(workload: Workload) -> Workload:
    """The same reads and writes without rates, pauses and trims: what a drive is warmed up with."""
    streams = [
        stream.model_copy(
            update={
                "options": tuple(_untrimmed(o) for o in stream.options if o[0] not in _PACE),
                "trim_percent": 0,
                "paced": False,
                "offered_iops": None,
            }
        )
        for stream in workload.moving
    ]
    return _workload(workload.title, streams, workload.content)


def _untrimmed(option: tuple[str, str]) -> tuple[str, str]:
    name, value = option
    return (name, value.replace("trimwrite", "write")) if name == "rw" else option


def fio_bytes(text: str) -> int | None:
    """A size as fio reads it, or None for what is none."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        return None
    power = _POWERS.index(found[2].lower()) + 1 if found[2] else 0
    number = int(found[1], 16 if found[1].lower().startswith("0x") else 10)
    return number * math.prod([1000 if found[3] else 1024] * power)


@dataclass(slots=True)
class _Reading:
    """Goes through the sections in their order, as a global option holds for those behind it."""

    room: Room
    phases: list[tuple[list[Stream], list[Option]]] = field(default_factory=list)
    changes: dict[str, None] = field(default_factory=dict)  # in order, each once
    _global: dict[str, Option] = field(default_factory=dict)
    _group: int = 0

    def take(self, section: UserSection) -> None:
        named = {(known := self._known(option)).name: known for option in section.options}
        if section.name == GLOBAL:
            self._global |= named
            return
        options = self._global | named
        if not self.phases or _on(options.get("stonewall")):
            self.phases.append(([], []))
            self._group = 0
        elif _on(options.get("new_group")):
            self._group += 1
        streams, places = self.phases[-1]
        streams.append(self._stream(section.name, options, len(streams)))
        places += options.values()
        if len(streams) > MOST_STREAMS or sum(s.numjobs for s in streams) > MOST_JOBS:
            raise UsageError(
                f"{_place(options)}: [{plain(section.name, MOST_NAME)}] is one job too many: "
                f"{MOST_STREAMS} jobs and {MOST_JOBS} threads may run at the same time"
            )
        if sum(s.in_flight * max(s.block_sizes) for s in streams) > MOST_BUFFERS_BYTES:
            raise UsageError(
                f"{_place(options, 'bs', 'iodepth', 'numjobs')}: with "
                f"[{plain(section.name, MOST_NAME)}] the requests in flight need buffers of more "
                f"than {MOST_BUFFERS_BYTES >> 30} GiB",
                hint="set a smaller `iodepth`, `numjobs` or `bs`",
            )

    def _known(self, option: Option) -> Option:
        """An option of the list, by its first name. Raises UsageError for any other."""
        name = _ALIASES.get(option.name, option.name)
        shown = plain(option.name, MOST_NAME)
        if not option.value.isprintable() or set("$`") & set(option.value):
            raise UsageError(
                f"{option.place}: {shown} holds a variable or a sign that is not printed; neither "
                "is replaced",
                hint="write its value",
            )
        if name in _REQUESTS | _PACE | _READ or name in _SETTLED:
            if why := _SETTLED.get(name):
                self.changes[f"{option.place}: {_shown(option)} is left out: {why}"] = None
            return Option(name, option.value, option.place)
        why = _REFUSED.get(name, "it is not on the list of options that a measured job may have")
        raise UsageError(
            f"{option.place}: {shown} is refused: {why}",
            hint="remove it; the page on your workload lists what a job may say",
        )

    def _stream(self, name: str, options: Mapping[str, Option], number: int) -> Stream:
        does = _direction(options)
        for flush in ("fsync", "fdatasync"):
            _whole(options, flush, 0, least=0, most=10**9 - 1)
        flushes = _flushes(options)
        if flushes and 0 < does.trim_percent < 100:
            raise UsageError(
                f"{_place(options, 'fsync', 'fdatasync', 'sync')}: {_shown(options['rw'])} cannot "
                "flush: fio before 3.36 sends no flush there",
                hint="remove the flush, or trim in a job of its own",
            )
        if does.trim_percent and not self.room.discards:
            raise UsageError(
                f"{options['rw'].place}: {_shown(options['rw'])} cannot be served: the target "
                "takes no discards",
                hint="remove the job, or use a drive that has TRIM or deallocate",
            )
        sizes = self._sizes(options, does)
        numjobs = _whole(options, "numjobs", 1, most=MOST_JOBS)
        place, extent = self._range(options, numjobs, max(sizes.all))
        if self.room.simulated and (given := _PRIORITY & options.keys()):
            option = options[min(given)]
            raise UsageError(
                f"{option.place}: {option.name} cannot be served: a simulated drive has no "
                "priorities",
                hint="remove it",
            )
        kept = [
            ("rw", does.way),
            *sizes.options,
            ("iodepth", str(depth := self._depth(options))),
            ("numjobs", str(numjobs)),
            *place,
            *self._kept(options, writes=does.shares[1] > 0),
        ]
        return Stream(
            name=plain(name, MOST_NAME) or f"job {number + 1}",
            options=tuple(kept),
            group=self._group,
            random=does.random,
            block_sizes=sizes.all,
            mean_bytes=sizes.mean(does),
            read_percent=does.read_percent,
            trim_percent=does.trim_percent,
            iodepth=depth,
            numjobs=numjobs,
            range=extent,
            flushes=flushes,
            paced=any(_number(options, key) != 0 for key in ("rate", "rate_iops", "thinktime")),
            offered_iops=_offered(options, numjobs, sizes, does),
        )

    def _kept(self, options: Mapping[str, Option], *, writes: bool) -> Iterator[tuple[str, str]]:
        for option in options.values():
            if option.name == "sync" and self.room.simulated and _set(option):
                self.changes[
                    f"{option.place}: {_shown(option)} is left out: a simulated drive is not opened"
                ] = None
            elif option.name in _REQUESTS | _PACE:
                yield option.name, option.value or "1"
        if writes and not _BUFFERS & options.keys():  # fio's own buffers shrink to 7 %
            zeros = self.room.content is Content.ZEROS
            yield ("zero_buffers" if zeros else "refill_buffers"), "1"

    def _depth(self, options: Mapping[str, Option]) -> int:
        depth = _whole(options, "iodepth", 1, most=1 << 16)
        engine, place = DEFAULT_ENGINE, ""
        if (option := options.get("ioengine")) is not None:
            engine, place = option.value, f"{option.place}: "
        if engine not in SYNCHRONOUS | ASYNCHRONOUS:
            raise UsageError(
                f"{place}ioengine={plain(engine, MOST_NAME)} is refused: it is no engine of fio "
                "that reaches a block device",
                hint="engines: " + ", ".join(sorted(SYNCHRONOUS | ASYNCHRONOUS)),
            )
        if place:
            self.changes[
                f"{place}ioengine={engine} is replaced by the engine that reaches the target"
            ] = None
        for name, value in (("direct", "0"), ("buffered", "1")):
            if (option := options.get(name)) is not None and (option.value or "1") == value:
                self.changes[
                    f"{option.place}: {_shown(option)} is direct I/O: else memory is measured"
                ] = None
        if engine in SYNCHRONOUS and depth > 1:
            self.changes[
                f"{options['iodepth'].place}: iodepth={depth} is 1, as {engine} has one request in "
                "flight"
            ] = None
        return 1 if engine in SYNCHRONOUS else depth

    def _sizes(self, options: Mapping[str, Option], does: "_Way") -> "_Sizes":
        sizes = _sizes_of(options).only(does)
        smallest = self.room.block_bytes
        option = next((options[n] for n in ("bssplit", "bsrange", "bs") if n in options), None)
        place = f"{option.place}: " if option else ""
        if 0 < does.trim_percent < 100 and len(sizes.all) > 1:
            raise UsageError(
                f"{place}{_shown(options['rw'])} needs one block size: fio writes what it trimmed"
            )
        for size in sizes.all:
            if not 0 < size <= LARGEST_BLOCK_BYTES:
                raise UsageError(f"{place}a block of {size} bytes: 1 byte to 64 MiB are possible")
            if size % smallest:
                thousand = bool(option) and re.search(r"[kmg]i", str(option), re.IGNORECASE)
                raise UsageError(
                    f"{place}a block of {size} bytes is not a multiple of the target's block of "
                    f"{smallest}",
                    hint="fio reads 4ki as 4000 bytes and 4k as 4096" if thousand else "",
                )
        return sizes

    def _range(
        self, options: Mapping[str, Option], numjobs: int, largest: int
    ) -> tuple[list[tuple[str, str]], ActiveRange]:
        """`offset`, `size` and `offset_increment` in bytes, and the range of all jobs."""
        unit = math.lcm(self.room.block_bytes, largest if largest % 512 == 0 else 1)
        offset = self._extent(options.get("offset"), self.room.block_bytes) or 0
        step = self._extent(options.get("offset_increment"), self.room.block_bytes) or 0
        size = self._extent(options.get("size"), self.room.block_bytes)
        if size is None and step and numjobs > 1:
            raise UsageError(
                f"{options['offset_increment'].place}: offset_increment needs a size beside it"
            )
        if size is None:
            size = (self.room.length_bytes - offset) // unit * unit
        length = (numjobs - 1) * step + size
        place = _place(options, "size", "offset", "offset_increment")
        if offset + length > self.room.length_bytes:
            raise UsageError(
                f"{place}: it ends at byte {offset + length}, but the run fills only "
                f"{self.room.length_bytes} bytes of the target",
                hint="set a smaller size, or a share such as size=50%",
            )
        if size < largest:
            raise UsageError(f"{place}: a size of {size} bytes holds no block of {largest}")
        found = [("offset", str(offset)), ("size", str(size))]
        if step:
            found.append(("offset_increment", str(step)))
        return found, ActiveRange(offset_bytes=offset, length_bytes=length)

    def _extent(self, option: Option | None, align: int) -> int | None:
        if option is None or option.value in ("", "0"):
            return None
        if share := re.fullmatch(r"([0-9]{1,3})%", option.value):
            if int(share[1]) > 100:
                raise UsageError(f"{option.place}: {_shown(option)} is more than the whole")
            return self.room.length_bytes * int(share[1]) // 100 // align * align
        size = fio_bytes(option.value)
        if size is None:
            raise UsageError(f"{option.place}: {_shown(option)} is no size")
        if size % align:
            raise UsageError(
                f"{option.place}: {_shown(option)} is {size} bytes, not a multiple of the "
                f"target's block of {align}"
            )
        return size


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Sizes of a request with their shares: of reads, writes and trims, and fio's options."""

    sides: "tuple[_Side, _Side, _Side]"
    options: tuple[tuple[str, str], ...]

    def only(self, does: "_Way") -> "_Sizes":
        reads, writes, trims = (
            side if share else () for side, share in zip(self.sides, does.shares, strict=True)
        )
        return _Sizes((reads, writes, trims), self.options)

    @property
    def all(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(size for side in self.sides for size, _ in side))

    def mean(self, does: "_Way") -> float:
        """Of reads and writes; of trims where there is nothing else."""
        shares = does.shares if does.trim_percent == 100 else (*does.shares[:2], 0.0)
        means = map(_mean, self.sides)
        return sum(s * mean for s, mean in zip(shares, means, strict=True)) / sum(shares)


def _mean(sizes: Sequence[tuple[int, float]]) -> float:
    total = sum(share for _, share in sizes)
    return sum(size * share for size, share in sizes) / total if total else 0.0


def _sizes_of(options: Mapping[str, Option]) -> _Sizes:
    for name, read in (("bssplit", _split), ("bsrange", _span)):
        if (option := options.get(name)) is not None:
            sides = _sides(option, partial(read, option=option))
            text = _joined(_written(name, side) for side in sides)
            return _Sizes(sides, ((name, text),))
    option = options.get("bs")
    if option is None:
        whole = ((DEFAULT_BLOCK_BYTES, 1.0),)
        return _Sizes((whole, whole, whole), (("bs", str(DEFAULT_BLOCK_BYTES)),))
    sides = _sides(option, lambda text: ((_bytes(text, option), 1.0),))
    return _Sizes(sides, (("bs", _joined(str(side[0][0]) for side in sides)),))


_Side = tuple[tuple[int, float], ...]


def _sides(option: Option, read: Callable[[str], _Side]) -> tuple[_Side, _Side, _Side]:
    """Values for reads, writes and trims: the last given one is for the rest, an empty one fio's
    default.
    """
    parts = _directions(option)
    default: _Side = ((DEFAULT_BLOCK_BYTES, 1.0),)
    given = [read(part) if part else default for part in parts]
    reads, writes, trims = (given[min(side, len(given) - 1)] for side in range(3))
    return reads, writes, trims


def _directions(option: Option) -> list[str]:
    parts = [part.strip() for part in option.value.split(",")]
    if len(parts) > 3:
        raise UsageError(f"{option.place}: {_shown(option)} has more than three directions")
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
        raise UsageError(
            f"{option.place}: {_shown(option)} has a share that is no whole percentage"
        )
    given = sum(int(share) for share in shares if share)
    empty = shares.count("")
    if given > 100 or (given < 100 and not empty):
        raise UsageError(
            f"{option.place}: the shares of {_shown(option)} add up to {given} %, not 100 %"
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
        raise UsageError(f"{option.place}: {_shown(option)}: {plain(text, MOST_NAME)!r} is no size")
    return size


@dataclass(frozen=True, slots=True)
class _Way:
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


def _direction(options: Mapping[str, Option]) -> _Way:
    option = options.get("rw")
    if option is None:
        return _Way(False, 100, 0, "read")
    way, colon, skip = option.value.partition(":")
    plainly = way.removeprefix(_AT_RANDOM)
    if plainly not in _WAYS or way == "randreadwrite":
        raise UsageError(
            f"{option.place}: {_shown(option)} is no direction", hint="one of " + ", ".join(_WAYS)
        )
    if colon and fio_bytes(skip) is None:
        raise UsageError(f"{option.place}: {_shown(option)}: {skip!r} is no number")
    percent, trims = _WAYS[plainly]
    if percent == _MIXED:
        percent = _whole(options, "rwmixread", -1, least=0, most=100)
        if percent < 0:
            percent = 100 - _whole(options, "rwmixwrite", 50, least=0, most=100)
    return _Way(plainly != way, percent, trims, option.value)


def _require_refilled(streams: Sequence[Stream], options: Sequence[Option]) -> None:
    """Raise UsageError for jobs that trim beside none that writes: they empty the drive."""
    if not any(stream.trim_percent for stream in streams):
        return
    if any(s.read_percent < 100 and not s.only_trims for s in streams):
        return
    place = next(o.place for o in options if o.name == "rw" and "trim" in o.value)
    raise UsageError(
        f"{place}: jobs that trim need one that writes at the same time: trims are no I/O to plan "
        "on, and alone they leave a drive that holds nothing",
        hint="use rw=trimwrite or randtrimwrite, or let another job of the phase write",
    )


def _offered(
    options: Mapping[str, Option], numjobs: int, sizes: _Sizes, does: _Way
) -> float | None:
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
        parts = _directions(option)
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


def _whole(
    options: Mapping[str, Option], name: str, default: int, *, least: int = 1, most: int
) -> int:
    option = options.get(name)
    if option is None:
        return default
    number = int(option.value) if re.fullmatch(r"[0-9]{1,9}", option.value) else -1
    if not least <= number <= most:
        raise UsageError(
            f"{option.place}: {_shown(option)} is no whole number from {least} to {most:,}"
        )
    return number


def _number(options: Mapping[str, Option], name: str) -> int:
    """0 where the option is not there or is off; else something else."""
    option = options.get(name)
    return 0 if option is None or re.fullmatch(r"0*[a-z]*", option.value) else 1


def _flushes(options: Mapping[str, Option]) -> bool:
    return any(_number(options, key) for key in ("fsync", "fdatasync")) or _set(options.get("sync"))


def _on(option: Option | None) -> bool:
    """A flag of fio: on when it is named without a value."""
    return option is not None and option.value not in ("0", "false")


def _set(option: Option | None) -> bool:
    return option is not None and option.value not in ("0", "none")


def _place(options: Mapping[str, Option], *names: str) -> str:
    """Where one of these options stands, else where any does."""
    for option in (*(options[name] for name in names if name in options), *options.values()):
        return option.place
    return "a job without options"


def _shown(option: Option) -> str:
    return plain(str(option), 2 * MOST_NAME)


def _workload(title: str, streams: Sequence[Stream], content: Content) -> Workload:
    streams = tuple(_distinct(streams))
    start = min(stream.range.offset_bytes for stream in streams)
    end = max(s.range.offset_bytes + s.range.length_bytes for s in streams)
    moving = [stream for stream in streams if not stream.only_trims]
    weights = [stream.in_flight for stream in moving]
    reads = sum(w * s.read_percent for w, s in zip(weights, moving, strict=True)) / sum(weights)
    writers = [s for s in moving if s.read_percent < 100]
    some = 0 < reads < 100
    zeros = all(("zero_buffers", "1") in s.options for s in writers) and bool(writers)
    return Workload(
        pattern=Pattern.RANDOM if any(s.random for s in moving) else Pattern.SEQUENTIAL,
        block_bytes=min(size for stream in moving for size in stream.block_sizes),
        read_percent=min(99, max(1, round(reads))) if some else round(reads),
        iodepth=sum(stream.in_flight for stream in streams),
        range=ActiveRange(offset_bytes=start, length_bytes=end - start),
        content=Content.ZEROS if zeros else content,
        streams=streams,
        title=title,
    )


def _distinct(streams: Sequence[Stream]) -> Iterator[Stream]:
    """Each under a name of its own, as tables tell them apart by it."""
    seen: Counter[str] = Counter()
    for stream in streams:
        seen[stream.name] += 1
        again = seen[stream.name]
        yield (
            stream if again == 1 else stream.model_copy(update={"name": f"{stream.name} ({again})"})
        )
