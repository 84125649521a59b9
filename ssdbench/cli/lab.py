"""`ssdbench lab`: the same commands inside a QEMU guest, on a distribution kernel."""

import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Self

import click

from ssdbench.cli.output import tell
from ssdbench.foreign import MOST_BYTES, open_regular

if TYPE_CHECKING:
    from ssdbench.lab.session import KeptRun


LEAST_MIB = 256  # the kernel, its first file system, and the modules


@click.group()
def lab() -> None:
    """Run commands in a guest with the kernel modules loaded; this host stays untouched."""


@lab.command(context_settings={"ignore_unknown_options": True})
@click.option(
    "--kernel", default="6.12", show_default=True,
    help="6.1, 6.12, 6.1-rt, 6.12-rt, 6.12-deb13, 7.x or 7.x-rt: the newest kernel of this series "
    "in Debian. -rt has PREEMPT_RT, -deb13 is the kernel of Debian 13.",
)  # fmt: skip
@click.option(
    "--kernel-dir", default="", metavar="DIR",
    help="Boot the kernel that was built in DIR instead of a kernel of Debian. It needs overlayfs, "
    "virtiofs, PCI virtio and the disks' drivers, built in or as modules.",
)  # fmt: skip
@click.option(
    "--console", default="", metavar="FILE", help="Write the guest's console to FILE, too."
)
@click.option(
    "--disk", "disks", multiple=True, metavar="BUS=BACKEND",
    help="nvme|ahci|virtio|scsi = sim:MODEL | null:SIZE | FILE; may be given several times. "
    "Options after the bus: hotplug, queues=N, fail=SECTOR, zoned=SIZE, open=N.",
)  # fmt: skip
@click.option(
    "--cpus",
    default=2,
    show_default=True,
    type=click.IntRange(1, 64),
    help="CPUs of the guest.",
)
@click.option("--memory", default="2GiB", show_default=True, help="Memory of the guest.")
@click.option("--reproducible", is_flag=True, help="Count time in instructions, on one CPU.")
@click.option(
    "--program", "programs", multiple=True, metavar="NAME",
    help="Put this program of the host into the guest's memory, and no other file of the host. "
    "With --reproducible, runs then agree to the last digit. May be given several times.",
)  # fmt: skip
@click.option(
    "--append", default="", metavar="TEXT",
    help="Words to add to the kernel's command line, such as nvme.poll_queues=1.",
)  # fmt: skip
@click.option("--multipath", is_flag=True, help="NVMe drives behind multipath heads.")
@click.option("--modules/--no-modules", default=True, help="Build and load the bundled modules.")
@click.option("--timeout", default="1h", show_default=True, help="End the guest after this time.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    kernel: str,
    kernel_dir: str,
    console: str,
    disks: tuple[str, ...],
    cpus: int,
    memory: str,
    *,
    reproducible: bool,
    programs: tuple[str, ...],
    append: str,
    multipath: bool,
    modules: bool,
    timeout: str,
    as_json: bool,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND in a fresh guest, and return its output and exit status. Its input is empty.

    Without --disk there is one simulated drive, /dev/nvme0n1; with --program, none. A FILE that
    holds data needs consent like a drive. If QEMU or the kernel fails before COMMAND has begun, the
    guest is booted again, up to three times in all, with a message. The first use of a kernel
    fetches it from Debian's archive. The consoles and output of the last 20 runs are kept in
    `runs` below SSDBENCH_LAB_CACHE (/var/cache/ssdbench/lab). It needs root.
    """
    from ssdbench.errors import UsageError
    from ssdbench.lab.archive import cache_directory
    from ssdbench.lab.disks import parse_all
    from ssdbench.units import MIB, NS_PER_S, parse_duration_ns, parse_size

    if not kernel_dir:
        _require_offered(kernel)
    try:
        memory_mib, timeout_s = parse_size(memory) // MIB, parse_duration_ns(timeout) / NS_PER_S
    except ValueError as error:
        raise UsageError(str(error)) from error
    if memory_mib < LEAST_MIB:
        raise UsageError(f"a guest needs {LEAST_MIB} MiB of memory at least, not {memory}")
    here_mib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // MIB
    if memory_mib > here_mib:
        raise UsageError(
            f"a guest cannot have {memory} of memory: this host has only {here_mib} MiB",
            hint="Give a smaller `--memory`.",
        )
    if timeout_s < 1:
        raise UsageError(f"a guest needs more time than {timeout} to boot")
    requests = tuple(parse_all(disks, in_memory=bool(programs)))
    cache = cache_directory()
    with Steps("lab") as steps, ExitStack() as stack:
        from ssdbench.lab.session import GuestRequest, KeptRun, run_in_guest

        file, kept = stack.enter_context(_kept(console)), stack.enter_context(_told(KeptRun(cache)))
        request = GuestRequest(
            argv=command,
            series=kernel,
            kernel_dir=Path(kernel_dir) if kernel_dir else None,
            disks=requests,
            cwd=Path.cwd(),
            cpus=cpus,
            memory_mib=memory_mib,
            reproducible=reproducible,
            programs=programs,
            append=append,
            multipath=multipath,
            modules=modules,
            timeout_s=timeout_s,
            handed_on=not as_json,
        )
        words = GuestOutput(steps, kept, file, shown=not as_json)
        answer = run_in_guest(request, cache, watch=words.look)
    _tell_of_boots(answer.failed_boots)
    if reproducible and not programs:
        click.echo(
            "lab: programs came from the host's files, so runs agree to about 0.1 %; "
            "with --program NAME for each program, they agree to the last digit",
            err=True,
        )
    if as_json:
        import dataclasses

        from ssdbench.cli.documents.machine import RanInGuest
        from ssdbench.cli.output import document

        document(RanInGuest(**dataclasses.asdict(answer)))
    raise SystemExit(answer.status)


def _require_offered(kernel: str) -> None:
    from ssdbench.errors import UsageError
    from ssdbench.lab.kernels import OFFERS, ONLY_COMPILED

    if kernel in OFFERS:
        return
    compiled = kernel in ONLY_COMPILED
    why = ": the modules were compiled for it, but Debian has no image to boot" if compiled else ""
    raise UsageError(
        f"there is no kernel {kernel} in the lab{why}; it has {', '.join(OFFERS)}",
        hint="Any other kernel is booted from where you built it (`make bzImage modules`): "
        "`--kernel-dir DIR`.",
    )


def _tell_of_boots(failed: Sequence[str]) -> None:
    for said in failed:
        click.echo(
            f"lab: QEMU or the kernel failed before the guest ran anything: {said}", err=True
        )
    if failed:
        click.echo("lab: the guest was booted again: its boot failed, not COMMAND", err=True)


@contextmanager
def _told(kept: "KeptRun") -> Iterator["KeptRun"]:
    """Keep a run, and say where at its very end: behind the console that an error shows."""
    from ssdbench.errors import SsdbenchError

    try:
        with kept:
            yield kept
    except SsdbenchError as error:
        error.hint = "\n".join(filter(None, (error.hint.rstrip(), kept.where())))
        raise
    except BaseException:
        _tell_where(kept)
        raise
    _tell_where(kept)


def _tell_where(kept: "KeptRun") -> None:
    from ssdbench.cli.output import tell

    if where := kept.where():
        tell(f"lab: {where}")


@contextmanager
def _kept(path: str) -> Iterator[BinaryIO | None]:
    """A new file of this name, if there is one. Raises UsageError where there cannot be."""
    from ssdbench.errors import UsageError

    if not path:
        yield None
        return
    with ExitStack() as opened:
        try:
            file = opened.enter_context(Path(path).open("wb"))
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}") from error
        yield file


LINE_EVERY_S = 2.0
PIECE_BYTES = 1 << 20
_LAB = "ssdbench.lab"
_BUILD = "ssdbench.host.kmod"


class Steps(logging.Handler):
    """Prints each step to stderr, and every two seconds that it goes on.

    Silent as soon as the command in the guest prints anything.
    """

    def __init__(self, word: str) -> None:
        super().__init__(logging.INFO)
        self._word = word
        self._over = Event()
        self._ticker = Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Self:
        for name in (_LAB, _BUILD):
            logger = logging.getLogger(name)
            logger.addHandler(self)
            logger.setLevel(min(logger.getEffectiveLevel(), logging.INFO))
        self._begin("getting ready")
        self._ticker.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.quiet()
        for name in (_LAB, _BUILD):
            logging.getLogger(name).removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """A step began."""
        if record.levelno >= logging.INFO and not self._over.is_set():
            self._begin(record.getMessage())

    def _begin(self, step: str) -> None:
        self._step = step
        self._since = self._told = time.monotonic()
        tell(f"{self._word}: {step}")

    def quiet(self) -> None:
        """Stop printing."""
        self._over.set()

    def _tick(self) -> None:
        while not self._over.wait(LINE_EVERY_S / 4):
            now = time.monotonic()
            if now - self._told > LINE_EVERY_S * 0.7 and not self._over.is_set():
                self._told = now
                tell(f"{self._word}: {self._step} … {now - self._since:.0f} s")


class GuestOutput:
    """Forwards the output of the command in the guest, and keeps it with the console."""

    def __init__(
        self, steps: Steps, kept: "KeptRun", console: BinaryIO | None, *, shown: bool = True
    ) -> None:
        self._steps = steps
        self._kept = kept
        streams = {"stdout": sys.stdout, "stderr": sys.stderr} if shown else {}
        # One that is closed is None.
        self._to = {name: stream.buffer for name, stream in streams.items() if stream}
        self._console = console
        self._shown: dict[Path, int] = {}
        self._told: set[str] = set()

    def look(self, shared: Path) -> None:
        """Hand on what has come since the last look below the directory that the guest shares."""
        for name in ("stdout", "stderr"):
            to = self._to.get(name)
            if self._hand_on(shared / "1" / name, to, shared.parent) and to:
                self._steps.quiet()
        self._hand_on(shared / "1" / "dmesg", None, shared.parent)
        self._hand_on(shared.parents[1] / "console", self._console)

    def _hand_on(self, path: Path, to: BinaryIO | None, below: Path | None = None) -> bool:
        """Hand on what is new in a file; the guest may have put anything in its place."""
        begun = shown = self._shown.get(path, 0)
        try:
            descriptor = open_regular(path, below=below)
        except FileNotFoundError:
            return False
        except OSError as error:
            self._tell_once(
                f"lab: the command's {path.name} can no longer be read: {error.strerror}"
            )
            return False
        with os.fdopen(descriptor, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            if size < shown:
                shown = 0  # a guest that was booted again writes its console anew
            file.seek(shown)
            # What comes meanwhile is for the next look: a guest may write without end.
            while shown < min(size, MOST_BYTES) and (new := file.read(PIECE_BYTES)):
                shown += len(new)
                self._kept.add(path.name, new)
                if to is not None:
                    to.write(new)
                    to.flush()
        if shown >= MOST_BYTES:
            self._tell_once(f"lab: the command's {path.name} is cut after {MOST_BYTES:,} bytes")
        self._shown[path] = shown
        return shown != begun

    def _tell_once(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            tell(line)
