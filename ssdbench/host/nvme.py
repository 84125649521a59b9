"""Send NVMe commands to the kernel as bytes; `ssdbench.target` decodes the answers."""

import ctypes
import fcntl
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ssdbench.errors import DeviceError, DeviceLost, HostLacks
from ssdbench.host import blockdev
from ssdbench.host.sysfs import Sysfs

# <linux/nvme_ioctl.h>
NVME_IOCTL_ID = 0x4E40
NVME_IOCTL_ADMIN_CMD = 0xC0484E41
NVME_IOCTL_IO_CMD = 0xC0484E43

GET_LOG_PAGE = 0x02
IDENTIFY = 0x06
SET_FEATURES = 0x09
GET_FEATURES = 0x0A
FORMAT = 0x80
SECURITY_RECEIVE = 0x82
SANITIZE = 0x84
RESERVATION_REPORT = 0x0E

# OCP Datacenter NVMe SSD Specification: log C3h and feature C5h, as in nvme-cli's plugins/ocp.
MONITOR_GUID = bytes.fromhex("927ac08cd0846c9c7043e6d4585ed485")
MONITOR_LOG, MONITOR_FEATURE, MONITOR_BYTES = 0xC3, 0xC5, 512

DEFAULT_TIMEOUT_MS = 10_000
ALL = 0xFFFFFFFF  # all namespaces
_GENERIC = "/sys/class/nvme-generic"


class _Passthrough(ctypes.Structure):
    _fields_ = (
        ("opcode", ctypes.c_uint8),
        ("flags", ctypes.c_uint8),
        ("reserved", ctypes.c_uint16),
        ("nsid", ctypes.c_uint32),
        ("cdw2", ctypes.c_uint32),
        ("cdw3", ctypes.c_uint32),
        ("metadata", ctypes.c_uint64),
        ("address", ctypes.c_uint64),
        ("metadata_len", ctypes.c_uint32),
        ("data_len", ctypes.c_uint32),
        ("cdw", ctypes.c_uint32 * 6),  # cdw10 to cdw15
        ("timeout_ms", ctypes.c_uint32),
        ("result", ctypes.c_uint32),
    )


@dataclass(frozen=True, slots=True)
class Command:
    """One NVMe command, with the `data` that it sends and the `reads_bytes` that it returns."""

    opcode: int
    nsid: int = 0
    cdw10: int = 0
    cdw11: int = 0
    reads_bytes: int = 0
    data: bytes = b""
    timeout_ms: int = DEFAULT_TIMEOUT_MS


@dataclass(frozen=True, slots=True)
class Reply:
    """The drive's answer to a command: the data, and dword 0 of the completion."""

    data: bytes
    result: int


class NvmeRefused(DeviceError):
    """The drive completed a command with an error status."""

    def __init__(self, opcode: int, status: int) -> None:
        kind, code = status >> 8 & 7, status & 0xFF
        super().__init__(
            f"the drive refused NVMe command {opcode:#04x} (status type {kind}, code {code:#04x})"
        )
        self.status = status


