"""List the settings that ssdbench may change, as patterns of their names and values.

Another user may forge a settings journal. These patterns keep `restore` from changing a setting
that no run of ssdbench changes.
"""

import re
from collections.abc import Mapping

from ssdbench.errors import HostLacks
from ssdbench.host.kmod import MODULES
from ssdbench.tuning.setting import OF_SCHEDULER, QUEUE_SETTINGS, RESETS, Backend

_CPU = r"/sys/devices/system/cpu"
_OF_QUEUES = {name for name, _ in QUEUE_SETTINGS.values()}
_RESET = {name for names in RESETS.values() for name in names}
_BLOCK = "|".join(re.escape(n) for n in sorted(_OF_QUEUES | _RESET | RESETS.keys()))
_NUMBER = r"-?[0-9]{1,20}"
_WORD = r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}"
_CPUS = r"[0-9]{1,5}(?:-[0-9]{1,5})?(?:,[0-9]{1,5}(?:-[0-9]{1,5})?)*"
_CACHE = r"write (?:back|through)(?:, no read \(daft\))?|none"

# For each kind, patterns that the whole attribute and the whole value must match.
OURS: Mapping[Backend, tuple[str, str]] = {
    Backend.SYSFS: (
        rf"{_CPU}/(?:cpufreq/policy[0-9]{{1,5}}|cpu[0-9]{{1,5}}/cpufreq)"
        r"/scaling_(?:governor|(?:max|min)_freq)"
        rf"|{_CPU}/intel_pstate/no_turbo|{_CPU}/cpufreq/boost",
        rf"{_NUMBER}|{_WORD}",
    ),
    Backend.IRQ: (r"/proc/irq/[0-9]{1,9}/smp_affinity_list", _CPUS),
    Backend.BLOCK: (
        rf"{_BLOCK}|cache_type|{OF_SCHEDULER}[A-Za-z0-9_]{{1,64}}",
        rf"{_NUMBER}|{_WORD}|{_CACHE}",
    ),
    Backend.NVME_FEATURE: (r"0x0[268]", r"[0-9]{1,10}"),
    Backend.LATENCY_MONITOR: (r"latency monitor", r"(?:[0-9]{1,5},){8}[01]"),
    Backend.WRITE_CACHE: (r"cache_type", _CACHE),
    Backend.SERVICE: (r"irqbalance", r"active|inactive"),
    Backend.MODULE: (
        rf"{_WORD}|/(?:[^\0\n]*/)?(?:{'|'.join(MODULES)})\.ko",
        r"there|absent",
    ),
    Backend.MOUNT: (
        r"/sys/kernel/(?:tracing|debug)|/run/ssdbench/[^/\0\n]+",
        r"(?:[a-z0-9]{1,20} [^\0\n]{1,4000})?",
    ),
    Backend.PARTITION: (r"[0-9]{1,3}", r"(?:[0-9]{1,20} [0-9]{1,20})?"),
    Backend.TRACER: (r"/sys/kernel/tracing/instances/ssdbench", r"(?:present)?"),
    Backend.DIRECTORY: (r"/run/ssdbench/[^/\0\n]+", r"(?:present)?"),
    Backend.ATA_PASSWORD: (r"ATA password", r"(?:ssdbench)?"),
}

# These things exist only during a run. Restoring removes them, so a journal must have this value as
# the old value.
TAKEN_AWAY: Mapping[Backend, str] = {
    Backend.MODULE: "absent",
    Backend.MOUNT: "",
    Backend.PARTITION: "",
    Backend.TRACER: "",
    Backend.DIRECTORY: "",
    Backend.ATA_PASSWORD: "",
}


def require_ours(kind: Backend, attribute: str, value: str | None = None) -> None:
    """Raise HostLacks unless ssdbench may change this attribute, and may set it to this value."""
    attributes, values = OURS[kind]
    ours = re.fullmatch(attributes, attribute) and ".." not in attribute.split("/")
    if not ours or (value is not None and not re.fullmatch(values, value)):
        told = attribute if value is None or not ours else f"{attribute} = {value!r}"
        raise HostLacks(f"ssdbench never sets {told}, so it was not touched")


def require_undoing(kind: Backend, attribute: str, was: str) -> None:
    """Raise HostLacks for a journal record whose restore would create something, not remove it."""
    if was != TAKEN_AWAY.get(kind, was):
        raise HostLacks(
            f"the journal says that {attribute} was {was!r} before, which is not possible, so it "
            "was not restored"
        )
