"""Decide whether a resumed run may go on: what root agreed to, and whether its target changed.

A run directory may lie anywhere and belong to anybody, so its manifest is no consent: root resumes
a destructive run only where this host's own record names that run, its target and that manifest.
Ordinary users can only measure files and simulated drives, and need no record. What others put on
the target since the run stopped needs consent again: samples of the content, the signatures and the
write counters are compared.
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
    """Hold what a look at the target of a resumed run showed."""

    known: bool = True  # this host has a record of that run's content
    against: tuple[Objection, ...] = ()  # what differs now
    seen: Look | None = None

    @property
    def unchanged(self) -> bool:
        """Tell whether the target holds only what the run was allowed to overwrite."""
        return self.known and not self.against


def records_content(info: TargetInfo) -> bool:
    """Tell whether the content of a target is recorded; not for simulated and lab drives."""
    return info.kind is TargetKind.FILE or needed(info)


def check_content(
    info: TargetInfo, run: str, records: Sequence[Record], *, ours: bool
) -> ContentCheck:
    """Compare a target with what `run` left there, by this host's record and the run's journal.

    `ours`: the run may have left file systems. Data that a killed run wrote after the record was
    made is recognized as fio's; file system blocks are not, and pass only if the counters show that
    nobody else wrote.
    """
    if not records_content(info):
        return ContentCheck()
    left = content.recalled(info)
    is_own = left is not None and left.run == run
    if info.kind is TargetKind.FILE and not is_own:
        return ContentCheck()  # the record of a file is of the last run's end
    try:
        seen = content.look(info, also=left.digests if left is not None else ())
    except OSError as error:
        reason = f"cannot tell what it holds: {error.strerror or error}"
        return ContentCheck(against=(Objection(reason),))
    if left is None or not is_own:
        other = left is not None and left.run
        why = "another run of ssdbench used it since" if other else ""
        return ContentCheck(False, (Objection(why, DATA),) if why else (), seen)
    shown = _content_kept(info, records)
    against = _objections(left, seen, shown, ours=ours)
    if info.kind is TargetKind.FILE:
        against = [Objection(o.reason, (DESTROY, info.id)) for o in against]
    return ContentCheck(True, tuple(against), seen)


def _content_kept(info: TargetInfo, records: Sequence[Record]) -> DriveCheck:
    now = counters_of(info)
    if now.epoch:
        now = now.model_copy(update={"log_bytes": health_written_bytes(info)})
    return check_drive(records, now)


def _objections(left: Remembered, seen: Look, shown: DriveCheck, *, ours: bool) -> list[Objection]:
    found = content.came_since(
        left,
        seen,
        written_by_us=written_by_fio,
        ours=ours and left.at_work and shown.intact,
    )
    if shown.touched:
        found.append(Objection(f"somebody else used it since: {shown.reason}", DATA))
    return found


UNCHANGED = ContentCheck()
NAME = "runs"  # below the settings directory
MOST_RECORDS = 1000  # older ones are removed, and their runs need --destroy again


class ConsentRecord(Model):
    """Store one run that root agreed to; schema version 1."""

    schema_version: int = 1
    run_id: str
    identity: str
    manifest_sha256: str
    at: str
    leaves_signatures: bool = False  # signatures on the target may be ours


class ConsentRecords:
    """Store and find the record of one run by its manifest."""

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory or settings_directory() / NAME
        self._kept: ConsentRecord | None = None

    def note(self, kept: Manifest) -> None:
        """Store that root agreed to this run; nothing where no record is needed."""
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
        """Store, before the run makes file systems, that signatures on the target will be ours."""
        if self._kept is not None:
            self._write(self._kept.model_copy(update={"leaves_signatures": True}))

    def find(self, kept: Manifest) -> ConsentRecord | None:
        """Return the record of a run; None where root did not agree to this manifest here.

        Raises HostLacks when somebody else could have written it.
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
    """Tell whether resuming on a target needs a record: root on a real target."""
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
    """Return the consent of a resumed run: as given before, or on this command line.

    `ours`: the journal says that signatures on the target are ours; where a record is needed, only
    the record is believed. `left`: what the target holds now; anything that the run did not leave
    needs consent again. `again`: the command that gives it, for callers that repeat one command
    line and so cannot consent to changes. Raises TargetRefused without consent.
    """
    agreed = kept.consent
    if needs_record(info):
        record = agreement.find(kept)
        agreed, ours = _recorded(record, agreed)
        if record is None:
            if given.identity != info.consent_id:
                refuse(info.name, _unrecorded(info, given))
            left = UNCHANGED  # the consent was just given for everything
    if again:
        given = given.model_copy(update={"overwrite": False, "data": False})
    if not left.unchanged:
        agreed, ours = agreed.model_copy(update={"overwrite": False, "data": False}), False
    if ours:
        agreed = agreed.overwriting()
    if agreed.identity is not None and agreed.identity.partition(CONTENT)[0] == info.id:
        # Its content at that time is compared by `left`; the run itself has changed it.
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
    """Raise TargetRefused unless this command line consents to what changed."""
    found = remaining(left.against, given)
    seen = DATA if left.against else ("",)  # already reported above
    found += [o for o in lacking(info, consent) if o.option != seen]
    if not found or not again:
        refuse(info.name, found)
        return
    options = options_of(found)
    hint = (
        f"if you do not need what is there now: `{again} {shlex.join(options)}`" if options else ""
    )
    raise TargetRefused(info.name, [o.reason for o in found], hint=hint or way_out(found))


def _recorded(record: ConsentRecord | None, manifest: Consent) -> tuple[Consent, bool]:
    """Return the manifest's consent, with consent to the data that the run itself left."""
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
