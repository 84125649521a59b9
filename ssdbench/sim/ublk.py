"""Attach a simulated drive as the block device /dev/ublkbN, by the kernel's own ublk driver.

The server (`ssdb-ublk`, ssdbench/sim/native/ublk_server.c) keeps in /run/ssdbench/ublkbN how late
it answered. If the server is killed, the driver fails the requests under way and removes the disk;
`detach` frees its number. The commands for the driver are those of Linux 6.4
(include/uapi/linux/ublk_cmd.h).
"""

import fcntl
import os
import re
import struct
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Self

from ssdbench.errors import HostLacks, UsageError, telling
from ssdbench.host import command
from ssdbench.host.files import make_directory
from ssdbench.host.lock import until_free
from ssdbench.sim import library

CONTROL = Path("/dev/ublk-control")
RUNNING = Path("/run/ssdbench")
ATTACH_S = 120.0  # to measure what the kernel adds, and to allocate a large state
DETACH_S = 60.0
_BUCKETS = 252
_LAYOUT = struct.Struct(f"<4Q{_BUCKETS}Q{_BUCKETS}Q")  # struct front_late
_MAGIC = int.from_bytes(b"SSDBLATE", "little")


@dataclass(frozen=True, slots=True)
class Lateness:
    """How late a server answered, and the latencies of its drive, as counts per bucket."""

    answered: int
    most_ns: int  # since the drive was attached
    late: tuple[int, ...]
    latencies: tuple[int, ...]  # that the drive itself has

    @classmethod
    def read(cls, device: str, *, running: Path = RUNNING) -> Self | None:
        """Read the counts of a block device by its kernel name; None if no server keeps counts."""
        try:
            magic, answered, _, most_ns, *counts = _LAYOUT.unpack((running / device).read_bytes())
        except (OSError, struct.error):
            return None
        if magic != _MAGIC:
            return None
        return cls(answered, most_ns, tuple(counts[:_BUCKETS]), tuple(counts[_BUCKETS:]))

    def since(self, before: Self) -> Self:
        """Return the counts since an earlier reading."""
        late, latencies = (
            tuple(now - then for now, then in zip(*both, strict=True))
            for both in ((self.late, before.late), (self.latencies, before.latencies))
        )
        return type(self)(self.answered - before.answered, self.most_ns, late, latencies)


def serves(device: str, *, running: Path = RUNNING) -> bool:
    """Tell whether a server of `attach` is behind a block device, by its kernel name.

    The server of the superuser keeps a lock on its file of lateness until it ends.
    """
    try:
        with (running / device).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return Lateness.read(device, running=running) is not None
    except OSError:
        return False
    return False


def lateness_of(node: str) -> Lateness | None:
    """Read the lateness of a block device; None if `attach` did not make it."""
    name = Path(node).resolve().name if node else ""
    return Lateness.read(name) if name.startswith("ublkb") else None


def at_most_ns(counts: tuple[int, ...], share: float) -> int:
    """Return the upper end, in ns, of the bucket that holds this share of all counts.

    A bucket is a quarter of a power of two, so the value is at most 25 % too high.
    """
    wanted = share * sum(counts)
    bucket = next(at for at, seen in enumerate(accumulate(counts)) if seen >= wanted)
    return bucket if bucket < 4 else ((5 + bucket % 4) << (bucket // 4 - 1)) - 1


def require_driver() -> None:
    """Raise HostLacks if the kernel's ublk driver is not loaded."""
    if not CONTROL.exists():
        raise HostLacks(
            f"this kernel offers no ublk driver: {CONTROL} does not exist",
            hint="as root, `modprobe ublk_drv`; it needs Linux 6.4 or newer with "
            "CONFIG_BLK_DEV_UBLK. `ssdbench sim serve` (NBD) works with every kernel",
        )


def attach(state: Path, *, data: Path | None, overhead_ns: int | None = None) -> str:
    """Attach the drive in a state file; return its node, such as /dev/ublkb0.

    Without `data`, reads return zeros. `overhead_ns` is the time that the kernel adds to each
    request, which the server subtracts; by default it is measured. The server continues in the
    background until `detach`, and its messages are in a file beside the state. Raises HostLacks.
    """
    require_driver()
    counts = os.geteuid() == 0  # for others, the lateness is only in the server's messages
    if counts:
        make_directory(RUNNING)
    argv = [
        str(library.native_file("ssdb-ublk")),
        "--state", str(state),
        "--log", str(state.with_suffix(".log")),
        *(["--late", str(RUNNING)] if counts else []),
        *(["--data", str(data)] if data else []),
        *(["--overhead-ns", str(overhead_ns)] if overhead_ns is not None else []),
    ]  # fmt: skip
    done = command.run(argv, ok=range(256), timeout_s=ATTACH_S)
    if done.status:
        raise HostLacks(f"the drive cannot be attached: {telling(done.stderr)}")
    return done.stdout.strip()


def detach(device: str) -> Lateness | None:
    """Remove a block device of `attach` and wait until its state is stored; return its lateness.

    It also removes the files that a killed server left. Raises UsageError for a name that is not a
    ublk device, HostLacks if the device is in use or was not made by `attach`.
    """
    found = re.fullmatch(r"(?:/dev/)?ublkb([0-9]{1,7})", device)
    if found is None:
        raise UsageError(
            f"{device} is not the name of a ublk device", hint="the name is such as /dev/ublkb0"
        )
    require_driver()
    name = f"ublkb{found[1]}"
    lateness = Lateness.read(name)
    argv = [str(library.native_file("ssdb-ublk")), "--detach", found[1]]
    done = command.run(argv, ok=range(256), timeout_s=DETACH_S)
    if done.status:
        raise HostLacks(f"/dev/{name} is not detached: {telling(done.stderr)}")
    until_free(RUNNING / name)
    (RUNNING / name).unlink(missing_ok=True)
    return lateness
