"""Boot a guest, run commands in it, and return their output.

The guest reads the host's files from a private, read-only bind mount without /proc, /sys and /dev,
so the guest cannot change the host. The guest can write only the directory of the job. If the
guest's kernel reports a panic, an oops or a WARNING, the command fails and the message is shown.
"""

import logging
import os
import re
import shlex
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ssdbench.errors import HostLacks, SsdbenchError, telling
from ssdbench.foreign import exit_status, open_regular
from ssdbench.host import command, files
from ssdbench.host.names import Reader, written
from ssdbench.lab.disks import consent
from ssdbench.lab.kernels import Kernel
from ssdbench.lab.machine import Machine, arguments
from ssdbench.lab.tools import Tools

OURSELVES = Path(__file__).parents[2]  # the directory with the package ssdbench
JOB_IN_GUEST = "/run/ssdbench-lab"
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Most boot attempts. With several CPUs, QEMU sometimes ends with a failed assertion during the
# boot, when one CPU changes the memory map while another CPU reads it (QEMU issue 1921).
BOOTS = 3
SILENT_S = 120.0  # longest time from the start of QEMU to the kernel's first message
# The kernel prints this message if a busy host delayed a CPU while the kernel measured the speed of
# the CPU's clock. The clock of the guest may then run several times too fast.
WRONG_CLOCK = "PIT calibration deviates from"
MOST_TEXT_BYTES = 64 << 20  # most that is read from one file of the guest
SWITCH_OFF_S = 60.0  # time for a shutdown, on a busy host without KVM
_OWN_FAULT = (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)
TROUBLE = (  # a pattern that both Python and grep -E accept
    # Count a data race (KCSAN) only if a module takes part, whose name is then in brackets. The
    # kernel itself has intended races, for example on the times of an inode.
    r"(Kernel panic|Oops:|BUG: ([^K]|K[^C]|KCSAN: .*\[)|WARNING:|general protection|RIP: .*\+0x"
    # Memory errors (slub_debug, page_poison), and a name that is used twice in sysfs.
    r"|BUG [A-Za-z0-9_-]+ \(|pagealloc: |cannot create duplicate"
    # Messages of kernels that were built for debugging.
    r"|UBSAN: |trying to register non-static key|kmemleak: [0-9]+ new suspected)"
)
_log = logging.getLogger(__name__)


def unwatched(shared: Path) -> None:
    """Do nothing; this is the default of the callback that is called while a command runs."""


class GuestTrouble(SsdbenchError):
    """The guest's kernel reported a panic, an oops, a WARNING or another message of TROUBLE."""

    exit_code = 5


@dataclass(frozen=True, slots=True)
class Answer:
    """The output and exit status of a command in a guest."""

    status: int
    stdout: str
    stderr: str
    console: str
    boot_s: float  # uptime of the guest when the command began
    wall_s: float
    failed_boots: tuple[str, ...] = ()  # the error of each failed boot before this one


