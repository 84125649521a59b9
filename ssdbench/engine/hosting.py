"""The host of a run: what will be set on it for one target."""

from dataclasses import replace

from ssdbench.generator.fio.placement import require_numa
from ssdbench.host import kmod
from ssdbench.host.counters import counted_disks
from ssdbench.host.facts import drive_facts, host_facts
from ssdbench.host.heat import Heat, drive_heat
from ssdbench.host.sysfs import Sysfs
from ssdbench.host.topology import topology
from ssdbench.model.findings.host import SettingsLeft
from ssdbench.model.profile import Host
from ssdbench.model.target import TargetInfo
from ssdbench.target.inspect import kernel_name
from ssdbench.target.pages import Protocol, protocol
from ssdbench.tuning.drive import drive_settings
from ssdbench.tuning.hostbackends import THERE
from ssdbench.tuning.plan import HostPlan, host_plan
from ssdbench.tuning.setting import Backend, Setting


def current_facts(info: TargetInfo) -> dict[str, str]:
    """The host as it is now, and how the target is attached to it."""
    return host_facts() | drive_facts(kernel_name(info))


def target_heat(info: TargetInfo) -> Heat | None:
    """The drive's temperature; None where it has no sensor, and for what is no drive."""
    kernel = "" if info.simulated else kernel_name(info)
    return drive_heat(kernel) if kernel else None


def planned_host(wishes: Host, info: TargetInfo, sysfs: Sysfs | None = None) -> HostPlan:
    """What a run on this target would set. Raises HostLacks for what this host does not offer."""
    if info.simulated:
        left = tuple(f"{name} {value}" for name, value in wishes.changes().items())
        return HostPlan(notes=(SettingsLeft(left).message(),) if left else (), left=left)
    sysfs = sysfs or Sysfs()
    name = kernel_name(info, sysfs=sysfs)
    planned = host_plan(wishes, topology(name, sysfs), info.here)
    require_numa(planned.fio_options)
    inside = drive_settings(wishes, _bus(name, sysfs), info.here)
    modules = (_module(name, sysfs) for name in kmod.with_needs(wishes.kernel_modules))
    clock = our_clock(name, info.here, sysfs)
    return replace(planned, settings=(*clock, *modules, *planned.settings, *inside))


def our_clock(name: str, drive: str, sysfs: Sysfs) -> tuple[Setting, ...]:
    """The kernel's counters, by which seconds are taken, where somebody changed what they count.

    With `iostats_passthrough`, which newer kernels have, they also count what went past the block
    layer: it would be taken for somebody else's.
    """
    reason = "every second of a run comes from the kernel's counters"
    wanted = (("queue/iostats", "1"), ("queue/iostats_passthrough", "0"))
    return tuple(
        Setting(Backend.BLOCK, attribute, value, reason, drive)
        for attribute, value in wanted
        if name
        and any(
            (sysfs.find(f"/sys/block/{disk}/{attribute}") or value).strip() != value
            for disk in counted_disks(name, sysfs)
        )
    )


def _module(name: str, sysfs: Sysfs) -> Setting:
    """A bundled module by the path of its file, one of the kernel's by its name."""
    reason = "asked for by the profile"
    bundled = next((s for s in kmod.states(sysfs, kmod.built_directory()) if s.name == name), None)
    if bundled is None:
        kmod.require_of_kernel(name, sysfs.root)
        return Setting(Backend.MODULE, name, THERE, reason)
    if bundled.built is None and not bundled.loaded:
        raise kmod.unbuilt(name)
    return Setting(Backend.MODULE, str(bundled.built or name), THERE, reason)


def _bus(name: str, sysfs: Sysfs) -> str:
    """How the drive's own settings are reached; "none" for what has none."""
    spoken = protocol(name, sysfs)
    if spoken is Protocol.NONE and sysfs.exists(f"/sys/block/{name}/cache_type"):
        return "virtio"
    return spoken.value
