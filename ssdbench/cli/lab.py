"""Run commands in a QEMU guest that has a distribution kernel and the kernel modules."""

import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, BinaryIO, Self

import click

from ssdbench.cli.options import DURATION, PATH, SIZE, json_option
from ssdbench.cli.output import document, tell
from ssdbench.errors import SsdbenchError, UsageError
from ssdbench.foreign import MOST_BYTES, open_regular
from ssdbench.lab.archive import cache_directory
from ssdbench.lab.disks import parse_all
from ssdbench.lab.kernels import OFFERS, ONLY_COMPILED
from ssdbench.units import MIB, format_size

if TYPE_CHECKING:
    from ssdbench.lab.session import KeptRun


LEAST_MIB = 256  # least memory for kernel, first file system and modules


@click.group()
def lab() -> None:
    """Run commands in a guest with the kernel modules loaded; this host is not changed."""


@lab.command(context_settings={"ignore_unknown_options": True})
@click.option(
    "--kernel", "series", default="6.12", show_default=True,
    help="6.1, 6.12, 6.1-rt, 6.12-rt, 6.12-deb13, 7.x or 7.x-rt: the newest kernel of this series "
    "in Debian. -rt has PREEMPT_RT, -deb13 is the kernel of Debian 13.",
)  # fmt: skip
@click.option(
    "--kernel-dir", type=PATH, metavar="DIR",
    help="Boot the kernel that was built in DIR instead of a kernel of Debian. It needs overlayfs, "
    "virtiofs, PCI virtio and the disks' drivers, built in or as modules.",
)  # fmt: skip
@click.option(
    "--console", default="", metavar="FILE", help="Also write the guest's console to FILE."
)
@click.option(
    "--disk", "disks", multiple=True, metavar="BUS=BACKEND",
    help="A disk of the guest: nvme|ahci|virtio|scsi = sim:MODEL | null:SIZE | FILE; may be given "
    "several times. Options after the bus: hotplug, queues=N, fail=SECTOR, zoned=SIZE, open=N.",
)  # fmt: skip
@click.option(
    "--cpus",
    default=2,
    show_default=True,
    type=click.IntRange(1, 64),
    help="Number of CPUs of the guest.",
)
@click.option("--memory", type=SIZE, default="2GiB", show_default=True, help="Memory of the guest.")
@click.option(
    "--reproducible",
    is_flag=True,
    help="Use one CPU, and let the guest's clock count instructions instead of real time.",
)
@click.option(
    "--program", "programs", multiple=True, metavar="NAME",
    help="Copy this program of the host into the guest's memory, and share no other file of the "
    "host. With --reproducible, two runs then agree to the last digit. May be given several times.",
)  # fmt: skip
@click.option(
    "--append", default="", metavar="TEXT",
    help="Words to add to the kernel's command line, such as nvme.poll_queues=1.",
)  # fmt: skip
@click.option("--multipath", is_flag=True, help="Put NVMe drives behind multipath heads.")
@click.option("--modules/--no-modules", default=True, help="Build and load the bundled modules.")
@click.option(
    "--timeout", type=DURATION, default="1h", show_default=True,
    help="End the guest after this time.",
)  # fmt: skip
@json_option
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    series: str,
    kernel_dir: Path | None,
    console: str,
    disks: tuple[str, ...],
    memory: int,
    timeout: float,
    command: tuple[str, ...],
    *,
    as_json: bool,
    **asked: Any,
) -> None:
    """Run COMMAND in a fresh guest; print its output and exit with its status. Its stdin is empty.

    Without --disk, the guest has one simulated drive, /dev/nvme0n1; with --program, it has no
    drive. A FILE with data needs consent like a drive. If QEMU or the kernel fails before COMMAND
    has begun, the guest is booted again, at most twice, and a message says so. The first use of a
    kernel downloads it from Debian's archive. The consoles and output of the last 20 runs are kept
    in the directory `runs` of SSDBENCH_LAB_CACHE (/var/cache/ssdbench/lab). Needs root.
    """
    if not kernel_dir:
        _require_offered(series)
    memory_mib = memory // MIB
    if memory_mib < LEAST_MIB:
        raise UsageError(
            f"a guest needs at least {LEAST_MIB} MiB of memory, not {format_size(memory)}"
        )
    here_mib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // MIB
    if memory_mib > here_mib:
        raise UsageError(
            f"a guest cannot have {format_size(memory)} of memory: this host has only "
            f"{here_mib} MiB",
            hint="Give a smaller `--memory`.",
        )
    if timeout < 1:
        raise UsageError(f"a guest needs more time than {timeout:g} s to boot")
    requests = tuple(parse_all(disks, in_memory=bool(asked["programs"])))
    cache = cache_directory()
    with Steps("lab") as steps, ExitStack() as stack:
        from ssdbench.lab.session import GuestRequest, KeptRun, run_in_guest

        file = stack.enter_context(_console_file(console))
        kept = stack.enter_context(_kept(KeptRun(cache)))
        request = GuestRequest(
            argv=command,
            series=series,
            kernel_dir=kernel_dir,
            disks=requests,
            cwd=Path.cwd(),
            memory_mib=memory_mib,
            timeout_s=timeout,
            handed_on=not as_json,
            **asked,
        )
        words = GuestOutput(steps, kept, file, shown=not as_json)
        answer = run_in_guest(request, cache, watch=words.look)
    _tell_of_boots(answer.failed_boots)
    if asked["reproducible"] and not asked["programs"]:
        tell(
            "lab: the programs came from the host's files, so two runs agree to about 0.1 %; "
            "with --program NAME for each program, they agree to the last digit"
        )
    if as_json:
        import dataclasses

        from ssdbench.cli.documents.machine import RanInGuest

        document(RanInGuest(**dataclasses.asdict(answer)))
    raise SystemExit(answer.status)


