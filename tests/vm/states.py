"""Dangerous states of real dm, md, LVM, bcache, btrfs, kernel targets and openers, made in a guest.

Run in the guest: `python -m tests.vm.states TOOLS NUMBER OF`. It makes one state after the other on
three virtio disks (A, B, C) and a SCSI disk (S), asks the guard, and prints what it said, a JSON
document a line.
"""

import json
import os
import subprocess
import sys
import time
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MOUNT = "mkdir -p /run/m; mount"
DM = "dmsetup remove --retry held"
LVM = "lvm vgchange -an --yes vg"
PART = "echo '2048,16384' | sfdisk -q --no-reread --no-tell-kernel A; partx -a A"
# What uses a disk may write to it just when the guard is asked; a guard that writes does so always.
ATTEMPTS = 4
NO_PART = "partx -d A"
MD = "mdadm -S /dev/md9"
MD_NEW = "mdadm -C /dev/md9 --run --force --assume-clean -e 1.2"
HOLD = "sleep 1000 & echo $! > /run/pid"
ABOVE_NODE = (
    "cp -a A /dev/another; losetup /dev/loop0 /dev/another; mkfs.ext4 -q -F /dev/loop0;"
    f"{MOUNT} -o ro /dev/loop0 /run/m"
)
FREE = "kill $(cat /run/pid); while kill -0 $(cat /run/pid) 2>/dev/null; do :; done"
BCACHE = "echo 1 > /sys/block/A/bcache/stop; sleep 1"
NVMET = "/sys/kernel/config/nvmet/subsystems/s"
LIO = "/sys/kernel/config/target/core"
LIO_ON = "udevadm --version >/dev/null 2>&1 || :; modprobe target_core_mod"


@dataclass(frozen=True, slots=True)
class State:
    """How a state is made and undone, which disk is asked for, and what the guard must say, if any.

    `asked` is a disk's letter, or the kernel name of what the state builds; `since` is the lab's
    first kernel series that can make it.
    """

    name: str
    make: str
    undo: str
    reason: str
    asked: str = "A"
    soft: bool = False  # --overwrite-signatures overrides it
    since: tuple[int, int] = (6, 1)


def _dm(name: str, table: str, asked: str = "A") -> State:
    make = f"dmsetup create held --table '{table}'"
    return State(f"dm {name}", make, DM, "in use by /dev/dm-0", asked)


