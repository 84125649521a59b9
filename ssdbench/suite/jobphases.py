"""What a profile's fio job files ask of a target: phases of streams, each checked by fio itself."""

from collections.abc import Callable

from ssdbench.errors import Misplaced, UsageError
from ssdbench.generator.base import Job
from ssdbench.generator.fio.driver import complaint
from ssdbench.generator.fio.jobfile import jobfile
from ssdbench.generator.fio.userworkloads import (
    MeasuredJobs,
    Phase,
    Room,
    measured_jobs,
    phases_of,
    uncapped,
)
from ssdbench.model.profile import Profile, spec
from ssdbench.model.target import TargetInfo, TargetKind
from ssdbench.model.workload import Workload
from ssdbench.suite.mixes import sections


def phases(
    wanted: spec.FioJobs | spec.Mix, profile: Profile, target: TargetInfo, level_bytes: int
) -> MeasuredJobs:
    """The phases of a job file on a target, or a mix, which is one.

    Raises UsageError for what is refused, with its line.

    What only fio can tell is asked of the fio of this host, where there is one.
    """
    room = Room(
        length_bytes=level_bytes,
        block_bytes=target.logical_block_bytes,
        simulated=target.simulated,
        content=profile.content,
        discards=target.discards,
    )
    if isinstance(wanted, spec.Mix):
        name = wanted.name
        found = phases_of(tuple(sections(wanted, target, level_bytes)), path=name, room=room)
    else:
        name = wanted.source.name
        found = measured_jobs(wanted.source.text, path=name, room=room)
    for phase in found.phases:
        _require_countable(phase, target)
        _require_known_to_fio(phase, name, simulated=target.simulated)
    return found


def warm_up(profile: Profile, target: TargetInfo, level_bytes: int) -> Workload | None:
    """The first job phase that writes, as fast as it goes; None where there is none.

    Raises Misplaced for what is refused.
    """
    for index, measure in enumerate(profile.measure):
        if not isinstance(measure.stage, spec.FioJobs | spec.Mix):
            continue
        try:
            found = phases(measure.stage, profile, target, level_bytes)
        except UsageError as error:
            raise Misplaced(("measure", index, measure.key), error) from error
        for phase in found.phases:
            if phase.workload.writes:
                return uncapped(phase.workload)
    return None


def _require_countable(phase: Phase, target: TargetInfo) -> None:
    if target.kind is TargetKind.FILE and len(set(phase.workload.block_sizes)) > 1:
        raise UsageError(
            f"{phase.workload.title}: on a file all jobs that run at the same time need one block "
            "size, as the kernel counts a process's bytes and not its requests",
            hint="use one `bs`, or a block device",
        )


def _require_known_to_fio(phase: Phase, name: str, *, simulated: bool) -> None:
    way: dict[str, str | int] = (
        {"ioengine": "nbd", "uri": "sim:"}
        if simulated
        else {"ioengine": "libaio", "filename": "/dev/null", "direct": 1}
    )

    def said(workload: Workload) -> str:
        return complaint(jobfile([Job("check", workload, seed=1)], options={**way, "thread": 1}))

    if told := said(phase.workload):
        raise UsageError(f"{_blamed(phase, told, said) or name}: fio refuses it: {told}")


def _blamed(phase: Phase, told: str, said: Callable[[Workload], str]) -> str:
    """Where the option stands that fio names, or without which it has nothing to say."""
    if named := [option.place for option in phase.options if f"{option.name}=" in told]:
        return named[-1]
    for option in reversed(phase.options):
        streams = tuple(
            stream.model_copy(
                update={"options": tuple(o for o in stream.options if o[0] != option.name)}
            )
            for stream in phase.workload.streams
        )
        if streams != phase.workload.streams and not said(
            phase.workload.model_copy(update={"streams": streams})
        ):
            return option.place
    return ""
