"""Handling of SIGINT, SIGTERM and SIGHUP, for commands and for runs."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Self

from ssdbench.cli.output import tell
from ssdbench.errors import Interrupted

TIDYING_S = 5.0
_ENDING = (signal.SIGINT, signal.SIGTERM)
_THREE = (*_ENDING, signal.SIGHUP)


class SignalReceived(KeyboardInterrupt):
    """A signal asks a command to end. No SsdbenchError: whoever takes those and goes on, ends."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.exit_code = 128 + signal_number


def interrupted_code(end: BaseException) -> int:
    """That of a command which was interrupted; click makes an Abort of what ends its prompts."""
    return int(getattr(end, "exit_code", getattr(end.__context__, "exit_code", 130)))


@contextmanager
def signals_end_command() -> Iterator[None]:
    """Let each of the three end a command by Asked, so that it ends its programs and tidies up.

    Whoever is impatient does not disturb it in that, for TIDYING_S; and not Python's own end
    afterwards. A signal that is ignored, as by nohup, stays so.
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
    except SignalReceived as asked:  # when all is said
        raise SystemExit(asked.exit_code) from None


class Signals:
    """From `with` to its end: one signal ends the run cleanly, a second one at once.

    The first is only noted, and `pending` is asked by the engine between two samples. From the
    third on they change nothing: settings are being put back by then. SIGHUP is ignored, so that a
    run outlives its terminal.
    """

    def __init__(self) -> None:
        self._seen: list[int] = []
        self._before: dict[signal.Signals, object] = {}

    def pending(self) -> int | None:
        """The signal that asks the run to end, or None."""
        return self._seen[0] if self._seen else None

    def __enter__(self) -> Self:
        for number in _ENDING:
            self._before[number] = signal.signal(number, self._note)
        self._before[signal.SIGHUP] = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # as signal() gave it

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._seen.append(number)
        if len(self._seen) == 1:
            tell("stopping: what was measured is kept and reported; a second signal stops at once")
        elif len(self._seen) == 2:
            raise Interrupted(number)
        elif len(self._seen) == 3:
            tell(
                f"stopping already; settings are put back first. If it hangs: kill -KILL "
                f"{os.getpid()}, then `ssdbench restore`"
            )