class Guest:
    """A guest that boots when it gets its first command, and runs commands one after another.

    A command sees the files that earlier commands wrote, and the modules they loaded. The answer to
    a command has the kernel messages from the time of this command. The guest is killed if its
    kernel reports trouble, or if a command does not end in time.
    """

    def __init__(
        self, machine: Machine, job: Path, *, kernel: Kernel, tools: Tools, cwd: Path
    ) -> None:
        self._machine = machine
        self._job = job  # the guest sees the directory share/job in `job`
        self._kernel = kernel
        self._tools = tools
        self._cwd = cwd
        self._powered = ExitStack()
        self._qemu: command.Process | None = None
        self._bell: socket.socket | None = None
        self._commands = 0
        for directory in ("root", "job", "modules"):
            (job / "share" / directory).mkdir(parents=True)
        self._shared = job / "share" / "job"
        self._place = os.open(self._shared, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        # The script `ssdbench` in the guest runs the version of ssdbench that the host has.
        path = self._shared / "bin" / "ssdbench"
        path.parent.mkdir()
        python, package = shlex.quote(sys.executable), shlex.quote(str(OURSELVES))
        path.write_text(f'#!/bin/sh\nPYTHONPATH={package} exec {python} -m ssdbench "$@"\n')
        path.chmod(0o755)
        files.write_atomic(self._shared / "disks.json", consent(machine.disks))

    @property
    def is_up(self) -> bool:
        """Return whether QEMU is running with the guest."""
        return self._qemu is not None and self._qemu.poll() is None

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        prepare: str = "",
        last: bool = False,
        while_running: Callable[[Path], None] = unwatched,
        handed_on: bool = False,
    ) -> Answer:
        """Run one command and wait for its end; after the `last` command the guest shuts down.

        `prepare` is shell text to run before the command, such as loading modules. `while_running`
        is called with the job directory about ten times a second, beginning with the boot. It may
        for example unplug a drive or print output. With `handed_on`, `while_running` has already
        read the output. The answer and errors then omit the output, which may be larger than the
        memory. A failed boot is repeated until there were BOOTS attempts. Raises GuestTrouble when
        the guest's kernel reports trouble, HostLacks when the guest does not boot or is not
        running.
        """
        began = time.monotonic()
        self._commands += 1
        place = self._shared / str(self._commands)
        shown = self._console_bytes()
        if self._commands > 1 and not self.is_up:
            raise HostLacks("the guest is down and cannot run another command")
        self._give("command", self._command(argv, prepare), to=str(self._commands))
        if last:
            self._give("off", "")
        failed: tuple[str, ...] = ()
        look = partial(while_running, self._shared)
        try:
            try:
                if self._qemu is None:
                    failed = self._boot(began + timeout_s, look)
                else:
                    self._ring()
                if argv:
                    _log.info("running %s", shlex.join(argv))
                end = None if last else place / "status"
                self._wait(began + timeout_s, until=end, look=look)
            finally:
                look()  # for output that came after the last look
            status = None if self._qemu is None else self._qemu.poll()
            answer = answered(
                self._job, place, self._shared / "booted_s", self._console(shown), status,
                time.monotonic() - began, handed_on=handed_on,
            )  # fmt: skip
        except BaseException:
            self.kill()
            raise
        return replace(answer, failed_boots=failed)

    def close(self) -> None:
        """Shut the guest down.

        Raises GuestTrouble when its kernel reported trouble while it did.
        """
        if not self.is_up:
            return
        shown = self._console_bytes()
        self._give("off", "")
        self._ring()
        self._wait(time.monotonic() + SWITCH_OFF_S)
        _raise_for(self._console(shown))

    def kill(self) -> None:
        """Kill QEMU and the file server of the guest, without a shutdown."""
        self._powered.close()
        if self._bell is not None:
            self._bell.close()
        if self._place >= 0:
            os.close(self._place)
            self._place = -1

    def _boot(self, deadline: float, look: Callable[[], None]) -> tuple[str, ...]:
        """Boot until the guest runs commands; return the errors of failed boots."""
        begun = self._shared / "booted_s"
        failed: list[str] = []
        while True:
            last = len(failed) + 1 == BOOTS
            # Accept a possibly wrong clock on the last attempt, because the host may always be
            # busy.
            trouble = TROUBLE if last else f"{TROUBLE}|{WRONG_CLOCK}"
            files.write_atomic(self._shared / "trouble", f"{trouble}\n")
            self._power()
            silent = self._silent(min(deadline, time.monotonic() + SILENT_S))
            look()
            if silent and not last:
                failed.append(f"the kernel said nothing for {SILENT_S:.0f} s")
                self._powered.close()
                continue
            self._wait(deadline, until=begun, look=look)
            if begun.exists():
                return tuple(failed)
            status = self._qemu.poll() if self._qemu else None
            said = text_of(self._shared / "complaint", self._shared.parent) or complaint(
                self._console(0)
            )
            if said and last:
                _raise_for(said + self._console(0))
            crashed = status is not None and -status in _OWN_FAULT  # not by a SIGKILL of the lab
            if last or not (said or crashed):
                return tuple(failed)
            failed.append(said.splitlines()[0] if said else _last_words(self._job, status))
            self._powered.close()  # kill both: the file server has ended with its QEMU

    def _power(self) -> None:
        """Start the file server and QEMU."""
        machine = self._machine
        machine.share_socket.unlink(missing_ok=True)
        daemon = self._export()
        self._powered.callback(daemon.kill)
        _await(machine.share_socket, daemon, self._job)
        self._qemu = start(machine, self._tools, self._job, self._powered)

    def _export(self) -> command.Process:
        """Start the file server; the guest can write only job files, and reads the rest."""
        share, job = self._job / "share", self._job
        binds = [("/", "root"), (str(self._kernel.modules), "modules")]
        cache = self._kernel.root.parent  # directory with the built modules
        places = (self._cwd, Path(sys.prefix), OURSELVES, cache, self._kernel.headers)
        binds += [(str(m), f"root{m}") for m in _further_mounts(places)]
        lines = ["set -e"]
        for source, name in binds:
            target = shlex.quote(str(share / name))
            lines.append(f"mount --bind {shlex.quote(source)} {target}")
            lines.append(f"mount -o remount,bind,ro {target}")
        words = shlex.join(f"{k}={v}" for k, v in self._tools.environment.items())
        lines.append(
            f"exec env {words} {shlex.quote(str(self._tools.virtiofsd))} "
            f"--socket-path={shlex.quote(str(self._machine.share_socket))} "
            f"-o source={shlex.quote(written(Reader.VIRTIOFSD, str(share)))} -o sandbox=chroot "
            "-o cache=always -o xattr --thread-pool-size=2"
        )
        return command.spawn(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", "\n".join(lines)],
            stdout=job / "share.stdout",
            stderr=job / "share.stderr",
        )

    def _give(self, name: str, text: str, *, to: str = "") -> None:
        """Write a file for the guest so that the guest never sees an incomplete file.

        With `to`, the file is written into this new directory. Links that the guest made are not
        followed. Raises HostLacks when the file cannot be made.
        """
        folder = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        fresh = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with ExitStack() as opened:
            try:
                place = self._place
                if to:
                    os.mkdir(to, 0o755, dir_fd=place)
                    place = os.open(to, folder, dir_fd=place)
                    opened.callback(os.close, place)
                draft = f".{name}.new"
                with os.fdopen(os.open(draft, fresh, 0o644, dir_fd=place), "w") as file:
                    file.write(text)
                os.replace(draft, name, src_dir_fd=place, dst_dir_fd=place)
            except OSError as error:
                raise HostLacks(
                    f"cannot write {to or '.'}/{name} for the guest: {error.strerror}"
                ) from error

    def _command(self, argv: Sequence[str], prepare: str) -> str:
        lines = [
            f"export HOME=/root PATH={JOB_IN_GUEST}/bin:{SYSTEM_PATH}",
            "export SSDBENCH_LAB=1",
            f"export KDIR={shlex.quote(str(self._kernel.headers))}",
            f"export KSRC={shlex.quote(str(self._kernel.block_source))}",
            prepare,
            f"cd {shlex.quote(str(self._cwd))}",
            "exec " + shlex.join(argv) if argv else "true",
        ]
        return "\n".join(line for line in lines if line) + "\n"

    def _ring(self) -> None:
        """Send a byte to a running guest, so that it looks for the new command."""
        if self._bell is None:
            self._bell = socket.socket(socket.AF_UNIX)
            self._bell.connect(str(self._machine.bell_socket))
        self._bell.sendall(b"\n")

    def _wait(
        self,
        deadline: float,
        *,
        until: Path | None = None,
        look: Callable[[], None] = lambda: None,
    ) -> None:
        """Wait until the file `until` exists or QEMU has ended; kill QEMU at the deadline."""
        assert self._qemu is not None
        while self._qemu.wait(0.1) is None:
            if until is not None and until.exists():
                return
            look()
            if time.monotonic() > deadline:
                self._qemu.kill()

    def _silent(self, deadline: float) -> bool:
        """Return whether at the deadline QEMU still runs and the console has no output."""
        assert self._qemu is not None
        while self._qemu.wait(0.1) is None and not self._console_bytes():
            if time.monotonic() > deadline:
                return True
        return False

    def _console_bytes(self) -> int:
        console = self._machine.console
        return console.stat().st_size if console.exists() else 0

    def _console(self, shown: int) -> str:
        """Return the console output after the first `shown` bytes (of earlier commands)."""
        try:
            with self._machine.console.open("rb") as file:
                file.seek(max(shown, self._console_bytes() - MOST_TEXT_BYTES))
                return file.read(MOST_TEXT_BYTES).decode(errors="replace")
        except FileNotFoundError:
            return ""


