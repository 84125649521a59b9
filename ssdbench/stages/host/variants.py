"""Which states of the host are compared: schedulers, queue settings, engines (pure)."""

from collections.abc import Collection, Sequence

from ssdbench.generator.fio.jobfile import Options
from ssdbench.host.topology import Topology
from ssdbench.stages.host.trial import TrialWorkload, Variant
from ssdbench.tuning.plan import require_scheduler
from ssdbench.tuning.setting import Backend, Setting
from ssdbench.units import KIB, MIB, format_size

_TRIED = "the experiment compares it"
_BATCHES: Options = {"iodepth_batch_submit": 16, "iodepth_batch_complete_min": 16}  # can merge


def scheduler_variants(wanted: Sequence[str], offered: Sequence[str], drive: str) -> list[Variant]:
    """One variant per scheduler, all that exist unless some are named. Raises HostLacks."""
    for name in wanted:
        require_scheduler(name, offered)
    return [
        Variant(name, (Setting(Backend.BLOCK, "queue/scheduler", name, _TRIED, drive),))
        for name in wanted or offered
    ]


def queue_variants(offered: Collection[str], drive: str) -> list[Variant]:
    """As it is, then one setting after another moved away from it, where the queue has it."""
    tried = {
        "nomerges": ("0", "2"),
        "rq_affinity": ("0", "1", "2"),
        "nr_requests": ("32", "128"),
        "add_random": ("0", "1"),
    }
    variants = [Variant("as it is")]
    for name, values in tried.items():
        if name not in offered:
            continue
        for value in values:
            setting = Setting(Backend.BLOCK, f"queue/{name}", value, _TRIED, drive)
            needs = (
                (Setting(Backend.BLOCK, "queue/scheduler", "mq-deadline", _TRIED, drive), setting)
                if name == "nr_requests"  # without a scheduler the driver sets its limit
                else (setting,)
            )
            variants.append(Variant(f"{name} {value}", needs))
    return variants


