"""Give a run access to a simulated drive, whose state is stored in the run directory."""

import json
import secrets
from collections.abc import Callable
from pathlib import Path

from ssdbench.engine.session import SIMULATED, Counters, TargetSession
from ssdbench.errors import DeviceError, HostLacks, TargetRefused, UsageError
from ssdbench.foreign import json_object, read_regular
from ssdbench.generator.base import Generator
from ssdbench.generator.fio.driver import Fio
from ssdbench.generator.fio.simulated import SimAttachment
from ssdbench.host.files import make_directory, remove_if_empty, write_atomic
from ssdbench.model.profile import Purge
from ssdbench.model.target import TargetInfo
from ssdbench.sim.core import Op
from ssdbench.sim.drive import SimDrive, StateUnusable, data_path, spec_path
from ssdbench.sim.spec import parse
from ssdbench.target.purge import DISCARD_STEP_BYTES, Purged
from ssdbench.units import format_capacity

STATE = Path("sim") / "state.ssdb"
EPOCH = Path("sim") / "epoch.json"
PPM = 1_000_000
# Makes a generator for a drive whose clock advances in steps of the given number of seconds.
Applies = Callable[[SimDrive, int], Generator]


def with_fio(drive: SimDrive, step_s: int) -> Generator:
    """Return a generator that runs unmodified fio in the virtual time of the simulated drive."""
    return Fio(SimAttachment(drive, step_s=step_s))


def _stored_epoch(path: Path) -> str:
    """Read the name (epoch) of the drive's stored state. Raises UsageError for a damaged file."""
    try:
        return str(json_object(read_regular(path))["epoch"])
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(
            f"{path} is damaged, so the state of the simulated drive is not known",
            hint="Start a new run.",
        ) from error


class SimulatedSession(TargetSession):
    """Open the simulated drive of a run, or create a new one.

    The drive's state is a memory-mapped file, locked while the session is open. A simulated drive
    has no logs, and the speed of the host does not change the results.
    """

    def __init__(self, info: TargetInfo, run_path: Path, applies: Applies = with_fio) -> None:
        self._applies = applies
        self._info = info.model_copy(update={"node": STATE.as_posix()})
        self._path = run_path / STATE
        self._epoch_path = run_path / EPOCH
        self._drive = self._open()
        self._epoch = _stored_epoch(self._epoch_path)

    @property
    def info(self) -> TargetInfo:
        """Return the drive's properties, including the path of its state file."""
        return self._info

    @property
    def spare_bytes(self) -> int | None:
        """Return the over-provisioning in bytes that the drive's model defines."""
        params = self._drive.spec.params
        return params["capacity_bytes"] * params.get("op_ppm", 0) // PPM

    def generator(self, *, step_s: int = 1) -> Generator:
        """Return a generator that runs on the drive's clock, in steps of `step_s` seconds."""
        return self._applies(self._drive, step_s)

    def recheck(self) -> None:
        """Do nothing, because no other process can change the locked state of the drive."""

    def save(self) -> None:
        """Do nothing: the kernel keeps changes of a mapped file even if the process is killed."""

    def counters(self) -> Counters:
        """Read the counters of the simulation core."""
        return Counters(
            written_bytes=self._drive.counters()["host_write_bytes"],
            epoch=self._epoch,
            source=SIMULATED,
        )

    def purge(self, method: Purge, share: Callable[[float], None] = lambda done: None) -> Purged:
        """Create a new empty drive, as a format does, or discard all blocks of the drive.

        Raises TargetRefused for an ATA erase.
        """
        if method is Purge.ATA_ERASE:
            raise TargetRefused(
                self.info.name,
                ["it has no ATA security"],
                hint="choose `purge: format` or `discard`",
            )
        before = self._written()
        if method is Purge.DISCARD:
            seconds = self._discarded_s(0, self.info.size_bytes)
            said = "discards over the whole simulated drive"
        else:
            self._drive.close()
            self._drive = self._fresh()
            self._epoch = _stored_epoch(self._epoch_path)
            seconds = 0.0
            said = f"{method.value}: the simulated drive was created again, which takes no time"
        return Purged(method.value, said, seconds, before, self._written())

    def discard(self, offset_bytes: int, length_bytes: int) -> None:
        """Send a TRIM for a range of bytes; this takes time on the drive's clock."""
        self._discarded_s(offset_bytes, length_bytes)

    def _discarded_s(self, start: int, length_bytes: int) -> float:
        core = self._drive.core
        began_ns = now_ns = core.now_ns
        end = start + length_bytes
        for offset in range(start, end, DISCARD_STEP_BYTES):
            length = min(DISCARD_STEP_BYTES, end - offset)
            done = core.submit(Op.TRIM, offset, length, now_ns=now_ns)
            if done.error:
                raise DeviceError(f"{self.info.name} refused a discard: {done.error.sentence()}")
            now_ns = done.done_ns
        core.idle(now_ns)
        return (now_ns - began_ns) / 1e9

    def _written(self) -> dict[str, str]:
        return {"written since it was made": format_capacity(self.counters().written_bytes)}

    def close(self) -> None:
        """Close the drive's state file, so that another process can use it."""
        self._drive.close()

    def _open(self) -> SimDrive:
        """Open the stored drive and repair it if needed, or create a new drive with a new epoch."""
        if self._path.exists() and self._epoch_path.exists():
            for repair in (False, True):
                try:
                    return SimDrive.open(self._path, repair=repair)
                except (DeviceError, StateUnusable):
                    continue
        return self._fresh()

    def _fresh(self) -> SimDrive:
        make_directory(self._path.parent)
        for old in (self._path, spec_path(self._path), data_path(self._path)):
            old.unlink(missing_ok=True)
        try:
            drive = SimDrive.create(parse(self.info.name), self._path)
        except HostLacks:  # the run has not begun: remove the empty run directory
            remove_if_empty(self._path.parent, self._path.parent.parent)
            raise
        write_atomic(self._epoch_path, json.dumps({"epoch": f"state {secrets.token_hex(8)}"}))
        return drive
