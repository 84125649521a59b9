"""Sample a running fio every second from the kernel's counters.

Samples are taken at fixed times. A late sample covers more than a second; the sample after it is on
time again.
"""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Protocol

from ssdbench.generator.base import Job, Second
from ssdbench.host.command import Process
from ssdbench.host.counters import DiskStat, ProcessIo, catches, disk_counters, process_counters

FIRST_IO_POLL_S = 0.01  # by so much the first second may start too early or late
STOP_SIGNAL = signal.SIGINT
STARTS_WITHIN_S = 10.0  # fio needs this to start its jobs on a busy host
STOP_GRACE_S = 15.0  # time for fio to end its I/O and write logs and report
KILL_GRACE_S = 5.0


@dataclass(frozen=True, slots=True)
class Reading:
    """Hold sums of I/O up to now; I/Os of other programs are counted separately."""

    read_ios: int = 0
    write_ios: int = 0
    read_bytes: int = 0
    write_bytes: int = 0
    foreign_ios: int = 0

    @property
    def progress(self) -> tuple[int, int]:
        """Return the bytes read and written, which change as long as I/O finishes."""
        return self.read_bytes, self.write_bytes

    def since(self, before: "Reading", *, t_s: float, duration_s: float) -> Second:
        """Return the I/O since an earlier reading."""
        names = [field.name for field in fields(self)]
        more = {name: max(0, getattr(self, name) - getattr(before, name)) for name in names}
        return Second(t_s=t_s, duration_s=duration_s, **more)


class Feed(Protocol):
    """Define the source of one run of fio's one-second samples."""

    origin_s: float  # when t_s was 0, on CLOCK_MONOTONIC, the clock of fio's logs
    hung_s: float | None  # how long no I/O finished, if fio was killed for this

    def seconds(self) -> Iterator[Second]:
        """Yield one Second after another until fio has ended."""
        ...

    def stop(self) -> None:
        """Ask fio to end its I/O and to write its report."""
        ...

    def abandon(self) -> None:
        """End fio now; its results are not needed."""
        ...


class Meter(Protocol):
    """Define the counters of the I/O of a running fio."""

    def read(self) -> Reading:
        """Return the sums of I/O up to now; after fio's end, the last sums that could be read."""
        ...

    def close(self) -> None:
        """Close the counters."""
        ...


def one_block(jobs: Sequence[Job]) -> int | None:
    """Return the size of the jobs' I/Os if all have the same size, else None."""
    blocks = {size for job in jobs for size in job.workload.block_sizes}
    return blocks.pop() if len(blocks) == 1 else None


