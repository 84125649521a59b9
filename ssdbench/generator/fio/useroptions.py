"""List the options that a user's fio job may have, and read their values as fio does; no I/O.

An option that is not listed is refused, with its name and line. So no job file can start a program,
name a file or a device, or set how long the job runs. Request sizes and rates are read in
`userrequests`. A bad value raises UsageError, with the place.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ssdbench.errors import UsageError
from ssdbench.foreign import plain
from ssdbench.generator.fio.userjobs import Option
from ssdbench.model.profile.streams import MOST_NAME

_ALIASES: Mapping[str, str] = {
    "readwrite": "rw",
    "blocksize": "bs",
    "blocksize_range": "bsrange",
    "blockalign": "ba",
    "fileoffset": "offset",
    "ratemin": "rate_min",
    "ratecycle": "rate_cycle",
    "iodepth_batch_submit": "iodepth_batch",
    "iodepth_batch_complete": "iodepth_batch_complete_min",
    "wait_for_previous": "stonewall",
    "io_limit": "io_size",
    "timeout": "runtime",
    "ss": "steadystate",
    "ss_dur": "steadystate_duration",
    "ss_ramp": "steadystate_ramp_time",
    "nr_files": "nrfiles",
    "disable_bw": "disable_bw_measurement",
    "fill_fs": "fill_device",
    "blocksize_unaligned": "bs_unaligned",
}

PRIORITY = frozenset(
    ["prio", "prioclass", "cmdprio", "cmdprio_class", "cmdprio_percentage", "cmdprio_bssplit"]
)
# Options that decide the I/O of a job; fio gets them unchanged.
REQUESTS = PRIORITY | frozenset(
    ["rwmixread", "rwmixwrite", "rw_sequencer", "ba", "percentage_random", "random_distribution",
     "norandommap", "softrandommap", "random_generator", "iodepth_batch",
     "iodepth_batch_complete_min", "iodepth_batch_complete_max", "iodepth_low",
     "serialize_overlap", "fsync", "fdatasync", "sync", "zero_buffers", "refill_buffers",
     "scramble_buffers", "buffer_compress_percentage", "buffer_compress_chunk", "dedupe_percentage"]
)  # fmt: skip
PACE = frozenset(
    ["rate", "rate_iops", "rate_process", "rate_cycle", "rate_ignore_thinktime", "thinktime",
     "thinktime_spin", "thinktime_blocks", "thinktime_blocks_type", "thinktime_iotime"]
)  # fmt: skip
_READ = frozenset(  # values are parsed here and written again in one form
    ["rw", "bs", "bsrange", "bssplit", "iodepth", "numjobs", "size", "offset", "offset_align",
     "offset_increment", "ioengine", "direct", "buffered", "stonewall", "new_group"]
)  # fmt: skip
_VALUED = _READ - {"stonewall", "new_group", "direct", "buffered"}  # allowed only with some values

_LENGTH = "the profile sets how long each repeat settles and is measured"
_SEEDS = "each repeat has other offsets and data, from the seed of the run"
_REPORT = "the report is made by ssdbench"
_SETTLED: Mapping[str, str] = {
    **dict.fromkeys(("runtime", "time_based", "io_size", "loops", "number_ios", "ramp_time",
                     "startdelay", "exitall", "steadystate", "steadystate_duration",
                     "steadystate_ramp_time"), _LENGTH),
    **dict.fromkeys(("randrepeat", "allrandrepeat", "randseed"), _SEEDS),
    **dict.fromkeys(("group_reporting", "percentile_list", "lat_percentiles", "clat_percentiles",
                     "slat_percentiles", "disk_util", "log_avg_msec", "log_hist_msec",
                     "log_max_value", "log_unix_epoch", "description"), _REPORT),
    **dict.fromkeys(("thread", "name", "invalidate", "group_reporting"), ""),
}  # fmt: skip

_PROGRAM = "it starts a program"
_PLACE = "the job always works on the target of the run"
_OUTPUT = "ssdbench decides where output goes"
_STOPS = "it would end or change the job depending on the measurement"
_UNPRICED = "checking data takes time of the host, which would count as time of the drive"
_ENGINES = "I/O engines are compared in a sweep (`engine: [libaio, io_uring_fixed]`)"
_REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("exec_prerun", "exec_postrun"), _PROGRAM),
    **dict.fromkeys(("filename", "directory", "filename_format", "opendir", "nrfiles", "openfiles",
                     "file_service_type", "unlink", "create_on_open", "uri"), _PLACE),
    **dict.fromkeys(("write_bw_log", "write_lat_log", "write_iops_log", "write_hist_log",
                     "write_iolog", "per_job_logs", "verify_state_save", "aux_path"), _OUTPUT),
    **dict.fromkeys(("read_iolog", "replay_redirect"), "a trace is measured with `- replay:`"),
    **dict.fromkeys(("latency_target", "latency_window", "latency_percentile", "latency_run",
                     "max_latency", "rate_min", "rate_iops_min", "exit_what",
                     "continue_on_error", "wait_for"), _STOPS),
    **dict.fromkeys(("verify", "do_verify", "verify_only", "experimental_verify"), _UNPRICED),
    **dict.fromkeys(("ioscheduler", "cpus_allowed", "cpumask", "numa_cpu_nodes", "numa_mem_policy",
                     "nice", "uid", "gid", "cgroup"), "the profile sets the host, not the job"),
    **dict.fromkeys(("fixedbufs", "registerfiles", "hipri", "hipri_percentage", "sqthread_poll",
                     "sqthread_poll_cpu", "nonvectored", "uncached", "nowait", "force_async",
                     "cmd_type", "userspace_reap"), _ENGINES),
    "buffer_pattern": "it may name a file",
    "profile": "it replaces the jobs of the file by other jobs",
    "kb_base": "sizes always have fio's default units",
}  # fmt: skip
# With these values (fio's defaults or "off") an option has no effect on a job on one block device.
# With other values the option is refused. Source of the defaults: options.c of fio 3.33.
# `suite.jobfiles` asks the installed fio whether it knows the option and the value.
_OFF: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(
        ("unlink", "unlink_each_loop", "verify", "verify_only", "experimental_verify",
         "verify_async", "verify_backlog", "verify_fatal", "verify_dump", "verify_offset",
         "trim_percentage", "trim_backlog", "rate_min", "rate_iops_min", "latency_target",
         "latency_window", "latency_run", "max_latency", "hipri", "hipri_percentage", "fixedbufs",
         "registerfiles", "sqthread_poll", "nonvectored", "uncached", "nowait", "force_async",
         "userspace_reap", "disable_lat", "disable_clat", "disable_slat",
         "disable_bw_measurement", "gtod_reduce", "bs_unaligned", "bs_is_seq_rand", "zonerange",
         "zonesize", "zoneskip", "zonecapacity", "read_beyond_wp", "max_open_zones",
         "job_max_open_zones", "fill_device", "overwrite", "file_append", "pre_read",
         "create_only", "create_on_open", "allow_mounted_write", "end_fsync", "fsync_on_close",
         "atomic", "flow", "nice", "exitall_on_error", "replay_no_stall",
         "error_dump", "log_offset", "log_prio", "log_compression", "log_store_compressed",
         "block_error_percentiles", "unit_base"),
        frozenset({"0"}),
    ),
    **dict.fromkeys(("nrfiles", "allow_file_create", "unique_filename", "stats"), frozenset("1")),
    # These options only concern files, checks, verified data or logs, which a measured job cannot
    # have.
    **dict.fromkeys(
        ("do_verify", "verify_state_save", "verifysort", "fadvise_hint", "create_serialize",
         "create_fsync", "per_job_logs", "openfiles"),
        frozenset("01"),
    ),
    **dict.fromkeys(("mem", "iomem"), frozenset({"malloc"})),
    **dict.fromkeys(("zonemode", "lockfile", "unified_rw_reporting", "dataplacement"),
                    frozenset({"none"})),
    **dict.fromkeys(("verify", "continue_on_error"), frozenset({"0", "none"})),
    "fallocate": frozenset({"0", "none", "native", "posix"}),  # for regular files
    "file_service_type": frozenset({"roundrobin", "random", "sequential"}),  # only one file
    "io_submit_mode": frozenset({"inline"}),
    "exit_what": frozenset({"all"}),
    "wait_for": frozenset({"none"}),
    "dedupe_mode": frozenset({"repeat"}),
    "kb_base": frozenset({"1024"}),
}  # fmt: skip

BUFFERS = frozenset(["zero_buffers", "refill_buffers", "buffer_compress_percentage"])


_ZERO = re.compile(r"0+[a-z%]*", re.IGNORECASE)  # zero with any unit


def known(option: Option) -> tuple[Option, str]:
    """Return an option under its main name, and why it is left out or "". Raises UsageError."""
    name = _ALIASES.get(option.name, option.name)
    named = plain(option.name, MOST_NAME)
    if not option.value.isprintable() or set("$`") & set(option.value):
        raise UsageError(
            f"{option.place}: {named} holds a variable, which ssdbench does not replace, or an "
            "unprintable character",
            hint="write the value itself",
        )
    if not option.value and name in _VALUED:
        raise UsageError(f"{option.place}: {named} has no value", hint="write one, or remove it")
    if name in REQUESTS | PACE | _READ or name in _SETTLED:
        why = _SETTLED.get(name)
        told = f"{option.place}: {shown(option)} is left out: {why}" if why else ""
        return Option(name, option.value, option.place), told
    if ("0" if _ZERO.fullmatch(option.value) else option.value) in _OFF.get(name, ()):
        told = f"{option.place}: {shown(option)} is left out: at this value it does nothing"
        return Option(name, option.value, option.place), told
    why = _REFUSED.get(name, "it is not on the list of options that a measured job may have")
    raise UsageError(
        f"{option.place}: {named} is refused: {why}",
        hint="remove it; docs/workloads.md lists the options that a job may have",
    )


def wrong(option: Option, why: str, *, hint: str = "") -> UsageError:
    """Make the error about an option: its place, the option and the fault."""
    return UsageError(f"{option.place}: {shown(option)} {why}", hint=hint)


def place_of(options: Mapping[str, Option], *names: str) -> str:
    """Return the place of the first of `names` that is given, else of any option."""
    for option in (*(options[name] for name in names if name in options), *options.values()):
        return option.place
    return "a job without options"


def shown(option: Option) -> str:
    """Format an option as text for a message."""
    return plain(str(option), 2 * MOST_NAME)


_MIXED = -1
_WAYS: Mapping[str, tuple[int, int]] = {  # percent of reads in reads and writes; trims in all
    "read": (100, 0),
    "write": (0, 0),
    "trim": (0, 100),
    "rw": (_MIXED, 0),
    "readwrite": (_MIXED, 0),
    "trimwrite": (0, 50),
}
_AT_RANDOM = "rand"
# fio's own units, which differ from the usual ones. Without `kb_base`, k, m and g are powers of
# 1024: `4k`, `4kb` and `4ki` are 4096 bytes, but `4kib` is 4000 bytes (__get_mult_bytes of fio's
# parse.c).
_SIZE = re.compile(r"(0x[0-9a-f]{1,15}|[0-9]{1,18})(?:([kmgtp])(?:(ib)|i|b)?|b)?", re.IGNORECASE)
_POWERS = "kmgtp"
_TIMES_US: Mapping[str, int] = {
    **dict.fromkeys(("", "us", "usec"), 1),
    **dict.fromkeys(("ms", "msec"), 1000),
    **dict.fromkeys(("s", "sec"), 1_000_000),
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}


def fio_bytes(text: str) -> int | None:
    """Parse a size as fio does, in bytes; None if it is not a size."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        return None
    power = _POWERS.index(found[2].lower()) + 1 if found[2] else 0
    number = int(found[1], 16 if found[1].lower().startswith("0x") else 10)
    return number * math.prod([1000 if found[3] else 1024] * power)


