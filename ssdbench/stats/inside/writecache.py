"""Tells protected and volatile write caches apart by what a drive says and what flushes cost.

A drive's word is the volatile write cache of NVM Express (2.0, Identify Controller VWC and feature
06h), word 82 and 85 of ATA's IDENTIFY DEVICE, or WCE of SCSI's caching page (SBC-3). A flush that
takes longer the more was written before it empties a volatile memory; one that is answered faster
than flash can be programmed has nothing to wait for, or ignores what it was asked, which cannot be
told apart from outside. Where the kernel takes a cache for write-through it sends no flushes at all
(Documentation/block/writeback_cache_control.rst), and their time says nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ssdbench.model.finding import Finding, FindingKind
from ssdbench.model.findings.drive import CacheContradiction, VolatileCache
from ssdbench.model.found import AnyFound
from ssdbench.model.inside import BlockSizeFound, CacheKind, ProbeFound, ProbeNumbers, WriteCache
from ssdbench.model.result import StageResult
from ssdbench.model.target import TargetInfo
from ssdbench.stats.inside.probing import BUFFERED_NS, Flush
from ssdbench.units import format_ns, format_size

NVME_CACHE_FEATURE = "0x06"
CACHE_TYPE = "cache_type"
KERNEL_FACT = "drive: write cache"


@dataclass(frozen=True, slots=True)
class Flushes:
    """What the flush probe measured."""

    waits_for: Flush | None
    write_us: float
    after_1_us: float
    after_many_us: float


def buffer_bytes(target: TargetInfo, stages: Iterable[StageResult]) -> int:
    """Return the largest known write buffer: a simulated drive's own, or a found one."""
    return max(target.write_buffer_bytes, *(_buffer_found(stage.found) for stage in stages), 0)


def _buffer_found(found: AnyFound) -> int:
    match found:
        case BlockSizeFound():
            return found.buffer_bytes or 0
        case ProbeFound():
            return found.numbers.buffer_bytes or 0
        case _:
            return 0


def cache_enabled(
    target: TargetInfo, settings: Sequence[Mapping[str, str]] = ()
) -> tuple[bool | None, bool | None]:
    """Tell whether a volatile cache is there and whether it is on, after what the run set."""
    there = target.facts.get("volatile write cache")
    state = target.facts.get("write cache")
    present = {"present": True, "absent": False}.get(there or "")
    if present is None and state is not None:
        present = state != "not supported"
    enabled = {"on": True, "off": False, "not supported": False}.get(state or "")
    for setting in settings:
        if setting.get("setting") == NVME_CACHE_FEATURE:
            enabled = setting.get("value") == "1"
        elif setting.get("setting") == CACHE_TYPE:
            present, enabled = True, setting.get("value") == "write back"
    return present, (False if present is False else enabled)


def write_cache(
    target: TargetInfo,
    stages: Sequence[StageResult],
    *,
    settings: Sequence[Mapping[str, str]] = (),
    host: Mapping[str, str] | None = None,
) -> WriteCache:
    """Return the write cache of a run's target.

    `settings`: what the run changed; `host`: facts of the host, for how the kernel sees the cache.
    """
    present, enabled = cache_enabled(target, settings)
    kernel = (host or {}).get(KERNEL_FACT, "")
    measured = _flushes(stages)
    size = buffer_bytes(target, stages)
    sent = measured is not None and kernel != "write through"
    waits = measured.waits_for if measured is not None and sent else None
    volatile = enabled if present is None else present and enabled is not False
    if volatile is None and kernel:
        volatile = kernel == "write back"  # a disk without pages of its own, such as virtio's
    return WriteCache(
        kind=_kind(volatile, waits, buffered=bool(size) or _fast(measured)),
        evidence=tuple(_evidence(target, present, enabled, measured, size, kernel)),
        contradiction=_contradiction(volatile, waits),
        present=present,
        enabled=enabled,
        write_us=measured.write_us if measured else None,
        flush_us_after_1=measured.after_1_us if measured else None,
        flush_us_after_many=measured.after_many_us if measured else None,
        buffer_bytes=size,
    )


