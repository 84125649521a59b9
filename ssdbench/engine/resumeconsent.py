"""Decide whether a resumed run may go on: what root agreed to, and whether its target changed."""

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from ssdbench.engine.changes import Standing, standing
from ssdbench.engine.claimedsession import counters_of, health_written_bytes
from ssdbench.engine.journal import Record, utc_now
from ssdbench.engine.manifest import Manifest
from ssdbench.engine.store import load
from ssdbench.errors import TargetRefused
from ssdbench.generator.fio.jobfile import written_by_fio
from ssdbench.host.files import make_private_directory, require_private, write_atomic
from ssdbench.host.records import settings_directory
from ssdbench.model.base import Model
from ssdbench.model.target import CONTENT, Consent, TargetInfo, TargetKind
from ssdbench.target import content
from ssdbench.target.consent import lacking, needed
from ssdbench.target.content import Look, Remembered
from ssdbench.target.guard import remaining
from ssdbench.target.objection import DATA, DESTROY, Objection, options_of, refuse, way_out


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
    shown = _content_kept(info, records)
    against = _against(left, seen, shown, ours=ours)
    if info.kind is TargetKind.FILE:
        against = [Objection(o.reason, (DESTROY, info.id)) for o in against]
    return AsLeft(True, tuple(against), seen)


def _content_kept(info: TargetInfo, records: Sequence[Record]) -> Standing:
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


AS_LEFT = AsLeft()
NAME = "runs"  # below the settings directory
KEPT = 1000  # records; older ones go, and their runs ask for --destroy again


class Agreed(Model):
    """One run that root agreed to; schema version 1."""

    schema_version: int = 1
    run_id: str
    identity: str
    manifest_sha256: str
    at: str
    leaves_signatures: bool = False  # what is on the target since then may be our own


class Agreement:
    """The record of one run, found by its manifest."""

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory or settings_directory() / NAME
        self._kept: Agreed | None = None

    def note(self, kept: Manifest) -> None:
        """Keep on disk that root agreed to this run; nothing where no record is needed."""
        if not needs_record(kept.target):
            return
        make_private_directory(self._directory.parent)
        make_private_directory(self._directory)
        self._write(
            Agreed(
                run_id=kept.run_id,
                identity=kept.target.id,
                manifest_sha256=_digest(kept),
                at=utc_now(),
                leaves_signatures=self._kept is not None and self._kept.leaves_signatures,
            )
        )
        paths = sorted(self._directory.glob("*.json"), key=lambda path: path.stat().st_mtime)
        for path in paths[:-KEPT]:
            path.unlink(missing_ok=True)

    def note_signatures(self) -> None:
        """Keep, before a step of the run makes file systems, that they will be our own."""
        if self._kept is not None:
            self._write(self._kept.model_copy(update={"leaves_signatures": True}))

    def find(self, kept: Manifest) -> Agreed | None:
        """The record of a run, None where root never agreed to just this manifest here.

        Raises HostLacks when somebody else could have written it.
        """
        digest = _digest(kept)
        path = self._directory / f"{digest}.json"
        for part in (self._directory.parent, self._directory, path):
            require_private(part)
        if not path.exists():
            return None
        found = load(path, Agreed)
        self._kept = found
        named = (found.manifest_sha256, found.run_id, found.identity)
        return found if named == (digest, kept.run_id, kept.target.id) else None

    def _write(self, agreed: Agreed) -> None:
        text = agreed.model_dump_json(indent=1) + "\n"
        write_atomic(self._directory / f"{agreed.manifest_sha256}.json", text, mode=0o600)
        self._kept = agreed


def needs_record(info: TargetInfo) -> bool:
    """Whether going on with a run on a target takes a record: root, and something real."""
    return os.geteuid() == 0 and not info.simulated


def consent_to_go_on(
    kept: Manifest,
    info: TargetInfo,
    given: Consent,
    agreement: Agreement,
    *,
    ours: bool,
    left: AsLeft = AS_LEFT,
    again: str = "",
) -> Consent:
    """What a resumed run may do to its target: as once agreed to, or as the command line says.

    `ours`: the journal says that signatures on the target are our own; where a record is needed,
    the record alone is believed. Data and signatures that the run was allowed to overwrite are
    those that it left: whatever else is there now (`left`) takes consent again. `again`: the
    command that gives it, where `given` is of a line that is called again and again, and so says
    nothing of what came since. Raises TargetRefused when nobody who counts agreed.
    """
    agreed = kept.consent
    if needs_record(info):
        record = agreement.find(kept)
        agreed, ours = _recorded(record, agreed)
        if record is None:
            if given.identity != info.consent_id:
                refuse(info.name, _unrecorded(info, given))
            left = AS_LEFT  # all of the consent is given anew
    if again:
        given = given.model_copy(update={"overwrite": False, "data": False})
    if not left.unchanged:
        agreed, ours = agreed.model_copy(update={"overwrite": False, "data": False}), False
    if ours:
        agreed = agreed.overwriting()
    if agreed.identity is not None and agreed.identity.partition(CONTENT)[0] == info.id:
        # What it held when it was named is compared by `left`, and the run itself has changed it.
        agreed = agreed.model_copy(update={"identity": info.consent_id})
    consent = Consent(
        identity=given.identity or agreed.identity,
        overwrite=given.overwrite or agreed.overwrite,
        shared=given.shared or agreed.shared,
        unproven=given.unproven or agreed.unproven,
        data=given.data or agreed.data,
        wear=given.wear or agreed.wear,
    )
    if not left.unchanged:
        _require_again(info, left, given, consent, again)
    return consent


def _require_again(
    info: TargetInfo, left: AsLeft, given: Consent, consent: Consent, again: str
) -> None:
    """Raise TargetRefused unless what came since is consented to on this command line."""
    found = remaining(left.against, given)
    seen = DATA if left.against else ("",)  # of which more is said there already
    found += [o for o in lacking(info, consent) if o.option != seen]
    if not found or not again:
        refuse(info.name, found)
        return
    options = options_of(found)
    hint = (
        f"if you do not need what is there now: `{again} {shlex.join(options)}`" if options else ""
    )
    raise TargetRefused(info.name, [o.reason for o in found], hint=hint or way_out(found))


def _recorded(record: Agreed | None, manifest: Consent) -> tuple[Consent, bool]:
    """What is on the target of a recorded run since then is the run's own data."""
    if record is None:
        return Consent(), False
    return manifest.model_copy(update={"data": True}), record.leaves_signatures


def _unrecorded(info: TargetInfo, given: Consent) -> list[Objection]:
    why = Objection(
        "this host has no record that root agreed to this run, and its directory alone is no "
        "consent",
        ("--destroy", info.consent_id),
    )
    return [why, *lacking(info, given)]


def _digest(kept: Manifest) -> str:
    return sha256(kept.model_dump_json().encode()).hexdigest()
