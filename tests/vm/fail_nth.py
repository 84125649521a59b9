"""Runs on a debug kernel: each operation of each module, each allocation failed once.

/proc/self/fail-nth makes the n-th chance for a fault in the calling thread that fault (slab or page
allocation). Each operation is one call of the kernel (one_call.c), done for n = 1, 2, … until it
ends without the fault having come: so every allocation below the module's code has failed once.
After each fault what it left is looked at, and the same operation must succeed. A line for each
operation says how many faults there were and what came of them; complaints are the kernel's.

    python3 fail_nth.py GROUP EVERY ONE_CALL.so MODULE.ko…

fails only each EVERY-th allocation of those operations that have many.
"""

import ctypes
import errno
import fcntl
import mmap
import os
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

CONFIG, NVMET = Path("/sys/kernel/config"), Path("/sys/kernel/config/nvmet")
DEBUG = Path("/sys/kernel/debug")
FLASH, TMERGE, SLAM = CONFIG / "ssdb_flash", CONFIG / "ssdb_tmerge", CONFIG / "ssdb_slam"
FAULTS = ("failslab", "fail_page_alloc")
# What Linux itself loses, by who asked for it: the name of a cache that cannot be made (6.12); a
# hardware queue of each drive with queues for polling, without a fault, too (6.1 to 7.3:
# blk_mq_register_hctx adds a CPU's kobject to two queues).
LOST_BY_LINUX = {
    "loading": ("sysfs_slab_add",),
    "flash polled": ("blk_mq_alloc_and_init_hctx", "blk_mq_register_hctx"),
}
FILTER = DEBUG / "failslab" / "require-start"  # not in Linux 6.1 on this CPU
SMALL = {
    "capacity_bytes": 16 << 20, "erase_block_bytes": 65536, "op_ppm": 200_000, "channels": 2,
    "program_unit_bytes": 4096, "read_unit_bytes": 4096, "depth": 4,
}  # fmt: skip
BLKDISCARD = 0x1277
# Orders of linux/blkzoned.h, and the zone that gets them.
REPORT_ZONES, RESET_ZONE = 0xC0101282, 0x40101283
FINISH_ZONE = 0x40101288
ZONE_BYTES = 1 << 20
ZONE_AT = 8 * ZONE_BYTES
ORDERS = {
    REPORT_ZONES: struct.pack("<QII64x", ZONE_AT >> 9, 1, 0),
    **dict.fromkeys(
        (RESET_ZONE, FINISH_ZONE),
        struct.pack("<QQ", ZONE_AT >> 9, ZONE_BYTES >> 9),
    ),
}
LIBC = ctypes.CDLL(None, use_errno=True)
# Calls of x86-64.
READ, WRITE, IOCTL, PREAD, PWRITE, NANOSLEEP, FSYNC = 0, 1, 16, 17, 18, 35, 74
MKDIR, RMDIR, DELETE_MODULE, FINIT_MODULE = 83, 84, 176, 313
MCL_CURRENT, MCL_FUTURE = 1, 2
MOST = 5000  # faults in one operation: more is an operation that never ends
MANY = 50  # from here on only every so many of them
LONG_NAME = "a-drive-with-a-long-name"  # which configfs keeps apart from the item
Step = Callable[[], object]
every = 1
one_call = ctypes.CDLL(None).syscall  # main puts its own there


class Failed(Exception):
    """What a module did is not what it may do."""


def main(group: str, stride: str, library: str, modules: list[str]) -> None:
    """Walk one group of operations."""
    global every, one_call
    every, one_call = int(stride), ctypes.CDLL(library).one_call
    one_call.restype = ctypes.c_long
    LIBC.mlockall(MCL_CURRENT | MCL_FUTURE)
    for name in FAULTS:
        for setting, value in {"ignore-gfp-wait": "N", "verbose": "0", "times": "-1"}.items():
            put(DEBUG / name / setting, value)
    put(DEBUG / "fail_page_alloc/ignore-gfp-highmem", "N")
    put(DEBUG / "fail_page_alloc/min-order", "0")
    if (DEBUG / "kmemleak").exists():
        put(DEBUG / "kmemleak", "scan=off")  # it is looked at when all is over
    GROUPS[group](modules)
    look_for_leaks(LOST_BY_LINUX.get(group, ()))
    locks = Path("/proc/lockdep_stats").read_text()
    print("faults of the modules' own", "apart" if FILTER.exists() else "not apart")
    print("lock checks", "on" if "debug_locks:                             1" in locks else "OFF")


