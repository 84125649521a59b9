"""Boot guests with one kernel, for one command or for several."""

import logging
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from ssdbench.errors import HostLacks, SsdbenchError
from ssdbench.host import files
from ssdbench.host.lock import waiting
from ssdbench.host.sysfs import Sysfs
from ssdbench.lab import memory
from ssdbench.lab.archive import Archive, is_whole, note_sizes
from ssdbench.lab.guest import Answer, Guest, answered, start, text_of, unwatched
from ssdbench.lab.kernels import fetch, from_tree, unpack_image
from ssdbench.lab.machine import Machine
from ssdbench.lab.tools import BOOT_MODULES, INIT, TO_BOOT, build_initramfs, fetch_tools

KVM = Path("/dev/kvm")
KVM_DOUBTED_S = 3600
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class InMemory:
    """The programs of the host, by name, and the modules for a guest that has all in memory."""

    programs: tuple[str, ...]
    modules: tuple[Path, ...] = ()


class Lab:
    """A kernel with everything that is needed to boot guests with it."""

    def __init__(self, archive: Archive, series: str, *, tree: Path | None = None) -> None:
        self._doubted: Path | None = None  # record to write if KVM does not work
        _make_cache(archive.root)
        with waiting(archive.root / "lab.lock", lambda: _log.info("waiting for another lab run")):
            if tree:  # check the user's kernel before anything is downloaded
                self.kernel = from_tree(tree, archive.root)
                self.kernel.require(TO_BOOT)
            self.tools = fetch_tools(archive)  # first, because it is smaller than a kernel
            if not tree:
                self.kernel = fetch(archive, series)
            unpack_image(self.kernel)
            # The name has a hash of the content, because two versions may share this cache.
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
        """Give a guest for any number of commands; it is shut down at the end of the block."""
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
        """Run one command in a fresh guest and wait for its end; see Guest.run.

        With `in_memory`, the guest has only those programs and modules and no files of the host,
        not even `cwd`; two runs that count instructions then agree exactly.
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

        In nested virtual machines, /dev/kvm may open although no guest boots, so a boot is tried.
        "yes" is stored until the host reboots, "no" for an hour, because the host may have been
        slow. "no" is stored only after a guest has booted without KVM, which shows that KVM was the
        cause.
        """
        if not KVM.exists():
            return False
        boot = Sysfs().read("proc/sys/kernel/random/boot_id").strip()
        record = self._initramfs.with_name(f"kvm-{boot}")
        if not record.exists() or (
            record.read_text() != "yes" and time.time() - record.stat().st_mtime > KVM_DOUBTED_S
        ):
            _log.info("trying whether a guest boots under KVM here")
            machine = replace(Machine.unbooted(), kvm=True, cpus=1, memory_mib=1024)
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
        asked = machine or Machine.unbooted()
        # A reproducible run uses the packed image, so that its counts compare with older runs.
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
        """Run a command in a guest that has all programs in its initramfs and writes to a disk."""
        # Console and output are in the same places as for other guests.
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


def _make_cache(root: Path) -> None:
    try:
        files.make_directory(root)
    except HostLacks as error:
        raise HostLacks(
            f"the lab cannot keep its kernels and tools: {error.message}",
            hint="To use another directory, set SSDBENCH_LAB_CACHE; it needs about 1.4 GB",
        ) from error
