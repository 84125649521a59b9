"""Write workloads as the text of a fio job file; no I/O.

fio reads `4KiB` as 4000 bytes, so each size is written as a whole number of bytes. Comments in this
module say which options avoid a surprise of fio.
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

LOG_ENTRIES = (1024, 1_048_576)  # the smallest and the largest size that fio accepts
SIGMAS = 6  # logs have room for 6 standard deviations more arrivals than expected
_STREAM = ".s"  # plus the stream's number: added to a job's log prefix
UNTIL_STOPPED_S = 10 * 365 * 86400  # time_based needs a time; this time is never reached

_ALWAYS: Mapping[str, str | int] = {
    "group_reporting": 1,
    "allow_file_create": 0,  # else a mistyped device becomes a regular file in /dev, with status 0
    "randrepeat": 0,  # else each start sends the same offsets and ignores randseed
    "exitall_on_error": 1,
    "disk_util": 0,  # we read the kernel's counters ourselves
    "log_alternate_epoch": 1,  # times in logs of all jobs count from one origin,
    "log_alternate_epoch_clock_id": 1,  # on CLOCK_MONOTONIC: the wall clock may step
    "lat_percentiles": 1,
}


def jobfile(jobs: Sequence[Job], *, options: Mapping[str, str | int]) -> str:
    """Return a job file for `jobs`. Raises UsageError for a workload that fio cannot do."""
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
            # A stonewall also begins a new group, so each job gets its own entry in fio's report.
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
    """Yield one section per client of a replay; each section has its own iolog."""
    redirect: Options = {"replay_redirect": options["filename"]} if "filename" in options else {}
    expected = -(-(job.total_requests or 0) // len(job.replays))
    own: Options = {
        **redirect,
        "read_iolog_chunked": 1,  # else fio keeps the whole iolog in memory
        "rw": "rw",
        "bs": largest_block(job.workload),  # largest size, as fio makes buffers once
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
        seed = {"randseed": job.seed + 1 + number}  # seed of the written data
        yield ""
        yield f"[{_section_name(index, job, number)}]"
        kept = log if job.logged is None or number in job.logged else {}
        yield from _lines({**wall, "read_iolog": filename(path), **seed, **own, **kept})


def sections_jobfile(sections: Sequence[Options], *, options: Mapping[str, str | int]) -> str:
    """Return a job file of sections that run at the same time and are reported as one job.

    `options` are fio options for all sections; a section's own options override them.
    """
    lines = ["[global]", *_lines({**_ALWAYS, **options})]
    for number, section in enumerate(sections):
        lines += ["", f"[part{number}]", *_lines(section)]
    return "\n".join(lines) + "\n"


def filename(path: str) -> str:
    """Return a path as fio's `filename` value. Raises UsageError if job files cannot have it."""
    return written(Reader.FIO_FILE, path)


def log_prefix(index: int, job: Job) -> str:
    """Return the prefix of a job's log file names, without the directory."""
    return f"{index:02d}-{re.sub(r'[^A-Za-z0-9_]', '-', job.name)[:60]}"


def histogram_logs(directory: Path, index: int, job: Job, stream: int | None = None) -> list[Path]:
    """List the histogram logs of a job or of one of its streams, one per thread."""
    prefix = log_prefix(index, job)
    if job.workload.streams:
        prefix += _STREAM + ("*" if stream is None else str(stream))
    return regular.find_logs(directory, f"{prefix}_clat_hist.*.log")


def latency_logs(directory: Path, index: int, job: Job) -> list[Path]:
    """List a job's latency logs, which have each I/O; there is one log per thread."""
    return regular.find_logs(directory, f"{log_prefix(index, job)}_lat.*.log")


