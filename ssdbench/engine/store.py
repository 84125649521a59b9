"""Read and write the files of a run directory; a crash never leaves a half-written file."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TypeVar
from zlib import crc32

from pydantic import BaseModel, ValidationError

from ssdbench.errors import UsageError
from ssdbench.foreign import holds_huge_number, read_regular, real
from ssdbench.host.files import make_directory, require_utf8, write_atomic
from ssdbench.model import rundirectory
from ssdbench.model.result import RunResult, StageResult

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class StageStore:
    """Read and write the directory of one stage."""

    run: Path
    name: str

    @property
    def path(self) -> Path:
        """Return the stage's directory."""
        return self.run / "stages" / self.name

    def directory(self, *parts: str) -> Path:
        """Create and return a directory below the stage's directory."""
        return self._made(self.path.joinpath(*parts))

    def fresh_directory(self, *parts: str) -> Path:
        """Create an empty directory NAME; an existing NAME is renamed to NAME.1, NAME.2, …"""
        path = self.path.joinpath(*parts)
        if path.exists():
            number = 1
            while (beside := path.with_name(f"{path.name}.{number}")).exists():
                number += 1
            path.rename(beside)
        return self.directory(*parts)

    def relative(self, path: Path) -> str:
        """Return a path relative to the run directory; results contain such paths."""
        return path.relative_to(self.run).as_posix()

    def save(self, path: str, value: BaseModel) -> Path:
        """Store a value as JSON below the stage's directory; a later crash cannot lose it."""
        target = self.path / path
        self._made(target.parent)
        write_atomic(target, value.model_dump_json(indent=1) + "\n")
        return target

    def _made(self, path: Path) -> Path:
        make_directory(path)
        if real(path) != real(self.run) / path.relative_to(self.run):
            raise UsageError(
                f"{path} leads out of the run directory: there is a symbolic link on its way",
                hint="Find out who put it there, and remove it.",
            )
        return path

    def load(self, path: str, kind: type[M], *, checksum: object = None) -> M:
        """Read a value that `save` stored. Raises UsageError for a missing or damaged file.

        `checksum` is the file's checksum in the journal; None if an older journal has no checksum.
        """
        if checksum is not None and checksum_of(self.path / path) != checksum:
            raise UsageError(
                f"{self.path / path} is damaged: its checksum is not the one in the journal",
                hint="`ssdbench report` shows the rest; start a new run to measure again.",
            )
        return load(self.path / path, kind)


@dataclass(frozen=True, slots=True)
class RunStore:
    """Read and write the files of a run directory that belong to no stage."""

    path: Path

    @staticmethod
    def require_new(path: Path) -> None:
        """Raise UsageError if the path exists and is not empty, or if its name is not UTF-8."""
        require_utf8(path, "the run directory's name")
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise UsageError(
                f"{path} exists already and is not empty",
                hint="Choose another --output, or continue the run there: ssdbench resume.",
            )

    @classmethod
    def open(cls, path: Path) -> "RunStore":
        """Open an existing run directory. Raises UsageError if it has no manifest."""
        if not (path / rundirectory.MANIFEST).is_file():
            raise UsageError(
                f"{path} is not a run directory: it has no {rundirectory.MANIFEST}",
                hint="Name the directory that `ssdbench run` printed.",
            )
        return cls(path)

    def stage(self, name: str) -> StageStore:
        """Return the store of the stage with this name."""
        return StageStore(self.path, name)

    def write_json(self, name: str, value: Mapping[str, object]) -> None:
        """Store a JSON object in a file; once this method returns, a crash cannot lose it."""
        write_atomic(self.path / name, json.dumps(value, indent=1) + "\n")

    def write_result(self, result: RunResult) -> str:
        """Store the result of the run and return the SHA-256 of its file."""
        text = result.model_dump_json(indent=1) + "\n"
        write_atomic(self.path / rundirectory.RESULT, text)
        return sha256(text.encode()).hexdigest()

    def result_sha256(self) -> str | None:
        """Return the SHA-256 of result.json; None if the file cannot be read."""
        try:
            return sha256(read_regular(self.path / rundirectory.RESULT)).hexdigest()
        except OSError:
            return None

    def read_stage(self, name: str) -> StageResult | None:
        """Read the stored result of a stage; None if the stage has not ended."""
        if not (self.stage(name).path / rundirectory.STAGE_RESULT).is_file():
            return None
        return self.stage(name).load(rundirectory.STAGE_RESULT, StageResult)


def checksum_of(path: Path) -> int | None:
    """Return a file's CRC-32, which the journal also stores; None if the file cannot be read."""
    try:
        return crc32(read_regular(path))
    except OSError:
        return None


def load(path: Path, kind: type[M]) -> M:
    """Read a stored value from a file. Raises UsageError for a missing or damaged file."""
    try:
        found = kind.model_validate_json(text := read_regular(path))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{path} is damaged: {where}: {first['msg']}") from error
    if holds_huge_number(text):
        raise UsageError(f"{path} is damaged: it has a number that is too large")
    return found
