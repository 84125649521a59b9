"""Who uses a block device, read from a host that is made of files."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ssdbench.host import extents, usage
from ssdbench.host.extents import target
from ssdbench.host.loops import Backing
from ssdbench.host.procfs import Mount, OneLookProcfs, Procfs, Wanted
from ssdbench.host.sysfs import Sysfs
from ssdbench.host.usage import BlockUsage

NEVER = "259:77"  # no device of this host
BTRFS = "/sys/fs/btrfs/5ad0/devices"


class Host:
    """A host with one disk, sdx, of the number NEVER."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.put("/sys/class/block/sdx/dev", NEVER)
        self.put("/sys/block/sdx/size", "8")
        self.put("/proc/self/mountinfo", "21 1 8:1 / /home rw - ext4 /dev/sda1 rw\n")

    def put(self, path: str, text: str = "") -> None:
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def process(self, pid: int, namespace: str, mountinfo: str) -> None:
        self.put(f"/proc/{pid}/mountinfo", mountinfo)
        link = self.root / f"proc/{pid}/ns/mnt"
        link.parent.mkdir()
        link.symlink_to(namespace)

    @property
    def usage(self) -> BlockUsage:
        return BlockUsage("sdx", sysfs=Sysfs(self.root), procfs=Procfs(self.root))


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_an_idle_disk_has_no_users(host: Host) -> None:
    used = host.usage

    assert (used.holders(), used.users(), used.mounts(), used.openers()) == ([], [], [], [])


def test_what_lies_on_another_path_to_the_same_drive_lies_on_the_drive(host: Host) -> None:
    host.put("/sys/class/block/sdy/dev", "259:79")
    host.put("/sys/class/block/sdy/holders/dm-4")
    host.put("/sys/class/block/dm-4/dev", "253:4")
    host.put("/proc/self/mountinfo", "21 1 253:4 / /data rw - ext4 /dev/mapper/x rw\n")
    alone = host.usage
    paths = {"sdx": ["sdy"], "sdy": ["sdx"]}
    both = BlockUsage(
        "sdx",
        sysfs=Sysfs(host.root),
        procfs=Procfs(host.root),
        twins=lambda name: paths.get(name, []),
    )

    assert (alone.holders(), alone.mounts()) == ([], [])
    assert both.holders() == ["dm-4"]
    assert [mount.mount_point for mount in both.mounts()] == ["/data"]


def test_a_mount_that_only_a_container_sees_is_found(host: Host) -> None:
    host.process(7, "mnt:[1]", f"30 1 {NEVER} / /data rw - ext4 /dev/sdx rw\n")

    (mount,) = host.usage.mounts()

    assert (mount.mount_point, mount.seen_by) == ("/data", 7)


def test_a_mount_that_everybody_sees_is_found_once(host: Host) -> None:
    line = f"30 1 {NEVER} / /data rw - ext4 /dev/sdx rw\n"
    host.put("/proc/self/mountinfo", line)
    host.process(7, "mnt:[1]", line)
    host.process(8, "mnt:[2]", line)

    (mount,) = host.usage.mounts()

    assert mount.seen_by == 0


@pytest.mark.parametrize("seen_by", [0, 7])
def test_a_file_behind_a_loop_device_that_is_mounted_without_it_is_found(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen_by: int
) -> None:
    """EROFS is mounted from a file; here by ours, or by a process whose root is another."""
    image = tmp_path / "an image"
    image.touch()
    at = image.stat()
    monkeypatch.setattr(usage, "behind", lambda name, **_: Backing((at.st_dev, at.st_ino)))
    monkeypatch.setattr(usage, "loops_over", lambda wanted, **_: [])
    assert host.usage.mounts() == []

    source = "/an\\040image" if seen_by else f"{tmp_path}/an\\040image"
    line = f"30 1 0:39 / /data ro - erofs {source} ro\n"
    if seen_by:
        host.process(seen_by, "mnt:[1]", line)
        (host.root / f"proc/{seen_by}/root").symlink_to(tmp_path)
    else:
        host.put("/proc/self/mountinfo", line)

    (mount,) = host.usage.mounts()
    assert (mount.mount_point, mount.seen_by) == ("/data", seen_by)


