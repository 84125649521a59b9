"""The host of a run: what will be set on it for one target."""

from ssdbench.host.sysfs import Sysfs
from ssdbench.host.topology import topology
from ssdbench.model.profile import Host
from ssdbench.model.target import TargetInfo
from ssdbench.tuning.plan import HostPlan, host_plan

SIMULATED = "a simulated drive keeps its own time: the host stays as it is"


def kernel_name(info: TargetInfo, sysfs: Sysfs | None = None) -> str:
    """The target's name below /sys/block; empty for what is no whole block device."""
    sysfs = sysfs or Sysfs()
    if not info.major_minor:
        return ""
    name = sysfs.path(f"/sys/dev/block/{info.major_minor}").resolve().name
    return name if sysfs.exists(f"/sys/block/{name}") else ""


def planned_host(wishes: Host, info: TargetInfo, sysfs: Sysfs | None = None) -> HostPlan:
    """What a run on this target would set. Raises HostLacks for what this host does not offer."""
    if info.simulated:
        return HostPlan(notes=(SIMULATED,) if wishes.changes() else ())
    sysfs = sysfs or Sysfs()
    return host_plan(wishes, topology(kernel_name(info, sysfs), sysfs), info.id)
