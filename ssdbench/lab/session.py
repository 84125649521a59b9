"""Boot guests, serve their disks, build modules for them and run commands, for `ssdbench lab run`.

The console messages and the output of each run are stored in a new directory; the oldest
directories are removed.
"""

import fcntl
import logging
import os
import shlex
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import BinaryIO, Self

from ssdbench.errors import HostLacks, SsdbenchError, telling
from ssdbench.host import command, files
from ssdbench.host.kmod import MODULES, NEEDS, build, source_digest, source_directory
from ssdbench.host.lock import waiting
from ssdbench.host.sysfs import Sysfs
from ssdbench.lab import memory
from ssdbench.lab.archive import Archive, is_whole, note_sizes
from ssdbench.lab.disks import DiskRequest
from ssdbench.lab.guest import Answer, Guest, answered, start, text_of, unwatched
from ssdbench.lab.kernels import Kernel, fetch, from_tree, unpack_image
from ssdbench.lab.machine import Disk, Machine
from ssdbench.lab.tools import (
    BOOT_MODULES,
    FOR_DISKS,
    INIT,
    TO_BOOT,
    TO_BUILD,
    TO_FETCH,
    build_initramfs,
    fetch_tools,
    require_programs,
)
from ssdbench.sim.drive import SimDrive, nbd_server_argv
from ssdbench.sim.spec import parse

KVM = Path("/dev/kvm")
KVM_DOUBTED_S = 3600
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class InMemory:
    """The programs and modules of a guest that has everything in memory and reads no host files."""

    programs: tuple[str, ...]
    modules: tuple[Path, ...] = ()


