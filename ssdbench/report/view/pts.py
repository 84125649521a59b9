"""Show a PTS-style test with the header, the tables and the plots that the standard asks for."""

import re
from collections.abc import Callable, Iterator, Sequence

from ssdbench.errors import ProfileError
from ssdbench.model.loading import load_profile
from ssdbench.model.profile.standard import PtsTest
from ssdbench.model.pts import (
    Pts,
    PtsCell,
    PtsLatency,
    PtsMetric,
    PtsPhase,
    PtsSample,
    PtsStep,
    PtsWindow,
)
from ssdbench.model.result import RunResult, StageResult
from ssdbench.report.plots.columns import BarsFigure
from ssdbench.report.plots.series import SeriesFigure
from ssdbench.report.read import StoredRun
from ssdbench.report.view import page, ptsplots, words
from ssdbench.report.view.conditions import tool
from ssdbench.report.view.words import record_table
from ssdbench.stats.inside.writecache import cache_enabled
from ssdbench.units import format_capacity, format_count, format_size

LEAD = (
    "A test in the style of SNIA's PTS: means over five similar rounds, in the order of the "
    "standard. There are no lower bounds, so do not plan on these numbers. docs/pts.md says what "
    "was not checked against the text of the standard."
)
TRACKED = {
    PtsMetric.IOPS: ("IOPS", 1.0),
    PtsMetric.THROUGHPUT: ("throughput in MB/s", 1e-6),
    PtsMetric.MEAN: ("mean latency in us", 1e-3),
}
NINES_NAME = "99.999 %"
LATENCIES: tuple[tuple[str, Callable[[PtsLatency], float | None]], ...] = (
    ("Lowest", lambda latency: latency.min_ns),
    ("Mean", lambda latency: latency.mean_ns),
    (NINES_NAME, lambda latency: latency.percentiles_ns.get(ptsplots.NINES)),
    ("Highest", lambda latency: latency.max_ns),
)  # percentiles over all rounds of the window; a dash if too few I/Os were slower
NO_LATENCY = (
    "No latency was recorded, because the samples of this scaled test were too short: latencies "
    "are recorded once per second."
)
_NUMBER = r"\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_LINE = re.compile(rf"(-?{_NUMBER}) x ([+-]) ({_NUMBER})")  # as `RoundWindow.fit` writes it
_NAMED = {"written_bytes": "written", "t_s": "in_phase_s"}
STATES = {None: "not judged by this test", True: "reached", False: "not reached"}


def blocks(run: StoredRun, stage: StageResult, found: Pts) -> Iterator[page.Block]:
    """Yield the header, the tables and the plots of one test, then all measured values."""
    yield page.Prose(LEAD)
    yield header(run.result, stage, found)
    if found.test is PtsTest.LATENCY and not any(cell.latency for cell in found.means):
        yield page.Prose(NO_LATENCY, tone="warn")
    yield from tables(found)
    drawn = [*ptsplots.plots(stage.name, found), *ptsplots.timed_plots(stage.name, found)]
    wide = [plot for plot in drawn if isinstance(plot.figure, SeriesFigure | BarsFigure)]
    if half := [plot for plot in drawn if plot not in wide]:
        yield page.Plots(half)
    if wide:
        yield page.Plots(wide, wide=True)
    yield from measured(found)


