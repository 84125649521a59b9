"""Run an unmodified fio on the simulated drive, whose clock advances only when asked."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from ssdbench.errors import UsageError
from ssdbench.generator.base import Job, Second
from ssdbench.generator.fio.jobfile import Options
from ssdbench.generator.fio.layout import largest_block, within
from ssdbench.host.command import Process
from ssdbench.sim.drive import SimDrive
from ssdbench.sim.virtualtime import VirtualClock, VtSample
from ssdbench.units import MIB, NS_PER_S

ENGINE = "nbd"
LARGEST_BLOCK = 64 * MIB  # fio's nbd engine aborts for larger blocks
SECTOR_BYTES = 512  # fio's nbd engine refuses blocks of other multiples
REPORT_GRACE_S = 60.0  # real seconds for fio to write its report at the end
PAGE = "clock"


class SimFeed:
    """Yield seconds of virtual time; the drive's clock stops until the next second is requested."""

    def __init__(self, process: Process, clock: VirtualClock, *, step_s: int) -> None:
        self._process = process
        self._clock = clock
        self._step_s = step_s
        self._over = False
        self.origin_s = 0.0
        self.hung_s: float | None = None  # the virtual-time library has its own watchdog

    def seconds(self) -> Iterator[Second]:
        """Yield one Second after another; the clock advances `step_s` at once."""
        while not self._over:
            samples = self._clock.advance(self._step_s, alive=lambda: not self._process.ended(0.0))
            self.origin_s = self._clock.first_io_s
            if len(samples) < self._step_s:
                self._finish()
            yield from (_second(sample) for sample in samples)

    def stop(self) -> None:
        """End the jobs at the current time of the drive's clock."""
        if not self._over:
            self._clock.stop()

    def abandon(self) -> None:
        """End fio now, between two requests, so that the drive's state stays intact."""
        self.stop()
        for _ in self.seconds():
            pass

    def _finish(self) -> None:
        self._over = True
        if not self._process.ended(REPORT_GRACE_S):
            self._process.kill()
        self._clock.close()
        self._clock.path.unlink(missing_ok=True)


class SimAttachment:
    """Reach a simulated drive in its state file, in virtual time.

    The drive's clock advances by `step_s` seconds between two checks by the caller.
    """

    engine = ENGINE
    exact = True

    def __init__(self, drive: SimDrive, *, step_s: int = 1) -> None:
        if step_s < 1:
            raise ValueError(f"a step must be at least one second, got {step_s}")
        self.name = drive.spec.text
        self._drive = drive
        self._step_s = step_s
        self._clock: VirtualClock | None = None

    def options(self) -> Options:
        """Return fio's nbd engine with threads: forked jobs would be twenty times slower."""
        return {
            "ioengine": self.engine,
            "uri": "sim:",
            "thread": 1,
            "clocksource": "clock_gettime",
        }

    def environment(self, directory: Path) -> dict[str, str]:
        """Make a virtual clock for the next fio; its file is in `directory` until fio ends."""
        self._clock = VirtualClock.create(
            directory / PAGE,
            state=self._drive.path,
            state_fd=self._drive.fileno(),
        )
        return self._clock.environment()

    def pass_fds(self) -> tuple[int, ...]:
        return (self._drive.fileno(),)

    def require(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            if largest_block(job.workload) > LARGEST_BLOCK:
                raise UsageError(
                    f"{job.name}: blocks on a simulated drive must not be larger than 64 MiB",
                    hint="use smaller blocks",
                )
            within(job, size_bytes=self._drive.spec.capacity_bytes, block_bytes=SECTOR_BYTES)

    def check(self) -> None:
        """Do nothing: the state file is locked, so no other process can change it."""

    def watch(self, process: Process, jobs: Sequence[Job]) -> SimFeed:
        if self._clock is None:
            raise ValueError("environment() makes the clock that watch() reads")
        clock, self._clock = self._clock, None
        return SimFeed(process, clock, step_s=self._step_s)


def _second(sample: VtSample) -> Second:
    return Second(
        t_s=sample.end_ns / NS_PER_S,
        duration_s=sample.duration_ns / NS_PER_S,
        read_ios=sample.ios[0],
        write_ios=sample.ios[1],
        read_bytes=sample.bytes[0],
        write_bytes=sample.bytes[1],
    )
