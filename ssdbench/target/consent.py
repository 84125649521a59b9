"""Decide whether the user's consent allows a run to overwrite a target and to wear the drive."""

import json
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from ssdbench.model.target import CONTENT, Consent, TargetInfo, TargetKind
from ssdbench.target import content, guard
from ssdbench.target.identity import NOT_USED
from ssdbench.target.inspect import identities
from ssdbench.target.objection import DESTROY, OVERWRITE, WEAR, Objection, refuse
from ssdbench.units import format_capacity, format_figure, parse_figure

FREE_SHARE = 0.01  # of the rated endurance; writing more needs consent
TB = 10**12
LEAST_USED_PERCENT = 5  # smaller percentages are too coarse for an estimate


@dataclass(frozen=True, slots=True)
class Wear:
    """Hold the bytes that a run writes, and the endurance of the drive.

    SMART does not have the rated endurance. `endurance_tb`, the rated endurance, is None unless the
    user gives it.
    """

    most_bytes: int  # if each repeat settles as late as possible
    endurance_tb: float | None = None
    likely_bytes: tuple[int, int] | None = None  # likely bytes: least, most
    reported_tb: float | None = None  # endurance estimated from the drive's counters

    @property
    def known_tb(self) -> float | None:
        """Return the user's endurance in TB, else the estimate from the drive's counters."""
        return self.endurance_tb or self.reported_tb

    @property
    def share(self) -> float | None:
        """Return the most bytes of the run as a share of the rated endurance; None if not given."""
        return self.most_bytes / TB / self.endurance_tb if self.endurance_tb else None

    @property
    def needs_consent(self) -> bool:
        """Tell whether the wear needs consent: its share is above FREE_SHARE, or unknown."""
        return self.most_bytes > 0 and (self.share is None or self.share > FREE_SHARE)

    @property
    def sentence(self) -> str:
        """Return a sentence on the run's wear: bytes, and percent of the endurance."""
        known = self.known_tb
        if known is None:
            unknown = "its rated endurance is unknown (give it with --endurance TBW)"
            return f"{self.written}; {unknown}"
        rated = f"{format_figure(known, 4)} TB"
        if self.endurance_tb is None:
            return f"{self.written}; by its own counters it lasts for about {rated}"
        return f"{self.written} of its rated endurance of {rated}"

    @property
    def written(self) -> str:
        """Return as text how much the run would write, with percent of a known endurance."""
        most = f"up to {self._shared(self.most_bytes)}"
        if self.likely_bytes is None or self.likely_bytes[1] >= self.most_bytes:
            return f"it would write {most}"
        least, likely = self.likely_bytes
        return (
            f"it would write {format_capacity(least)} to {self._shared(likely)}, or at worst {most}"
        )

    def _shared(self, size_bytes: int) -> str:
        known = self.known_tb
        share = f", {format_figure(100 * size_bytes / TB / known, 2)} %" if known else ""
        return f"{format_capacity(size_bytes)}{share}"


def reported_endurance_tb(facts: Mapping[str, str]) -> float | None:
    """Estimate from a drive's own counters how many TB wear it out; None if not known.

    The estimate is the data written so far divided by the "percentage used" (NVM Express base
    specification, SMART log). The drive reports whole percents, so one percent more is assumed.
    """
    used, written = facts.get("percentage used", ""), facts.get("data written", "")
    share = re.fullmatch(r"([0-9]+) %", used)
    if share is None or not written or int(share[1]) < LEAST_USED_PERCENT:
        return None
    try:
        return parse_figure(written, "B") / TB * 100 / (int(share[1]) + 1)
    except ValueError:
        return None


LAB_SERIALS = "SSDBENCH-LAB-"
LAB_DISKS = Path("/run/ssdbench-lab/disks.json")  # the lab's host writes this into the guest
NO_WEAR = Wear(0)
NAMELESS = (
    "the drive has no readable name of its own, so this is its slot, its size and samples of its "
    "data: make sure which drive is there"
)
NUMBERED = "path.node-"  # an identity from the kernel's device number, which may change
WITHOUT_UUID = (
    "it is a mapping without a UUID, and its table cannot be read; another mapping may have its "
    "number next time, so it has no lasting name"
)


