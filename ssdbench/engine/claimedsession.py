"""Give a run access to the device or file that the run has claimed for itself."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from ssdbench.engine.drivelogs import FlashCounter
from ssdbench.engine.hostsettings import password_noted
from ssdbench.engine.journal import Kind, Record, StageJournal
from ssdbench.engine.lbaformats import remember_format
from ssdbench.engine.session import KERNEL, Counters
from ssdbench.errors import DeviceError, DeviceLost, HostLacks, UsageError
from ssdbench.generator.base import Generator, JobOutcome
from ssdbench.generator.fio.attachment import Access, DirectoryAttachment, attachment
from ssdbench.generator.fio.driver import Sections, run_fio_sections
from ssdbench.generator.fio.dryruns import ceiling_iops, placed
from ssdbench.generator.fio.passthrough import PassthroughFio
from ssdbench.generator.slam import Slam
from ssdbench.host.command import Process
from ssdbench.host.counters import disk_counters
from ssdbench.host.nvme import MONITOR_BYTES, MONITOR_LOG, Nvme, opened
from ssdbench.host.sysfs import Sysfs
from ssdbench.model.fitting import unoffered
from ssdbench.model.profile import Applies, Purge
from ssdbench.model.result import FlashWritten
from ssdbench.model.target import TAKEN, LbaFormat, TargetInfo, TargetKind
from ssdbench.model.workload import ActiveRange, Workload
from ssdbench.target.claim import Claim
from ssdbench.target.content import Watch
from ssdbench.target.evidence import taken_for_a_drive
from ssdbench.target.inspect import inspect
from ssdbench.target.nvme import (
    HEALTH_BYTES,
    HEALTH_LOG,
    OCP_BYTES,
    OCP_LOG,
    LatencyMonitor,
    data_written_bytes,
    flash_written,
    interval_watts,
    is_ocp,
    latency_monitor,
    ocp_errors,
    throttle_counters,
)
from ssdbench.target.purge import Purged, Witness, discard, purge

BOOT_ID = "/proc/sys/kernel/random/boot_id"
SIGNATURES = "leaves_signatures"  # key in a journal record


class ClaimedSession:
    """Measure a device or file under an exclusive claim."""

    spare_bytes: int | None = None  # unknown for real drives

    def __init__(
        self,
        info: TargetInfo,
        claim: Claim,
        *,
        fio_cpus: Collection[int] = (),
        fio_options: Mapping[str, str] | None = None,
        applies: Applies = Applies.FIO,
        before_signatures: Callable[[], None] = lambda: None,
        watch: Watch | None = None,
    ) -> None:
        self.info = info
        self._watch = watch
        self._claim = claim
        self._applies = applies
        self._before_signatures = before_signatures
        self._fio_cpus = tuple(fio_cpus)
        self._fio_options = dict(fio_options or {})
        self._ceilings: dict[Workload, float | None] = {}
        self._lacks_ocp = self._lacks_monitor = False
        self._tells_power = True
        self._flash = FlashCounter()
        self._reformatted: Purged | None = None  # the format of `reformat`, until `purge` uses it
        self.wrote_past_the_kernel = False  # by uncounted NVMe passthrough

    def generator(self, *, step_s: int = 1) -> Generator:
        """Return the generator that the profile names: fio, or the kernel module ssdb_slam."""
        fio = PassthroughFio(
            attachment(self.info, self._descriptor()),
            Path(self.info.node),
            self._descriptor(),
            cpus=self._fio_cpus,
            options=self._fio_options,
            before_writing_past=self._writes_past_the_kernel,
        )
        if self._applies is Applies.FIO:
            return fio
        return Slam(Path(self.info.node), self._descriptor(), fio, cpus=self._fio_cpus)

    def _writes_past_the_kernel(self) -> None:
        self.wrote_past_the_kernel = True

    def run_sections(
        self,
        work: Sections,
        *,
        artifacts: Path,
        cpus: Collection[int],
        below: Path | None,
        meanwhile: Callable[[Process], None],
    ) -> JobOutcome:
        """Run fio on the claimed target, or on files in the directory `below` if it is given."""
        with ExitStack() as held:
            way: Access = (
                attachment(self.info, self._descriptor())
                if below is None
                else held.enter_context(DirectoryAttachment(below))
            )
            return run_fio_sections(
                way,
                work,
                artifacts=artifacts,
                cpus=cpus or self._fio_cpus,
                placed=placed(self._fio_options, cpus),
                meanwhile=meanwhile,
            )

    def recheck(self) -> None:
        """Check the claimed target again: its identity, size, content and all safety rules."""
        self._claim.check()
        if self._watch is not None:
            self._watch.before_writing()

    def counters(self) -> Counters:
        """Read the kernel's counters of written and discarded bytes; all zero for a file."""
        return counters_of(self.info)

    def health_written_bytes(self) -> int | None:
        """Read "data units written" of an NVMe drive, in bytes; None without a readable log."""
        return health_written_bytes(self.info)

    def flash_written(self, *, hurried: Callable[[], bool] = lambda: False) -> FlashWritten | None:
        """Read an NVMe drive's counters of bytes written by the host and to flash (OCP log).

        The method waits until the flash counter no longer changes. The result is None if the drive
        has no health log or no OCP log.
        """

        def read() -> FlashWritten | None:
            return None if (logs := self._logs()) is None else flash_written(*logs)

        return self._flash.still(read, hurried)

    def throttle_counters(self) -> Mapping[str, int]:
        """Read the counters of throttling and errors of an NVMe drive; empty without its logs."""
        if (logs := self._logs()) is None:
            return {}
        self._flash.note(flash_written(*logs))
        return throttle_counters(*logs) | ocp_errors(logs[1])

    def latency_monitor(self) -> LatencyMonitor | None:
        """Read the latency monitor (OCP log C3h); after a refusal, do not read it again."""
        node = Path(self.info.node).resolve()
        if self._lacks_monitor or self._lacks_ocp or not node.name.startswith("nvme"):
            return None
        try:
            with opened(node) as drive:
                found = latency_monitor(drive.log_page(MONITOR_LOG, MONITOR_BYTES))
        except (DeviceError, HostLacks):
            found = None
        self._lacks_monitor = found is None
        return found

    def drive_watts(self) -> float | None:
        """Read the mean power of the last second in W from the health log; None before NVMe 2.3."""
        node = Path(self.info.node)
        if self._tells_power and node.resolve().name.startswith("nvme"):
            try:
                with opened(node) as drive:
                    watts = interval_watts(drive.log_page(HEALTH_LOG, HEALTH_BYTES))
            except (DeviceError, HostLacks):
                return None
            self._tells_power = watts is not None  # do not read again if the log has no power
            return watts
        return None

    def _logs(self) -> tuple[bytes, bytes] | None:
        """Read the health log and the OCP log, which may be empty; return None if reading fails."""
        node = Path(self.info.node).resolve()
        if not node.name.startswith("nvme"):
            return None
        try:
            with opened(node) as drive:
                return drive.log_page(HEALTH_LOG, HEALTH_BYTES), self._ocp(drive)
        except (DeviceError, HostLacks):
            return None

    def _ocp(self, drive: Nvme) -> bytes:
        """Read the OCP log (C0h); return an empty page if the drive lacks this log.

        A drive that once refused the page, or returned a page that is not OCP's, is not asked for
        C0h or C3h again, because each refused command adds an entry to the drive's error log.
        """
        page = b""
        if not self._lacks_ocp:
            with suppress(DeviceError):
                page = drive.log_page(OCP_LOG, OCP_BYTES)
            self._lacks_ocp = not is_ocp(page)
        return page

    def ceiling_iops(self, workload: Workload) -> float | None:
        """Measure the IOPS of fio's null engine, which does no I/O, with this workload.

        Each workload is measured once and the result is kept. Workloads that differ only in their
        range of the drive share a result, because the null engine ignores offsets.
        """
        whole = ActiveRange(offset_bytes=0, length_bytes=self.info.size_bytes)
        kind = workload.model_copy(update={"range": whole})
        if kind not in self._ceilings:
            self._ceilings[kind] = ceiling_iops(kind, cpus=self._fio_cpus, placed=self._fio_options)
        return self._ceilings[kind]

    def purge(self, method: Purge, share: Callable[[float], None] = lambda done: None) -> Purged:
        """Purge the claimed drive; the callback `share` gets the finished part, from 0 to 1."""
        if method is Purge.FORMAT and self._reformatted is not None:
            done, self._reformatted = self._reformatted, None  # `reformat` purged it already
            return done
        self.recheck()
        if method is Purge.ATA_ERASE:
            with password_noted(self.info.here) as note:
                done = purge(self.info, method, self._descriptor(), Witness(password=note))
        else:
            done = purge(self.info, method, self._descriptor(), Witness(share=share))
        self._claim.check()
        self._renew(at_once=True)
        return done

    def reformat(self, wanted: LbaFormat) -> Purged:
        """Store the drive's LBA format on disk, give it another format, and update `info`.

        Formatting also purges the drive, so the next call of `purge` with FORMAT does nothing.
        Raises UsageError for a format that the drive does not offer.
        """
        if why := unoffered(wanted, self.info):
            raise UsageError(why)
        self.recheck()
        was = self.info.lba_format
        changes = was is not None and was != wanted
        if was is not None and changes:
            remember_format(self.info.id, was)
        done = purge(self.info, Purge.FORMAT, self._descriptor(), lba_format=wanted)
        if changes:
            said = f"the drive keeps its new LBA format {wanted}; it was {was}"
            done = replace(done, lasting=said)
        info = inspect(self.info.node).model_copy(update={"name": self.info.name})
        info = taken_for_a_drive(info) if TAKEN in self.info.facts else info
        self._claim.formatted(info)
        self.info, self._reformatted = info, done
        self._renew(at_once=True)
        return done

    def discard(self, offset_bytes: int, length_bytes: int) -> None:
        """Discard a byte range of the claimed device (BLKDISCARD). Raises HostLacks for a file."""
        self.recheck()
        discard(self.info, self._descriptor(), offset_bytes, length_bytes)

    @contextmanager
    def released(
        self, reason: str, journal: StageJournal, *, leaves_signatures: bool = False
    ) -> Iterator[None]:
        """Release the drive's claim during a `with` block; note the release in the journal.

        No generator may be running during the block. `leaves_signatures` means that the block makes
        file systems; the journal stores this, so that after a crash `resume` knows that this run
        made them. See `Claim.released`.
        """

        def note(said: str) -> None:
            if leaves_signatures:
                self._before_signatures()
            journal.claim(said, **{SIGNATURES: leaves_signatures})

        with self._claim.released(reason, note, leaves_signatures=leaves_signatures):
            yield

    def save(self) -> None:
        """Store samples of the target's content from time to time; a resume compares them."""
        self._renew()

    def _renew(self, *, at_once: bool = False) -> None:
        if self._watch is not None:
            self._watch.renew(self.info, at_once=at_once)

    def close(self) -> None:
        """Do nothing: the caller claimed the target, and releases it."""

    def _descriptor(self) -> int:
        if self._claim.fd is None:
            raise DeviceLost(f"{self.info.name} is not claimed any more")
        return self._claim.fd