KEY = "00112233445566778899aabbccddeeff" * 2
MAPPINGS = (
    _dm("linear", "0 8192 linear A 0"),
    _dm("striped, second disk", "0 8192 striped 2 128 A 0 B 0", "B"),
    _dm("crypt", f"0 8192 crypt aes-xts-plain64 {KEY} 0 A 0"),
    _dm("mirror, second disk", "0 8192 mirror core 2 64 nosync 2 A 0 B 0", "B"),
    _dm("raid1", "0 8192 raid raid1 2 0 nosync 2 - A - B"),
    _dm("snapshot origin", "0 8192 snapshot-origin A"),
    _dm("snapshot, exception store", "0 8192 snapshot A B P 8", "B"),
    _dm("thin pool, metadata", "0 8192 thin-pool A B 128 0"),
    _dm("thin pool, data", "0 8192 thin-pool A B 128 0", "B"),
    _dm("cache, origin", "0 8192 cache C B A 512 1 writethrough smq 0"),
    _dm("cache, cache device", "0 8192 cache C B A 512 1 writethrough smq 0", "B"),
    _dm("cache, metadata", "0 8192 cache C B A 512 1 writethrough smq 0", "C"),
    _dm("delay", "0 8192 delay A 0 1"),
    _dm("flakey", "0 8192 flakey A 0 1 0"),
    _dm("log-writes, log", "0 8192 log-writes A B", "B"),
    _dm("era, metadata", "0 8192 era B A 128", "B"),
    _dm("multipath", "0 8192 multipath 0 0 1 1 round-robin 0 1 1 A 1000"),
    State("dm suspended", "dmsetup create held --table '0 8192 linear A 0'; dmsetup suspend held",
          f"dmsetup resume held; {DM}", "in use by /dev/dm-0"),
    State("dm with a table that is only loaded",
          "dmsetup create held --notable; dmsetup load held --table '0 8192 linear A 0'", DM,
          "in use by /dev/dm-0"),
    State("dm on a partition", f"{PART}; dmsetup create held --table '0 8192 linear A1 0'",
          f"{DM}; {NO_PART}", "in use by /dev/dm-0"),
    State("dm under dm", "dmsetup create held --table '0 8192 linear A 0';"
          "dmsetup create upper --table '0 4096 linear /dev/dm-0 0'",
          f"dmsetup remove --retry upper; {DM}", "in use by /dev/dm-1"),
    State("dm mounted", "dmsetup create held --table '0 32768 linear A 0';"
          f"mkfs.ext4 -q -F /dev/dm-0; {MOUNT} -o ro,noload /dev/dm-0 /run/m",
          f"umount /run/m; {DM}",
          "mounted on /run/m"),
    State("dm swapped to", "dmsetup create held --table '0 32768 linear A 0';"
          "mkswap /dev/dm-0 >&2; swapon /dev/dm-0", f"swapoff /dev/dm-0; {DM}", "swaps to /dev/"),
    State("dm opened by a process", "dmsetup create held --table '0 8192 linear A 0';"
          f"exec 9</dev/dm-0; {HOLD}", f"{FREE}; {DM}", "(sleep) has it open"),
)  # fmt: skip
VOLUMES = (
    State("LVM volume active", "lvm vgcreate -qq vg A; lvm lvcreate -qq -Zn -l4 -n v vg", LVM,
          "in use by /dev/dm-0"),
    State("LVM volume on the second disk", "lvm vgcreate -qq vg A B;"
          "lvm lvcreate -qq -Zn -l2 -n v vg B", LVM, "in use by /dev/dm-0", "B"),
    State("LVM volume mounted", "lvm vgcreate -qq vg A; lvm lvcreate -qq -Zn -l8 -n v vg;"
          f"mkfs.ext4 -q -F /dev/dm-0; {MOUNT} -o ro,noload /dev/dm-0 /run/m",
          f"umount /run/m; {LVM}", "mounted on /run/m"),
    State("LVM volume swapped to", "lvm vgcreate -qq vg A; lvm lvcreate -qq -Zn -l8 -n v vg;"
          "mkswap /dev/dm-0 >&2; swapon /dev/dm-0", f"swapoff /dev/dm-0; {LVM}", "swaps to /dev/"),
    State("LVM snapshot", "lvm vgcreate -qq vg A; lvm lvcreate -qq -Zn -l2 -n v vg;"
          "lvm lvcreate -qq -s -l2 -n s vg/v", LVM, "in use by /dev/dm-2"),
    State("LVM on a partition", f"{PART}; lvm vgcreate -qq vg A1; lvm lvcreate -qq -Zn -l1 -n v vg",
          f"{LVM}; {NO_PART}", "in use by /dev/dm-0"),
    State("LVM group idle", "lvm vgcreate -qq vg A", "", "signature of LVM2_member", soft=True),
    State("LVM disk of no group", "lvm pvcreate -qq A", "", "signature of LVM2_member", soft=True),
)  # fmt: skip
ARRAYS = (
    State("md raid1", f"{MD_NEW} -l1 -n2 A B", MD, "in use by /dev/md9"),
    State("md raid1, metadata 1.0, second disk",
          "mdadm -C /dev/md9 --run --force --assume-clean -e 1.0 -l1 -n2 A B", MD,
          "in use by /dev/md9", "B"),
    State("md raid0", "mdadm -C /dev/md9 --run --force -e 1.2 -l0 -n2 A B", MD,
          "in use by /dev/md9"),
    State("md raid5, third disk", f"{MD_NEW} -l5 -n3 A B C", MD, "in use by /dev/md9", "C"),
    State("md raid10", f"{MD_NEW} -l10 -n2 A B", MD, "in use by /dev/md9"),
    State("md spare", f"{MD_NEW} -l1 -n2 -x1 A B C", MD, "in use by /dev/md9", "C"),
    State("md faulty member", f"{MD_NEW} -l1 -n2 A B; mdadm /dev/md9 -f B", MD,
          "in use by /dev/md9", "B"),
    State("md degraded", f"{MD_NEW} -l1 -n2 A missing", MD, "in use by /dev/md9"),
    State("md assembled but not started", f"{MD_NEW} -l1 -n2 A B; {MD}; mdadm -I A",
          "mdadm -S --scan", "in use by /dev/md"),
    State("md mounted", f"{MD_NEW} -l1 -n2 A B; mkfs.ext4 -q -F /dev/md9;"
          f"{MOUNT} -o ro,noload /dev/md9 /run/m", f"umount /run/m; {MD}", "mounted on /run/m"),
    State("md swapped to", f"{MD_NEW} -l1 -n2 A B; mkswap /dev/md9 >&2; swapon /dev/md9",
          f"swapoff /dev/md9; {MD}", "swaps to /dev/md9"),
    State("LVM on md", f"{MD_NEW} -l1 -n2 A B; lvm vgcreate -qq vg /dev/md9;"
          "lvm lvcreate -qq -Zn -l2 -n v vg", f"{LVM}; {MD}", "in use by /dev/dm-0"),
    State("md stopped", f"{MD_NEW} -l1 -n2 A B; {MD}", "", "signature of linux_raid_member",
          soft=True),
)  # fmt: skip
FILE_SYSTEMS = (
    State("ext4 mounted", f"mkfs.ext4 -q -F A; {MOUNT} -o ro,noload A /run/m", "umount /run/m",
          "mounted on /run/m"),
    State("ext4, external journal of a mounted one", "mkfs.ext4 -q -F -b 4096 -O journal_dev B;"
          f"mkfs.ext4 -q -F -b 4096 -J device=B A; {MOUNT} A /run/m", "umount /run/m",
          "has claimed it", "B"),
    State("ext4 mounted where only one process sees it", "mkfs.ext4 -q -F A; mkdir -p /run/m;"
          "unshare -m --propagation private sh -c 'mount -o ro,noload A /run/m; touch /run/go;"
          "exec sleep 1000' & echo $! > /run/pid; while [ ! -e /run/go ]; do :; done; rm /run/go",
          FREE, "mounted on /run/m (as process"),
    State("ext4 on a partition, mounted", f"{PART}; mkfs.ext4 -q -F A1;"
          f"{MOUNT} -o ro,noload A1 /run/m",
          f"umount /run/m; {NO_PART}", "mounted on /run/m"),
    State("swap file on a mounted file system", f"mkfs.ext4 -q -F A; {MOUNT} A /run/m;"
          "dd if=/dev/zero of=/run/m/s bs=1M count=8 status=none;"
          "mkswap /run/m/s >&2; swapon /run/m/s",
          "swapoff /run/m/s; umount /run/m", "mounted on /run/m"),
    State("loop device over a file on a mounted file system",
          f"mkfs.ext4 -q -F A; {MOUNT} A /run/m;"
          "truncate -s 8M /run/m/f; modprobe loop; losetup /dev/loop0 /run/m/f",
          "losetup -d /dev/loop0; sleep 1; umount /run/m", "mounted on /run/m"),
    State("btrfs mounted", f"mkfs.btrfs -q -f -M A; {MOUNT} -o ro A /run/m", "umount /run/m",
          "mounted on /run/m"),
    State("btrfs of two devices, the other one", "mkfs.btrfs -q -f -M A B; btrfs device scan >&2;"
          f"{MOUNT} -o ro A /run/m", "umount /run/m; btrfs device scan -u",
          "device of the mounted btrfs", "B"),
    State("btrfs raid1, the other device", "mkfs.btrfs -q -f -M -d raid1 -m raid1 A B;"
          f"btrfs device scan >&2; {MOUNT} -o ro A /run/m", "umount /run/m; btrfs device scan -u",
          "device of the mounted btrfs", "B"),
    State("btrfs, device added later", f"mkfs.btrfs -q -f -M A; {MOUNT} A /run/m;"
          "btrfs device add -f B /run/m", "umount /run/m; btrfs device scan -u",
          "device of the mounted btrfs", "B"),
    State("btrfs idle", "mkfs.btrfs -q -f -M A", "", "signature of btrfs", soft=True),
)  # fmt: skip
OTHERS = (
    State("bcache backing device",
          "make-bcache -B A >&2; echo A > /sys/fs/bcache/register; sleep 1", BCACHE, "bcache"),
    State("bcache backing device, its cache missing",
          "make-bcache -b 64k -C B >&2; make-bcache -B A >&2;"
          "echo A > /sys/fs/bcache/register; sleep 1", BCACHE, "bcache"),
    State("bcache cache set",
          "make-bcache -b 64k -C B >&2; echo B > /sys/fs/bcache/register; sleep 1",
          "for d in /sys/fs/bcache/*/stop; do echo 1 > $d; done; sleep 1", "bcache", "B"),
    State("bcache idle", "make-bcache -B A >&2", "", "signature of bcache", soft=True),
    State("swapped to", "mkswap A >&2; swapon A", "swapoff A", "swaps to A"),
    State("partition swapped to", f"{PART}; mkswap A1 >&2; swapon A1", f"swapoff A1; {NO_PART}",
          "swaps to A1"),
    State("read-only", "blockdev --setro A", "blockdev --setrw A", "it is read-only"),
    State("loop device over it", "modprobe loop; losetup /dev/loop0 A", "losetup -d /dev/loop0",
          "in use by /dev/loop0"),
    State("file system on a loop device over another node of it", f"modprobe loop; {ABOVE_NODE}",
          "umount /run/m; losetup -d /dev/loop0; rm /dev/another", "mounted on /run/m"),
    State("mapping, its drive under a mounted loop device",
          f"dmsetup create held --table '0 8192 linear A 0'; modprobe loop; {ABOVE_NODE}",
          f"umount /run/m; losetup -d /dev/loop0; rm /dev/another; {DM}", "in use by /dev/loop0",
          "dm-0"),
    State("mapping, its drive open for writing",
          f"dmsetup create held --table '0 8192 linear A 0'; exec 9<>A; {HOLD}", f"{FREE}; {DM}",
          "(sleep) has it open", "dm-0"),
    State("open for reading", f"exec 9<A; {HOLD}", FREE, "(sleep) has it open"),
    State("open for writing", f"exec 9<>A; {HOLD}", FREE, "(sleep) has it open"),
    State("partition open", f"{PART}; exec 9<A1; {HOLD}", f"{FREE}; {NO_PART}",
          "(sleep) has it open"),
    State("mapped into memory, its descriptor closed", "python3 -Sc 'import mmap,os,sys,time;"
          "f=os.open(\"A\",os.O_RDWR); m=mmap.mmap(f,4096); os.close(f); open(\"/run/go\",\"w\");"
          "time.sleep(1000)' & echo $! > /run/pid; while [ ! -e /run/go ]; do sleep 0.1; done;"
          "rm /run/go", FREE, "has it open"),
    State("open through SCSI generic", f"modprobe sg; sleep 1; exec 9<>/dev/sg0; {HOLD}", FREE,
          "(sleep) has it open", "S"),
    State("served by the NVMe target", f"modprobe nvmet; mkdir {NVMET} {NVMET}/namespaces/1;"
          f"echo A > {NVMET}/namespaces/1/device_path; echo 1 > {NVMET}/namespaces/1/enable",
          f"rmdir {NVMET}/namespaces/1 {NVMET}", "NVMe target"),
    State("served by the SCSI target as a block device", f"modprobe target_core_iblock; mkdir -p "
          f"{LIO}/iblock_0/b; echo udev_path=A > {LIO}/iblock_0/b/control;"
          f"echo 1 > {LIO}/iblock_0/b/enable", f"rmdir {LIO}/iblock_0/b", "has claimed it"),
    State("served by the SCSI target as a file", f"modprobe target_core_file; mkdir -p "
          f"{LIO}/fileio_0/f; echo fd_dev_name=A,fd_dev_size=1048576 > {LIO}/fileio_0/f/control;"
          f"echo 1 > {LIO}/fileio_0/f/enable", f"rmdir {LIO}/fileio_0/f", "SCSI target"),
    State("served by the NVMe target, its node gone", f"modprobe nvmet; mkdir {NVMET}"
          f" {NVMET}/namespaces/1; cp -a A /run/gone;"
          f"echo /run/gone > {NVMET}/namespaces/1/device_path;"
          f"echo 1 > {NVMET}/namespaces/1/enable; rm /run/gone",
          f"rmdir {NVMET}/namespaces/1 {NVMET}", "this path is gone"),
    State("served by the SCSI target as a file, its node gone",
          f"modprobe target_core_file; mkdir -p {LIO}/fileio_0/f; cp -a A /run/gone;"
          f"echo fd_dev_name=/run/gone,fd_dev_size=1048576 > {LIO}/fileio_0/f/control;"
          f"echo 1 > {LIO}/fileio_0/f/enable; rm /run/gone", f"rmdir {LIO}/fileio_0/f",
          "this path is gone"),
    State("open in one thread alone", "python3 -Sc 'import ctypes,os,threading,time\n"
          "def work():\n"
          " assert ctypes.CDLL(None).unshare(0x400) == 0\n"
          " f = os.open(\"A\", os.O_RDWR); open(\"/run/go\", \"w\"); time.sleep(1000)\n"
          "threading.Thread(target=work).start()' & echo $! > /run/pid;"
          "while [ ! -e /run/go ]; do sleep 0.1; done; rm /run/go", FREE, "has it open"),
    State("NVMe controller open", f"exec 9</dev/nvme0; {HOLD}", FREE, "(sleep) has it open", "N"),
    State("open through NVMe generic", f"exec 9</dev/ng0n1; {HOLD}", FREE, "(sleep) has it open",
          "N"),
    State("NVMe controller served in passthru mode", f"modprobe nvmet; mkdir {NVMET};"
          f"echo /dev/nvme0 > {NVMET}/passthru/device_path; echo 1 > {NVMET}/passthru/enable",
          f"echo 0 > {NVMET}/passthru/enable; rmdir {NVMET}", "NVMe target, passthru", "N",
          since=(6, 12)),
    State("GPT, idle", "echo 'label: gpt' | sfdisk -q --no-reread --no-tell-kernel A", "",
          "signature of gpt", soft=True),
    State("partitions, idle", PART, NO_PART, "it has partitions", soft=True),
)  # fmt: skip
COMMON = "which shares bytes or space with it"
SNAPSHOT = (
    "dmsetup create real --table '0 65536 linear A 0';"
    "dmsetup create v --table '0 65536 snapshot-origin /dev/dm-0'; mkfs.ext4 -q -F /dev/dm-1;"
    "dmsetup create cow --table '0 16384 linear B 0';"
    "dmsetup create s --table '0 65536 snapshot /dev/dm-0 /dev/dm-2 P 8'"
)
THIN = (
    "dmsetup create pool --table '0 131072 thin-pool A B 128 0';"
    "dmsetup message pool 0 'create_thin 0'; dmsetup message pool 0 'create_thin 1';"
    "dmsetup create t0 --table '0 65536 thin /dev/dm-0 0';"
    "dmsetup create t1 --table '0 65536 thin /dev/dm-0 1'"
)