def _require_offered(kernel: str) -> None:
    """Raise UsageError for a kernel name that the lab does not offer."""
    if kernel in OFFERS:
        return
    compiled = kernel in ONLY_COMPILED
    why = ": the modules were compiled for it, but Debian has no image to boot" if compiled else ""
    raise UsageError(
        f"the lab has no kernel {kernel}{why}; it has {', '.join(OFFERS)}",
        hint="To boot another kernel, build it (`make bzImage modules`) and give its directory: "
        "`--kernel-dir DIR`.",
    )


def _tell_of_boots(failed: Sequence[str]) -> None:
    for said in failed:
        tell(f"lab: QEMU or the kernel failed before COMMAND began: {said}")
    if failed:
        tell("lab: the guest was booted again, because the boot failed and COMMAND had not begun")


@contextmanager
def _kept(kept: "KeptRun") -> Iterator["KeptRun"]:
    """Store the output of a run; at the end, print its place, or add it to an error's hint."""
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
    if where := kept.where():
        tell(f"lab: {where}")


@contextmanager
def _console_file(path: str) -> Iterator[BinaryIO | None]:
    """Open the file that --console names; return None without --console. Raises UsageError."""
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
    """Print each step of the preparation to stderr, and a line every 2 s while a step takes long.

    As soon as the command in the guest prints something, no further steps are printed.
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

    def __exit__(self, *exc: object) -> None:
        self.quiet()
        for name in (_LAB, _BUILD):
            logging.getLogger(name).removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Print the step that a record of the lab's log announces."""
        if record.levelno >= logging.INFO and not self._over.is_set():
            self._begin(record.getMessage())

    def _begin(self, step: str) -> None:
        self._step = step
        self._since = self._told = time.monotonic()
        tell(f"{self._word}: {step}")

    def quiet(self) -> None:
        """Stop printing steps."""
        self._over.set()

    def _tick(self) -> None:
        while not self._over.wait(LINE_EVERY_S / 4):
            now = time.monotonic()
            if now - self._told > LINE_EVERY_S * 0.7 and not self._over.is_set():
                self._told = now
                tell(f"{self._word}: {self._step} … {now - self._since:.0f} s")


class GuestOutput:
    """Copy the output of the command in the guest to stdout and stderr, and into the stored run."""

    def __init__(
        self, steps: Steps, kept: "KeptRun", console: BinaryIO | None, *, shown: bool = True
    ) -> None:
        self._steps = steps
        self._kept = kept
        streams = {"stdout": sys.stdout, "stderr": sys.stderr} if shown else {}
        # sys.stdout and sys.stderr are None if their descriptors are closed.
        self._to = {name: stream.buffer for name, stream in streams.items() if stream}
        self._console = console
        self._shown: dict[Path, int] = {}
        self._told: set[str] = set()

    def look(self, shared: Path) -> None:
        """Copy the output since the last call; the guest writes it below `shared`."""
        for name in ("stdout", "stderr"):
            to = self._to.get(name)
            if self._hand_on(shared / "1" / name, to, shared.parent) and to:
                self._steps.quiet()
        self._hand_on(shared / "1" / "dmesg", None, shared.parent)
        self._hand_on(shared.parents[1] / "console", self._console)

    def _hand_on(self, path: Path, to: BinaryIO | None, below: Path | None = None) -> bool:
        """Copy the new bytes of a file to `to`; return whether the file had new bytes.

        The guest may have replaced the file by a link or a pipe, so only a regular file below
        `below` is opened.
        """
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
                shown = 0  # a second boot writes a new console
            file.seek(shown)
            # Stop at the size that was read above, because a guest may write without end.
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
