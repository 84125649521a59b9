"""Measure the host's effort for fio's I/O: CPU time, interrupts, energy, queue occupancy."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import mean

from ssdbench.host.activity import Activity, package_watts
from ssdbench.host.command import Process
from ssdbench.host.counters import DiskCounters, DiskStat
from ssdbench.stages.host.blocktrace import BlockTrace

LOOK_S = 0.02
_START_S = 0.3  # until fio has started its jobs
# With less CPU time than this, no rate per CPU is computed, because the kernel counts CPU time in
# hundredths of a second.
LEAST_CPU_S = 0.05


@dataclass(frozen=True, slots=True)
class HostCost:
    """Hold the CPU time, interrupts, energy and queue occupancy in one window of fio."""

    seconds: float
    ios_per_s: float = 0.0
    merges_per_s: float = 0.0
    busy_cpus: float = 0.0  # of fio, kernel threads, interrupts; not of other programs
    interrupts_per_s: float = 0.0
    switches_per_s: float = 0.0
    watts: float | None = None  # power of the CPU packages
    in_flight: float = 0.0  # mean over the window, from the kernel's counters
    in_flight_p95: float = 0.0  # 95th percentile of the samples

    @property
    def iops_per_core(self) -> float:
        """Return the I/Os per second of CPU time of the whole host; 0 if unknown."""
        known = self.busy_cpus * self.seconds >= LEAST_CPU_S
        return self.ios_per_s / self.busy_cpus if known else 0.0

    @property
    def host_cpu_us_per_io(self) -> float:
        """Return the CPU time in us per I/O for fio, kernel and interrupts; 0 if unknown."""
        return 1e6 / self.iops_per_core if self.iops_per_core > 0 else 0.0

    @property
    def iops_per_watt(self) -> float | None:
        """Return I/Os per joule of the CPU packages; None if their power is not measured."""
        return self.ios_per_s / self.watts if self.watts else None


NO_COST = HostCost(0.0)


@dataclass(slots=True)
class HostCostWatch:
    """Read the host at the start and end of fio's window, and sample the drive's queue in it."""

    disk: DiskCounters
    read: Callable[[], Activity]
    ramp_s: float
    window_s: float
    probe: BlockTrace | None = None
    samples: list[int] = field(default_factory=list)
    cost: HostCost = NO_COST

    def __call__(self, process: Process, watch: Callable[[], None]) -> None:
        """Sample until the window or fio ends; call `watch` between two samples."""
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
    """Compute the cost from two readings of host and disk; no I/O."""
    before, after = host
    first, last = disk
    seconds = max(after.at_s - before.at_s, 1e-9)
    ios = last.read_ios + last.write_ios - first.read_ios - first.write_ios
    others_s = sum(after.others_s.values()) - sum(before.others_s.values())
    ordered = sorted(samples)
    queued_s = (last.queue_ms - first.queue_ms) / 1000
    return HostCost(
        seconds=seconds,
        ios_per_s=ios / seconds,
        merges_per_s=(last.merges - first.merges) / seconds,
        busy_cpus=max(0.0, after.busy_s - before.busy_s - others_s) / seconds,
        interrupts_per_s=(after.interrupts - before.interrupts) / seconds,
        switches_per_s=(after.context_switches - before.context_switches) / seconds,
        watts=package_watts((before, after)),
        in_flight=queued_s / seconds if queued_s > 0 else float(mean(ordered or [0])),
        in_flight_p95=float(ordered[int(0.95 * (len(ordered) - 1))]) if ordered else 0.0,
    )
