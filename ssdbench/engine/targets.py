"""Claims a target for a run: a device, a file, or a simulated drive in the run directory."""

import json
import os
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from ssdbench.engine.applied import password_noted
from ssdbench.engine.journal import Kind, Record, StageJournal
from ssdbench.engine.lbaformats import note
from ssdbench.engine.session import KERNEL, SIMULATED, Counters, TargetSession
from ssdbench.errors import DeviceError, DeviceLost, HostLacks, TargetRefused, UsageError
from ssdbench.generator.base import Generator
from ssdbench.generator.fio.attachment import ENGINE, attachment
from ssdbench.generator.fio.ceiling import ceiling_iops
from ssdbench.generator.fio.driver import Fio, usable
from ssdbench.generator.fio.simulated import ENGINE as SIM_ENGINE
from ssdbench.generator.fio.simulated import SimAttachment
from ssdbench.generator.slam import NAME as SLAM_MODULE
from ssdbench.generator.slam import Slam, require_loaded
from ssdbench.host.counters import DiskStat, disk_counters
from ssdbench.host.files import make_directory, remove_if_empty, write_atomic
from ssdbench.host.lock import host_lock, target_lock
from ssdbench.host.nvme import Nvme, opened
from ssdbench.host.sysfs import Sysfs
from ssdbench.model.consent import Consent
from ssdbench.model.fitting import unoffered
from ssdbench.model.lbaformat import LbaFormat
from ssdbench.model.profile import Applies, Purge
from ssdbench.model.result import FlashWritten
from ssdbench.model.target import TargetInfo, TargetKind
from ssdbench.model.workload import ActiveRange, Workload
from ssdbench.sim.core import Op
from ssdbench.sim.drive import SimDrive, StateUnusable, data_path, spec_path
from ssdbench.sim.spec import parse
from ssdbench.target.claim import Claim
from ssdbench.target.consent import require_consent
from ssdbench.target.inspect import inspect
from ssdbench.target.nvme import (
    HEALTH_BYTES,
    HEALTH_LOG,
    OCP_BYTES,
    OCP_LOG,
    data_written_bytes,
    flash_written,
    throttle_counters,
)
from ssdbench.target.purge import DISCARD_STEP_BYTES, Purged, Witness, discard, purge
from ssdbench.units import format_capacity

STATE = Path("sim") / "state.ssdb"
EPOCH = Path("sim") / "epoch.json"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
PPM = 1_000_000
SIGNATURES = "leaves_signatures"


