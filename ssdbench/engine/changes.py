"""Find what changed on drive and host since a run began or stopped; pure, callers read."""

import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ssdbench.engine.fiorun import ALIVE_EVERY_S
from ssdbench.engine.journal import PAST_KERNEL, Kind, Record
from ssdbench.engine.session import SIMULATED, Counters
from ssdbench.model.finding import Finding
from ssdbench.model.findings.drive import LinkErrors
from ssdbench.model.findings.host import HostChanged
from ssdbench.model.result import FlashWritten
from ssdbench.units import format_capacity

# Our own writes since the newest record of the current unit, which no record shows.
# Records come every ALIVE_EVERY_S; a busy host may be late by as much again.
UNSEEN_S = 2 * ALIVE_EVERY_S
ROUNDING_BYTES = 2 * 512_000  # a health log counts such units, and two readings are compared
FASTEST_BYTES_PER_S = 16e9  # of one drive, where the journal shows no rate (PCIe 5.0 x4)


@dataclass(frozen=True, slots=True)
class DriveCheck:
    """Hold whether the run's writes are still on the drive, and the reason."""

    intact: bool
    reason: str  # a clause: "the drive's counters match the journal"
    touched: bool = False  # a counter shows that others wrote or discarded


def check_drive(records: Sequence[Record], now: Counters) -> DriveCheck:
    """Compare the journal's newest write counters with the current ones.

    Writes by others leave a fill in place, but a discard or a format does not, and a drive that was
    used elsewhere may have had both. So any write that is not ours means: not intact.
    """
    seen = [(record, Counters.model_validate(c)) for record in records if (c := _counters(record))]
    if not seen or not now.epoch:
        return DriveCheck(False, "this kind of target has no counter of what is written to it")
    record, last = seen[-1]
    if last.epoch != now.epoch:
        what = (
            "the drive's state was recreated since"
            if now.source == SIMULATED
            else "the host restarted since, or the drive was attached again"
        )
        logged = _logged_since(seen, now)
        if logged > 0:
            return DriveCheck(
                False,
                f"{what}, and the drive's health log counts {format_capacity(logged)} that "
                "this run did not write",
                touched=True,
            )
        return DriveCheck(False, f"{what}, and nothing shows what was written meanwhile")
    at_work = record.kind in (Kind.BEGUN, Kind.ALIVE)
    if now.discarded_bytes != last.discarded_bytes:
        # A run that discards itself may have done so again just before it was killed.
        own = at_work and any(
            a.epoch == b.epoch and a.discarded_bytes != b.discarded_bytes
            for (_, a), (_, b) in pairwise(seen)
        )
        return DriveCheck(False, "blocks of the target were discarded since", touched=not own)
    unseen = now.written_bytes - last.written_bytes
    # The state of a simulated drive is locked while in use, so only this run wrote to it.
    most = math.inf if now.source == SIMULATED else _rate(seen) * UNSEEN_S
    allowed = most if at_work else 0.0
    if not 0 <= unseen <= allowed:
        return DriveCheck(
            False,
            f"the target's counters moved by {format_capacity(abs(unseen))} that this run did not "
            "write",
            touched=True,
        )
    past = _past_the_kernel(seen, now) - ROUNDING_BYTES
    begun = next((record for record, _ in reversed(seen) if record.kind is Kind.BEGUN), record)
    if past > (allowed if _passes(begun) else 0.0):
        return DriveCheck(
            False,
            f"the drive's health log counts {format_capacity(past + ROUNDING_BYTES)} written that "
            "neither the kernel nor this run counted",
            touched=True,
        )
    return DriveCheck(True, "the target's identity and write counters match the journal")


def _past_the_kernel(seen: Sequence[tuple[Record, Counters]], now: Counters) -> int:
    """Return the bytes that the log counts beyond the kernel's count and our passthrough writes.

    A log that is late, or that counts other namespaces, drifts from the kernel's count. The drift
    that was seen during the run is allowed again.
    """
    gaps: list[int] = []
    passing, passed, before = False, 0, 0
    for record, counters in seen:
        own = _own_bytes(record)
        if passing:
            passed += own - before
        before = own
        if record.kind is Kind.BEGUN:
            passing = _passes(record)
        elif record.kind is Kind.RESUMED and not record.data.get("stands"):
            gaps.clear()  # writes of others are not drift
        if counters.log_bytes is not None and counters.epoch == now.epoch:
            gaps.append(counters.log_bytes - counters.written_bytes - passed)
    if now.log_bytes is None or not gaps:
        return 0
    drifted = max(gaps) - min(gaps)
    return now.log_bytes - now.written_bytes - passed - max(gaps) - drifted


def _logged_since(seen: Sequence[tuple[Record, Counters]], now: Counters) -> int:
    """Return what the health log counts since the run, after the kernel's counters restarted.

    Allows for the drift between log and kernel that was seen before.
    """
    logged = [pair for pair in seen if pair[1].log_bytes is not None]
    if now.log_bytes is None or not logged or now.source == SIMULATED:
        return 0
    record, last = logged[-1]
    gaps = [
        c.log_bytes - c.written_bytes
        for _, c in logged
        if c.log_bytes is not None and c.epoch == last.epoch
    ]
    begun = [r for r, _ in seen if r.n > record.n]  # units that wrote until the host went down
    unseen = seen[-1][1].written_bytes - last.written_bytes if begun else 0
    at_work = seen[-1][0].kind in (Kind.BEGUN, Kind.ALIVE)
    allowed = unseen + (round(_rate(seen) * UNSEEN_S) if at_work else 0)
    drifted = max(gaps) - min(gaps)
    return (now.log_bytes - (last.log_bytes or 0)) - allowed - drifted - ROUNDING_BYTES


