"""Guests for the tests, one per kernel series; a complaint of their kernel fails a test.

A guest costs half a minute, so it is kept: the next test that asks for the same machine gets the
one that is up, if the test before it passed and what it left could be put back. The usual machine
stays up beside one of another kind. Otherwise, and where a test asks for a `fresh` one, a new guest
is booted. Each test answers for what the kernel said from its own begin to the end of putting back.
"""

import compileall
import os
import shlex
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ssdbench.errors import SsdbenchError
from ssdbench.lab import guest as running
from ssdbench.lab.archive import Archive, cache_directory
from ssdbench.lab.disks import parse_all
from ssdbench.lab.guest import Answer
from ssdbench.lab.kernels import SERIES
from ssdbench.lab.session import (
    GuestRequest,
    Lab,
    built_modules,
    kept_guest,
    load_script,
    run_in_guest,
)

Guest = Callable[..., Answer]
Drives = Callable[..., Answer]
REPOSITORY = Path(__file__).parents[2]
# On the newest kernel, and on the others in soak; but where a module meets what the kernel changed,
# and for one test of each module, on every one.
EVERY_KERNEL = pytest.mark.parametrize("lab", SERIES, indirect=True)
# In place of Debian's kernels: one that was built there (see debug_kernel.py).
KERNEL_DIR = Path(tree) if (tree := os.environ.get("SSDBENCH_LAB_KERNEL_DIR")) else None
# Their tests share one guest, and in it one start of Python: those that change it most come last.
DRIVES_FILES = ("test_numa.py", "test_latency_path.py")
# Half of the work on the newest kernel, so that two workers end at about the same time.
LATER_FILES = ("test_flash.py", "test_lab.py", "test_slam.py", "test_zones.py")
USUAL_DISKS = ("nvme=null:1GiB",)
SLOWER = 8 if KERNEL_DIR else 1  # a kernel with every check, to an emulated CPU
FAILED = pytest.StashKey[bool]()
GUEST_S = 540 * SLOWER
PUT_BACK_S = 300 * SLOWER
# What tests make is removed; then what is there is told, to be compared with a guest just booted.
# By the shell alone: a program, or a substitution, costs an emulated CPU 50 ms, and this is run
# after each test.
PUT_BACK = r"""
exec 2> /dev/null
shopt -s extglob nullglob
started=; read -r started < /run/started/pid
for pid in /proc/[0-9]*; do pid=${pid#/proc/}
  [ $pid = 1 ] || [ $pid = $$ ] || [ $pid = "$started" ] || ! [ -e /proc/$pid/exe ] ||
    { kill -KILL $pid; killed+=" $pid"; }; done
for pid in $killed; do  # until each is gone
  for try in {1..20}; do [ -e /proc/$pid/exe ] || break; sleep 0.1; done; done
mapfile -t lines < /proc/self/mounts
for line in "${lines[@]}"; do case $line in *" /run/m "* | *" /mnt "*)
  line=${line#* }; umount -q ${line%% *};; esac; done
C=/sys/kernel/config
for each in $C/ssdb_slam/*/; do echo 0 > $each/running; rmdir $each; done
for each in $C/ssdb_tmerge/*/ $C/ssdb_flash/*/; do echo 0 > $each/power; rmdir $each; done
for queue in /sys/block/*/queue; do
  chosen=; read -r chosen < $queue/scheduler
  case $chosen in *"[bpref-"*) echo none > $queue/scheduler;; esac
  echo -1 > $queue/wbt_lat_usec; done
for module in ssdb_slam ssdb_bpref ssdb_tmerge ssdb_flash null_blk; do
  ! [ -d /sys/module/$module ] || rmmod $module; done
left=(/run/!(ssdbench-lab|second|started)); [ ${#left[@]} = 0 ] || rm -rf "${left[@]}"
for node in /dev/*; do [ -f $node ] && rm -f $node; done  # it would hide a device of that name
mapfile -t lines < /proc/modules; found=
for line in "${lines[@]}"; do case $line in ssdb_* | null_blk*) found+=" ${line%% *}";; esac; done
echo modules$found
for pid in /proc/[0-9]*; do
  [ $pid = /proc/$$ ] || [ $pid = "/proc/$started" ] || ! [ -e $pid/exe ] || {
    read -r name < $pid/comm; echo process $name; }; done
mapfile -t lines < /proc/self/mounts; found=
for line in "${lines[@]}"; do line=${line#* }; found+=" ${line%% *}"; done
echo mounts$found
read -r online < /sys/devices/system/cpu/online; echo cpus $online
for disk in /sys/block/*; do found=
  for name in size ro queue/{logical_block_size,scheduler,nr_requests,nomerges,read_ahead_kb} \
    queue/io_timeout; do value=; read -r value < $disk/$name; found+=" $value"; done
  echo ${disk##*/}$found; done
# Memory that nothing points to, and that has not changed since the scan before: a debug kernel
# complains of it. It does not look at what is younger than 5 s.
leaks=/sys/kernel/debug/kmemleak
if [ -e $leaks ]; then sleep 6; echo scan > $leaks; echo scan > $leaks; cat $leaks; fi
"""


