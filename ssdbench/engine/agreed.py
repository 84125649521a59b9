"""What root agreed to, kept where nobody else can write.

A run directory may lie anywhere and belong to anybody, so its manifest is no consent: root goes on
with a run that destroys only where this host's own record names that run, its target and the very
manifest. An ordinary user can only measure files and simulated drives, and needs no record.
"""

import os
import shlex
from hashlib import sha256
from pathlib import Path

from ssdbench.engine.asleft import AsLeft
from ssdbench.engine.journal import utc_now
from ssdbench.engine.manifest import Manifest
from ssdbench.engine.store import load
from ssdbench.errors import TargetRefused
from ssdbench.host.files import make_private_directory, require_private, write_atomic
from ssdbench.host.records import settings_directory
from ssdbench.model.base import Model
from ssdbench.model.consent import Consent
from ssdbench.model.target import CONTENT, TargetInfo
from ssdbench.target.consent import lacking
from ssdbench.target.guard import remaining
from ssdbench.target.objection import DATA, Objection, options_of, refuse, way_out

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
        if not needed(kept.target):
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


def needed(info: TargetInfo) -> bool:
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
    if needed(info):
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
