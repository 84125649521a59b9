"""Keep a simulated drive on disk: state file, specification, copies and users; serve it by NBD.

The state file is the core's memory itself, mapped shared, so that what the drive did is in the
file even when its user is killed. All its blocks are allocated: a write into a hole of a mapped
file on a full disk would end the user with SIGBUS. Beside `NAME.ssdb` lie `NAME.spec.json`, which
says what the drive is, and, for drives that were served with their data, `NAME.data`. While nobody
uses the drive, `NAME.saved` holds a record (`ssdbench.model.records`) with the checksums of state
and specification; a user that was killed leaves none.
"""

import fcntl
import json
import mmap
import os
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self
from zlib import crc32

from ssdbench.errors import DeviceError, HostLacks, SsdbenchError, UsageError
from ssdbench.foreign import open_own
from ssdbench.host.command import become
from ssdbench.host.files import reserve, unwritable, write_atomic
from ssdbench.model import records
from ssdbench.sim import library
from ssdbench.sim.core import Drive
from ssdbench.sim.library import CoreError
from ssdbench.sim.spec import SimSpec

_FICLONE = 0x40049409  # linux/fs.h: share the blocks of another file
_STEP = 1 << 20


def spec_path(state: Path) -> Path:
    """Where the specification of a state file stands."""
    return state.with_suffix(".spec.json")


def data_path(state: Path) -> Path:
    """Where the data of a served drive stand."""
    return state.with_suffix(".data")


def saved_path(state: Path) -> Path:
    """Where the checksums of a state file stand that nobody uses."""
    return state.with_suffix(".saved")


class StateUnusable(UsageError):
    """A state file of another version, or cut off: nothing can be read from it."""