def needed(info: TargetInfo) -> bool:
    """Tell whether a target may only be written with the user's consent.

    Simulated drives and files need no consent: a simulated drive belongs to ssdbench, and a file
    that has content of the user is refused by the guard.
    """
    return info.kind not in (TargetKind.SIMULATED, TargetKind.FILE) and not implied(info)


def implied(
    info: TargetInfo, *, environment: Mapping[str, str] = os.environ, disks: Path = LAB_DISKS
) -> bool:
    """Tell whether the lab made this disk for this guest; this needs all of three signs."""
    if environment.get("SSDBENCH_LAB") != "1" or not info.serial.startswith(LAB_SERIALS):
        return False
    try:
        made = json.loads(disks.read_text())
        return any(disk["serial"] == info.serial for disk in made)
    except (OSError, ValueError, TypeError, KeyError):
        return False


def objections(
    info: TargetInfo, consent: Consent, *, others: Mapping[str, str] = MappingProxyType({})
) -> list[Objection]:
    """Return why the given consent is not for exactly this target; empty if it is.

    The whole identity must match, because a part of a serial number could belong to another drive.
    `others` has the nodes of this host's other drives, by identity.
    """
    given = consent.identity
    own, nameless = info.consent_id, f" ({NAMELESS})" if info.content else ""
    if not needed(info):
        return []
    if info.kind is TargetKind.MAPPED and info.id.startswith(NUMBERED):
        return [Objection(WITHOUT_UUID)]
    if given == own:
        return []
    if given is None:
        reason = f"refusing to erase it without --destroy {shlex.quote(own)}{nameless}"
        return [Objection(reason, (DESTROY, own))]
    if why := info.facts.get(f"{NOT_USED}{given}"):
        reason = f"the given identity {given!r} is not enough: {why}; its own is {own!r}{nameless}"
        return [Objection(reason)]
    if given.partition(CONTENT)[0] == info.id:
        return [Objection(f"{given!r} is not what it holds now; its own is {own!r}{nameless}")]
    whose = f"belongs to {others[given]}" if given in others else "is not its own"
    return [Objection(f"the given identity {given!r} {whose}; its own is {own!r}{nameless}")]


def wear_objections(info: TargetInfo, wear: Wear, consent: Consent) -> list[Objection]:
    """Return an objection if a run wears a real drive too much and the user did not accept that.

    Simulated drives and volumes do not wear out. If the rated endurance is not known, the user must
    accept any wear.
    """
    if (
        info.kind not in (TargetKind.DRIVE, TargetKind.UNPROVEN)
        or consent.wear
        or not wear.needs_consent
    ):
        return []
    return [Objection(wear.sentence, WEAR)]


def against(info: TargetInfo, *, run: str = "") -> list[Objection]:
    """Return all objections to a target's first write, without regard to the user's consent.

    `run` is the name of a run that is resumed: content that it wrote to a file is not an objection.
    Data is sampled only if no other objection protects the drive. So a drive with a signature, or a
    drive in use, is not sampled.
    """
    found = guard.standing(info, Consent(run=run))
    asked_for = needed(info) and all(o.option not in ((), OVERWRITE) for o in found)
    return [*found, *(content.objections(info) if asked_for else ())]


def lacking(
    info: TargetInfo, consent: Consent, *, wear: Wear = NO_WEAR, destroys: bool = True
) -> list[Objection]:
    """Return the objections that the user's consent does not override.

    For work that only reads, signatures and missing consent are not objections.
    """
    if not destroys:
        return guard.standing(info, consent.overwriting())
    wrong = consent.identity not in (None, info.consent_id)
    others = {drive: node for drive, node in identities().items() if wrong and drive != info.id}
    return [
        *guard.remaining(against(info, run=consent.run), consent),
        *objections(info, consent, others=others),
        *wear_objections(info, wear, consent),
    ]


def require_consent(
    info: TargetInfo, consent: Consent, *, wear: Wear = NO_WEAR, destroys: bool = True
) -> None:
    """Raise TargetRefused with all objections that the consent does not override."""
    lacks = lacking(info, consent, wear=wear, destroys=destroys)
    wrong = needed(info) and consent.identity not in (None, info.consent_id)
    hint = "make sure which drive you mean: `ssdbench drives` shows the identity of each"
    refuse(info.name, lacks, hint=hint if wrong and destroys else "")