class Lab:
    """A kernel, with the tools and the initramfs that booting a guest needs."""

    def __init__(self, archive: Archive, series: str, *, tree: Path | None = None) -> None:
        self._doubted: Path | None = None  # file for the answer "no", if KVM does not work
        try:
            files.make_directory(archive.root)
        except HostLacks as error:
            raise HostLacks(
                f"the lab cannot keep its kernels and tools: {error.message}",
                hint="To use another directory, set SSDBENCH_LAB_CACHE; it needs about 1.4 GB",
            ) from error
        with waiting(archive.root / "lab.lock", lambda: _log.info("waiting for another lab run")):
            if tree:  # check the user's kernel before a download starts
                self.kernel = from_tree(tree, archive.root)
                self.kernel.require(TO_BOOT)
            self.tools = fetch_tools(archive)  # before the kernel, which is larger
            if not tree:
                self.kernel = fetch(archive, series)
            unpack_image(self.kernel)
            # The name has a hash of the content, because two versions of ssdbench may share this
            # cache.
            made_of = INIT.read_bytes() + " ".join(BOOT_MODULES).encode()
            of = self.kernel.root.name if tree else self.kernel.release
            name = f"initramfs-{of}-{sha256(made_of).hexdigest()[:16]}.gz"
            self._initramfs = archive.root / name
            if tree or not is_whole(self._initramfs):
                _log.info("making the guest's first file system")
                files.write_atomic(self._initramfs, build_initramfs(self.kernel, self.tools))
                note_sizes(self._initramfs)

    @contextmanager
    def guest(self, machine: Machine | None = None, *, cwd: Path) -> Iterator[Guest]:
        """Yield a guest that runs any number of commands; shut it down at the end of the block."""
        with TemporaryDirectory(prefix="ssdbench-lab-") as directory:
            job = Path(directory)
            made = replace(self._complete(machine, job), bell_socket=job / "bell.sock")
            guest = Guest(made, job, kernel=self.kernel, tools=self.tools, cwd=cwd)
            try:
                yield guest
                guest.close()
                self._booted(made)
            finally:
                guest.kill()

    def run(
        self,
        argv: Sequence[str],
        *,
        machine: Machine | None = None,
        cwd: Path,
        timeout_s: float,
        prepare: str = "",
        while_running: Callable[[Path], None] = unwatched,
        in_memory: InMemory | None = None,
        handed_on: bool = False,
    ) -> Answer:
        """Boot a new guest, run one command in it and wait for its end; see Guest.run.

        With `in_memory`, the guest has only the programs and modules of `in_memory`, and no files
        of the host, not even `cwd`. So two runs that count instructions give exactly equal counts.
        """
        with TemporaryDirectory(prefix="ssdbench-lab-") as directory:
            job = Path(directory)
            made = self._complete(machine, job)
            if in_memory is not None:
                answer = self._run_in_memory(
                    argv, made, job, in_memory, timeout_s, while_running, handed_on=handed_on
                )
                self._booted(made)
                return answer
            guest = Guest(made, job, kernel=self.kernel, tools=self.tools, cwd=cwd)
            try:
                if argv:
                    _log.info("booting a guest with Linux %s%s", self.kernel.release, _how(made))
                answer = guest.run(
                    argv,
                    timeout_s=timeout_s,
                    prepare=prepare,
                    last=True,
                    while_running=while_running,
                    handed_on=handed_on,
                )
                self._booted(made)
                return answer
            finally:
                guest.kill()

    def kvm_works(self) -> bool:
        """Return whether a guest boots with KVM on this host.

        In nested virtual machines, /dev/kvm may exist although no guest boots with KVM, so a boot
        is tried. The answer "yes" is stored until the host reboots. The answer "no" is stored for
        one hour, because the boot may have failed only because the host was slow. "no" is stored
        only after a guest has booted without KVM, which shows that KVM was the cause.
        """
        if not KVM.exists():
            return False
        boot = Sysfs().read("proc/sys/kernel/random/boot_id").strip()
        record = self._initramfs.with_name(f"kvm-{boot}")
        if not record.exists() or (
            record.read_text() != "yes" and time.time() - record.stat().st_mtime > KVM_DOUBTED_S
        ):
            _log.info("trying whether a guest boots under KVM here")
            machine = Machine(kvm=True, cpus=1, memory_mib=1024)
            try:
                self.run([], machine=machine, cwd=Path("/"), timeout_s=30)
            except SsdbenchError:
                self._doubted = record
                return False
            files.write_atomic(record, "yes")
        return record.read_text() == "yes"

    def _booted(self, machine: Machine) -> None:
        if self._doubted is not None and not machine.kvm:
            files.write_atomic(self._doubted, "no")
            self._doubted = None

    def _complete(self, machine: Machine | None, job: Path) -> Machine:
        asked = machine or Machine()
        # A reproducible run boots the packed image, so that its instruction counts can be compared
        # with older runs.
        packed = asked.reproducible or not self.kernel.unpacked_image.exists()
        return replace(
            asked,
            qemu=self.tools.qemu,
            firmware=self.tools.firmware,
            kernel=self.kernel.image if packed else self.kernel.unpacked_image,
            initramfs=self._initramfs,
            console=job / "console",
            share_socket=job / "share.sock",
            control_socket=job / "control.sock",
        )

    def _run_in_memory(
        self,
        argv: Sequence[str],
        machine: Machine,
        job: Path,
        has: InMemory,
        timeout_s: float,
        while_running: Callable[[Path], None],
        *,
        handed_on: bool,
    ) -> Answer:
        """Run a command in a guest that has all programs in its initramfs; read its output disk."""
        # Store console and output in the same places as for guests that share the host's files.
        initramfs, disk, shared = job / "initramfs", job / "answer", job / "share" / "job"
        said = shared / "1"
        initramfs.write_bytes(
            memory.initramfs(
                self.kernel,
                self.tools.busybox,
                programs=has.programs,
                modules=has.modules,
                script=f"export SSDBENCH_LAB=1\nexec {shlex.join(argv)}\n",
            )
        )
        memory.make_answer_disk(disk)
        said.mkdir(parents=True)
        began = time.monotonic()
        with ExitStack() as powered:
            made = replace(machine, initramfs=initramfs, answer=disk)
            _log.info(
                "running %s in a guest's memory with Linux %s%s",
                shlex.join(argv), self.kernel.release, _how(made),
            )  # fmt: skip
            powered.callback(while_running, shared)  # for the last output
            qemu = start(made, self.tools, job, powered)
            while (status := qemu.wait(0.1)) is None and time.monotonic() - began < timeout_s:
                while_running(shared)
        memory.unpack(disk, said)
        while_running(shared)
        console = text_of(machine.console)
        return answered(
            job, said, said / "booted_s", console, status, time.monotonic() - began,
            handed_on=handed_on,
        )  # fmt: skip