def start(machine: Machine, tools: Tools, job: Path, powered: ExitStack) -> command.Process:
    """Start QEMU; it is killed when `powered` is closed."""
    qemu = command.spawn(
        arguments(machine),
        env=tools.environment,
        stdout=job / "qemu.stdout",
        stderr=job / "qemu.stderr",
    )
    powered.callback(qemu.kill)
    return qemu


def _further_mounts(paths: Sequence[Path]) -> list[Path]:
    """Return the mount points above the paths, outermost first: a bind mount of / omits them."""
    above = {place for path in paths for place in (path.resolve(), *path.resolve().parents)}
    return sorted(place for place in above if place.is_mount() and place != Path("/"))


def _await(socket: Path, daemon: command.Process, job: Path) -> None:
    for _ in range(200):
        if socket.exists():
            return
        if daemon.poll() is not None:
            break
        time.sleep(0.02)
    said = telling((job / "share.stderr").read_text(errors="replace"))
    raise HostLacks(
        f"the lab cannot share the host's files with the guest: {said}",
        hint="The lab needs root and mount namespaces.",
    )


def _last_words(job: Path, status: int | None) -> str:
    """Return why the guest ended without an answer: QEMU's error message, or its exit status."""
    said = (job / "qemu.stderr").read_text(errors="replace").strip()
    if said:
        return said
    if status == 0:
        return "it shut down first"
    if status is None or status == -signal.SIGKILL:
        return "it did not end in time"
    return f"QEMU was ended by signal {-status}" if status < 0 else f"QEMU ended with {status}"