def test_who_has_a_drive_open_cannot_be_told_in_a_container(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace = host.root / "proc/self/ns/pid"
    namespace.parent.mkdir()
    namespace.symlink_to("pid:[4026531836]")
    assert host.usage.openers() == []

    namespace.unlink()
    namespace.symlink_to("pid:[4026532305]")
    with pytest.raises(OSError, match="does not show the processes outside"):
        host.usage.openers()

    host.put("/sys/class/block/loop7/dev", "7:7")  # over a file of the container's own
    monkeypatch.setattr(usage, "behind", lambda name, **_: Backing((1, 2)))
    over_a_file = BlockUsage("loop7", sysfs=Sysfs(host.root), procfs=Procfs(host.root))
    assert over_a_file.openers() == []


def test_the_running_system_is_found_through_a_partition(host: Host) -> None:
    host.put("/sys/block/sdx/sdx1/partition", "1")
    host.put("/sys/class/block/sdx/sdx1/partition", "1")
    host.put("/sys/class/block/sdx1/dev", "259:78")
    host.put("/proc/self/mountinfo", "21 1 259:78 / / rw - ext4 /dev/root rw\n")

    assert host.usage.holds_system()


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (f"{BTRFS}/sdx", "mounted btrfs file system 5ad0"),
        ("/sys/class/block/sdx/bcache/state", "bcache has /dev/sdx registered"),
    ],
)
def test_what_has_no_holder_is_named(host: Host, path: str, said: str) -> None:
    host.put(path)

    (user,) = host.usage.users()

    assert said in user


