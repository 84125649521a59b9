"""Logs that are kept as evidence: packed once nobody writes to them, read as if they were not.

fio's histogram logs are almost all zeros: packed they take a fiftieth.
"""

import gzip
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from ssdbench.foreign import open_own
from ssdbench.host.regular import opened as opened_regular

SUFFIX = ".gz"
LEVEL = 3  # 1 MiB in a few ms; higher levels gain little on rows of zeros


def pack(paths: Iterable[Path]) -> None:
    """Replace files by packed ones; one that cannot be packed stays as it is.

    The same bytes give the same packed file. A crash leaves the file, the packed one, or both.
    """
    for path in paths:
        beside = path.with_name(f".{path.name}.tmp")
        try:
            with (
                opened_regular(path) as held,
                os.fdopen(held, "rb", closefd=False) as plain,
                os.fdopen(open_own(beside), "wb") as raw,
                gzip.GzipFile("", "wb", LEVEL, raw, mtime=0) as packed,
            ):
                shutil.copyfileobj(plain, packed, 1 << 20)
            beside.replace(path.with_name(path.name + SUFFIX))
            path.unlink()
        except OSError:
            beside.unlink(missing_ok=True)


def opened(path: Path) -> TextIO:
    """The text of a file, packed or not."""
    if path.suffix == SUFFIX:
        return gzip.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8")


def found(directory: Path, pattern: str) -> list[Path]:
    """Files whose name fits, packed or not, in the order of their names; each once."""
    plain = {path.name: path for path in directory.glob(pattern)}
    packed = {path.name.removesuffix(SUFFIX): path for path in directory.glob(pattern + SUFFIX)}
    both = packed | plain  # while both are there, the packed one may not be whole
    return [both[name] for name in sorted(both)]
