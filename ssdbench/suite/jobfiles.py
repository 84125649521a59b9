"""Turn the fio job files and mixes of a profile into phases, and let fio check each phase."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ssdbench.errors import Misplaced, UsageError
from ssdbench.generator.base import Job
from ssdbench.generator.fio.driver import complaint
from ssdbench.generator.fio.jobfile import jobfile
from ssdbench.generator.fio.userjobs import Option, Section, job_file
from ssdbench.generator.fio.userworkloads import (
    MeasuredJobs,
    Phase,
    Room,
    phases_of,
    uncapped,
)
from ssdbench.model.profile import spec
from ssdbench.model.target import TargetInfo, TargetKind
from ssdbench.model.workload import Workload
from ssdbench.suite.request import Planning
from ssdbench.units import format_size

DAY_S = 86_400
RATED_DEPTH = 32  # queue depth of a stream with a rate, so that requests can wait
_CLASSES = {
    spec.Priority.REALTIME: 1,
    spec.Priority.BEST_EFFORT: 2,
    spec.Priority.IDLE: 3,
}


@dataclass(frozen=True, slots=True)
class _Part:
    """Hold the reads and writes of a stream, or its trims, which fio sends from a separate job."""

    stream: spec.MixStream
    trims: bool
    share: float  # of the requests

    @property
    def name(self) -> str:
        """Return the name of the stream, followed by `trims` if this part is its separate trims."""
        return f"{self.stream.name} trims" if self.trims and self.share < 1 else self.stream.name


def sections(wanted: spec.Mix, planning: Planning) -> Iterator[Section]:
    """Yield one fio section for each stream, and a second section for a stream that also trims.

    Raises UsageError for a stream that does not fit into the filled part of the drive.
    """
    for number, stream in enumerate(wanted.streams):
        trims = stream.trim_percent / 100
        for part in (_Part(stream, False, 1 - trims), _Part(stream, True, trims)):
            if part.share:
                section = Section(part.name)
                place = f"{wanted.name}: streams[{number}] ({stream.name})"
                for name, value in _options(part, place, planning):
                    section.options.append(Option(name, value, place))
                yield section


def _options(part: _Part, place: str, planning: Planning) -> Iterator[tuple[str, str]]:
    stream = part.stream
    yield "ioengine", "libaio"
    yield from _requests(part)
    yield from _rate(part, place, planning.target)
    yield from _place(stream, place, planning)
    yield "iodepth", str(stream.iodepth or RATED_DEPTH)
    yield "numjobs", str(stream.numjobs)
    if stream.think_s is not None:
        yield "thinktime", f"{max(1, round(stream.think_s * 1e6))}us"
    if stream.flush_every is not None and not part.trims:
        yield "fsync", str(stream.flush_every)
    if stream.priority is not None:
        yield "prioclass", str(_CLASSES[stream.priority])


def _requests(part: _Part) -> Iterator[tuple[str, str]]:
    stream = part.stream
    random = stream.pattern is not spec.Locality.SEQUENTIAL
    prefix = "rand" if random else ""
    match stream.read_percent:
        case _ if part.trims:
            yield "rw", f"{prefix}trim"
        case 0:
            yield "rw", f"{prefix}write"
        case 100:
            yield "rw", f"{prefix}read"
        case percent:
            yield "rw", f"{prefix}rw"
            yield "rwmixread", str(percent)
    sizes = stream.sizes
    if len(sizes) > 1:
        yield "bssplit", ":".join(f"{size}/{share}" for size, share in sizes.items())
    else:
        yield "bs", str(next(iter(sizes)))
    if random:
        yield "norandommap", "1"
    if stream.pattern is spec.Locality.ZIPF:
        yield "random_distribution", f"zipf:{stream.theta:g}"
    elif stream.pattern is spec.Locality.HOT:
        hits, hot = round(stream.hits_percent), round(stream.hot_percent)
        yield "random_distribution", f"zoned:{hits}/{hot}:{100 - hits}/{100 - hot}"


def _rate(part: _Part, place: str, target: TargetInfo) -> Iterator[tuple[str, str]]:
    """Yield fio's `rate` in bytes: fio would convert requests with the smallest block size."""
    stream = part.stream
    sizes, reads = stream.sizes, stream.read_percent / 100
    mean = sum(size * share for size, share in sizes.items()) / 100
    if stream.rate_iops is not None:
        total = stream.rate_iops * mean
    elif stream.rate_mb_per_s is not None:
        total = stream.rate_mb_per_s * 1e6
    elif stream.drive_writes_per_day is not None:
        moved = stream.drive_writes_per_day * target.size_bytes / DAY_S / (1 - reads)
        total = moved / (1 - stream.trim_percent / 100)  # trims are added to the writes
    else:
        return
    total *= part.share
    shares = (0.0, 0.0, 1.0) if part.trims else (reads, 1 - reads)
    each = [total * share / stream.numjobs for share in shares]
    if any(share and bytes_per_s < 1 for share, bytes_per_s in zip(shares, each, strict=True)):
        raise UsageError(
            f"{place}: its rate is less than a byte per second for each job and direction",
            hint="set a higher rate, or fewer `numjobs`",
        )
    yield "rate", ",".join(str(max(1, round(bytes_per_s))) for bytes_per_s in each)


