"""Decide whether a write cache is protected or volatile, from drive reports and flush times.

The reports are the volatile write cache of NVM Express (2.0, Identify Controller VWC and feature
06h), words 82 and 85 of ATA's IDENTIFY DEVICE, and WCE in SCSI's caching page (SBC-3). If a flush
takes longer after more writes, the flush empties a volatile memory. If a flush ends faster than
flash can be programmed, the flush has nothing to wait for, or the drive ignores flushes; no test
from outside can separate these two cases. If the kernel treats a cache as write-through, it sends
no flushes (Documentation/block/writeback_cache_control.rst), so flush times mean nothing.
"""

from collections.abc import Iterable, Mapping, Sequence

from ssdbench.model.finding import Finding, FindingKind
from ssdbench.model.findings.drive import CacheContradiction, VolatileCache
from ssdbench.model.inside import BlockSizeFound, CacheKind, ProbeFound, ProbeNumbers, WriteCache
from ssdbench.model.result import StageResult
from ssdbench.model.target import TargetInfo
from ssdbench.stats.inside.probing import BUFFERED_NS, Flush
from ssdbench.units import format_ns, format_size

NVME_CACHE_FEATURE = "0x06"
CACHE_TYPE = "cache_type"
KERNEL_FACT = "drive: write cache"
CONTRADICTION = "the drive reports no active volatile cache, but flushes wait for data in one"


def buffer_bytes(target: TargetInfo, stages: Iterable[StageResult]) -> int:
    """Return the largest known write buffer in bytes, from the simulated model or from a probe."""
    found = [stage.found for stage in stages]
    sizes = [one.buffer_bytes for one in found if isinstance(one, BlockSizeFound)]
    sizes += [one.numbers.buffer_bytes for one in found if isinstance(one, ProbeFound)]
    return max(target.write_buffer_bytes, *(size or 0 for size in sizes), 0)


def cache_enabled(
    target: TargetInfo, settings: Sequence[Mapping[str, str]] = ()
) -> tuple[bool | None, bool | None]:
    """Tell whether the drive has a volatile cache, and whether this cache was on during the run."""
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
    """Return the kind of write cache of a run's target, with the evidence.

    `settings` holds the settings that the run changed. `host` holds facts of the host, such as how
    the kernel treats the cache.
    """
    present, enabled = cache_enabled(target, settings)
    kernel = (host or {}).get(KERNEL_FACT, "")
    measured = _flushes(stages)
    size = buffer_bytes(target, stages)
    waits = None if kernel == "write through" else _waits(measured)
    volatile = enabled if present is None else present and enabled is not False
    if volatile is None and kernel:
        volatile = kernel == "write back"  # for a disk that reports nothing, such as virtio
    return WriteCache(
        kind=_kind(volatile, waits, buffered=bool(size) or _fast(measured)),
        evidence=tuple(_evidence(target, present, enabled, measured, size, kernel)),
        contradiction=CONTRADICTION if volatile is False and waits is Flush.BUFFER else "",
        present=present,
        enabled=enabled,
        write_us=measured.write_us,
        flush_us_after_1=measured.flush_us_after_1,
        flush_us_after_many=measured.flush_us_after_64,
        buffer_bytes=size,
    )


def _kind(volatile: bool | None, waits: Flush | None, *, buffered: bool | None) -> CacheKind:
    """Return the kind of cache; a measurement overrides the report of the drive."""
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


def _fast(measured: ProbeNumbers) -> bool | None:
    """Tell whether a write ends before flash can be programmed; None if this was not measured."""
    return None if measured.write_us is None else 1000 * measured.write_us < BUFFERED_NS


def _waits(measured: ProbeNumbers) -> Flush | None:
    return Flush(measured.flush_waits_for) if measured.flush_waits_for else None


def _flushes(stages: Sequence[StageResult]) -> ProbeNumbers:
    """Return the last complete result of the flush probe, or an empty result."""
    for stage in reversed(stages):
        said = stage.found.numbers if isinstance(stage.found, ProbeFound) else ProbeNumbers()
        if None not in (said.write_us, said.flush_us_after_1, said.flush_us_after_64):
            return said
    return ProbeNumbers()


def _evidence(
    target: TargetInfo,
    present: bool | None,
    enabled: bool | None,
    measured: ProbeNumbers,
    size: int,
    kernel: str,
) -> Iterable[str]:
    yield _said(target, present, enabled)
    if kernel:
        yield f"the kernel treats the cache as {kernel}"
    if measured.write_us is None:
        yield "the cost of a flush was not measured (`- probe: {of: [flush]}` measures it)"
    elif kernel == "write through":
        yield "the kernel therefore sends no flushes, so their time means nothing"
    else:
        times = (measured.write_us, measured.flush_us_after_1, measured.flush_us_after_64)
        write, one, many = (format_ns(1000 * (time_us or 0.0)) for time_us in times)
        yield (
            f"a 32 KiB write takes {write}, a flush takes {one} after one such write and {many} "
            f"after 64: {_meaning(measured)}"
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


def _meaning(measured: ProbeNumbers) -> str:
    match _waits(measured):
        case Flush.BUFFER:
            return "the flush empties a volatile memory"
        case Flush.NOTHING:
            return "the flush has nothing to wait for, or the drive ignores it"
    if not _fast(measured):
        return "writes are slow themselves, so nothing is left for a flush"
    return "this does not tell volatile from protected"


def cache_findings(
    cache: WriteCache, *, simulated: bool = False, some_flushed: bool = False
) -> tuple[Finding, ...]:
    """Return findings about the cache for a planner, as rates are measured without flushes."""
    kinds: list[FindingKind] = []
    if cache.kind is CacheKind.VOLATILE:
        kinds.append(
            VolatileCache(cache.buffer_bytes, cache.flush_us_after_1, simulated, some_flushed)
        )
    if cache.contradiction:
        kinds.append(CacheContradiction(cache.contradiction))
    return tuple(kind.finding() for kind in kinds)
