"""The head of a run that only looks into a drive: answers instead of a number to plan on."""

from collections.abc import Callable, Mapping, Sequence

from ssdbench.model.result import RunResult, StageResult
from ssdbench.report.view.page import Headline
from ssdbench.units import format_capacity, format_size

CANNOT_TELL = "cannot tell"
Shown = tuple[str, Callable[[float], str], str]  # key in the summary, how it reads, of what

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


def of_inside(result: RunResult, stages: Sequence[StageResult]) -> Headline:
    """One answer in large where it has a figure; of several probes, how many could tell."""
    first = stages[0].summary
    number, unit = _first(stages)
    probes = [stage.summary for stage in stages if "probe" in stage.summary]
    told = [(NAMES.get(str(s["probe"]), str(s["probe"])), str(s.get("answer"))) for s in probes]
    return Headline(
        label="Inside the drive" + (" (simulated)" if result.target.simulated else ""),
        number=number,
        unit=unit,
        holds_for="",
        meaning="This run looked into the drive; it measured no rate that one could plan on.",
        evidence=(*([] if "probe" in first else _of_block(stages[0])), *told),
        tone="note",
    )


def _first(stages: Sequence[StageResult]) -> tuple[str, str]:
    summary = stages[0].summary
    if "probe" not in summary:
        size = summary.get("block_bytes")
        return (format_size(size), "block") if isinstance(size, int) else (_answer(summary), "")
    if len(stages) > 1:
        told = sum(not _answer(stage.summary).startswith(CANNOT_TELL) for stage in stages)
        return f"{told} of {len(stages)}", "answered"
    key, reads, of_what = FIGURES.get(str(summary["probe"]), ("", str, ""))
    value = summary.get(key)
    if isinstance(value, str):
        return value, of_what
    if value is not None:
        return reads(value), f"or less, {of_what}" if summary.get("at_most") else of_what
    return _answer(summary).partition(":")[0], ""


def _answer(summary: Mapping[str, object]) -> str:
    return str(summary.get("answer"))


def _of_block(stage: StageResult) -> list[tuple[str, str]]:
    """What stands behind the answer on blocks."""
    said = stage.summary
    p_value, confidence = said.get("p_value"), said.get("confidence")
    rows = []
    if isinstance(said.get("block_bytes"), int):
        if isinstance(confidence, float):
            text = f"{100 * confidence:.0f} % of random halves of the writes say the same"
            rows.append(("Confidence", text))
        rows.append(("Evidence", f"p ≤ {p_value}, {said.get('evidence')}"))
    if said.get("buffer"):
        rows.append(("Buffer", str(said["buffer"])))
    return rows
