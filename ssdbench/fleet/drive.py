"""Measure one drive of a fleet: start its run or attach to it, then poll until the run has ended.

Each step is decided only from the latest answer of the host. So a step may be interrupted,
repeated, or done by two control hosts at the same time. No decision compares the clock of a host
with the clock of this machine.
"""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from threading import Event
from typing import Any, TypeVar

from ssdbench.errors import UsageError, telling
from ssdbench.fleet import hostscripts
from ssdbench.fleet.hostscripts import Job, Look
from ssdbench.fleet.transport import ScriptResult, Silent, Transport, Untrusted
from ssdbench.foreign import json_object, plain

T = TypeVar("T")

MOST_STARTS = 5  # starts in a row of a run that ends each time without progress
CLOCK_OFF_S = 300.0
LEAST_FREE_BYTES = 1 << 30
SIGTERM_CODE, SIGINT_CODE = 143, 130
drives_at_work: set[str] = set()  # names of the runs that a thread of this process polls
threads_ending = Event()  # set when the polling threads must end; the runs on the hosts continue
_ERROR = re.compile(r"^(?:error|refused): (.+)", re.MULTILINE)
MEASURED = {0: "VALIDATED", 1: "not validated", 6: "missed a target of its profile"}


class Stage(StrEnum):
    """The step that the measurement of a drive has reached, or how it has ended."""

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    SILENT = "silent"  # the host does not answer
    MEASURED = "measured"  # the run has finished, with any verdict
    STOPPED = "stopped"
    REFUSED = "refused"  # ssdbench on the host refused the drive, or ssh refused the host's key
    FAILED = "failed"
    GIVEN_UP = "given up"  # the host did not answer for too long

    @property
    def is_end(self) -> bool:
        """Return whether this status is final, so that only the next `fleet run` can change it."""
        return self in (Stage.MEASURED, Stage.STOPPED, Stage.REFUSED, Stage.FAILED, Stage.GIVEN_UP)


@dataclass(frozen=True, slots=True)
class State:
    """The status of a drive, with the progress of its run, the last message and the findings."""

    stage: Stage
    said: str = ""
    exit_code: int | None = None
    fraction: float | None = None
    left_s: float | None = None
    rate_iops: float | None = None
    text: str = ""  # the current step of the run
    findings: tuple[str, ...] = ()
    starts: int = 0
    clock_off_s: float | None = None  # clock of the host minus clock of this machine
    free_bytes: int | None = None

    @property
    def may_run(self) -> bool:
        """Return whether the run may still be in progress: its exit code is not known."""
        heard_of = (Stage.STARTING, Stage.RUNNING)
        unheard = (Stage.SILENT, Stage.GIVEN_UP, Stage.REFUSED)  # REFUSED: the host's key, by ssh
        return self.exit_code is None and self.stage in (*heard_of, *unheard)

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> "State":
        """Make a state from stored JSON fields. Raises ValueError, KeyError, TypeError."""
        known = {field.name: stored[field.name] for field in fields(cls) if field.name in stored}
        return cls(
            **{**known, "stage": Stage(stored["stage"]), "findings": tuple(stored["findings"])}
        )


class ThreadEnding(Exception):
    """The thread that polls a drive must end; the run on the host continues."""


def pause(seconds: float) -> None:
    """Sleep for `seconds`. Raises ThreadEnding as soon as the polling threads must end."""
    if threads_ending.wait(seconds):
        raise ThreadEnding


@dataclass(frozen=True, slots=True)
class Patience:
    """How often to poll a host, and how long to wait without an answer; tests replace clocks."""

    look_every_s: float
    give_up_after_s: float
    sleep: Callable[[float], None] = pause
    now: Callable[[], float] = time.monotonic
    clock: Callable[[], float] = time.time


def measure(job: Job, reach: Transport, patience: Patience, tell: Callable[[State], None]) -> State:
    """Measure one drive; call `tell` with each state, return the last. Raises ThreadEnding."""
    drives_at_work.add(job.name)
    try:
        return _Run(job, reach, patience, tell).run_to_end()
    finally:
        drives_at_work.discard(job.name)


