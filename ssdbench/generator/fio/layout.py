"""Divide the range of a job among fio's threads; only arithmetic on bytes."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby, islice

from ssdbench.errors import UsageError
from ssdbench.generator.base import Job
from ssdbench.generator.fio.arrivals import Pace, shares
from ssdbench.model.workload import Arrivals, Pattern, Workload

LFSR_FROM_BLOCKS = 1 << 26  # for more blocks, fio's random map needs over 8 MiB: use an LFSR


@dataclass(frozen=True, slots=True)
class Section:
    """Hold a part of a job's range, in which each of `numjobs` threads does `io_bytes`."""

    offset_bytes: int
    size_bytes: int
    block_bytes: int
    numjobs: int = 1
    iodepth: int = 1
    io_bytes: int | None = None  # bytes of each thread; None: until runtime or stop
    tail: bool = False  # the rest of a range, smaller than a block
    pace: Pace | None = None  # requests per second of each thread, if the job has a rate


def largest_block(workload: Workload) -> int:
    """Return the largest block that the workload uses."""
    return max(workload.block_sizes)


def sections(job: Job) -> tuple[Section, ...]:
    """Split the range of a job into parts for threads.

    Threads share the range only if their offsets are random. With sequential offsets, or random
    offsets that cover each block once, each thread has a part for itself. If the range of a fill is
    not a whole number of blocks, the rest gets another part. Raises ValueError if the job's
    `total_bytes` is not positive.
    """
    if job.total_bytes is not None and job.total_bytes <= 0:
        raise ValueError(f"{job.name}: the total must be positive, got {job.total_bytes}")
    workload = job.workload
    unit = workload.stride_bytes or largest_block(workload)
    length = workload.range.length_bytes
    body = length if workload.stride_bytes else length // unit * unit
    tail_io = _tail_io(job, length=length, tail=length - body)
    total = None if job.total_bytes is None else job.total_bytes - tail_io
    shared = workload.pattern is Pattern.RANDOM and not job.cover
    parts = [(0, body)] if shared else list(_split(body, unit, workload.numjobs))
    threads = workload.numjobs if shared else 1
    found = [
        Section(
            offset_bytes=workload.range.offset_bytes + start,
            size_bytes=size,
            block_bytes=workload.block_bytes,
            numjobs=threads,
            iodepth=workload.iodepth,
            io_bytes=_share(total, size, body * threads, largest_block(workload)),
        )
        for start, size in parts
    ]
    if tail_io:
        found.append(
            replace(
                found[-1],
                offset_bytes=workload.range.offset_bytes + body,
                size_bytes=length - body,
                block_bytes=length - body,
                iodepth=1,
                io_bytes=tail_io,
                tail=True,
            )
        )
    return tuple(found if workload.rate_iops is None else _paced(found, workload))


def _paced(parts: list[Section], workload: Workload) -> Iterator[Section]:
    """Split each part whose threads would get different whole numbers of requests per second."""
    paces = iter([pace for threads, pace in shares(workload, _faster(workload))
                  for _ in range(threads)])  # fmt: skip
    for part in parts:
        for pace, alike in groupby(islice(paces, part.numjobs)):
            yield replace(part, numjobs=len(list(alike)), pace=pace)


def _faster(workload: Workload) -> float:
    """Return the factor by which rate_iops must be raised if a job has several block sizes.

    fio turns rate_iops into bytes per second by the smallest block size, except with Poisson
    arrivals.
    """
    split = workload.block_split
    if not split or workload.arrivals is Arrivals.POISSON:
        return 1.0
    mean = sum(size * share for size, share in split) / sum(share for _, share in split)
    return mean / min(size for size, _ in split)


def within(job: Job, *, size_bytes: int, block_bytes: int) -> None:
    """Check that a job fits a target, as fio would silently shorten it. Raises UsageError."""
    workload = job.workload
    end = workload.range.offset_bytes + workload.range.length_bytes
    if end > size_bytes:
        raise UsageError(
            f"{job.name} ends at byte {end}, but the target has only {size_bytes} bytes"
        )
    wrong = [n for n in (*workload.block_sizes, workload.range.offset_bytes) if n % block_bytes]
    if wrong:
        raise UsageError(
            f"{job.name}: {wrong[0]} bytes is not a multiple of the target's block of {block_bytes}"
        )


def wants_lfsr(section: Section) -> bool:
    """Tell whether fio's map of a section's written blocks would need too much memory."""
    return section.size_bytes // section.block_bytes > LFSR_FROM_BLOCKS


def _tail_io(job: Job, *, length: int, tail: int) -> int:
    """Return the bytes to write in the tail: the tail's size times the passes of a fill; else 0."""
    fill = job.total_bytes is not None and (job.cover or job.workload.pattern is Pattern.SEQUENTIAL)
    return tail * ((job.total_bytes or 0) // length) if fill else 0


def _split(length: int, unit: int, numjobs: int) -> Iterator[tuple[int, int]]:
    """Yield start and size of at most `numjobs` parts; the last one gets the remainder."""
    units = max(1, length // unit)
    parts = min(numjobs, units)
    start = 0
    for part in range(parts):
        share = units // parts + (part < units % parts)
        size = length - start if part == parts - 1 else share * unit
        yield start, size
        start += size


def _share(total: int | None, size: int, of: int, block: int) -> int | None:
    """Return one thread's share of the job's total bytes, rounded up to whole blocks."""
    if total is None:
        return None
    return max(1, -(-total * size // (of * block))) * block