def fio_time_us(text: str) -> int | None:
    """Parse a time as fio does, in microseconds; None if it is not a time."""
    found = re.fullmatch(r"([0-9]{1,12})([a-z]*)", text.strip().lower())
    unit_us = _TIMES_US.get(found[2]) if found else None
    return None if found is None or unit_us is None else int(found[1]) * unit_us


def size_in_bytes(text: str, option: Option) -> int:
    """Parse a size in an option into bytes. Raises UsageError."""
    size = fio_bytes(text)
    if size is None:
        raise wrong(option, f"has {plain(text, MOST_NAME)!r}, which is not a size")
    return size


_NUMBERS = frozenset(["bs", "ba", "rate", "rate_iops", "percentage_random"])  # not a list or range


def by_direction(option: Option) -> tuple[str, str, str]:
    """Split an option into values for reads, writes and trims; "" for a direction without one.

    fio's rule (handle_option of its parse.c): the last value also holds for the directions after
    it, unless a comma follows the value. In an option with numbers, a colon or a minus after the
    last comma also ends a value.
    """
    *first, last = option.value.split(",")
    if option.name in _NUMBERS:
        *middle, last = last.split(":")
        first += [*middle, *last.split("-")]
    else:
        first.append(last)
    parts = [part.strip() for part in first]
    if "," in option.value and len(parts) > 3:
        raise wrong(option, "has more than three directions")
    reads, writes, trims = (parts[min(side, len(parts) - 1)] for side in range(3))
    return reads, writes, trims


