"""Send SCSI commands through SG_IO, and ATA commands inside SCSI commands; no decoding.

`ssdbench.target` decodes the pages. This module also has the commands of ATA security (ACS-4, 4.18
and 7.37 to 7.42). The password is the same for all drives and is not secret: an erase needs a
password, and if a crash leaves a drive locked, the user must be able to unlock it.
"""

import ctypes
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ssdbench.errors import DeviceError
from ssdbench.host import blockdev

SG_IO = 0x2285  # <scsi/sg.h>
_NO_DATA, _TO_DEVICE, _FROM_DEVICE = -1, -2, -3
DEFAULT_TIMEOUT_MS = 20_000
BRIDGE_TIMEOUT_MS = 5_000
# USB ids of bridges to NVMe drives. Each maker has its own commands, which smartmontools documents
# in its code (scsinvme.cpp, and the USB entries of drivedb.h).
_ASMEDIA = ("174c:2362", "174c:2364", "174c:2365")
_REALTEK = ("0bda:9210", "0bda:9211", "0bda:9220", "0bda:9221")
_JMICRON = ("152d:0562", "152d:0583", "152d:0586", "152d:a583")
_NVME_PAGES = {0x02: 512, 0x06: 4096}  # size of the answers of get log page and identify, in bytes
_JMICRON_SIGNATURE = b"NVME"

# ATA PASS-THROUGH (16), SAT-4 12.2.2
_PASS_THROUGH = 0x85
_PASS_THROUGH_12 = 0xA1  # ATA PASS-THROUGH (12), SAT-4 12.2.1
_PIO_IN, _PIO_OUT, _NON_DATA = 4 << 1, 5 << 1, 3 << 1
_SECTORS_IN_COUNT = 0x02
_IN_BLOCKS = 0x04
_FROM_DRIVE = 0x08
_ASK_REGISTERS = 0x20


class _Header(ctypes.Structure):
    _fields_ = (
        ("interface_id", ctypes.c_int),
        ("dxfer_direction", ctypes.c_int),
        ("cmd_len", ctypes.c_ubyte),
        ("mx_sb_len", ctypes.c_ubyte),
        ("iovec_count", ctypes.c_ushort),
        ("dxfer_len", ctypes.c_uint),
        ("dxferp", ctypes.c_void_p),
        ("cmdp", ctypes.c_void_p),
        ("sbp", ctypes.c_void_p),
        ("timeout", ctypes.c_uint),
        ("flags", ctypes.c_uint),
        ("pack_id", ctypes.c_int),
        ("usr_ptr", ctypes.c_void_p),
        ("status", ctypes.c_ubyte),
        ("masked_status", ctypes.c_ubyte),
        ("msg_status", ctypes.c_ubyte),
        ("sb_len_wr", ctypes.c_ubyte),
        ("host_status", ctypes.c_ushort),
        ("driver_status", ctypes.c_ushort),
        ("resid", ctypes.c_int),
        ("duration", ctypes.c_uint),
        ("info", ctypes.c_uint),
    )


class ScsiRefused(DeviceError):
    """The drive completed a command with an error."""

    def __init__(self, opcode: int, status: int, sense: bytes) -> None:
        super().__init__(
            f"the drive refused SCSI command {opcode:#04x} (status {status:#04x}, "
            f"sense {sense[:18].hex() or 'none'})"
        )
        self.status = status
        self.sense = sense


@dataclass(frozen=True, slots=True)
class Reply:
    """The data that a command returned, and the sense bytes, which also return ATA registers."""

    data: bytes
    sense: bytes
    status: int


