"""What stands behind a block device: a drive, a mapping, a volume, or what nothing shows; pure."""

import re
from collections.abc import Mapping, Sequence

from ssdbench.model.target import LACKS, NOT_READ, TAKEN, TargetInfo, TargetKind
from ssdbench.target.evidence import NOTHING, Evidence

UNPROVEN = ("--accept-unproven",)
VOLUME, SHOWN = "sign of a volume", "proof of one drive"  # names of facts

_MAPPED = re.compile(r"(dm-|md|bcache|drbd|zd|rbd|dasd)[0-9_a-z]")
# Paravirtual disks, network disks and disks of memory, and the volumes of drivers that have names
# of their own for them: none is a drive that a planner could buy.
_VIRTUAL = re.compile(
    r"(vd|xvd|nbd|ram|zram|pmem|nullb|ublkb|ubd)[0-9a-z]|(etherd|cciss|ida|rd|i2o)[!/]"
)
# What hypervisors, clouds, arrays and RAID controllers call their disks. Only a hint: the volume
# that has another name has no proof of one drive either. A word inside a longer one is no sign.
_HINTS = re.compile(
    r"""
      \b(QEMU|VBOX|VMware|bhyve|Virtual|VDISK|VD|Msft|scsi_debug|LIO-ORG|SPDK)\b
    | ^IET\b | ^(AVAGO|BROADCOM|AMCC|Areca|Adaptec|ASR[0-9]+|NUTANIX|DGC|EMC|NETAPP|PURE)\b
    | \b(3PARdata|COMPELNT|Nimble|INFINIDAT|XtremIO|SteelVine|iSCSI)\b
    | Amazon\ E(C2|lastic) | \bEphemeralDisk\b | \bnvme_card | PersistentDisk | ^Google\b
    | Direct\ Disk | NVMe\ Accelerator | (Alibaba|Tencent)\ Cloud | BlockVolume | Block\ ?Storage
    | LOGICAL\ VOLUME | \bPERC\b | \b(DELL)?BOSS\b | MegaRAID | ServeRAID | \bP?RAID | \bNS[0-9]{3}i
    | \bMR[0-9]{3}i\b | \bMR9[0-9]{3}\b | 2-Bay | \bSMC[0-9]{4} | AMCC\ 9 | ARC-[0-9]{4}
    | SNAP\ Controller | \bXSG1\b | \bLUN\b | \bFlashArray\b | \bOPEN-[A-Z0-9]
    """,
    re.VERBOSE | re.IGNORECASE,
)


def kind_of(
    kernel_name: str,
    attributes: Mapping[str, str],
    seen: Evidence = NOTHING,
    *,
    models: Sequence[str] = (),
) -> TargetKind:
    """The kind of a whole block device, from its kernel name, its attributes and what it shows.

    `models` are what it calls itself in its own pages. A drive is what shows that it is one; what
    shows nothing is unproven, and what shows or is called a volume is virtual.
    """
    if kernel_name.startswith("loop"):
        return TargetKind.LOOP
    if _MAPPED.match(kernel_name):
        return TargetKind.MAPPED
    if _VIRTUAL.match(kernel_name) or seen.volume or name_of_a_volume(attributes, models):
        return TargetKind.VIRTUAL
    return TargetKind.UNPROVEN if seen.missing or not seen.shown else TargetKind.DRIVE


def name_of_a_volume(attributes: Mapping[str, str], models: Sequence[str] = ()) -> str:
    """The name of a disk that volumes are known to have, empty when it has none."""
    vendor, model = (attributes.get(f"device/{n}", "").strip() for n in ("vendor", "model"))
    named = (f"{vendor} {model}".strip(), *models)
    return next((name for name in named if _HINTS.search(name)), "")


def told(attributes: Mapping[str, str], seen: Evidence, models: Sequence[str]) -> dict[str, str]:
    """What is known of a disk being one drive or a volume, as facts for the report."""
    name = name_of_a_volume(attributes, models)
    signs = [*seen.volume, *([f"volumes are called so ({name})"] if name else [])]
    said = {SHOWN: seen.shown, LACKS: seen.missing, VOLUME: signs}
    return {fact: "; ".join(words) for fact, words in said.items() if words}


def unplannable(info: TargetInfo) -> str:
    """Why numbers of a block device are nothing to plan on, and the way out where there is one."""
    if info.kind is TargetKind.UNPROVEN and info.facts.get("pages", "").startswith(NOT_READ):
        return f"what shows that it is one drive was {info.facts['pages']}"
    if info.kind is TargetKind.UNPROVEN:
        return (
            f"{info.facts.get(LACKS, 'nothing shows that it is one drive')}; if you know that it "
            f"is one drive, say {' '.join(UNPROVEN)}"
        )
    return info.facts.get(VOLUME, "") if info.kind is TargetKind.VIRTUAL else ""


def taken_for_a_drive(info: TargetInfo) -> TargetInfo:
    """A disk without proof as the drive that the user says it is; all others stay what they are."""
    if info.kind is not TargetKind.UNPROVEN:
        return info
    why = f"by {' '.join(UNPROVEN)}, though {info.facts.get(LACKS, 'nothing shows it')}"
    facts = {**info.facts, TAKEN: why}
    return info.model_copy(update={"kind": TargetKind.DRIVE, "facts": facts})
