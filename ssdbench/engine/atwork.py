"""A program that works for a unit: a signal or a limit ends it, and the journal hears of it.

fio in options of its own comes through `together`; other programs are waited for with `Vigil`.
"""

import time
from collections.abc import Callable, Collection

from ssdbench.engine.fiorun import ALIVE_EVERY_S
from ssdbench.engine.session import StartsTogether
from ssdbench.engine.stage import Context
from ssdbench.errors import UsageError
from ssdbench.generator.base import JobOutcome
from ssdbench.generator.fio.together import Together
from ssdbench.host.command import Process
from ssdbench.model.rundirectory import FIO

LOOK_S = 0.2


class MustEndError(Exception):
    """The run must end; whoever waits for a program ends that."""


class Vigil:
    """Called again and again while a program works. Raises MustEndError."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._alive_at = context.wall()

    def __call__(self) -> None:
        """Look around once."""
        if why := self._context.must_end():
            raise MustEndError(why)
        if (now := self._context.wall()) - self._alive_at >= ALIVE_EVERY_S:
            self._alive_at = now
            self._context.alive()

    def ended(self, process: Process, within_s: float) -> bool:
        """Whether a program ends in time."""
        until = time.monotonic() + within_s
        while not process.ended(min(LOOK_S, until - time.monotonic())):
            if time.monotonic() >= until:
                return False
            self()
        return True


def together(
    context: Context,
    work: Together,
    *,
    cpus: Collection[int] = (),
    look: Callable[[Process, Vigil], None] = lambda process, vigil: None,
) -> JobOutcome | None:
    """Run fio for the unit at work, on the target or the file system that is mounted on it.

    `look` looks on for the time that counts. None when the run must end. Raises UsageError for a
    target that no kernel serves, and what fio, drive and host do wrong.
    """
    session = context.session
    if not isinstance(session, StartsTogether):
        raise UsageError(
            f"{context.target.name} is no block device, so nothing of the host can be compared",
            hint="Name a whole drive or a loop device, or leave the stage out.",
        )
    vigil = Vigil(context)
    began = time.monotonic()

    def meanwhile(process: Process) -> None:
        look(process, vigil)
        vigil.ended(process, began + work.longest_s - time.monotonic())

    outcome: JobOutcome | None = None
    try:
        outcome = session.together(
            work,
            artifacts=context.directory() / FIO,
            cpus=cpus,
            below=context.mounted,
            meanwhile=meanwhile,
        )
    except MustEndError as why:
        context.unit.cut_short = str(why)
    finally:
        context.recent.forget()
        context.meter.add(
            seconds=time.monotonic() - began,
            bytes_read=outcome.read.bytes if outcome else 0,
            bytes_written=outcome.write.bytes if outcome else 0,
        )
    return outcome