def put(path: Path, text: object) -> None:
    """Write at once, as a shell's echo does."""
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, f"{text}\n".encode())
    finally:
        os.close(fd)


def get(path: Path) -> str:
    return path.read_text().strip()


@dataclass
class Call:
    """One call of the kernel, made ready: whatever it needs is in memory, and open."""

    number: int
    words: tuple[int | bytes | ctypes.Array[ctypes.c_char], ...]
    opened: int = -1  # for it alone
    wants: int | None = None  # another answer is a short one

    def outcome(self, nth: int, of: int) -> tuple[str, int]:
        """How it ends with the n-th chance a fault, and how many chances it then had left."""
        left = ctypes.c_uint(0)
        buffers = [ctypes.create_string_buffer(word) if isinstance(word, bytes) else word
                   for word in self.words]  # fmt: skip
        words = [word if isinstance(word, int) else ctypes.addressof(word) for word in buffers]
        words += [0] * (4 - len(words))
        longs = [ctypes.c_long(word) for word in (self.number, *words)]
        answer = one_call(of, nth, ctypes.byref(left), *longs)
        if self.opened >= 0:
            os.close(self.opened)
        if answer < 0:
            return errno.errorcode.get(-answer, "?"), left.value
        return "ok" if self.wants in (None, answer) else "short", left.value


Ready = Callable[[], Call]


def making(folder: Path) -> Ready:
    return lambda: Call(MKDIR, (bytes(folder), 0o755))


def removing(folder: Path) -> Ready:
    return lambda: Call(RMDIR, (bytes(folder),))


def writing(path: Path, value: object) -> Ready:
    """A value written at once, as a shell's echo does."""

    def ready() -> Call:
        fd, text = os.open(path, os.O_WRONLY), f"{value}\n".encode()
        return Call(WRITE, (fd, text, len(text)), opened=fd, wants=len(text))

    return ready


def reading(path: Path) -> Ready:
    def ready() -> Call:
        fd = os.open(path, os.O_RDONLY)
        return Call(READ, (fd, ctypes.create_string_buffer(65536), 65536), opened=fd)

    return ready


def waiting() -> Call:
    """A while in which another thread works."""
    return Call(NANOSLEEP, (struct.pack("<qq", 0, 300_000_000), 0))


def walk(
    name: str,
    operation: Ready,
    *,
    before: Step = lambda: None,
    after: Callable[[bool], object] = lambda _succeeded: None,
    may: tuple[str, ...] = ("ENOMEM",),
    ends: str = "ok",
    thread: int | None = None,
) -> int:
    """Do an operation until no fault comes, with the outcome that it `ends` with; how many came.

    After a fault it may also answer with one of the errors `may`. With a `thread` the fault is that
    one's, and comes while the call runs or soon after.
    """
    mine = os.open("/proc/self/fail-nth", os.O_RDWR)
    other = os.open(f"/proc/{thread}/fail-nth", os.O_RDWR) if thread is not None else -1
    found, began = Counter[str](), time.monotonic()
    number = 1
    while number < MOST:
        before()
        call = operation()
        if thread is None:
            said, left = call.outcome(number, mine)
        else:
            os.pwrite(other, b"%d" % number, 0)
            said, _ = call.outcome(0, mine)
            left = int(os.pread(other, 16, 0))
            os.pwrite(other, b"0", 0)
        after(said == "ok")
        if left:
            if said != ends:
                raise Failed(f"{name}: {said} without a fault")
            break
        found[said] += 1
        if said not in (ends, *may):
            raise Failed(f"{name}: {said} at the fault number {number}")
        number += 1 if number < MANY else every
    else:
        raise Failed(f"{name}: no end after {MOST} faults")
    for fd in (mine, other):
        if fd >= 0:
            os.close(fd)
    told = " ".join(f"{key}={count}" for key, count in sorted(found.items()))
    took_s = time.monotonic() - began
    print(f"walk {name}: {found.total()} faults {told} in {took_s:.0f} s", flush=True)
    return found.total()