class SimDrive:
    """A simulated drive in its state file, held for this process until it is closed."""

    def __init__(self, path: Path, descriptor: int, spec: SimSpec) -> None:
        self.path = path
        self._hold(descriptor, spec)

    def _hold(self, descriptor: int, spec: SimSpec) -> None:
        self.spec = spec
        self._descriptor = descriptor
        self._memory = mmap.mmap(descriptor, 0, mmap.MAP_SHARED)
        self.core = Drive(self._memory)

    @classmethod
    def create(cls, spec: SimSpec, path: Path) -> Self:
        """Make a fresh drive. Raises UsageError when `path` exists, HostLacks without room."""
        if path.suffix != ".ssdb":
            raise UsageError(f"the state file of a simulated drive ends in .ssdb, got {path}")
        params = spec.core_params()
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            raise UsageError(
                f"{path} exists already", hint="remove it, or name another state file"
            ) from None
        except OSError as error:
            raise unwritable(path, error) from error
        try:
            _lock(descriptor, path)
            saved_path(path).unlink(missing_ok=True)  # of a drive that was here before
            reserve(descriptor, path, params.state_bytes())
            drive = cls(path, descriptor, spec)
            drive.core.initialise(params)
            write_atomic(spec_path(path), json.dumps(asdict(spec), indent=1) + "\n")
        except (OSError, SsdbenchError) as error:
            os.close(descriptor)
            path.unlink()
            if isinstance(error, OSError):
                raise unwritable(path, error) from error
            raise
        return drive

    @classmethod
    def open(cls, path: Path, *, repair: bool = False) -> Self:
        """Open an existing drive.

        A state whose last user died inside a request is refused, or with `repair` mended: each
        block of that request is then as it was before it, or after it. Raises UsageError when
        there is no such state, it is in use, of another version or not whole; DeviceError when it
        is torn, or damaged by something else than a death.
        """
        spec = read_spec(path)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise UsageError(f"{path} cannot be opened: {error.strerror}") from error
        try:
            _lock(descriptor, path)
            _require_bytes(descriptor, path)
            reserve(descriptor, path, os.fstat(descriptor).st_size)  # a copy may have holes
            drive = cls(path, descriptor, spec)
        except BaseException:
            os.close(descriptor)
            raise
        try:
            drive._examine(repair)
        except BaseException:
            drive.close(saves=False)  # the mapping too: it holds the lock as well
            raise
        saved_path(path).unlink(missing_ok=True)
        return drive

    def _sums(self) -> dict[str, object]:
        spec = spec_path(self.path).read_bytes()
        return {"kind": "saved", "state_crc32": crc32(self._memory), "spec_crc32": crc32(spec)}

    def _altered(self) -> bool:
        """Whether state or specification are not what was saved last, where that is known."""
        try:
            held = records.read(saved_path(self.path).read_bytes())
        except FileNotFoundError:
            return False
        sums = self._sums()
        return bool(held.damaged) or [dict(line.fields) for line in held.lines] != [sums]

    def _examine(self, repair: bool) -> None:
        altered = self._altered()  # before the core writes that it is in use
        error = self.core.attach()
        altered = altered and error is CoreError.OK  # a user that was killed saved nothing
        if error is CoreError.TORN and repair:
            error = self.core.repair()
        if error is not CoreError.OK:
            raise _refusal(self.path, error, repair)
        params = self.core.params()
        if params != dict(self.spec.params):
            wrong = next(name for name in params if params[name] != self.spec.params.get(name))
            raise UsageError(
                f"{spec_path(self.path)} does not belong to {self.path}: {wrong} differs",
                hint="restore both files from the same snapshot",
            )
        if altered:
            raise _refused_as_altered(self.path)

    def fileno(self) -> int:
        """The descriptor that holds the lock, for a child that shares the drive with us."""
        return self._descriptor

    def info(self) -> dict[str, Any]:
        """What the drive is and where its clock stands."""
        return {
            "path": str(self.path),
            "target": self.spec.text,
            "model": self.spec.model,
            "title": self.spec.title,
            "simulated": True,
            "seed": self.spec.seed,
            "capacity_bytes": self.core.capacity_bytes,
            "logical_block_bytes": self.core.lba_bytes,
            "device_time_ns": self.core.now_ns,
            "state_bytes": len(self._memory),
            "notes": list(self.spec.notes),
        }

    def counters(self) -> dict[str, int]:
        """The core's counters, by name."""
        return self.core.counters()

    def snapshot(self, to: Path) -> None:
        """Copy the drive as it is now; `to` must not exist. Shares blocks where it can."""
        if to.suffix != ".ssdb":
            raise UsageError(f"the state file of a simulated drive ends in .ssdb, got {to}")
        if to.exists():
            raise UsageError(f"{to} exists already", hint="remove it, or name another file")
        self._memory.flush()
        write_atomic(spec_path(to), spec_path(self.path).read_bytes())
        if data_path(self.path).exists():
            _copy(data_path(self.path), data_path(to))
        _copy(self.path, to)
        write_atomic(saved_path(to), records.line(self._sums()) + "\n")

    def restore(self, source: Path) -> None:
        """Become the drive that `source` holds; the state as it was is lost.

        Raises UsageError when `source` is no whole state of a drive of the same size in memory.
        """
        with type(self).open(source) as other:
            spec = other.spec
            beside = self.path.with_suffix(".restoring")
            _copy(source, beside)
            descriptor = os.open(beside, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                _lock(descriptor, beside)  # ours before it has a name that others look for
                reserve(descriptor, beside, os.fstat(descriptor).st_size)
                if data_path(source).exists():
                    _copy(data_path(source), data_path(self.path))
            except BaseException:
                os.close(descriptor)
                beside.unlink()
                raise
        write_atomic(spec_path(self.path), spec_path(source).read_bytes())
        beside.replace(self.path)
        self.close()
        self._hold(descriptor, spec)

    def close(self, *, saves: bool = True) -> None:
        """Save and let others use the drive.

        Without `saves` no checksum is kept, as the state is refused, or is about to be changed.
        """
        if self._descriptor >= 0:
            self.core.release()
            self._memory.flush()
            if saves:
                write_atomic(saved_path(self.path), records.line(self._sums()) + "\n")
            self._memory.close()
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def read_spec(state: Path) -> SimSpec:
    """The specification beside a state file. Raises UsageError when it is missing or damaged."""
    path = spec_path(state)
    try:
        data = json.loads(path.read_text())
        return SimSpec(
            **{**data, **{key: tuple(data[key]) for key in ("notes", "sources")}},
        )
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}",
            hint=f"a simulated drive is {state.name} and {path.name}, side by side",
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is damaged: {error}") from error


