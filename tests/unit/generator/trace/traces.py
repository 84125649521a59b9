"""The same requests in every form of a trace."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ssdbench.generator.trace.forms import _RECORD, MAGIC

Request = tuple[int, int, int, str]  # ns, offset, size, r w d f

REQUESTS: Sequence[Request] = (
    (0, 4096, 4096, "r"),
    (1_500_000, 8192, 65536, "w"),
    (1_500_000, 1 << 20, 8192, "r"),
    (2_000_000, 0, 0, "f"),
    (9_000_000, 1 << 21, 1 << 20, "d"),
    (2_500_000_000, 73728, 512, "w"),
)
_ACTIONS = {"r": "read", "w": "write", "d": "trim", "f": "sync"}


def iolog(path: Path, requests: Sequence[Request] = REQUESTS, *, version: int = 3) -> Path:
    lines = [f"fio version {version} iolog"]
    at = "0 " if version == 3 else ""
    lines += [f"{at}/dev/sdb add", f"{at}/dev/sdb open"]
    for ns, offset, size, way in requests:
        if version == 2:
            lines.append(f"/dev/sdb wait {ns // 10**6} 0")
        at = f"{ns // 1000} " if version == 3 else ""
        lines.append(f"{at}/dev/sdb {_ACTIONS[way]} {offset} {size}")
    path.write_text("\n".join(lines) + "\n")
    return path


def records(requests: Sequence[Request] = REQUESTS, *, order: str = "<") -> bytes:
    """blktrace's, with events that count for nothing and bytes behind some records."""
    made = b""
    for ns, offset, size, way in requests:
        kind = {"r": 1 << 16, "w": 1 << 17, "d": 1 << 29 | 1 << 17, "f": 1 << 18 | 1 << 17}[way]
        for action, device, extra in (
            (1 << 26, 8 << 20, b"bash\0\0\0\0"),  # the name of a process
            (1 | kind, 8 << 20, b""),
            (2 | kind, 8 << 20, b""),  # merged
            (1 | kind, 9 << 20, b"xy"),  # of another device
        ):
            one = np.zeros(1, [(name, order + size_of) for name, size_of in _RECORD])
            one["magic"], one["time"], one["sector"] = MAGIC | 7, 10**9 + ns, offset // 512
            one["bytes"], one["action"], one["device"] = size, action, device
            one["pdu_len"] = len(extra)
            made += one.tobytes() + extra
    return made


def blkparse(path: Path, requests: Sequence[Request] = REQUESTS) -> Path:
    kinds = {"r": "R", "w": "WS", "d": "D", "f": "FWS"}
    lines = []
    for number, (ns, offset, size, way) in enumerate(requests):
        head = f"  8,16   3 {number:8d} {ns // 10**9:5d}.{ns % 10**9:09d}  697"
        place = f" {offset // 512} + {size // 512}" if size else ""
        lines += [f"{head}  Q {kinds[way]:>3}{place} [postgres]",
                  f"{head}  C {kinds[way]:>3} {offset // 512} + {size // 512} [0]"]  # fmt: skip
    path.write_text("\n".join([*lines, "CPU0 (8,16):", " Reads Queued:  2, 12KiB"]) + "\n")
    return path


def queued(cpus: Sequence[int], numbers: Sequence[int] = ()) -> bytes:
    """Reads that are queued a millisecond apart, each by its CPU and with its number of that."""
    made = np.zeros(len(cpus), [(name, "<" + size_of) for name, size_of in _RECORD])
    made["magic"], made["bytes"], made["action"], made["device"] = MAGIC | 7, 4096, 1 | 1 << 16, 8
    made["cpu"], made["time"] = cpus, np.arange(len(cpus)) * 1_000_000
    counts = [list(cpus[:at]).count(cpu) + 1 for at, cpu in enumerate(cpus)]
    made["sequence"] = numbers or counts
    return made.tobytes()


def csv(path: Path, requests: Sequence[Request] = REQUESTS) -> Path:
    rows = [f"{ns / 10**9:.9f},{way},{offset},{size},x" for ns, offset, size, way in requests]
    path.write_text("\n".join(["time,op,offset,size,note", *rows]) + "\n")
    return path


def blktrace(path: Path, *, order: str = "<") -> Path:
    path.write_bytes(records(order=order))
    return path