def header(result: RunResult, stage: StageResult, found: Pts) -> page.Facts:
    """Return the header that the standard's reports have, with all values that are known."""
    target, host = result.target, result.host
    simulated = "simulated" if target.modelled else ""
    done = {step.step: step.done for step in found.preparation}
    load = f" ({found.load})" if found.load else ""
    rows = [
        ("Test", f"PTS-style {found.test.full_name}{load}, {found.form} form"),
        ("Date", words.moment(stage.started_at)),
        ("Operator", _operator(result) or "not recorded"),
        ("Specification", "in the style of SNIA SSS PTS 2.0.x, without a claim of compliance"),
        ("Drive", " ".join(filter(None, (target.model, target.serial))) or target.name),
        ("Firmware", target.firmware or simulated or words.NONE),
        ("Capacity", format_capacity(target.size_bytes)),
        (
            "Interface",
            simulated or _fact(target.facts, "transport", "protocol", "interface"),
        ),
        ("Host", _fact(host, "CPU", "machine")),
        ("Operating system", _fact(host, "kernel", "os")),
        ("Tool", tool(result)),
        ("Volatile write cache", _cache(result)),
        ("Purge", done.get("purge", "none")),
        ("Preconditioning", done.get("fill", "none")),
        (
            "Active range",
            f"{100 * found.active_range_bytes / target.size_bytes:.3g} % of the drive",
        ),
        ("Data pattern", found.data_pattern),
        *((words.fact(name, "")[0], text) for name, text in _mixture(found).items()),
        ("Threads", _numbers(found.threads)),
        ("Outstanding requests per thread", _numbers(found.outstanding_per_thread)),
        (
            "Durations",
            "as in the standard" if found.scale == 1 else f"SCALED by {found.scale:g}",
        ),
        *([("Rounds", str(len(found.rounds)))] if found.test.in_rounds else []),
        ("Steady by the PTS rule", pts_rule(stage, found)),
    ]
    return page.Facts("Header", rows)


def _mixture(found: Pts) -> dict[str, str]:
    """Return the block sizes and zones of a workload with several block sizes or zones."""
    if not found.block_split:
        return {}
    blocks = (f"{format_size(size)} {share} %" for size, share in found.block_split)
    zones = (f"{io:g} % of I/O on {part:g} % of the range" for io, part in found.zones)
    return {"block_sizes": ", ".join(blocks), "zones": ", ".join(zones)}


def _numbers(values: Sequence[int]) -> str:
    return ", ".join(map(str, values)) or words.NONE


def _operator(result: RunResult) -> str:
    """Return the operator's name from the profile; empty if the profile has no name."""
    try:
        measures = load_profile(result.profile_text, "the stored profile").measure
    except ProfileError:
        return ""
    return next((m.pts.operator for m in measures if m.pts is not None), "")


def _cache(result: RunResult) -> str:
    """Return whether the write cache was on during the tests, and whether ssdbench changed it."""
    before, now = cache_enabled(result.target), cache_enabled(result.target, result.settings)
    present, enabled = now
    if present is False:
        return "none"
    if enabled is None:
        return "not known"
    state = "on" if enabled else "off"
    return state if before == now else f"{state}, set by this run"


def pts_rule(stage: StageResult, found: Pts) -> str:
    """Return whether the PTS rule was met, and in which rounds, such as `yes, in rounds 1 to 5`."""
    if found.steady:
        in_rounds = found.test.in_rounds and found.windows
        return f"yes, in {found.windows[0].rounds}" if in_rounds else "yes"
    if not stage.complete:
        return "not decided, because the test was not finished"
    if found.steady is None:
        return STATES[None]
    return f"no, not steady after {len(found.rounds)} rounds" if found.rounds else "no"


def _fact(facts: "dict[str, str]", *names: str) -> str:
    return next((facts[name] for name in names if facts.get(name)), "not known")


def tables(found: Pts) -> Iterator[page.Table]:
    """Yield tables of means: block sizes by shares of reads, or a row for each cell."""
    if found.means and found.test.over_demand:
        yield _by_cell(found.means)
    elif found.means:
        if found.test is PtsTest.LATENCY and any(cell.latency for cell in found.means):
            for title, of in LATENCIES:
                yield _grid(f"{title} latency", found, _latency_cell(of))
        yield _grid("IOPS, mean over the window", found, _iops)
        yield _grid("Throughput, mean over the window", found, _throughput)


def _by_cell(means: Sequence[PtsCell]) -> page.Table:
    columns: list[page.ColumnOf[PtsCell]] = [
        ("Cell", lambda cell: cell.cell),
        (page.number("IOPS"), _iops),
        (page.number("Throughput"), _throughput),
        *((page.number(name), _latency_cell(of)) for name, of in LATENCIES if name != NINES_NAME),
    ]
    caption = "Means over the window, and the lowest and highest latency"
    return page.table_of(caption, means, columns, fold=caption if len(means) > 30 else "")


def _iops(cell: PtsCell) -> str:
    return format_count(cell.iops)


