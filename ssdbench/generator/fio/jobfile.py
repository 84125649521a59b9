"""Write workloads as the text of a fio job file; pure.

fio reads `4KiB` as 4000 bytes, so every size is an integer of bytes. Comments in the file say which
options avoid a trap of fio.
"""

import math
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ssdbench.errors import UsageError
from ssdbench.generator.base import Job
from ssdbench.generator.fio.layout import Section, largest_block, sections, wants_lfsr
from ssdbench.host import regular
from ssdbench.host.names import Reader, written
from ssdbench.model.workload import Arrivals, Content, IoEngine, Pattern, Workload

Options = Mapping[str, str | int]

LOG_ENTRIES = (1024, 1_048_576)  # the least and the most that fio takes
SIGMAS = 6  # of Poisson arrivals: the log has room for this many more than expected
_STREAM = ".s"  # with its number: follows the log prefix of a job
UNTIL_STOPPED_S = 10 * 365 * 86400  # time_based needs a time; this one is never reached

_ALWAYS: Mapping[str, str | int] = {
    "group_reporting": 1,
    "allow_file_create": 0,  # else a mistyped device becomes a regular file in /dev, with status 0
    "randrepeat": 0,  # else every start replays the same offsets, and randseed is ignored
    "exitall_on_error": 1,
    "disk_util": 0,  # we read the kernel's counters ourselves
    "log_alternate_epoch": 1,  # log times count from one origin over all jobs of a file,
    "log_alternate_epoch_clock_id": 1,  # on CLOCK_MONOTONIC: the wall clock may step
    "lat_percentiles": 1,
}


def jobfile(jobs: Sequence[Job], *, options: Mapping[str, str | int]) -> str:
    """Return a job file for `jobs` in order. Raises UsageError for a workload beyond fio."""
    lines = ["[global]", *_lines({**_ALWAYS, **options})]
    for index, job in enumerate(jobs):
        if job.workload.streams:
            lines += _streams(index, job)
            continue
        if job.replays:
            lines += _replayed(index, job, options)
            continue
        for number, section in enumerate(parts := sections(job)):
            lines += ["", f"[{_section_name(index, job, number if len(parts) > 1 else None)}]"]
            # A stonewall also begins a group, so that each job is reported on its own.
            wall: Options = {"stonewall": 1} if index and not number else {}
            lines += _lines(
                {
                    **wall,
                    **_section_options(job, section),
                    **({"size": options["size"]} if "size" in options else {}),
                    **_logs(index, job, section),
                }
            )
    return "\n".join(lines) + "\n"


