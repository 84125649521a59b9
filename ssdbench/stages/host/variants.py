"""Define variants and workloads of trials: schedulers, queue, engines, interrupts and more; no I/O.

The variants of interrupts follow figures 3 and 6 of Seppanen et al. (2010): interrupts of the same
reads are handled on the submitting CPU, on a near CPU, on a far CPU, or on all CPUs.
"""

from collections.abc import Collection, Iterator, Sequence

from ssdbench.errors import HostLacks
from ssdbench.generator.fio.jobfile import Options
from ssdbench.host.topology import Topology, cpu_text
from ssdbench.model.profile import IrqAffinity
from ssdbench.stages.host.trial import TrialWorkload, Variant
from ssdbench.tuning.plan import irq_plan, require_scheduler
from ssdbench.tuning.setting import Backend, Setting
from ssdbench.units import KIB, MIB, format_size

_TRIED = "the experiment compares it"
_BATCHES: Options = {"iodepth_batch_submit": 16, "iodepth_batch_complete_min": 16}  # can merge


def _workload(name: str, **options: str | int) -> TrialWorkload:
    """Make a workload of one fio section; its requests have 4 KiB unless `bs` is given."""
    return TrialWorkload(name, ({"bs": 4 * KIB, **options},))


READ_ALONE = _workload("4 KiB random read, depth 1", rw="randread", iodepth=1)
READ_QUEUED = _workload("4 KiB random read, depth 32", rw="randread", iodepth=32)
RANDOM_READS = _workload("4 KiB random read", rw="randread", iodepth=8)
COST_WORKLOADS = (READ_ALONE, READ_QUEUED)  # one request at a time, and as many as one CPU can send
PATH_WORKLOADS = (
    READ_ALONE,
    READ_QUEUED,
    _workload("4 KiB random write, depth 8", rw="randwrite", iodepth=8),
    _workload("4 KiB sequential write, batched", rw="write", iodepth=32, **_BATCHES),
)
QUEUE_WORKLOADS = (
    RANDOM_READS,
    _workload("4 KiB sequential write", rw="write", iodepth=32, **_BATCHES),
)
# Reads from many threads need many interrupts.
INTERRUPT_WORKLOADS = (
    _workload("4 KiB random read, 8 jobs", rw="randread", iodepth=8, numjobs=8),
    READ_ALONE,
)
DEPTH_WORKLOADS = (
    _workload("4 KiB random read", rw="randread"),
    _workload("4 KiB random write", rw="randwrite"),
    _workload("4 KiB sequential write", rw="write"),
)
_READER: Options = {"rw": "randread", "bs": 4 * KIB, "iodepth": 1, "numjobs": 2}
# The workloads of Dunn (2009, chapter V), and a reader with real-time priority.
SCHEDULER_WORKLOADS = (
    _workload("sequential write", rw="write", bs=128 * KIB, iodepth=4, numjobs=1),
    _workload("random write", rw="randwrite", iodepth=16, numjobs=2),
    TrialWorkload(
        "readers beside a sequential writer",
        ({"rw": "write", "bs": 128 * KIB, "iodepth": 4}, _READER),
    ),
    _workload(
        "database: 16 KiB, 70 % reads", rw="randrw", rwmixread=70, bs=16 * KIB, iodepth=4, numjobs=2
    ),
    _workload(
        "mixed: sequential, two reads for each write",
        rw="rw",
        rwmixread=67,
        bs=64 * KIB,
        iodepth=1,
        numjobs=4,
    ),
    TrialWorkload(
        "real-time reader beside idle-class writers",
        (
            {"rw": "randwrite", "bs": 64 * KIB, "iodepth": 8, "prioclass": 3},
            {**_READER, "prioclass": 1, "prio": 0},
        ),
    ),
)


def _queue(name: str, value: str, drive: str) -> Setting:
    return Setting(Backend.BLOCK, f"queue/{name}", value, _TRIED, drive)


def scheduler_variants(wanted: Sequence[str], offered: Sequence[str], drive: str) -> list[Variant]:
    """Return a variant per wanted (else offered) scheduler. Raises HostLacks if not offered."""
    for name in wanted:
        require_scheduler(name, offered)
    return [Variant(name, (_queue("scheduler", name, drive),)) for name in wanted or offered]


def queue_variants(offered: Collection[str], drive: str) -> list[Variant]:
    """Return the unchanged queue, and one variant for each setting that the drive's queue has."""
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
            setting = _queue(name, value, drive)
            needs = (
                (_queue("scheduler", "mq-deadline", drive), setting)
                if name == "nr_requests"  # without a scheduler the driver sets the limit
                else (setting,)
            )
            variants.append(Variant(f"{name} {value}", needs))
    return variants


def frequency_variants(host: Topology, drive: str) -> tuple[list[Variant], list[str]]:
    """Return variants of the host: unchanged, slower CPUs, with and without disk entropy.

    The variants with slower CPUs show which rates the same drive reaches with less CPU power.
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
        notes.append("the CPU frequency of this host cannot be set, so there is only one speed")
    if "add_random" in host.queue:
        variants += [
            Variant(name, (_queue("add_random", value, drive),))
            for name, value in (("disk entropy credited", "1"), ("not credited", "0"))
        ]
    return variants, notes


def path_variants(wanted: Sequence[str], offered: Sequence[str], drive: str) -> list[Variant]:
    """Return a variant per wanted scheduler, or the unchanged host.

    Raises HostLacks if not offered.
    """
    return scheduler_variants(wanted, offered, drive) if wanted else [Variant("as it is")]


def engine_variants(
    engines: Collection[str], hit_bytes: int, *, polls: bool = False
) -> list[Variant]:
    """Return one variant for each way to submit I/O that this fio supports.

    One variant reads the same `hit_bytes` bytes again and again, so that the page cache answers.
    `polls` says whether the drive has poll queues.
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


