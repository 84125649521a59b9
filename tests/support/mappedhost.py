"""A host of files, with mappings that a test builds on two disks."""

from pathlib import Path

import pytest

from ssdbench.host import extents, loops, usage
from ssdbench.host.extents import Target, target
from ssdbench.host.loops import Backing
from ssdbench.host.procfs import Procfs
from ssdbench.host.sysfs import Sysfs
from ssdbench.host.usage import BlockUsage

MIB_SECTORS = 2048
FILE = Backing((64769, 1234))


class MappedHost:
    """A host of files: two disks of 64 MiB, and what a test builds on them.

    Tables are written with kernel names in the place of device numbers.
    """

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.numbers: dict[str, str] = {}
        self.tables: dict[str, list[Target]] = {}
        self.loops: dict[str, Backing] = {}
        self.twins: dict[str, list[str]] = {}

        def read(number: str, **_: object) -> list[Target]:
            if number not in self.tables:
                raise PermissionError(1, "Operation not permitted")
            return self.tables[number]

        monkeypatch.setattr(extents, "tables", read)
        for module in (extents, loops, usage):
            monkeypatch.setattr(module, "behind", lambda name, **_: self.loops.get(name))
        self.put("/proc/self/mountinfo", "21 1 8:99 / /home rw - ext4 /dev/sdq1 rw\n")
        for name in ("sda", "sdb"):
            self.device(name, f"sys/devices/{name}")

    def put(self, path: str, text: str = "") -> None:
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def device(self, name: str, place: str, sectors: int = 64 * MIB_SECTORS) -> None:
        number = self.numbers[name] = f"240:{len(self.numbers)}"
        self.put(f"{place}/dev", f"{number}\n")
        self.put(f"{place}/size", f"{sectors}\n")
        for link in (f"sys/class/block/{name}", f"sys/dev/block/{number}", f"sys/block/{name}"):
            (self.root / link).parent.mkdir(parents=True, exist_ok=True)
            (self.root / link).symlink_to(self.root / place)

    def over(self, name: str, *slaves: str, sectors: int = 64 * MIB_SECTORS) -> None:
        self.device(name, f"sys/devices/virtual/{name}", sectors)
        for slave in slaves:
            self.put(f"sys/class/block/{name}/slaves/{slave}")
            self.put(f"sys/class/block/{slave}/holders/{name}")

    def part(self, name: str, drive: str, start: int, sectors: int) -> None:
        self.device(name, f"sys/devices/{drive}/{name}", sectors)
        self.put(f"sys/class/block/{name}/partition", "1")
        self.put(f"sys/class/block/{name}/start", str(start))

    def dm(self, name: str, *lines: str, unread: bool = False) -> None:
        words = [line.split() for line in lines]
        used = {word for line in words for word in line if word in self.numbers}
        self.over(name, *sorted(used))
        if not unread:
            self.tables[self.numbers[name]] = [
                target(int(b), int(n), kind, " ".join(self.numbers.get(w, w) for w in rest))
                for b, n, kind, *rest in words
            ]

    def md(
        self, name: str, *members: str, metadata: str = "1.2", at: int = 0, kib: int = 0
    ) -> None:
        self.over(name, *members)
        self.put(f"sys/class/block/{name}/md/metadata_version", metadata)
        for member in members:
            self.put(f"sys/class/block/{name}/md/dev-{member}/offset", str(at))
            self.put(f"sys/class/block/{name}/md/dev-{member}/size", str(kib))

    def loop(self, name: str, behind: str, at_mib: int = 0, mib: int = 64) -> None:
        self.over(name, sectors=mib * MIB_SECTORS)
        device = self.numbers.get(behind, "")
        inode = (0, 0) if device else FILE.inode
        self.loops[name] = Backing(inode, device, at_mib << 20)

    def usage(self, name: str) -> BlockUsage:
        return BlockUsage(
            name,
            sysfs=Sysfs(self.root),
            procfs=Procfs(self.root),
            twins=lambda name: self.twins.get(name, []),
        )

    def mounts(self, target: str, mounted: str) -> list[str]:
        line = f"30 1 {self.numbers[mounted]} / /data rw - ext4 /dev/{mounted} rw\n"
        self.put("/proc/self/mountinfo", line)
        return [mount.mount_point for mount in self.usage(target).mounts()]