@cache
def text_of(module: str) -> tuple[int, int]:
    """Where a module's code lies."""
    symbols = [line.split() for line in Path("/proc/kallsyms").read_text().splitlines()
               if line.endswith(f"[{module}]")]  # fmt: skip
    text = [int(address, 16) for address, kind, *_ in symbols if kind in "tT"]
    return min(text), max(text) + 4096


@contextmanager
def only_within(module: str) -> Iterator[None]:
    """Only faults in what a module's own code has called; of those nothing may be seen."""
    limits = dict(zip(("require-start", "require-end"), map(hex, text_of(module)), strict=True))
    for name in FAULTS:
        for setting, value in limits.items():
            put(DEBUG / name / setting, value)
    try:
        yield
    finally:
        for name in FAULTS:
            put(DEBUG / name / "require-start", "0x0")
            put(DEBUG / name / "require-end", "0xffffffffffffffff")


def make(folder: Path, **options: object) -> None:
    """An instance with its options, switched off."""
    folder.mkdir()
    for name, value in options.items():
        put(folder / name, value)


def switch(folder: Path, on: int) -> None:
    put(folder / "power", on)


def remove(folder: Path) -> None:
    if folder.exists():
        folder.rmdir()


def removed(folder: Path, _succeeded: bool) -> None:
    """For the end of a walk over what makes an instance."""
    remove(folder)


def creation(what: str, folder: Path, **options: object) -> None:
    """Making an instance, switching it on and off, removing it."""
    disk = Path("/sys/block") / folder.name

    def settle(succeeded: bool) -> None:
        if succeeded != disk.exists() or get(folder / "power") != str(int(succeeded)):
            raise Failed(f"{what}: switched on: {succeeded}, there is a disk: {disk.exists()}")
        if not succeeded:
            switch(folder, 1)
        switch(folder, 0)

    def gone(succeeded: bool) -> None:
        if succeeded and disk.exists():
            raise Failed(f"{what}: switched off, but its disk is there")

    def taken_away(_succeeded: bool) -> None:
        remove(folder)
        gone(succeeded=True)

    walk(f"{what} mkdir", making(folder), after=partial(removed, folder))
    make(folder, **options)
    # The block layer tells of some failures in its own way: sysfs makes them EINVAL.
    walk(f"{what} on", writing(folder / "power", 1), after=settle, may=("ENOMEM", "EINVAL"))
    walk(f"{what} off", writing(folder / "power", 0), before=lambda: on_again(folder), after=gone)
    remove(folder)
    walk(f"{what} rmdir while on", removing(folder), before=lambda: on_again(folder, **options),
         after=taken_away)  # fmt: skip


def on_again(folder: Path, **options: object) -> None:
    if not folder.exists():
        folder.mkdir()
    if get(folder / "power") == "0":
        for name, value in options.items():
            put(folder / name, value)
        switch(folder, 1)