def _kind(volatile: bool | None, waits: Flush | None, *, buffered: bool | None) -> CacheKind:
    """Say what was measured overrides what the drive says."""
    if waits is Flush.BUFFER:
        return CacheKind.VOLATILE
    if waits is Flush.NOTHING:
        return CacheKind.PROTECTED
    if volatile is None:
        return CacheKind.UNKNOWN
    if volatile:
        return CacheKind.VOLATILE
    if buffered is None:
        return CacheKind.NOT_VOLATILE
    return CacheKind.PROTECTED if buffered else CacheKind.NONE


def _fast(measured: Flushes | None) -> bool | None:
    """Tell whether a write is answered before flash can be programmed; None if not timed."""
    return None if measured is None else 1000 * measured.write_us < BUFFERED_NS


def _contradiction(volatile: bool | None, waits: Flush | None) -> str:
    if volatile is False and waits is Flush.BUFFER:
        return "the drive says that no volatile cache is at work, but flushes wait for its content"
    return ""


def _flushes(stages: Sequence[StageResult]) -> Flushes | None:
    """Return the last answer of the flush probe that has times in it."""
    for stage in reversed(stages):
        said = stage.found.numbers if isinstance(stage.found, ProbeFound) else ProbeNumbers()
        one, many, wrote = said.flush_us_after_1, said.flush_us_after_64, said.write_us
        if one is not None and many is not None and wrote is not None:
            waits = Flush(said.flush_waits_for) if said.flush_waits_for else None
            return Flushes(waits, wrote, one, many)
    return None


def _evidence(
    target: TargetInfo,
    present: bool | None,
    enabled: bool | None,
    measured: Flushes | None,
    size: int,
    kernel: str,
) -> Iterable[str]:
    yield _said(target, present, enabled)
    if kernel:
        yield f"the kernel takes it for {kernel}"
    if measured is None:
        yield "what a flush costs was not measured (`- probe: {of: [flush]}` does)"
    elif kernel == "write through":
        yield "the kernel therefore sends it no flushes, so their time says nothing"
    else:
        one, many = format_ns(measured.after_1_us * 1000), format_ns(measured.after_many_us * 1000)
        yield (
            f"a 32 KiB write takes {format_ns(measured.write_us * 1000)}, a flush {one} behind one "
            f"of them and {many} behind 64: {_meaning(measured)}"
        )
    if size:
        known = "the model has" if target.write_buffer_bytes == size else "the run found"
        yield f"{known} a write buffer of {format_size(size)}"


def _said(target: TargetInfo, present: bool | None, enabled: bool | None) -> str:
    who = "the model" if target.simulated else "the drive"
    if present is False:
        return f"{who} says that it has no volatile write cache"
    if enabled is None and present is None:
        return f"{who} does not say whether it has a volatile write cache"
    state = {True: ", and it is on", False: ", and it is off", None: ""}[enabled]
    return f"{who} says that it has a volatile write cache{state}"


def _meaning(measured: Flushes) -> str:
    match measured.waits_for:
        case Flush.BUFFER:
            return "it empties a volatile memory"
        case Flush.NOTHING:
            return "it has nothing to wait for, or is ignored"
    if not _fast(measured):
        return "writes are slow themselves, so that nothing is left for a flush"
    return "which says neither"


def cache_findings(
    cache: WriteCache, *, simulated: bool = False, some_flushed: bool = False
) -> tuple[Finding, ...]:
    """Say what a planner must know of the cache behind rates that were measured without flushes."""
    kinds: list[FindingKind] = []
    if cache.kind is CacheKind.VOLATILE:
        kinds.append(
            VolatileCache(cache.buffer_bytes, cache.flush_us_after_1, simulated, some_flushed)
        )
    if cache.contradiction:
        kinds.append(CacheContradiction(cache.contradiction))
    return tuple(kind.finding() for kind in kinds)
