"""What host and drive say of themselves at both ends of a run, compared; pure.

What moves by itself (load, temperature, counters of errors) is left out: only what would make two
halves of a run two experiments counts.
"""

import re
from collections.abc import Mapping

from ssdbench.model.finding import Finding
from ssdbench.model.findings.drive import LinkErrors
from ssdbench.model.findings.host import HostChanged
from ssdbench.model.result import FlashWritten

HOST = "host"  # in the journal's first record: the facts that are compared
FLASH = "flash_written"  # likewise: the drive's own counters

_WATCHED = frozenset(
    {
        "kernel",
        "machine",
        "CPU",
        "CPUs",
        "CPUs online",
        "SMT",
        "clock source",
        "governor",
        "idle driver",
        "command line",
        "mitigations",
    }
)
_DRIVE = "drive: "
_CORRECTED = "PCIe corrected errors"
_COUNTERS = (_CORRECTED, "PCIe non-fatal errors", "PCIe fatal errors")
# Health logs count 512,000 bytes and are brought up to date at the drive's leisure: below this
# the difference of two readings says little.
LEAST_HOST_BYTES = 10**9
WIDEST = 0.25  # of an interval of write amplification, over its middle; a wider one tells nothing


def watched(facts: Mapping[str, str]) -> dict[str, str]:
    """The facts that must not change while a run measures."""
    return {
        name: value
        for name, value in facts.items()
        if name in _WATCHED or (name.startswith(_DRIVE) and not name.endswith(_COUNTERS))
    }


def at_start(facts: Mapping[str, str]) -> dict[str, str]:
    """The facts that are compared at the end: the watched ones, and counters of errors."""
    counters = {name: facts[_DRIVE + name] for name in _COUNTERS if _DRIVE + name in facts}
    return watched(facts) | {_DRIVE + name: said for name, said in counters.items()}


def host_changes(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """Each watched fact that is another one now, as `governor: performance, now powersave`."""
    old, new = watched(before), watched(after)
    return tuple(
        f"{name}: {old.get(name, 'not told')}, now {new.get(name, 'not told')}"
        for name in dict.fromkeys((*old, *new))
        if old.get(name) != new.get(name)
    )


def host_changed(changes: tuple[str, ...]) -> Finding:
    """The finding over changes of the host."""
    return HostChanged(changes).finding()


def link_errors(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Finding, ...]:
    """PCIe errors that the drive's link counted meanwhile, as the kernel's AER statistics have it.

    A corrected error is a packet sent again, which costs time; the others lost a request. The
    counters begin anew with every boot, so that a smaller number tells nothing.
    Documentation/ABI/testing/sysfs-bus-pci-devices-aer (TOTAL_ERR_COR and its sisters).
    """
    findings = []
    for name in _COUNTERS:
        first, last = (_total(facts.get(_DRIVE + name)) for facts in (before, after))
        if first is not None and last is not None and (grown := last - first) > 0:
            findings.append(LinkErrors(grown, name, name == _CORRECTED).finding())
    return tuple(findings)


def _total(said: str | None) -> int | None:
    """The sum that stands last in a file of AER statistics; None without one."""
    found = re.search(r"\bTOTAL_ERR_\w+ (\d+)$", said or "")
    return int(found[1]) if found else None


def written_between(before: object, after: FlashWritten | None) -> FlashWritten | None:
    """What host and drive wrote between two readings; None where that cannot be told.

    `before` is a reading as the journal keeps it. Too few bytes of the host, counters that went
    backwards (another drive, a reset log), and a counter whose step is not known or is too coarse
    for what was written, tell nothing.
    """
    if not isinstance(before, Mapping) or after is None:
        return None
    began = FlashWritten.model_validate(before)
    host_bytes = after.host_bytes - began.host_bytes
    media_bytes = after.media_bytes - began.media_bytes
    step_bytes = after.media_step_bytes
    if host_bytes < LEAST_HOST_BYTES or media_bytes <= 0 or step_bytes is None:
        return None
    found = FlashWritten(
        host_bytes=host_bytes, media_bytes=media_bytes, media_step_bytes=step_bytes
    )
    least, most = found.amplification_range
    return found if most - least <= WIDEST * found.amplification else None
