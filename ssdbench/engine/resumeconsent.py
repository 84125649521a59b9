"""Decide whether a run may be resumed: whether root agreed to it, and whether its target changed.

Any user may have written a run directory, so its manifest does not count as consent. Root can
resume a destructive run only if this host has a record that names the run, its target and its
manifest. Users other than root can only measure files and simulated drives, and need no record. If
another program wrote to the target after the run stopped, the user must consent again. To find such
writes, samples of the content, signatures of file systems, and write counters are compared.
"""

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from ssdbench.engine.changes import DriveCheck, check_drive
from ssdbench.engine.claimedsession import counters_of, health_written_bytes
from ssdbench.engine.journal import Record, utc_now
from ssdbench.engine.manifest import Manifest
from ssdbench.engine.store import load
from ssdbench.errors import TargetRefused
from ssdbench.generator.fio.jobfile import written_by_fio
from ssdbench.host.files import (
    make_private_directory,
    require_private,
    settings_directory,
    write_atomic,
)
from ssdbench.model.base import Model
from ssdbench.model.target import CONTENT, Consent, TargetInfo, TargetKind
from ssdbench.target import content
from ssdbench.target.consent import lacking, needed
from ssdbench.target.content import Look, Remembered
from ssdbench.target.guard import remaining
from ssdbench.target.objection import DATA, DESTROY, Objection, options_of, refuse, way_out


@dataclass(frozen=True, slots=True)
class ContentCheck:
    """How the target's content differs from the content that a run left there."""

    known: bool = True  # this host has a record of the content that the run left
    against: tuple[Objection, ...] = ()  # the differences
    seen: Look | None = None

    @property
    def unchanged(self) -> bool:
        """Tell whether the target's content is known and unchanged, so the run may overwrite it."""
        return self.known and not self.against


def records_content(info: TargetInfo) -> bool:
    """Tell whether ssdbench records a target's content; False for simulated and lab drives."""
    return info.kind is TargetKind.FILE or needed(info)


def check_content(
    info: TargetInfo, run: str, records: Sequence[Record], *, ours: bool
) -> ContentCheck:
    """Compare a target's content with this host's record of the content that `run` left.

    `ours` means that the run may have left file systems on the target. A killed run may have
    written after the record was made. So changed data are accepted if they have the form of fio's
    data. Changed blocks of file systems are accepted only if the write counters in the journal
    (`records`) show that no other program wrote.
    """
    if not records_content(info):
        return ContentCheck()
    left = content.recalled(info)
    is_own = left is not None and left.run == run
    if info.kind is TargetKind.FILE and not is_own:
        return ContentCheck()  # only the last run on a file has a record
    try:
        seen = content.look(info, also=left.digests if left is not None else ())
    except OSError as error:
        reason = f"cannot tell what it holds: {error.strerror or error}"
        return ContentCheck(against=(Objection(reason),))
    if left is None or not is_own:
        other = left is not None and left.run
        why = "another run of ssdbench used it since" if other else ""
        return ContentCheck(False, (Objection(why, DATA),) if why else (), seen)
    now = counters_of(info)
    if now.epoch:
        now = now.model_copy(update={"log_bytes": health_written_bytes(info)})
    shown = check_drive(records, now)
    against = _objections(left, seen, shown, ours=ours)
    if info.kind is TargetKind.FILE:
        against = [Objection(o.reason, (DESTROY, info.id)) for o in against]
    return ContentCheck(True, tuple(against), seen)


def _objections(left: Remembered, seen: Look, shown: DriveCheck, *, ours: bool) -> list[Objection]:
    found = content.came_since(
        left,
        seen,
        written_by_us=written_by_fio,
        ours=ours and left.at_work and shown.intact,
    )
    if shown.touched:
        found.append(Objection(f"something else wrote to it since: {shown.reason}", DATA))
    return found


UNCHANGED = ContentCheck()
NAME = "runs"  # directory below the settings directory
MOST_RECORDS = 1000  # the oldest above this are removed; their runs need --destroy again


class ConsentRecord(Model):
    """Record that root agreed to one run on this host."""

    schema_version: int = 1
    run_id: str
    identity: str
    manifest_sha256: str
    at: str
    leaves_signatures: bool = False  # the run may have left file systems on the target


