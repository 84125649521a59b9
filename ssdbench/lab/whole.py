"""What the lab keeps is whole, or made again: a power cut or a full disk cuts files short.

The programs that unpack and build do not wait until their files are on disk. So that is waited for
once, and the sizes are written down beside what was made, and compared before it is used.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from ssdbench.host import command, files


def note(made: Path) -> None:
    """Bring a file, or all files below a directory, to disk, and write down their sizes."""
    command.run(["sync", *(["-f"] if made.is_dir() else []), str(made)])
    sizes = [f"{os.lstat(name).st_size} {name.removeprefix(str(made))}\n" for name in _files(made)]
    files.write_atomic(_sizes(made), "".join(sizes))


def is_whole(made: Path, *, unnoted: bool = True) -> bool:
    """Whether it is there and as long as it was.

    Older versions wrote down no sizes: `unnoted` is what counts then.
    """
    if not made.exists():
        return False
    if not _sizes(made).exists():
        return unnoted
    lines = (line.split(" ", 1) for line in _sizes(made).read_text().splitlines())
    return all(_size(f"{made}{name}") == size for size, name in lines)


def _sizes(made: Path) -> Path:
    return made.with_name(f"{made.name}.sizes")


def _files(made: Path) -> Iterator[str]:
    if not made.is_dir():
        yield str(made)
    for base, _, names in os.walk(made):
        yield from (f"{base}/{name}" for name in names)


def _size(name: str) -> str:
    try:
        return str(os.lstat(name).st_size)
    except OSError:
        return "none"
