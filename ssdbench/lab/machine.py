"""Describe the hardware of a guest, and make the QEMU command line for it; start nothing."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ssdbench.host.names import Reader, written


class Bus(StrEnum):
    """How a disk is connected in the guest."""

    NVME = "nvme"
    AHCI = "ahci"
    VIRTIO = "virtio"
    SCSI = "scsi"


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk of the guest, whose data are in a simulated drive, a file or QEMU's null device."""

    bus: Bus
    serial: str
    nbd_socket: Path | None = None  # socket of a simulated drive's NBD server
    image: Path | None = None  # file with the data of the disk
    null_bytes: int | None = None  # size of QEMU's null device
    fail_read_sector: int | None = None  # reads of this sector fail (blkdebug; file only)
    io_queues: int | None = None  # NVMe; with fewer queues than CPUs, interrupts can be moved
    zone_bytes: int | None = None  # for NVMe: makes a zoned namespace
    open_zones: int | None = None  # zones that may be open at the same time
    hotplug: bool = False
    ours: bool = True  # has no data of the user, so the guest may write it without --destroy


@dataclass(frozen=True, slots=True)
class Machine:
    """Everything that determines the QEMU command line; the lab sets its paths when it boots."""

    qemu: Path = Path()
    firmware: tuple[Path, ...] = ()
    kernel: Path = Path()
    initramfs: Path = Path()
    console: Path = Path()
    share_socket: Path = Path()
    control_socket: Path = Path()
    bell_socket: Path | None = None  # the guest gets a byte on it for each new command
    answer: Path | None = None  # disk for the output, instead of shared files
    disks: tuple[Disk, ...] = ()
    cpus: int = 2
    memory_mib: int = 2048
    nodes: int = 1  # NUMA nodes; CPUs and memory are divided evenly
    kvm: bool = False
    reproducible: bool = False
    append: str = ""  # more words for the kernel's command line
    multipath: bool = False  # put NVMe drives behind multipath heads, the default of distributions
    devices: tuple[str, ...] = ()  # more QEMU arguments


# Without no_timer_check, the kernel panics if a busy host delays a CPU during the timer check.
_ALWAYS = "console=ttyS0 panic=-1 oops=panic net.ifnames=0 no_timer_check"
# loglevel=5 prints warnings on the console, so that they are seen even if the guest hangs
# afterwards. log_buf_len makes room for 20,000 messages. Without notests, an emulated CPU spends a
# second on self-tests of ciphers.
_TELLING = "loglevel=5 log_buf_len=4M cryptomgr.notests"
# Kernel options for QEMU's -icount, where each instruction takes 2 ns of guest time, whatever the
# speed of the host.
_REPRODUCIBLE = "loglevel=4 nokaslr norandmaps tsc=reliable"
# When a guest's CPU halts, QEMU's main thread moves the guest's clock to the next timer, sometimes
# before the CPU's own thread has counted its instructions. With idle=poll, an idle CPU never halts.
_NO_HALT = "idle=poll"
# virtiofsd writes to pages of the guest, and QEMU's emulated CPU may not notice that code in them
# has changed. It notices the change if the guest clears each page when it allocates the page
# (init_on_alloc=1, which is also Debian's default).
_SHARED = "init_on_alloc=1"
_FIRMWARE = ("-bios", "qboot.rom")  # qboot, unlike SeaBIOS, does not halt the CPU
ANSWER_SERIAL = "ssdbench-answer"


def arguments(machine: Machine) -> list[str]:
    """Return the QEMU command line; `reproducible`: one CPU, whose clock counts instructions."""
    accelerator = "kvm" if machine.kvm and not machine.reproducible else "tcg"
    cpu = "host" if accelerator == "kvm" else "max,la57=off"
    cpus = 1 if machine.reproducible else machine.cpus
    # The kernel expects one CPU package for each NUMA node.
    packages = str(cpus) if machine.nodes == 1 else f"{cpus},sockets={machine.nodes}"
    fixed = _TELLING
    if machine.reproducible:
        fixed = f"{_REPRODUCIBLE} {_NO_HALT}" if machine.answer else _REPRODUCIBLE
    # A multipath head has no request queue, so its I/O scheduler could not be tested.
    heads = f"nvme_core.multipath={'Y' if machine.multipath else 'N'}"
    shared = (_SHARED, heads) if machine.answer is None else ()
    boot = [_ALWAYS, fixed, *shared, machine.append]
    argv = [
        str(machine.qemu),
        "-machine", "q35", "-accel", accelerator, "-cpu", cpu, "-smp", packages,
        "-m", f"{machine.memory_mib}M",
        *_nodes(machine, cpus),
        "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        "-kernel", str(machine.kernel), "-initrd", str(machine.initramfs),
        "-append", " ".join(part for part in boot if part),
        # `-serial file:PATH` does not accept an escaped comma in the path.
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
        node = f"disk{index}"
        argv += [*_backend(node, disk), *_front(index, node, disk)]
    return [*argv, *machine.devices]


def _name(name: Path | str | None) -> str:
    return written(Reader.QEMU, str(name))


def _way_out(machine: Machine) -> list[str]:
    """Return QEMU's device for the output: a shared file system, or else a disk.

    The disk is written only after the command has ended, so it does not change the instruction
    count. A shared file system would change the count, because it exchanges messages with the host
    during boot.
    """
    if machine.answer is None:
        return ["-chardev", f"socket,id=share,path={_name(machine.share_socket)}",
                "-device", "vhost-user-fs-pci,chardev=share,tag=host"]  # fmt: skip
    return ["-blockdev", f"driver=file,filename={_name(machine.answer)},node-name=answer",
            "-device", f"virtio-blk-pci,drive=answer,serial={ANSWER_SERIAL}"]  # fmt: skip


def _nodes(machine: Machine, cpus: int) -> list[str]:
    """Return the options for NUMA nodes: their CPUs, and memory shared as virtiofs needs."""
    argv = []
    for node in range(machine.nodes):
        own = range(node * cpus // machine.nodes, (node + 1) * cpus // machine.nodes)
        size = machine.memory_mib // machine.nodes
        argv += ["-object", f"memory-backend-memfd,id=mem{node},size={size}M,share=on"]
        argv += ["-numa", f"node,memdev=mem{node},cpus={own[0]}-{own[-1]}"]
    return argv


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
