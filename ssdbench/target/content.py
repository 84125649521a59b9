"""What a drive holds where no signature says so: samples of its content.

A payload whose header lies elsewhere, a file system behind a lost partition table or plain records
have no signature. So places all over the drive are read before its first write. What ssdbench left
there itself is known again by what it read at the end of its last use.
"""

import random
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from pydantic import ValidationError

from ssdbench.errors import SsdbenchError
from ssdbench.host.blockdev import SAMPLE_BYTES, sampled
from ssdbench.host.files import make_private_directory, require_private, write_atomic
from ssdbench.host.records import settings_directory
from ssdbench.model.base import Model
from ssdbench.model.target import TargetInfo
from ssdbench.target.objection import DATA, Objection
from ssdbench.units import GIB, KIB, MIB

NAME = "contents"  # below the settings directory
RANDOM_PLACES = 400  # data on 1 % of a drive is missed once in fifty times
KEPT = 256  # drives that are remembered; the ones used longest ago are forgotten

# Where superblocks, their copies and payloads begin, from the start of a drive or partition: ext
# (copies in groups 1, 3, 5, 7, 9, 25, 27 and 49 of 8 or 128 MiB), btrfs, LUKS payloads, ZFS labels.
_GROUPS = (1, 3, 5, 7, 9, 25, 27, 49)
_KNOWN = (
    *(0, 4 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 256 * KIB, MIB, 2 * MIB, 4 * MIB, 16 * MIB),
    *(group * unit for group in _GROUPS for unit in (8 * MIB, 128 * MIB)),
    *(64 * MIB, 3 * GIB, 256 * GIB),
)
# From the end: copies of GPT, md superblocks, ZFS labels, NTFS.
_FROM_END = (4 * KIB, 8 * KIB, 12 * KIB, 64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB, MIB)
_FIRST_PARTITIONS = (0, 63 * 512, MIB)  # before 2009 they began at sector 63


class Remembered(Model):
    """What was on a drive when ssdbench last used it; schema version 1."""

    schema_version: int = 1
    identity: str
    model: str
    serial: str
    size_bytes: int
    at: str
    digests: dict[int, str]  # by byte address


def places(info: TargetInfo) -> list[int]:
    """Byte addresses that are read: the same ones each time for a drive of one name and size."""
    last = info.end_bytes - SAMPLE_BYTES
    if last < 0:
        return []
    known = [begin + place for begin in _FIRST_PARTITIONS for place in _KNOWN]
    quarters = [info.end_bytes * part // 4 for part in range(1, 4)]  # groups of XFS
    ends = [info.end_bytes - place for place in _FROM_END]
    chance = random.Random(f"{info.id} {info.size_bytes}")
    anywhere = [chance.randint(0, last) for _ in range(RANDOM_PLACES)]
    wanted = (*known, *quarters, *ends, *anywhere)
    return sorted({w // SAMPLE_BYTES * SAMPLE_BYTES for w in wanted if 0 <= w <= last})


def objections(info: TargetInfo, *, directory: Path | None = None) -> list[Objection]:
    """That a drive holds data which neither a signature nor its last use here explains."""
    known = _remembered(info, directory)
    where = sorted({*places(info), *(known.digests if known else ())})
    try:
        found = sampled(Path(info.node), where)
    except OSError as error:
        return [Objection(f"cannot tell what it holds: {error.strerror or error}")]
    unread = [place for place, data in found.items() if data is None]
    filled = [place for place, data in found.items() if data is not None and not blank(data)]
    if not filled and not unread:
        return []
    if known and _digests(found).items() >= known.digests.items():
        return []
    if not filled:
        reason = f"what it holds cannot be read, for example at byte {unread[0]}"
        return [Objection(reason, DATA)]
    since = f", and not what ssdbench left there on {known.at}" if known else ""
    return [
        Objection(
            f"it holds data that no signature explains{since}: at {len(filled)} of {len(found)} "
            f"sampled places, for example at byte {filled[0]}",
            DATA,
        )
    ]


def digest(info: TargetInfo) -> str:
    """A short digest of every eighth place that is looked at. Raises OSError."""
    held = sha256()
    for place, data in sampled(Path(info.node), places(info)[::8]).items():
        held.update(f"{place}:".encode() + (data or b""))
    return held.hexdigest()[:12]


def remember(info: TargetInfo, *, directory: Path | None = None) -> None:
    """Keep what is on a drive at the end of its use.

    Where that is not possible, nothing is kept, and the next run asks about the data.
    """
    directory = directory or settings_directory() / NAME
    path = directory / _file_name(info)
    with suppress(OSError, SsdbenchError):
        path.unlink(missing_ok=True)
        kept = Remembered(
            identity=info.id,
            model=info.model,
            serial=info.serial,
            size_bytes=info.size_bytes,
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            digests=_digests(sampled(Path(info.node), places(info))),
        )
        make_private_directory(directory.parent)
        make_private_directory(directory)
        write_atomic(path, kept.model_dump_json() + "\n", mode=0o600)
        files = sorted(directory.glob("*.json"), key=lambda file: file.stat().st_mtime)
        for file in files[:-KEPT]:
            file.unlink(missing_ok=True)


def blank(data: bytes) -> bool:
    """Whether data is none: what was never written or was trimmed reads as zeros or ones."""
    return not data.strip(b"\0") or not data.strip(b"\xff")


def _remembered(info: TargetInfo, directory: Path | None) -> Remembered | None:
    """What is known of this very drive; what others could have written is not believed."""
    directory = directory or settings_directory() / NAME
    path = directory / _file_name(info)
    try:
        for part in (directory.parent, directory, path):
            require_private(part)
        kept = Remembered.model_validate_json(path.read_bytes())
    except (OSError, ValidationError, SsdbenchError):
        return None
    same = (kept.identity, kept.model, kept.serial, kept.size_bytes)
    return kept if same == (info.id, info.model, info.serial, info.size_bytes) else None


def _file_name(info: TargetInfo) -> str:
    return f"{sha256(info.id.encode(errors='surrogateescape')).hexdigest()[:32]}.json"


def _digests(found: Mapping[int, bytes | None]) -> dict[int, str]:
    return {place: sha256(data).hexdigest()[:16] for place, data in found.items() if data}