class Nvme:
    """An open node of a controller or namespace, to which commands are sent."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def nsid(self) -> int:
        """Return the number of the namespace that the node belongs to. Raises DeviceError."""
        try:
            return fcntl.ioctl(self._descriptor, NVME_IOCTL_ID)
        except OSError as error:
            raise DeviceError(
                f"the drive does not report its namespace: {error.strerror}"
            ) from error

    def admin(self, command: Command) -> Reply:
        """Send an admin command. Raises NvmeRefused, DeviceError."""
        return self._send(NVME_IOCTL_ADMIN_CMD, command)

    def io(self, command: Command) -> Reply:
        """Send a command of the I/O command set. Raises NvmeRefused, DeviceError."""
        return self._send(NVME_IOCTL_IO_CMD, command)

    def identify(self, structure: int, *, nsid: int = 0) -> bytes:
        """Return the 4096 bytes of an identify structure (CNS)."""
        return self.admin(Command(IDENTIFY, nsid, cdw10=structure, reads_bytes=4096)).data

    def log_page(self, page: int, size_bytes: int) -> bytes:
        """Return the first bytes of a log page; asynchronous events are not cleared."""
        dwords = size_bytes // 4 - 1
        retain = 1 << 15
        cdw10 = page | retain | (dwords & 0xFFFF) << 16
        command = Command(
            GET_LOG_PAGE, ALL, cdw10=cdw10, cdw11=dwords >> 16, reads_bytes=size_bytes
        )
        return self.admin(command).data

    def feature(self, feature: int, *, dword_11: int = 0, reads_bytes: int = 0) -> Reply:
        """Return the current value of a feature."""
        return self.admin(
            Command(GET_FEATURES, cdw10=feature, cdw11=dword_11, reads_bytes=reads_bytes)
        )

    def set_feature(self, feature: int, value: int, *, nsid: int = 0, data: bytes = b"") -> None:
        """Set a feature of the drive until its next reset, without saving it permanently."""
        self.admin(Command(SET_FEATURES, nsid, cdw10=feature, cdw11=value, data=data))

    def _send(self, request: int, command: Command) -> Reply:
        size = max(command.reads_bytes, len(command.data))
        buffer = ctypes.create_string_buffer(command.data, size) if size else None
        sent = _Passthrough(
            opcode=command.opcode,
            nsid=command.nsid,
            address=ctypes.addressof(buffer) if buffer else 0,
            data_len=size,
            timeout_ms=command.timeout_ms,
        )
        sent.cdw[0], sent.cdw[1] = command.cdw10, command.cdw11
        try:
            status = fcntl.ioctl(self._descriptor, request, sent)
        except OSError as error:
            what = f"NVMe command {command.opcode:#04x} failed"
            raise DeviceError(f"{what}: {error.strerror}") from error
        if status:
            raise NvmeRefused(command.opcode, status)
        return Reply(buffer.raw[: command.reads_bytes] if buffer else b"", int(sent.result))


@contextmanager
def opened(node: Path) -> Iterator[Nvme]:
    """Open a node for read access. Raises HostLacks, DeviceError."""
    with blockdev.opened(node) as descriptor:
        yield Nvme(descriptor)


def generic_node(kernel_name: str, sysfs: Sysfs | None = None) -> Path | None:
    """Return a namespace's generic node (/dev/ng0n1 of nvme0n1); None if it has no such node."""
    sysfs = sysfs or Sysfs()
    if not re.fullmatch(r"nvme\d+n\d+", kernel_name):
        return None
    name = kernel_name.replace("nvme", "ng", 1)
    hangs_on = [
        sysfs.path(f"{place}/device").resolve()
        for place in (f"{_GENERIC}/{name}", f"/sys/block/{kernel_name}")
    ]
    node = Path("/dev") / name
    there = sysfs.exists(f"{_GENERIC}/{name}/device") and sysfs.exists(str(node))
    return node if there and hangs_on[0] == hangs_on[1] else None


@contextmanager
def generic(node: Path, claim_fd: int) -> Iterator[int]:
    """Open, for reading and writing, the generic node of the namespace that was claimed.

    `claim_fd` is the claimed block node. Raises HostLacks when the generic node is missing,
    DeviceLost when it belongs to another namespace, and DeviceError.
    """
    name = Path(os.path.realpath(node)).name
    path = generic_node(name)
    if path is None:
        raise HostLacks(
            f"{node} has no generic node (/dev/ng…), which NVMe passthrough needs",
            hint="Use Linux 5.13 or newer, or give the container this node.",
        )
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise HostLacks(f"{path} cannot be opened: {error.strerror}", hint="run as root") from error
    try:
        status = os.fstat(descriptor)
        number = Sysfs().find(f"{_GENERIC}/{path.name}/dev")
        ours = stat.S_ISCHR(status.st_mode) and blockdev.major_minor(status.st_rdev) == number
        if not ours or Nvme(descriptor).nsid() != Nvme(claim_fd).nsid():
            raise DeviceLost(f"{path} belongs to another namespace than the claimed {node}")
        yield descriptor
    finally:
        os.close(descriptor)
