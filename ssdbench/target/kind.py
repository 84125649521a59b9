"""What stands behind a block device: a drive, a mapping, a hypervisor; pure."""

import re
from collections.abc import Mapping

from ssdbench.model.target import TargetKind

_MAPPED = re.compile(r"(dm-|md|bcache|drbd|zd|rbd|dasd)[0-9_a-z]")
# Paravirtual disks, network disks and disks of memory: none is a drive that a planner could buy.
_VIRTUAL = re.compile(r"(vd|xvd|nbd|ram|zram|pmem|nullb|ublkb|ubd)[0-9a-z]")
_VIRTUAL_MODELS = re.compile(
    r"QEMU|Virtual|VBOX|VMware|MSFT|Msft|Amazon Elastic Block|nvme_card|PersistentDisk|Google"
    r"|scsi_debug|LIO-ORG|IET",
)
# What RAID controllers call the volumes that they show as disks. A drive that they pass through
# shows its own model.
_RAID_VOLUMES = re.compile(
    r"LOGICAL VOLUME|PERC |DELLBOSS VD|MegaRAID|\bMR9[0-9]{3}|ServeRAID|AMCC 9|Areca|ARC-[0-9]{4}"
)


def kind_of(kernel_name: str, attributes: Mapping[str, str]) -> TargetKind:
    """The kind of a whole block device, from its kernel name and its sysfs attributes.

    What is not known to be something else is a drive; the guard then asks more of it.
    """
    if kernel_name.startswith("loop"):
        return TargetKind.LOOP
    if _MAPPED.match(kernel_name):
        return TargetKind.MAPPED
    said = " ".join(attributes.get(name, "") for name in ("device/vendor", "device/model"))
    if any((_VIRTUAL.match(kernel_name), _VIRTUAL_MODELS.search(said), _RAID_VOLUMES.search(said))):
        return TargetKind.VIRTUAL
    return TargetKind.DRIVE
