"""What host and drive say of themselves at both ends of a run, compared; pure.

What moves by itself (load, temperature, counters of errors) is left out: only what would make two
halves of a run two experiments counts.
"""

from collections.abc import Mapping

from ssdbench.model.finding import Code, Finding, Severity
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
_COUNTERS = ("PCIe corrected errors", "PCIe fatal errors")
# Health logs count 512,000 bytes and are brought up to date at the drive's leisure: below this
# the difference of two readings says little.
LEAST_HOST_BYTES = 10**9


def watched(facts: Mapping[str, str]) -> dict[str, str]:
    """The facts that must not change while a run measures."""
    return {
        name: value
        for name, value in facts.items()
        if name in _WATCHED or (name.startswith(_DRIVE) and not name.endswith(_COUNTERS))
    }


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
    return Finding(
        code=Code.HOST_CHANGED,
        severity=Severity.INVALIDATES,
        message=f"the host is not as it was when the run began: {'; '.join(changes)}",
        advice="Find out who changes it (a power daemon, an update, an administrator), and begin "
        "anew: points before and after the change were measured on two hosts.",
    )


def written_between(before: object, after: FlashWritten | None) -> FlashWritten | None:
    """What host and drive wrote between two readings; None where that cannot be told.

    `before` is a reading as the journal keeps it. Too few bytes of the host, and counters that
    went backwards (another drive, a reset log), tell nothing.
    """
    if not isinstance(before, Mapping) or after is None:
        return None
    began = FlashWritten.model_validate(before)
    host_bytes = after.host_bytes - began.host_bytes
    media_bytes = after.media_bytes - began.media_bytes
    if host_bytes < LEAST_HOST_BYTES or media_bytes <= 0:
        return None
    return FlashWritten(host_bytes=host_bytes, media_bytes=media_bytes)
