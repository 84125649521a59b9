"""Lock the host and each target for one run; when a process ends, its locks end."""

import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Self

from ssdbench.errors import HostLacks, SsdbenchError, TargetRefused
from ssdbench.foreign import descriptor_of, open_own
from ssdbench.host import command
from ssdbench.host.files import require_private, unwritable
from ssdbench.host.processes import side_by_side_leader


class Lock:
    """Hold a lock file inside `with`; a killed process also loses the lock.

    The lock file is removed when the block ends. Another process that had opened the file before
    would then lock a removed file. So a lock counts only if its path still leads to the locked
    file. When another process holds the lock, entering the block raises `taken(holder)`, in which
    holder is a text such as "process 4711".
    """

    def __init__(self, path: Path, taken: Callable[[str], SsdbenchError]) -> None:
        self._path = path
        self._taken = taken
        self._descriptor = -1

    def __enter__(self) -> Self:
        try:
            while (descriptor := _locked(self._path)) is None:
                pass
        except BlockingIOError:
            holder = self.holder()
            raise self._taken(f"process {holder}" if holder else "another process") from None
        except OSError as error:
            raise unwritable(self._path, error) from error
        self._descriptor = descriptor
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        return self

    def __exit__(self, *exc: object) -> None:
        _remove(self._path, self._descriptor)
        os.close(self._descriptor)
        self._descriptor = -1

    def holder(self) -> int | None:
        """Return the id of the process that holds the lock, from the lock file, if it is there."""
        try:
            text = self._path.read_text().strip()
        except OSError:
            return None
        return int(text) if text.isdigit() else None


@contextmanager
def waiting(path: Path, busy: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Wait for a lock file and hold its lock during a block; if it is not free, call `busy` first.

    Programs that `command.run` starts in the block inherit the lock. The programs of a killed
    process continue for a short time, in which they would disturb the next process that gets the
    lock.
    """
    descriptor = _opened(path)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            busy()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        with command.inherited(descriptor):
            yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # also frees it for programs that inherited it
        os.close(descriptor)


def until_free(path: Path) -> None:
    """Wait until a lock file is free or missing, without polling. Raises OSError, HostLacks."""
    require_private(path)
    with (
        suppress(FileNotFoundError),
        descriptor_of(path, os.O_RDONLY | os.O_NOFOLLOW) as descriptor,
    ):
        fcntl.flock(descriptor, fcntl.LOCK_SH)


def _opened(path: Path) -> int:
    """Open a lock file, or create it if it is missing; return its descriptor.

    Raises OSError, and HostLacks when another user (not root) could have made or changed the file.
    """
    require_private(path)
    return open_own(path, os.O_RDWR, 0o600)


def _locked(path: Path) -> int | None:
    """Return a descriptor that holds the lock; None if the file was removed. Raises OSError."""
    descriptor = _opened(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _leads_to(path, descriptor):
            return descriptor
    except OSError:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _leads_to(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except OSError:
        return False


def _remove(path: Path, descriptor: int) -> None:
    """Remove a lock file whose lock `descriptor` holds."""
    if _leads_to(path, descriptor):
        with suppress(OSError):  # a lock file that remains does no harm
            path.unlink()


def host_lock(directory: Path | None = None) -> Lock:
    """Return the lock of this host, because two runs at the same time would disturb each other."""
    return Lock(
        (directory or lock_directory()) / "host.lock",
        lambda holder: HostLacks(
            f"another ssdbench run ({holder}) is at work on this host",
            hint="wait for it, or end it with `ssdbench stop`",
        ),
    )


def led(directory: Path | None = None) -> bool:
    """Return whether our parent process holds the lock of this host for its children."""
    above = side_by_side_leader()
    return above is not None and host_lock(directory).holder() == above


def target_lock(target_id: str, directory: Path | None = None) -> Lock:
    """Return the lock of the target with this identity; remove locks that killed processes left."""
    directory = directory or lock_directory()
    # Remove target locks of killed processes; the caller must hold the host's lock.
    for path in directory.glob("target-*.lock"):
        try:
            descriptor = _locked(path)
        except (OSError, HostLacks):
            continue  # in use, or of another user
        if descriptor is not None:
            _remove(path, descriptor)
            os.close(descriptor)
    name = sha256(target_id.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return Lock(
        directory / f"target-{name}.lock",
        lambda holder: TargetRefused(
            target_id,
            [f"another ssdbench run ({holder}) is at work on it"],
            hint="wait for it, or end it with `ssdbench stop`",
        ),
    )


def lock_directory() -> Path:
    """Return a directory for locks that only this user can write. Raises HostLacks."""
    session = os.environ.get("XDG_RUNTIME_DIR")
    if os.geteuid() == 0:
        directory = Path("/run/ssdbench")
    elif session:
        directory = Path(session) / "ssdbench"
    else:
        directory = Path(f"/tmp/ssdbench-{os.geteuid()}")  # its owner is checked below
    try:
        directory.mkdir(mode=0o755, exist_ok=True)
        status = directory.lstat()
    except OSError as error:
        raise unwritable(directory, error) from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise HostLacks(f"{directory} belongs to another user", hint="remove it, or ask its owner")
    require_private(directory)
    return directory
