"""Find and read a profile, with the job files and traces that it names.

The text of job files is copied into the profile's text, and relative paths of traces are made
absolute, so that a run can be resumed from any directory. A profile may come from a stranger. So it
can name only job files in its own directory or below it, and no other file is copied into the run
directory.
"""

import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from ssdbench.errors import UsageError

if TYPE_CHECKING:
    from ssdbench.model.profile import Profile
    from ssdbench.model.yamltext import Document, Scalar


MAX_PROFILE_BYTES = 64 << 10  # the longest shipped profile has 4 KiB
_SUFFIXES = (".yaml", ".yml")


def read_profile(name: str) -> "tuple[Profile, str]":
    """Return the profile with this name or path, and its text including its job files.

    Raises UsageError if the file is missing or is not text, ProfileError for mistakes in the
    profile.
    """
    from ssdbench.model.loading import load_profile

    path = find_profile(name)
    text = with_job_files(_profile_text(path), path)
    return load_profile(text, str(path)), text


def find_profile(name: str) -> Path:
    """Return the path of a profile. `name` is a path, or the name of an installed profile.

    If the current directory has a file with this name, the file is used and not the installed
    profile. A directory with this name is ignored.
    """
    path = Path(name)
    if (path.exists() and not path.is_dir()) or os.sep in name or path.suffix in _SUFFIXES:
        return path
    for directory in profile_directories():
        if _is_file(found := directory / f"{name}.yaml"):
            return found
    if path.is_dir():
        return path
    known = ", ".join(installed_profiles()) or "none"
    raise UsageError(
        f"there is no profile {name!r}", hint=f"Name a file, or an installed profile: {known}."
    )


def _is_file(path: Path) -> bool:
    """Return whether a file exists; False if its directory is not readable."""
    try:
        return path.is_file()
    except OSError:
        return False


def profile_directories() -> list[Path]:
    """Return the directories that are searched for a profile's name, the user's own first."""
    base = os.environ.get("XDG_CONFIG_HOME")
    own = Path(base) if base else Path(os.environ.get("HOME", "/")) / ".config"
    package = Path(__file__).resolve().parent.parent
    wheel, clone = package / "profiles", package.parent / "profiles"
    shipped = [wheel, wheel / "papers", clone, clone / "papers"]
    return [own / "ssdbench", Path("/etc/ssdbench"), *shipped]


def installed_profiles() -> list[str]:
    """Return the names of the profiles that can be run without a path."""
    files = (path for directory in profile_directories() for path in directory.glob("*.yaml"))
    return sorted({path.stem for path in files})


def _profile_text(path: Path) -> str:
    if path.is_dir():
        raise UsageError(f"{path} is a directory, not a profile", hint="Name a .yaml file in it.")
    try:
        with path.open("rb") as file:
            data = file.read(MAX_PROFILE_BYTES + 1)
    except FileNotFoundError as error:
        known = ", ".join(installed_profiles()) or "none"
        raise UsageError(
            f"there is no profile {path}", hint=f"Profiles known by name: {known}."
        ) from error
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}", hint="Check its permissions."
        ) from error
    if len(data) > MAX_PROFILE_BYTES:
        raise UsageError(f"{path} is not a profile: it is larger than 64 KiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(
            f"{path}:{line}:1: a byte that is not UTF-8",
            hint="Save the file as UTF-8 text.",
        ) from error


MAX_JOB_BYTES = 64 << 10
MAX_ALL_BYTES = 1 << 20  # most bytes of all job files of one profile


def with_job_files(text: str, profile: Path) -> str:
    """Return a profile's text, in which each job file named by `fio` is replaced by its content.

    Line numbers do not change. Relative paths of traces are made absolute. Raises ProfileError,
    with the line in the profile, for a job file that cannot be read.
    """
    from ssdbench.model.loading import misfit_error
    from ssdbench.model.yamltext import read

    document = read(text, str(profile))
    left = MAX_ALL_BYTES
    for path, scalar in sorted(_named(document).items(), key=lambda found: -found[1].start):
        if path[2] == "replay":
            whole = json.dumps(str(profile.parent.absolute() / scalar.value))
            text = text[: scalar.start] + whole + text[scalar.end :]
            continue
        try:
            body = _job_text(scalar.value, profile.parent)
        except UsageError as error:
            hint = error.hint or "Name a job file beside the profile."
            raise misfit_error(text, str(profile), [(path, error.message)], hint=hint) from error
        if (left := left - len(body)) < 0:
            why = f"the job files of this profile have more than {MAX_ALL_BYTES >> 20} MiB"
            hint = "Spread the job files over several profiles."
            raise misfit_error(text, str(profile), [(path, why)], hint=hint)
        found = json.dumps({"name": scalar.value, "text": body})  # also valid YAML, and one line
        text = text[: scalar.start] + found + text[scalar.end :]
    return text


def _named(document: "Document") -> "dict[tuple[str | int, ...], Scalar]":
    """Return the values in a profile that name a job file or trace, by path in the profile."""
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


def _job_text(name: str, directory: Path) -> str:
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
    except ValueError as error:  # the name has a NUL character
        raise UsageError(f"{name!r} is not a file name") from error
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
