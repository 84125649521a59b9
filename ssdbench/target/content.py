"""Sample a target's data before a run's first write, and when a run is resumed.

Some data have no signature, for example an encrypted volume whose header is on another drive, a
file system without its partition table, or plain records. So before the first write, samples are
read at places all over the drive. ssdbench recognizes its own data by the samples that it recorded
during a run, or at the end of its last use of the drive.
"""

import random
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from pydantic import ValidationError

from ssdbench.errors import SsdbenchError
from ssdbench.host.blockdev import SAMPLE_BYTES, sampled
from ssdbench.host.files import (
    make_private_directory,
    require_private,
    settings_directory,
    write_atomic,
)
from ssdbench.host.usage import signatures
from ssdbench.model.base import Model
from ssdbench.model.target import TargetInfo
from ssdbench.target.objection import DATA, OVERWRITE, Objection, refuse
from ssdbench.units import GIB, KIB, MIB

NAME = "contents"  # below the settings directory
# One random place in each of 3000 equal parts of a drive is sampled. If data take 0.1 % of the
# drive, the samples find them in 95 % of cases (1 - 0.999 ** 3000), wherever they are.
RANDOM_PLACES = 3000
KEPT = 256  # most drives with a record; older records are removed

# Offsets from the start of a drive or partition at which known data begin: superblocks of ext and
# their copies (groups 1, 3, 5, 7, 9, 25, 27 and 49 of 8 or 128 MiB), btrfs, LUKS payloads, ZFS
# labels.
_GROUPS = (1, 3, 5, 7, 9, 25, 27, 49)
_KNOWN = (
    *(0, 4 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 256 * KIB, MIB, 2 * MIB, 4 * MIB, 16 * MIB),
    *(group * unit for group in _GROUPS for unit in (8 * MIB, 128 * MIB)),
    *(64 * MIB, 3 * GIB, 256 * GIB),
)
# Distances from the end: copies of GPT, md superblocks, ZFS labels, NTFS.
_FROM_END = (4 * KIB, 8 * KIB, 12 * KIB, 64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB, MIB)
# During a run, the record of samples is renewed after a unit, but at most once in this time. It is
# renewed so rarely that reading samples takes at most a hundredth of the time.
RENEWED_EVERY_S = 60.0
READING_SHARE = 0.01
_FIRST_PARTITIONS = (0, 63 * 512, MIB)  # until about 2009, partitions began at sector 63


class Remembered(Model):
    """Store samples of a target's data from ssdbench's last use of the target; schema version 1.

    Records of older ssdbench versions have fewer sampled places and no run.
    """

    schema_version: int = 1
    identity: str
    model: str
    serial: str
    size_bytes: int
    at: str
    digests: dict[int, str]  # digest of the data by byte address
    signatures: tuple[str, ...] = ()
    run: str = ""  # the run that used the target last
    at_work: bool = False  # that run had not ended, so it may have written more
    ours: bool = True  # before that run the target was empty, or had ssdbench's data


@dataclass(frozen=True, slots=True)
class Look:
    """Hold samples of a target's data at one moment."""

    found: Mapping[int, bytes | None]  # data by byte address; None if unreadable
    signatures: tuple[str, ...] = ()

    @property
    def digests(self) -> dict[int, str]:
        """Return a short digest of each sample's data; leave out unreadable places."""
        return {place: sha256(data).hexdigest()[:16] for place, data in self.found.items() if data}


