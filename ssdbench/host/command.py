"""Start programs; no other module of ssdbench starts any.

Every program runs in a session of its own, so that one signal reaches all its processes. A program
prints English messages (LC_ALL=C), which our parsers need, and has no terminal.
"""

import logging
import os
import select
import selectors
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import NoReturn

from ssdbench.errors import AnsweredTooMuch, CommandFailed, HostLacks
from ssdbench.foreign import open_own
from ssdbench.host.files import unwritable
from ssdbench.host.names import behind_env
from ssdbench.units import format_size

# The child first asks the kernel to kill it when we die, and then checks that we are still alive.
# In the other order, it would not notice if we died between the two steps.
_DIE_WITH_US = '[ "$PPID" = "$0" ] && exec env "$@"'

MOST_ANSWER_BYTES = 256 << 20  # limit for a program's output: the largest is an unpacked kernel
_PIECE_BYTES = 1 << 16
TIDYING_S = 2.0  # time for programs to end before they are killed
UNKILLABLE_S = 10.0
_FOR_ROOT = ("/usr/local/sbin", "/usr/sbin", "/sbin")
_inherited: ContextVar[tuple[int, ...]] = ContextVar("inherited", default=())
_awaited: set[int] = set()  # process groups that `run` waits for, in all threads
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Completed:
    """The output and exit status of a program that has ended."""

    stdout: str
    stderr: str
    status: int
    raw: bytes = b""  # stdout as bytes, for binary log pages


def which(program: str) -> str | None:
    """Return the path of a program, or None when it is not installed."""
    return shutil.which(program, path=_search_path())


@contextmanager
def inherited(descriptor: int) -> Iterator[None]:
    """Let programs that `run` starts within the block inherit this open file and its lock."""
    token = _inherited.set((*_inherited.get(), descriptor))
    try:
        yield
    finally:
        _inherited.reset(token)


def run(
    argv: Sequence[str],
    *,
    ok: Collection[int] = (0,),
    hint: str = "",
    env: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
    input: bytes | None = None,  # the name that subprocess uses
    most_bytes: int = MOST_ANSWER_BYTES,
) -> Completed:
    """Run a program to its end and return its output.

    `env` is added to our environment. Raises CommandFailed if the status is not in `ok`, or if the
    program was killed after `timeout_s`. Raises AnsweredTooMuch if it was killed after `most_bytes`
    of output, HostLacks if it is not installed.
    """
    try:
        with subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL if input is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_environment(env),
            pass_fds=_inherited.get(),
            start_new_session=True,
        ) as process:
            story = _Story(process.pid, argv, env)
            _awaited.add(process.pid)
            try:
                stdout, stderr = _said_by(process, input, timeout_s, most_bytes)
            except BaseException as error:
                _signal_group(process.pid, signal.SIGKILL)
                story.ended(process.wait())
                if isinstance(error, subprocess.TimeoutExpired):
                    raise CommandFailed(
                        argv, -signal.SIGKILL, f"no answer within {timeout_s:g} s", hint=hint
                    ) from None
                if isinstance(error, _TooMuch):
                    said = f"its answer is longer than {format_size(most_bytes)}"
                    raise AnsweredTooMuch(argv, -signal.SIGKILL, said, hint=hint) from None
                raise
            finally:
                _awaited.discard(process.pid)
    except OSError as error:
        raise _not_startable(argv[0], error, hint) from error
    story.ended(process.returncode)
    said = stderr.decode(errors="replace")
    if process.returncode not in ok:
        raise CommandFailed(argv, process.returncode, said, hint=hint)
    return Completed(stdout.decode(errors="replace"), said, process.returncode, stdout)


class _TooMuch(Exception):
    """A program printed more than the limit."""


def _said_by(
    process: "subprocess.Popen[bytes]", given: bytes | None, timeout_s: float | None, most: int
) -> tuple[bytes, bytes]:
    """Return stdout and stderr of a program that has ended. Raises TimeoutExpired, _TooMuch.

    Unlike `communicate`, this function has a limit, because a program that prints without end would
    fill the memory.
    """
    until_s = None if timeout_s is None else time.monotonic() + timeout_s
    said: dict[int, list[bytes]] = {}
    length, rest = 0, memoryview(given or b"")
    with selectors.DefaultSelector() as open_ones:
        for pipe in filter(None, (process.stdout, process.stderr)):
            said[pipe.fileno()] = []
            open_ones.register(pipe, selectors.EVENT_READ)
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            open_ones.register(process.stdin, selectors.EVENT_WRITE)
        while open_ones.get_map():
            ready = open_ones.select(_left_s(process, until_s, timeout_s))
            for key, _ in ready:
                if key.fileobj is process.stdin:
                    rest = _handed(key.fd, rest)
                    over = not rest
                else:
                    new = os.read(key.fd, _PIECE_BYTES)
                    said[key.fd].append(new)
                    length, over = length + len(new), not new
                    if length > most:
                        raise _TooMuch
                if over:
                    open_ones.unregister(key.fileobj)
                    key.fileobj.close()  # type: ignore[union-attr]  # pipes of Popen
    process.wait(_left_s(process, until_s, timeout_s))
    stdout, stderr = (b"".join(parts) for parts in said.values())
    return stdout, stderr


