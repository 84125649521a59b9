"""What this host is and how busy it is, as text, for the report and for `ssdbench check`."""

import os
import re
from pathlib import Path

from ssdbench.host.sysfs import Sysfs

_CLOCKS = "/sys/devices/system/clocksource/clocksource0"
_CPU = "/sys/devices/system/cpu"
_FILES = {
    "command line": "/proc/cmdline",
    "boot id": "/proc/sys/kernel/random/boot_id",
    "clock source": f"{_CLOCKS}/current_clocksource",
    "CPUs online": f"{_CPU}/online",
    "SMT": f"{_CPU}/smt/control",
    "idle driver": f"{_CPU}/cpuidle/current_driver",
    "board": "/sys/class/dmi/id/board_name",
    "product": "/sys/class/dmi/id/product_name",
    "lockdown": "/sys/kernel/security/lockdown",
}


def host_facts(sysfs: Sysfs | None = None) -> dict[str, str]:
    """Facts by name; what this host does not tell is left out."""
    sysfs = sysfs or Sysfs()
    system = os.uname()
    found = {"host": system.nodename, "kernel": system.release, "machine": system.machine}
    for name, path in _FILES.items():
        value = sysfs.find(path)
        if value is not None and value.strip():
            found[name] = value.strip()
    return found | _cpu(sysfs) | _memory(sysfs) | _load(sysfs)


def free_bytes(directory: Path) -> int:
    """Room on the file system of a directory. Raises OSError."""
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize


def _cpu(sysfs: Sysfs) -> dict[str, str]:
    text = sysfs.find("/proc/cpuinfo") or ""
    found = {}
    if model := re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE):
        found["CPU"] = model[1]
    found["CPUs"] = str(os.cpu_count() or 0)
    if re.search(r"^flags\s*:.*\bhypervisor\b", text, re.MULTILINE):
        found["virtualization"] = "a hypervisor runs this host"
    governors = {
        value.strip()
        for cpu in sysfs.names(_CPU)
        if re.fullmatch(r"cpu[0-9]+", cpu)
        and (value := sysfs.find(f"{_CPU}/{cpu}/cpufreq/scaling_governor"))
    }
    if governors:
        found["governor"] = ", ".join(sorted(governors))
    return found


def _memory(sysfs: Sysfs) -> dict[str, str]:
    fields = dict(re.findall(r"^(\w+):\s+(\d+) kB$", sysfs.find("/proc/meminfo") or "", re.M))
    found = {}
    if "MemTotal" in fields:
        found["memory"] = f"{int(fields['MemTotal']) // 1024} MiB"
    if "SwapTotal" in fields:
        used = int(fields["SwapTotal"]) - int(fields.get("SwapFree", 0))
        found["swap used"] = f"{used // 1024} MiB of {int(fields['SwapTotal']) // 1024} MiB"
    return found


def _load(sysfs: Sysfs) -> dict[str, str]:
    found = {}
    if load := (sysfs.find("/proc/loadavg") or "").split():
        found["load"] = load[0]
    if stat := (sysfs.find("/proc/stat") or "").splitlines():
        ticks = [int(field) for field in stat[0].split()[1:9]]  # user … steal, of proc_stat(5)
        total = sum(ticks)
        if len(ticks) == 8 and total > 0:
            found["stolen time"] = f"{100 * ticks[7] / total:.2f} % since boot"
    return found