def _removed(*names: str) -> str:
    return "; ".join(f"dmsetup remove --retry {name}" for name in names)


def _two(first: str, second: str, use: str = f"mkfs.ext4 -q -F /dev/dm-0; {MOUNT} /dev/dm-0 /run/m",
         end: str = "umount /run/m") -> tuple[str, str]:  # fmt: skip
    """Two mappings, the first of them in use; how they are made and removed."""
    make = f"dmsetup create c --table '{first}'; {use}; dmsetup create l --table '{second}'"
    return make, f"{end}; {_removed('l', 'c')}"


BESIDE = (
    State("multipath map over a mounted volume",
          *_two("0 49152 linear A 8192", "0 65536 multipath 0 0 1 1 round-robin 0 1 1 A 1000"),
          "mounted on /run/m", "dm-1"),
    State("origin of a mounted snapshot", f"{SNAPSHOT}; {MOUNT} -o ro,noload /dev/dm-3 /run/m",
          f"umount /run/m; {_removed('s', 'v', 'cow', 'real')}", "mounted on /run/m", "dm-1"),
    State("origin of a snapshot", SNAPSHOT, _removed("s", "v", "cow", "real"),
          f"in use by /dev/dm-3, {COMMON}", "dm-1"),
    State("snapshot of a mounted volume", f"{SNAPSHOT}; {MOUNT} -o ro,noload /dev/dm-1 /run/m",
          f"umount /run/m; {_removed('s', 'v', 'cow', 'real')}", "mounted on /run/m", "dm-3"),
    State("bytes of a mounted encrypted volume",
          *_two(f"0 65536 crypt aes-xts-plain64 {KEY} 0 A 0", "0 65536 linear A 0"),
          "mounted on /run/m", "dm-1"),
    State("half of a mounted mapping's bytes",
          *_two("0 65536 linear A 0", "0 65536 linear A 32768"), "mounted on /run/m", "dm-1"),
    State("bytes of a mapping that is swapped to",
          *_two("0 65536 linear A 0", "0 65536 linear A 0",
                "mkswap /dev/dm-0 >&2; swapon /dev/dm-0", "swapoff /dev/dm-0"),
          "swaps to /dev/", "dm-1"),
    State("thin volume beside a mounted one", f"{THIN}; mkfs.ext4 -q -F -E nodiscard /dev/dm-1;"
          f"{MOUNT} /dev/dm-1 /run/m", f"umount /run/m; {_removed('t1', 't0', 'pool')}",
          "mounted on /run/m", "dm-2"),
    State("bytes of a mapping that is open",
          *_two("0 8192 linear A 0", "0 8192 linear A 4096", f"exec 9</dev/dm-0; {HOLD}", FREE),
          "(sleep) has it open", "dm-1"),
    State("mapping and a loop device that overlaps it", "modprobe loop;"
          "dmsetup create held --table '0 8192 linear A 0'; losetup -o 1048576 /dev/loop0 A",
          f"losetup -d /dev/loop0; {DM}", f"in use by /dev/loop0, {COMMON}", "dm-0"),
)  # fmt: skip
# What has no byte in common with what is in use; it passes.
APART = (
    State("volume beside a mounted one",
          *_two("0 65536 linear A 0", "0 65536 linear A 65536"), "", "dm-1"),
    State("encrypted volume beside a mounted one", *_two(
        f"0 65536 crypt aes-xts-plain64 {KEY} 0 A 0", f"0 65536 crypt aes-xts-plain64 {KEY} 0 A"
        " 65536"), "", "dm-1"),
    State("LVM volume beside a mounted one", "lvm vgcreate -qq vg A;"
          "lvm lvcreate -qq -Zn -l8 -n v vg; lvm lvcreate -qq -Zn -l4 -n w vg;"
          f"mkfs.ext4 -q -F /dev/dm-0; {MOUNT} /dev/dm-0 /run/m", f"umount /run/m; {LVM}", "",
          "dm-1"),
    State("volume on an array beside a mounted one", f"{MD_NEW} -l1 -n2 A B;" + _two(
        "0 65536 linear /dev/md9 0", "0 65536 linear /dev/md9 65536")[0],
        f"umount /run/m; {_removed('l', 'c')}; {MD}", "", "dm-1"),
    State("thin volume alone in its pool, beside a mounted volume",
          "dmsetup create m --table '0 8192 linear A 0'; dmsetup create d --table '0 65536 linear A"
          " 8192'; dmsetup create c --table '0 65536 linear A 131072';"
          f"mkfs.ext4 -q -F /dev/dm-2; {MOUNT} /dev/dm-2 /run/m;"
          "dmsetup create pool --table '0 65536 thin-pool /dev/dm-0 /dev/dm-1 128 0';"
          "dmsetup message pool 0 'create_thin 0';"
          "dmsetup create t0 --table '0 65536 thin /dev/dm-3 0'",
          f"umount /run/m; {_removed('t0', 'pool', 'c', 'd', 'm')}", "", "dm-4"),
    State("mapping beside a loop device", "modprobe loop;"
          "dmsetup create held --table '0 8192 linear A 0'; losetup -o 8388608 /dev/loop0 A",
          f"losetup -d /dev/loop0; {DM}", "", "dm-0"),
)  # fmt: skip
STATES = (*MAPPINGS, *VOLUMES, *ARRAYS, *FILE_SYSTEMS, *OTHERS, *BESIDE)


