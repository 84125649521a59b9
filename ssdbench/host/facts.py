"""Return facts about the host and how busy it is, as text, for reports and `ssdbench check`."""

import os
import re
from pathlib import Path

from ssdbench.host.activity import activity, suspended_s
from ssdbench.host.sysfs import Sysfs, device_of, queues_of

_CLOCKS = "/sys/devices/system/clocksource/clocksource0"
_CPU = "/sys/devices/system/cpu"
_FILES = {
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
    """Return facts by name; facts that this host does not report are left out."""
    sysfs = sysfs or Sysfs()
    system = os.uname()
    facts = {
        "host": system.nodename,
        "kernel": system.release,
        "machine": system.machine,
        "time suspended": f"{max(0, round(suspended_s()))} s",
    }
    for name, path in _FILES.items():
        value = sysfs.find(path)
        if value is not None and value.strip():
            facts[name] = value.strip()
    base = f"{_CPU}/vulnerabilities"
    states = {name: (sysfs.find(f"{base}/{name}") or "").strip() for name in sysfs.names(base)}
    active = [f"{n}: {s}" for n, s in states.items() if s and s != "Not affected"]
    return (
        facts
        | _command_line(sysfs)
        | ({"mitigations": "; ".join(active) or "none needed"} if states else {})
        | _cpu(sysfs)
        | _memory(sysfs)
        | _load(sysfs)
        | _activity(sysfs)
    )


def free_bytes(directory: Path) -> int:
    """Return the free bytes of a directory's file system. Raises OSError."""
    system = os.statvfs(directory)
    return system.f_bavail * system.f_frsize


# Kernel parameters whose values may be published. Of all other parameters only the name is stored,
# because the kernel's command line may contain passwords, tokens, addresses and host names.
_TOLD = re.compile(
    r"(mitigations|nvme[_.]\S*|intel_\S*|amd_\S*|cpuidle\S*|processor\.\S*|isolcpus|nohz\S*|rcu_\S*"
    r"|irqaffinity|idle|clocksource|tsc|elevator|scsi_mod\.\S*|pcie_aspm\S*|iommu\S*|preempt"
    r"|transparent_hugepage|hugepages\S*|numa_balancing|spectre\S*|nosmt|maxcpus|quiet|ro|rw"
    r"|threadirqs|skew_tick|audit|psi|libata\.\S*)$"
)


def _command_line(sysfs: Sysfs) -> dict[str, str]:
    words = (sysfs.find("/proc/cmdline") or "").split(" -- ")[0].split()
    told = []
    for word in words:
        name, equals, _ = word.partition("=")
        told.append(word if _TOLD.match(name) else f"{name}{equals}…" if equals else name)
    return {"command line": " ".join(told)} if told else {}


def _activity(sysfs: Sysfs) -> dict[str, str]:
    seen = activity(sysfs)
    facts = {
        "context switches": f"{seen.context_switches} since boot",
        "tasks running": str(seen.running),
    }
    if seen.interrupts_per_cpu:
        facts["interrupts per CPU"] = ", ".join(str(n) for n in seen.interrupts_per_cpu)
    if seen.frequency_khz is not None:
        facts["CPU frequency"] = f"{seen.frequency_khz / 1000:.0f} MHz"
    if seen.temperature_c is not None:
        facts["temperature"] = f"{seen.temperature_c:.0f} °C"
    if seen.throttle_events is not None:
        facts["CPU throttle events"] = str(seen.throttle_events)
    return facts


def drive_facts(kernel_name: str, sysfs: Sysfs | None = None) -> dict[str, str]:
    """Return how a drive is attached, such as its PCIe link, power states and queue."""
    if not kernel_name:
        return {}
    sysfs = sysfs or Sysfs()
    block, device = f"/sys/block/{kernel_name}", device_of(kernel_name, sysfs)
    queue = f"/sys/block/{queues_of(kernel_name, sysfs)[0]}/queue"
    names = {
        "scheduler": f"{queue}/scheduler",
        "requests": f"{queue}/nr_requests",
        "merging": f"{queue}/nomerges",
        "completion": f"{queue}/rq_affinity",
        "entropy credited": f"{queue}/add_random",
        "write cache": f"{block}/queue/write_cache",
        "PCIe speed": f"{device}/device/current_link_speed",
        "PCIe lanes": f"{device}/device/current_link_width",
        "PCIe speed at most": f"{device}/device/max_link_speed",
        "PCIe lanes at most": f"{device}/device/max_link_width",
        "PCIe corrected errors": f"{device}/device/aer_dev_correctable",
        "PCIe non-fatal errors": f"{device}/device/aer_dev_nonfatal",
        "PCIe fatal errors": f"{device}/device/aer_dev_fatal",
        "ASPM L1": f"{device}/device/link/l1_aspm",
        "ASPM policy": "/sys/module/pcie_aspm/parameters/policy",
        "host memory buffer": f"{device}/hmb",
        "APST": f"{device}/power/pm_qos_latency_tolerance_us",
        "NUMA node": f"{device}/numa_node",
    }
    facts = {}
    for name, path in names.items():
        value = sysfs.find(path)
        if value is not None and value.strip():
            facts[f"drive: {name}"] = " ".join(value.split())
    return facts


def _cpu(sysfs: Sysfs) -> dict[str, str]:
    text = sysfs.find("/proc/cpuinfo") or ""
    facts = {}
    if model := re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE):
        facts["CPU"] = model[1]
    facts["CPUs"] = str(os.cpu_count() or 0)
    if re.search(r"^flags\s*:.*\bhypervisor\b", text, re.MULTILINE):
        facts["virtualization"] = "a hypervisor runs this host"
    governors = {
        value.strip()
        for cpu in sysfs.names(_CPU)
        if re.fullmatch(r"cpu[0-9]+", cpu)
        and (value := sysfs.find(f"{_CPU}/{cpu}/cpufreq/scaling_governor"))
    }
    if governors:
        facts["governor"] = ", ".join(sorted(governors))
    caches = []
    base = f"{_CPU}/cpu0/cache"
    for index in sysfs.names(base):
        level, kind, size, shared = (
            (sysfs.find(f"{base}/{index}/{name}") or "").strip()
            for name in ("level", "type", "size", "shared_cpu_list")
        )
        if level:
            caches.append(f"L{level} {kind.lower()} {size}, CPUs {shared}")
    return facts | ({"caches of CPU 0": "; ".join(caches)} if caches else {})


def _memory(sysfs: Sysfs) -> dict[str, str]:
    fields = dict(re.findall(r"^(\w+):\s+(\d+) kB$", sysfs.find("/proc/meminfo") or "", re.M))
    facts = {}
    if "MemTotal" in fields:
        facts["memory"] = f"{int(fields['MemTotal']) // 1024} MiB"
    if "SwapTotal" in fields:
        used = int(fields["SwapTotal"]) - int(fields.get("SwapFree", 0))
        facts["swap used"] = f"{used // 1024} MiB of {int(fields['SwapTotal']) // 1024} MiB"
    return facts


def _load(sysfs: Sysfs) -> dict[str, str]:
    facts = {}
    if load := (sysfs.find("/proc/loadavg") or "").split():
        facts["load"] = load[0]
    if stat := (sysfs.find("/proc/stat") or "").splitlines():
        ticks = [int(field) for field in stat[0].split()[1:9]]  # user … steal, of proc_stat(5)
        total = sum(ticks)
        if len(ticks) == 8 and total > 0:
            facts["stolen time"] = f"{100 * ticks[7] / total:.2f} % since boot"
    return facts
