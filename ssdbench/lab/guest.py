"""Boots a guest, runs one command in it, and brings back what it said.

The host's root file system is exported from a private bind mount that is read-only on the host's
side and holds no /proc, /sys or /dev, so nothing that the guest does can reach the host. The one
writable share is the job's own directory. A panic, oops or WARNING fails the run and is shown.
"""

import re
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from ssdbench.errors import HostLacks, SsdbenchError
from ssdbench.host import command, files
from ssdbench.host.lock import waiting
from ssdbench.host.sysfs import Sysfs
from ssdbench.lab import cpio, memory
from ssdbench.lab.archive import Archive, Package, extract
from ssdbench.lab.disks import consent
from ssdbench.lab.kernels import Kernel, fetch, module_bytes
from ssdbench.lab.machine import Machine, arguments

BOOT_MODULES = (
    "virtio_pci", "fuse", "virtiofs", "overlay", "configfs",
    "nvme", "ahci", "sd_mod", "virtio_blk", "virtio_scsi",
)  # fmt: skip
OURSELVES = Path(__file__).parents[2]  # what holds the package
INIT = Path(__file__).with_name("init.sh")
JOB_IN_GUEST = "/run/ssdbench-lab"
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
QEMU_FROM = "bpo12"  # QEMU 7.2's TCG corrupts 6.12 guests; 10.0 of the backports does not
# With several CPUs, QEMU may look up an address in a memory map of which the guest's firmware or
# PCI code has just made another, and stop by an assertion (QEMU issue 1921). No command runs yet.
BOOTS = 3
_OWN_FAULT = (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)
_TROUBLE = re.compile(
    r"(Kernel panic|Oops:|BUG:|WARNING:|general protection|RIP: .*\+0x"
    # What the kernel says of its memory: slub_debug, page_poison, and two of one name in sysfs.
    r"|BUG [\w-]+ \(|pagealloc: |cannot create duplicate)"
)


class GuestTrouble(SsdbenchError):
    """The guest's kernel complained: a panic, an oops or a WARNING."""

    exit_code = 5


@dataclass(frozen=True, slots=True)
class Answer:
    """What the command in the guest said."""

    status: int
    stdout: str
    stderr: str
    console: str
    boot_s: float  # uptime of the guest when the command began
    wall_s: float
    failed_boots: tuple[str, ...] = ()  # what QEMU said of faults of its own, before it booted


@dataclass(frozen=True, slots=True)
class InMemory:
    """What a guest that lives in memory has: programs of the host by name, modules to insert."""

    programs: tuple[str, ...]
    modules: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Tools:
    """QEMU and its companions, extracted."""

    qemu: Path
    firmware: tuple[Path, ...]
    libraries: Path
    virtiofsd: Path
    busybox: Path


def fetch_tools(archive: Archive) -> Tools:
    """A QEMU that runs both kernels, from the cache or the archive."""
    root = archive.root / "qemu"
    if not (root / "complete").exists():
        version = archive.newest("qemu-system-x86", of=QEMU_FROM).version
        names = ("qemu-system-x86", "qemu-system-common", "qemu-system-data")
        packages = [Package(name, version) for name in names]
        packages += [archive.newest("seabios", of=QEMU_FROM), archive.newest("busybox-static")]
        extract(archive.download_with_needs(packages), root)
        # The C virtiofsd left QEMU after 7.2; it still serves newer ones.
        common = archive.newest("qemu-system-common", not_of=QEMU_FROM)
        extract([archive.download(common)], archive.root / "virtiofsd")
        files.write_atomic(root / "complete", version)
    return Tools(
        qemu=root / "usr/bin/qemu-system-x86_64",
        firmware=(root / "usr/share/qemu", root / "usr/share/seabios"),
        libraries=root / "usr/lib/x86_64-linux-gnu",
        virtiofsd=archive.root / "virtiofsd/usr/lib/qemu/virtiofsd",
        busybox=root / "bin/busybox",
    )


def build_initramfs(kernel: Kernel, tools: Tools) -> bytes:
    """The guest's first file system: busybox, the boot modules and the init script."""
    order = kernel.insertion_order(*BOOT_MODULES)
    names = [path.name.removesuffix(".xz") for path in order]
    programs = {"bin/busybox": tools.busybox.read_bytes()}
    programs["init"] = INIT.read_bytes()
    programs["modules/order"] = "\n".join(names).encode() + b"\n"
    for name, path in zip(names, order, strict=True):
        programs[f"modules/{name}"] = module_bytes(path)
    return cpio.initramfs(["bin", "modules"], programs)


