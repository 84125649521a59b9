"""Count what the host does besides this run, cheaply enough to read around every repeat."""

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ssdbench.host import sensors
from ssdbench.host.processes import side_by_side_leader
from ssdbench.host.sysfs import Sysfs
from ssdbench.host.topology import CPU

TICKS_PER_S = 100  # USER_HZ, which is 100 on every architecture that Linux reports it for


@dataclass(frozen=True, slots=True)
class Activity:
    """Counters since boot and states at one moment; None where this host does not tell."""

    at_s: float  # monotonic
    cpus: int
    stolen_s: float  # that the hypervisor gave to others
    others_s: Mapping[str, float]  # CPU seconds of programs that are not ours, by name
    context_switches: int
    interrupts: int
    running: int  # tasks that run or wait for a CPU, ourselves included
    frequency_khz: int | None = None  # mean over the CPUs
    temperature_c: float | None = None  # of the hottest zone
    throttle_events: int | None = None
    interrupts_per_cpu: tuple[int, ...] = ()
    busy_s: float = 0.0  # CPU time of everybody, the kernel and its interrupts included
    energy_j: float | None = None  # that the CPU packages took


def suspended_s() -> float:
    """Seconds since boot in which the host was suspended: of the two clocks only one goes on then.

    CLOCK_BOOTTIME counts them and CLOCK_MONOTONIC does not (clock_gettime(2)).
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)


def activity(sysfs: Sysfs | None = None) -> Activity:
    """The counters now; some ten microseconds for every process on the host."""
    sysfs = sysfs or Sysfs()
    lines = (sysfs.find("/proc/stat") or "").splitlines()
    stat = {line.split()[0]: line.split()[1:] for line in lines if line.split()}
    ticks = [int(field) for field in stat.get("cpu", ())[:8]]
    frequencies = _numbers(sysfs, r"cpu\d+", "cpufreq/scaling_cur_freq")
    throttles = _numbers(sysfs, r"cpu\d+", "thermal_throttle/core_throttle_count")
    return Activity(
        at_s=time.monotonic(),
        cpus=sum(1 for name in stat if re.fullmatch(r"cpu\d+", name)) or 1,
        stolen_s=ticks[7] / TICKS_PER_S if len(ticks) == 8 else 0.0,
        others_s=others(_processes(sysfs), side_by_side_leader() or os.getpid()),
        context_switches=int(stat.get("ctxt", ["0"])[0]),
        interrupts=int(stat.get("intr", ["0"])[0]),
        running=int(stat.get("procs_running", ["0"])[0]),
        frequency_khz=sum(frequencies) // len(frequencies) if frequencies else None,
        temperature_c=_hottest(sysfs),
        throttle_events=sum(throttles) if throttles else None,
        interrupts_per_cpu=_per_cpu(sysfs.find("/proc/interrupts") or ""),
        busy_s=(sum(ticks[:3]) + sum(ticks[5:7])) / TICKS_PER_S if len(ticks) == 8 else 0.0,
        energy_j=_energy(sysfs),
    )


@dataclass(frozen=True, slots=True)
class ProcessTime:
    """CPU time of one process and of its children that have ended."""

    pid: int
    parent: int
    name: str
    cpu_s: float


KERNEL_THREADS = 2  # the parent of all kernel threads: they work for whoever does I/O


def others(processes: Iterable[ProcessTime], own: int) -> dict[str, float]:
    """CPU seconds by program name, without `own`, what it started, and kernel threads.

    Times of ended children count with their parents, so that the sum never falls.
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
        fields = match[3].split()  # from field 3 of proc_pid_stat(5) on
        spent = sum(int(ticks) for ticks in fields[11:15])
        yield ProcessTime(int(match[1]), int(fields[1]), match[2], spent / TICKS_PER_S)


def _numbers(sysfs: Sysfs, names: str, attribute: str) -> list[int]:
    numbers = (
        sysfs.number(f"{CPU}/{name}/{attribute}")
        for name in sysfs.names(CPU)
        if re.fullmatch(names, name)
    )
    return [value for value in numbers if value is not None]


def _hottest(sysfs: Sysfs) -> float | None:
    base = "/sys/class/thermal"
    zones = (sysfs.number(f"{base}/{name}/temp") for name in sysfs.names(base))
    values = [sensors.above_freezing(value / 1000) for value in zones if value is not None]
    return max((value for value in values if value is not None), default=None)


def _energy(sysfs: Sysfs) -> float | None:
    """Joules of all CPU packages by their own meters (RAPL), which wrap around now and then.

    Documentation/power/powercap/powercap.rst; readable by root alone since Linux 5.10.
    """
    base = "/sys/class/powercap"
    packages = [n for n in sysfs.names(base) if re.fullmatch(r"intel-rapl:\d+", n)]
    counters = [sysfs.number(f"{base}/{name}/energy_uj") for name in packages]
    values = [value for value in counters if value is not None]
    return sum(values) / 1e6 if values else None


def _per_cpu(text: str) -> tuple[int, ...]:
    """Sums of the columns of /proc/interrupts."""
    lines = text.splitlines()
    if not lines:
        return ()
    sums = [0] * len(lines[0].split())
    for line in lines[1:]:
        fields = line.split()[1 : len(sums) + 1]
        if len(fields) == len(sums) and all(field.isdigit() for field in fields):
            sums = [total + int(field) for total, field in zip(sums, fields, strict=True)]
    return tuple(sums)