class Disk:
    """Direct reads and writes of a disk, with what must be on it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._fd = os.open(f"/dev/{name}", os.O_RDWR | os.O_DIRECT)
        self._page = mmap.mmap(-1, 1 << 17)
        self._at = self._round = 0

    def close(self) -> None:
        os.close(self._fd)

    def next(self, size: int) -> None:
        """Other data for another place in the first half of the disk, written at most by us."""
        at = self._at + size
        self._place(at if at + size <= SMALL["capacity_bytes"] // 2 else 0, size)

    def _place(self, at: int, size: int) -> None:
        self._at = at
        self._round += 1
        self._page[:size] = self._expected(size)

    def _expected(self, size: int) -> bytes:
        return struct.pack("<QQ", self._round, self._at) * (size // 16)

    def _moving(self, number: int, size: int) -> Call:
        at = ctypes.c_char.from_buffer(self._page)
        return Call(number, (self._fd, ctypes.addressof(at), size, self._at), wants=size)

    def writing(self, size: int) -> Call:
        return self._moving(PWRITE, size)

    def reading(self, size: int) -> Call:
        return self._moving(PREAD, size)

    def write(self, size: int) -> None:
        if os.pwrite(self._fd, memoryview(self._page)[:size], self._at) != size:
            raise Failed(f"{self.name}: a short write")

    def read(self, size: int) -> None:
        if os.preadv(self._fd, [memoryview(self._page)[:size]], self._at) != size:
            raise Failed(f"{self.name}: a short read")

    def check(self, size: int) -> None:
        self._page[:size] = bytes(size)
        self.read(size)
        if self._page[:size] != self._expected(size):
            raise Failed(f"{self.name}: other data at {self._at} than were written")

    def discarding(self) -> Call:
        return Call(IOCTL, (self._fd, BLKDISCARD, struct.pack("<QQ", 4 << 20, 1 << 20)))

    def flushing(self) -> Call:
        return Call(FSYNC, (self._fd,))

    def at_pointer(self) -> None:
        """The zone empty, and other data for its begin."""
        self.order(RESET_ZONE)
        self._place(ZONE_AT, 4096)

    def ordering(self, order: int) -> Call:
        return Call(IOCTL, (self._fd, order, ORDERS[order]))

    def order(self, order: int) -> bytes:
        return fcntl.ioctl(self._fd, order, ORDERS[order])

    def pointer(self) -> int:
        """Bytes from the zone's begin to where it is written next."""
        (sector,) = struct.unpack_from("<Q", self.order(REPORT_ZONES), 32)
        return (int(sector) << 9) - ZONE_AT


def traffic(what: str, disk: Disk, module: str, thread: int | None = None) -> None:
    """Writes, reads, discards and flushes of a disk, the data compared after each fault."""

    def io(what: str, kind: str, size: int, may: tuple[str, ...]) -> None:
        def settle(succeeded: bool) -> None:
            if not succeeded:
                disk.write(size)
            disk.check(size)

        def ready() -> None:
            disk.next(size)
            if kind == "read":
                disk.write(size)

        operation = partial(disk.writing if kind == "write" else disk.reading, size)
        walk(f"{what} {kind} {size}", operation, before=ready, after=settle, may=may, thread=thread)

    for size in (4096, 1 << 17):
        for kind in ("write", "read"):
            io(what, kind, size, ("ENOMEM", "EAGAIN"))
            if FILTER.exists():
                with only_within(module):  # what the module itself needs it waits for
                    io(f"{what} in {module}", kind, size, ())
    if get(Path("/sys/block", disk.name, "queue/discard_max_bytes")) != "0":
        walk(f"{what} discard", disk.discarding, thread=thread)
    walk(f"{what} flush", disk.flushing, thread=thread)


def names(_modules: list[str]) -> None:
    """A name that configfs keeps apart from the item, and one that another disk has."""
    lower, taken, long_name = FLASH / "ssd0", TMERGE / "ssd0", FLASH / LONG_NAME

    def called_so(succeeded: bool) -> None:
        if succeeded:
            on_again(long_name, **SMALL)
            if not Path("/sys/block", LONG_NAME).exists():
                raise Failed(f"{LONG_NAME} was switched on, and there is no such disk")
            switch(long_name, 0)
            remove(long_name)

    make(lower, **SMALL)
    switch(lower, 1)
    make(taken, device="/dev/ssd0")
    walk("taken name on", writing(taken / "power", 1), ends="EEXIST")
    remove(taken)
    switch(lower, 0)
    remove(lower)
    walk("long name mkdir", making(long_name), after=called_so)
    for parent in (TMERGE, SLAM):
        other = parent / LONG_NAME
        after = partial(removed, other)
        walk(f"{parent.name} long name mkdir", making(other), after=after)


