"""What Ctrl-C, SIGTERM and SIGHUP mean to a command, and to a run."""

import signal
from types import FrameType, TracebackType
from typing import Self

from ssdbench.cli.output import tell
from ssdbench.errors import Interrupted

_ENDING = (signal.SIGINT, signal.SIGTERM)


class Asked(KeyboardInterrupt):
    """A signal asks a command to end. No SsdbenchError: whoever takes those and goes on, ends."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.exit_code = 128 + signal_number


def heed() -> None:
    """Let each of the three end a command by Asked, so that it ends its programs and tidies up.

    One that is ignored, as by nohup, stays so.
    """

    def end(number: int, frame: FrameType | None) -> None:
        raise Asked(number)

    for number in (*_ENDING, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end)


class Signals:
    """From `with` to its end: one signal ends the run cleanly, a second one at once.

    The first is only noted, and `pending` is asked by the engine between two samples. A third is
    left to the kernel. SIGHUP is ignored, so that a run outlives its terminal.
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
            return
        for ending in _ENDING:
            signal.signal(ending, signal.SIG_DFL)
        raise Interrupted(number)