class _Run:
    def __init__(
        self, job: Job, reach: Transport, patience: Patience, tell: Callable[[State], None]
    ) -> None:
        self._job, self._reach, self._patience, self._tell = job, reach, patience, tell
        self._heard = patience.now()
        self._starts = 0
        self._without_progress = 0
        self._last = State(Stage.STARTING)
        self._after_s = 0.0  # time that the host sleeps before it answers the next poll

    def run_to_end(self) -> State:
        """Start the run and poll it until its end; start it again after each interruption.

        An interruption is a shutdown or reboot of the host, or the death of the process of the run.
        The run is reported as failed if it dies MOST_STARTS times without progress.
        """
        while True:
            self._report_state(State(Stage.STARTING, starts=self._starts))
            said = self._retry_while_silent(self._started)
            if isinstance(said, State):
                return said
            if said.status:
                return self._refused(said)
            self._starts += 1
            if (end := self._look_until_end()) is not None:
                return end
            if self._without_progress >= MOST_STARTS:
                return self._end(
                    Stage.FAILED, f"its run died {MOST_STARTS} times at the same place"
                )

    def _look_until_end(self) -> State | None:
        """Poll until the run has ended; return None if it was interrupted and must be continued."""
        reached = self._last.fraction, self._last.text
        while True:
            look = self._retry_while_silent(self._looked)
            if isinstance(look, State):
                return look
            self._report_state(self._running(look))
            if look.exit_code is not None and not look.alive:
                if look.exit_code == SIGTERM_CODE:  # the host is shutting down
                    self._patience.sleep(self._patience.look_every_s)
                    return None
                return self._ended(look.exit_code, look.log)
            if not look.alive:
                again = (self._last.fraction, self._last.text) == reached
                self._without_progress = self._without_progress + 1 if again else 0
                self._patience.sleep(min(10.0, self._patience.look_every_s))
                return None

    def _started(self) -> ScriptResult:
        self._after_s = 0.0
        return hostscripts.start(self._job, self._reach, self._patience.look_every_s)

    def _looked(self) -> Look:
        """Poll once; log in early, while the script of the last poll still holds the host lock."""
        after_s, self._after_s = self._after_s, 0.0  # a poll after a failed one does not sleep
        look = hostscripts.look(self._job, self._reach, after_s)
        self._after_s = self._patience.look_every_s
        return look

    def _retry_while_silent(self, call: Callable[[], T]) -> T | State:
        """Call until the host answers; return the final state if it is silent for too long."""
        wait_s = min(10.0, self._patience.look_every_s)
        while True:
            if threads_ending.is_set():
                raise ThreadEnding
            try:
                answer = call()
                self._heard = self._patience.now()
                return answer
            except Untrusted as error:
                return self._end(Stage.REFUSED, error.message)
            except (Silent, UsageError) as error:
                silent_s = self._patience.now() - self._heard
                self._report_state(State(Stage.SILENT, said=error.message, starts=self._starts))
                if silent_s >= self._patience.give_up_after_s:
                    return self._end(Stage.GIVEN_UP, f"no answer for too long: {error.message}")
            self._patience.sleep(wait_s)
            wait_s = min(2 * wait_s, self._patience.look_every_s)

    def _running(self, look: Look) -> State:
        progress = look.progress
        off = None if look.clock_s is None else look.clock_s - self._patience.clock()
        odd = off is not None and abs(off) > CLOCK_OFF_S
        notes = [f"note: the host's clock is {off / 3600:+.1f} h off"] if odd and off else []
        if look.free_bytes is not None and look.free_bytes < LEAST_FREE_BYTES:
            notes.append("note: less than 1 GiB is free where its run is stored")
        return State(
            Stage.RUNNING,
            fraction=_real(progress.get("fraction")),
            left_s=_real(progress.get("left_s")),
            rate_iops=_real(progress.get("rate_iops")),
            text=plain(str(progress.get("text", "")), 200),
            findings=(*notes, *look.findings),
            starts=self._starts,
            clock_off_s=off,
            free_bytes=look.free_bytes,
        )

    def _ended(self, code: int, log: str) -> State:
        if code in MEASURED:
            return self._end(Stage.MEASURED, MEASURED[code], code)
        if code == SIGINT_CODE:
            return self._end(Stage.STOPPED, "stopped; the next `fleet run` continues it", code)
        errors = _ERROR.findall(log)
        why = plain(errors[-1] if errors else f"its log ends with: {telling(log)}", 400)
        return self._end(Stage.FAILED, f"exit code {code}: {why}", code)

    def _refused(self, said: ScriptResult) -> State:
        try:
            error = json_object(said.stdout).get("error")
            words = str(error["message"]) if isinstance(error, dict) else ""
        except (ValueError, KeyError):
            words = ""
        stage = Stage.REFUSED if said.status in (2, 3) else Stage.FAILED
        return self._end(stage, plain(words or telling(said.stderr), 1000), said.status)

    def _end(self, stage: Stage, said: str, code: int | None = None) -> State:
        kept = self._last
        return State(
            stage, said=said, exit_code=code, findings=kept.findings, starts=self._starts,
            clock_off_s=kept.clock_off_s, free_bytes=kept.free_bytes, text=kept.text,
            fraction=1.0 if stage is Stage.MEASURED else kept.fraction,
        )  # fmt: skip

    def _report_state(self, state: State) -> None:
        self._last = state
        self._tell(state)


def _real(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if abs(value) < 1e18 else None