NULL = "driver=null-co,size=67108864,read-zeroes=on"
TWO_PATHS = (
    "-device", "nvme-subsys,id=sub0,nqn=ssdbench",
    "-device", "nvme,id=c0,serial=TWIN,subsys=sub0",
    "-device", "nvme,id=c1,serial=TWIN,subsys=sub0",
    "-blockdev", f"{NULL},node-name=n1",
    "-device", "nvme-ns,drive=n1,bus=c0,nsid=1,shared=on",
    "-blockdev", f"{NULL},node-name=n2",
    "-device", "nvme-ns,drive=n2,bus=c0,nsid=2,shared=off,ms=8,pi=1",
)  # fmt: skip
# A drive behind each bus, one in zones, one with two paths, and two NUMA nodes.
DRIVES = (
    "nvme=null:64MiB",
    "ahci=sim:dram-ssd-2012,capacity=64MiB",
    "virtio=sim:dram-ssd-2012,capacity=64MiB",
    "scsi=null:64MiB",
    "nvme,zoned=1MiB,open=3=sim:dram-ssd-2012,capacity=64MiB",
)
# Python is started once in such a guest, because its imports cost an emulated CPU half a minute.
STARTED = f"""
started=/run/started
[ -p $started/ask ] || {{
  mkdir $started; mkfifo $started/ask $started/told
  {{ {REPOSITORY}/.venv/bin/python -m tests.vm.started $started < /dev/null || true
    cat $started/said > $started/told; }} > $started/said 2>&1 & }}
cat > $started/script <<'END'
SCRIPT
END
cat /proc/self/environ > $started/environ
echo $$ > $started/ask
read -r status < $started/told
exit $status
"""


@pytest.fixture(scope="session", autouse=True)
def compiled() -> None:
    """Byte code beside the sources: a guest cannot keep any, and compiles ten times slower."""
    for package in ("ssdbench", "tests/vm"):
        compileall.compile_dir(REPOSITORY / package, quiet=2)


cache = cache_directory


@pytest.fixture(
    scope="session",
    params=[pytest.param(s, marks=() if s == SERIES[-1] else pytest.mark.soak) for s in SERIES],
)
def lab(request: pytest.FixtureRequest) -> Lab:
    return Lab(Archive(cache()), str(request.param), tree=KERNEL_DIR)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put tests of one kernel together, as they share guests: with `--dist loadgroup` on a worker.

    With a kernel of one's own each test runs once, and only those that run on any kernel.
    """
    items.sort(key=_place)
    for item in items if getattr(config.option, "dist", "") == "loadgroup" else ():
        half = " more" if item.path.name in LATER_FILES else ""
        item.add_marker(pytest.mark.xdist_group(f"{_series(item)}{half}"))
    if KERNEL_DIR is None:
        return
    realtime = "CONFIG_PREEMPT_RT=y\n" in (KERNEL_DIR / ".config").read_text()
    runs = (None, SERIES[-1], *([f"{SERIES[-1]}-rt"] if realtime else []))
    others = [item for item in items if _series(item) not in runs]
    items[:] = [item for item in items if item not in others]
    config.hook.pytest_deselected(items=others)


def _place(item: pytest.Item) -> tuple[str, int]:
    """Those that share a guest with other files behind all others, by kernel and then by file."""
    name = item.path.name
    return (str(_series(item)), DRIVES_FILES.index(name)) if name in DRIVES_FILES else ("", 0)


def _series(item: pytest.Item) -> object:
    callspec = getattr(item, "callspec", None)
    return callspec.params.get("lab") if callspec is not None else None


class Up:
    """A guest that is up, and the machine that it is."""

    def __init__(self) -> None:
        self._up = ExitStack()
        self._machine: GuestRequest | None = None
        self._guest: running.Guest | None = None
        self._at_first = ""
        self._used = False  # since it was put back

    def run(self, request: GuestRequest) -> Answer:
        """Run a command in a guest like the one asked for: the one that is up, or a new one."""
        machine = _machine(request)
        if self._guest is None or machine != self._machine or not self._guest.is_up:
            self.close()
            self._guest = self._up.enter_context(kept_guest(machine, cache()))
            self._machine = machine
            self._at_first = self._put_back()
        self._used = True
        modules = _modules(request) if request.modules else []
        return self._guest.run(
            request.argv,
            timeout_s=request.timeout_s,
            prepare=load_script(modules) if modules else "",
        )

    def settle(self) -> str:
        """After a test: put back what it made. What could not be is told, and the guest ended."""
        if not self._used or self._guest is None or not self._guest.is_up:
            return ""
        self._used = False
        left = {*self._put_back().splitlines()} ^ {*self._at_first.splitlines()}
        if left:
            self.close()
        return "; ".join(sorted(left))

    def drop(self) -> None:
        """After a test that failed: switch it off if the test used it."""
        if self._used:
            self.close()

    def close(self) -> None:
        """Switch it off."""
        self._guest = None
        self._up.close()

    def _put_back(self) -> str:
        assert self._guest is not None
        answer = self._guest.run(("bash", "-c", PUT_BACK), timeout_s=PUT_BACK_S)
        assert answer.status == 0, answer.stdout
        return answer.stdout


class Kept:
    """The guests that are up: the usual machine, and the last one of another kind."""

    def __init__(self) -> None:
        self._usual = Up()
        self._other = Up()

    def run(self, request: GuestRequest) -> Answer:
        """Run a command in a guest like the one asked for: one that is up, or a new one."""
        usual = GuestRequest(
            argv=(),
            series=request.series,
            kernel_dir=request.kernel_dir,
            disks=tuple(parse_all(USUAL_DISKS)),
            cwd=request.cwd,
        )
        guest = self._usual if _machine(request) == _machine(usual) else self._other
        return guest.run(request)

    def settle(self) -> str:
        """After a test: put back what it made. What could not be is told, and the guest ended."""
        return "; ".join(left for up in (self._usual, self._other) if (left := up.settle()))

    def drop(self) -> None:
        """After a test that failed: switch off what it used."""
        for up in (self._usual, self._other):
            up.drop()

    def close(self) -> None:
        """Switch them off."""
        self._usual.close()
        self._other.close()


def _machine(request: GuestRequest) -> GuestRequest:
    return replace(request, argv=(), modules=False, timeout_s=0)


def _modules(request: GuestRequest) -> list[Path]:
    lab = Lab(Archive(cache()), request.series, tree=request.kernel_dir)
    return built_modules(lab.kernel, cache())


@pytest.fixture(scope="session")
def kept() -> Iterator[Kept]:
    """The guest that stays up between tests."""
    kept = Kept()
    yield kept
    kept.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note whether a test failed: its guest is not used again."""
    report = yield
    if report.when == "call":
        item.stash[FAILED] = report.failed
    return report


