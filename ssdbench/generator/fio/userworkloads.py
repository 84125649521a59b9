"""Turn fio jobs that a user wrote into workloads to measure; no I/O.

Anybody may have written a job file, so `useroptions` has a list of allowed options. A job may only
use the part of the drive that the run fills.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ssdbench.errors import UsageError
from ssdbench.foreign import plain
from ssdbench.generator.fio.userjobs import (
    ASYNCHRONOUS,
    DEFAULT_ENGINE,
    GLOBAL,
    SYNCHRONOUS,
    Option,
)
from ssdbench.generator.fio.userjobs import Section as UserSection
from ssdbench.generator.fio.useroptions import (
    BUFFERS,
    PACE,
    PRIORITY,
    REQUESTS,
    Directions,
    combined,
    direction,
    fio_bytes,
    flushes,
    is_nonzero,
    is_on,
    is_set,
    known,
    place_of,
    shown,
    size_in_bytes,
    whole_number,
    wrong,
)
from ssdbench.generator.fio.userrequests import LARGEST_BLOCK_BYTES, Sizes, offered, sizes_of
from ssdbench.model.profile.streams import MOST_NAME, title
from ssdbench.model.workload import ActiveRange, Content, Pattern, Stream, Workload

MOST_STREAMS = 64
MOST_JOBS = 1024  # most threads of one phase
MOST_BUFFERS_BYTES = 4 << 30  # limit of a phase; fio has a buffer per request in flight

_BY_DIRECTION = frozenset(
    ["bs", "bsrange", "bssplit", "ba", "rate", "rate_iops", "percentage_random"]
)
_PLACES = frozenset(["size", "offset", "offset_increment"])
_ONE_OF_BOTH = {"rwmixread": "rwmixwrite", "rwmixwrite": "rwmixread"}


@dataclass(frozen=True, slots=True)
class Room:
    """Describe the first part of the drive, which the run fills and which jobs may use."""

    length_bytes: int
    block_bytes: int  # the target's logical block
    simulated: bool = False
    content: Content = Content.RANDOM
    discards: bool = False  # whether the target supports discards


@dataclass(frozen=True, slots=True)
class Phase:
    """Hold jobs that run at the same time (between stonewalls), and their options' places."""

    workload: Workload
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class MeasuredJobs:
    """Hold a job file's phases, and sentences about changes to the jobs."""

    phases: tuple[Phase, ...]
    changes: tuple[str, ...]


def phases_of(sections: Sequence[UserSection], *, path: str, room: Room) -> MeasuredJobs:
    """Turn the sections of a job file into phases. Raises UsageError."""
    reading = _Reading(room)
    for section in sections:
        reading.take(section)
    if not reading.phases:
        raise UsageError(f"{path} has no job", hint="write at least one section with a job")
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
    """Return the workload without rates, pauses and trims, for the warm-up."""
    streams = [
        stream.model_copy(
            update={
                "options": tuple(
                    (name, value.replace("trimwrite", "write") if name == "rw" else value)
                    for name, value in stream.options
                    if name not in PACE
                ),
                "trim_percent": 0,
                "read_percent": _mixed(stream),
                "paced": False,
                "offered_iops": None,
            }
        )
        for stream in workload.moving
    ]
    return _workload(workload.title, streams, workload.content)


def _mixed(stream: Stream) -> int:
    """Return a stream's percentage of reads, computed as if it had no rate limit."""
    return direction({name: Option(name, value, "") for name, value in stream.options}).read_percent


