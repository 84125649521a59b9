"""What this host and fio can do with a workload when no drive is behind it.

fio's null engine completes each request at once: what remains is fio's own work per request,
random content and bookkeeping included, but not the kernel's. So the ceiling is an upper limit; a
drive that comes near it is measured through a host that is too slow.
"""

from collections.abc import Collection, Mapping

from ssdbench.errors import CommandFailed, HostLacks
from ssdbench.generator.base import Job
from ssdbench.generator.fio.jobfile import jobfile
from ssdbench.generator.fio.output import CutShort, parse
from ssdbench.host import command
from ssdbench.model.workload import Workload

ENGINE = "null"
RUNTIME_S = 0.3
ANSWERS_S = 60.0


def ceiling_iops(
    workload: Workload, *, cpus: Collection[int] = (), placed: Mapping[str, str] | None = None
) -> float | None:
    """I/Os per second that fio reaches on `cpus` (empty: all) with nothing behind it.

    `placed` are fio's NUMA settings.

    None for a workload whose pace is not the host's (a rate or pauses), and where this fio has no
    null engine or could not run it. Takes about half a second; nothing is read or written.
    """
    if not workload.keeps_queue_full:
        return None
    job = Job(name="ceiling", workload=workload, seed=1, runtime_s=RUNTIME_S)
    options: dict[str, str | int] = {"ioengine": ENGINE, "thread": 1, **(placed or {})}
    if cpus:
        options["cpus_allowed"] = ",".join(str(cpu) for cpu in sorted(cpus))
    try:
        said = command.run(
            ["fio", "--eta=never", "--output-format=json+", "-"],
            input=jobfile([job], options=options).encode(),
            timeout_s=ANSWERS_S,
        )
        outcome = parse(said.stdout, [job.name]).groups[0].outcome
    except (CommandFailed, HostLacks, CutShort):
        return None
    # Both directions ran at once, for the longer of their times.
    runtime_s = max(outcome.read.runtime_s, outcome.write.runtime_s)
    return (outcome.read.ios + outcome.write.ios) / runtime_s if runtime_s else None