def _left_s(
    process: "subprocess.Popen[bytes]", until_s: float | None, timeout_s: float | None
) -> float | None:
    if until_s is None or timeout_s is None:
        return None
    if (left_s := until_s - time.monotonic()) <= 0:
        raise subprocess.TimeoutExpired(process.args, timeout_s)
    return left_s


def _handed(descriptor: int, rest: memoryview) -> memoryview:
    """Write a piece of the input; return the rest, or nothing if the program reads no more."""
    try:
        return rest[os.write(descriptor, rest[:_PIECE_BYTES]) :]
    except BlockingIOError:
        return rest
    except BrokenPipeError:
        return memoryview(b"")


@contextmanager
def ending_together(over: Event, at_work: Collection[str]) -> Iterator[None]:
    """If the block is interrupted, end the threads in `at_work` and the programs they wait for.

    When `over` is set, the threads must start nothing new. Each thread removes its name from
    `at_work` when it ends.
    """
    try:
        yield
    except BaseException:
        over.set()
        asked: set[int] = set()
        began_s = time.monotonic()
        while at_work:
            if time.monotonic() > began_s + TIDYING_S:
                number, groups = signal.SIGKILL, set(_awaited)
            else:  # signal only once: a script may need the time to clean up
                number, groups = signal.SIGTERM, _awaited - asked
            for group in groups:
                _signal_group(group, number)  # `run` then raises CommandFailed
            asked |= groups
            time.sleep(0.02)
        raise