def _how(machine: Machine) -> str:
    return "" if machine.kvm or machine.reproducible else " (emulated: no KVM here)"


def built_modules(kernel: Kernel, cache: Path) -> list[Path]:
    """Build the bundled kernel modules; if the sources are unchanged, take them from the cache."""
    source = source_directory()
    of = kernel.root.name if kernel.tree else kernel.release
    into = cache / f"modules-{of}-{source_digest(source)}"
    stamp = into / "complete"
    with waiting(cache / "kmod.lock", lambda: _log.info("waiting for another build of modules")):
        if not (stamp.exists() and is_whole(into)):
            build(
                source, into, headers=kernel.headers, block_source=kernel.block_source,
                root=kernel.build_root, places=[kernel.root],
            )  # fmt: skip
            # Remove debug symbols, which are 90 % of a module and take seconds to load in a guest.
            built = [str(path) for path in into.rglob("*.ko")]
            command.run(["strip", "--strip-debug", *built], hint="apt-get install binutils")
            note_sizes(into)
            files.write_atomic(stamp, "")
    return sorted(into.rglob("*.ko"), key=lambda path: MODULES.index(path.stem))


def load_script(modules: Sequence[Path]) -> str:
    """Return shell text that loads modules in the guest, or exits with status 4 if this fails."""
    lines = [f"[ -d /sys/module/{name} ] || modprobe {name} || exit 4" for name in NEEDS]
    lines += [
        f"[ -d /sys/module/{path.stem} ] || insmod {shlex.quote(str(path))} || exit 4"
        for path in modules
    ]
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class GuestRequest:
    """Everything that the user can request with `lab run`."""

    argv: tuple[str, ...]
    series: str
    disks: tuple[DiskRequest, ...]
    cwd: Path
    cpus: int = 2
    memory_mib: int = 2048
    nodes: int = 1  # NUMA nodes
    reproducible: bool = False
    modules: bool = True
    multipath: bool = False
    timeout_s: float = 3600.0
    devices: tuple[str, ...] = ()  # more QEMU arguments
    programs: tuple[str, ...] = ()  # programs in the guest's memory; host files are then not shared
    append: str = ""  # more words for the kernel's command line
    kernel_dir: Path | None = None  # directory of a kernel that the user built, instead of `series`
    handed_on: bool = False  # `watch` reads the output, so the answer does not contain it


def run_in_guest(
    request: GuestRequest, cache: Path, *, watch: Callable[[Path], None] = unwatched
) -> Answer:
    """Boot a guest, run the command, return the answer. Raises GuestTrouble, HostLacks, UsageError.

    `watch` is called about ten times a second with the directory that the guest writes to. The
    files `1/stdout` and `1/stderr` in this directory have the output so far. Mistakes in the
    request are reported first, before the download of a kernel, which takes minutes.
    """
    for disk in request.disks:
        if disk.sim is not None:
            parse(disk.sim)
    if request.programs:
        memory.found(request.programs)
    else:
        _require_mounts()
    fetches = not (cache / f"kernel-{request.series}").exists() or bool(request.kernel_dir)
    builds = request.modules and (fetches or not any(cache.glob("modules-*")))
    if fetches or builds:
        require_programs({**TO_FETCH, **(TO_BUILD if builds else {})})
    lab = Lab(Archive(cache), request.series, tree=request.kernel_dir)
    if request.kernel_dir:
        for disk in request.disks:
            lab.kernel.require(FOR_DISKS[disk.disk.bus])
    modules = built_modules(lab.kernel, cache) if request.modules else []
    in_memory = InMemory(request.programs, tuple(modules)) if request.programs else None
    with serve_disks(request.disks) as disks:
        return lab.run(
            request.argv,
            machine=_machine(request, lab, disks),
            cwd=request.cwd,
            timeout_s=request.timeout_s,
            prepare=load_script(modules) if modules else "",
            in_memory=in_memory,
            while_running=watch,
            handed_on=request.handed_on,
        )


