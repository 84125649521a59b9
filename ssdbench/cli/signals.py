"""Handle SIGINT, SIGTERM and SIGHUP, for commands and for runs."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Self

from ssdbench.cli.output import tell
from ssdbench.errors import Interrupted

TIDYING_S = 5.0
_ENDING = (signal.SIGINT, signal.SIGTERM)
_THREE = (*_ENDING, signal.SIGHUP)


class SignalReceived(KeyboardInterrupt):
    """A signal asks the command to end.

    It is not a subclass of SsdbenchError, so that code which catches SsdbenchError does not catch
    it.
    """

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.exit_code = 128 + signal_number


def interrupted_code(end: BaseException) -> int:
    """Return the exit code of a command that a signal ended; click may wrap `end`."""
    return int(getattr(end, "exit_code", getattr(end.__context__, "exit_code", 130)))


@contextmanager
def signals_end_command() -> Iterator[None]:
    """Raise SignalReceived on a signal, so that a command ends its programs and cleans up.

    Further signals within TIDYING_S are ignored. Signals are also ignored while Python exits. A
    signal that was ignored before, as with nohup, stays ignored.
    """
    asked_s = -TIDYING_S

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal asked_s
        if time.monotonic() - asked_s > TIDYING_S:
            asked_s = time.monotonic()
            raise SignalReceived(number)

    try:
        try:
            for number in _THREE:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    signal.signal(number, end)
            yield
        finally:
            for number in _THREE:
                signal.signal(number, signal.SIG_IGN)
    except SignalReceived as signalled:  # a second signal, while messages were printed
        raise SystemExit(signalled.exit_code) from None


class Signals:
    """Inside the `with` block, the first signal ends a run cleanly, the second signal at once.

    The first signal is only stored, and the engine calls `pending` between two samples to see it. A
    third or later signal does nothing, because the run is then restoring settings. SIGHUP is
    ignored, so that a run continues when its terminal is closed.
    """

    def __init__(self) -> None:
        self._seen: list[int] = []
        self._before: dict[signal.Signals, object] = {}

    def pending(self) -> int | None:
        """Return the number of the first signal that was received, or None."""
        return self._seen[0] if self._seen else None

    def __enter__(self) -> Self:
        for number in _ENDING:
            self._before[number] = signal.signal(number, self._note)
        self._before[signal.SIGHUP] = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # as signal() gave it

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._seen.append(number)
        if len(self._seen) == 1:
            tell(
                "stopping: finished measurements are kept and reported; a second signal stops at "
                "once"
            )
        elif len(self._seen) == 2:
            raise Interrupted(number)
        elif len(self._seen) == 3:
            tell(
                "already stopping; the host settings are restored first. If this hangs: kill -KILL "
                f"{os.getpid()}, then `ssdbench restore`"
            )