@dataclass(frozen=True, slots=True)
class AtaCommand:
    """The registers of an ATA command, and how many sectors of 512 bytes it transfers."""

    command: int
    feature: int = 0
    count: int = 0
    lba: int = 0
    extended: bool = False
    reads_sectors: int = 0
    data: bytes = b""
    registers: bool = False  # return the ATA registers after the command
    short: bool = False  # send it as a command of 12 bytes, which has no `extended`
    timeout_ms: int = DEFAULT_TIMEOUT_MS

    def block(self) -> bytes:
        """Return the bytes of the SCSI command (its command descriptor block, SAT-4)."""
        sectors = self.reads_sectors or len(self.data) // 512
        protocol = _PIO_IN if self.reads_sectors else _PIO_OUT if self.data else _NON_DATA
        flags = _IN_BLOCKS | _SECTORS_IN_COUNT if sectors else 0
        flags |= _FROM_DRIVE if self.reads_sectors else 0
        flags |= _ASK_REGISTERS if self.registers else 0
        count = sectors or self.count
        lba = self.lba.to_bytes(6, "little")
        if self.short:
            return bytes(
                [
                    _PASS_THROUGH_12, protocol, flags, self.feature & 0xFF, count & 0xFF,
                    lba[0], lba[1], lba[2], 0x40, self.command, 0, 0,
                ]
            )  # fmt: skip
        return bytes(
            [
                _PASS_THROUGH, protocol | self.extended, flags,
                self.feature >> 8, self.feature & 0xFF, count >> 8, count & 0xFF,
                lba[3], lba[0], lba[4], lba[1], lba[5], lba[2],
                0x40, self.command, 0,
            ]
        )  # fmt: skip