def _passes(begun: Record) -> bool:
    """Tell whether this unit writes past the kernel's block layer (NVMe passthrough)."""
    return bool(begun.data.get(PAST_KERNEL))


def _own_bytes(record: Record) -> int:
    """Return the bytes that the run had written by its own count."""
    written = record.data.get("bytes_written", 0)
    return written if isinstance(written, int) else 0


def _counters(record: Record) -> Mapping[str, object] | None:
    counters = record.data.get("counters")
    return counters if isinstance(counters, Mapping) else None


def _rate(seen: Sequence[tuple[Record, Counters]]) -> float:
    """Return the fastest write rate between two records, or that of the fastest drive if unknown.

    Uses the monotonic clock, because the wall clock may be set during a run.
    """
    rates = [
        (b.written_bytes - a.written_bytes) / elapsed_s
        for (_, a), (record, b) in pairwise(seen)
        if record.kind is not Kind.RESUMED  # no unit was running before it
        and a.epoch == b.epoch
        and a.read_at_s
        and (elapsed_s := b.read_at_s - a.read_at_s) >= 1
    ]
    fastest = max(rates, default=0.0)
    return min(fastest, FASTEST_BYTES_PER_S) if fastest > 0 else FASTEST_BYTES_PER_S


HOST = "host"  # in the journal's first record: the facts that are compared
FLASH = "flash_written"  # likewise: the drive's own counters

_SUSPENDED = "time suspended"  # since boot, so that it begins anew with the next one
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
        _SUSPENDED,
    }
)
_DRIVE = "drive: "
_CORRECTED = "PCIe corrected errors"
_COUNTERS = (_CORRECTED, "PCIe non-fatal errors", "PCIe fatal errors")
# Health logs count units of 512,000 bytes and are updated late: below this, the difference of two
# readings means little.
LEAST_HOST_BYTES = 10**9
WIDEST = 0.25  # interval of write amplification over its middle; a wider one is useless


def compared_facts(facts: Mapping[str, str]) -> dict[str, str]:
    """Select the facts that must not change during a run."""
    return {
        name: value
        for name, value in facts.items()
        if name in _WATCHED or (name.startswith(_DRIVE) and not name.endswith(_COUNTERS))
    }


def facts_at_start(facts: Mapping[str, str]) -> dict[str, str]:
    """Select the facts that are compared at the end: the watched ones and PCIe error counters."""
    counters = {name: facts[_DRIVE + name] for name in _COUNTERS if _DRIVE + name in facts}
    return compared_facts(facts) | {_DRIVE + name: said for name, said in counters.items()}


def host_changes(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """List the watched facts that changed, as `governor: performance, now powersave`.

    The time that the host was suspended counts only if it grew: a drive may have lost its power.
    """
    old, new = compared_facts(before), compared_facts(after)
    return tuple(
        f"{name}: {old.get(name, 'unknown')}, now {new.get(name, 'unknown')}"
        for name in dict.fromkeys((*old, *new))
        if old.get(name) != new.get(name) and (name != _SUSPENDED or _seconds(new) > _seconds(old))
    )


def _seconds(facts: Mapping[str, str]) -> int:
    """Return the seconds of a suspended host; no later number is larger if none was noted."""
    number = facts.get(_SUSPENDED, "").removesuffix(" s")
    return int(number) if number.isdigit() else sys.maxsize


def host_changed(changes: tuple[str, ...]) -> Finding:
    """The finding over changes of the host."""
    return HostChanged(changes).finding()


def link_errors(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Finding, ...]:
    """Report PCIe errors counted on the drive's link during the run (kernel AER statistics).

    A corrected error is a packet that was sent again, which costs time; other errors lost a
    request. Counters restart at each boot, so a smaller number is ignored. Source:
    Documentation/ABI/testing/sysfs-bus-pci-devices-aer (TOTAL_ERR_COR and the like).
    """
    findings = []
    for name in _COUNTERS:
        first, last = (_aer_total(facts.get(_DRIVE + name)) for facts in (before, after))
        if first is not None and last is not None and (grown := last - first) > 0:
            findings.append(LinkErrors(grown, name, name == _CORRECTED).finding())
    return tuple(findings)


def _aer_total(said: str | None) -> int | None:
    """Parse the total at the end of an AER statistics file; None without one."""
    found = re.search(r"\bTOTAL_ERR_\w+ (\d+)$", said or "")
    return int(found[1]) if found else None


def flash_written_between(before: object, after: FlashWritten | None) -> FlashWritten | None:
    """Return what host and drive wrote between two readings of the log, or None if unknown.

    `before` is a reading from the journal. Unknown: too few host bytes, counters that went
    backwards (another drive, a reset log), or a counter whose step is unknown or too coarse.
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
