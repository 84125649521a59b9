"""What can go wrong, as types; only the command line prints them and picks the exit code.

    SsdbenchError               exit 1   (never raised itself)
    ├── UsageError              exit 2   a wrong command line or argument
    │   ├── Misplaced           exit 2   what this target or host cannot do; becomes a ProfileError
    │   └── ProfileError        exit 2   a wrong profile; carries one Diagnostic per mistake
    ├── TargetRefused           exit 3   the target must not be written; carries every reason
    ├── HostLacks               exit 4   something is missing on the host (fio, root, a module)
    │   └── CommandFailed       exit 4   a program that we started failed
    │       └── AnsweredTooMuch exit 4   and one that said more than there is room for
    ├── DeviceError             exit 5   the drive answered with an error
    │   └── DeviceLost          exit 5   the drive went away or changed its size
    └── Interrupted             exit 130 or 143

A bad *result* is no exception: it is a `ssdbench.model.finding.Finding`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ssdbench.foreign import plain


class SsdbenchError(Exception):
    """One sentence that says what is wrong and where, and a hint that says what to do.

    Several sentences come as a sequence, a line for each: foreign text never begins a line.
    """

    exit_code = 1

    def __init__(self, message: str | Sequence[str], *, hint: str = "") -> None:
        sentences = [message] if isinstance(message, str) else message
        self.message = "\n".join(map(plain, sentences))
        super().__init__(self.message)
        self.hint = hint


class UsageError(SsdbenchError):
    """The command line asks for something that cannot be."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One mistake in a file, in the form that compilers and editors use."""

    file: str
    line: int
    column: int
    message: str
    key: str = ""  # that the message begins with, where it is about one

    @property
    def reason(self) -> str:
        """The message without its key, for whoever did not write the file."""
        return self.message.removeprefix(f"{self.key}: ")

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.message}"


class ProfileError(UsageError):
    """A profile is wrong; all its mistakes at once."""

    def __init__(self, diagnostics: Sequence[Diagnostic], *, hint: str = "") -> None:
        super().__init__([str(d) for d in diagnostics], hint=hint)
        self.diagnostics = tuple(diagnostics)


class Misplaced(UsageError):
    """What a profile asks for cannot be; `path` says which of its keys asks for it."""

    def __init__(self, path: tuple[str | int, ...], error: UsageError) -> None:
        super().__init__(error.message, hint=error.hint)
        self.path = path


class TargetRefused(SsdbenchError):
    """The target must not be written; every reason, so that all can be mended in one go.

    `options` are the words that the same command line lacks; empty when no option would help.
    """

    exit_code = 3

    def __init__(
        self, target: str, reasons: Sequence[str], *, hint: str = "", options: Sequence[str] = ()
    ) -> None:
        super().__init__([f"{target}: {reason}" for reason in reasons], hint=hint)
        self.target = target
        self.reasons = tuple(reasons)
        self.options = tuple(options)


class HostLacks(SsdbenchError):
    """The host lacks a program, a right or a feature that the work needs."""

    exit_code = 4


_TELLS = re.compile(
    r"\b(?:error|failed|failure|fatal|cannot|can't|could not|unable|invalid|denied|refused"
    r"|not (?:found|permitted|supported|allowed)|no such|no space|busy)\b",
    re.IGNORECASE,
)
_ADVICE = re.compile(r"^\s*(?:hint|try|usage|see|note|for more)\b", re.IGNORECASE)


def telling(said: str) -> str:
    """The line of a program's messages that says what went wrong; else its last line.

    A hint, a usage line or an epilogue often comes after it.
    """
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    plain = [line for line in lines if not _ADVICE.match(line)]
    lines_that_tell = [line for line in plain if _TELLS.search(line)] or plain or lines
    return lines_that_tell[-1] if lines_that_tell else "it printed nothing"


class CommandFailed(HostLacks):
    """A program that ssdbench started ended badly."""

    def __init__(self, argv: Sequence[str], status: int, stderr: str, *, hint: str = "") -> None:
        how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
        super().__init__(f"{' '.join(argv)}: {how}: {telling(stderr)}", hint=hint)
        self.argv = tuple(argv)
        self.status = status
        self.stderr = stderr


class AnsweredTooMuch(CommandFailed):
    """A program said more than whoever started it takes, and was ended for it."""


class DeviceError(SsdbenchError):
    """The drive answered a request with an error."""

    exit_code = 5


class DeviceLost(DeviceError):
    """The drive went away, or is no longer the size that it was."""


class Interrupted(SsdbenchError):
    """The user or the system asked the run to end."""

    def __init__(self, signal_number: int) -> None:
        super().__init__("interrupted; what was measured is kept")
        self.signal_number = signal_number
        self.exit_code = 128 + signal_number