def _streams(index: int, job: Job) -> Iterator[str]:
    """Yield the sections of a job with streams; all streams begin and end together."""
    streams = job.workload.streams
    for number, (stream, part) in enumerate(zip(streams, _parts(job), strict=True)):
        name = f"{log_prefix(index, job)}{_STREAM}{number}"
        # A new group gives each stream its own entry in fio's report. `exitall` and errors still
        # end all groups.
        begin: Options = {"new_group": 1} if number else {"stonewall": 1} if index else {}
        end: Options = {"time_based": 1, "runtime": UNTIL_STOPPED_S}
        if job.runtime_s is not None:
            end = {"time_based": 1, "runtime": _milliseconds(job.runtime_s)}
        if part is not None:
            # The first stream that has moved its part ends all streams, so that the mix stays the
            # same.
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
    """Yield, for each stream, the most bytes that a thread may move; None for read-only streams.

    The job's bytes are divided in proportion to the streams' rates if all writing streams have a
    rate, else equally over all threads.
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
        # zonemode=strided is not used, because it ignores the size and goes beyond the range.
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
    # Without a map of written blocks, one pass of fio writes only 63 % of the blocks, some of them
    # several times. This is right for steady random I/O, where requests are independent, but wrong
    # for a fill.
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
    # fio's default buffers differ only in 24 of 4096 bytes, so a drive could compress them to 7 %.
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
    # With a header, fio makes random data for each block anyway, so refilling buffers would be
    # double work.
    return {**options, "do_verify": 0, "refill_buffers": 0, "scramble_buffers": 0}


def _pace(workload: Workload, section: Section) -> Options:
    pace: dict[str, str | int] = {}
    if section.pace is not None:
        # fio applies the rate to each direction; 0 is not allowed even for an unused one.
        pace["rate_iops"] = ",".join(str(max(1, rate)) for rate in section.pace)
        if workload.arrivals is Arrivals.POISSON:
            pace["rate_process"] = "poisson"
    if workload.thinktime_us:
        pace["thinktime"] = workload.thinktime_us
        if workload.thinktime_blocks > 1:
            pace["thinktime_blocks"] = workload.thinktime_blocks
        if workload.burst_us:
            pace["thinktime_iotime"] = f"{workload.burst_us}us"  # without a unit, fio takes seconds
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
        "clat_percentiles": 1,  # fio takes the histogram log from these bins
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
    """Return a log size, in entries, that is large enough for all I/Os of a thread.

    When a log is full, fio sends no requests while it enlarges the log (iolog.c, regrow_logs). So
    without this size, the drive would pause at the 1,024th I/O, the 3,072nd, the 7,168th and so on.
    """
    least, most = LOG_ENTRIES
    if section.pace is not None and job.runtime_s is not None:
        expected = sum(section.pace) * job.runtime_s
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
    """Return the engine that all jobs of a run of fio use. Raises ValueError if engines differ."""
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
    """Tell whether data may be fio's: each sector is fio's, zeros or ones; at least one is fio's.

    With `refill_buffers`, fio fills each buffer from one random number. The buffer's 64-bit words
    form four interleaved rows; in a row, each word is the word before it times a constant (fio
    3.33, lib/rand.c `__fill_random_buf`, hash.h `GOLDEN_RATIO_64`). By chance, other data follow
    this rule in a sector of 512 bytes once in 2 ** 3840. Compressible data ends with zeros. A block
    of verified data has a header in one sector, and the words that the header replaced at its start
    (fio 3.33, verify.c `memswp`). The result is False for a length that is not a multiple of a
    sector.
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
    """Yield sets of words that may break fio's rule in a verified block: start, header, both."""
    whole = _HEADER_BYTES // 8  # the words moved from the block's start also follow the rule
    start = {n for n in steps if n < _HEADER_WORDS and n + rows >= whole}
    yield start
    for at, word in enumerate(words):
        if word & 0xFFFF == _HEADER_MAGIC:
            place = range(at, at + _HEADER_WORDS)
            header = {n for n in steps if n in place or n + rows in place}
            yield header
            yield header | start