class Lab:
    """Guests on one kernel."""

    def __init__(self, archive: Archive, series: str) -> None:
        _make_cache(archive.root)
        with waiting(archive.root / "lab.lock"):
            self.kernel = fetch(archive, series)
            self.tools = fetch_tools(archive)
            # By what it is made of: times of files tell nothing where two versions share a cache.
            made_of = INIT.read_bytes() + " ".join(BOOT_MODULES).encode()
            name = f"initramfs-{self.kernel.release}-{sha256(made_of).hexdigest()[:16]}.gz"
            self._initramfs = archive.root / name
            if not self._initramfs.exists():
                files.write_atomic(self._initramfs, build_initramfs(self.kernel, self.tools))

    def run(
        self,
        argv: Sequence[str],
        *,
        machine: Machine | None = None,
        cwd: Path,
        timeout_s: float,
        prepare: str = "",
        expect_trouble: bool = False,
        while_running: Callable[[Path], None] | None = None,
        in_memory: InMemory | None = None,
    ) -> Answer:
        """Run one command in a fresh guest and wait for its end.

        `prepare` is shell text that runs before the command (loading modules). `while_running`
        is called about twice a second with the job directory, to serve hot-unplug and the like.
        With `in_memory` the guest has those programs and modules and nothing else of the host,
        neither its files nor `cwd`, so that runs which count instructions agree.
        A guest whose QEMU fails before the command has begun is booted again, BOOTS times at most.
        Raises GuestTrouble when the kernel complained, HostLacks when the guest did not boot.
        """
        with ExitStack() as stack:
            job = Path(stack.enter_context(TemporaryDirectory(prefix="ssdbench-lab-")))
            share = job / "share"
            for directory in ("root", "job", "modules"):
                (share / directory).mkdir(parents=True)
            made = self._complete(machine, job)
            if in_memory is not None:
                made = self._in_memory(made, job, argv, in_memory)
            else:
                self._write_job(share / "job", argv, made, cwd=cwd, prepare=prepare)
            began = time.monotonic()
            failed: list[str] = []
            while True:
                with self._powered(made, share, job, cwd) as qemu:
                    self._wait(qemu, share / "job", began + timeout_s, while_running)
                    status = qemu.poll()
                begun = made.answer is not None or (share / "job/booted_s").exists()
                if begun or not _own_fault(status) or len(failed) + 1 == BOOTS:
                    break
                failed.append(_last_words(job, status))
            if made.answer is not None:
                memory.unpack(made.answer, share / "job")
            answer = _collect(job, share / "job", status, time.monotonic() - began)
            answer = replace(answer, failed_boots=tuple(failed))
        complaint = _trouble(answer.console)
        if complaint and not expect_trouble:
            raise GuestTrouble(
                f"the guest's kernel complained: {complaint}",
                hint="its console:\n" + answer.console,
            )
        return answer

    def kvm_works(self) -> bool:
        """Whether a guest truly boots under KVM here; asked once per boot of this host.

        /dev/kvm may open and still run no Linux guest (nested virtual machines), so it is tried.
        """
        if not Path("/dev/kvm").exists():
            return False
        boot = Sysfs().read("proc/sys/kernel/random/boot_id").strip()
        record = self._initramfs.with_name(f"kvm-{boot}")
        if not record.exists():
            machine = replace(Machine.unbooted(), kvm=True, cpus=1, memory_mib=1024)
            try:
                self.run(["true"], machine=machine, cwd=Path("/"), timeout_s=30)
                works = "yes"
            except SsdbenchError:
                works = "no"
            files.write_atomic(record, works)
        return record.read_text() == "yes"

    def _complete(self, machine: Machine | None, job: Path) -> Machine:
        return replace(
            machine or Machine.unbooted(),
            qemu=self.tools.qemu,
            firmware=self.tools.firmware,
            kernel=self.kernel.image,
            initramfs=self._initramfs,
            console=job / "console",
            share_socket=job / "share.sock",
            control_socket=job / "control.sock",
        )

    def _in_memory(
        self, machine: Machine, job: Path, argv: Sequence[str], has: InMemory
    ) -> Machine:
        """The machine with programs and command in its first file system, and a disk to answer."""
        initramfs, answer = job / "initramfs", job / "answer"
        initramfs.write_bytes(
            memory.initramfs(
                self.kernel,
                self.tools.busybox,
                programs=has.programs,
                modules=has.modules,
                script=f"export SSDBENCH_LAB=1\nexec {shlex.join(argv)}\n",
            )
        )
        memory.make_answer_disk(answer)
        return replace(machine, initramfs=initramfs, answer=answer)

    def _write_job(
        self, job: Path, argv: Sequence[str], machine: Machine, *, cwd: Path, prepare: str
    ) -> None:
        lines = [
            f"export HOME=/root PATH={JOB_IN_GUEST}/bin:{SYSTEM_PATH}",
            "export SSDBENCH_LAB=1",
            f"export KDIR={shlex.quote(str(self.kernel.headers))}",
            f"export KSRC={shlex.quote(str(self.kernel.block_source))}",
            prepare,
            f"cd {shlex.quote(str(cwd))}",
            "exec " + shlex.join(argv) if argv else "true",
        ]
        files.write_atomic(job / "command", "\n".join(line for line in lines if line) + "\n")
        _write_ourselves(job / "bin" / "ssdbench")
        files.write_atomic(job / "disks.json", consent(machine.disks))

    def _export(self, share: Path, job: Path, cwd: Path) -> command.Process:
        """Serve the host's files read-only, the kernel's modules, and the job's own directory."""
        binds = [("/", "root"), (str(self.kernel.modules), "modules")]
        binds += [(str(m), f"root{m}") for m in _further_mounts((cwd, Path(sys.prefix), OURSELVES))]
        lines = ["set -e"]
        for source, name in binds:
            target = shlex.quote(str(share / name))
            lines.append(f"mount --bind {shlex.quote(source)} {target}")
            lines.append(f"mount -o remount,bind,ro {target}")
        lines.append(
            f"exec {shlex.quote(str(self.tools.virtiofsd))} "
            f"--socket-path={shlex.quote(str(job / 'share.sock'))} "
            f"-o source={shlex.quote(str(share))} -o sandbox=chroot -o cache=auto "
            "-o xattr --thread-pool-size=2"
        )
        return command.spawn(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", "\n".join(lines)],
            stdout=job / "share.stdout",
            stderr=job / "share.stderr",
        )

    @contextmanager
    def _powered(
        self, machine: Machine, share: Path, job: Path, cwd: Path
    ) -> Iterator[command.Process]:
        """QEMU at work, with what serves it; the server of files ends with the QEMU it served."""
        with ExitStack() as stack:
            if machine.answer is None:
                machine.share_socket.unlink(missing_ok=True)
                daemon = self._export(share, job, cwd)
                stack.callback(daemon.kill)
                _await(machine.share_socket, daemon, job)
            qemu = command.spawn(
                arguments(machine),
                env={"LD_LIBRARY_PATH": str(self.tools.libraries)},
                stdout=job / "qemu.stdout",
                stderr=job / "qemu.stderr",
            )
            stack.callback(qemu.kill)
            yield qemu

    def _wait(
        self,
        qemu: command.Process,
        job: Path,
        deadline: float,
        while_running: Callable[[Path], None] | None,
    ) -> None:
        while qemu.wait(0.2) is None:
            if while_running is not None:
                while_running(job)
            if time.monotonic() > deadline:
                qemu.kill()
                return