class DeviceMeter:
    """Read a block device's counters, and the process fio's counters to separate others' I/O.

    The kernel counts an I/O for fio when it is submitted, and for the device when it is done. So if
    the device has more bytes than fio, the additional bytes belong to other programs. If all I/Os
    have one size, their number is computed from the bytes, because the kernel merges and splits
    requests.

    The counters of the process fio also include its libraries and logs on the system's disk. So if
    all jobs only write (`reads` False) or only read, all I/O of the device in the other direction
    counts as I/O of other programs.
    """

    def __init__(
        self,
        major_minor: str,
        pid: int,
        *,
        block_bytes: int | None,
        root: Path,
        reads: bool = True,
        writes: bool = True,
    ) -> None:
        self._does = reads, writes
        self._block = block_bytes
        self._disk = disk_counters(major_minor, root)
        try:
            self._process = process_counters(pid, root)
        except OSError:
            self._disk.close()
            raise
        self._base: tuple[DiskStat, ProcessIo] | None = None
        self._foreign = (0, 0)  # largest bytes read, written by others so far
        self._last = Reading()

    def read(self) -> Reading:
        try:
            disk = self._disk.read()
        except (OSError, ValueError):
            return self._last  # the device is gone: fio's report will say so
        ours = self._ours()
        if self._base is None:
            self._base = disk, ours or ProcessIo(0, 0)
        first, first_ours = self._base
        done = disk.read_bytes - first.read_bytes, disk.write_bytes - first.write_bytes
        if ours is not None:
            beyond = (
                done[0] - self._does[0] * (ours.read_bytes - first_ours.read_bytes),
                done[1] - self._does[1] * (ours.write_bytes - first_ours.write_bytes),
            )
            self._foreign = max(self._foreign[0], beyond[0]), max(self._foreign[1], beyond[1])
        self._last = self._reading(disk, first, done)
        return self._last

    def close(self) -> None:
        self._disk.close()
        self._process.close()

    def _ours(self) -> ProcessIo | None:
        try:
            return ProcessIo.parse(self._process.read())
        except (OSError, ValueError):
            return None

    def _reading(self, disk: DiskStat, first: DiskStat, done: tuple[int, int]) -> Reading:
        read_bytes = done[0] - self._foreign[0]
        write_bytes = done[1] - self._foreign[1]
        read_ios = disk.read_ios - first.read_ios
        write_ios = disk.write_ios - first.write_ios
        mean = max(1, sum(done) // max(1, read_ios + write_ios))
        block = self._block or mean
        foreign = sum(self._foreign) // block
        if self._block:
            read_ios, write_ios = read_bytes // block, write_bytes // block
        return Reading(read_ios, write_ios, read_bytes, write_bytes, foreign)


class FileMeter:
    """Count the I/O of the process fio, for a file on a disk that other programs also use.

    I/O of fio before the start of its jobs is not counted. fio is known to start its jobs when it
    sets the signal handler for a stop (`set_sig_handlers` in its backend.c).
    """

    def __init__(self, pid: int, *, block_bytes: int, root: Path) -> None:
        self._block = block_bytes
        self._process = process_counters(pid, root)
        self._at_work = partial(catches, pid, STOP_SIGNAL, root)
        self._begun = False
        self._base = ProcessIo(0, 0)
        self._last = Reading()

    def read(self) -> Reading:
        try:
            now = ProcessIo.parse(self._process.read())
        except (OSError, ValueError):
            return self._last
        if not self._begun:
            if not self._at_work():
                self._base = now
                return self._last
            self._begun = True
        read_bytes = now.read_bytes - self._base.read_bytes
        write_bytes = now.write_bytes - self._base.write_bytes
        self._last = Reading(
            read_bytes // self._block, write_bytes // self._block, read_bytes, write_bytes
        )
        return self._last

    def close(self) -> None:
        self._process.close()


class KernelFeed:
    """Yield a sample per second until fio ends; end a fio that hangs or ignores a stop."""

    def __init__(
        self,
        process: Process,
        meter: Meter,
        *,
        stall_s: float,
        heeds_stop: Callable[[], bool] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._process = process
        self._meter = meter
        self._heeds_stop = heeds_stop or partial(catches, process.pid, STOP_SIGNAL)
        self._stall_s = stall_s
        self._clock = clock
        self._stopped_at: float | None = None
        self._moved: tuple[float, tuple[int, int]] = (clock(), (0, 0))
        self.origin_s = clock()  # when t_s was 0
        self.hung_s: float | None = None  # set if fio was killed because no I/O finished

    def stop(self) -> None:
        """Ask fio to end its I/O and to write its report within STOP_GRACE_S.

        The method first waits until fio has started its jobs, because a fio that is stopped earlier
        ends without a report.
        """
        if self._stopped_at is None:
            until = self._clock() + STARTS_WITHIN_S
            while not self._heeds_stop() and self._clock() < until:
                if self._process.ended(FIRST_IO_POLL_S):
                    break
            self._stopped_at = self._clock()
            self._process.send(STOP_SIGNAL)

    def seconds(self) -> Iterator[Second]:
        """Yield one Second after another; the last one is shorter."""
        with ExitStack() as stack:
            stack.callback(self._meter.close)
            start, before = self._first_io()
            last = start
            for number in self._numbers(start):
                ended = self._wait(start + number)
                now, reading = self._clock(), self._meter.read()
                second = reading.since(before, t_s=now - start, duration_s=now - last)
                if not ended or second.ios:
                    yield second
                if ended:
                    return
                last, before = now, reading

    def abandon(self) -> None:
        self._process.terminate(KILL_GRACE_S)

    def _numbers(self, start: float) -> Iterator[int]:
        """Yield the number of the next full second; skip seconds that have already passed."""
        number = 0
        while True:
            number = max(number + 1, int(self._clock() - start) + 1)
            yield number

    def _first_io(self) -> tuple[float, Reading]:
        """Return when the first I/O was seen, and the counters just before it."""
        before = self._meter.read()
        now = self._clock()
        while not self._wait(self._clock() + FIRST_IO_POLL_S):
            last, now = now, self._clock()
            reading = self._meter.read()
            if reading.progress != before.progress:
                self.origin_s = last
                return last, before
        return now, before

    def _wait(self, until: float) -> bool:
        """Wait until a time; end fio if it hangs; return True if fio has ended."""
        if self._process.ended(until - self._clock()):
            return True
        now, progress = self._clock(), self._meter.read().progress
        if progress != self._moved[1]:
            self._moved = now, progress
        if self._stopped_at is not None and now - self._stopped_at > STOP_GRACE_S:
            self._process.terminate(KILL_GRACE_S)
            return True
        if now - self._moved[0] > self._stall_s:
            self.hung_s = now - self._moved[0]
            self._process.terminate(KILL_GRACE_S)
            return True
        return False