KINDS: dict[str, dict[str, object]] = {
    "flash mq": {"mode": "mq", "queues": 2, "wbuf_volatile": "volatile"},
    "flash bio": {"mode": "bio"},
    "flash polled": {"completion": "polled", "poll_queues": 1, "lines": "percpu"},
    "flash zones": {"zoned": 1, "zone_size": 1},
}


def flash(what: str, _modules: list[str]) -> None:
    """A drive of one kind: made, used, changed, removed."""
    folder, options = FLASH / "ssd0", KINDS[what]
    # A second one keeps the block layer's cache of bios: where making that fails, Linux 6.12 loses
    # the name of it in /sys.
    make(FLASH / "ssd1", **SMALL)
    switch(FLASH / "ssd1", 1)
    creation(what, folder, **SMALL, **options)
    make(folder, **SMALL, **options)
    switch(folder, 1)
    disk = Disk("ssd0")
    traffic(what, disk, "ssdb_flash")
    if what == "flash zones":
        in_zones(what, disk)
    walk(f"{what} counters", reading(folder / "counters"))
    disk.close()
    if what != "flash bio":
        queue = Path("/sys/block/ssd0/queue")
        for name, value in (("nr_requests", 4), ("nr_requests", 3), ("wbt_lat_usec", 0)):
            walk(f"{what} {name}={value}", writing(queue / name, value))
        walk(f"{what} queues=1", writing(folder / "queues", 1),
             before=partial(put, folder / "queues", 2))  # fmt: skip
        walk(f"{what} queues=2", writing(folder / "queues", 2),
             before=partial(put, folder / "queues", 1))  # fmt: skip
    for each in (folder, FLASH / "ssd1"):
        switch(each, 0)
        remove(each)


def in_zones(what: str, disk: Disk) -> None:
    """Writes at a zone's pointer, and what a zone can be told: its pointer is where it must be."""

    def told(order: int, pointer: int, succeeded: bool) -> None:
        if not succeeded:
            disk.order(order)
        if disk.pointer() != pointer:
            raise Failed(f"{what}: after {order:#x} the pointer is at {disk.pointer()}")

    def written() -> None:
        disk.at_pointer()
        disk.write(4096)

    if FILTER.exists():
        with only_within("ssdb_flash"):  # first: a page once written stays allocated
            if not written_at_pointer(f"{what} in ssdb_flash", disk, ()):
                raise Failed(f"{what}: a page was to be made, and no making of it was failed")
    written_at_pointer(what, disk, ("ENOMEM", "EAGAIN"))
    for name, order, pointer in (
        ("report", REPORT_ZONES, 4096), ("reset", RESET_ZONE, 0),
        ("finish", FINISH_ZONE, ZONE_BYTES),
    ):  # fmt: skip
        walk(f"{what} {name}", partial(disk.ordering, order), before=written,
             after=partial(told, order, pointer))  # fmt: skip


def written_at_pointer(what: str, disk: Disk, may: tuple[str, ...]) -> int:
    """A write that fails moves no pointer, and the same one succeeds then; how many failed."""

    def settle(succeeded: bool) -> None:
        if disk.pointer() != 4096 * succeeded:
            raise Failed(f"{what}: wrote: {succeeded}, and the pointer is at {disk.pointer()}")
        if not succeeded:
            disk.write(4096)
        disk.check(4096)

    return walk(f"{what} write at pointer", partial(disk.writing, 4096), before=disk.at_pointer,
         after=settle, may=may)  # fmt: skip


