"""Read what fio costs its host inside a window: CPU, interrupts, energy, queue."""

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


class CostProbe(Protocol):
    """Measure something more inside the window of each start."""

    def running(self, lease: str) -> AbstractContextManager[None]:
        """Hold what it needs for a whole stage, journalled under `lease`. Raises HostLacks."""
        ...

    def start(self) -> None:
        """Begin the window."""
        ...

    def stop(self) -> None:
        """End the window."""
        ...

    def figures(self) -> dict[str, float]:
        """Return what the last window showed, by name with unit."""
        ...

    def lacking(self) -> Sequence[str]:
        """Return what was asked for but is not available, a sentence each."""
        ...


_START_S = 0.3  # until fio has set itself up


LEAST_CPU_S = 0.05


@dataclass(frozen=True, slots=True)
class HostCost:
    """Hold differences over a window, of the whole host and one drive."""

    seconds: float
    ios_per_s: float = 0.0
    merges_per_s: float = 0.0
    busy_cpus: float = 0.0  # except other programs; with kernel threads and interrupts
    interrupts_per_s: float = 0.0
    switches_per_s: float = 0.0
    watts: float | None = None  # of the CPU packages
    in_flight: float = 0.0  # mean over the window, by the kernel's counters
    in_flight_p95: float = 0.0  # of the samples
    in_flight_most: int = 0

    @property
    def iops_per_core(self) -> float:
        """Return I/Os per second of CPU time of the whole host; 0 when unknown.

        The kernel counts in hundredths of a second: a few of them minus others' time measure
        nothing.
        """
        known = self.busy_cpus * self.seconds >= LEAST_CPU_S
        return self.ios_per_s / self.busy_cpus if known else 0.0

    @property
    def host_cpu_us_per_io(self) -> float:
        """Return CPU time per I/O of all programs, kernel and interrupts; 0 when unknown."""
        return 1e6 / self.iops_per_core if self.iops_per_core > 0 else 0.0

    @property
    def iops_per_watt(self) -> float | None:
        """Return I/Os per joule of the CPU packages; None without a meter."""
        return self.ios_per_s / self.watts if self.watts else None


NO_COST = HostCost(0.0)


@dataclass(slots=True)
class HostCostWatch:
    """Read the host at both ends of fio's window, and sample the queue in between."""

    disk: DiskCounters
    read: Callable[[], Activity]
    ramp_s: float
    window_s: float
    probe: CostProbe | None = None
    samples: list[int] = field(default_factory=list)
    cost: HostCost = NO_COST

    def __call__(self, process: Process, watch: Callable[[], None]) -> None:
        """Return after the window, or when fio ended before; `watch` is called meanwhile."""
        if process.ended(self.ramp_s + _START_S):
            return
        if self.probe is not None:
            self.probe.start()
        before, stat = self.read(), self.disk.read()
        until = time.monotonic() + self.window_s - _START_S
        while (left := until - time.monotonic()) > 0:
            if process.ended(min(LOOK_S, left)):
                break
            watch()
            self.samples.append(self.disk.read().in_flight)
        self.cost = cost_between((before, self.read()), (stat, self.disk.read()), self.samples)
        if self.probe is not None:
            self.probe.stop()


def cost_between(
    host: tuple[Activity, Activity], disk: tuple[DiskStat, DiskStat], samples: Sequence[int]
) -> HostCost:
    """Return the difference of two readings; pure."""
    before, after = host
    first, last = disk
    seconds = max(after.at_s - before.at_s, 1e-9)
    ios = last.read_ios + last.write_ios - first.read_ios - first.write_ios
    ordered = sorted(samples)
    queued_s = (last.queue_ms - first.queue_ms) / 1000
    return HostCost(
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
    """Return the power; None without a meter, and when it wrapped around."""
    if before.energy_j is None or after.energy_j is None or after.energy_j < before.energy_j:
        return None
    return (after.energy_j - before.energy_j) / seconds