def surface_variants(records: Sequence[int], *, buffered: bool) -> list[Variant]:
    """Return one variant per request size; like Iozone, fio sends one request at a time."""
    return [
        Variant(
            format_size(record),
            (),
            {"bs": record, "ioengine": "psync", "iodepth": 1, "direct": 0 if buffered else 1},
        )
        for record in records
    ]


def surface_workloads(files: Sequence[int], span_bytes: int) -> tuple[TrialWorkload, ...]:
    """Return four workloads for each size of the used part that fits into `span_bytes`."""
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


HIT_BYTES = 4 * MIB
NO_POLLING = (
    "polled io_uring is not offered: the drive has no poll queues (nvme.poll_queues=N at boot)"
)


_BALANCE = "irqbalance would move interrupts meanwhile"
_WITHOUT_BALANCE = (Setting(Backend.SERVICE, "irqbalance", "inactive", _BALANCE),)
COALESCING = "0x08"  # NVMe base specification: threshold - 1 in bits 7:0, time / 100 us in 15:8
_COALESCED = (("off", 0x0000), ("4 or 100 us", 0x0103), ("16 or 200 us", 0x020F))


def interrupt_variants(
    host: Topology, drive: str, *, submitters: Sequence[int] = (), coalescing: bool = False
) -> tuple[tuple[Variant, ...], tuple[str, ...]]:
    """Return variants of interrupts (which CPU, rq_affinity, coalescing), and notes.

    `submitters` are the CPUs that send I/O; if it is empty, the first CPU sends I/O. `coalescing`
    says whether the drive can coalesce interrupts. The notes say which variants this drive and host
    cannot have.
    """
    cpus = tuple(submitters) or host.cpus[:1]
    notes: list[str] = []
    can_move = any(not irq.managed for irq in host.interrupts)
    balanced = ", irqbalance running" if can_move and host.irqbalance else ""
    variants = [Variant(f"as it is{balanced}, from CPUs {cpu_text(cpus)}", cpus=cpus)]
    if balanced:
        variants.append(Variant("irqbalance stopped", _WITHOUT_BALANCE, cpus=cpus))
    elif can_move:
        notes.append("irqbalance is not running, so it is not compared")
    variants += _placed(host, cpus, notes)
    if not any(variant.settings for variant in variants):
        variants += _moved_submitters(host, cpus, [variant.cpus for variant in variants])
    variants += _completions(host, drive, cpus)
    if coalescing:
        variants += [
            Variant(
                f"coalescing {words}",
                (Setting(Backend.NVME_FEATURE, COALESCING, str(value), _TRIED, drive),),
                cpus=cpus,
            )
            for words, value in _COALESCED
        ]
    else:
        notes.append("the drive cannot coalesce interrupts")
    return tuple(variants), tuple(dict.fromkeys(notes))


def _placed(host: Topology, cpus: tuple[int, ...], notes: list[str]) -> Iterator[Variant]:
    """Yield variants that move interrupts; if the kernel fixes these, move submitters instead.

    For a drive without interrupts of its own, only a note is yielded.
    """
    if not host.interrupts:
        notes.append("the drive has no interrupts of its own, so the submitters move instead")
        return
    for wish in (
        IrqAffinity.LOCAL,
        IrqAffinity.NEIGHBOUR,
        IrqAffinity.REMOTE,
        IrqAffinity.SPREAD,
    ):
        try:
            plan = irq_plan(wish, cpus, host)
            managed = any(irq.managed for irq in host.interrupts)
            if managed:  # the kernel fixes the interrupts, so the submitters move
                plan = irq_plan(wish, (), host)
        except HostLacks as lacking:
            notes.append(lacking.message)
            continue
        notes += plan.notes
        if plan.settings:
            settings = (*(_WITHOUT_BALANCE if host.irqbalance else ()), *plan.settings)
            yield Variant(f"interrupts {wish}", settings, cpus=cpus)
        elif plan.submitters:
            name = f"{wish}: submitters on CPUs {cpu_text(plan.submitters)}"
            yield Variant(name, cpus=plan.submitters)


def _moved_submitters(
    host: Topology, cpus: tuple[int, ...], known: Sequence[tuple[int, ...]]
) -> Iterator[Variant]:
    """Yield variants in which fio submits on the last CPU, and on all CPUs."""
    for other in dict.fromkeys((host.cpus[-1:], host.cpus)):
        if other != cpus and other not in known:
            yield Variant(f"from CPUs {cpu_text(other)}", cpus=other)


def _completions(host: Topology, drive: str, cpus: tuple[int, ...]) -> Iterator[Variant]:
    if "rq_affinity" not in host.queue:
        return
    for value, words in (("0", "anywhere"), ("1", "near"), ("2", "on the submitter")):
        setting = _queue("rq_affinity", value, drive)
        yield Variant(f"rq_affinity {value}, {words}", (setting,), cpus=cpus)


def depth_variants(depths: Sequence[int], offered: Sequence[str], drive: str) -> list[Variant]:
    """Return one variant per queue depth, and one with the largest depth but no merging."""
    variants = [Variant(f"{depth}", (), _batched(depth)) for depth in depths]
    if "nomerges" in offered and depths:
        setting = _queue("nomerges", "2", drive)
        variants.append(Variant(f"{max(depths)}, no merging", (setting,), _batched(max(depths))))
    return variants


def _batched(depth: int) -> Options:
    """Return fio options for a queue depth; fio sends half of it at once, so requests can merge."""
    half = max(1, depth // 2)
    return {"iodepth": depth, "iodepth_batch_submit": half, "iodepth_batch_complete_min": half}
