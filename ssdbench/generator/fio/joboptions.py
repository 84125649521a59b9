"""What a fio job that is measured may say; pure.

Every option is on a list here or is refused by name, with its line: nothing in a job file starts a
program, names a file or a device, or says how long it runs.
"""

from collections.abc import Mapping

from ssdbench.errors import UsageError
from ssdbench.foreign import plain
from ssdbench.generator.fio.userjobs import Option
from ssdbench.model.asked.jobs import MOST_NAME

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
    "nr_files": "nrfiles",
    "disable_bw": "disable_bw_measurement",
    "fill_fs": "fill_device",
    "blocksize_unaligned": "bs_unaligned",
}

# What a job does, handed to fio as it is.
REQUESTS = frozenset(
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
PACE = frozenset(
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
_VALUED = _READ - {"stonewall", "new_group", "direct", "buffered"}  # not by their name alone

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
_ENGINES = "ways into the kernel are compared in a sweep (`engine: [libaio, io_uring_fixed]`)"
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
    **dict.fromkeys(("fixedbufs", "registerfiles", "hipri", "hipri_percentage", "sqthread_poll",
                     "sqthread_poll_cpu", "nonvectored", "uncached", "nowait", "force_async",
                     "cmd_type", "userspace_reap"), _ENGINES),
    "buffer_pattern": "it may name a file",
    "profile": "it makes jobs of its own",
    "kb_base": "sizes are read with fio's own units",
}  # fmt: skip
# At these values an option does nothing; all of them are refused or unknown else.
_OFF: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(
        ("unlink", "verify", "do_verify", "verify_only", "experimental_verify", "rate_min",
         "rate_iops_min", "latency_target", "max_latency", "hipri", "hipri_percentage", "fixedbufs",
         "registerfiles", "sqthread_poll", "nonvectored", "uncached", "nowait", "force_async",
         "disable_lat", "disable_clat", "disable_slat", "disable_bw_measurement", "gtod_reduce",
         "bs_unaligned", "bs_is_seq_rand", "zonesize", "zoneskip", "fill_device", "overwrite",
         "pre_read", "create_only", "verify_state_save"),
        frozenset({"0"}),
    ),
    **dict.fromkeys(("nrfiles", "openfiles"), frozenset({"1"})),
    "verify": frozenset({"0", "none"}),
    "continue_on_error": frozenset({"0", "none"}),
    "zonemode": frozenset({"none"}),
}  # fmt: skip
PRIORITY = frozenset(
    ["prio", "prioclass", "cmdprio", "cmdprio_class", "cmdprio_percentage", "cmdprio_bssplit"]
)
BUFFERS = frozenset(["zero_buffers", "refill_buffers", "buffer_compress_percentage"])


def known(option: Option) -> tuple[Option, str]:
    """An option of the list by its first name, and why it is left out where it is.

    Raises UsageError for any other.
    """
    name = _ALIASES.get(option.name, option.name)
    named = plain(option.name, MOST_NAME)
    if not option.value.isprintable() or set("$`") & set(option.value):
        raise UsageError(
            f"{option.place}: {named} holds a variable or a sign that is not printed; neither "
            "is replaced",
            hint="write its value",
        )
    if not option.value and name in _VALUED:
        raise UsageError(f"{option.place}: {named} has no value", hint="write one, or remove it")
    if name in REQUESTS | PACE | _READ or name in _SETTLED:
        why = _SETTLED.get(name)
        told = f"{option.place}: {shown(option)} is left out: {why}" if why else ""
        return Option(name, option.value, option.place), told
    if option.value in _OFF.get(name, ()):
        told = f"{option.place}: {shown(option)} is left out: at this value it does nothing"
        return Option(name, option.value, option.place), told
    why = _REFUSED.get(name, "it is not on the list of options that a measured job may have")
    raise UsageError(
        f"{option.place}: {named} is refused: {why}",
        hint="remove it; the page on your workload lists what a job may say",
    )


def place_of(options: Mapping[str, Option], *names: str) -> str:
    """Where one of these options stands, else where any does."""
    for option in (*(options[name] for name in names if name in options), *options.values()):
        return option.place
    return "a job without options"


def shown(option: Option) -> str:
    """An option in a message."""
    return plain(str(option), 2 * MOST_NAME)