def _throughput(cell: PtsCell) -> str:
    return words.quantity(cell.throughput_bytes_per_s, "B/s")


def _latency_cell(of: Callable[[PtsLatency], float | None]) -> Callable[[PtsCell], str]:
    """Return a function that formats the latency `of` of a cell; a dash if it is missing."""
    return lambda cell: words.quantity(of(cell.latency) if cell.latency else None, "ns")


def _grid(title: str, found: Pts, text: Callable[[PtsCell], str]) -> page.Table:
    cells = {(cell.block_bytes, cell.read_percent): text(cell) for cell in found.means}
    mixes = list(dict.fromkeys(cell.read_percent for cell in found.means))
    absent = {cell.block_bytes: "not applicable" for cell in found.not_applicable}
    sizes = dict.fromkeys([*(cell.block_bytes for cell in found.means), *absent])
    titles = [page.Column("Block"), *(page.number(f"{read}/{100 - read}") for read in mixes)]
    rows = [
        [
            format_size(size),
            *(cells.get((size, read), absent.get(size, words.NONE)) for read in mixes),
        ]
        for size in sizes
    ]
    return page.Table(title, titles, [[page.Cell(text) for text in row] for row in rows])


def measured(found: Pts) -> Iterator[page.Table]:
    """Yield tables with all measurements that the run stored."""
    rows: dict[str, list[dict[str, object]]] = {
        "Criteria of the PTS rule": [_window(window) for window in found.windows],
        "Phases": [_phase(phase) for phase in found.phases],
        "Rates and latencies in steady state": [_flat(cell) for cell in found.in_steady_state],
        "Preparation": [_step(step) for step in found.preparation],
        "Rates and latencies of the warm-up": [_flat(sample) for sample in found.warm_up],
        "Rates and latencies of each round": [
            {"round": one.number, **_flat(cell), **({} if one.counted else {"counted": False})}
            for one in found.rounds
            for cell in one.cells
        ],
        "Rates and latencies of each sample": [_flat(sample) for sample in found.samples],
    }
    yield from (record_table(name, records) for name, records in rows.items() if records)


def _window(window: PtsWindow) -> dict[str, object]:
    own = {"cell", "metric", "first_round", "last_round", "steady", "fit"}
    what, factor = TRACKED[window.metric]
    kept = {
        name: format_count(factor * value)
        for name, value in window.model_dump(exclude={*own, "correlation"}).items()
    }
    ends = {
        "fit": _fit(window, factor),
        "correlation": f"{window.correlation:+.4f}" if window.correlation else words.NONE,
        "window": window.rounds,
        "steady": window.steady,
    }
    return {"tracked_value": f"{window.cell}, {what}", **kept, **ends}


def _fit(window: PtsWindow, factor: float) -> str:
    """Format the fitted line in the unit that the page uses."""
    found = _LINE.fullmatch(window.fit)
    if found is None:
        return window.fit
    slope, intercept = (factor * float(number) for number in (found[1], found[2] + found[3]))
    said = ptsplots.fit_words(slope, intercept, (window.first_round, window.last_round), "")
    formula = f"{slope:.6g} x {'-' if intercept < 0 else '+'} {abs(intercept):.6g}"
    return said if said.startswith("constant") else f"{said} ({formula})"


def _phase(phase: PtsPhase) -> dict[str, object]:
    until = phase.samples_until_level
    return {**phase.model_dump(), "samples_until_level": "never" if until is None else until}


def _step(step: PtsStep) -> dict[str, object]:
    written = format_capacity(step.written_bytes)
    return {**step.model_dump(exclude={"written_bytes"}), "written": written}


def _flat(model: PtsCell | PtsSample) -> dict[str, object]:
    """Return the rates and the latencies of a cell or sample in one flat record."""
    kept = model.model_dump(exclude={"latency", "bins", "pre_write"}, exclude_none=True)
    flat: dict[str, object] = {_NAMED.get(name, name): value for name, value in kept.items()}
    if (latency := model.latency) is not None:
        flat |= {"min_ns": latency.min_ns, "mean_ns": latency.mean_ns}
        flat |= {f"{level}_ns": value for level, value in latency.percentiles_ns.items()}
        flat["max_ns"] = latency.max_ns
    return flat