@pytest.fixture
def guest(lab: Lab, kept: Kept, request: pytest.FixtureRequest) -> Iterator[Guest]:
    """Run a shell script in a guest: `guest(script, disks=[…], reproducible=True)`."""

    def run(
        script: str,
        *,
        disks: tuple[str, ...] = USUAL_DISKS,
        reproducible: bool = False,
        modules: bool = True,
        multipath: bool = False,
        devices: tuple[str, ...] = (),
        cpus: int = 2,
        nodes: int = 1,
        programs: tuple[str, ...] = (),
        append: str = "",
        memory_mib: int = 2048,
        fresh: bool = False,
    ) -> Answer:
        wanted = GuestRequest(
            argv=("bash", "-euc", script),
            series=lab.kernel.series,
            kernel_dir=lab.kernel.tree,
            disks=tuple(parse_all(disks, in_memory=bool(programs))),
            cwd=REPOSITORY,
            reproducible=reproducible,
            modules=modules,
            multipath=multipath,
            timeout_s=GUEST_S,
            devices=devices,
            cpus=cpus,
            nodes=nodes,
            programs=programs,
            append=append,
            memory_mib=memory_mib,
        )
        with console_shown():
            # One that counts instructions does so at full speed while it waits for a command.
            alone = fresh or reproducible or programs
            answer = run_in_guest(wanted, cache()) if alone else kept.run(wanted)
        print(f"status {answer.status} in the guest\n{answer.stderr}")  # shown if the test fails
        for said in answer.failed_boots:
            warnings.warn(f"a boot failed, and the guest was booted again: {said}", stacklevel=2)
        return answer

    yield run
    if request.node.stash.get(FAILED, False):
        kept.drop()
    with console_shown():
        left = kept.settle()
    if left:
        warnings.warn(f"what a test left costs the next one a new guest: {left}", stacklevel=2)


@pytest.fixture
def drives(guest: Guest) -> Drives:
    """Run a Python script in a guest with many drives; with words that its shell exports."""

    def run(script: str, **exported: str) -> Answer:
        words = "".join(f"export {name}={shlex.quote(text)}\n" for name, text in exported.items())
        return guest(
            words + STARTED.replace("SCRIPT", script.strip()),
            disks=DRIVES,
            devices=TWO_PATHS,
            nodes=2,
            modules=False,
        )

    return run


@contextmanager
def console_shown() -> Iterator[None]:
    """The guest's console beside what went wrong: the trace is in no other place."""
    try:
        yield
    except SsdbenchError as trouble:
        trouble.add_note(trouble.hint)
        raise