def tmerge(_modules: list[str]) -> None:
    """Temporal merge over a drive, whose vectors may be undone; its callers, and its worker."""
    lower, folder = FLASH / "ssd0", TMERGE / "tm0"
    make(lower, **SMALL, cuttable=1)
    switch(lower, 1)
    creation("tmerge", folder, device="/dev/ssd0", mode="hybrid")
    for mode in ("stm", "atm", "hybrid", "spatial-intr", "spatial-poll"):
        make(folder, device="/dev/ssd0", mode=mode, window_ns=0)
        switch(folder, 1)
        disk = Disk("tm0")
        traffic(f"tmerge {mode} caller", disk, "ssdb_tmerge")
        for tid in kernel_threads("ssdb_tmerge"):
            traffic(f"tmerge {mode} worker", disk, "ssdb_tmerge", thread=tid)
        disk.close()
        for name in ("counters", "merges", "latency"):
            walk(f"tmerge {mode} {name}", reading(folder / name))
        switch(folder, 0)
        remove(folder)
    walk("flash cut", writing(lower / "cut", 1), before=lambda: put(lower / "cut", 0))
    walk("flash uncut", writing(lower / "cut", 0), before=lambda: put(lower / "cut", 1))
    switch(lower, 0)
    remove(lower)


def kernel_threads(prefix: str) -> list[int]:
    """Threads of the kernel whose name begins so; the kernel cuts names after 15 letters."""
    return [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/comm")
            if get(path).startswith(prefix[:15])]  # fmt: skip


def slam(_modules: list[str]) -> None:
    """The slammer at each level, on a drive that serves it."""
    lower, folder = FLASH / "ssd0", SLAM / "a"
    make(lower, **SMALL, completion="timer")
    switch(lower, 1)
    walk("slam mkdir", making(folder), after=partial(removed, folder))
    if NVMET.exists():
        nvme_over("/dev/ssd0")
    drives = {"bio": "ssd0", "request": "ssd0", "scsi": disk_called("sd?"),
              "nvme": disk_called("nvme*n1")}  # fmt: skip
    for level, name in drives.items():
        slam_at(folder, {"device": f"/dev/{name}", "runtime_ms": 60_000, "depth": 4,
                         "level": level})  # fmt: skip


def disk_called(pattern: str) -> str:
    """The first of them, once it is there."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        if found := sorted(path.name for path in Path("/sys/block").glob(pattern)):
            return found[0]
        time.sleep(0.1)
    raise Failed(f"there is no disk {pattern}")


def nvme_over(device: str) -> None:
    """The kernel's own NVMe drive over another, within the same kernel (nvme-loop)."""
    subsystem, port = NVMET / "subsystems/walk", NVMET / "ports/1"
    make(subsystem, attr_allow_any_host=1)
    make(subsystem / "namespaces/1", device_path=device, enable=1)
    make(port, addr_trtype="loop")
    (port / "subsystems/walk").symlink_to(subsystem)
    fd = os.open("/dev/nvme-fabrics", os.O_RDWR)
    os.write(fd, b"transport=loop,nqn=walk")
    os.close(fd)


def slam_at(folder: Path, settings: dict[str, object]) -> None:
    """One level of the slammer: begun and ended, its thread, and removed while it runs."""
    what, running = f"slam {settings['level']}", folder / "running"

    def begin() -> None:
        if not folder.exists():
            make(folder, **settings)
        if get(running) == "0":  # the call that was to end it may have failed
            put(running, 1)

    make(folder, **settings)
    walk(f"{what} start", writing(running, 1), after=lambda _ok: put(running, 0),
         may=("ENOMEM", "EINTR"))  # fmt: skip
    walk(f"{what} stop", writing(running, 0), before=begin)
    begin()
    for tid in kernel_threads("ssdb_slam"):
        faults = walk(f"{what} worker", waiting, thread=tid)
        if int(get(folder / "errors")) != faults:
            raise Failed(f"{what}: {faults} sends failed, and it tells of others")
    walk(f"{what} histogram", reading(folder / "histogram"))
    put(running, 0)
    if int(get(folder / "ios")) == 0:
        raise Failed(f"{what}: nothing was read")
    walk(f"{what} rmdir while running", removing(folder), before=begin,
         after=partial(removed, folder))  # fmt: skip
    remove(folder)