def chosen(number: int, of: int, release: str) -> list[State]:
    """Every `of`-th state, from the `number`-th on, that a kernel such as "6.12" can make."""
    series = tuple(int(part) for part in release.split(".")[:2])
    return [s for s in (*STATES[number::of], *APART[number::of]) if s.since <= series]


def main(tools: str, number: int, of: int) -> None:
    """Every `of`-th state, from the `number`-th on; prints what the guard said of each."""
    from ssdbench.host.sysfs import Sysfs
    from ssdbench.target import surroundings

    _prepare(tools)
    kernels = {
        surroundings.names_of(name, Sysfs()).serial.removeprefix("SSDBENCH-LAB-"): name
        for name in surroundings.disks(Sysfs())
    }
    disks = {letter: kernels[str(index)] for index, letter in enumerate("ABCSN")}
    for state in chosen(number, of, os.uname().release):
        print(json.dumps({"name": state.name, **_tried(state, disks)}), flush=True)


def _prepare(tools: str) -> None:
    libraries = (f"{tools}/lib/x86_64-linux-gnu", f"{tools}/usr/lib/x86_64-linux-gnu")
    os.environ["LD_LIBRARY_PATH"] = ":".join(libraries)
    os.environ["PATH"] = f"{tools}/sbin:{tools}/bin:{tools}/usr/sbin:{os.environ['PATH']}"
    os.environ["DM_DISABLE_UDEV"] = "1"
    _sh("modprobe -a dm-mod md-mod bcache btrfs")  # others load themselves when they are named
    config = Path("/run/lvm")
    config.mkdir()
    (config / "lvm.conf").write_text(
        "devices { scan_lvs=1 use_devicesfile=0 md_component_detection=0 }\n"
        "activation { udev_sync=0 udev_rules=0 monitoring=0 }\nglobal { event_activation=0 }\n"
    )
    os.environ["LVM_SYSTEM_DIR"] = str(config)