def frequency_variants(host: Topology, drive: str) -> tuple[list[Variant], list[str]]:
    """The host as it is, slower steps of its CPUs, and entropy credited or not; with what is not.

    "Wimpy" and "beefy" CPUs in one machine: the same drive behind less computing power.
    """
    variants, notes = [Variant("as it is")], []
    if host.policies and len(host.frequencies_khz) > 1:
        steps = host.frequencies_khz
        for khz in dict.fromkeys((steps[0], steps[len(steps) // 2], steps[-1])):
            limits = tuple(
                Setting(Backend.SYSFS, f"{policy}/scaling_max_freq", str(khz), _TRIED)
                for policy in host.policies
            )
            variants.append(Variant(f"at most {khz / 1000:.0f} MHz", limits))
    else:
        notes.append("this host does not let its CPU frequency be set, so there is one speed only")
    if "add_random" in host.queue:
        variants += [
            Variant(name, (Setting(Backend.BLOCK, "queue/add_random", value, _TRIED, drive),))
            for name, value in (("disk entropy credited", "1"), ("not credited", "0"))
        ]
    return variants, notes


def path_variants(wanted: Sequence[str], offered: Sequence[str], drive: str) -> list[Variant]:
    """The schedulers that are named, or the drive as it is. Raises HostLacks."""
    return scheduler_variants(wanted, offered, drive) if wanted else [Variant("as it is")]


def path_workloads() -> tuple[TrialWorkload, ...]:
    """Alone, queued, and mergeable: three ways through the layers."""
    alone: Options = {"rw": "randread", "bs": 4 * KIB, "iodepth": 1}
    queued: Options = {"rw": "randread", "bs": 4 * KIB, "iodepth": 32}
    merged: Options = {"rw": "write", "bs": 4 * KIB, "iodepth": 32, **_BATCHES}
    return (
        TrialWorkload("4 KiB random read, depth 1", (alone,)),
        TrialWorkload("4 KiB random read, depth 32", (queued,)),
        TrialWorkload("4 KiB random write, depth 8", ({**alone, "rw": "randwrite", "iodepth": 8},)),
        TrialWorkload("4 KiB sequential write, batched", (merged,)),
    )


def cost_workloads() -> tuple[TrialWorkload, ...]:
    """Reads whose cost is the host's: one at a time, and as many as one core can keep going."""
    read: Options = {"rw": "randread", "bs": 4 * KIB}
    return (
        TrialWorkload("4 KiB random read, depth 1", ({**read, "iodepth": 1},)),
        TrialWorkload("4 KiB random read, depth 32", ({**read, "iodepth": 32},)),
    )


def engine_variants(
    engines: Collection[str], hit_bytes: int, *, polls: bool = False
) -> list[Variant]:
    """Ways to submit, of those that this fio was built with.

    `hit_bytes`: the part of the drive that is read again and again for hits of the page cache.
    `polls`: whether the drive has queues that are polled.
    """
    batch: Options = {"iodepth_batch_submit": 8, "iodepth_batch_complete_min": 4}
    tried: list[tuple[str, dict[str, str | int]]] = [
        ("psync threads", {"ioengine": "psync", "numjobs": 8, "iodepth": 1}),
        ("posixaio", {"ioengine": "posixaio"}),
        ("libaio", {"ioengine": "libaio"}),
        ("libaio batched", {"ioengine": "libaio", **batch}),
        ("io_uring", {"ioengine": "io_uring"}),
        ("io_uring batched", {"ioengine": "io_uring", **batch}),
        ("io_uring fixed buffers", {"ioengine": "io_uring", "fixedbufs": 1, "registerfiles": 1}),
        ("io_uring polled", {"ioengine": "io_uring", "hipri": 1}),
        ("page cache", {"ioengine": "psync", "numjobs": 8, "iodepth": 1, "direct": 0}),
        (
            "page cache hits",
            {"ioengine": "psync", "iodepth": 1, "direct": 0, "size": hit_bytes, "pre_read": 1},
        ),
    ]
    return [
        Variant(name, (), options)
        for name, options in tried
        if options["ioengine"] in engines and (polls or "hipri" not in options)
    ]


def scheduler_workloads() -> tuple[TrialWorkload, ...]:
    """What Dunn (2009, chapter V) compared schedulers with, by fio; and a reader with priority."""
    reader: Options = {"rw": "randread", "bs": 4 * KIB, "iodepth": 1, "numjobs": 2}
    return (
        TrialWorkload(
            "sequential write", ({"rw": "write", "bs": 128 * KIB, "iodepth": 4, "numjobs": 1},)
        ),
        TrialWorkload(
            "random write", ({"rw": "randwrite", "bs": 4 * KIB, "iodepth": 16, "numjobs": 2},)
        ),
        TrialWorkload(
            "readers beside a sequential writer",
            ({"rw": "write", "bs": 128 * KIB, "iodepth": 4}, reader),
        ),
        TrialWorkload(
            "database: 16 KiB, 70 % reads",
            ({"rw": "randrw", "rwmixread": 70, "bs": 16 * KIB, "iodepth": 4, "numjobs": 2},),
        ),
        TrialWorkload(
            "mixed: sequential, two reads for each write",
            ({"rw": "rw", "rwmixread": 67, "bs": 64 * KIB, "iodepth": 1, "numjobs": 4},),
        ),
        TrialWorkload(
            "real-time reader beside idle-class writers",
            (
                {"rw": "randwrite", "bs": 64 * KIB, "iodepth": 8, "prioclass": 3},
                {**reader, "prioclass": 1, "prio": 0},
            ),
        ),
    )


def surface_variants(records: Sequence[int], *, buffered: bool) -> list[Variant]:
    """One per record size; a thread submits one record after another, as Iozone does."""
    return [
        Variant(
            format_size(record),
            (),
            {"bs": record, "ioengine": "psync", "iodepth": 1, "direct": 0 if buffered else 1},
        )
        for record in records
    ]


def surface_workloads(files: Sequence[int], span_bytes: int) -> tuple[TrialWorkload, ...]:
    """Four directions on every size that the drive has room for."""
    directions = (
        ("sequential read", "read"),
        ("random read", "randread"),
        ("sequential write", "write"),
        ("random write", "randwrite"),
    )
    return tuple(
        TrialWorkload(f"{words}, {format_size(size)}", ({"rw": rw, "size": size},))
        for words, rw in directions
        for size in files
        if size <= span_bytes
    )


def random_reads() -> TrialWorkload:
    """4 KiB random reads at depth 8."""
    return TrialWorkload("4 KiB random read", ({"rw": "randread", "bs": 4 * KIB, "iodepth": 8},))


def queue_workloads() -> tuple[TrialWorkload, ...]:
    """Random reads, and small sequential writes that can be merged."""
    merged: Options = {"rw": "write", "bs": 4 * KIB, "iodepth": 32, **_BATCHES}
    return (random_reads(), TrialWorkload("4 KiB sequential write", (merged,)))


HIT_BYTES = 4 * MIB
NO_POLLING = (
    "polled io_uring is not offered: the drive has no poll queues (nvme.poll_queues=N at boot)"
)