def _place(stream: spec.MixStream, place: str, planning: Planning) -> Iterator[tuple[str, str]]:
    """Yield offset and size of a stream, limited to the part of the drive that the run fills."""
    align = max(planning.target.logical_block_bytes, max(stream.sizes))
    start = 0
    if stream.offset is not None:
        start = stream.offset.bytes_of(planning.target.size_bytes, align_bytes=align)
    length = planning.length_of(stream.span)
    length = min(length, planning.level_bytes - start) // align * align
    if length <= 0:
        if start >= planning.level_bytes:
            why = f"begins at byte {start}, but the run fills only {planning.level_bytes} bytes"
            raise UsageError(f"{place} {why}", hint="set a smaller `offset`")
        raise UsageError(
            f"{place}: its part of the drive is smaller than one block of {format_size(align)}",
            hint="set a smaller `block`, or a larger `span`",
        )
    yield "offset", str(start)
    yield "size", str(length)


def phases(
    wanted: spec.FioJobs | spec.Mix, planning: Planning, *, ask_fio: bool = True
) -> MeasuredJobs:
    """Return the phases of a job file, or the one phase of a mix.

    If `ask_fio` is true and fio is installed on this host, fio checks each phase, and also the
    options of the job file as the user wrote them. Raises UsageError, with file and line, for an
    option that fio refuses.
    """
    room = Room(
        length_bytes=planning.level_bytes,
        block_bytes=planning.target.logical_block_bytes,
        simulated=planning.target.simulated,
        content=planning.profile.content,
        discards=planning.target.discards,
    )
    if isinstance(wanted, spec.Mix):
        name, jobs = wanted.name, tuple(sections(wanted, planning))
    else:
        name = wanted.source.name
        jobs = job_file(wanted.source.text, path=name)
    found = phases_of(jobs, path=name, room=room)
    for phase in found.phases:
        _require_countable(phase, planning.target)
        if ask_fio:
            _require_known_to_fio(phase, name, simulated=planning.target.simulated)
    if ask_fio:
        _require_accepted_by_fio(jobs, name)
    return found


def warm_up(planning: Planning) -> Workload | None:
    """Return the first phase that writes, without rates and pauses; None if no phase writes.

    Raises Misplaced if a job file or mix is refused.
    """
    for index, measure in enumerate(planning.profile.measure):
        if not isinstance(measure.stage, spec.FioJobs | spec.Mix):
            continue
        try:
            found = phases(measure.stage, planning)
        except UsageError as error:
            raise Misplaced(("measure", index, measure.key), error) from error
        for phase in found.phases:
            if phase.workload.writes:
                return uncapped(phase.workload)
    return None


def _require_countable(phase: Phase, target: TargetInfo) -> None:
    if target.kind is TargetKind.FILE and len(set(phase.workload.block_sizes)) > 1:
        raise UsageError(
            f"{phase.workload.title}: on a file, all jobs that run at the same time need the same "
            "block size, because the kernel counts only the bytes of a process, not its requests",
            hint="use one `bs`, or a block device",
        )


def _require_accepted_by_fio(sections: Sequence[Section], name: str) -> None:
    """Raise UsageError if fio refuses these jobs, even for an option that ssdbench leaves out.

    fio gets only options that ssdbench read and allowed, and no other text of the job file.
    """
    lines = [line for section in sections for line in (f"[{section.name}]", *section.options)]
    if error := complaint("".join(f"{line}\n" for line in lines)):
        options = [line for line in lines if isinstance(line, Option)]
        place = next((option.place for option in options if str(option) in error), name)
        raise UsageError(f"{place}: fio refuses it: {error}")


def _require_known_to_fio(phase: Phase, name: str, *, simulated: bool) -> None:
    way: dict[str, str | int] = (
        {"ioengine": "nbd", "uri": "sim:"}
        if simulated
        else {"ioengine": "libaio", "filename": "/dev/null", "direct": 1}
    )

    def said(workload: Workload) -> str:
        return complaint(jobfile([Job("check", workload, seed=1)], options={**way, "thread": 1}))

    if error := said(phase.workload):
        raise UsageError(f"{_blamed(phase, error, said) or name}: fio refuses it: {error}")


def _blamed(phase: Phase, error: str, said: Callable[[Workload], str]) -> str:
    """Return the place of the option that fio's error message names, or that causes the error."""
    if named := [option.place for option in phase.options if f"{option.name}=" in error]:
        return named[-1]
    for option in reversed(phase.options):
        streams = tuple(
            stream.model_copy(
                update={"options": tuple(o for o in stream.options if o[0] != option.name)}
            )
            for stream in phase.workload.streams
        )
        if streams != phase.workload.streams and not said(
            phase.workload.model_copy(update={"streams": streams})
        ):
            return option.place
    return ""