def _tried(state: State, disks: dict[str, str]) -> dict[str, object]:
    from ssdbench.errors import SsdbenchError, TargetRefused
    from ssdbench.model.target import Consent
    from ssdbench.target import guard
    from ssdbench.target.inspect import inspect

    node = f"/dev/{disks.get(state.asked, state.asked)}"
    began = time.monotonic()
    fault = _sh(_named(state.make, disks))
    os.sync()
    reasons: list[str] = []
    unchanged = False
    for _ in range(ATTEMPTS):
        before = _written(node)
        try:
            guard.check(inspect(node), Consent(overwrite=not state.soft))
        except TargetRefused as refused:
            reasons = list(refused.reasons)
        except SsdbenchError as error:
            fault += error.message
        if unchanged := _written(node) == before:
            break
        time.sleep(1)
    fault += _sh(_named(state.undo, disks))
    for disk in disks.values():
        _emptied(f"/dev/{disk}")
    return {
        "reasons": reasons,
        "expected": _named(state.reason, disks),
        "unchanged": unchanged,
        "fault": fault,
        "seconds": round(time.monotonic() - began, 1),
    }


def _emptied(node: str) -> None:
    """Zeros where signatures are: in the first two MiB and in the last one."""
    with Path(node).open("r+b") as disk:
        disk.write(bytes(2 << 20))
        disk.seek(-(1 << 20), os.SEEK_END)
        disk.write(bytes(1 << 20))
        os.fsync(disk.fileno())