class Scsi:
    """Send commands to an open disk node."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def command(
        self,
        block: bytes,
        *,
        reads_bytes: int = 0,
        data: bytes = b"",
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
        registers: bool = False,
    ) -> Reply:
        """Send a command descriptor block. Raises ScsiRefused, DeviceError.

        With `registers`, the status "check condition" is not an error, because it returns the ATA
        registers.
        """
        size = max(reads_bytes, len(data))
        buffer = ctypes.create_string_buffer(data, size) if size else None
        sent = ctypes.create_string_buffer(block, len(block))
        sense = ctypes.create_string_buffer(64)
        direction = _FROM_DEVICE if reads_bytes else _TO_DEVICE if data else _NO_DATA
        header = _Header(
            interface_id=ord("S"),
            dxfer_direction=direction,
            cmd_len=len(block),
            mx_sb_len=len(sense),
            dxfer_len=size,
            dxferp=ctypes.addressof(buffer) if buffer else None,
            cmdp=ctypes.addressof(sent),
            sbp=ctypes.addressof(sense),
            timeout=timeout_ms,
        )
        try:
            fcntl.ioctl(self._descriptor, SG_IO, header)
        except OSError as error:
            raise DeviceError(f"SCSI command {block[0]:#04x} failed: {error.strerror}") from error
        said = sense.raw[: header.sb_len_wr]
        if header.host_status or (header.status and not registers):
            raise ScsiRefused(block[0], header.status or header.host_status, said)
        moved = size - max(header.resid, 0)
        answer = buffer.raw[:moved] if buffer and reads_bytes else b""
        return Reply(answer, said, header.status)

    def ata(self, command: AtaCommand) -> Reply:
        """Send an ATA command through the bridge. Raises ScsiRefused, DeviceError."""
        return self.command(
            command.block(),
            reads_bytes=512 * command.reads_sectors,
            data=command.data,
            timeout_ms=command.timeout_ms,
            registers=command.registers,
        )

    def nvme_behind(self, ids: str, opcode: int, dword_10: int) -> bytes:
        """Return the answer of an NVMe drive behind a USB bridge to identify or get log page.

        `ids` are the USB ids of the bridge; `dword_10` is the identify structure or the log number.
        Raises ScsiRefused, and DeviceError for an unknown bridge.
        """
        size = _NVME_PAGES[opcode]
        dwords = (size // 4 - 1) << 16 if opcode == 0x02 else 0
        if ids in _ASMEDIA:
            block = bytes(
                [0xE6, opcode, 0, dword_10 & 0xFF, 0, 0, 0, dwords >> 16 & 0xFF, *bytes(8)]
            )
            return self.command(block, reads_bytes=size, timeout_ms=BRIDGE_TIMEOUT_MS).data
        if ids in _REALTEK:
            block = bytes([0xE4, size & 0xFF, size >> 8, opcode, dword_10 & 0xFF, *bytes(11)])
            return self.command(block, reads_bytes=size, timeout_ms=BRIDGE_TIMEOUT_MS).data
        if ids in _JMICRON:
            return self._jmicron(opcode, dword_10 | dwords, size)
        raise DeviceError(
            f"ssdbench does not know how the USB bridge {ids} passes NVMe commands on"
        )

    def _jmicron(self, opcode: int, dword_10: int, size: int) -> bytes:
        """Send a command to a JMicron bridge in three blocks: the command, its data and its end."""
        nsid = 0xFFFFFFFF if opcode == 0x02 else 0 if dword_10 == 1 else 1
        signature = int.from_bytes(_JMICRON_SIGNATURE, "little")
        words = {0: signature, 2: opcode, 3: nsid, 12: dword_10}
        told = b"".join(words.get(at, 0).to_bytes(4, "little") for at in range(128))

        def block(step: int, length: int) -> bytes:
            return bytes([_PASS_THROUGH_12, 0x80 | step, 0, *length.to_bytes(3, "big"), *bytes(6)])

        timeout_ms = BRIDGE_TIMEOUT_MS
        self.command(block(0x0, 512), data=told, timeout_ms=timeout_ms)
        data = self.command(block(0x2, size), reads_bytes=size, timeout_ms=timeout_ms).data
        end = self.command(block(0xF, 512), reads_bytes=512, timeout_ms=timeout_ms).data
        status = int.from_bytes(end[20:24], "little") >> 17
        if end[:4] != _JMICRON_SIGNATURE or status:
            raise DeviceError(
                f"the drive behind the USB bridge refused {opcode:#04x} ({status:#x})"
            )
        return data

    def vital_page(self, page: int) -> bytes:
        """Return a page of vital product data (VPD) of the drive."""
        return self.command(bytes([0x12, 1, page, 0, 255, 0]), reads_bytes=255).data


@contextmanager
def opened(node: Path, *, writes: bool = False) -> Iterator[Scsi]:
    """Open a disk node, read-only unless `writes`. Raises HostLacks, DeviceError."""
    with blockdev.opened(node, os.O_RDWR if writes else os.O_RDONLY) as descriptor:
        yield Scsi(descriptor)


ATA_PASSWORD = "ssdbench"  # not a secret: see the start of this module
SECURITY_WORD = 128  # number of the word in IDENTIFY DEVICE
ATA_SECURITY_ENABLED, LOCKED, FROZEN = 1 << 1, 1 << 2, 1 << 3
_SET_PASSWORD, _UNLOCK, _ERASE_PREPARE = 0xF1, 0xF2, 0xF3
_ERASE_UNIT, _DISABLE_PASSWORD = 0xF4, 0xF6
_USER, _ENHANCED = 0, 1 << 1  # bits of word 0: which password, and which erase
LEAST_TIMEOUT_MS = 600_000
UNKNOWN_TIMEOUT_MS = 12 * 3_600_000  # for a drive that estimates no time


def ata_security_word(disk: Scsi) -> int:
    """Return word 128 of IDENTIFY DEVICE: the current security state. Raises DeviceError."""
    page = disk.ata(AtaCommand(0xEC, reads_sectors=1)).data
    return int.from_bytes(page[2 * SECURITY_WORD : 2 * SECURITY_WORD + 2], "little")


def set_ata_password(disk: Scsi) -> None:
    """Set the user password of a drive; its master password can still unlock it."""
    disk.ata(AtaCommand(_SET_PASSWORD, data=_with_password(_USER)))


def ata_erase(disk: Scsi, *, enhanced: bool, minutes: int) -> None:
    """Erase all data and the password of a drive; `minutes` is the drive's own estimate."""
    timeout_ms = max(LEAST_TIMEOUT_MS, 2 * 60_000 * minutes) if minutes else UNKNOWN_TIMEOUT_MS
    control = _USER | (_ENHANCED if enhanced else 0)
    disk.ata(AtaCommand(_ERASE_PREPARE))
    disk.ata(AtaCommand(_ERASE_UNIT, data=_with_password(control), timeout_ms=timeout_ms))


def ata_unlock(disk: Scsi) -> None:
    """Unlock a locked drive, and remove the password. Raises DeviceError."""
    if ata_security_word(disk) & LOCKED:
        disk.ata(AtaCommand(_UNLOCK, data=_with_password(_USER)))
    if ata_security_word(disk) & ATA_SECURITY_ENABLED:
        disk.ata(AtaCommand(_DISABLE_PASSWORD, data=_with_password(_USER)))


def _with_password(control: int) -> bytes:
    return (control.to_bytes(2, "little") + ATA_PASSWORD.encode().ljust(32, b"\0")).ljust(
        512, b"\0"
    )
