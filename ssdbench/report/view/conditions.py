"""Show what was tested and how: drive, test conditions, host, profile, files, glossary."""

from collections import Counter
from collections.abc import Iterator, Sequence

from ssdbench.model import rundirectory
from ssdbench.model.found import FillDone, PurgeDone
from ssdbench.model.inside import CacheKind, WriteCache
from ssdbench.model.kind import KINDS
from ssdbench.model.pts import Pts
from ssdbench.model.result import Budget, FlashWritten, RunResult, StageResult
from ssdbench.report.plots.columns import Stretch, TimelineFigure
from ssdbench.report.read import StoredRun
from ssdbench.report.view import page, words
from ssdbench.report.view.words import simulated_label
from ssdbench.units import (
    MIB,
    counted,
    format_capacity,
    format_duration,
    format_figure,
    format_size,
    listed,
)

MAX_FILES = 100
_PUT_BACK = (
    "At the end of a run the old values are restored, unless the reason says that a setting stays. "
    "If some were not restored, `ssdbench restore` lists and restores them."
)
_MACHINE = ("host", "product", "kernel", "CPU", "CPUs", "memory", "fio version", "generator")
RUN_FILES = (
    (rundirectory.RESULT, "all results; this page is made from them"),
    (rundirectory.RESULTS_CSV, "one row per point, repeat and metric"),
    (rundirectory.RESULTS_PARQUET, "the same as Parquet, with types"),
    (rundirectory.SUMMARY_CSV, "one row per point"),
    (rundirectory.ARTIFACTS_CSV, "the files from which each number was computed"),
    (rundirectory.TARGETS_CSV, "whether the drive met the targets of the profile"),
    (rundirectory.MANIFEST, "versions, profile, target and hashes of files"),
    (rundirectory.JOURNAL, "log of the run: its plan, and when each part began and ended"),
    (rundirectory.HOST_BEFORE, "state of the host before the run"),
    (rundirectory.HOST_AFTER, "state of the host after the run"),
    ("sim/spec.json", "definition of the simulated drive"),
)


def drive(result: RunResult) -> page.Section:
    """Return the section about the tested drive, file or simulated drive."""
    target = result.target
    label = simulated_label(target)
    items = [
        ("Kind of target", words.KIND_WORDS[target.kind].removeprefix("a ")),
        *([("Simulated", label)] if label else []),
        ("Model", target.model),
        ("Serial number", target.serial),
        ("Firmware", target.firmware),
        ("Capacity", f"{format_capacity(target.size_bytes)} ({target.size_bytes:,} bytes)"),
        ("Logical block", format_size(target.logical_block_bytes)),
        ("Physical block", format_size(target.physical_block_bytes)),
        *(
            [("Remap unit", f"{format_size(target.remap_unit_bytes)}, as in the model")]
            if target.remap_unit_bytes
            else []
        ),
        ("Given name", target.name),
        ("Opened device", target.node),
        ("Identity", target.id),
        *(words.fact(name, value) for name, value in target.facts.items()),
    ]
    brief = ", ".join(filter(None, (target.model or target.name, target.firmware)))
    facts = page.Facts("", [(n, v or words.NONE) for n, v in items])
    return page.Section(
        "drive", "The drive", [facts], f"{brief}, {format_capacity(target.size_bytes)}"
    )


def test(result: RunResult) -> page.Section:
    """Return the section about the test conditions that SNIA PTS-style reports state."""
    fills = [stage for stage, _ in result.having(FillDone)]
    steady = [stage.verdict for stage in result.stages if stage.verdict]
    points = result.points
    length = sum(stage.duration_s for stage in result.stages)
    purge = [stage for stage, _ in result.having(PurgeDone)]
    own = "see the header of each test" if result.having(Pts) else "none"
    contents = dict.fromkeys(str(p.point.workload.content) for p in points)
    items = [
        ("Started", words.moment(result.started_at)),
        ("Ended", words.moment(result.finished_at)),
        ("Drive's time", format_duration(length)),
        *([_budget(result.budget)] if result.budget else []),
        ("Bytes written by the run", _written(result)),
        *([("Written to flash", _flash(result.flash_written))] if result.flash_written else []),
        *([("Idle power before the run", f"{words.watts(idle)}, {idle.method}")]
          if (idle := result.idle_watts) else []),
        ("Purge", _titles(purge) or own),
        ("Preconditioning", _titles(fills) or own),
        *([("Write cache", _cache(result.write_cache))] if result.write_cache else []),
        ("Steady-state rule", listed(list(dict.fromkeys(v.rule for v in steady))) or "none"),
        ("Active range", _ranges(result)),
        ("Data pattern", listed(list(contents))),
        ("Queue depth × jobs", listed([f"{depth} × {jobs}" for depth, jobs in sorted(
            {(p.point.workload.iodepth, p.point.workload.numjobs) for p in points})])),
        ("Measured", f"{counted(len(points), 'point')}, "
                     f"{counted(sum(len(p.repeats) for p in points), 'repeat')}"),
        ("Order", _order(result)),
        ("Tool", tool(result)),
    ]  # fmt: skip
    brief = f"{format_duration(length)} of the drive's time, {_written(result)} written"
    facts = page.Facts("", [(n, v or words.NONE) for n, v in items])
    return page.Section("conditions", "Test conditions", [*timeline_blocks(result), facts], brief)