def combined(before: Option, option: Option) -> Option:
    """Combine two values of an option: for each direction the later one, unless it is empty."""
    pairs = zip(by_direction(option), by_direction(before), strict=True)
    return Option(option.name, ",".join(new or old for new, old in pairs), option.place)


@dataclass(frozen=True, slots=True)
class Directions:
    """Hold the pattern and the shares of reads and trims that `rw` sets."""

    random: bool
    read_percent: int  # reads in reads + writes
    trim_percent: int  # trims in all requests
    way: str

    @property
    def shares(self) -> tuple[float, float, float]:
        """Return the shares of reads, writes and trims in all requests, in percent."""
        moves = 100 - self.trim_percent
        reads = moves * self.read_percent / 100
        return reads, moves - reads, float(self.trim_percent)


def direction(options: Mapping[str, Option]) -> Directions:
    """Parse `rw` and the share of reads; `options` has `rwmixread` or `rwmixwrite`, not both."""
    option = options.get("rw")
    if option is None:
        return Directions(False, 100, 0, "read")
    way, colon, skip = option.value.partition(":")
    plainly = way.removeprefix(_AT_RANDOM)
    if plainly not in _WAYS or way == "randreadwrite":
        raise wrong(option, "is not a direction", hint="one of " + ", ".join(_WAYS))
    back = "-" if plainly == way else ""  # sequential offsets may also descend
    if colon and fio_bytes(skip.removeprefix(back)) is None:
        raise wrong(option, f"has {skip!r}, which is not a number")
    percent, trims = _WAYS[plainly]
    if percent == _MIXED:
        percent = whole_number(options, "rwmixread", -1, least=0, most=100)
        if percent < 0:
            percent = 100 - whole_number(options, "rwmixwrite", 50, least=0, most=100)
    return Directions(plainly != way, percent, trims, option.value)


