"""The head of a run that only looks into a drive: answers instead of a number to plan on."""

from collections.abc import Callable, Sequence

from ssdbench.model.inside import BlockSizeFound, ProbeFound
from ssdbench.model.result import RunResult
from ssdbench.report.view.page import Headline
from ssdbench.units import format_capacity, format_size

CANNOT_TELL = "cannot tell"
Shown = tuple[str, Callable[[float], str], str]  # name of the number, how it reads, of what

FIGURES: dict[str, Shown] = {
    "slc-cache": ("cache_bytes", lambda v: format_capacity(int(v)), "SLC cache"),
    "read-chunk": ("chunk_bytes", lambda v: format_size(int(v)), "read chunk"),
    "stripe": ("stripe_bytes", lambda v: format_size(int(v)), "stripe"),
    "parallelism": ("reads_at_once", lambda v: f"{v:.1f}", "reads at once"),
    "write-buffer": ("buffer_bytes", lambda v: format_size(int(v)), "write buffer"),
    "remap-unit": ("remap_unit_bytes", lambda v: format_size(int(v)), "remap unit"),
    "spare": ("over_provisioning", lambda v: f"{100 * v:.1f} %", "over-provisioning"),
    "flush": ("flush_waits_for", str, "is what a flush waits for"),
    "mapping": (
        "scattered_over_ordered",
        lambda v: f"{v:.2f}",
        "times the rate, scattered",
    ),
    "trim": ("trim_effect", str, "after a TRIM"),
}
NAMES = {
    "slc-cache": "SLC cache",
    "read-chunk": "Read chunk",
    "stripe": "Stripe",
    "parallelism": "Parallelism",
    "write-buffer": "Write buffer",
    "flush": "Flushes",
    "remap-unit": "Remap unit",
    "mapping": "Mapping",
    "spare": "Over-provisioning",
    "trim": "TRIM",
}


def of_inside(result: RunResult, found: Sequence[BlockSizeFound | ProbeFound]) -> Headline:
    """One answer in large where it has a figure; of several probes, how many could tell."""
    first = found[0]
    probes = [one for one in found if isinstance(one, ProbeFound)]
    told = [(NAMES.get(one.probe, one.probe), one.answer) for one in probes]
    number, unit = _first(found)
    return Headline(
        label="Inside the drive" + (" (simulated)" if result.target.simulated else ""),
        number=number,
        unit=unit,
        holds_for="",
        meaning="This run looked into the drive; it measured no rate that one could plan on.",
        evidence=(*(_of_block(first) if isinstance(first, BlockSizeFound) else []), *told),
        tone="note",
    )


def _first(found: Sequence[BlockSizeFound | ProbeFound]) -> tuple[str, str]:
    first = found[0]
    if isinstance(first, BlockSizeFound):
        size = first.block_bytes
        if size is None:
            return first.answer, ""
        return format_size(size), "or less, block" if first.at_most else "block"
    if len(found) > 1:
        told = sum(not one.answer.startswith(CANNOT_TELL) for one in found)
        return f"{told} of {len(found)}", "answered"
    key, reads, of_what = FIGURES.get(first.probe, ("", str, ""))
    value = getattr(first.numbers, key, None)
    if isinstance(value, str):
        return value, of_what
    if value is not None:
        return reads(value), f"or less, {of_what}" if first.numbers.at_most else of_what
    return first.answer.partition(":")[0], ""


def _of_block(found: BlockSizeFound) -> list[tuple[str, str]]:
    """What stands behind the answer on blocks."""
    rows = []
    if found.block_bytes is not None:
        if found.confidence is not None:
            text = f"such an answer is right on {100 * found.confidence:.1f} % of hidden drives"
            rows.append(("Confidence", text))
        rows.append(("Evidence", f"p ≤ {found.p_value}, {found.evidence}"))
    if found.buffer:
        rows.append(("Buffer", found.buffer))
    return rows
