"""Builds the experiments over the host that a profile asks for."""

from collections.abc import Sequence
from dataclasses import dataclass

from ssdbench.engine.hosting import kernel_name
from ssdbench.errors import UsageError
from ssdbench.generator.fio.output import engines_of
from ssdbench.host import command
from ssdbench.host.activity import activity
from ssdbench.host.topology import Topology, topology
from ssdbench.model import asked
from ssdbench.model.target import TargetInfo
from ssdbench.stages import hostvariants
from ssdbench.stages.blocktrace import block_trace
from ssdbench.stages.hostload import Probe
from ssdbench.stages.trial import Trial, TrialWorkload, Variant


def host_trial(
    name: str,
    wanted: asked.HostTrial,
    target: TargetInfo,
    span_bytes: int,
    *,
    cpus: tuple[int, ...] = (),
) -> Trial:
    """The trial of one stage of the profile.

    Raises UsageError for a target without a queue of the kernel, HostLacks for an unknown
    scheduler, with those that exist.
    """
    kernel = kernel_name(target)
    if target.simulated or not kernel:
        raise UsageError(
            f"{name} compares settings of the host, and {target.name} is no block device",
            hint="Name a whole drive or a loop device, or leave the stage out.",
        )
    chosen = _chosen(wanted, target, topology(kernel), span_bytes)
    return Trial(
        name=name,
        kind=name.partition("-")[2],
        title=chosen.title,
        variants=tuple(chosen.variants),
        workloads=chosen.workloads,
        span_bytes=span_bytes,
        repeats=wanted.repeats,
        window_s=max(1, round(wanted.window_s)),
        cpus=cpus,
        notes=chosen.notes,
        probe=chosen.probe,
    )


@dataclass(frozen=True, slots=True)
class _Chosen:
    title: str
    variants: Sequence[Variant]
    workloads: tuple[TrialWorkload, ...]
    notes: tuple[str, ...] = ()
    probe: Probe | None = None


def _chosen(
    wanted: asked.HostTrial, target: TargetInfo, host: Topology, span_bytes: int
) -> _Chosen:
    match wanted:
        case asked.Schedulers():
            return _Chosen(
                "Compare I/O schedulers",
                hostvariants.scheduler_variants(wanted.schedulers, host.schedulers, target.id),
                hostvariants.scheduler_workloads(),
            )
        case asked.QueueSettings():
            return _Chosen(
                "Compare settings of the queue",
                hostvariants.queue_variants(host.queue, target.id),
                hostvariants.queue_workloads(),
            )
        case asked.LatencyPath():
            return _Chosen(
                "Where the time of a request goes",
                hostvariants.path_variants(wanted.schedulers, host.schedulers, target.id),
                hostvariants.path_workloads(),
                probe=block_trace(target, kernel_name(target), host.interrupts),
            )
        case asked.CpuCost():
            variants, notes = hostvariants.frequency_variants(host, target.id)
            if activity().energy_j is None:
                notes.append("this machine does not tell how much power its CPUs take")
            return _Chosen(
                "What an I/O costs the host",
                variants,
                hostvariants.cost_workloads(),
                notes=tuple(notes),
            )
        case _:
            built = engines_of(command.run(["fio", "--enghelp"], timeout_s=20).stdout)
            hits = min(hostvariants.HIT_BYTES, span_bytes)
            return _Chosen(
                "Compare ways to submit I/O",
                hostvariants.engine_variants(built, hits),
                (hostvariants.random_reads(),),
            )
