"""What a start of fio costs its host, read inside its window: CPU, interrupts, energy, queue."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from statistics import mean
from typing import Protocol

from ssdbench.host.activity import Activity
from ssdbench.host.command import Process
from ssdbench.host.counters import DiskCounters, DiskStat

LOOK_S = 0.02


class Probe(Protocol):
    """Something more that is measured inside the window of each start."""

    def running(self, lease: str) -> AbstractContextManager[None]:
        """Hold what it needs, journalled under `lease`, for a whole stage. Raises HostLacks."""
        ...

    def start(self) -> None:
        """The window begins."""
        ...

    def stop(self) -> None:
        """The window ended."""
        ...

    def figures(self) -> dict[str, float]:
        """What the last window showed, by name with unit."""
        ...

    def lacking(self) -> Sequence[str]:
        """What was asked for and could not be had, a sentence each; known once it is running."""
        ...


_START_S = 0.3  # until fio has set itself up


LEAST_CPU_S = 0.05


@dataclass(frozen=True, slots=True)
class Load:
    """Differences over a window, of the whole host and one drive; per second where said."""

    seconds: float
    ios_per_s: float = 0.0
    merges_per_s: float = 0.0
    busy_cpus: float = 0.0  # by all but other programs: kernel threads and interrupts included
    interrupts_per_s: float = 0.0
    switches_per_s: float = 0.0
    watts: float | None = None  # of the CPU packages
    in_flight: float = 0.0  # mean over the window, by the kernel's own account
    in_flight_p95: float = 0.0  # of the samples
    in_flight_most: int = 0

    @property
    def iops_per_core(self) -> float:
        """I/Os for each second of CPU time that the whole host spent; 0 when unknown.

        The kernel counts in hundredths of a second: what is left of a few of them after others'
        time is taken off is no measurement.
        """
        known = self.busy_cpus * self.seconds >= LEAST_CPU_S
        return self.ios_per_s / self.busy_cpus if known else 0.0

    @property
    def host_cpu_us_per_io(self) -> float:
        """CPU time of everybody per I/O, kernel threads and interrupts included; 0 likewise."""
        return 1e6 / self.iops_per_core if self.iops_per_core > 0 else 0.0

    @property
    def iops_per_watt(self) -> float | None:
        """I/Os for each joule of the CPU packages; None where the machine does not tell."""
        return self.ios_per_s / self.watts if self.watts else None


NO_LOAD = Load(0.0)


@dataclass(slots=True)
class LoadWatch:
    """Looks on while fio works: two readings at the ends of its window, samples in between."""

    disk: DiskCounters
    read: Callable[[], Activity]
    ramp_s: float
    window_s: float
    probe: Probe | None = None
    samples: list[int] = field(default_factory=list)
    load: Load = NO_LOAD

    def __call__(self, process: Process, vigil: Callable[[], None]) -> None:
        """Return after the window, or when fio ended before; `vigil` is called meanwhile."""
        if process.ended(self.ramp_s + _START_S):
            return
        if self.probe is not None:
            self.probe.start()
        before, stat = self.read(), self.disk.read()
        until = time.monotonic() + self.window_s - _START_S
        while (left := until - time.monotonic()) > 0:
            if process.ended(min(LOOK_S, left)):
                break
            vigil()
            self.samples.append(self.disk.read().in_flight)
        self.load = load((before, self.read()), (stat, self.disk.read()), self.samples)
        if self.probe is not None:
            self.probe.stop()


def load(
    host: tuple[Activity, Activity], disk: tuple[DiskStat, DiskStat], samples: Sequence[int]
) -> Load:
    """The difference of two readings; pure."""
    before, after = host
    first, last = disk
    seconds = max(after.at_s - before.at_s, 1e-9)
    ios = last.read_ios + last.write_ios - first.read_ios - first.write_ios
    ordered = sorted(samples)
    queued_s = (last.queue_ms - first.queue_ms) / 1000
    return Load(
        seconds=seconds,
        ios_per_s=ios / seconds,
        merges_per_s=(last.merges - first.merges) / seconds,
        busy_cpus=max(0.0, after.busy_s - before.busy_s - _others_s(host)) / seconds,
        interrupts_per_s=(after.interrupts - before.interrupts) / seconds,
        switches_per_s=(after.context_switches - before.context_switches) / seconds,
        watts=_watts(before, after, seconds),
        in_flight=queued_s / seconds if queued_s > 0 else float(mean(ordered or [0])),
        in_flight_p95=float(ordered[int(0.95 * (len(ordered) - 1))]) if ordered else 0.0,
        in_flight_most=ordered[-1] if ordered else 0,
    )


def _others_s(host: tuple[Activity, Activity]) -> float:
    before, after = host
    return sum(after.others_s.values()) - sum(before.others_s.values())


def _watts(before: Activity, after: Activity, seconds: float) -> float | None:
    """None without a meter, and when it wrapped around meanwhile."""
    if before.energy_j is None or after.energy_j is None or after.energy_j < before.energy_j:
        return None
    return (after.energy_j - before.energy_j) / seconds