def answered(
    job: Path,
    said: Path,
    booted: Path,
    console: str,
    qemu_status: int | None,
    wall_s: float,
    *,
    handed_on: bool = False,
) -> Answer:
    """Read the answer to a command from its files.

    Raises GuestTrouble if the kernel reported trouble, HostLacks if the answer is incomplete.
    """
    shared = said.parents[1]
    status = text_of(said / "status", shared).strip()
    output = (
        {} if handed_on else {name: text_of(said / name, shared) for name in ("stdout", "stderr")}
    )
    console += text_of(said / "dmesg", shared)
    _raise_for(console, _said(output))
    if not status:
        reason = _last_words(job, qemu_status)
        shown = f"its console:\n{console}" if console.strip() else ""
        raise HostLacks(
            f"the guest did not finish the command: {reason}", hint=shown + _said(output)
        )
    try:
        code, boot_s = exit_status(int(status)), float(text_of(booted, shared) or 0)
    except ValueError as error:
        raise HostLacks(f"the guest's answer is damaged: {error}", hint=_said(output)) from error
    return Answer(
        status=code,
        stdout=output.get("stdout", ""),
        stderr=output.get("stderr", ""),
        console=console,
        boot_s=boot_s,
        wall_s=wall_s,
    )


def text_of(path: Path, shared: Path | None = None) -> str:
    """Return the text of a file that the guest may have written; empty if it is not a regular file.

    `shared` is the directory in which the guest can rename files and make links; no link in it is
    followed. A text longer than MOST_TEXT_BYTES is cut, and a last line says how much was left out.
    """
    try:
        descriptor = open_regular(path, below=shared)
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as file:
        text = file.read(MOST_TEXT_BYTES).decode(errors="replace")
        left = os.fstat(descriptor).st_size - file.tell()
    return text if left <= 0 else f"{text}\n({left:,} more bytes were left out)\n"


def complaint(console: str) -> str:
    """Return the first console line in which the kernel reports trouble; else an empty text."""
    return next((line for line in console.splitlines() if re.search(TROUBLE, line)), "")


def _raise_for(console: str, said: str = "") -> None:
    if line := complaint(console):
        raise GuestTrouble(
            f"the guest's kernel reported: {line}",
            hint="its console:\n" + console + said,
        )


def _said(output: Mapping[str, str]) -> str:
    """Return the output of a command as text for an error message."""
    return "".join(f"\nthe command's {name}:\n{text}" for name, text in output.items() if text)
