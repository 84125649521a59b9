"""Whether a fill reached the drive: by the kernel's counters, and by the drive's own health log.

Two witnesses that know nothing of each other. The kernel counts what it handed to the drive; an
NVMe drive counts "data units written" itself (NVM Express base specification, SMART log, bytes 48
to 63: thousands of 512 bytes, rounded up). Pure.

Limits: a health log covers the whole controller, so that writes to other namespaces count in it,
and some drives write it with a delay; within `TELLS_FROM_UNITS` rounding hides a difference.
"""

from collections.abc import Sequence

from ssdbench.engine.session import Counters
from ssdbench.model.finding import Finding
from ssdbench.model.findings.preparation import FillMissingInLog, FillNotCounted, OthersWrote

PROOF_TOLERANCE = 1e-3  # of the planned bytes: samples at the very end may come too late
AGREES_WITHIN = 0.01  # of what the kernel counted
UNIT_BYTES = 512_000
TELLS_FROM_UNITS = 2  # each of two readings is rounded up to a unit


def written_between(before: int | None, after: int | None) -> int | None:
    """What the health log counted between two readings; None where it does not tell."""
    return None if before is None or after is None else after - before


def proof(
    planned: int, seen: int, before: Counters, after: Counters, told: int | None = None
) -> Sequence[Finding]:
    """What keeps a fill that ran to its end from being proven.

    `planned`: bytes asked for; `seen`: in the samples; `told`: by the health log.
    """
    comparable = bool(after.epoch) and after.epoch == before.epoch
    counted = after.written_bytes - before.written_bytes if comparable else seen
    if min(counted, seen) < planned * (1 - PROOF_TOLERANCE):
        source = after.source if comparable else "samples"
        return [FillNotCounted(planned, min(counted, seen), source).finding()]
    return [] if told is None else _second_witness(counted, told)


def log_tolerance_bytes(counted: int) -> float:
    """How far the drive's health log may be from what was counted, and agree with it."""
    return max(AGREES_WITHIN * counted, TELLS_FROM_UNITS * UNIT_BYTES)


def _second_witness(counted: int, told: int) -> Sequence[Finding]:
    """A finding when the drive's own count is not the kernel's."""
    apart = told - counted
    if abs(apart) <= log_tolerance_bytes(counted):
        return []
    if apart < 0:
        return [FillMissingInLog(kernel_bytes=counted, log_bytes=told).finding()]
    return [OthersWrote(kernel_bytes=counted, log_bytes=told).finding()]
