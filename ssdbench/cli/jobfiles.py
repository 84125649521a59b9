"""The files that a profile names: job files are read into its text, traces get their whole path.

So a run keeps what it measured, from whatever directory it is resumed. A profile is foreign input
as much as its job files: it may only name regular files in its own directory or below, so that one
from a stranger carries no other file into the run directory. Nothing of a trace is carried there.
"""

import json
import os
import stat
from pathlib import Path

from ssdbench.errors import UsageError
from ssdbench.model.loading import misfit_error
from ssdbench.model.yamltext import Document, Scalar, read

MAX_JOB_BYTES = 64 << 10
MAX_ALL_BYTES = 1 << 20  # of all job files of a profile: its text is read as YAML with them in it


def with_job_files(text: str, profile: Path) -> str:
    """The profile with each `fio: NAME` replaced by name and text, on the line where it stood.

    The name of a trace is one in the profile's directory, too, if it is not a whole path. Raises
    ProfileError, at the place in the profile, for a job file that cannot be read.
    """
    document = read(text, str(profile))
    left = MAX_ALL_BYTES
    for path, scalar in sorted(_named(document).items(), key=lambda found: -found[1].start):
        if path[2] == "replay":
            whole = json.dumps(str(profile.parent.absolute() / scalar.value))
            text = text[: scalar.start] + whole + text[scalar.end :]
            continue
        try:
            body = _body(scalar.value, profile.parent)
        except UsageError as error:
            hint = error.hint or "Name a job file beside the profile."
            raise misfit_error(text, str(profile), [(path, error.message)], hint=hint) from error
        if (left := left - len(body)) < 0:
            why = f"the job files of this profile have more than {MAX_ALL_BYTES >> 20} MiB"
            hint = "Spread them over several profiles."
            raise misfit_error(text, str(profile), [(path, why)], hint=hint)
        found = json.dumps({"name": scalar.value, "text": body})  # YAML, in one line
        text = text[: scalar.start] + found + text[scalar.end :]
    return text


def _named(document: Document) -> dict[tuple[str | int, ...], Scalar]:
    """Each scalar that names a job file or a trace."""
    found: dict[tuple[str | int, ...], Scalar] = {}
    for path, scalar in document.scalars.items():
        match path:
            case ("measure", int(), "fio") if "\n" not in scalar.value:
                found[path] = scalar
            case ("measure", int(), "fio", "file"):
                found[path] = scalar
            case ("measure", int(), "replay", "file") if scalar.value:
                found[path] = scalar
    return found


def _body(name: str, directory: Path) -> str:
    if not name:
        raise UsageError("the name of the job file is empty")
    path = directory / name
    try:
        real, home = path.resolve(strict=True), directory.resolve(strict=True)
        if not real.is_relative_to(home):
            raise UsageError(
                f"{name} is not in the directory of the profile",
                hint="copy the job file beside the profile",
            )
        descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UsageError(f"{name} is not a regular file")
            data = file.read(MAX_JOB_BYTES + 1)
    except OSError as error:
        raise UsageError(f"the job file {name} cannot be read: {error.strerror}") from error
    except ValueError as error:  # a NUL in the name
        raise UsageError(f"{name!r} names no file") from error
    if len(data) > MAX_JOB_BYTES:
        raise UsageError(f"{name} is not a job file: it is larger than 64 KiB")
    try:
        body = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{name}:{line}: a byte that is not UTF-8") from error
    if not body.strip():
        raise UsageError(f"{name} is empty")
    return body
