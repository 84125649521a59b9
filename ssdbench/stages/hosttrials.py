"""Builds the experiments over the host that a profile asks for."""

from ssdbench.engine.hosting import kernel_name
from ssdbench.errors import UsageError
from ssdbench.generator.fio.output import engines_of
from ssdbench.host import command
from ssdbench.host.topology import topology
from ssdbench.model import asked
from ssdbench.model.target import TargetInfo
from ssdbench.stages import hostvariants
from ssdbench.stages.trial import Trial


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
    host = topology(kernel)
    match wanted:
        case asked.Schedulers():
            title = "Compare I/O schedulers"
            variants = hostvariants.scheduler_variants(
                wanted.schedulers, host.schedulers, target.id
            )
            workloads = hostvariants.scheduler_workloads()
        case asked.QueueSettings():
            title = "Compare settings of the queue"
            variants = hostvariants.queue_variants(host.queue, target.id)
            workloads = hostvariants.queue_workloads()
        case _:
            title = "Compare ways to submit I/O"
            built = engines_of(command.run(["fio", "--enghelp"], timeout_s=20).stdout)
            hits = min(hostvariants.HIT_BYTES, span_bytes)
            variants = hostvariants.engine_variants(built, hits)
            workloads = (hostvariants.random_reads(),)
    return Trial(
        name=name,
        kind=name.partition("-")[2],
        title=title,
        variants=tuple(variants),
        workloads=workloads,
        span_bytes=span_bytes,
        repeats=wanted.repeats,
        window_s=max(1, round(wanted.window_s)),
        cpus=cpus,
    )