def _refused_as_altered(path: Path) -> DeviceError:
    return DeviceError(
        f"{path}, {spec_path(path).name} or {saved_path(path).name} is damaged: the checksums that "
        "were saved are of other bytes",
        hint=f"restore it from a snapshot; or, if you changed it, remove {saved_path(path)}",
    )


def _refusal(path: Path, error: CoreError, repair: bool) -> SsdbenchError:
    match error:
        case CoreError.TORN if repair:
            return DeviceError(
                f"{path} is damaged, not only because its last user died: its maps disagree",
                hint="restore it from a snapshot, or create it again",
            )
        case CoreError.TORN:
            return DeviceError(
                f"{path} is incomplete: its last user died inside a request",
                hint=f"`ssdbench sim inspect --repair {path}` repairs it",
            )
        case CoreError.MEMORY:
            return StateUnusable(f"{path} is truncated", hint="restore it from a snapshot")
        case _:
            return StateUnusable(
                f"{path} is of another version of the simulated drive, or not a state at all",
                hint="create it again",
            )


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(
            f"{path} is in use by another process", hint="end that process, or work on a snapshot"
        ) from None


def _require_bytes(descriptor: int, path: Path) -> None:
    if not os.fstat(descriptor).st_size:
        raise StateUnusable(f"{path} is truncated: it is empty", hint="restore it from a snapshot")


def _copy(source: Path, to: Path) -> None:
    """Copy a file, sharing its blocks if the file system can, else leaving out its holes."""
    try:
        with source.open("rb") as reader, os.fdopen(open_own(to), "wb") as writer:
            try:
                fcntl.ioctl(writer.fileno(), _FICLONE, reader.fileno())
            except OSError:
                _copy_data(reader.fileno(), writer.fileno())
            os.fsync(writer.fileno())
    except OSError as error:
        to.unlink(missing_ok=True)
        raise HostLacks(f"{source} cannot be copied to {to}: {error.strerror}") from error


def _copy_data(reader: int, writer: int) -> None:
    size = os.fstat(reader).st_size
    os.ftruncate(writer, size)
    at = 0
    while at < size:
        try:
            at = os.lseek(reader, at, os.SEEK_DATA)
        except OSError:  # ENXIO: nothing but a hole to the end
            return
        end = os.lseek(reader, at, os.SEEK_HOLE)
        while at < end:
            data = os.pread(reader, min(_STEP, end - at), at)
            if not data:
                return
            at += os.pwrite(writer, data, at)


def nbd_uri(socket_path: Path) -> str:
    """What NBD clients and fio's nbd engine call the server."""
    return f"nbd+unix:///?socket={socket_path}"


def nbd_server_argv(
    state: Path, socket_path: Path, *, data: Path | None, overhead_ns: int | None = None
) -> list[str]:
    """The server's command line; without `data`, what is read is zeros.

    `overhead_ns` is what the socket adds to each request, and is taken off the drive's latency;
    None lets the server measure a round trip on this machine first.

    Raises HostLacks when the server has not been built.
    """
    return [
        str(library.native_file("ssdb-nbd")),
        "--state", str(state),
        "--socket", str(socket_path),
        *(["--overhead-ns", str(overhead_ns)] if overhead_ns is not None else []),
        *(["--data", str(data)] if data else []),
    ]  # fmt: skip


def become_nbd_server(
    state: Path, socket_path: Path, *, data: Path | None, overhead_ns: int | None = None
) -> NoReturn:
    """Turn this process into the server, so that signals reach it and nobody must pass them on.

    Raises what `SimDrive.open` raises when the state cannot be used.
    """
    SimDrive.open(state).close(saves=False)  # the server changes it
    become(nbd_server_argv(state, socket_path, data=data, overhead_ns=overhead_ns))
