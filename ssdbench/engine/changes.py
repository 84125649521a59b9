"""Compare readings of drive and host from two moments of a run, to find what changed; no I/O."""

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
from ssdbench.model.result import FlashWritten
from ssdbench.units import format_capacity

# The longest time during which a unit can write without a new record in the journal. A running unit
# stores a record every ALIVE_EVERY_S; a busy host may take twice as long.
UNSEEN_S = 2 * ALIVE_EVERY_S
ROUNDING_BYTES = 2 * 512_000  # rounding of two health logs, which count in 512,000 bytes
FASTEST_BYTES_PER_S = 16e9  # fastest PCIe 5.0 x4 drive; used if a journal shows no rate


@dataclass(frozen=True, slots=True)
class DriveCheck:
    """Tell whether the drive still holds the data that the run wrote, and why that is so."""

    intact: bool
    reason: str  # a clause: "the drive's counters match the journal"
    touched: bool = False  # a counter shows a write or discard by another program


def check_drive(records: Sequence[Record], now: Counters) -> DriveCheck:
    """Compare the newest write counters in the journal with the drive's current write counters.

    A program that wrote to the drive may also have discarded or formatted it, which erases the data
    that the run wrote. So after any write by another program, the drive is not taken as intact.
    """
    seen = [
        (record, Counters.model_validate(counters))
        for record in records
        if isinstance(counters := record.data.get("counters"), Mapping)
    ]
    if not seen or not now.epoch:
        return DriveCheck(False, "this kind of target does not count the bytes written to it")
    record, last = seen[-1]
    if last.epoch != now.epoch:
        what = (
            "the simulated drive was created again since"
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
        return DriveCheck(False, f"{what}, and no counter shows what was written meanwhile")
    at_work = record.kind in (Kind.BEGUN, Kind.ALIVE)
    if now.discarded_bytes != last.discarded_bytes:
        # A run that discards data itself may have discarded more just before it was killed.
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
    """Return the bytes in the drive's health log that neither the kernel nor this run counted.

    The log may differ from the kernel's count for two harmless reasons: the drive updates the log
    late, or the log also counts other namespaces. So the largest difference between the log and the
    kernel's count during the run is subtracted, and also the amount by which this difference
    changed.
    """
    gaps: list[int] = []
    passing, passed, before = False, 0, 0
    for record, counters in seen:
        written = record.data.get("bytes_written", 0)  # as counted by the run
        own = written if isinstance(written, int) else 0
        if passing:
            passed += own - before
        before = own
        if record.kind is Kind.BEGUN:
            passing = _passes(record)
        elif record.kind is Kind.RESUMED and not record.data.get("stands"):
            gaps.clear()  # drop differences that other programs' writes caused
        if counters.log_bytes is not None and counters.epoch == now.epoch:
            gaps.append(counters.log_bytes - counters.written_bytes - passed)
    if now.log_bytes is None or not gaps:
        return 0
    drifted = max(gaps) - min(gaps)
    return now.log_bytes - now.written_bytes - passed - max(gaps) - drifted


def _logged_since(seen: Sequence[tuple[Record, Counters]], now: Counters) -> int:
    """Return the bytes that the health log counted after a run, whose kernel counters restarted.

    The kernel's counters restart with the host or when a drive is attached again. Bytes that the
    run may have written after its last reading of the log are subtracted. The change, during the
    run, of the difference between the log and the kernel's count is also subtracted.
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
    begun = [r for r, _ in seen if r.n > record.n]  # begun after the log's last reading
    unseen = seen[-1][1].written_bytes - last.written_bytes if begun else 0
    at_work = seen[-1][0].kind in (Kind.BEGUN, Kind.ALIVE)
    allowed = unseen + (round(_rate(seen) * UNSEEN_S) if at_work else 0)
    drifted = max(gaps) - min(gaps)
    return (now.log_bytes - (last.log_bytes or 0)) - allowed - drifted - ROUNDING_BYTES


def _passes(begun: Record) -> bool:
    """Tell whether a unit writes by NVMe passthrough, which the block layer does not count."""
    return bool(begun.data.get(PAST_KERNEL))


def _rate(seen: Sequence[tuple[Record, Counters]]) -> float:
    """Return the fastest write rate between two journal records; FASTEST_BYTES_PER_S if unknown.

    Elapsed time comes from the monotonic clock, because the wall clock may be changed during a run.
    """
    rates = [
        (b.written_bytes - a.written_bytes) / elapsed_s
        for (_, a), (record, b) in pairwise(seen)
        if record.kind is not Kind.RESUMED  # no unit ran between the stop and the resume
        and a.epoch == b.epoch
        and a.read_at_s
        and (elapsed_s := b.read_at_s - a.read_at_s) >= 1
    ]
    return min(max(rates, default=0.0), FASTEST_BYTES_PER_S) or FASTEST_BYTES_PER_S


# Keys in the first record of a journal.
HOST = "host"  # facts of the host that are compared when the run ends
FLASH = "flash_written"  # the drive's counters of host and flash writes

_SUSPENDED = "time suspended"  # counted from 0 since boot
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
# Health logs count in units of 512,000 bytes and are updated late. So the difference of two
# readings is too inexact if the host wrote fewer bytes than this.
LEAST_HOST_BYTES = 10**9
WIDEST = 0.25  # largest allowed width of the write amplification's interval / middle


def compared_facts(facts: Mapping[str, str]) -> dict[str, str]:
    """Select the facts of host and drive that must not change during a run."""
    return {
        name: value
        for name, value in facts.items()
        if name in _WATCHED or (name.startswith(_DRIVE) and not name.endswith(_COUNTERS))
    }


def facts_at_start(facts: Mapping[str, str]) -> dict[str, str]:
    """Select what a run stores at its start to compare later: facts of host, drive and link."""
    counters = {name: facts[_DRIVE + name] for name in _COUNTERS if _DRIVE + name in facts}
    return compared_facts(facts) | {_DRIVE + name: said for name, said in counters.items()}


def host_changes(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """List the changed facts of the host, in the form `governor: performance, now powersave`.

    A suspend of the host between both readings is also listed, because the drive may have lost
    power.
    """
    old, new = compared_facts(before), compared_facts(after)
    return tuple(
        f"{name}: {old.get(name, 'unknown')}, now {new.get(name, 'unknown')}"
        for name in dict.fromkeys((*old, *new))
        if old.get(name) != new.get(name) and (name != _SUSPENDED or _seconds(new) > _seconds(old))
    )


def _seconds(facts: Mapping[str, str]) -> int:
    """Return how many seconds the host was suspended since boot; sys.maxsize if unknown."""
    number = facts.get(_SUSPENDED, "").removesuffix(" s")
    return int(number) if number.isdigit() else sys.maxsize


def link_errors(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Finding, ...]:
    """Return a finding for each kind of PCIe error on the drive's link during the run (AER).

    After a corrected error the link sends the packet again, which costs time; an error of another
    kind loses a request. Counters restart at each boot, so a counter that became smaller is
    ignored. Source: Documentation/ABI/testing/sysfs-bus-pci-devices-aer (TOTAL_ERR_COR and others).
    """
    findings = []
    for name in _COUNTERS:
        first, last = (_aer_total(facts.get(_DRIVE + name)) for facts in (before, after))
        if first is not None and last is not None and (grown := last - first) > 0:
            findings.append(LinkErrors(grown, name, name == _CORRECTED).finding())
    return tuple(findings)


def _aer_total(said: str | None) -> int | None:
    """Parse the total at the end of an AER statistics file; None if the file has no total."""
    found = re.search(r"\bTOTAL_ERR_\w+ (\d+)$", said or "")
    return int(found[1]) if found else None


def flash_written_between(before: object, after: FlashWritten | None) -> FlashWritten | None:
    """Return the bytes that the host wrote and the drive programmed to flash between two readings.

    `before` is a reading from the journal, `after` a newer one. The result is None if the host
    wrote less than 1 GB, if the flash counter did not grow (another drive, a reset log), or if the
    counter's step is unknown or too large for the number of bytes.
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