def _budget(budget: Budget) -> tuple[str, str]:
    """Return a name and sentences for the limits of time or wear that the user gave.

    The sentences name the parts of the run that were left out to keep the limits, the things that
    the run can still show, and the risk that remains.
    """
    cuts = "; ".join(budget.cuts) or "nothing was left out"
    name = "Given time" if budget.most_bytes is None else "Given time or wear"
    return name, f"{budget.given}: {cuts}. The run {budget.proves}. Risk: {budget.risk}."


def tool(result: RunResult) -> str:
    """Format the versions of ssdbench and of fio, or of the kernel module used instead of fio."""
    fio = result.host.get("fio version")
    generator = result.host.get("generator") or (fio and f"fio {fio}")
    return f"ssdbench {result.ssdbench_version}" + (f", {generator}" if generator else "")


def _order(result: RunResult) -> str:
    spans = {KINDS[stage.kind].ascending for stage in result.stages if stage.points}
    told = {
        False: "points in a new random order in each pass",
        True: "spans from the smallest part to the whole drive",
    }
    return "; ".join(words for is_span, words in told.items() if is_span in spans)


def _titles(stages: Sequence[StageResult]) -> str:
    """Join the titles of stages, and count repeated ones: `Fill the drive (3 times)`."""
    counted = Counter(stage.title for stage in stages)
    return "; ".join(f"{title} ({n} times)" if n > 1 else title for title, n in counted.items())


def _written(result: RunResult) -> str:
    fills = result.bytes_written / max(result.target.size_bytes, 1)
    return f"{format_capacity(result.bytes_written)} ({format_figure(fills)} drive fills)"


_CACHES = {
    CacheKind.VOLATILE: "volatile: acknowledged writes can be lost if power fails",
    CacheKind.PROTECTED: "protected",
    CacheKind.NONE: "none: a write is acknowledged after it is on the medium",
    CacheKind.NOT_VOLATILE: "not volatile",
    CacheKind.UNKNOWN: "not known",
}


def _cache(cache: WriteCache) -> str:
    said = "; ".join((*cache.evidence, *filter(None, [cache.contradiction])))
    return f"{_CACHES[cache.kind]} ({said})"


def _flash(written: FlashWritten) -> str:
    least, most = written.amplification_range
    step = written.media_step_bytes
    coarse = (
        f" ({least:.3g} to {most:.3g}: the log counts in steps of {format_capacity(step or 0)})"
    )
    return (
        f"{format_capacity(written.media_bytes)} for {format_capacity(written.host_bytes)} written "
        "by the host, from the drive's own logs before and after the run (health log and OCP C0h). "
        f"Write amplification {written.amplification:.3g}{coarse if step and step > MIB else ''} "
        "over fills, warm-ups and points"
    )


def _ranges(result: RunResult) -> str:
    size = max(result.target.size_bytes, 1)
    lengths = [p.point.workload.range.length_bytes for s in result.stages for p in s.points]
    shares = sorted({round(100 * length / size, 1) for length in lengths})
    return listed([f"{share:g} %" for share in shares]) + (" of the drive" if shares else "")


def host(run: StoredRun) -> page.Section:
    """Return the section about the host: its hardware, its load, and the settings that changed."""
    result = run.result
    blocks: list[page.Block] = []
    if result.host:
        first = {name: result.host[name] for name in _MACHINE if name in result.host}
        blocks.append(words.facts("The machine", first.items()))
        if rest := {name: value for name, value in result.host.items() if name not in first}:
            more = page.Fold("More about the machine", [words.facts("", rest.items())])
            blocks.append(more)
    if meanwhile := list(_meanwhile(result)):
        blocks.append(page.Facts("While points were measured", meanwhile))
    if result.settings:
        keys = list(dict.fromkeys(key for setting in result.settings for key in setting))
        columns = [
            (words.fact(key, "")[0], lambda setting, key=key: setting.get(key, words.NONE))
            for key in keys
        ]
        blocks.append(page.table_of("Settings changed for the run", result.settings, columns))
        blocks.append(page.Prose(_PUT_BACK))
    else:
        blocks.append(page.Prose("No host setting was changed for this run."))
    changed = counted(len(result.settings), "setting") if result.settings else "no setting"
    return page.Section("host", "The host", blocks, f"{changed} changed for the run")