def _replayed(index: int, job: Job, options: Options) -> Iterator[str]:
    """Return a section per client of a replay, each with its own iolog."""
    redirect: Options = {"replay_redirect": options["filename"]} if "filename" in options else {}
    expected = -(-(job.total_requests or 0) // len(job.replays))
    own: Options = {
        **redirect,
        "read_iolog_chunked": 1,  # else all of it is in memory, four times as large
        "rw": "rw",
        "bs": largest_block(job.workload),  # the largest: buffers are made once
        "iodepth": 1,
        **_buffers(job.workload),
        "disable_slat": 1,
        "disable_clat": 1,
    }
    log: Options = {
        "write_lat_log": log_prefix(index, job),
        "log_entries": min(LOG_ENTRIES[1], max(LOG_ENTRIES[0], expected)),
    }
    for number, path in enumerate(job.replays):
        wall: Options = {"stonewall": 1} if index and not number else {}
        seed = {"randseed": job.seed + 1 + number}  # of the data
        yield ""
        yield f"[{_section_name(index, job, number)}]"
        kept = log if job.logged is None or number in job.logged else {}
        yield from _lines({**wall, "read_iolog": filename(path), **seed, **own, **kept})


def sections_jobfile(sections: Sequence[Options], *, options: Mapping[str, str | int]) -> str:
    """Return a job file of sections that run at the same time and are reported as one job.

    All options are options of fio. `options` are for all sections; options of a section
    override them.
    """
    lines = ["[global]", *_lines({**_ALWAYS, **options})]
    for number, section in enumerate(sections):
        lines += ["", f"[part{number}]", *_lines(section)]
    return "\n".join(lines) + "\n"


def filename(path: str) -> str:
    """Return a path as the value of `filename`. Raises UsageError if a job file cannot hold it."""
    return written(Reader.FIO_FILE, path)


def log_prefix(index: int, job: Job) -> str:
    """Return the prefix of the log names of a job, in the directory of its run of fio."""
    return f"{index:02d}-{re.sub(r'[^A-Za-z0-9_]', '-', job.name)[:60]}"


def histogram_logs(directory: Path, index: int, job: Job, stream: int | None = None) -> list[Path]:
    """List the histogram logs of a job or of one of its streams, one per thread."""
    prefix = log_prefix(index, job)
    if job.workload.streams:
        prefix += _STREAM + ("*" if stream is None else str(stream))
    return regular.find_logs(directory, f"{prefix}_clat_hist.*.log")


def latency_logs(directory: Path, index: int, job: Job) -> list[Path]:
    """List the logs of every I/O of a job, one per thread."""
    return regular.find_logs(directory, f"{log_prefix(index, job)}_lat.*.log")


def _streams(index: int, job: Job) -> Iterator[str]:
    """Return the sections of a job of several streams, which begin and end together."""
    streams = job.workload.streams
    for number, (stream, part) in enumerate(zip(streams, _parts(job), strict=True)):
        name = f"{log_prefix(index, job)}{_STREAM}{number}"
        # Each stream is reported on its own. `exitall` and errors end all groups all the same.
        begin: Options = {"new_group": 1} if number else {"stonewall": 1} if index else {}
        end: Options = {"time_based": 1, "runtime": UNTIL_STOPPED_S}
        if job.runtime_s is not None:
            end = {"time_based": 1, "runtime": _milliseconds(job.runtime_s)}
        if part is not None:
            # The first stream to reach its part ends all, so that the mix stays the same.
            end = {"io_size": part, "exitall": 1, **end}
            end.pop("time_based")
        yield ""
        yield f"[{name}]"
        yield from _lines(
            {
                **begin,
                "exit_what": "all",
                **dict(stream.options),
                "randseed": job.seed + 1,
                **end,
                **_histogram_log(name, job),
            }
        )


def _parts(job: Job) -> Iterator[int | None]:
    """Yield the most bytes that each thread of a stream may move; None if it does not write.

    The bytes are split by the rates of the streams if all writing streams have a rate, otherwise
    equally over all threads.
    """
    streams = job.workload.streams
    rated = all(stream.moved_bytes_per_s for stream in streams if stream.writes)
    weights = [
        stream.writes * (stream.moved_bytes_per_s if rated else float(stream.numjobs))
        for stream in streams
    ]
    for stream, weight in zip(streams, weights, strict=True):
        if job.total_bytes is None or not stream.writes:
            yield None
        else:
            yield max(1, int(job.total_bytes * weight / sum(weights) / stream.numjobs))


def _section_name(index: int, job: Job, part: int | None) -> str:
    return log_prefix(index, job) + ("" if part is None else f".{part}")


def _lines(options: Mapping[str, str | int]) -> Iterator[str]:
    return (f"{name}={written(Reader.FIO, str(value))}" for name, value in options.items())


def _section_options(job: Job, section: Section) -> Options:
    workload = job.workload
    return {
        **_direction(workload),
        **_blocks(workload, section),
        "offset": section.offset_bytes,
        "size": section.size_bytes,
        "iodepth": section.iodepth,
        "numjobs": section.numjobs,
        **_offsets(job, section),
        **_buffers(workload),
        **_verify(job, section),
        **({} if job.flush_every is None else {"fsync": job.flush_every}),
        **_pace(workload, section),
        **_end(job, section),
    }


def _direction(workload: Workload) -> Options:
    prefix = "rand" if workload.pattern is Pattern.RANDOM else ""
    skip = ""
    if workload.stride_bytes is not None:
        if workload.stride_bytes <= workload.block_bytes:
            raise UsageError("a stride must be larger than the block")
        # Not zonemode=strided, which ignores the size and goes beyond the range.
        skip = f":{workload.stride_bytes - workload.block_bytes}"
    match workload.read_percent:
        case 0:
            return {"rw": f"{prefix}write{skip}"}
        case 100:
            return {"rw": f"{prefix}read{skip}"}
        case percent:
            return {"rw": (f"{prefix}rw" if prefix else "rw") + skip, "rwmixread": percent}


def _blocks(workload: Workload, section: Section) -> Options:
    if workload.block_split and not section.tail:
        return {"bssplit": ":".join(f"{size}/{share}" for size, share in workload.block_split)}
    return {"bs": section.block_bytes}


def _offsets(job: Job, section: Section) -> Options:
    workload = job.workload
    seed: Options = {"randseed": job.seed + 1}  # a seed of 0 would give all threads one sequence
    if workload.pattern is not Pattern.RANDOM or section.tail:
        return seed
    if job.cover:
        return {**seed, "random_generator": "lfsr"} if wants_lfsr(section) else seed
    # Without a map a pass of fio touches 63 % of the blocks. This is right for steady random I/O,
    # where each request is independent, and wrong for a fill.
    return {**seed, "norandommap": 1, **_zones(workload)}


def _zones(workload: Workload) -> Options:
    if not workload.zones:
        return {}
    if any(value != int(value) for zone in workload.zones for value in zone):
        raise UsageError("fio takes only whole percentages in zones", hint="round the zones")
    text = ":".join(f"{int(share)}/{int(part)}" for share, part in workload.zones)
    return {"random_distribution": f"zoned:{text}"}


def _buffers(workload: Workload) -> Options:
    if not workload.writes:
        return {}
    # fio's default buffers differ in 24 bytes of 4096 and shrink to 7 %.
    return {"zero_buffers": 1} if workload.content is Content.ZEROS else {"refill_buffers": 1}


def _verify(job: Job, section: Section) -> Options:
    header = job.verify
    if header is None:
        return {}
    block_bytes = min(header.block_bytes, section.block_bytes)
    options: Options = {
        "verify": "crc32c",
        "verify_interval": block_bytes,
        "verify_offset": header.offset_bytes(block_bytes),
        "verify_state_save": 0,
    }
    if not job.workload.writes:
        return {**options, "continue_on_error": "verify"}
    # fio makes the random data of each block with its header, so no buffer is filled before.
    return {**options, "do_verify": 0, "refill_buffers": 0, "scramble_buffers": 0}


def _pace(workload: Workload, section: Section) -> Options:
    pace: dict[str, str | int] = {}
    if section.pace is not None:
        # fio applies the rate to each direction; 0 is not allowed even for an unused one.
        pace["rate_iops"] = ",".join(str(max(1, rate)) for rate in section.pace.both)
        if workload.arrivals is Arrivals.POISSON:
            pace["rate_process"] = "poisson"
    if workload.thinktime_us:
        pace["thinktime"] = workload.thinktime_us
        if workload.thinktime_blocks > 1:
            pace["thinktime_blocks"] = workload.thinktime_blocks
        if workload.burst_us:
            pace["thinktime_iotime"] = f"{workload.burst_us}us"  # bare, it is seconds
    return pace


def _end(job: Job, section: Section) -> Options:
    end: dict[str, str | int] = {}
    if section.io_bytes is not None:
        end["io_size"] = section.io_bytes
    else:
        end["time_based"] = 1
    if job.runtime_s is not None:
        end["runtime"] = _milliseconds(job.runtime_s)
    elif section.io_bytes is None:
        end["runtime"] = UNTIL_STOPPED_S
    return end


def _milliseconds(seconds: float) -> str:
    return f"{max(1, round(seconds * 1000))}ms"


def _histogram_log(prefix: str, job: Job) -> dict[str, str | int]:
    if not job.histogram_log:
        return {}
    return {
        "write_hist_log": prefix,
        "log_hist_msec": job.histogram_s * 1000,
        "clat_percentiles": 1,  # the histogram log is a view of these bins
    }


def _logs(index: int, job: Job, section: Section) -> Options:
    logs = _histogram_log(log_prefix(index, job), job)
    if job.latency_log:
        logs |= {"write_lat_log": log_prefix(index, job), "log_offset": 1, "disable_slat": 1}
        logs["log_entries"] = _entries(job, section)
        if not job.histogram_log:
            logs["disable_clat"] = 1
    return logs


def _entries(job: Job, section: Section) -> int:
    """Return the log size that holds all I/Os of a thread from the start.

    When a log is full, fio lets the queue run empty while it makes the log larger (iolog.c,
    regrow_logs), so the drive pauses at the 1,024th I/O, the 3,072nd, the 7,168th and so on.
    """
    least, most = LOG_ENTRIES
    if section.pace is not None and job.runtime_s is not None:
        expected = sum(section.pace.both) * job.runtime_s
        return min(most, max(least, round(expected + SIGMAS * math.sqrt(expected))))
    if job.total_bytes is None:
        return most
    smallest = min((size for size, _ in job.workload.block_split or ()), default=0)
    return min(most, max(least, job.total_bytes // (smallest or job.workload.block_bytes) + 1))


_FIXED: Options = {"ioengine": "io_uring", "fixedbufs": 1, "registerfiles": 1}
ENGINE_OPTIONS: Mapping[IoEngine, Options] = {
    IoEngine.LIBAIO: {},  # the attachment's own engine
    IoEngine.IO_URING: {"ioengine": "io_uring"},
    IoEngine.IO_URING_FIXED: _FIXED,
    IoEngine.IO_URING_POLLED: {**_FIXED, "hipri": 1},
    IoEngine.IO_URING_CMD: {"ioengine": "io_uring_cmd", "cmd_type": "nvme"},
}


def engine_of(jobs: Sequence[Job]) -> IoEngine:
    """Return the engine of all jobs of a run of fio. Raises ValueError if engines differ."""
    found = {job.workload.engine for job in jobs}
    if len(found) != 1:
        raise ValueError("the jobs of one run of fio have one engine")
    return found.pop()


GOLDEN_RATIO = 0x61C8864680B583EB
SECTOR_BYTES = 512
_WORDS = struct.Struct(f"={SECTOR_BYTES // 8}Q")
_MASK = (1 << 64) - 1
# Rows side by side: 1 before fio 3.15 and for data shorter than a row.
_ROWS = (4, 1, 2, 8, 16)
_LEAST_STEPS = 8  # words that must follow the rule, where zeros end a sector
# fio's header of verified data, with a crc32c (fio 3.33, verify.h; checked with 3.33).
_HEADER_MAGIC, _HEADER_BYTES = 0xACCA, 44
_HEADER_WORDS = -(-_HEADER_BYTES // 8)


def written_by_fio(data: bytes) -> bool:
    """Tell whether every sector is fio's data, zeros or ones, and at least one is fio's.

    With `refill_buffers` fio fills each buffer from one random number: in four rows of 64-bit
    words, side by side, each word is the one before it in its row times a constant (fio 3.33,
    lib/rand.c `__fill_random_buf`, hash.h `GOLDEN_RATIO_64`). Other data follows that rule in a
    sector of 512 bytes by chance once in 2 ** 3840. Compressible data ends with zeros. A block
    of verified data has a header in one sector, and the words that the header replaced at its
    start (fio 3.33, verify.c `memswp`). The result is False for a length that is not a multiple
    of a sector.
    """
    if not data or len(data) % SECTOR_BYTES:
        return False
    sectors = [data[at : at + SECTOR_BYTES] for at in range(0, len(data), SECTOR_BYTES)]
    filled = [s for s in sectors if s.strip(b"\0") and s.strip(b"\xff")]
    return bool(filled) and all(_follows(_WORDS.unpack(sector)) for sector in filled)


def _follows(words: Sequence[int]) -> bool:
    end = len(words)
    while end and not words[end - 1]:
        end -= 1
    for rows in _ROWS:
        steps = range(end - rows)
        if len(steps) >= _LEAST_STEPS:
            broken = {n for n in steps if words[n] * GOLDEN_RATIO & _MASK != words[n + rows]}
            if not broken or any(broken == part for part in _verified(words, rows, steps)):
                return True
    return False


def _verified(words: Sequence[int], rows: int, steps: Sequence[int]) -> Iterator[set[int]]:
    """Yield the steps that the header of verified data breaks: here, at the block's start, both."""
    whole = _HEADER_BYTES // 8  # words that were replaced at the start, which follow the rule too
    start = {n for n in steps if n < _HEADER_WORDS and n + rows >= whole}
    yield start
    for at, word in enumerate(words):
        if word & 0xFFFF == _HEADER_MAGIC:
            place = range(at, at + _HEADER_WORDS)
            header = {n for n in steps if n in place or n + rows in place}
            yield header
            yield header | start
