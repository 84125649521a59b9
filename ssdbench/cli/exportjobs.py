"""`ssdbench run --export-jobs`: the job files of a run, for plain fio."""

from collections.abc import Mapping
from pathlib import Path

from ssdbench.errors import UsageError
from ssdbench.foreign import write_whole
from ssdbench.host.files import unwritable


def store(files: Mapping[str, str], directory: Path) -> None:
    """Write the files into a directory that is made, or is empty. Raises UsageError, HostLacks."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise UsageError(f"{directory} is not empty", hint="name a new directory")
        for name, text in files.items():
            write_whole(directory / name, text.encode())
    except (FileExistsError, NotADirectoryError) as error:
        raise UsageError(f"{directory} is no directory", hint="name a new directory") from error
    except OSError as error:
        raise unwritable(directory, error) from error