class ClaimedSession:
    """A device or file that is held by a claim."""

    spare_bytes: int | None = None  # no drive tells

    def __init__(
        self,
        info: TargetInfo,
        claim: Claim,
        *,
        fio_cpus: Collection[int] = (),
        fio_options: Mapping[str, str] | None = None,
        applies: Applies = Applies.FIO,
    ) -> None:
        self.info = info
        self._claim = claim
        self._applies = applies
        self._fio_cpus = tuple(fio_cpus)
        self._fio_options = dict(fio_options or {})
        self._ceilings: dict[Workload, float | None] = {}
        self._lacks_ocp = False
        self._reformatted: Purged | None = None  # and nothing was written since

    def generator(self, *, step_s: int = 1) -> Generator:
        """fio or the slammer on the claimed target; real time passes second by second."""
        way = attachment(self.info, self._descriptor())
        fio = Fio(way, cpus=self._fio_cpus, options=self._fio_options)
        if self._applies is Applies.FIO:
            return fio
        return Slam(Path(self.info.node), self._descriptor(), fio, cpus=self._fio_cpus)

    def recheck(self) -> None:
        """Identity, size and everything that the guard asks, while the claim is held."""
        self._claim.check()

    def counters(self) -> Counters:
        """The kernel's counters of a device; a file has none that survives us."""
        if self.info.kind is TargetKind.FILE:
            return Counters()
        try:
            with disk_counters(self.info.major_minor) as file:
                stat = DiskStat.parse(file.read())
        except OSError as error:
            raise DeviceLost(f"{self.info.name} is gone: {error.strerror}") from error
        return Counters(
            written_bytes=stat.write_bytes,
            discarded_bytes=stat.discard_bytes,
            epoch=f"boot {(Sysfs().find(BOOT_ID) or '').strip()}",
            source=KERNEL,
            read_at_s=time.monotonic(),
        )

    def health_written_bytes(self) -> int | None:
        """Data units written, of an NVMe drive; a log that cannot be read proves nothing."""
        node = Path(self.info.node)
        if not node.name.startswith("nvme"):
            return None
        try:
            with opened(node) as drive:
                return data_written_bytes(drive.log_page(HEALTH_LOG, HEALTH_BYTES))
        except (DeviceError, HostLacks):
            return None

    def flash_written(self) -> FlashWritten | None:
        """Of an NVMe drive with OCP's log; a log that cannot be read proves nothing."""
        node = Path(self.info.node).resolve()
        if not node.name.startswith("nvme"):
            return None
        try:
            with opened(node) as drive:
                return flash_written(drive.log_page(HEALTH_LOG, HEALTH_BYTES), self._ocp(drive))
        except (DeviceError, HostLacks):
            return None

    def throttle_counters(self) -> Mapping[str, int]:
        """Of an NVMe drive; OCP's log is not asked for again where there is none.

        Each refused log page is an entry in the drive's own error log.
        """
        node = Path(self.info.node).resolve()
        if not node.name.startswith("nvme"):
            return {}
        try:
            with opened(node) as drive:
                return throttle_counters(drive.log_page(HEALTH_LOG, HEALTH_BYTES), self._ocp(drive))
        except (DeviceError, HostLacks):
            return {}

    def _ocp(self, drive: Nvme) -> bytes:
        if self._lacks_ocp:
            return b""
        try:
            return drive.log_page(OCP_LOG, OCP_BYTES)
        except DeviceError:
            self._lacks_ocp = True
            return b""

    def ceiling_iops(self, workload: Workload) -> float | None:
        """fio's null engine on the CPUs that measure; asked once per workload, wherever it works.

        Only the range is left out of account: the null engine does nothing with an offset.
        """
        whole = ActiveRange(offset_bytes=0, length_bytes=self.info.size_bytes)
        kind = workload.model_copy(update={"range": whole})
        if kind not in self._ceilings:
            self._ceilings[kind] = ceiling_iops(kind, cpus=self._fio_cpus, placed=self._fio_options)
        return self._ceilings[kind]

    def purge(self, method: Purge, share: Callable[[float], None] = lambda done: None) -> Purged:
        """Bring the claimed drive back to its fresh state; `share` is told how far it is."""
        if method is Purge.FORMAT and self._reformatted is not None:
            done, self._reformatted = self._reformatted, None  # once is enough
            return done
        self._claim.check()
        if method is Purge.ATA_ERASE:
            with password_noted(self.info.here) as note:
                done = purge(self.info, method, self._descriptor(), Witness(password=note))
        else:
            done = purge(self.info, method, self._descriptor(), Witness(share=share))
        self._claim.check()
        return done

    def reformat(self, wanted: LbaFormat) -> Purged:
        """Format the drive with another LBA format, noted before; `info` is anew after it.

        That is a purge by format: the next one that is asked for has been done with it. Raises
        UsageError for a format that the drive does not offer.
        """
        if why := unoffered(wanted, self.info):
            raise UsageError(why)
        self._claim.check()
        was = self.info.lba_format
        if was is not None and was != wanted:
            note(self.info.id, was)
        done = purge(self.info, Purge.FORMAT, self._descriptor(), lba_format=wanted)
        if was is not None and was != wanted:
            said = f"the drive keeps its new LBA format {wanted}; it was {was}"
            done = replace(done, lasting=said)
        info = inspect(self.info.node).model_copy(update={"name": self.info.name})
        self._claim.formatted(info)
        self.info, self._reformatted = info, done
        return done

    def discard(self, offset_bytes: int, length_bytes: int) -> None:
        """BLKDISCARD through the claim; a file takes none."""
        self._claim.check()
        discard(self.info, self._descriptor(), offset_bytes, length_bytes)

    @contextmanager
    def released(
        self, reason: str, journal: StageJournal, *, leaves_signatures: bool = False
    ) -> Iterator[None]:
        """Give the claim up for one named step, journalled: see `Claim.released`.

        No generator may be at work. After a crash inside, `resume` knows from the journal that
        signatures on the target are ours.
        """

        def note(said: str) -> None:
            journal.claim(said, **{SIGNATURES: leaves_signatures})

        with self._claim.released(reason, note, leaves_signatures=leaves_signatures):
            yield

    def save(self) -> None:
        """A device keeps itself."""

    def close(self) -> None:
        """Whoever made the claim gives it up."""

    def _descriptor(self) -> int:
        if self._claim.fd is None:
            raise DeviceLost(f"{self.info.name} is not claimed any more")
        return self._claim.fd


