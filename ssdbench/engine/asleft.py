"""Whether a target is as a run left it; if it is not, consent is asked for again.

What somebody else put there since the run stopped was never agreed to, whatever the run was started
with. Three things are compared: samples of the content, the signatures, and the counters of what
was written.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ssdbench.engine.claimedsession import counters_of, health_written_bytes
from ssdbench.engine.journal import Record
from ssdbench.engine.standing import Standing, standing
from ssdbench.generator.fio.buffers import written_by_fio
from ssdbench.model.target import TargetInfo, TargetKind
from ssdbench.target import content
from ssdbench.target.consent import needed
from ssdbench.target.content import Look, Remembered
from ssdbench.target.objection import DATA, DESTROY, Objection


@dataclass(frozen=True, slots=True)
class AsLeft:
    """What a look at the target of a run that goes on has shown."""

    known: bool = True  # this host has a record of what that run left
    against: tuple[Objection, ...] = ()  # what is otherwise now
    seen: Look | None = None

    @property
    def unchanged(self) -> bool:
        """Whether what the run was allowed to overwrite is all that is there."""
        return self.known and not self.against


def is_watched(info: TargetInfo) -> bool:
    """Whether what a target holds is recorded; simulated drives and the lab's disks are ours."""
    return info.kind is TargetKind.FILE or needed(info)


def as_left(info: TargetInfo, run: str, records: Sequence[Record], *, ours: bool) -> AsLeft:
    """Compare a target with what `run` left there, by this host's record and the run's journal.

    `ours`: the run may have left file systems. What a run that was killed had written since the
    record was made is known by itself, as fio's; blocks of a file system are not, and pass only
    while the counters show that nobody else wrote.
    """
    if not is_watched(info):
        return AsLeft()
    left = content.recalled(info)
    is_own = left is not None and left.run == run
    if info.kind is TargetKind.FILE and not is_own:
        return AsLeft()  # the mark on a file says what it held when a run ended
    try:
        seen = content.look(info, also=left.digests if left is not None else ())
    except OSError as error:
        reason = f"cannot tell what it holds: {error.strerror or error}"
        return AsLeft(against=(Objection(reason),))
    if left is None or not is_own:
        other = left is not None and left.run
        why = "another run of ssdbench used it since" if other else ""
        return AsLeft(False, (Objection(why, DATA),) if why else (), seen)
    shown = _standing(info, records)
    against = _against(left, seen, shown, ours=ours)
    if info.kind is TargetKind.FILE:
        against = [Objection(o.reason, (DESTROY, info.id)) for o in against]
    return AsLeft(True, tuple(against), seen)


def _standing(info: TargetInfo, records: Sequence[Record]) -> Standing:
    now = counters_of(info)
    if now.epoch:
        now = now.model_copy(update={"log_bytes": health_written_bytes(info)})
    return standing(records, now)


def _against(left: Remembered, seen: Look, shown: Standing, *, ours: bool) -> list[Objection]:
    found = content.came_since(
        left,
        seen,
        written_by_us=written_by_fio,
        ours=ours and left.at_work and shown.stands,
    )
    if shown.touched:
        found.append(Objection(f"somebody else used it since: {shown.reason}", DATA))
    return found
