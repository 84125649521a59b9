"""Run fio with several sections at the same time, in options of their own.

Trials of host settings and of file systems need more than `ssdbench.generator.base.Job` has:
engines, batches, priorities, files. Their reports are checked like all others.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ssdbench.generator.base import JobOutcome
from ssdbench.generator.fio import jobfile
from ssdbench.generator.fio.attachment import Access
from ssdbench.generator.fio.driver import finished_report, started_fio
from ssdbench.generator.fio.jobfile import Options
from ssdbench.host.command import Process


@dataclass(frozen=True, slots=True)
class Sections:
    """Hold sections that start at the same time and are reported as one.

    They end after `runtime_s`, or when each has done its part; `total_bytes` is the sum of the
    parts, where known.
    """

    sections: Sequence[Options]
    longest_s: float  # fio is killed when it has not ended by then
    options: Options = field(default_factory=dict)  # of all sections
    runtime_s: float | None = None
    total_bytes: int | None = None
    name: str = "the job"  # for messages
    groups: int = 1  # in which fio reports them


def run_fio_sections(
    way: Access,
    work: Sections,
    *,
    artifacts: Path,
    cpus: Collection[int] = (),
    placed: Mapping[str, str],
    meanwhile: Callable[[Process], None] = lambda process: None,
) -> JobOutcome:
    """Run sections to their end. `placed` are the run's NUMA options.

    `meanwhile` is called while they run and returns before the end; if it raises, fio is ended.
    Raises HostLacks, DeviceLost, DeviceError and CommandFailed, as every start of fio does.
    """
    way.check()
    options = {**way.options(), **work.options, **placed}
    process = started_fio(
        way, jobfile.sections_jobfile(work.sections, options=options), artifacts, cpus=cpus
    )
    began = time.monotonic()
    try:
        meanwhile(process)
        is_late = not process.ended(began + work.longest_s - time.monotonic())
    except BaseException:
        process.kill()
        raise
    if is_late:
        process.kill()
    late_s = work.longest_s if is_late else None
    return finished_report(way, process, artifacts, [work], late_s=late_s).groups[0].outcome
