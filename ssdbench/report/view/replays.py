"""A replayed trace on the page: its statistics, what was sent, latencies."""

from collections.abc import Iterator, Sequence

from ssdbench.model.point import Estimate
from ssdbench.model.replay import ReplayFound, ReplayRun, TraceSummary
from ssdbench.model.result import RunResult, StageResult
from ssdbench.report.metrics import percentile_name, percentiles_of
from ssdbench.report.read import StoredRun
from ssdbench.report.view import words
from ssdbench.report.view.page import (
    Block,
    Cell,
    Column,
    Facts,
    Headline,
    Prose,
    Table,
    numbers,
    texts,
)
from ssdbench.units import format_capacity, format_count, format_duration, format_ns, format_size

_SINCE = {"open": "from when requests were due", "closed": "from when requests were sent"}


def blocks(run: StoredRun, stage: StageResult, found: ReplayFound) -> Iterator[Block]:
    """Yield the latencies, each replay, and the statistics of the trace."""
    yield Prose(_lead(found))
    if found.estimates:
        yield latencies(found.estimates)
    yield _each(found.replays)
    if found.trace is not None:
        yield Facts("The trace", trace_facts(found.trace))


def of_replay(result: RunResult, replayed: Sequence[ReplayFound]) -> Headline:
    """Return the headline of a run of replays: the upper limit of p99."""
    found = replayed[0]
    worst = percentiles_of(found.estimates).get(99.0)
    upper = None if worst is None or worst.status == "suppressed" else worst.bound
    number, _, unit = words.quantity(upper, "ns").partition(" ")
    return Headline(
        label="p99 of the trace, at most",
        number=number,
        unit=unit,
        holds_for=f"{found.name}, {found.loop} loop",
        meaning="The upper 95 % limit of the 99th percentile of latency, "
        f"{_SINCE[found.loop]}. The trace sets the load: this is no rate to plan on.",
        evidence=[("Sent", found.sent), ("Replays that count", str(_counting(found)))],
        tone=words.VERDICT_TONES[result.verdict],
    )


def trace_facts(trace: TraceSummary) -> list[tuple[str, str]]:
    """Return the statistics of a trace, by name."""
    items = [
        ("Form", trace.form + ("" if trace.timed else ", without arrivals")),
        ("Requests", f"{trace.requests:,}"),
        ("Reads", f"{trace.reads:,}, {format_capacity(trace.read_bytes)}"),
        ("Writes", f"{trace.writes:,}, {format_capacity(trace.write_bytes)}"),
        ("Trims", f"{trace.trims:,}, {format_capacity(trace.trim_bytes)}"),
        ("Flushes", f"{trace.flushes:,}"),
        ("Sizes", _sizes(trace)),
        ("Length", format_duration(trace.seconds)),
    ]
    if trace.mean_iops is not None:
        items.append(("Mean rate", f"{format_count(trace.mean_iops)} IOPS"))
    if trace.busiest_second_iops is not None:
        items.append(("Busiest second", f"{format_count(trace.busiest_second_iops)} IOPS"))
    if trace.idle_seconds_share is not None:
        items.append(("Seconds without a request", _percent(trace.idle_seconds_share)))
    if trace.dispersion_1s is not None:
        told = f"{format_count(trace.dispersion_1s)} (Poisson: 1)"
        items.append(("Burstiness: variance over mean of the seconds", told))
    if trace.gap_variation is not None:
        items.append(("Gaps, standard deviation over mean", f"{trace.gap_variation:.3g}"))
    items += [
        ("Reaches up to", format_capacity(trace.ends_at_bytes)),
        ("Working set, blocks of 4 KiB", format_capacity(trace.touched_bytes)),
        ("Of it written", format_capacity(trace.written_bytes_distinct)),
        ("Accesses to blocks touched before", _percent(trace.reused_share)),
        *(
            (f"Accesses to the hottest {percent} % of it", _percent(share))
            for percent, share in trace.hottest_share.items()
        ),
    ]
    if trace.median_reuse_s is not None:
        again = format_ns(trace.median_reuse_s * 1e9)
        items.append(("Half of them come again within", again))
    items += [
        ("Sequential", _percent(trace.sequential_share)),
        ("Not in whole 4 KiB", _percent(trace.unaligned_share)),
        *_missing(trace),
        *((f"Left out: {what}", f"{number:,}") for what, number in trace.left_out.items()),
        *((f"By {name}", f"{number:,}") for name, number in trace.by_process.items()),
    ]
    return items


def _missing(trace: TraceSummary) -> Iterator[tuple[str, str]]:
    if trace.lost:
        told = f"{trace.lost:,}, {_percent(trace.lost_share)} of all that was traced"
        yield "Events that are missing", told
    if trace.only_cpu is not None:
        told = f"only {trace.only_cpu}; where others sent requests too, this is a part of the load"
        yield "CPUs that sent requests", told


def _sizes(trace: TraceSummary) -> str:
    data = max(1, trace.reads + trace.writes)
    return ", ".join(
        f"{format_size(size) if size else 'others'} {100 * number / data:.3g} %"
        for size, number in trace.sizes.items()
    )


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _counting(found: ReplayFound) -> int:
    return sum(run.replay > 0 for run in found.replays)


def _lead(found: ReplayFound) -> str:
    how = (
        "at the times of the trace, whether the drive kept up or not"
        if found.loop == "open"
        else "as a closed loop, as the trace tells no arrivals"
    )
    return (
        f"{found.sent}; sent {how}, by {found.clients} clients with one request in flight each. "
        f"Latencies count {_SINCE[found.loop]}."
    )


def latencies(estimates: Sequence[Estimate]) -> Table:
    """Every percentile of every direction, with its upper limit."""
    columns = [
        *texts("Direction", "Percentile"),
        *numbers("Latency", "Upper 95 % limit", "Requests"),
    ]
    return Table("Latency", columns, [_latency(estimate) for estimate in estimates])


def _latency(estimate: Estimate) -> list[Cell]:
    (share,) = percentiles_of([estimate]) or (0.0,)
    limit = None if estimate.status == "suppressed" else estimate.bound
    return [
        Cell(estimate.direction),
        Cell(percentile_name(share)),
        words.latency_cell(estimate),
        Cell(words.quantity(limit, "ns"), "strong"),
        Cell(f"{estimate.n:,}"),
    ]


def _each(replays: Sequence[ReplayRun]) -> Table:
    columns = [
        Column("Replay"),
        *numbers("Took", "IOPS", "Done in time", "Longest wait"),
        Column("Arrivals off", number=True, hint="of the trace's length; 99 % were nearer"),
        Column("Client busy", number=True, hint="when the request came due"),
    ]
    return Table("Every replay", columns, [_replay(run) for run in replays], fold="Every replay")


def _replay(run: ReplayRun) -> list[Cell]:
    off = run.arrivals_off_percent
    return [
        Cell(str(run.replay) if run.replay > 0 else "not counted"),
        Cell(format_duration(run.took_s)),
        Cell(format_count(run.iops)),
        Cell(f"{run.delivered_percent:.4g} %", "" if run.ended else "bad"),
        Cell(format_ns(run.longest_ns)),
        Cell(words.NONE if off is None else f"{off:.2g} %"),
        Cell(f"{run.held_up_percent:.2g} %"),
    ]
