"""Read counters of the host's other work, fast enough to do so before and after every repeat."""

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ssdbench.host import sensors
from ssdbench.host.processes import side_by_side_leader
from ssdbench.host.sysfs import Sysfs
from ssdbench.host.topology import CPU

TICKS_PER_S = 100  # USER_HZ, which Linux reports as 100 on every architecture


@dataclass(frozen=True, slots=True)
class Activity:
    """Counters since boot, and present states; a value that the host does not report is None."""

    at_s: float  # time of reading, monotonic clock
    cpus: int
    stolen_s: float  # CPU time that the hypervisor gave to other guests
    others_s: Mapping[str, float]  # CPU seconds of other programs, by name
    context_switches: int
    interrupts: int
    running: int  # tasks that run or wait for a CPU, including ours
    frequency_khz: int | None = None  # mean over the CPUs
    temperature_c: float | None = None  # of the hottest zone
    throttle_events: int | None = None
    interrupts_per_cpu: tuple[int, ...] = ()
    busy_s: float = 0.0  # CPU time of all programs, the kernel and its interrupts
    energy_j: float | None = None  # used by the CPU packages


def suspended_s() -> float:
    """Return the seconds that the host was suspended since boot (clock_gettime(2))."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)


def activity(sysfs: Sysfs | None = None) -> Activity:
    """Read the counters now; this takes about ten microseconds per process on the host."""
    sysfs = sysfs or Sysfs()
    lines = (sysfs.find("/proc/stat") or "").splitlines()
    stat = {line.split()[0]: line.split()[1:] for line in lines if line.split()}
    ticks = [int(field) for field in stat.get("cpu", ())[:8]]
    frequencies = _numbers(sysfs, r"cpu\d+", "cpufreq/scaling_cur_freq")
    throttles = _numbers(sysfs, r"cpu\d+", "thermal_throttle/core_throttle_count")
    base = "/sys/class/thermal"
    zones = (sysfs.number(f"{base}/{name}/temp") for name in sysfs.names(base))
    values = [sensors.above_freezing(value / 1000) for value in zones if value is not None]
    return Activity(
        at_s=time.monotonic(),
        cpus=sum(1 for name in stat if re.fullmatch(r"cpu\d+", name)) or 1,
        stolen_s=ticks[7] / TICKS_PER_S if len(ticks) == 8 else 0.0,
        others_s=others(_processes(sysfs), side_by_side_leader() or os.getpid()),
        context_switches=int(stat.get("ctxt", ["0"])[0]),
        interrupts=int(stat.get("intr", ["0"])[0]),
        running=int(stat.get("procs_running", ["0"])[0]),
        frequency_khz=sum(frequencies) // len(frequencies) if frequencies else None,
        temperature_c=max((value for value in values if value is not None), default=None),
        throttle_events=sum(throttles) if throttles else None,
        interrupts_per_cpu=_per_cpu(sysfs.find("/proc/interrupts") or ""),
        busy_s=(sum(ticks[:3]) + sum(ticks[5:7])) / TICKS_PER_S if len(ticks) == 8 else 0.0,
        energy_j=_energy(sysfs),
    )


@dataclass(frozen=True, slots=True)
class ProcessTime:
    """The CPU time of one process and of its children that have ended."""

    pid: int
    parent: int
    name: str
    cpu_s: float


KERNEL_THREADS = 2  # process id of kthreadd, the parent of all kernel threads


def others(processes: Iterable[ProcessTime], own: int) -> dict[str, float]:
    """Return CPU seconds by program name; leave out `own`, its descendants and kernel threads.

    The CPU time of ended children is added to their parents. So the sum over all other processes
    never falls when a child ends.
    """
    known = {process.pid: process for process in processes}
    found: dict[str, float] = {}
    for process in known.values():
        if process.pid == KERNEL_THREADS or _below(process, {own, KERNEL_THREADS}, known):
            continue
        found[process.name] = found.get(process.name, 0.0) + process.cpu_s
    return found


def _below(process: ProcessTime, tops: set[int], known: Mapping[int, ProcessTime]) -> bool:
    seen: set[int] = set()
    pid = process.pid
    while pid in known and pid not in seen:
        if pid in tops:
            return True
        seen.add(pid)
        pid = known[pid].parent
    return pid in tops


def _processes(sysfs: Sysfs) -> Iterator[ProcessTime]:
    for name in sysfs.names("/proc"):
        text = sysfs.find(f"/proc/{name}/stat") if name.isdigit() else None
        match = re.fullmatch(r"(\d+) \((.*)\) (.*)", text or "", re.DOTALL)
        if match is None:
            continue
        fields = match[3].split()  # proc_pid_stat(5), from field 3
        spent = sum(int(ticks) for ticks in fields[11:15])
        yield ProcessTime(int(match[1]), int(fields[1]), match[2], spent / TICKS_PER_S)


def _numbers(sysfs: Sysfs, names: str, attribute: str) -> list[int]:
    numbers = (
        sysfs.number(f"{CPU}/{name}/{attribute}")
        for name in sysfs.names(CPU)
        if re.fullmatch(names, name)
    )
    return [value for value in numbers if value is not None]


def _energy(sysfs: Sysfs) -> float | None:
    """Return the joules that all CPU packages used, from meters (RAPL) that restart at zero.

    The source is Documentation/power/powercap/powercap.rst; only root can read the meters since
    Linux 5.10.
    """
    base = "/sys/class/powercap"
    packages = [n for n in sysfs.names(base) if re.fullmatch(r"intel-rapl:\d+", n)]
    counters = [sysfs.number(f"{base}/{name}/energy_uj") for name in packages]
    values = [value for value in counters if value is not None]
    return sum(values) / 1e6 if values else None


def package_watts(readings: Sequence[Activity]) -> float | None:
    """Return the mean power of the CPU packages over readings in order; None without meters.

    If a meter wrapped around between two readings, the time between these readings is ignored.
    """
    energy_j = seconds = 0.0
    for before, after in pairwise(readings):
        if before.energy_j is not None and (after.energy_j or 0.0) >= before.energy_j:
            energy_j += (after.energy_j or 0.0) - before.energy_j
            seconds += after.at_s - before.at_s
    return energy_j / seconds if seconds > 0 else None


def _per_cpu(text: str) -> tuple[int, ...]:
    """Return for each CPU the sum of its column in /proc/interrupts."""
    lines = text.splitlines()
    if not lines:
        return ()
    sums = [0] * len(lines[0].split())
    for line in lines[1:]:
        fields = line.split()[1 : len(sums) + 1]
        if len(fields) == len(sums) and all(field.isdigit() for field in fields):
            sums = [total + int(field) for total, field in zip(sums, fields, strict=True)]
    return tuple(sums)