def places(info: TargetInfo) -> list[int]:
    """Return the byte addresses to sample; they depend only on the target's identity and size."""
    last = info.end_bytes - SAMPLE_BYTES
    if last < 0:
        return []
    known = [begin + place for begin in _FIRST_PARTITIONS for place in _KNOWN]
    quarters = [info.end_bytes * part // 4 for part in range(1, 4)]  # XFS has its groups here
    ends = [info.end_bytes - place for place in _FROM_END]
    chance = random.Random(f"{info.id} {info.size_bytes}")
    anywhere = [
        int((part + chance.random()) * info.end_bytes / RANDOM_PLACES)
        for part in range(RANDOM_PLACES)
    ]
    wanted = (*known, *quarters, *ends, *anywhere)
    return sorted({w // SAMPLE_BYTES * SAMPLE_BYTES for w in wanted if 0 <= w <= last})


def look(info: TargetInfo, *, also: Collection[int] = ()) -> Look:
    """Read samples of a target's data at the usual places and at the places in `also`.

    Raises OSError and HostLacks.
    """
    node = Path(info.node)
    return Look(sampled(node, sorted({*places(info), *also})), tuple(signatures(node)))


def objections(info: TargetInfo, *, directory: Path | None = None) -> list[Objection]:
    """Return an objection if a drive has data that no earlier use by ssdbench explains."""
    known = recalled(info, directory=directory)
    try:
        seen = Look(
            sampled(Path(info.node), sorted({*places(info), *(known.digests if known else ())}))
        )
    except OSError as error:
        return [Objection(f"cannot tell what it holds: {error.strerror or error}")]
    return _unexplained(seen, known)


def _unexplained(seen: Look, known: Remembered | None) -> list[Objection]:
    unread = [place for place, data in seen.found.items() if data is None]
    filled = [p for p, data in seen.found.items() if data is not None and not blank(data)]
    if not filled and not unread:
        return []
    if known and known.ours and seen.digests.items() >= known.digests.items():
        return []
    if not filled:
        reason = f"its data cannot be read, for example at byte {unread[0]}"
        return [Objection(reason, DATA)]
    since = f", and not what ssdbench left there on {known.at}" if known else ""
    return [
        Objection(
            f"it holds data that no signature explains{since}: at {len(filled)} of "
            f"{len(seen.found)} sampled places, for example at byte {filled[0]}",
            DATA,
        )
    ]


def digest(info: TargetInfo) -> str:
    """Return 12 digits of a SHA-256 over every eighth sample of a target's data.

    Raises OSError.
    """
    held = sha256()
    for place, data in sampled(Path(info.node), places(info)[::8]).items():
        held.update(f"{place}:".encode() + (data or b""))
    return held.hexdigest()[:12]


def came_since(
    left: Remembered, seen: Look, *, written_by_us: Callable[[bytes], bool], ours: bool = False
) -> list[Objection]:
    """Return objections if the target has data that the recorded run did not leave there.

    If that run ended, all sampled places must be unchanged. If the run was killed, it may have
    written after the record was made, so a changed place is accepted if it is blank or looks like
    our own writes. `ours` means that the run may have left file systems, whose blocks cannot be
    recognized as ours; then all changed places are accepted.
    """
    now = seen.digests
    other = [place for place, digest in left.digests.items() if now.get(place) != digest]
    if left.at_work:
        found = {place: seen.found.get(place) for place in other}
        other = [
            place
            for place, data in found.items()
            if data is None or not (ours or blank(data) or written_by_us(data))
        ]
    since = f"since {'the run worked on it' if left.at_work else 'its last use by the run'} "
    since += f"on {left.at}"
    against = []
    if other:
        reason = (
            f"its data changed {since}: at {len(other)} of {len(left.digests)} sampled "
            f"places, for example at byte {other[0]}"
        )
        against.append(Objection(reason, DATA))
    fresh = sorted({*seen.signatures} - {*left.signatures})
    if fresh and not ours:
        reason = f"the signature of {', '.join(fresh)} appeared {since}"
        against.append(Objection(reason, OVERWRITE))
    return against


def remember(info: TargetInfo, *, run: str = "", directory: Path | None = None) -> None:
    """Record samples of a target after its use; without a record, the next run needs consent."""
    path = _path(info, directory)
    with suppress(OSError, SsdbenchError):
        path.unlink(missing_ok=True)
        _keep(path, _remembered(info, look(info), run=run))


def recalled(info: TargetInfo, *, directory: Path | None = None) -> Remembered | None:
    """Return the record of exactly this target; None if another user could have written it."""
    path = _path(info, directory)
    try:
        for part in (path.parent.parent, path.parent, path):
            require_private(part)
        kept = Remembered.model_validate_json(path.read_bytes())
    except (OSError, ValidationError, SsdbenchError):
        return None
    same = (kept.identity, kept.model, kept.serial, kept.size_bytes)
    return kept if same == (info.id, info.model, info.serial, info.size_bytes) else None


class Watch:
    """Watch a target's data from the samples before consent until the end of the run.

    Before the first write, all samples are read again and compared. Then a record is stored that
    says that the run is not finished. With this record, the target can be compared if the run is
    killed.
    """

    def __init__(
        self,
        info: TargetInfo,
        run: str,
        seen: Look,
        *,
        directory: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._info = info
        self._run = run
        self._seen: Look | None = seen
        self._directory = directory
        self._clock = clock
        self._next_s = 0.0
        self._ours = True

    def before_writing(self) -> None:
        """Check once: raise TargetRefused if the data changed since the user's consent."""
        if self._seen is None:
            return
        left, self._seen = _remembered(self._info, self._seen), None
        began = self._clock()
        try:
            now = look(self._info, also=left.digests)
        except OSError as error:
            reason = f"cannot tell what it holds: {error.strerror or error}"
            refuse(self._info.name, [Objection(reason)])
            return
        changed = [o.reason for o in came_since(left, now, written_by_us=lambda data: False)]
        hint = "Find out who writes to it; then start again."
        refuse(self._info.name, [Objection(reason) for reason in changed], hint=hint)
        known = recalled(self._info, directory=self._directory)
        self._ours = not _unexplained(now, known) and not now.signatures
        self._note(now, began)

    def renew(self, info: TargetInfo, *, at_once: bool = False) -> None:
        """Store new samples of the target during the run, if enough time has passed."""
        if self._seen is not None or (self._clock() < self._next_s and not at_once):
            return
        self._info = info
        began = self._clock()
        with suppress(OSError, SsdbenchError):
            self._note(look(info), began)

    def _note(self, seen: Look, began: float) -> None:
        with suppress(OSError, SsdbenchError):
            kept = _remembered(self._info, seen, run=self._run, at_work=True, ours=self._ours)
            _keep(_path(self._info, self._directory), kept)
        took_s = self._clock() - began
        self._next_s = self._clock() + max(RENEWED_EVERY_S, took_s / READING_SHARE)


def blank(data: bytes) -> bool:
    """Tell whether all bits are 0 or all are 1, as unwritten and trimmed blocks return."""
    return not data.strip(b"\0") or not data.strip(b"\xff")


def _remembered(
    info: TargetInfo, seen: Look, *, run: str = "", at_work: bool = False, ours: bool = True
) -> Remembered:
    return Remembered(
        identity=info.id,
        model=info.model,
        serial=info.serial,
        size_bytes=info.size_bytes,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        digests=seen.digests,
        signatures=seen.signatures,
        run=run,
        at_work=at_work,
        ours=ours,
    )


def _keep(path: Path, kept: Remembered) -> None:
    directory = path.parent
    make_private_directory(directory.parent)
    make_private_directory(directory)
    write_atomic(path, kept.model_dump_json() + "\n", mode=0o600)
    files = sorted(directory.glob("*.json"), key=lambda file: file.stat().st_mtime)
    for file in files[:-KEPT]:
        file.unlink(missing_ok=True)


def _path(info: TargetInfo, directory: Path | None) -> Path:
    name = sha256(info.id.encode(errors="surrogateescape")).hexdigest()[:32]
    return (directory or settings_directory() / NAME) / f"{name}.json"
