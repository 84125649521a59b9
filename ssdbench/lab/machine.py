"""Describe a guest as a value, and make the QEMU command line for it (pure)."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ssdbench.host.names import Reader, written


class Bus(StrEnum):
    """How the guest sees a disk."""

    NVME = "nvme"
    AHCI = "ahci"
    VIRTIO = "virtio"
    SCSI = "scsi"


@dataclass(frozen=True, slots=True)
class Disk:
    """One disk of the guest; `serial` is how consent inside the guest knows it, where `ours`."""

    bus: Bus
    serial: str
    nbd_socket: Path | None = None  # a simulated drive behind the NBD server
    image: Path | None = None  # a file
    null_bytes: int | None = None  # QEMU's null device
    fail_read_sector: int | None = None  # inject a read error there (blkdebug; file only)
    io_queues: int | None = None  # NVMe: fewer queues than CPUs leave interrupts movable
    zone_bytes: int | None = None  # NVMe: a zoned namespace
    open_zones: int | None = None  # of them, open at once
    hotplug: bool = False
    ours: bool = True  # holds nothing of the user's: consent inside the guest is implied


@dataclass(frozen=True, slots=True)
class Machine:
    """Everything that the command line is made from."""

    qemu: Path
    firmware: tuple[Path, ...]
    kernel: Path
    initramfs: Path
    console: Path
    share_socket: Path
    control_socket: Path
    bell_socket: Path | None = None  # rung for each command after the first
    answer: Path | None = None  # a disk for what is said, in place of the host's shared files
    disks: tuple[Disk, ...] = ()
    cpus: int = 2
    memory_mib: int = 2048
    nodes: int = 1  # NUMA nodes, which share CPUs and memory evenly
    kvm: bool = False
    reproducible: bool = False
    append: str = ""
    multipath: bool = False  # NVMe drives behind multipath heads, as distributions have them
    devices: tuple[str, ...] = ()  # further arguments of QEMU, for what no disk option gives

    @classmethod
    def unbooted(cls) -> "Machine":
        """A machine whose files the lab fills in when it boots."""
        nowhere = Path()
        return cls(
            qemu=nowhere, firmware=(), kernel=nowhere, initramfs=nowhere, console=nowhere,
            share_socket=nowhere, control_socket=nowhere,
        )  # fmt: skip


# The timer check compares ticks with a counted loop, and panics where a busy host lets a CPU wait.
_ALWAYS = "console=ttyS0 panic=-1 oops=panic net.ifnames=0 no_timer_check"
# A WARNING is seen even in a guest that hangs afterwards, and after 20,000 refused values. The
# kernel's tests of its own ciphers take an emulated CPU a second.
_TELLING = "loglevel=5 log_buf_len=4M cryptomgr.notests"
# icount: one instruction is 2 ns of guest time, whatever the host does meanwhile.
_REPRODUCIBLE = "loglevel=4 nokaslr norandmaps tsc=reliable"
# Where a CPU halts, QEMU's main thread moves the clock on to the next timer, and may do so before
# the CPU's own thread has added the instructions that went before. A CPU that spins never asks.
_NO_HALT = "idle=poll"
# virtiofsd fills pages behind the back of an emulated CPU, which then goes on with what it had made
# of the code that was there. Cleared by the guest first, they are known to have changed. Debian's
# kernels do so by default.
_SHARED = "init_on_alloc=1"
_FIRMWARE = ("-bios", "qboot.rom")  # SeaBIOS halts while it waits, qboot does not
ANSWER_SERIAL = "ssdbench-answer"


def arguments(machine: Machine) -> list[str]:
    """The command line. With `reproducible`, time is counted in instructions on one CPU."""
    accelerator = "kvm" if machine.kvm and not machine.reproducible else "tcg"
    cpu = "host" if accelerator == "kvm" else "max,la57=off"
    cpus = 1 if machine.reproducible else machine.cpus
    # A multipath head is bio-based: without a queue there is no scheduler to test.
    heads = f"nvme_core.multipath={'Y' if machine.multipath else 'N'}"
    shared = (_SHARED, heads) if machine.answer is None else ()
    boot = [_ALWAYS, _fixed(machine), *shared, machine.append]
    argv = [
        str(machine.qemu),
        "-machine", "q35", "-accel", accelerator, "-cpu", cpu, "-smp", _packages(machine, cpus),
        "-m", f"{machine.memory_mib}M",
        *_nodes(machine, cpus),
        "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        "-kernel", str(machine.kernel), "-initrd", str(machine.initramfs),
        "-append", " ".join(part for part in boot if part),
        # Not `-serial file:PATH`, which knows no comma that is escaped.
        "-chardev", f"file,id=console,path={_name(machine.console)}", "-serial", "chardev:console",
        "-qmp", f"unix:{_name(machine.control_socket)},server=on,wait=off",
        *_way_out(machine),
    ]  # fmt: skip
    if machine.bell_socket is not None:
        argv += ["-serial", f"unix:{_name(machine.bell_socket)},server=on,wait=off"]
    for directory in machine.firmware:
        argv += ["-L", str(directory)]
    if machine.reproducible:
        argv += [
            *(_FIRMWARE if machine.answer else []),
            "-icount", "shift=1,sleep=off",
            "-rtc", "base=2025-01-01,clock=vm",
            "-seed", "1",
        ]  # fmt: skip
    if any(disk.bus is Bus.AHCI for disk in machine.disks):
        argv += ["-device", "ahci,id=ahci"]
    if any(disk.bus is Bus.SCSI for disk in machine.disks):
        argv += ["-device", "virtio-scsi-pci,id=scsi"]
    for index, disk in enumerate(machine.disks):
        argv += _disk(index, disk)
    return [*argv, *machine.devices]


def _name(name: Path | str | None) -> str:
    return written(Reader.QEMU, str(name))


def _fixed(machine: Machine) -> str:
    if not machine.reproducible:
        return _TELLING
    return f"{_REPRODUCIBLE} {_NO_HALT}" if machine.answer else _REPRODUCIBLE


def _way_out(machine: Machine) -> list[str]:
    """The host's shared files; or, for a guest that lives in memory, a disk that nothing touches
    before the command has ended: the driver of a shared file system talks to the host at boot.
    """
    if machine.answer is None:
        return ["-chardev", f"socket,id=share,path={_name(machine.share_socket)}",
                "-device", "vhost-user-fs-pci,chardev=share,tag=host"]  # fmt: skip
    return ["-blockdev", f"driver=file,filename={_name(machine.answer)},node-name=answer",
            "-device", f"virtio-blk-pci,drive=answer,serial={ANSWER_SERIAL}"]  # fmt: skip


def _packages(machine: Machine, cpus: int) -> str:
    """A package for each node: the kernel warns of one that lies on several."""
    return str(cpus) if machine.nodes == 1 else f"{cpus},sockets={machine.nodes}"


def _nodes(machine: Machine, cpus: int) -> list[str]:
    """Memory, which the shared file system needs to be shared, and the node of each CPU."""
    argv = []
    for node in range(machine.nodes):
        own = range(node * cpus // machine.nodes, (node + 1) * cpus // machine.nodes)
        size = machine.memory_mib // machine.nodes
        argv += ["-object", f"memory-backend-memfd,id=mem{node},size={size}M,share=on"]
        argv += ["-numa", f"node,memdev=mem{node},cpus={own[0]}-{own[-1]}"]
    return argv


def _disk(index: int, disk: Disk) -> list[str]:
    node = f"disk{index}"
    return [*_backend(node, disk), *_front(index, node, disk)]


def _backend(node: str, disk: Disk) -> list[str]:
    if disk.nbd_socket is not None:
        return ["-blockdev", f"driver=nbd,server.type=unix,server.path={_name(disk.nbd_socket)},"
                f"node-name={node},discard=unmap"]  # fmt: skip
    if disk.null_bytes is not None:
        return ["-blockdev", f"driver=null-co,size={disk.null_bytes},read-zeroes=on,"
                f"node-name={node}"]  # fmt: skip
    file = f"driver=file,filename={_name(disk.image)},discard=unmap"
    if disk.fail_read_sector is None:
        return ["-blockdev", f"{file},node-name={node}"]
    return [
        "-blockdev", f"{file},node-name={node}f",
        "-blockdev", f"driver=blkdebug,node-name={node},image={node}f,"
        "inject-error.0.event=none,inject-error.0.iotype=read,inject-error.0.errno=5,"
        f"inject-error.0.sector={disk.fail_read_sector},inject-error.0.once=off",
    ]  # fmt: skip


def _front(index: int, node: str, disk: Disk) -> list[str]:
    port: list[str] = []
    bus = ""
    if disk.hotplug:
        port = ["-device", f"pcie-root-port,id=port{index},slot={index + 1},chassis={index + 1}"]
        bus = f",bus=port{index}"
    name = f"drive={node},serial={_name(disk.serial)},id=dev{index}"
    match disk.bus:
        case Bus.NVME:
            queues = f",max_ioqpairs={disk.io_queues}" if disk.io_queues else ""
            if disk.zone_bytes is None:
                return [*port, "-device", f"nvme,{name}{queues}{bus}"]
            limit = f",zoned.max_open={disk.open_zones}" if disk.open_zones else ""
            return [
                "-device", f"nvme,serial={_name(disk.serial)},id=dev{index}{queues}",
                "-device", f"nvme-ns,drive={node},bus=dev{index},nsid=1,shared=off,zoned=on,"
                f"zoned.zone_size={disk.zone_bytes}{limit}",
            ]  # fmt: skip
        case Bus.AHCI:
            return ["-device", f"ide-hd,{name},bus=ahci.{index}"]
        case Bus.VIRTIO:
            return [*port, "-device", f"virtio-blk-pci,{name}{bus}"]
        case Bus.SCSI:
            return ["-device", f"scsi-hd,{name},bus=scsi.0"]