def whole_number(
    options: Mapping[str, Option], name: str, default: int, *, least: int = 1, most: int
) -> int:
    """Parse an option as a whole number, or return its default. Raises UsageError."""
    option = options.get(name)
    if option is None:
        return default
    number = int(option.value) if re.fullmatch(r"[0-9]{1,9}", option.value) else -1
    if not least <= number <= most:
        raise wrong(option, f"is not a whole number from {least} to {most:,}")
    return number


def is_nonzero(options: Mapping[str, Option], name: str) -> int:
    """Return 0 if an option is missing or off, else a number that is not 0."""
    option = options.get(name)
    return 0 if option is None or re.fullmatch(r"0*[a-z]*", option.value) else 1


def flushes(options: Mapping[str, Option]) -> bool:
    """Tell whether a job has an option by which fio sends flushes after writes."""
    return any(is_nonzero(options, key) for key in ("fsync", "fdatasync")) or is_set(
        options.get("sync")
    )


def is_on(option: Option | None) -> bool:
    """Tell whether a flag option of fio is on; a flag without a value is also on."""
    return option is not None and option.value not in ("0", "false")


def is_set(option: Option | None) -> bool:
    """Tell whether an option is given with a value that does not switch it off."""
    return option is not None and option.value not in ("0", "none")
