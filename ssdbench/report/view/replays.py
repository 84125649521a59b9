"""Show a replayed trace: its latencies, each replay of it, and its statistics."""

from collections.abc import Iterator, Sequence

from ssdbench.model.point import Estimate
from ssdbench.model.replay import ReplayFound, ReplayRun, TraceSummary
from ssdbench.model.result import RunResult, StageResult
from ssdbench.report.metrics import percentile_name, percentiles_of
from ssdbench.report.read import StoredRun
from ssdbench.report.view import page, words
from ssdbench.units import format_capacity, format_count, format_duration, format_ns, format_size

_SINCE = {"open": "since requests were due", "closed": "since requests were sent"}


def blocks(run: StoredRun, stage: StageResult, found: ReplayFound) -> Iterator[page.Block]:
    """Yield the latencies, a table of the replays, and the statistics of the trace."""
    yield page.Prose(_lead(found))
    if found.estimates:
        yield latencies(found.estimates)
    yield page.table_of("Every replay", found.replays, _REPLAY, fold="Every replay")
    if found.trace is not None:
        yield page.Facts("The trace", trace_facts(found.trace))


def of_replay(result: RunResult, replayed: Sequence[ReplayFound]) -> page.Headline:
    """Return the headline of a run that replays traces: the upper limit of p99."""
    found = replayed[0]
    worst = percentiles_of(found.estimates).get(99.0)
    upper = None if worst is None or worst.status == "suppressed" else worst.bound
    number, _, unit = words.quantity(upper, "ns").partition(" ")
    return page.Headline(
        label="p99 of the trace, at most",
        number=number,
        unit=unit,
        holds_for=f"{found.name}, {found.loop} loop",
        meaning="The upper 95 % limit of the 99th percentile of latency, counted "
        f"{_SINCE[found.loop]}. The trace sets the load, so there is no rate to plan on.",
        evidence=[
            ("Sent", found.sent),
            ("Counted replays", str(sum(run.replay > 0 for run in found.replays))),
        ],
        tone=words.VERDICT_TONES[result.verdict],
    )


def trace_facts(trace: TraceSummary) -> list[tuple[str, str]]:
    """Return the statistics of a trace as names and values."""
    items = [
        ("Form", trace.form + ("" if trace.timed else ", without arrival times")),
        ("Requests", f"{trace.requests:,}"),
        ("Reads", f"{trace.reads:,}, {format_capacity(trace.read_bytes)}"),
        ("Writes", f"{trace.writes:,}, {format_capacity(trace.write_bytes)}"),
        ("Trims", f"{trace.trims:,}, {format_capacity(trace.trim_bytes)}"),
        ("Flushes", f"{trace.flushes:,}"),
        ("Sizes", _sizes(trace)),
        ("Length", format_duration(trace.seconds)),
        *(("Times", told) for told in (*trace.about_unit(), *trace.time_doubts())),
    ]
    if trace.device:
        items.append(("Device", trace.device))
    if len(trace.devices) > 1:
        most = ", ".join(f"{name} ({number:,})" for name, number in trace.devices.items())
        items.append(("Devices with the most requests", most))
    if trace.mean_iops is not None:
        items.append(("Mean rate", f"{format_count(trace.mean_iops)} IOPS"))
    if trace.busiest_second_iops is not None:
        items.append(("Busiest second", f"{format_count(trace.busiest_second_iops)} IOPS"))
    if trace.idle_seconds_share is not None:
        items.append(("Seconds without a request", words.percent(trace.idle_seconds_share)))
    if trace.dispersion_1s is not None:
        told = f"{format_count(trace.dispersion_1s)} (Poisson: 1)"
        items.append(("Burstiness (variance divided by mean of requests per second)", told))
    if trace.gap_variation is not None:
        items.append(
            (
                "Time between requests, standard deviation divided by mean",
                f"{trace.gap_variation:.3g}",
            )
        )
    items += [
        ("Highest address", format_capacity(trace.ends_at_bytes)),
        ("Working set, in blocks of 4 KiB", format_capacity(trace.touched_bytes)),
        (
            "Part of the working set that the trace writes",
            format_capacity(trace.written_bytes_distinct),
        ),
        ("Accesses to blocks that were accessed before", words.percent(trace.reused_share)),
        *(
            (f"Accesses to the most used {percent} % of the working set", words.percent(share))
            for percent, share in trace.hottest_share.items()
        ),
    ]
    if trace.median_reuse_s is not None:
        again = format_ns(trace.median_reuse_s * 1e9)
        items.append(("Median time until a block is accessed again", again))
    items += [
        ("Sequential", words.percent(trace.sequential_share)),
        ("Not aligned to 4 KiB", words.percent(trace.unaligned_share)),
        *_missing(trace),
        *((f"Left out: {what}", f"{number:,}") for what, number in trace.left_out.items()),
        *((f"By {name}", f"{number:,}") for name, number in trace.by_process.items()),
    ]
    return items