class ConsentRecords:
    """Store and find the record of a run, by the hash of its manifest."""

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory or settings_directory() / NAME
        self._kept: ConsentRecord | None = None

    def note(self, kept: Manifest) -> None:
        """Store that root agreed to this run, if its target needs a record."""
        if not needs_record(kept.target):
            return
        make_private_directory(self._directory.parent)
        make_private_directory(self._directory)
        self._write(
            ConsentRecord(
                run_id=kept.run_id,
                identity=kept.target.id,
                manifest_sha256=_digest(kept),
                at=utc_now(),
                leaves_signatures=self._kept is not None and self._kept.leaves_signatures,
            )
        )
        paths = sorted(self._directory.glob("*.json"), key=lambda path: path.stat().st_mtime)
        for path in paths[:-MOST_RECORDS]:
            path.unlink(missing_ok=True)

    def note_signatures(self) -> None:
        """Store that the run makes file systems; called before the first file system is made."""
        if self._kept is not None:
            self._write(self._kept.model_copy(update={"leaves_signatures": True}))

    def find(self, kept: Manifest) -> ConsentRecord | None:
        """Return a run's record; None if root did not agree to its manifest on this host.

        Raises HostLacks if another user could have written the record.
        """
        digest = _digest(kept)
        path = self._directory / f"{digest}.json"
        for part in (self._directory.parent, self._directory, path):
            require_private(part)
        if not path.exists():
            return None
        found = load(path, ConsentRecord)
        self._kept = found
        named = (found.manifest_sha256, found.run_id, found.identity)
        return found if named == (digest, kept.run_id, kept.target.id) else None

    def _write(self, agreed: ConsentRecord) -> None:
        text = agreed.model_dump_json(indent=1) + "\n"
        write_atomic(self._directory / f"{agreed.manifest_sha256}.json", text, mode=0o600)
        self._kept = agreed


def needs_record(info: TargetInfo) -> bool:
    """Tell whether a resume needs a record: True for root and a target that is not simulated."""
    return os.geteuid() == 0 and not info.simulated


def consent_to_go_on(
    kept: Manifest,
    info: TargetInfo,
    given: Consent,
    agreement: ConsentRecords,
    *,
    ours: bool,
    left: ContentCheck = UNCHANGED,
    again: str = "",
) -> Consent:
    """Return the consent of a resumed run: the earlier consent plus this command line's.

    `ours` means that the journal says that the run left file systems on the target; if the host
    must have a record of consent, the record decides that instead. `left` says how the target
    changed; changes need new consent. `again` is the command with which the user can consent to
    changes. A caller gives `again` if `given` only repeats the first command line, because that
    cannot consent to later changes. Raises TargetRefused if consent is missing.
    """
    agreed = kept.consent
    if needs_record(info):
        record = agreement.find(kept)
        agreed, ours = _recorded(record, agreed)
        if record is None:
            if given.identity != info.consent_id:
                refuse(info.name, _unrecorded(info, given))
            left = UNCHANGED  # --destroy has just been given for all content
    if again:
        given = given.model_copy(update={"overwrite": False, "data": False})
    if not left.unchanged:
        agreed, ours = agreed.model_copy(update={"overwrite": False, "data": False}), False
    if ours:
        agreed = agreed.overwriting()
    if agreed.identity is not None and agreed.identity.partition(CONTENT)[0] == info.id:
        # The identity contains a hash of the content, which the run itself has changed. `left` has
        # compared the content.
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
    info: TargetInfo, left: ContentCheck, given: Consent, consent: Consent, again: str
) -> None:
    """Raise TargetRefused unless this command line consents to the target's changes."""
    found = remaining(left.against, given)
    seen = DATA if left.against else ("",)  # option of the objections in `found`
    found += [o for o in lacking(info, consent) if o.option != seen]
    if not found or not again:
        refuse(info.name, found)
        return
    options = options_of(found)
    hint = f"if you do not need the data on it: `{again} {shlex.join(options)}`" if options else ""
    raise TargetRefused(info.name, [o.reason for o in found], hint=hint or way_out(found))


def _recorded(record: ConsentRecord | None, manifest: Consent) -> tuple[Consent, bool]:
    """Return the manifest's consent, extended to the run's own data; and `leaves_signatures`."""
    if record is None:
        return Consent(), False
    return manifest.model_copy(update={"data": True}), record.leaves_signatures


def _unrecorded(info: TargetInfo, given: Consent) -> list[Objection]:
    why = Objection(
        "this host has no record that root agreed to this run, and the run directory does not "
        "count as consent",
        ("--destroy", info.consent_id),
    )
    return [why, *lacking(info, given)]


def _digest(kept: Manifest) -> str:
    return sha256(kept.model_dump_json().encode()).hexdigest()
