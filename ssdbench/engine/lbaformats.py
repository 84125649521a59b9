"""Remember the original LBA format of each drive that ssdbench formatted with another one.

To get the old format back, the drive must be formatted again, which erases it. So `ssdbench
restore` only lists such drives, and `ssdbench retire` formats them on request.
"""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ssdbench.errors import HostLacks
from ssdbench.foreign import read_regular
from ssdbench.host.files import (
    make_private_directory,
    require_private,
    settings_directory,
    write_atomic,
)
from ssdbench.host.lock import waiting
from ssdbench.model import records
from ssdbench.model.target import LbaFormat
from ssdbench.target.inspect import identities, inspect

NAME = "lba-formats.json"
REASON = "asked for by lba_format"


@dataclass(frozen=True, slots=True)
class ChangedFormat:
    """A present drive whose LBA format was changed, with the old and the current format."""

    drive: str
    node: str
    was: LbaFormat
    now: LbaFormat

    @property
    def sentence(self) -> str:
        """Return a sentence: the drive's current and old LBA format, and how to go back."""
        return (
            f"{self.drive} has LBA format {self.now} now (it was {self.was}); "
            f"`{way_back(self.node, self.was)}` brings the old one back and erases the drive"
        )


def way_back(node: str, was: LbaFormat) -> str:
    """Return the command that erases the drive and restores its old LBA format."""
    protected = ["--protection", str(was.protection)] if was.protection else []
    command = ["ssdbench", "retire", node, "--method", "format", "--lba-format", was.sizes]
    return shlex.join([*command, *protected])


def remember_format(drive: str, was: LbaFormat, *, directory: Path | None = None) -> None:
    """Store a drive's LBA format before it is changed; a format stored earlier is kept."""
    directory = directory or settings_directory()
    make_private_directory(directory)
    with waiting(directory / f"{NAME}.lock"):
        known = _read(directory)
        if drive not in known:
            _write(directory, {**known, drive: was})


def changed_formats(*, directory: Path | None = None) -> list[ChangedFormat]:
    """List present drives with a changed LBA format; forget those that have the old one again."""
    directory = directory or settings_directory()
    if not (directory / NAME).exists():
        return []
    with waiting(directory / f"{NAME}.lock"):
        known, here = _read(directory), identities()
        found, settled = [], set()
        for drive, was in known.items():
            now = inspect(here[drive]).lba_format if drive in here else None
            if now == was:
                settled.add(drive)
            elif now is not None:
                found.append(ChangedFormat(drive, here[drive], was, now))
        if settled:
            _write(directory, {d: was for d, was in known.items() if d not in settled})
    return found


def _read(directory: Path) -> dict[str, LbaFormat]:
    path = directory / NAME
    require_private(path)
    try:
        held = records.read(read_regular(path))
        formats: Any = held.lines[0].fields["formats"] if not held.damaged else None
        return {str(drive): LbaFormat.model_validate(was) for drive, was in formats.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError, LookupError) as error:
        raise HostLacks(
            f"{path} cannot be read: which LBA formats were changed is not known",
            hint="remove it when every drive has the format that it should have; ssdbench 1.0.0 "
            "reads the files of older versions",
        ) from error


def _write(directory: Path, known: dict[str, LbaFormat]) -> None:
    held = {drive: was.model_dump(mode="json", by_alias=True) for drive, was in known.items()}
    line = records.line({"kind": "formats", "formats": held})
    write_atomic(directory / NAME, f"{line}\n")
