"""Finds and reads the profile that a command names."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ssdbench.errors import UsageError

if TYPE_CHECKING:
    from ssdbench.model.profile import Profile

MAX_PROFILE_BYTES = 64 << 10  # the longest one that is shipped has 4 KiB
_SUFFIXES = (".yaml", ".yml")


def read_profile(name: str) -> "tuple[Profile, str]":
    """The profile of that name or path, and its text, with the job files that it names.

    Raises UsageError for a file that is not there or no text, ProfileError for its mistakes.
    """
    from ssdbench.cli.jobfiles import with_job_files  # pydantic and ruamel cost 200 ms
    from ssdbench.model.loading import load_profile

    path = find_profile(name)
    text = with_job_files(_text(path), path)
    return load_profile(text, str(path)), text


def find_profile(name: str) -> Path:
    """The file that `name` means: a path, or the bare name of a profile that is installed.

    A file of that name here comes before an installed profile, a directory after it.
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
        f"there is no profile {name!r}", hint=f"Name a file, or one of those installed: {known}."
    )


def _is_file(path: Path) -> bool:
    """Whether a file is there and may be seen; another user's directory is passed over."""
    try:
        return path.is_file()
    except OSError:
        return False


def profile_directories() -> list[Path]:
    """Where profiles are looked for by name, the user's own before the shipped ones."""
    base = os.environ.get("XDG_CONFIG_HOME")
    own = Path(base) if base else Path(os.environ.get("HOME", "/")) / ".config"
    package = Path(__file__).resolve().parent.parent
    wheel, clone = package / "profiles", package.parent / "profiles"
    shipped = [wheel, wheel / "papers", clone, clone / "papers"]
    return [own / "ssdbench", Path("/etc/ssdbench"), *shipped]


def installed_profiles() -> list[str]:
    """Names of the profiles that can be run without a path."""
    files = (path for directory in profile_directories() for path in directory.glob("*.yaml"))
    return sorted({path.stem for path in files})


def _text(path: Path) -> str:
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
            f"{path}:{line}:1: a byte that is not UTF-8", hint="Save the file as UTF-8 text."
        ) from error
