"""From a profile to the replay of a trace."""

from pathlib import Path

from ssdbench.errors import UsageError
from ssdbench.model.profile import Applies, Profile, spec
from ssdbench.model.target import TargetInfo, TargetKind
from ssdbench.stages.replay import Replay


def replay(
    name: str, wanted: spec.Replay, profile: Profile, target: TargetInfo, level_bytes: int
) -> Replay:
    """The replay that a profile asks for.

    Raises UsageError where this target cannot have one, or for a trace that cannot be sent.
    """
    if target.kind is TargetKind.FILE:
        raise UsageError(
            "a trace cannot be replayed on a regular file: the kernel does not count its requests",
            hint="Use a drive, a simulated drive, or a loop device.",
        )
    if profile.generator is not Applies.FIO:
        raise UsageError("only fio replays traces", hint="Set `generator: fio`.")
    stage = Replay(
        name=name,
        called=wanted.called,
        path=Path(wanted.file),
        form=wanted.form,
        columns=wanted.columns,
        names=wanted.processes,
        files=wanted.files,
        speed=wanted.speed,
        placing=wanted.placing,
        traced_bytes=wanted.traced_bytes or 0,
        range_bytes=level_bytes,
        block_bytes=target.logical_block_bytes,
        clients=wanted.clients,
        passes=wanted.passes,
        repeats=wanted.repeats,
        content=profile.content,
    )
    stage.require()
    return stage