def bpref(_modules: list[str]) -> None:
    """Schedulers: chosen and left, their settings, and requests that go through them."""
    folder = FLASH / "ssd0"
    make(folder, **SMALL, mode="mq", queues=2)
    switch(folder, 1)
    for name in ("bpref-as", "bpref-cfq"):
        scheduled(name, folder)
    switch(folder, 0)
    remove(folder)


def scheduled(name: str, folder: Path) -> None:
    """One scheduler, on a drive that is on."""
    queue, disk = Path("/sys/block/ssd0/queue"), Disk("ssd0")
    chosen = queue / "scheduler"

    def settle(succeeded: bool) -> None:
        if succeeded and f"[{name}]" not in get(chosen):
            raise Failed(f"{name} was chosen, and is not: {get(chosen)}")
        put(chosen, "none")
        disk.next(4096)
        disk.write(4096)
        disk.check(4096)

    def choose() -> None:
        on_again(folder)
        put(chosen, name)

    walk(f"{name} chosen", writing(chosen, name), after=settle, may=("ENOMEM", "EINVAL"))
    walk(f"{name} left", writing(chosen, "none"), before=choose)
    choose()
    traffic(name, disk, "ssdb_bpref")
    walk(f"{name} block_bytes", writing(queue / "iosched/block_bytes", 65536))
    walk(f"{name} nr_requests", writing(queue / "nr_requests", 64))
    disk.close()
    walk(f"{name} drive off", writing(folder / "power", 0), before=choose)
    on_again(folder)


def loading(modules: list[str]) -> None:
    """The modules themselves: loaded and unloaded."""
    for path in modules:
        name, fd = Path(path).stem, os.open(path, os.O_RDONLY)
        walk(f"{name} loaded", partial(loading_of, fd), after=partial(unload_if, name))
        walk(f"{name} unloaded", partial(unloading_of, name), before=partial(load_if_not, name, fd))
        load_if_not(name, fd)
    for path in reversed(modules):
        unload(Path(path).stem)


def call(*words: object) -> None:
    """A call of the kernel that Python has no name for."""
    if LIBC.syscall(*words) != 0:
        raise OSError(ctypes.get_errno(), "refused")


def loading_of(fd: int) -> Call:
    return Call(FINIT_MODULE, (fd, b"", 0))


def unloading_of(name: str) -> Call:
    return Call(DELETE_MODULE, (name.encode(), os.O_NONBLOCK))


def load(fd: int) -> None:
    call(FINIT_MODULE, fd, b"", 0)


def load_if_not(name: str, fd: int) -> None:
    if not Path("/sys/module", name).exists():
        load(fd)


def unload(name: str) -> None:
    call(DELETE_MODULE, name.encode(), os.O_NONBLOCK)


def unload_if(name: str, loaded: bool) -> None:
    if loaded:
        unload(name)


def look_for_leaks(by_linux: tuple[str, ...]) -> None:
    """Two scans: memory that nothing points to, and that has not changed between them."""
    leaks = DEBUG / "kmemleak"
    # In a guest what the kernel says of its scan is a complaint, whoever lost it.
    in_user_mode = "User Mode Linux" in Path("/proc/cpuinfo").read_text()
    if not leaks.exists() or (by_linux and not in_user_mode):
        return
    time.sleep(6)  # what is younger is not looked at
    for _ in range(2):
        put(leaks, "scan")
    reports = leaks.read_text(errors="replace").split("unreferenced object ")[1:]
    ours = [each for each in reports if not any(f" {name}+" in each for name in by_linux)]
    print(f"{len(reports) - len(ours)} of {len(reports)} leaks are Linux's own", *ours, sep="\n")
    if ours:
        raise Failed(f"{len(ours)} pieces of memory are lost")


GROUPS: dict[str, Callable[[list[str]], None]] = {
    "names": names, **{kind: partial(flash, kind) for kind in KINDS},
    "tmerge": tmerge, "slam": slam, "bpref": bpref, "loading": loading,
}  # fmt: skip

if __name__ == "__main__":
    try:
        main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
    except Failed as failed:
        sys.exit(f"fail-nth: {failed}")
