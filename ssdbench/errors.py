"""Define the errors of ssdbench; only the command line prints them and chooses the exit code.

    SsdbenchError               exit 1   (never raised itself)
    ├── UsageError              exit 2   a wrong command line or argument
    │   ├── Misplaced           exit 2   a request that this target or host cannot fulfil
    │   └── ProfileError        exit 2   a wrong profile, with one Diagnostic per mistake
    ├── TargetRefused           exit 3   the target must not be written, with all reasons
    ├── HostLacks               exit 4   something is missing on the host (fio, root, a module)
    │   └── CommandFailed       exit 4   a program that ssdbench started failed
    │       └── AnsweredTooMuch exit 4   a program printed too much and was ended
    ├── DeviceError             exit 5   the drive answered with an error
    │   └── DeviceLost          exit 5   the drive disappeared or changed its size
    └── Interrupted             exit 130 or 143

A bad *result* is not an exception: it is a `ssdbench.model.finding.Finding`.
"""

import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ssdbench.foreign import plain


class SsdbenchError(Exception):
    """An error: a sentence that says what is wrong and where, and a hint that says what to do.

    Several sentences are given as a sequence and printed on separate lines. Line breaks inside a
    sentence are escaped, so that text from a file or drive cannot look like a message.
    """

    exit_code = 1

    def __init__(self, message: str | Sequence[str], *, hint: str = "") -> None:
        sentences = [message] if isinstance(message, str) else message
        self.message = "\n".join(map(plain, sentences))
        super().__init__(self.message)
        self.hint = hint


class UsageError(SsdbenchError):
    """The command line requests something that is not possible."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One mistake in a file, with its line and column, in the format of compilers."""

    file: str
    line: int
    column: int
    message: str
    key: str = ""  # the key at the beginning of the message, if the mistake is at a key

    @property
    def reason(self) -> str:
        """Return the message without its key, for a user who did not write the file."""
        return self.message.removeprefix(f"{self.key}: ")

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.message}"


class ProfileError(UsageError):
    """A profile is wrong; the error has all its mistakes."""

    def __init__(self, diagnostics: Sequence[Diagnostic], *, hint: str = "") -> None:
        super().__init__([str(d) for d in diagnostics], hint=hint)
        self.diagnostics = tuple(diagnostics)


class Misplaced(UsageError):
    """A profile requests something impossible at the key `path`; becomes a ProfileError."""

    def __init__(self, path: tuple[str | int, ...], error: UsageError) -> None:
        super().__init__(error.message, hint=error.hint)
        self.path = path


class TargetRefused(SsdbenchError):
    """The target must not be written; the error has all reasons, and options that override them."""

    exit_code = 3

    def __init__(
        self, target: str, reasons: Sequence[str], *, hint: str = "", options: Sequence[str] = ()
    ) -> None:
        super().__init__([f"{target}: {reason}" for reason in reasons], hint=hint)
        self.target = target
        self.reasons = tuple(reasons)
        self.options = tuple(options)


class HostLacks(SsdbenchError):
    """The host lacks a program, a permission or a feature that is needed."""

    exit_code = 4


_TELLS = re.compile(
    r"\b(?:error|failed|failure|fatal|cannot|can't|could not|unable|invalid|denied|refused"
    r"|not (?:found|permitted|supported|allowed)|no such|no space|busy)\b",
    re.IGNORECASE,
)
_ADVICE = re.compile(r"^\s*(?:hint|try|usage|see|note|for more)\b", re.IGNORECASE)


def telling(said: str) -> str:
    """Return the line of a program's messages that explains the failure, else the last line.

    A hint or a usage line often follows this line, so the last line is often not the right one.
    """
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    plain = [line for line in lines if not _ADVICE.match(line)]
    lines_that_tell = [line for line in plain if _TELLS.search(line)] or plain or lines
    return lines_that_tell[-1] if lines_that_tell else "it printed nothing"


def how_to_install(package: str) -> str:
    """Return the command that adds a Python package to the environment of this ssdbench."""
    wanted, home = shlex.quote(package), Path(sys.prefix)
    if (home / "pipx_metadata.json").exists():
        return f"pipx inject {shlex.quote(home.name)} {wanted}"
    python = shlex.quote(sys.executable)
    if find_spec("pip") is None:  # made by uv, by `fleet install`, by the .deb
        return f"python3 -m pip --python {python} install {wanted}"
    return f"{python} -m pip install {wanted}"


class CommandFailed(HostLacks):
    """A program that ssdbench started failed."""

    def __init__(self, argv: Sequence[str], status: int, stderr: str, *, hint: str = "") -> None:
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        super().__init__(f"{' '.join(argv)}: {how}: {telling(stderr)}", hint=hint)
        self.argv = tuple(argv)
        self.status = status
        self.stderr = stderr


class AnsweredTooMuch(CommandFailed):
    """A program printed more than its caller accepts, and was ended."""


class DeviceError(SsdbenchError):
    """The drive answered a request with an error."""

    exit_code = 5


class DeviceLost(DeviceError):
    """The drive disappeared, or changed its size."""


class Interrupted(SsdbenchError):
    """The user or the system asked the run to end with a signal."""

    def __init__(self, signal_number: int) -> None:
        super().__init__("interrupted; finished measurements are kept")
        self.signal_number = signal_number
        self.exit_code = 128 + signal_number
