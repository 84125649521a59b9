"""The very commands of a purge, to drives that are not there but answer as the standards say."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ssdbench.errors import DeviceError
from ssdbench.host import nvme, scsi
from ssdbench.model.profile import Purge
from ssdbench.model.target import LbaFormat, TargetInfo, TargetKind
from ssdbench.target import ata, pages, purge
from ssdbench.target import nvme as nvme_pages
from ssdbench.target import scsi as scsi_pages
from ssdbench.target.pages import Protocol
from ssdbench.tuning.backends import AtaPasswordBackend
from ssdbench.tuning.journal import SettingsJournal, restore_all
from ssdbench.tuning.setting import Backend, Setting

NODE = Path("/dev/fake")
PASSWORD = b"ssdbench".ljust(32, b"\0")
FORMATTING = bytes([0x72, 0x02, 0x04, 0x04])
ATTENTION = bytes([0x70, 0, 0x06, *bytes(9), 0x29, 0x00])  # power on, or reset
SANITIZING_ATA = bytes([0x72, *bytes(7), 0x09, 12, 0, 0, 0x40, *bytes(9)])
SANITIZING_FIXED = bytes([0x70, 0, 0x02, *bytes(9), 0x04, 0x1B])


def identify(*, supported: bool = True, enabled: bool = False, locked: bool = False,
             frozen: bool = False, enhanced: bool = False, minutes: int = 0) -> bytes:  # fmt: skip
    """An IDENTIFY page with ATA security in a state."""
    page = bytearray(512)
    bits = supported | enabled << 1 | locked << 2 | frozen << 3 | enhanced << 5
    page[256:258] = bits.to_bytes(2, "little")
    page[178:180] = (minutes // 2).to_bytes(2, "little")
    return bytes(page)


@dataclass
class Disk:
    """A disk behind SG_IO with ATA security, or busy for a few polls."""

    password: bytes = b""
    locked: bool = False
    dies_on: int = -1  # an ATA command at which we are killed
    busy: list[bytes] = field(default_factory=list)
    capacity: bytes = bytes(32)
    sent: list[tuple[int, bytes, int]] = field(default_factory=list)
    blocks: list[tuple[bytes, bytes]] = field(default_factory=list)

    def ata(self, command: scsi.AtaCommand) -> scsi.Reply:
        if command.command == 0xEC:
            page = identify(enabled=bool(self.password), locked=self.locked)
            return scsi.Reply(page, b"", 0)
        self.sent.append((command.command, command.data, command.timeout_ms))
        if command.command == self.dies_on:
            raise KeyboardInterrupt
        given = command.data[2:34]
        if command.command == 0xF1:
            self.password = given
        elif command.command in (0xF2, 0xF4, 0xF6):
            assert given == self.password
            self.locked = False
            self.password = self.password if command.command == 0xF2 else b""
        return scsi.Reply(b"", b"", 0)

    def command(self, block: bytes, *, reads_bytes: int = 0, data: bytes = b"") -> scsi.Reply:
        self.blocks.append((block, data))
        if block == bytes(6) and self.busy:
            raise scsi.ScsiRefused(0, 2, self.busy.pop(0))
        return scsi.Reply(self.capacity if reads_bytes else b"", b"", 0)

    @contextmanager
    def opened(self, node: Path, *, writes: bool = False) -> Iterator["Disk"]:
        yield self


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    made = Disk()
    monkeypatch.setattr(scsi, "opened", made.opened)
    monkeypatch.setattr(purge, "POLL_S", 0.0)
    return made


def capacity(*, block_bytes: int = 512, protection: int = 0) -> bytes:
    flags = (protection - 1) << 1 | 1 if protection else 0
    return (bytes(8) + block_bytes.to_bytes(4, "big") + bytes([flags])).ljust(32, b"\0")


@pytest.mark.parametrize(("enhanced", "control"), [(False, 0), (True, 2)])
def test_an_ata_erase_notes_its_password_then_sets_prepares_and_erases(
    disk: Disk, *, enhanced: bool, control: int
) -> None:
    noted: list[bytes] = []
    pages = {ata.IDENTIFY: identify(enhanced=enhanced, minutes=60)}

    said = purge._ata_erase(NODE, pages, lambda: noted.append(disk.password))

    assert noted == [b""]  # before it was set
    assert [code for code, _, _ in disk.sent] == [0xF1, 0xF3, 0xF4]
    assert disk.sent[0][1] == (b"\0\0" + PASSWORD).ljust(512, b"\0")
    assert disk.sent[2][1] == (bytes([control, 0]) + PASSWORD).ljust(512, b"\0")
    assert disk.sent[2][2] == 2 * 60 * 60_000  # twice the hour that the drive says
    assert disk.password == b""
    assert ("enhanced" in said) == enhanced


@pytest.mark.parametrize("locked", [False, True])
def test_a_drive_that_a_crash_left_with_a_password_is_opened_by_restore(
    disk: Disk, tmp_path: Path, *, locked: bool
) -> None:
    backends = {Backend.ATA_PASSWORD: AtaPasswordBackend({"wwn.1": "sda"}.get)}
    journal = SettingsJournal(tmp_path / "p.jsonl", backends, boot_id="b1", host_id="h1")
    journal.__enter__()
    password = Setting(Backend.ATA_PASSWORD, "ATA password", scsi.ATA_PASSWORD, "an erase", "wwn.1")
    disk.dies_on = 0xF4
    with pytest.raises(KeyboardInterrupt):
        purge._ata_erase(
            NODE, {ata.IDENTIFY: identify()}, lambda: void(journal.remember(password, ""))
        )
    journal._file.close()
    journal._lock.__exit__()
    disk.locked, disk.dies_on = locked, -1  # as after a loss of power
    disk.sent.clear()

    (done,) = restore_all(tmp_path, backends, boot_id="b2", host_id="h1")  # another boot

    assert [code for code, _, _ in disk.sent] == ([0xF2, 0xF6] if locked else [0xF6])
    assert (disk.password, disk.locked) == (b"", False)
    assert (done.was, done.wanted) == ("", "ssdbench")


def void(_: object) -> None:
    """Forget a value."""


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        (identify(supported=False), "no ATA security"),
        (identify(frozen=True), "frozen until a power cycle"),
        (identify(enabled=True), "a password is set"),
        (identify(enabled=True, locked=True), "a password is set"),
    ],
    ids=["none", "frozen", "enabled", "locked"],
)
def test_an_ata_erase_that_cannot_be_is_refused(page: bytes, reason: str) -> None:
    said = purge.obstacles(Purge.ATA_ERASE, Protocol.ATA, {ata.IDENTIFY: page})

    assert any(reason.replace("a password", "password") in one for one in said)
    assert purge.obstacles(Purge.ATA_ERASE, Protocol.ATA, {ata.IDENTIFY: identify()}) == []


@pytest.mark.parametrize(
    ("kind", "byte", "usage"), [(0, 0x10, 0), (1, 0x90, 0), (2, 0xD0, 0), (3, 0xD0, 1)]
)
def test_a_scsi_format_keeps_the_protection_and_is_polled(
    disk: Disk, kind: int, byte: int, usage: int
) -> None:
    disk.capacity = capacity(protection=kind)
    disk.busy = [FORMATTING, FORMATTING]

    purge._scsi_format(NODE, {scsi_pages.CAPACITY: capacity(protection=kind)})

    assert disk.blocks[0] == (bytes([0x04, byte, 0, 0, 0, 0]), bytes([usage, 2, 0, 0]))
    assert [block for block, _ in disk.blocks[1:4]] == [bytes(6)] * 3
    assert disk.busy == []


def test_a_format_that_changed_the_blocks_is_an_error(disk: Disk) -> None:
    disk.capacity = capacity(block_bytes=4096)

    with pytest.raises(DeviceError, match="the format changed"):
        purge._scsi_format(NODE, {scsi_pages.CAPACITY: capacity()})


def test_a_scsi_sanitize_is_polled_and_its_failure_told(disk: Disk) -> None:
    disk.busy = [SANITIZING_FIXED]
    purge._scsi_sanitize(NODE)
    assert disk.blocks[0][0] == bytes([0x48, 0x82, *bytes(8)])

    disk.busy = [bytes([0x72, 0x03, 0x31, 0x03])]  # SANITIZE COMMAND FAILED
    with pytest.raises(DeviceError, match="refused SCSI command"):
        purge._scsi_sanitize(NODE)


@dataclass
class Namespace:
    """An NVMe drive whose sanitize log goes through states, one a look."""

    states: list[tuple[int, int]]  # status, share of 65536
    sent: list[nvme.Command] = field(default_factory=list)

    def admin(self, command: nvme.Command) -> nvme.Reply:
        self.sent.append(command)
        return nvme.Reply(b"", 0)

    def log_page(self, page: int, size_bytes: int) -> bytes:
        assert page == 0x81
        status, share = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return (share.to_bytes(2, "little") + status.to_bytes(2, "little")).ljust(512, b"\0")

    @contextmanager
    def opened(self, node: Path) -> Iterator["Namespace"]:
        yield self


@pytest.fixture
def sanitizing(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Namespace]:
    def make(*states: tuple[int, int]) -> Namespace:
        made = Namespace(list(states))
        monkeypatch.setattr(nvme, "opened", made.opened)
        monkeypatch.setattr(purge, "POLL_S", 0.0)
        return made

    return make


def can_sanitize(bits: int) -> dict[str, bytes]:
    page = bytearray(4096)
    page[328] = bits
    return {nvme_pages.CONTROLLER: bytes(page)}


@pytest.mark.parametrize(("can", "action"), [(0b111, 4), (0b010, 2)])
def test_an_nvme_sanitize_spares_flash_and_is_polled(
    sanitizing: Callable[..., Namespace], can: int, action: int
) -> None:
    drive = sanitizing((0, 0), (2, 16384), (2, 49152), (1, 0xFFFF))
    shares: list[float] = []

    purge._sanitize(NODE, can_sanitize(can), shares.append)

    (command,) = drive.sent
    assert (command.opcode, command.cdw10) == (0x84, action | 8)
    assert shares == [0.25, 0.75]


def test_a_sanitize_that_a_reboot_interrupted_is_waited_for_and_not_begun_again(
    sanitizing: Callable[..., Namespace],
) -> None:
    drive = sanitizing((2, 0), (2, 32768), (1, 0xFFFF))

    purge._sanitize(NODE, can_sanitize(0b111), lambda share: None)

    assert drive.sent == []


def test_a_sanitize_that_failed_is_an_error(sanitizing: Callable[..., Namespace]) -> None:
    sanitizing((0, 0), (2, 0), (3, 0))

    with pytest.raises(DeviceError, match="the sanitize ended as 'failed'"):
        purge._sanitize(NODE, can_sanitize(0b111), lambda share: None)


def of_protocol(monkeypatch: pytest.MonkeyPatch, protocol: Protocol) -> TargetInfo:
    monkeypatch.setattr(pages, "protocol", lambda kernel, sysfs: protocol)
    return TargetInfo(
        kind=TargetKind.DRIVE, name=str(NODE), node=str(NODE), id="x", size_bytes=1 << 20,
        major_minor="8:0", logical_block_bytes=512, physical_block_bytes=512,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("states", "found"), [(((2, 0), (2, 0), (1, 0)), True), (((1, 0),), False)]
)
def test_a_resumed_run_waits_for_an_nvme_sanitize_that_is_in_progress(
    monkeypatch: pytest.MonkeyPatch, sanitizing: Callable[..., Namespace],
    states: tuple[tuple[int, int], ...], *, found: bool
) -> None:  # fmt: skip
    sanitizing(*states)

    assert purge.awaited(of_protocol(monkeypatch, Protocol.NVME)) is found


def test_events_that_a_scsi_drive_tells_of_are_no_failure_of_a_format(disk: Disk) -> None:
    disk.busy = [ATTENTION, FORMATTING, ATTENTION]

    assert purge._await_ready(disk) is True  # type: ignore[arg-type]

    disk.busy = [ATTENTION] * 100
    with pytest.raises(DeviceError, match="refused SCSI command"):
        purge._await_ready(disk)  # type: ignore[arg-type]


@pytest.mark.parametrize("busy", [[SANITIZING_FIXED, FORMATTING], []])
def test_a_resumed_run_waits_for_a_scsi_sanitize_or_format(
    monkeypatch: pytest.MonkeyPatch, disk: Disk, busy: list[bytes]
) -> None:
    disk.busy, wanted = busy, bool(busy)

    assert purge.awaited(of_protocol(monkeypatch, Protocol.SCSI)) is wanted
    assert disk.busy == []


@pytest.mark.parametrize("polls", [0, 2])
def test_a_resumed_run_waits_for_an_ata_sanitize_and_sets_no_other_off(
    monkeypatch: pytest.MonkeyPatch, disk: Disk, polls: int
) -> None:
    left = [SANITIZING_ATA] * polls
    page = bytearray(identify())
    page[118:120] = (1 << 12 | 1 << 13).to_bytes(2, "little")  # sanitize, by crypto scramble

    def ata_command(command: scsi.AtaCommand) -> scsi.Reply:
        if command.command == 0xEC:
            return scsi.Reply(bytes(page), b"", 0)
        assert (command.command, command.feature) == (0xB4, 0)  # the status alone
        return scsi.Reply(b"", left.pop() if left else bytes(22), 0)

    monkeypatch.setattr(disk, "ata", ata_command)

    assert purge.awaited(of_protocol(monkeypatch, Protocol.ATA)) is bool(polls)
    assert left == []


def namespace_page(index: int, *formats: tuple[int, int], protection: int = 0) -> bytes:
    """An identify namespace structure of 1 MiB with these formats (power of two, metadata)."""
    page = bytearray(4096)
    power, _ = formats[index]
    page[0:8] = ((1 << 20) >> power).to_bytes(8, "little")
    page[25], page[26], page[29] = len(formats) - 1, index, protection
    for number, (shift, metadata) in enumerate(formats):
        page[128 + 4 * number : 130 + 4 * number] = metadata.to_bytes(2, "little")
        page[130 + 4 * number] = shift
    return bytes(page)


FORMATS = ((9, 0), (9, 8), (12, 0))


@dataclass
class Formattable:
    """An NVMe namespace that takes formats, or keeps its own whatever it is told."""

    index: int = 0
    protection: int = 0
    stubborn: bool = False
    words: list[int] = field(default_factory=list)

    def nsid(self) -> int:
        return 1

    def admin(self, command: nvme.Command) -> nvme.Reply:
        assert command.opcode == nvme.FORMAT
        self.words.append(command.cdw10)
        if not self.stubborn:
            self.index, self.protection = command.cdw10 & 15, command.cdw10 >> 5 & 7
        return nvme.Reply(b"", 0)

    def identify(self, structure: int, *, nsid: int = 0) -> bytes:
        assert (structure, nsid) == (0, 1)
        return namespace_page(self.index, *FORMATS, protection=self.protection)

    @contextmanager
    def opened(self, node: Path) -> Iterator["Formattable"]:
        yield self


def formatted(
    monkeypatch: pytest.MonkeyPatch, drive: Formattable, told: LbaFormat | None
) -> tuple[str, list[int]]:
    monkeypatch.setattr(nvme, "opened", drive.opened)
    found = {
        nvme_pages.CONTROLLER: bytes(4096),
        nvme_pages.NAMESPACE: drive.identify(0, nsid=1),
    }
    return purge._format(NODE, found, told), drive.words


@pytest.mark.parametrize(
    ("told", "word", "words"),
    [
        (LbaFormat(data=4096), 2 | 1 << 9, "512+0 changed to 4096+0"),
        (LbaFormat(data=512, metadata=8, protection=1), 1 | 1 << 5 | 1 << 9, "512+8, protection"),
        (LbaFormat(data=512), 1 << 9, "kept"),
        (None, 1 << 9, "kept"),
    ],
)
def test_an_nvme_format_gives_the_drive_the_lba_format_that_is_told(
    monkeypatch: pytest.MonkeyPatch, told: LbaFormat | None, word: int, words: str
) -> None:
    said, sent = formatted(monkeypatch, Formattable(), told)

    assert sent == [word]
    assert words in said


def test_a_format_without_a_word_keeps_metadata_and_protection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, sent = formatted(monkeypatch, Formattable(index=1, protection=2), None)

    assert sent == [1 | 2 << 5 | 1 << 9]


def test_a_drive_that_keeps_another_format_than_told_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(DeviceError, match=r"asked for LBA format 4096\+0, but it has 512\+0"):
        formatted(monkeypatch, Formattable(stubborn=True), LbaFormat(data=4096))


def test_a_format_that_is_not_offered_is_never_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    drive = Formattable()

    with pytest.raises(DeviceError, match=r"no LBA format 1024\+0"):
        formatted(monkeypatch, drive, LbaFormat(data=1024))

    assert drive.words == []
