"""What a profile asks for that a target cannot serve; pure.

A profile is read before its target is known, so these mistakes are found later, and still stand
where the user wrote them. Standard tests choose their own blocks: what a drive cannot serve is
"not applicable" there, and in a sweep that says `where_possible`.
"""

import re
from collections.abc import Iterator

from ssdbench.model.acceptfit import unmeasured
from ssdbench.model.asked.mistakes import Mistake
from ssdbench.model.asked.sweeps import SpanSweep, Sweep
from ssdbench.model.lbaformat import LbaFormat
from ssdbench.model.profile import Profile
from ssdbench.model.quantity import Extent
from ssdbench.model.target import ZONES, TargetInfo, TargetKind
from ssdbench.model.workload import IoEngine
from ssdbench.model.zonefit import out_of_order
from ssdbench.units import format_capacity, format_size

_NAMESPACE = re.compile(r"/nvme\d+n\d+$")


def obstacle(block_bytes: int, length_bytes: int, target: TargetInfo) -> str:
    """Why requests of a size cannot be made in a range of a target; empty if they can."""
    logical = target.logical_block_bytes
    if block_bytes % logical:
        return (
            f"requests of {format_size(block_bytes)} are not a multiple of the drive's logical "
            f"block of {format_size(logical)}"
        )
    if target.zone_bytes % block_bytes:
        return (
            f"requests of {format_size(block_bytes)} do not fill a zone, which holds "
            f"{format_size(target.zone_bytes)}"
        )
    if block_bytes > length_bytes:
        return f"a block of {format_size(block_bytes)} does not fit into the span"
    return ""


def engine_obstacle(engine: IoEngine, target: TargetInfo) -> str:
    """Why an engine can never reach such a target, whatever the host has; empty if it can."""
    if engine is IoEngine.LIBAIO:
        return ""
    if ZONES in target.facts and not target.zone_bytes:
        return f"{target.name} is refused with any engine, for its zones"
    if target.zone_bytes:
        return f"{target.name} is zoned, and no engine but libaio has been tried on such drives"
    if target.simulated:
        return f"{target.name} is simulated and has its own way in: leave `engine` out"
    if target.kind is TargetKind.FILE and engine is IoEngine.IO_URING_POLLED:
        return f"{target.name} is a file: only a block device with poll queues is polled"
    if engine is not IoEngine.IO_URING_CMD:
        return ""
    if not _NAMESPACE.search(target.node):
        return f"{target.name} is no NVMe namespace, and io_uring_cmd sends NVMe commands"
    if target.lba_format is not None and target.lba_format.metadata_bytes:
        return f"{target.name} keeps metadata with each block, which io_uring_cmd does not send"
    return ""


def misfits(profile: Profile, target: TargetInfo) -> list[Mistake]:
    """Everything in a profile that this target cannot serve, with the path where it stands."""
    unoffered = list(_lba_format(profile, target))
    there = target if unoffered else target.formatted(profile.lba_format)
    return [
        *unoffered,
        *_warm_up(profile, there),
        *_fills(profile, there),
        *_measures(profile, there),
        *out_of_order(profile, there),
        *unmeasured(profile),
    ]


def _lba_format(profile: Profile, target: TargetInfo) -> Iterator[Mistake]:
    if profile.lba_format is not None and (why := unoffered(profile.lba_format, target)):
        yield ("lba_format",), why


def unoffered(wanted: LbaFormat, target: TargetInfo) -> str:
    """Why a drive cannot be given a format; empty if it can."""
    if not target.lba_formats:
        return f"{target.name} offers no choice of LBA formats: only NVMe drives do"
    if wanted.sizes not in target.lba_formats:
        return f"{target.name} has no LBA format {wanted.sizes}; it offers " + ", ".join(
            target.lba_formats
        )
    return ""


def _warm_up(profile: Profile, target: TargetInfo) -> Iterator[Mistake]:
    block = profile.steady.workload.block_bytes
    if not profile.needs_warm_up:
        return
    if why := obstacle(block, target.size_bytes, target):
        yield ("steady", "workload", "block"), why


def _fills(profile: Profile, target: TargetInfo) -> Iterator[Mistake]:
    for index, step in enumerate(profile.precondition):
        if why := obstacle(step.block_bytes, target.size_bytes, target):
            yield ("precondition", index, "block"), why


def _measures(profile: Profile, target: TargetInfo) -> Iterator[Mistake]:
    for index, measure in enumerate(profile.measure):
        match measure.stage:
            case Sweep() as sweep:
                mistakes = _sweep(sweep, target)
            case SpanSweep() as spans:
                mistakes = _spans(spans, target)
            case _:
                continue
        for path, message in mistakes:
            yield ("measure", index, measure.key, *path), message


def _sweep(sweep: Sweep, target: TargetInfo) -> Iterator[Mistake]:
    if message := _beyond(sweep.span, target):
        yield ("span",), message
        return
    for index, engine in enumerate(sweep.engine):
        if why := engine_obstacle(engine, target):
            yield ("engine", index), why
    if sweep.where_possible:
        return
    length = _length(sweep.span, target)
    for index, block in enumerate(sweep.block_bytes):
        if why := obstacle(block, length, target):
            advice = "; leave it out, or add `where_possible: true`"
            yield ("block", index), why + advice


def _spans(spans: SpanSweep, target: TargetInfo) -> Iterator[Mistake]:
    if why := obstacle(spans.block_bytes, target.size_bytes, target):
        yield ("block",), why
        return
    for index, span in enumerate(spans.spans):
        why = _beyond(span, target) or obstacle(spans.block_bytes, _length(span, target), target)
        if why:
            yield ("spans", index), why


def _beyond(span: Extent, target: TargetInfo) -> str:
    if span.size_bytes is None or span.size_bytes <= target.size_bytes:
        return ""
    return f"a span of {span} is larger than {target.name}, {format_capacity(target.size_bytes)}"


def _length(span: Extent, target: TargetInfo) -> int:
    return span.bytes_of(target.size_bytes, align_bytes=target.logical_block_bytes)