class SimulatedSession:
    """A simulated drive whose state lies in the run directory."""

    def __init__(self, info: TargetInfo, run_path: Path) -> None:
        self.info = info.model_copy(update={"node": STATE.as_posix()})
        self._path = run_path / STATE
        self._epoch_path = run_path / EPOCH
        self._drive = self._open()
        self._epoch = str(json.loads(self._epoch_path.read_text())["epoch"])

    @property
    def spare_bytes(self) -> int | None:
        """The model's over-provisioning."""
        params = self._drive.spec.params
        return params["capacity_bytes"] * params.get("op_ppm", 0) // PPM

    def generator(self, *, step_s: int = 1) -> Generator:
        """fio on the drive's own clock, which the judge lets go `step_s` at a time."""
        return Fio(SimAttachment(self._drive, step_s=step_s))

    def recheck(self) -> None:
        """Nobody else can have it: its state is locked."""

    def counters(self) -> Counters:
        """The core's own."""
        return Counters(
            written_bytes=self._drive.counters()["host_write_bytes"],
            epoch=self._epoch,
            source=SIMULATED,
        )

    def health_written_bytes(self) -> int | None:
        """It has no log besides its counters."""
        return None

    def flash_written(self) -> FlashWritten | None:
        """What no real drive would show is not shown: its counters are the truth."""
        return None

    def throttle_counters(self) -> Mapping[str, int]:
        """It has no log."""
        return {}

    def ceiling_iops(self, workload: Workload) -> float | None:
        """A simulated drive keeps its own time, which no slow host changes."""
        return None

    def purge(self, method: Purge, share: Callable[[float], None] = lambda done: None) -> Purged:
        """What a format does: the drive is made anew. Discards are real ones, over all of it.

        Raises TargetRefused for a method that no simulated drive has.
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
            self._epoch = str(json.loads(self._epoch_path.read_text())["epoch"])
            seconds = 0.0
            said = f"{method.value}: the simulated drive was made anew, which takes it no time"
        return Purged(method.value, said, seconds, before, self._written())

    def discard(self, offset_bytes: int, length_bytes: int) -> None:
        """A TRIM on the drive's own clock."""
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

    def save(self) -> None:
        """The state is a mapped file: it is there even when we are killed."""

    def close(self) -> None:
        """Let others use the state."""
        self._drive.close()

    def _open(self) -> SimDrive:
        """The drive as it was left, a repaired one, or a fresh one with an epoch of its own."""
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
        except HostLacks:  # nothing was begun: leave no directory that looks like a run
            remove_if_empty(self._path.parent, self._path.parent.parent)
            raise
        write_atomic(self._epoch_path, json.dumps({"epoch": f"state {secrets.token_hex(8)}"}))
        return drive


def signatures_are_ours(records: Iterable[Record]) -> bool:
    """Whether a step of this run left file systems on its target, or may have."""
    return any(r.kind is Kind.CLAIM and bool(r.data.get(SIGNATURES)) for r in records)


def require_able(info: TargetInfo) -> str:
    """What measures such a target on this host, as `fio 3.33`.

    Raises HostLacks unless this host and user can measure it at all.
    Asked before anything is claimed or made, so that what is missing costs nothing.
    """
    device = info.kind not in (TargetKind.FILE, TargetKind.SIMULATED)
    if device and os.geteuid() != 0:
        raise HostLacks(
            f"only root can measure {info.name}, a block device",
            hint="run the same command with sudo, or measure a file or a sim:MODEL",
        )
    return usable(SIM_ENGINE if info.simulated else ENGINE)


def require_generator(applies: Applies, info: TargetInfo, modules: Collection[str]) -> None:
    """Raise UsageError or HostLacks unless a generator can work on such a target here.

    `modules` are those that the run itself will load.
    """
    if applies is Applies.FIO:
        return
    if info.simulated or info.kind is TargetKind.FILE:
        raise UsageError(
            f"`generator: slam` needs a block device, and {info.name} is none",
            hint="Set `generator: fio`, or measure a drive of ssdb_flash in the lab.",
        )
    if SLAM_MODULE not in modules:
        require_loaded()


@contextmanager
def claimed(
    info: TargetInfo,
    run_path: Path,
    consent: Consent,
    *,
    destroys: bool = True,
    fio_cpus: Collection[int] = (),
    fio_options: Mapping[str, str] | None = None,
    applies: Applies = Applies.FIO,
) -> Iterator[TargetSession]:
    """The session of a run, from `with` to its end, under the locks of host and target.

    A simulated run has the drive to itself and keeps its own time, so it takes no lock.
    Work that only reads says so by `destroys`. Raises TargetRefused with every reason, HostLacks
    when another run is at work on this host.
    """
    require_consent(info, consent, destroys=destroys)
    with ExitStack() as held:
        session: TargetSession
        if info.simulated:
            session = SimulatedSession(info, run_path)
        else:
            held.enter_context(host_lock())
            held.enter_context(target_lock(info.id))
            claim = held.enter_context(Claim(info, consent if destroys else consent.overwriting()))
            session = ClaimedSession(
                info, claim, fio_cpus=fio_cpus, fio_options=fio_options, applies=applies
            )
        held.callback(session.close)
        yield session


def retired(
    info: TargetInfo,
    method: Purge,
    consent: Consent,
    *,
    lba_format: LbaFormat | None = None,
) -> Purged:
    """Purge a drive outside of a run, under the same guard, consent, locks and claim.

    Raises TargetRefused with every reason, UsageError for an LBA format that it does not offer.
    """
    if info.kind in (TargetKind.FILE, TargetKind.SIMULATED):
        raise TargetRefused(info.name, ["it is no block device: delete it instead"])
    if lba_format is not None and (why := unoffered(lba_format, info)):
        raise UsageError(why)
    require_consent(info, consent)
    with host_lock(), target_lock(info.id), Claim(info, consent) as claim:
        session = ClaimedSession(info, claim)
        return session.reformat(lba_format) if lba_format else session.purge(method)