def _meanwhile(result: RunResult) -> Iterator[tuple[str, str]]:
    """Yield how busy the host was during the counted time of all repeats (from their host.csv)."""
    repeats = [r for stage in result.stages for point in stage.points for r in point.repeats]
    seen = [repeat.host for repeat in repeats if repeat.host is not None]
    if not seen:
        return
    slowest = [one.frequency_mhz_least for one in seen if one.frequency_mhz_least is not None]
    fastest = [one.frequency_mhz_most for one in seen if one.frequency_mhz_most is not None]
    hottest = [one.temperature_c_most for one in seen if one.temperature_c_most is not None]
    clock = f"{min(slowest):,.0f} to {max(fastest):,.0f} MHz" if slowest and fastest else words.NONE
    yield "CPU frequency", clock
    yield "Highest temperature", f"{max(hottest):.0f} °C" if hottest else words.NONE
    yield "Stolen CPU time, at most", f"{max(one.stolen_percent_most for one in seen):.1f} %"
    yield "CPUs used by other programs, at most", f"{max(one.other_cpus_most for one in seen):.2f}"
    yield "Context switches", f"up to {max(one.switches_per_s for one in seen):,.0f} per second"
    per_cpu = [rate for one in seen for rate in one.interrupts_per_s]
    if per_cpu:
        between = f"{min(per_cpu):,.0f} to {max(per_cpu):,.0f}"
        yield "Interrupts of one CPU", f"{between} per second"
    yield "Requests of other programs on the drive", f"{sum(one.foreign_ios for one in seen):,}"
    yield "Disturbed repeats", f"{sum(repeat.disturbed for repeat in repeats)} of {len(repeats)}"


def provenance(run: StoredRun) -> page.Section:
    """Return the section about the profile, the commands, and the files behind the numbers."""
    blocks: list[page.Block] = [
        page.Facts("", [("Run", run.result.run_id), ("Seed", str(run.result.seed))])
    ]
    present = [(n, what) for n, what in RUN_FILES if (at := run.path(n)) and at.is_file()]
    if present:
        columns: list[page.ColumnOf[tuple[str, str]]] = [
            ("File", lambda one: page.Cell(one[0], href=words.link(one[0]))),
            ("Content", lambda one: one[1]),
        ]
        blocks.append(page.table_of("Files of the run", present, columns))
    blocks += _artifacts(run)
    missing = list(dict.fromkeys(run.missing))
    if missing:
        blocks.append(page.table_of("Files that could not be read", missing, [("File", str)]))
    if run.result.profile_text:
        blocks.append(page.Verbatim("The profile of this run", run.result.profile_text))
    lost = f", {counted(len(missing), 'file')} could not be read" if missing else ""
    return page.Section(
        "provenance", "Where the numbers come from", blocks, f"files, commands, profile{lost}"
    )


def _artifacts(run: StoredRun) -> Iterator[page.Block]:
    """Yield tables of the commands and the files of all stages; they are folded at first."""
    names = [name for name in run.files("stages") if not name.endswith(("seconds.csv", ".npz"))]
    commands = [name for name in names if name.rsplit("/", 1)[-1].startswith("command")]
    file: page.ColumnOf[str] = ("File", lambda name: page.Cell(name, href=words.link(name)))
    if commands:
        command: page.ColumnOf[str] = ("Command", lambda name: run.text(name, limit=600) or "")
        fold = f"{counted(len(commands), 'command')} that created the load"
        yield page.table_of("Commands", commands[:MAX_FILES], [file, command], fold=fold)
    if names:
        more = f"; the first {MAX_FILES} are listed" if len(names) > MAX_FILES else ""
        fold = f"{counted(len(names), 'file')} of the stages{more}"
        yield page.table_of("Files of the stages", names[:MAX_FILES], [file], fold=fold)


def glossary() -> page.Section:
    """Return the section that explains technical words of the page."""
    return page.Section(
        "words", "Words used here", [page.Facts("", list(words.GLOSSARY))], "lower bound, CV …"
    )


MOST = 40  # most stages in the figure


def timeline_blocks(result: RunResult) -> Iterator[page.Plots]:
    """Yield the plot of all stages along the run's time; nothing if the run has one stage."""
    stages = result.stages[:MOST]
    length = sum(stage.duration_s for stage in stages)
    if len(stages) < 2 or not 0 < length < float("inf"):
        return
    axis = words.time_unit(length)
    written = sum(stage.bytes_written for stage in result.stages)
    told = (
        f"{counted(len(stages), 'stage')} in {format_duration(length)}, "
        f"{format_capacity(written)} written"
    )
    yield page.Plots(
        [
            page.Plot(
                name="timeline",
                title="Stages of the run",
                caption=f"{told}. Fills are the bytes written, divided by the capacity; the flash "
                "itself was written at least as often.",
                alt=f"{told}.",
                figure=TimelineFigure(
                    tuple(_stretches(result, stages, axis.seconds)),
                    f"{axis.name} of the drive's time",
                ),
            )
        ],
        wide=True,
    )


def _stretches(
    result: RunResult, stages: tuple[StageResult, ...], unit_s: float
) -> Iterator[Stretch]:
    begun = 0.0
    for stage in stages:
        end = begun + stage.duration_s
        fills = stage.bytes_written / max(result.target.size_bytes, 1)
        wrote = (
            f", {format_capacity(stage.bytes_written)} = {format_figure(fills, 2)} fills written"
        )
        words = format_duration(stage.duration_s) + (wrote if stage.bytes_written else "")
        yield Stretch(stage.title, begun / unit_s, end / unit_s, words)
        begun = end
