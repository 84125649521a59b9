"""Make the trial of host settings that a profile asks for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from ssdbench.engine.hostsettings import host_backends
from ssdbench.errors import HostLacks, UsageError
from ssdbench.generator.fio.driver import installed
from ssdbench.host import blktrace
from ssdbench.host.activity import activity
from ssdbench.host.sysfs import Sysfs
from ssdbench.host.topology import Topology, cpu_text, topology
from ssdbench.model.found import ComparedKind
from ssdbench.model.kind import KINDS, StageKind
from ssdbench.model.profile import spec
from ssdbench.model.target import TargetInfo
from ssdbench.stages.host import variants
from ssdbench.stages.host.blocktrace import BlockTrace, block_trace
from ssdbench.stages.host.trial import Trial, TrialWorkload, Variant
from ssdbench.target.inspect import kernel_name
from ssdbench.tuning.setting import Backend
from ssdbench.units import format_size


def host_trial(name: str, wanted: spec.OnDrive, target: TargetInfo, span_bytes: int) -> Trial:
    """Make the trial for one stage of the profile.

    Raises UsageError for a target that is not a block device, HostLacks for a scheduler that this
    kernel does not have.
    """
    kernel = kernel_name(target)
    if target.simulated or not kernel:
        raise UsageError(
            f"{name} compares settings of the host, but {target.name} is not a block device",
            hint="Name a whole drive or a loop device, or leave the stage out.",
        )
    chosen = _chosen(wanted, _Here(target, topology(kernel), span_bytes))
    return Trial(
        name=name,
        kind=chosen.kind,
        title=KINDS[chosen.kind].title,
        variants=tuple(chosen.variants),
        workloads=chosen.workloads,
        span_bytes=span_bytes,
        repeats=wanted.repeats,
        window_s=max(1, round(wanted.window_s)),
        notes=chosen.notes,
        probe=chosen.probe,
    )


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Hold the variants and workloads of one kind of trial."""

    kind: ComparedKind
    variants: Sequence[Variant]
    workloads: tuple[TrialWorkload, ...]
    notes: tuple[str, ...] = ()
    probe: BlockTrace | None = None


@dataclass(frozen=True, slots=True)
class _Here:
    """Hold the host and the drive on which a trial runs."""

    target: TargetInfo
    host: Topology
    span_bytes: int


def _chosen(wanted: spec.OnDrive, here: _Here) -> _Chosen:
    match wanted:
        case spec.Schedulers():
            compared = variants.scheduler_variants(
                wanted.schedulers, here.host.schedulers, here.target.here
            )
            return _Chosen(StageKind.SCHEDULERS, compared, variants.SCHEDULER_WORKLOADS)
        case spec.QueueSettings():
            compared = variants.queue_variants(here.host.queue, here.target.here)
            return _Chosen(StageKind.QUEUE, compared, variants.QUEUE_WORKLOADS)
        case spec.Depth():
            queue = sorted(here.host.queue)
            compared = variants.depth_variants(wanted.depths, queue, here.target.here)
            return _Chosen(StageKind.DEPTH, compared, variants.DEPTH_WORKLOADS)
        case spec.Interrupts():
            return _interrupts(wanted, here)
        case spec.LatencyPath():
            return _latency_path(wanted, here)
        case spec.Surface():
            return _surface(wanted, here)
        case spec.CpuCost():
            speeds, notes = variants.frequency_variants(here.host, here.target.here)
            if activity().energy_j is None:
                notes.append("this host does not report the power of its CPUs")
            workloads = variants.COST_WORKLOADS
            return _Chosen(StageKind.CPU_COST, speeds, workloads, tuple(notes))
        case spec.Engines():
            (_, built), polls = installed(), here.host.polls
            hits = min(variants.HIT_BYTES, here.span_bytes)
            compared = variants.engine_variants(built, hits, polls=polls)
            notes_of = () if polls else (variants.NO_POLLING,)
            return _Chosen(StageKind.ENGINES, compared, (variants.RANDOM_READS,), notes_of)
        case unknown:  # mypy refuses a kind of trial without a case above
            assert_never(unknown)


def _interrupts(wanted: spec.Interrupts, here: _Here) -> _Chosen:
    missing = [cpu for cpu in wanted.submitters if cpu not in here.host.cpus]
    if missing:
        raise HostLacks(
            f"submitters: there is no CPU {cpu_text(missing)}",
            hint=f"CPUs of this host: {cpu_text(here.host.cpus)}.",
        )
    found = variants.interrupt_variants(
        here.host,
        here.target.here,
        submitters=wanted.submitters,
        coalescing=_coalesces(here.target),
    )
    workloads = variants.INTERRUPT_WORKLOADS
    return _Chosen(StageKind.INTERRUPTS, found.variants, workloads, found.notes)


def _coalesces(target: TargetInfo) -> bool:
    """Tell whether the drive has a setting for coalescing interrupts."""
    if not kernel_name(target).startswith("nvme"):
        return False
    backend = host_backends(Sysfs())[Backend.NVME_FEATURE]
    try:
        backend.read(variants.COALESCING, target.here)
    except (HostLacks, OSError):
        return False
    return True


def _latency_path(wanted: spec.LatencyPath, here: _Here) -> _Chosen:
    if wanted.btt and (reason := blktrace.missing()):
        raise HostLacks(reason, hint="Install it, or leave `btt` out: tracepoints need no program.")
    drive, interrupts = here.target, here.host.interrupts
    return _Chosen(
        StageKind.LATENCY_PATH,
        variants.path_variants(wanted.schedulers, here.host.schedulers, drive.here),
        variants.PATH_WORKLOADS,
        probe=block_trace(drive, kernel_name(drive), interrupts, btt=wanted.btt),
    )


def _surface(wanted: spec.Surface, here: _Here) -> _Chosen:
    workloads = variants.surface_workloads(wanted.files_bytes, here.span_bytes)
    if not workloads or min(wanted.files_bytes) < max(wanted.records_bytes):
        raise UsageError(
            "the files of a surface must fit on the drive, and its records must not be larger than "
            "the files",
            hint="Set smaller `files` or `records`.",
        )
    left_out = [size for size in wanted.files_bytes if size > here.span_bytes]
    return _Chosen(
        StageKind.SURFACE,
        variants.surface_variants(wanted.records_bytes, buffered=wanted.buffered),
        workloads,
        notes=tuple(f"{format_size(size)} does not fit on the drive" for size in left_out),
    )