def counters_of(info: TargetInfo) -> Counters:
    """Read a device's counters in the kernel; zero for a file. Raises DeviceLost if absent."""
    if info.kind is TargetKind.FILE:
        return Counters()
    try:
        with disk_counters(info.major_minor) as disk:
            stat = disk.read()
    except OSError as error:
        raise DeviceLost(f"{info.name} is gone: {error.strerror}") from error
    # A drive that was attached again has new counters; the kernel numbers this since Linux 5.15.
    boot, attached = (
        (Sysfs().find(path) or "").strip()
        for path in (BOOT_ID, f"/sys/dev/block/{info.major_minor}/diskseq")
    )
    return Counters(
        written_bytes=stat.write_bytes,
        discarded_bytes=stat.discard_bytes,
        epoch=f"boot {boot}" + (f", disk {attached}" if attached else ""),
        source=KERNEL,
        read_at_s=time.monotonic(),
    )


def health_written_bytes(info: TargetInfo) -> int | None:
    """Read "data units written" of an NVMe drive, in bytes; None without a readable log."""
    node = Path(info.node)
    if not node.name.startswith("nvme"):
        return None
    try:
        with opened(node) as drive:
            return data_written_bytes(drive.log_page(HEALTH_LOG, HEALTH_BYTES))
    except (DeviceError, HostLacks):
        return None


def signatures_are_ours(records: Iterable[Record]) -> bool:
    """Tell from the journal whether the run made, or may have made, file systems on its target."""
    return any(r.kind is Kind.CLAIM and bool(r.data.get(SIGNATURES)) for r in records)
