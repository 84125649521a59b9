"""Keep a simulated drive in files: open it, copy it, restore it, and serve it over NBD.

NAME.ssdb        the state of the drive, a shared memory mapping, so it survives a killed program;
                 all blocks are allocated, because a write to a hole on a full disk gives SIGBUS
NAME.spec.json   the specification of the drive
NAME.data        the data, for a drive that was served with its data
NAME.saved       the checksums of state and specification (`ssdbench.model.records`), while no
                 program uses the drive; the file is missing after a program was killed
"""

import fcntl
import json
import mmap
import os
from dataclasses import asdict
from pathlib import Path
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
    """Return the path of the specification that belongs to a state file."""
    return state.with_suffix(".spec.json")


def data_path(state: Path) -> Path:
    """Return the path of the data that belong to a state file."""
    return state.with_suffix(".data")


def saved_path(state: Path) -> Path:
    """Return the path of the checksums that belong to a state file."""
    return state.with_suffix(".saved")


class StateUnusable(UsageError):
    """The state file has another version or is truncated, so it cannot be read."""


class SimDrive:
    """A simulated drive whose state is in a file; this process locks the file until `close`."""

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
        """Create a new drive. Raises UsageError if `path` exists, HostLacks if the disk is full."""
        _require_ssdb(path)
        params = spec.core_params()
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            raise UsageError(
                f"{path} already exists", hint="remove it, or name another state file"
            ) from None
        except OSError as error:
            raise unwritable(path, error) from error
        try:
            _lock(descriptor, path)
            saved_path(path).unlink(missing_ok=True)  # may exist from an earlier drive
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

        With `repair`, repair a state whose program died inside a request: each block of this
        request then has either the old or the new data. Raises UsageError if the state file is
        missing, in use, truncated or has another version. Raises DeviceError if the state needs a
        repair or is damaged.
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
            drive.close(saves=False)  # also closes the mapping, which would keep the lock
            raise
        saved_path(path).unlink(missing_ok=True)
        return drive

    def _sums(self) -> dict[str, object]:
        spec = spec_path(self.path).read_bytes()
        return {"kind": "saved", "state_crc32": crc32(self._memory), "spec_crc32": crc32(spec)}

    def _altered(self) -> bool:
        """Return whether the state or specification differs from its stored checksum."""
        try:
            held = records.read(saved_path(self.path).read_bytes())
        except FileNotFoundError:
            return False
        sums = self._sums()
        return bool(held.damaged) or [dict(line.fields) for line in held.lines] != [sums]

    def _examine(self, repair: bool) -> None:
        altered = self._altered()  # before `attach`, which changes the state
        error = self.core.attach()
        altered = altered and error is CoreError.OK  # a program that was killed stored no checksums
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
            saved = saved_path(self.path)
            raise DeviceError(
                f"{self.path}, {spec_path(self.path).name} or {saved.name} is damaged: the "
                "checksums do not match",
                hint="restore it from a snapshot; or, if you changed a file yourself, remove "
                f"{saved}",
            )

    def fileno(self) -> int:
        """Return the descriptor that holds the lock, for a child process that shares the drive."""
        return self._descriptor

    def info(self) -> dict[str, Any]:
        """Return a description of the drive: its specification, size and clock."""
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
        """Return all counters of the drive, by name."""
        return self.core.counters()

    def snapshot(self, to: Path) -> None:
        """Copy the drive's files to the new name `to`; share disk blocks if the file system can."""
        _require_ssdb(to)
        if to.exists():
            raise UsageError(f"{to} already exists", hint="remove it, or name another file")
        self._memory.flush()
        write_atomic(spec_path(to), spec_path(self.path).read_bytes())
        if data_path(self.path).exists():
            _copy(data_path(self.path), data_path(to))
        _copy(self.path, to)
        write_atomic(saved_path(to), records.line(self._sums()) + "\n")

    def restore(self, source: Path) -> None:
        """Replace this drive's state by a copy of the state in `source`. Raises UsageError."""
        with type(self).open(source) as other:
            spec = other.spec
            beside = self.path.with_suffix(".restoring")
            _copy(source, beside)
            descriptor = os.open(beside, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                _lock(descriptor, beside)  # locked before the file gets its final name
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
        """Store the checksums and release the drive.

        With saves=False no checksums are stored. This is for a state that was refused, or that
        another program will change soon.
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

    def __exit__(self, *exc: object) -> None:
        self.close()


def _require_ssdb(path: Path) -> None:
    if path.suffix != ".ssdb":
        raise UsageError(f"the name of a state file must end in .ssdb, got {path}")


def read_spec(state: Path) -> SimSpec:
    """Read the specification of a state file. Raises UsageError if damaged or missing."""
    path = spec_path(state)
    try:
        data = json.loads(path.read_text())
        return SimSpec(
            **{**data, **{key: tuple(data[key]) for key in ("notes", "sources")}},
        )
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}",
            hint=f"a simulated drive needs both {state.name} and {path.name} in one directory",
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is damaged: {error}") from error


def _refusal(path: Path, error: CoreError, repair: bool) -> SsdbenchError:
    match error:
        case CoreError.TORN if repair:
            return DeviceError(
                f"{path} is damaged beyond an interrupted request: its maps disagree",
                hint="restore it from a snapshot, or create it again",
            )
        case CoreError.TORN:
            return DeviceError(
                f"{path} is incomplete: the last program died in the middle of a request",
                hint=f"`ssdbench sim inspect --repair {path}` repairs it",
            )
        case CoreError.MEMORY:
            return StateUnusable(f"{path} is truncated", hint="restore it from a snapshot")
        case _:
            return StateUnusable(
                f"{path} is from another version of the simulated drive, or is not a state file",
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
    """Copy a file: share its blocks if the file system can, else copy the data, not the holes."""
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
        except OSError:  # ENXIO: the rest of the file is a hole
            return
        end = os.lseek(reader, at, os.SEEK_HOLE)
        while at < end:
            data = os.pread(reader, min(_STEP, end - at), at)
            if not data:
                return
            at += os.pwrite(writer, data, at)


def nbd_uri(socket_path: Path) -> str:
    """Return the NBD address of the server, for NBD clients and fio's nbd engine."""
    return f"nbd+unix:///?socket={socket_path}"


def nbd_server_argv(
    state: Path, socket_path: Path, *, data: Path | None, overhead_ns: int | None = None
) -> list[str]:
    """Return the command line of the NBD server; without a `data` file, reads return zeros.

    `overhead_ns` is the time that the socket adds to each request; the server subtracts it from the
    drive's latency. If `overhead_ns` is None, the server first measures the time that the socket
    adds. Raises HostLacks if the server has not been built.
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
    """Replace this process by the NBD server, so that signals to this process reach the server."""
    SimDrive.open(state).close(saves=False)  # the server stores other checksums
    become(nbd_server_argv(state, socket_path, data=data, overhead_ns=overhead_ns))