def test_a_mapping_is_judged_by_what_uses_the_drive_below_it(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """dm-0 on a partition of sdx, and a mounted loop device over all of sdx."""

    def loops_over(wanted: Backing, **_: object) -> list[str]:
        return ["loop7"] if wanted.device == NEVER else []

    monkeypatch.setattr(usage, "loops_over", loops_over)
    for name, number in (("dm-0", "253:0"), ("sdx1", "259:78"), ("loop7", "7:7")):
        host.put(f"/sys/class/block/{name}/dev", number)
    host.put("/sys/class/block/dm-0/slaves/sdx1")
    host.put("/sys/devices/sdx/sdx1/partition", "1")
    host.put("/sys/devices/sdx/sdx1/dev", "259:78")
    shutil.rmtree(host.root / "sys/class/block/sdx1")
    (host.root / "sys/class/block/sdx1").symlink_to("../../devices/sdx/sdx1")
    host.put("/proc/self/mountinfo", "21 1 7:7 / /data rw - ext4 /dev/loop7 rw\n")
    mapping = BlockUsage("dm-0", sysfs=Sysfs(host.root), procfs=Procfs(host.root))

    over = {"loop7": Backing((0, 0), device=NEVER)}
    monkeypatch.setattr(extents, "behind", lambda name, **_: over.get(name))
    (host.root / "sys/dev/block").mkdir(parents=True)
    (host.root / "sys/dev/block" / NEVER).symlink_to("../../class/block/sdx")

    assert mapping.lower() == ["sdx", "sdx1"]
    assert mapping.beside() == ["loop7"]
    assert [mount.mount_point for mount in mapping.mounts()] == ["/data"]


def test_another_volume_on_the_same_drive_is_no_reason(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = {
        "253:0": [target(0, 8, "linear", f"{NEVER} 0")],
        "253:1": [target(0, 8, "linear", f"{NEVER} 8")],
    }
    monkeypatch.setattr(extents, "tables", lambda number, **_: tables[number])
    for name, number in (("dm-0", "253:0"), ("dm-1", "253:1")):
        host.put(f"/sys/class/block/{name}/dev", number)
        host.put(f"/sys/class/block/{name}/slaves/sdx")
        host.put(f"/sys/class/block/sdx/holders/{name}")
    host.put("/proc/self/mountinfo", "21 1 253:1 / / rw - ext4 /dev/mapper/root rw\n")
    mapping = BlockUsage("dm-0", sysfs=Sysfs(host.root), procfs=Procfs(host.root))

    assert (mapping.beside(), mapping.mounts(), mapping.holds_system()) == ([], [], False)


NVMET = "/sys/kernel/config/nvmet/subsystems/s"
LIO = "/sys/kernel/config/target/core"
GADGET = "/sys/kernel/config/usb_gadget/g/functions/mass_storage.0/lun.0"
GONE = "/dev/disk-that-is-gone"


def nvmet(host: Host, path: str = GONE) -> None:
    host.put(f"{NVMET}/namespaces/1/enable", "1\n")
    host.put(f"{NVMET}/namespaces/1/device_path", f"{path}\n")


def iblock(host: Host, major: int, minor: int) -> None:
    host.put(
        f"{LIO}/iblock_0/disk/info",
        f"Status: ACTIVATED\n        iBlock device: sdx  UDEV PATH: {GONE}  readonly: 0\n"
        f"        Major: {major} Minor: {minor}  CLAIMED: IBLOCK\n",
    )


def fileio(host: Host, size_bytes: int) -> None:
    host.put(
        f"{LIO}/fileio_0/disk/info",
        "Status: ACTIVATED  Max Queue Depth: 0  SectorSize: 512  HwMaxSectors: 16384\n"
        f"        TCM FILEIO ID: 0        File: {GONE}  Size: {size_bytes}  "
        "Mode: O_DSYNC Async: 0\n",
    )


def gadget(host: Host) -> None:
    host.put(f"{GADGET}/file", f"{GONE}\n")


@pytest.mark.parametrize(
    ("serve", "way_out"),
    [
        (nvmet, f"echo 0 > {NVMET}/namespaces/1/enable"),
        (lambda host: fileio(host, 4096), f"rmdir {LIO}/fileio_0/disk"),
        (gadget, f"echo > {GADGET}/file"),
    ],
    ids=["nvmet", "fileio of the same size", "mass storage"],
)
def test_what_is_served_and_gone_may_be_this_disk_and_the_way_out_is_told(
    host: Host, serve: Callable[[Host], None], way_out: str
) -> None:
    host.put("/sys/class/block/sdx/size", "8")
    serve(host)

    (user,) = host.usage.users()

    assert GONE in user
    assert "this path is gone" in user
    assert way_out in user


def test_a_device_number_says_whose_export_it_is_when_its_node_is_gone(host: Host) -> None:
    iblock(host, 259, 77)

    (user,) = host.usage.users()

    assert user == f"the kernel serves {GONE} to others (SCSI target)"


@pytest.mark.parametrize(
    "serve",
    [
        lambda host: iblock(host, 8, 16),
        lambda host: fileio(host, 8192),
        lambda host: nvmet(host, "/dev/sdz"),
    ],
    ids=["another number", "larger", "known by its name"],
)
def test_what_is_gone_and_cannot_be_this_disk_is_no_reason(
    host: Host, serve: Callable[[Host], None]
) -> None:
    host.put("/sys/class/block/sdx/size", "8")
    host.put("/sys/class/block/sdz/dev", "259:78")
    serve(host)

    assert host.usage.users() == []


@pytest.fixture
def nvme(host: Host, tmp_path: Path) -> BlockUsage:
    """A disk of NVMe whose controller has the number of /dev/null, the one node that is here."""
    null = os.stat("/dev/null").st_rdev  # noqa: PTH116
    host.put("/sys/class/block/nvme9n1/dev", NEVER)
    host.put("/sys/block/nvme9n1/device/dev", f"{os.major(null)}:{os.minor(null)}")
    return BlockUsage("nvme9n1", sysfs=Sysfs(host.root), procfs=Procfs(host.root))


def test_a_controller_that_is_served_as_a_whole_serves_its_disks(
    host: Host, nvme: BlockUsage
) -> None:
    host.put(f"{NVMET}/passthru/device_path", "/dev/null\n")
    host.put(f"{NVMET}/passthru/enable", "1\n")

    assert nvme.users() == ["the kernel serves /dev/null to others (NVMe target, passthru)"]


def test_who_has_the_controller_open_is_named(host: Host, nvme: BlockUsage) -> None:
    host.put("/proc/4242/comm", "nvme-admin\n")
    (fds := host.root / "proc/4242/fd").mkdir()
    (fds / "3").symlink_to("/dev/null")

    assert [str(opener) for opener in nvme.openers()] == ["process 4242 (nvme-admin)"]


def test_a_descriptor_that_only_one_thread_has_is_found(tmp_path: Path) -> None:
    """A thread with a file table of its own (CLONE_FILES undone) opens what its process has not."""
    held = tmp_path / "held"
    held.touch()
    program = (
        "import ctypes, sys, threading, time\n"
        "def work():\n"
        "    assert ctypes.CDLL(None).unshare(0x400) == 0\n"
        f"    with open({str(held)!r}):\n"
        "        print('open', flush=True)\n"
        "        time.sleep(600)\n"
        "threading.Thread(target=work).start()\n"
    )
    argv = [sys.executable, "-c", program]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "open\n"
            assert not [
                fd for fd in Path(f"/proc/{process.pid}/fd").iterdir() if held == fd.resolve()
            ]
            status = held.stat()
            wanted = Wanted(inodes=frozenset({(status.st_dev, status.st_ino)}))

            openers = Procfs().openers(wanted)
        finally:
            process.kill()

    assert [opener.pid for opener in openers] == [process.pid]


@pytest.mark.parametrize(("flag", "found"), [("os.O_RDONLY", True), ("os.O_PATH", False)])
def test_a_descriptor_that_only_marks_a_place_is_no_use(
    tmp_path: Path, flag: str, *, found: bool
) -> None:
    held = tmp_path / "held"
    held.touch()
    program = f"import os, time; os.open({str(held)!r}, {flag}); print(flush=True); time.sleep(600)"
    argv = [sys.executable, "-c", program]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline()
            status = held.stat()
            wanted = Wanted(inodes=frozenset({(status.st_dev, status.st_ino)}))

            each = [type_().openers(wanted) for type_ in (Procfs, OneLookProcfs)]
        finally:
            process.kill()

    assert [[o.pid for o in openers] for openers in each] == [[process.pid] * found] * 2


@pytest.mark.parametrize(("kind", "mounted"), [("ext4", True), ("tmpfs", False)])
def test_a_word_that_is_the_name_of_a_drive_is_no_mount_of_it(
    tmp_path: Path, kind: str, *, mounted: bool
) -> None:
    drive = tmp_path / "drive"
    drive.touch()
    mount = Mount("0:50", "/srv", kind, str(drive))

    assert (Procfs().source(mount) is not None) == mounted


def test_a_partition_and_what_lies_below_that_refuse_writes_are_named(host: Host) -> None:
    for name, ro in (("sdx", 0), ("sdx/sdx1", 1), ("sdx1", 1), ("sdy", 1)):
        host.put(f"/sys/class/block/{name}/ro", f"{ro}\n")
    host.put("/sys/class/block/sdx/sdx1/partition", "1\n")
    host.put("/sys/class/block/sdx/slaves/sdy")

    assert host.usage.read_only() == ["sdx1", "sdy"]


def unreadable(path: str) -> Callable[[Host], None]:
    """A file where a directory should be, or the other way round: reading it is an error."""

    def spoil(host: Host) -> None:
        if path.endswith(("dev", "backing_file")):
            (host.root / path).unlink(missing_ok=True)
            (host.root / path).mkdir(parents=True)
        else:
            host.put(path)

    return spoil


@pytest.mark.parametrize(
    "path",
    [
        "sys/class/block/sdx/dev",
        "sys/class/block/sdx/holders",
        "sys/block/loop0/loop/backing_file",
        "sys/fs/btrfs",
        "sys/kernel/config/nvmet/subsystems",
    ],
)
def test_what_cannot_be_read_is_never_taken_for_idle(host: Host, path: str) -> None:
    unreadable(path)(host)

    with pytest.raises(OSError, match="directory"):
        _ = (host.usage.holders(), host.usage.mounts(), host.usage.users())