class Process:
    """A running program and all other processes in its process group."""

    def __init__(
        self, popen: "subprocess.Popen[bytes]", argv: Sequence[str], story: "_Story"
    ) -> None:
        self._popen = popen
        self._story = story
        self.pid = popen.pid
        self.argv = tuple(argv)

    def poll(self) -> int | None:
        """Return the exit status (negative: the signal that ended it), or None while it runs."""
        status = self._popen.poll()
        if status is not None:
            self._story.ended(status)
        return status

    def ended(self, within_s: float) -> bool:
        """Wait up to `within_s`; return whether the program has ended.

        Unlike `poll` and `wait`, this method does not collect the exit status, so that /proc still
        shows the process.
        """
        if self._popen.returncode is not None:
            return True
        descriptor = os.pidfd_open(self.pid)
        try:
            return bool(select.select([descriptor], [], [], max(within_s, 0.0))[0])
        finally:
            os.close(descriptor)

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Wait for the end and return the status; None when `timeout_s` passed first."""
        if timeout_s is not None and not self.ended(timeout_s):
            return None
        status = self._popen.wait()
        self._story.ended(status)
        return status

    def send(self, signal_number: int) -> None:
        """Send a signal to the whole process group; do nothing if the program has ended."""
        if self.poll() is None:
            _log.debug("signal %d to process group %d", signal_number, self.pid)
            _signal_group(self.pid, signal_number)

    def terminate(self, grace_s: float = 5.0) -> int:
        """Send SIGTERM to the whole group, and SIGKILL after `grace_s`; return the exit status."""
        self.send(signal.SIGTERM)
        status = self.wait(grace_s)
        return self.kill() if status is None else status

    def kill(self) -> int:
        """Send SIGKILL to the whole group, wait for the end, and return the exit status.

        A program that waits for a request to a dead drive cannot be killed. After UNKILLABLE_S,
        this method no longer waits for it.
        """
        self.send(signal.SIGKILL)
        status = self.wait(UNKILLABLE_S)
        return -signal.SIGKILL if status is None else status


def spawn(
    argv: Sequence[str],
    *,
    stdout: Path | None,
    stderr: Path | None,
    env: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
    cwd: Path | None = None,
    cpus: Collection[int] | None = None,
) -> Process:
    """Start a program that the kernel kills when the calling thread ends, for whatever reason.

    Output goes to new or emptied files, or is discarded. `env` is added to our environment for this
    program only; the descriptors in `pass_fds` stay open in it; `cpus` are the only CPUs that it
    may use. Raises HostLacks when the program is not installed.
    """
    for needed in (argv[0], "setpriv"):
        if which(needed) is None:
            raise HostLacks(f"{needed} is not installed", hint=_how_to_install(needed))
    if cwd is not None and not cwd.is_dir():
        raise HostLacks(f"cannot run {argv[0]} in {cwd}: it is not a directory")
    pin = ["taskset", "-c", ",".join(str(cpu) for cpu in sorted(cpus))] if cpus else []
    # env(1) sets the variables, so that a preloaded library is loaded into the program only.
    # setpriv, sh, taskset and env each replace themselves by the next program, so the process id
    # stays the same.
    chain = [
        "setpriv", "--pdeathsig", "KILL",
        *pin,
        "sh", "-c", _DIE_WITH_US, str(os.getpid()),
        *(f"{name}={value}" for name, value in (env or {}).items()),
        *behind_env(argv),
    ]  # fmt: skip
    try:
        with _said(stdout) as out, _said(stderr) as err:
            popen = subprocess.Popen(
                chain,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=_environment(None),
                pass_fds=tuple(pass_fds),
                cwd=cwd,
                start_new_session=True,
            )
    except OSError as error:
        raise _not_startable(argv[0], error, "") from error
    return Process(popen, argv, _Story(popen.pid, argv, env, cwd=cwd))


@contextmanager
def _said(path: Path | None) -> Iterator[int]:
    try:
        descriptor = subprocess.DEVNULL if path is None else open_own(path)
    except OSError as error:
        raise unwritable(path or Path(os.devnull), error) from error
    try:
        yield descriptor
    finally:
        if path is not None:
            os.close(descriptor)


def foreground(argv: Sequence[str]) -> int:
    """Run a program that uses the terminal while this process waits; return its status.

    A negative status is the number of the signal that ended the program. The program shares our
    stdin, stdout and stderr, and gets Ctrl-C, SIGTERM and SIGHUP. Only the main thread may call
    this function. Raises HostLacks when the program is not installed.
    """
    try:
        process = subprocess.Popen(list(argv), env=_environment(None))
    except OSError as error:
        raise _not_startable(argv[0], error, "") from error
    story = _Story(process.pid, argv, None)

    def pass_on(number: int, frame: object) -> None:
        process.send_signal(number)

    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
        **{number: signal.signal(number, pass_on) for number in (signal.SIGTERM, signal.SIGHUP)},
    }
    try:
        status = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    story.ended(status)
    return status


def become(argv: Sequence[str]) -> NoReturn:
    """Replace this process by a program. Raises HostLacks when the program cannot be started."""
    _log.debug("process %d becomes: %s", os.getpid(), shlex.join(argv))
    try:
        os.execv(argv[0], list(argv))
    except OSError as error:
        raise _not_startable(argv[0], error, "") from error


class _Story:
    """Write to the log of `--debug` when a program started, and how and when it ended."""

    def __init__(
        self,
        pid: int,
        argv: Sequence[str],
        env: Mapping[str, str] | None,
        *,
        cwd: Path | None = None,
    ) -> None:
        self._pid = pid
        self._program = argv[0]
        self._began_s = time.monotonic()
        self._told = False
        words = [f"{name}={value}" for name, value in (env or {}).items()]
        where = f" (in {cwd})" if cwd else ""
        _log.debug("started %d: %s%s", pid, shlex.join([*words, *argv]), where)

    def ended(self, status: int) -> None:
        """Log once that the program ended; a negative status is the signal that ended it."""
        if self._told:
            return
        self._told = True
        how = f"exit {status}" if status >= 0 else f"signal {-status}"
        took_s = time.monotonic() - self._began_s
        _log.debug("ended %d: %s after %.3f s: %s", self._pid, how, took_s, self._program)


def _environment(extra: Mapping[str, str] | None) -> dict[str, str]:
    return {**os.environ, "PATH": _search_path(), "LC_ALL": "C", **(extra or {})}


def _search_path() -> str:
    """Return PATH with the system directories that Debian hides from ordinary users (wipefs)."""
    given = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(dict.fromkeys([*given, *_FOR_ROOT]))


def _signal_group(pid: int, signal_number: int) -> None:
    try:
        os.killpg(pid, signal_number)
    except ProcessLookupError:
        return


def _how_to_install(program: str) -> str:
    package = {"setpriv": "util-linux", "wipefs": "util-linux", "nvme": "nvme-cli"}.get(
        program, program
    )
    return f"install it, for example with `apt-get install {package}`"


def _not_startable(program: str, error: OSError, hint: str) -> HostLacks:
    if isinstance(error, FileNotFoundError):
        return HostLacks(f"{program} is not installed", hint=hint or _how_to_install(program))
    return HostLacks(f"{program} cannot be started: {error.strerror}", hint=hint)