def _require_mounts() -> None:
    said = command.run(["unshare", "--mount", "--propagation", "private", "true"], ok=range(256))
    if said.status:
        raise HostLacks(
            f"the lab cannot share the host's files with a guest: {telling(said.stderr)}",
            hint="Run as root; in a container, allow it to mount.",
        )


@contextmanager
def kept_guest(request: GuestRequest, cache: Path) -> Iterator[Guest]:
    """Yield the requested guest, which runs any number of commands; `request.argv` is not used."""
    lab = Lab(Archive(cache), request.series, tree=request.kernel_dir)
    with (
        serve_disks(request.disks) as disks,
        lab.guest(_machine(request, lab, disks), cwd=request.cwd) as guest,
    ):
        yield guest


def _machine(request: GuestRequest, lab: Lab, disks: tuple[Disk, ...]) -> Machine:
    return Machine(
        disks=disks,
        cpus=request.cpus,
        memory_mib=request.memory_mib,
        nodes=request.nodes,
        reproducible=request.reproducible,
        kvm=lab.kvm_works(),
        multipath=request.multipath,
        devices=request.devices,
        append=request.append,
    )


@contextmanager
def serve_disks(requests: Sequence[DiskRequest]) -> Iterator[tuple[Disk, ...]]:
    """Serve the simulated drives among the disks over NBD until the `with` block ends."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="ssdbench-disks-")))
        disks = []
        for index, request in enumerate(requests):
            disk = request.disk
            if request.sim is not None:
                disk = replace(disk, nbd_socket=_serve(stack, folder / str(index), request.sim))
            disks.append(disk)
        yield tuple(disks)


def _serve(stack: ExitStack, folder: Path, sim: str) -> Path:
    folder.mkdir()
    state, socket = folder / "state.ssdb", folder / "nbd.sock"
    SimDrive.create(parse(sim), state).close(saves=False)  # the server saves the changes
    server = command.spawn(
        nbd_server_argv(state, socket, data=folder / "data"),
        stdout=folder / "stdout",
        stderr=folder / "stderr",
    )
    stack.callback(server.terminate)
    deadline = monotonic() + 10
    while not socket.exists():
        if server.poll() is not None or monotonic() > deadline:
            said = telling((folder / "stderr").read_text(errors="replace"))
            raise HostLacks(f"the simulated drive {sim} could not be served: {said}")
        sleep(0.02)
    return socket


KEPT_RUNS = 20


class KeptRun:
    """The directory for the output of a run; it is created when the first output arrives.

    An error when the output is written does not end the run; `where` reports the error later.
    """

    def __init__(self, cache: Path, name: str = "") -> None:
        now = datetime.now().astimezone()
        self.path = cache / "runs" / (name or f"{now:%Y-%m-%dT%H-%M-%S}-{os.getpid()}")
        self._opened = ExitStack()
        self._files: dict[str, BinaryIO] = {}
        self._trouble = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._opened.close()

    def add(self, name: str, data: bytes) -> None:
        """Append data to a file in the directory."""
        try:
            file = self._files.get(name) or self._open(name)
            file.write(data)
        except OSError as error:
            self._trouble = self._trouble or error.strerror or str(error)

    def where(self) -> str:
        """Say in a sentence where the output is; an empty text if there is no output."""
        if self._trouble:
            return f"the output in {self.path} is incomplete: {self._trouble}"
        what = "the guest's console and the command's output are kept in"
        return f"{what} {self.path}" if self._files else ""

    def _open(self, name: str) -> BinaryIO:
        if not self._files:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)  # output may have secrets
            held = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self._opened.callback(os.close, held)
            fcntl.flock(held, fcntl.LOCK_SH)
            # Remove old directories, but keep the directories of runs in progress, which are
            # locked.
            for path in sorted(self.path.parent.iterdir())[:-KEPT_RUNS]:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)
                except BlockingIOError:
                    continue
                finally:
                    os.close(descriptor)
        file = (self.path / name).open("wb", buffering=0)
        self._files[name] = self._opened.enter_context(file)
        return file
