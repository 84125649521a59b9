"""A rate sweep as a figure: latency over the offered rate, and the limit."""

from collections.abc import Mapping, Sequence

from ssdbench.model.result import StageResult
from ssdbench.report.figures import Line, LinesFigure
from ssdbench.report.view.page import Block, Cell, Column, Plot, Plots, Prose, Table
from ssdbench.units import format_count, format_ns

Record = Mapping[str, object]
TICKS = 6


def blocks(stage: StageResult) -> list[Block]:
    """The answer, the curve and every step; empty for other stages and without a step."""
    slo, steps = stage.data.get("slo"), stage.data.get("steps")
    if stage.kind != "rate" or not isinstance(slo, Mapping) or not isinstance(steps, list):
        return []
    found: list[Block] = [_lead(slo)]
    steps = sorted((s for s in steps if float(s["value_ns"]) > 0), key=_offered)
    if len({_offered(s) for s in steps}) > 1:
        found.append(Plots([_curve(stage, slo, steps)]))
    found.append(_table(str(slo["percentile"]), stage))
    return found


def _lead(slo: Record) -> Prose:
    rate, limit = slo["rate_at_slo_iops"], format_ns(_number(slo, "limit_ns"))
    name = slo["percentile"]
    if rate is None:
        return Prose(f"No offered rate kept {name} within {limit} in every search.", tone="bad")
    return Prose(
        f"{format_count(_number(slo, 'rate_at_slo_iops'))} IOPS can be offered with {name} within "
        f"{limit}: the lowest of {slo['searches']} searches, which lies below their median with "
        f"{100 * _number(slo, 'confidence'):.0f} % confidence. Latency counts from the moment "
        "when a request was due, so that no wait is left out; a rate holds when the upper 95 % "
        "limit of the percentile does, 99 % of the rate is done and no backlog grows."
    )


def _curve(stage: StageResult, slo: Record, steps: Sequence[Record]) -> Plot:
    name, limit = str(slo["percentile"]), _number(slo, "limit_ns")
    rates = tuple(_offered(step) for step in steps)
    lines = (
        Line(f"{name} from when due", rates, tuple(_number(s, "value_ns") for s in steps)),
        Line(f"{name} from when sent", rates, tuple(_number(s, "seen_ns") for s in steps)),
        Line("p50 from when due", rates, tuple(_number(s, "p50_ns") for s in steps)),
        Line(f"limit of {name}", (rates[0], rates[-1]), (limit, limit)),
    )
    low, high = rates[0], rates[-1]
    evenly = [low * (high / low) ** (n / (TICKS - 1)) for n in range(TICKS)]
    ticks = [float(f"{tick:.2g}") for tick in evenly]  # each stands where its label says
    return Plot(
        name=f"rate-{stage.name}",
        title="Latency over the offered rate",
        caption=f"All steps of {slo['searches']} searches, "
        f"{str(slo['arrivals']).replace('poisson', 'Poisson')} arrivals.",
        alt=f"{name} over {len(rates)} offered rates from {format_count(low)} to "
        f"{format_count(high)} IOPS, with its limit of {format_ns(limit)}.",
        figure=LinesFigure(
            lines,
            "offered rate [IOPS]",
            "latency",
            tuple((tick, format_count(tick)) for tick in ticks),
            log_x=True,
            log_y=True,
            latency=True,
        ),
    )


def _table(name: str, stage: StageResult) -> Table:
    steps = stage.data["steps"]
    records = steps if isinstance(steps, list) else []
    columns = [
        Column("Search", number=True),
        Column("Offered IOPS", number=True),
        Column("Done IOPS", number=True),
        Column(f"{name} when sent", number=True),
        Column(f"{name} when due", number=True),
        Column("Upper limit", number=True, hint="one-sided, 95 %"),
        Column("Kept"),
    ]
    return Table("Every offered rate", columns, [_row(r) for r in records], fold="Every rate")


def _row(record: Record) -> list[Cell]:
    upper = record["upper_ns"]
    kept = bool(record["kept"])
    return [
        Cell(str(record["search"])),
        Cell(format_count(_offered(record))),
        Cell(format_count(_number(record, "achieved_iops"))),
        Cell(format_ns(_number(record, "seen_ns"))),
        Cell(format_ns(_number(record, "value_ns"))),
        Cell("too few" if upper is None else format_ns(_number(record, "upper_ns"))),
        Cell("yes" if kept else str(record["reason"]), "good" if kept else "bad"),
    ]


def _offered(record: Record) -> float:
    return _number(record, "offered_iops")


def _number(record: Record, name: str) -> float:
    return float(str(record[name]))