def _make_cache(root: Path) -> None:
    try:
        files.make_directory(root)
    except HostLacks as error:
        raise HostLacks(
            f"the lab cannot keep its kernels and tools: {error.message}",
            hint="SSDBENCH_LAB_CACHE names another directory for them; they take about 1.4 GB",
        ) from error


def _further_mounts(paths: Sequence[Path]) -> list[Path]:
    """Mount points of paths that are not on the root file system; the bind of / leaves them out."""
    root = Path("/").stat().st_dev
    found = []
    for path in paths:
        point = path.resolve()
        while not point.is_mount():
            point = point.parent
        if path.stat().st_dev != root and point not in found:
            found.append(point)
    return found


def _write_ourselves(path: Path) -> None:
    """`ssdbench` in the guest: this very version, however it was started on the host."""
    path.parent.mkdir()
    python, package = shlex.quote(sys.executable), shlex.quote(str(OURSELVES))
    path.write_text(f'#!/bin/sh\nPYTHONPATH={package} exec {python} -m ssdbench "$@"\n')
    path.chmod(0o755)


def _await(socket: Path, daemon: command.Process, job: Path) -> None:
    for _ in range(200):
        if socket.exists():
            return
        if daemon.poll() is not None:
            break
        time.sleep(0.02)
    said = (job / "share.stderr").read_text(errors="replace").strip()
    raise HostLacks(
        f"the host's file system could not be shared with the guest: {said or 'no answer'}",
        hint="The lab needs root and mount namespaces.",
    )


def _own_fault(status: int | None) -> bool:
    """Whether QEMU ended by a fault of its own; we kill it by SIGKILL, and so does the kernel."""
    return status is not None and -status in _OWN_FAULT


def _last_words(job: Path, status: int | None) -> str:
    """Why the guest ended without an answer: what QEMU said, else what its end tells."""
    said = (job / "qemu.stderr").read_text(errors="replace").strip()
    if said:
        return said
    if status == 0:
        return "it went down before that"
    if status is None or status == -signal.SIGKILL:
        return "it did not end in time"
    return f"QEMU was ended by signal {-status}" if status < 0 else f"QEMU ended with {status}"


def _collect(job: Path, said: Path, qemu_status: int | None, wall_s: float) -> Answer:
    def text(path: Path) -> str:
        return path.read_text(errors="replace") if path.exists() else ""

    console = text(job / "console")
    status = text(said / "status").strip()
    if not status and not _trouble(console):
        reason = _last_words(job, qemu_status)
        raise HostLacks(
            f"the guest did not finish the command: {reason}",
            hint=f"its console:\n{console}" if console.strip() else "",
        )
    return Answer(
        status=int(status or 128),
        stdout=text(said / "stdout"),
        stderr=text(said / "stderr"),
        console=console + text(said / "dmesg"),
        boot_s=float(text(said / "booted_s") or 0),
        wall_s=wall_s,
    )


def _trouble(console: str) -> str | None:
    return next((line for line in console.splitlines() if _TROUBLE.search(line)), None)