def _named(text: str, disks: dict[str, str]) -> str:
    """Shell text with the nodes of the disks in place of their letters."""
    import re

    text = re.sub(r"/sys/block/A\b", f"/sys/block/{disks['A']}", text)
    return re.sub(r"(?<![\w-])([ABC])(1?)(?![\w-])", lambda m: f"/dev/{disks[m[1]]}{m[2]}", text)


def _written(node: str) -> tuple[str, int]:
    """What shows that nothing was written: the kernel's counters, and a checksum of the ends.

    The kernel itself may write to a swap area; of such a disk only the first sector counts.
    """
    swapped = any(line.startswith("/dev") for line in Path("/proc/swaps").read_text().splitlines())
    with Path(node).open("rb") as disk:
        if swapped:
            return "", zlib.crc32(disk.read(446))
        counters = Path(f"/sys/block/{Path(node).name}/stat").read_text().split()
        head = disk.read(1 << 20)
        disk.seek(-(1 << 20), os.SEEK_END)
        # Writes and discards that were finished, and their sectors.
        return " ".join([*counters[4:7:2], *counters[11:14:2]]), zlib.crc32(head + disk.read())


def _sh(text: str) -> str:
    """Run shell text; what went wrong, empty when nothing did."""
    with suppress(FileNotFoundError):
        Path("/run/err").unlink()
    argv = ["sh", "-ec", f"(true; {text}\n) 2>/run/err"]
    try:
        done = subprocess.run(argv, check=False, stdout=2, timeout=60)
    except subprocess.TimeoutExpired:
        return f"it hangs: {text}"
    return "" if done.returncode == 0 else Path("/run/err").read_text()[-300:] or "failed"


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