def _missing(trace: TraceSummary) -> Iterator[tuple[str, str]]:
    if trace.lost:
        yield (
            "Lost events",
            f"{trace.lost:,}, {words.percent(trace.lost_share)} of all traced events",
        )
    if trace.only_cpu is not None:
        told = (
            f"only {trace.only_cpu}; if other CPUs sent requests too, a part of the load is missing"
        )
        yield "CPUs that sent requests", told


def _sizes(trace: TraceSummary) -> str:
    data = max(1, trace.reads + trace.writes)
    return ", ".join(
        f"{format_size(size) if size else 'other sizes'} {100 * number / data:.3g} %"
        for size, number in trace.sizes.items()
    )


def _lead(found: ReplayFound) -> str:
    how = (
        "at the times of the trace, even if the drive could not keep up"
        if found.loop == "open"
        else "as a closed loop, because the trace has no arrival times"
    )
    return (
        f"{found.sent}; sent {how}, by {found.clients} clients. Each client has one request in "
        f"flight. Latencies are counted {_SINCE[found.loop]}."
    )


def latencies(estimates: Sequence[Estimate]) -> page.Table:
    """Return a table of all latency percentiles, each with its upper limit."""
    return page.table_of("Latency", estimates, _LATENCY)


def _share(estimate: Estimate) -> str:
    (share,) = percentiles_of([estimate]) or (0.0,)
    return percentile_name(share)


def _upper(estimate: Estimate) -> page.Cell:
    limit = None if estimate.status == "suppressed" else estimate.bound
    return page.Cell(words.quantity(limit, "ns"), "strong")


def _off(run: ReplayRun) -> str:
    off = run.arrivals_off_percent
    return words.NONE if off is None else f"{off:.2g} %"


_LATENCY: list[page.ColumnOf[Estimate]] = [
    ("Direction", lambda estimate: estimate.direction),
    ("Percentile", _share),
    (page.number("Latency"), words.latency_cell),
    (page.number("Upper 95 % limit"), _upper),
    (page.number("Requests"), lambda estimate: f"{estimate.n:,}"),
]
_REPLAY: list[page.ColumnOf[ReplayRun]] = [
    ("Replay", lambda run: str(run.replay) if run.replay > 0 else "not counted"),
    (page.number("Took"), lambda run: format_duration(run.took_s)),
    (page.number("IOPS"), lambda run: format_count(run.iops)),
    (
        page.number("Completed in time"),
        lambda run: page.Cell(f"{run.delivered_percent:.4g} %", "" if run.ended else "bad"),
    ),
    (page.number("Longest wait"), lambda run: format_ns(run.longest_ns)),
    (
        page.number(
            "Error of arrival times", "in percent of the trace's length; for 99 % of requests"
        ),
        _off,
    ),
    (
        page.number(
            "Client busy", hint="share of requests that came due while their client was busy"
        ),
        lambda run: f"{run.held_up_percent:.2g} %",
    ),
]
