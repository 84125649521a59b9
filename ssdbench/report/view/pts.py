"""A PTS-style test on the page: the standard's header, its tables, its plots."""

from collections.abc import Iterator, Sequence

from ssdbench.errors import ProfileError
from ssdbench.model.loading import load_profile
from ssdbench.model.result import RunResult, StageResult
from ssdbench.model.target import TargetInfo
from ssdbench.report.figures import BarsFigure, SeriesFigure
from ssdbench.report.view import ptsplots, ptstimed, words
from ssdbench.report.view.conditions import tool
from ssdbench.report.view.page import Block, Cell, Column, Facts, Plots, Table
from ssdbench.report.view.ptsplots import Record, number, records
from ssdbench.stats.writecache import cache_enabled
from ssdbench.units import format_capacity, format_count, format_size

TOLD = frozenset(
    {"means_over_the_window", "not_applicable", "pre_writes"}
)  # lists with a table or plot of their own
LATENCIES = (  # of all rounds of the window together; a dash where too few I/Os lie beyond
    ("min_ns", "Lowest"), ("mean_ns", "Mean"), ("p99.999_ns", "99.999 %"), ("max_ns", "Highest"),
)  # fmt: skip


def blocks(result: RunResult, stage: StageResult) -> Iterator[Block]:
    """Header, tables and plots of one test."""
    yield header(result, stage)
    yield from tables(stage)
    drawn = [*ptsplots.plots(stage), *ptstimed.plots(stage)]
    wide = [plot for plot in drawn if isinstance(plot.figure, SeriesFigure | BarsFigure)]
    if half := [plot for plot in drawn if plot not in wide]:
        yield Plots(half)
    if wide:
        yield Plots(wide, wide=True)


def header(result: RunResult, stage: StageResult) -> Facts:
    """What a report of the standard begins with, as far as it is known."""
    target, host = result.target, result.host
    prepared = records(stage, "preparation")
    done = {str(r["step"]): str(r["done"]) for r in prepared}
    summary = stage.summary
    range_ = summary.get("active_range_bytes")
    share = 100 * int(range_) / target.size_bytes if isinstance(range_, int) else None
    rows = [
        ("Date", words.moment(stage.started_at)),
        ("Operator", _operator(result) or "not recorded"),
        ("Specification", "in the style of SNIA SSS PTS 2.0.x; no compliance is claimed"),
        ("Drive", " ".join(filter(None, (target.model, target.serial))) or target.name),
        ("Firmware", target.firmware or _simulated(target) or words.NONE),
        ("Capacity", format_capacity(target.size_bytes)),
        (
            "Interface",
            _simulated(target) or _fact(target.facts, "transport", "protocol", "interface"),
        ),
        ("Host", _fact(host, "CPU", "machine")),
        ("Operating system", _fact(host, "kernel", "os")),
        ("Tool", tool(result)),
        ("Volatile write cache", _cache(result)),
        ("Purge", done.get("purge", "none")),
        ("Preconditioning", done.get("fill", "none")),
        ("Active range", words.NONE if share is None else f"{share:.3g} % of the drive"),
        ("Data pattern", str(summary.get("data_pattern", words.NONE))),
        *(
            (title, str(stage.summary[name]))
            for name, title in (("block_sizes", "Block sizes"), ("zones", "Zones"))
            if name in stage.summary
        ),
        ("Threads", str(summary.get("threads", words.NONE))),
        ("Outstanding per thread", str(summary.get("outstanding_per_thread", words.NONE))),
        ("Durations", str(summary.get("durations", words.NONE))),
        ("Steady by the PTS rule", pts_rule(stage)),
    ]
    return Facts("Header", rows)


def _operator(result: RunResult) -> str:
    """As the profile names it."""
    try:
        measures = load_profile(result.profile_text, "the stored profile").measure
    except ProfileError:
        return ""
    return next((m.pts.operator for m in measures if m.pts is not None), "")


def _cache(result: RunResult) -> str:
    """Its state during the tests, and whether the run set it."""
    before, now = cache_enabled(result.target), cache_enabled(result.target, result.settings)
    present, enabled = now
    if present is False:
        return "none"
    if enabled is None:
        return "not known"
    state = "on" if enabled else "off"
    return state if before == now else f"{state}, set by this run"


def pts_rule(stage: StageResult) -> str:
    """`yes, in rounds 1 to 5`: the rule's word, which validates nothing."""
    state = str(stage.summary.get("steady_state", ""))
    window = str(stage.summary.get("window") or "")
    if state == "reached":
        return f"yes, in {window}" if window else "yes"
    if not stage.complete:
        return "not decided, the test was not finished"
    if state == "not reached":
        rounds = stage.summary.get("rounds")
        return f"no, not steady after {rounds} rounds" if rounds else "no"
    return state or "not judged"


def _simulated(target: TargetInfo) -> str:
    return "simulated" if target.simulated else ""


def _fact(facts: "dict[str, str]", *names: str) -> str:
    return next((facts[name] for name in names if facts.get(name)), "not known")


def tables(stage: StageResult) -> Iterator[Table]:
    """Block sizes by mixes, or cells; latencies with their extremes."""
    means = records(stage, "means_over_the_window")
    if not means:
        return
    mixes = list(dict.fromkeys(int(number(m, "read_percent")) for m in means))
    sizes = list(dict.fromkeys(int(number(m, "block_bytes")) for m in means))
    if len(mixes) * len(sizes) == len(means):
        absent = [int(number(r, "block_bytes")) for r in records(stage, "not_applicable")]
        sizes += [size for size in dict.fromkeys(absent) if size not in sizes]
        if "latency" in str(stage.summary.get("test")):
            for metric, title in LATENCIES:
                yield _grid(f"{title} latency", means, sizes, mixes, metric)
        yield _grid("IOPS, mean over the window", means, sizes, mixes, "iops")
        yield _grid(
            "Throughput, mean over the window", means, sizes, mixes, "throughput_bytes_per_s"
        )
        return
    columns = ["Cell", "IOPS", "Throughput", "Lowest", "Mean", "Highest"]
    rows = [
        [
            Cell(str(m["cell"])),
            Cell(format_count(number(m, "iops"))),
            Cell(words.quantity(number(m, "throughput_bytes_per_s"), "B/s")),
            *(Cell(words.quantity(_seen(m, key), "ns")) for key in ("min_ns", "mean_ns", "max_ns")),
        ]
        for m in means
    ]
    title = "Means over the window, and the extremes of its latencies"
    yield Table(title, [Column(c, number=c != "Cell") for c in columns], rows,
                fold=title if len(rows) > 30 else "")  # fmt: skip


def _seen(record: Record, metric: str) -> float | None:
    """A number of a record; no latency where no I/O ended, which fio gives as 0."""
    if metric not in record:
        return None
    value = number(record, metric)
    return value if value or not metric.endswith("_ns") else None


def _grid(
    title: str, means: Sequence[Record], sizes: Sequence[int], mixes: Sequence[int], metric: str
) -> Table:
    found = {(m["block_bytes"], m["read_percent"]): _seen(m, metric) for m in means}
    done = {m["block_bytes"] for m in means}
    unit = {"iops": "", "throughput_bytes_per_s": "B/s"}.get(metric, "ns")
    return Table(
        title,
        [Column("Block"), *(Column(f"{read}/{100 - read}", number=True) for read in mixes)],
        [
            [
                Cell(format_size(size)),
                *(
                    Cell(words.quantity(found.get((size, read)), unit))
                    if size in done
                    else Cell("not applicable")
                    for read in mixes
                ),
            ]
            for size in sizes
        ],
    )
