"""Experiments over the host as a figure: one line per workload over the variants."""

from ssdbench.model.result import StageResult
from ssdbench.report.figures import Line, LinesFigure
from ssdbench.report.view.page import Block, Plot, Plots

LEAD = (
    "The same short workloads under one host setting after another; medians with the least and "
    "the most of all repeats. They compare settings and are no numbers to plan on."
)


def figure(stage: StageResult) -> list[Block]:
    """IOPS over the variants; empty for a stage that is no trial."""
    medians = stage.data.get("medians")
    if not isinstance(medians, list) or len(medians) < 2:
        return []
    variants = list(dict.fromkeys(str(record["variant"]) for record in medians))
    place = {variant: float(n) for n, variant in enumerate(variants)}
    lines = []
    for workload in dict.fromkeys(str(record["workload"]) for record in medians):
        own = sorted(
            (r for r in medians if r["workload"] == workload), key=lambda r: place[r["variant"]]
        )
        lines.append(
            Line(
                label=workload,
                x=tuple(place[r["variant"]] for r in own),
                y=tuple(float(r["iops"]) for r in own),
                low=tuple(float(r["iops_least"]) for r in own),
                high=tuple(float(r["iops_most"]) for r in own),
            )
        )
    drawn = LinesFigure(
        lines=tuple(lines),
        x_label="variant",
        y_label="IOPS",
        ticks=tuple((place[variant], variant) for variant in variants),
    )
    alt = f"IOPS of {len(lines)} workloads under {', '.join(variants)}."
    return [Plots([Plot(f"trial-{stage.name}", stage.title, LEAD, alt, drawn)], wide=True)]