@dataclass(slots=True)
class _Reading:
    """Read sections in order, because a global option is valid for the sections after it."""

    room: Room
    phases: list[tuple[list[Stream], list[Option]]] = field(default_factory=list)
    changes: dict[str, None] = field(default_factory=dict)  # in order, without repetitions
    _global: dict[str, Option] = field(default_factory=dict)
    _group: int = 0

    def take(self, section: UserSection) -> None:
        options = dict(self._global)
        for given in section.options:
            option, left_out = known(given)
            _give(options, option)
            if left_out:
                self.changes[left_out] = None
        if section.name == GLOBAL:
            self._global = options
            return
        if not self.phases or is_on(options.get("stonewall")):
            self.phases.append(([], []))
            self._group = 0
        elif is_on(options.get("new_group")):
            self._group += 1
        streams, places = self.phases[-1]
        streams.append(self._stream(section.name, options, len(streams)))
        places += options.values()
        if len(streams) > MOST_STREAMS or sum(s.numjobs for s in streams) > MOST_JOBS:
            raise UsageError(
                f"{place_of(options)}: [{plain(section.name, MOST_NAME)}] is one job too many: at "
                f"most {MOST_STREAMS} jobs and {MOST_JOBS} threads may run at the same time",
                hint="put a stonewall between jobs, or set a smaller `numjobs`",
            )
        buffered = [s for s in streams if not s.only_trims]
        if sum(s.in_flight * max(s.block_sizes) for s in buffered) > MOST_BUFFERS_BYTES:
            raise UsageError(
                f"{place_of(options, 'bs', 'iodepth', 'numjobs')}: with "
                f"[{plain(section.name, MOST_NAME)}] the requests in flight need buffers of more "
                f"than {MOST_BUFFERS_BYTES >> 30} GiB",
                hint="set a smaller `iodepth`, `numjobs` or `bs`",
            )

    def _stream(self, name: str, options: Mapping[str, Option], number: int) -> Stream:
        does = direction(options)
        for flush in ("fsync", "fdatasync"):
            whole_number(options, flush, 0, least=0, most=10**9 - 1)
        flushing = flushes(options)
        if flushing and 0 < does.trim_percent < 100:
            raise UsageError(
                f"{place_of(options, 'fsync', 'fdatasync', 'sync')}: {shown(options['rw'])} cannot "
                "flush: fio before 3.36 sends no flush there",
                hint="remove the flush, or trim in a job of its own",
            )
        if does.trim_percent and not self.room.discards:
            raise wrong(
                options["rw"],
                "cannot be served: the target takes no discards",
                hint="remove the job, or use a drive that has TRIM or deallocate",
            )
        sizes = self._sizes(options, does)
        numjobs = whole_number(options, "numjobs", 1, most=MOST_JOBS)
        blocks = sizes.all(does)
        place, extent = self._range(options, numjobs, sizes, does)
        back = fio_bytes(does.way.partition(":-")[2])
        if back in blocks:
            self._note(
                options["rw"], "sends the same block each time: fio goes back from the block's end"
            )
        if does.random and sizes.several(does) and not _without_map(options):
            self.changes[
                f"{place_of(options, 'bssplit', 'bsrange', 'rw')}: requests are cut where they "
                "would reach a block that this pass has done; with norandommap they keep their size"
            ] = None
        pace = offered(options, numjobs, sizes, does)
        self.changes |= dict.fromkeys(pace.told)
        given = {name for name in PRIORITY & options.keys() if is_nonzero(options, name)}
        if self.room.simulated and given:
            option = options[min(given)]
            raise wrong(
                option, "cannot be served: a simulated drive has no priorities", hint="remove it"
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
            block_sizes=blocks,
            mean_bytes=sizes.mean_bytes(pace.does),
            write_bytes=sizes.sides[1].mean_bytes,
            read_percent=pace.does.read_percent,
            trim_percent=does.trim_percent,
            iodepth=depth,
            numjobs=numjobs,
            range=extent,
            flushes=flushing,
            paced=pace.paced,
            offered_iops=pace.iops,
        )

    def _kept(self, options: Mapping[str, Option], *, writes: bool) -> Iterator[tuple[str, str]]:
        for option in options.values():
            if option.name == "sync" and self.room.simulated and is_set(option):
                self._note(option, "is left out: a simulated drive is not opened")
            elif option.name in PRIORITY and self.room.simulated:
                self._note(option, "is left out: at this value it does nothing")
            elif option.name in REQUESTS | PACE:
                yield option.name, option.value or "1"
        if writes and not BUFFERS & options.keys():  # fio's own buffers can be compressed to 7 %
            zeros = self.room.content is Content.ZEROS
            yield ("zero_buffers" if zeros else "refill_buffers"), "1"

    def _note(self, option: Option, change: str) -> None:
        self.changes[f"{option.place}: {shown(option)} {change}"] = None

    def _depth(self, options: Mapping[str, Option]) -> int:
        depth = whole_number(options, "iodepth", 1, most=1 << 16)
        engine, place = DEFAULT_ENGINE, ""
        if (option := options.get("ioengine")) is not None:
            engine, place = option.value, f"{option.place}: "
        if engine not in SYNCHRONOUS | ASYNCHRONOUS:
            raise UsageError(
                f"{place}ioengine={plain(engine, MOST_NAME)} is refused: it is not an engine of "
                "fio for block devices",
                hint="engines: " + ", ".join(sorted(SYNCHRONOUS | ASYNCHRONOUS)),
            )
        if place:
            self.changes[
                f"{place}ioengine={engine} is replaced by the engine that reaches the target"
            ] = None
        for name, value in (("direct", "0"), ("buffered", "1")):
            if (option := options.get(name)) is not None and (option.value or "1") == value:
                self._note(option, "is replaced by direct I/O: the page cache is not measured")
        if engine in SYNCHRONOUS and depth > 1:
            self._note(
                options["iodepth"],
                f"is replaced by 1, because {engine} has only one request in flight",
            )
        return 1 if engine in SYNCHRONOUS else depth

    def _sizes(self, options: Mapping[str, Option], does: Directions) -> Sizes:
        sizes = sizes_of(options)
        self.changes |= dict.fromkeys(sizes.told)
        smallest = self.room.block_bytes
        option = next((options[n] for n in ("bssplit", "bsrange", "bs") if n in options), None)
        place = f"{option.place}: " if option else ""
        blocks = sizes.all(does)
        if 0 < does.trim_percent < 100 and len(blocks) > 1:
            raise UsageError(
                f"{place}{shown(options['rw'])} needs one block size: fio writes what it trimmed"
            )
        for size in blocks:
            if option and size > LARGEST_BLOCK_BYTES and does.trim_percent < 100:
                raise UsageError(
                    f"{place}{shown(option)} has a block of {size} bytes; reads and writes may "
                    "have at most 64 MiB"
                )
            if size % smallest:
                thousand = bool(option) and re.search(r"[kmg]ib", str(option), re.IGNORECASE)
                raise UsageError(
                    f"{place}a block of {size} bytes is not a multiple of the target's block of "
                    f"{smallest}",
                    hint="fio reads 4kib as 4000 bytes and 4k as 4096" if thousand else "",
                )
        return sizes

    def _range(
        self, options: Mapping[str, Option], numjobs: int, sizes: Sizes, does: Directions
    ) -> tuple[list[tuple[str, str]], ActiveRange]:
        """Return `offset`, `size` and `offset_increment` in bytes, and the range of all jobs.

        If the user gave percentages, fio rounds to its smallest block: an offset up and a size
        down. If `offset_align` is given, fio rounds the offset up to a multiple of `offset_align`
        and not of the smallest block (get_start_offset and setup_files of its filesetup.c).
        """
        largest = max(sizes.all(does))
        align = math.lcm(self.room.block_bytes, sizes.smallest_bytes)
        offset_align = self._offset_align(options.get("offset_align")) or align
        offset = self._extent(options.get("offset")) or 0
        if _is_share(options.get("offset")):
            offset = -(-offset // offset_align) * offset_align
        step = self._extent(options.get("offset_increment")) or 0
        size = self._extent(options.get("size"))
        if size is None and step and numjobs > 1:
            raise UsageError(
                f"{options['offset_increment'].place}: offset_increment without a size gives each "
                "thread an area of another length, which a measured job may not have",
                hint="write a size beside it, such as size=25%",
            )
        if _is_share(options.get("offset_increment")):
            step = self._step(step, offset_align, numjobs, offset + (size or 0))
        if _is_share(options.get("size")) and size is not None:
            left = self.room.length_bytes - offset - (numjobs - 1) * step
            size = min(size, left) if size - left < align else size
            size = size // align * align
        if size is None:
            unit = max(sizes.smallest_of(does))
            size = (self.room.length_bytes - offset) // unit * unit
        length = (numjobs - 1) * step + size
        place = place_of(options, "size", "offset", "offset_increment")
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

    def _offset_align(self, option: Option | None) -> int:
        """Return `offset_align` in bytes; 0 if the job does not set it."""
        align = size_in_bytes(option.value, option) if option else 0
        if option and align % self.room.block_bytes:
            raise wrong(
                option, f"is not a multiple of the target's block of {self.room.block_bytes}"
            )
        return align

    def _step(self, step: int, align: int, numjobs: int, first_ends: int) -> int:
        """Round the step between threads to whole blocks: up, like fio, if the range allows it."""
        up = -(-step // align) * align
        fits = first_ends + (numjobs - 1) * up <= self.room.length_bytes
        return up if fits else step // align * align

    def _extent(self, option: Option | None) -> int | None:
        if option is None or option.value in ("", "0"):
            return None
        if share := re.fullmatch(r"([0-9]{1,3})%", option.value):
            if int(share[1]) > 100:
                raise wrong(option, "is more than 100 %")
            if option.name == "size" and int(share[1]) == 100:
                return None  # from the offset to the end
            return self.room.length_bytes * int(share[1]) // 100
        size = fio_bytes(option.value)
        align = self.room.block_bytes
        if size is None:
            raise wrong(option, "is not a size")
        if size % align:
            raise wrong(option, f"is {size} bytes, not a multiple of the target's block of {align}")
        return size


def _without_map(options: Mapping[str, Option]) -> bool:
    """Tell whether fio keeps no map of written blocks (fixup_options of its init.c)."""
    uneven = options.get("random_distribution")
    return (
        is_on(options.get("norandommap"))
        or "ba" in options
        or (uneven is not None and uneven.value != "random")
    )


def _is_share(option: Option | None) -> bool:
    return option is not None and option.value.endswith("%")


def _give(options: dict[str, Option], option: Option) -> None:
    """Add an option after the earlier ones; replace or combine an earlier one of the same name.

    Raises UsageError for a size after a percentage of the same option, because fio would use the
    percentage.
    """
    before = options.pop(option.name, None)  # removed first, so that the option moves to the end
    if before is not None and option.name in _BY_DIRECTION:
        option = combined(before, option)
    if _is_share(before) and option.name in _PLACES and not _is_share(option):
        raise wrong(
            option,
            "comes after a percentage, which fio keeps",
            hint=f"remove the {option.name} of {before.place if before else ''}",
        )
    options.pop(_ONE_OF_BOTH.get(option.name, ""), None)
    options[option.name] = option


def _require_refilled(streams: Sequence[Stream], options: Sequence[Option]) -> None:
    """Raise UsageError if jobs trim but no job writes, because they would empty the drive."""
    if not any(stream.trim_percent for stream in streams):
        return
    if any(s.read_percent < 100 and not s.only_trims for s in streams):
        return
    place = next(o.place for o in options if o.name == "rw" and "trim" in o.value)
    raise UsageError(
        f"{place}: jobs that trim need another job that writes at the same time: trims alone leave "
        "an empty drive, and a planner cannot use their rate",
        hint="use rw=trimwrite or randtrimwrite, or let another job of the phase write",
    )


def _workload(title: str, streams: Sequence[Stream], content: Content) -> Workload:
    streams = tuple(_distinct(streams))
    start = min(stream.range.offset_bytes for stream in streams)
    end = max(s.range.offset_bytes + s.range.length_bytes for s in streams)
    moving = [stream for stream in streams if not stream.only_trims]
    # If all streams have a rate, they are weighted by the rates; else by requests in flight.
    rates = [(s.offered_iops or 0.0) * (100 - s.trim_percent) for s in moving]
    weights = rates if all(rates) else [float(stream.in_flight) for stream in moving]
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
    """Give each stream a unique name, because tables identify streams by name."""
    seen: Counter[str] = Counter()
    for stream in streams:
        seen[stream.name] += 1
        again = seen[stream.name]
        yield (
            stream if again == 1 else stream.model_copy(update={"name": f"{stream.name} ({again})"})
        )
