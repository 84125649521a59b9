"""What was tested and how: drive, conditions, host, profile, files, words."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ssdbench.model import rundirectory
from ssdbench.model.found import FillDone, PurgeDone
from ssdbench.model.inside import CacheKind, WriteCache
from ssdbench.model.kind import KINDS
from ssdbench.model.pts import Pts
from ssdbench.model.result import Budget, FlashWritten, RunResult, StageResult
from ssdbench.report.plots.columns import Stretch, TimelineFigure
from ssdbench.report.read import StoredRun
from ssdbench.report.view import hostseries, words
from ssdbench.report.view.page import (
    Block,
    Cell,
    Column,
    Facts,
    Plot,
    Plots,
    Prose,
    Section,
    Table,
    Verbatim,
)
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
    "When a run ends, each is to be put back, unless its reason says that it stays; "
    "`ssdbench restore` lists and restores what was not."
)
RUN_FILES = (
    (rundirectory.RESULT, "everything this page was made from"),
    (rundirectory.RESULTS_CSV, "one row per point, repeat and metric"),
    (rundirectory.RESULTS_PARQUET, "the same, typed"),
    (rundirectory.SUMMARY_CSV, "one row per point"),
    (rundirectory.ARTIFACTS_CSV, "the files behind each number"),
    (rundirectory.TARGETS_CSV, "what became of each target of the profile"),
    (rundirectory.MANIFEST, "versions, profile, target and hashes"),
    (rundirectory.JOURNAL, "what was intended, begun and finished, as it happened"),
    (rundirectory.HOST_BEFORE, "the host before the run"),
    (rundirectory.HOST_AFTER, "the host after the run"),
    ("sim/spec.json", "the simulated drive"),
)


def drive(result: RunResult) -> Section:
    """Which drive, or what stood in for one."""
    target = result.target
    label = simulated_label(target)
    items = [
        ("What it is", words.KIND_WORDS[target.kind].removeprefix("a ")),
        *([("Simulated", label)] if label else []),
        ("Model", target.model),
        ("Serial number", target.serial),
        ("Firmware", target.firmware),
        ("Capacity", f"{format_capacity(target.size_bytes)} ({target.size_bytes:,} bytes)"),
        ("Logical block", format_size(target.logical_block_bytes)),
        ("Physical block", format_size(target.physical_block_bytes)),
        *(
            [("Remap unit", f"{format_size(target.remap_unit_bytes)}, as the model has it")]
            if target.remap_unit_bytes
            else []
        ),
        ("Named as", target.name),
        ("Opened as", target.node),
        ("Identity", target.id),
        *(words.fact(name, value) for name, value in target.facts.items()),
    ]
    brief = ", ".join(filter(None, (target.model or target.name, target.firmware)))
    facts = Facts("", [(n, v or words.NONE) for n, v in items])
    return Section("drive", "The drive", [facts], f"{brief}, {format_capacity(target.size_bytes)}")


def test(result: RunResult) -> Section:
    """The header that SNIA PTS-style reports begin with."""
    fills = [stage for stage, _ in result.having(FillDone)]
    steady = [stage.verdict for stage in result.stages if stage.verdict]
    points = result.points
    length = sum(stage.duration_s for stage in result.stages)
    purge = [stage for stage, _ in result.having(PurgeDone)]
    own = "by each test" if result.having(Pts) else "none"
    items = [
        ("Started", words.moment(result.started_at)),
        ("Ended", words.moment(result.finished_at)),
        ("Length on the drive's clock", format_duration(length)),
        *([("Time given", _budget(result.budget))] if result.budget else []),
        ("Written by the run", _written(result)),
        *([("Written to flash", _flash(result.flash_written))] if result.flash_written else []),
        ("Purge", _titles(purge) or own),
        ("Preconditioning", _titles(fills) or own),
        *([("Write cache", _cache(result.write_cache))] if result.write_cache else []),
        ("Steady-state rule", listed(list(dict.fromkeys(v.rule for v in steady))) or "none"),
        ("Active range", _ranges(result)),
        ("Data pattern", listed(_unique(str(p.point.workload.content) for p in points))),
        ("Queue depth × jobs", listed([f"{depth} × {jobs}" for depth, jobs in sorted(
            {(p.point.workload.iodepth, p.point.workload.numjobs) for p in points})])),
        ("Measured", f"{counted(len(points), 'point')}, "
                     f"{counted(sum(len(p.repeats) for p in points), 'repeat')}"),
        ("Order", _order(result)),
        ("Seed", str(result.seed)),
        ("Tool", tool(result)),
    ]  # fmt: skip
    brief = f"{format_duration(length)} on the drive's clock, {_written(result)} written"
    facts = Facts("", [(n, v or words.NONE) for n, v in items])
    return Section("conditions", "Test conditions", [*timeline_blocks(result), facts], brief)


def _budget(budget: Budget) -> str:
    """The time, what was left out for it, and what the run could prove at best."""
    cuts = "; ".join(budget.cuts) or "nothing was left out"
    return f"{format_duration(budget.seconds)}: {cuts}. It {budget.proves}. Risk: {budget.risk}."


def tool(result: RunResult) -> str:
    """What measured: `ssdbench 0.1.0, fio 3.33`, or the kernel module in fio's place."""
    fio = result.host.get("fio version")
    generator = result.host.get("generator") or (fio and f"fio {fio}")
    return f"ssdbench {result.ssdbench_version}" + (f", {generator}" if generator else "")


def _order(result: RunResult) -> str:
    spans = {KINDS[stage.kind].ascending for stage in result.stages if stage.points}
    told = {False: "points shuffled anew for each pass", True: "spans from small to whole"}
    return "; ".join(words for is_span, words in told.items() if is_span in spans)


def _unique(values: Iterator[str]) -> list[str]:
    return list(dict.fromkeys(values))


def _titles(stages: Sequence[StageResult]) -> str:
    """`Fill the drive; Fill the drive again, before ext4 (3 times)`."""
    counted = Counter(stage.title for stage in stages)
    return "; ".join(f"{title} ({n} times)" if n > 1 else title for title, n in counted.items())


def _written(result: RunResult) -> str:
    fills = result.bytes_written / max(result.target.size_bytes, 1)
    return f"{format_capacity(result.bytes_written)} ({format_figure(fills)} drive fills)"


_CACHES = {
    CacheKind.VOLATILE: "volatile: what was acknowledged may be lost with the power",
    CacheKind.PROTECTED: "protected",
    CacheKind.NONE: "none: a write is acknowledged when it is on the medium",
    CacheKind.NOT_VOLATILE: "not volatile",
    CacheKind.UNKNOWN: "not known",
}


def _cache(cache: WriteCache) -> str:
    said = "; ".join((*cache.evidence, *filter(None, [cache.contradiction])))
    return f"{_CACHES[cache.kind]} ({said})"


def _flash(written: FlashWritten) -> str:
    least, most = written.amplification_range
    step = written.media_step_bytes
    coarse = f" ({least:.3g} to {most:.3g}: it counts in steps of {format_capacity(step or 0)})"
    return (
        f"{format_capacity(written.media_bytes)} for {format_capacity(written.host_bytes)} from "
        f"the host by the drive's own logs (health log and OCP C0h, before and after the run): "
        f"a write amplification of {written.amplification:.3g}"
        f"{coarse if step and step > MIB else ''} over fills, warm-ups and points"
    )


def _ranges(result: RunResult) -> str:
    size = max(result.target.size_bytes, 1)
    lengths = [p.point.workload.range.length_bytes for s in result.stages for p in s.points]
    shares = sorted({round(100 * length / size, 1) for length in lengths})
    return listed([f"{share:g} %" for share in shares]) + (" of the drive" if shares else "")


def host(run: StoredRun) -> Section:
    """The machine, what it did meanwhile, and what was changed on it."""
    result = run.result
    blocks: list[Block] = []
    if result.host:
        blocks.append(Facts("The machine", [words.fact(n, v) for n, v in result.host.items()]))
    if meanwhile := list(_meanwhile(result)):
        blocks.append(Facts("While points were measured", meanwhile))
    blocks += hostseries.figure(run)
    if result.settings:
        keys = list(dict.fromkeys(key for setting in result.settings for key in setting))
        rows = [_setting(setting, keys) for setting in result.settings]
        columns = [Column(words.fact(key, "")[0]) for key in keys]
        blocks.append(Table("Settings changed for the run", columns, rows))
        blocks.append(Prose(_PUT_BACK))
    else:
        blocks.append(Prose("No host setting was changed for this run."))
    changed = counted(len(result.settings), "setting") if result.settings else "no setting"
    return Section("host", "The host", blocks, f"{changed} changed for the run")


def _meanwhile(result: RunResult) -> Iterator[tuple[str, str]]:
    """The host in the measured windows of all repeats; the series are in host.csv of each."""
    repeats = [r for stage in result.stages for point in stage.points for r in point.repeats]
    seen = [repeat.host for repeat in repeats if repeat.host is not None]
    if not seen:
        return
    slowest = [one.frequency_mhz_least for one in seen if one.frequency_mhz_least is not None]
    fastest = [one.frequency_mhz_most for one in seen if one.frequency_mhz_most is not None]
    hottest = [one.temperature_c_most for one in seen if one.temperature_c_most is not None]
    clock = f"{min(slowest):,.0f} to {max(fastest):,.0f} MHz" if slowest and fastest else words.NONE
    yield "CPU frequency", clock
    yield "Hottest", f"{max(hottest):.0f} °C" if hottest else words.NONE
    yield "Stolen, at most", f"{max(one.stolen_percent_most for one in seen):.1f} % of CPU time"
    yield "Others, at most", f"{max(one.other_cpus_most for one in seen):.2f} CPUs"
    yield "Context switches", f"up to {max(one.switches_per_s for one in seen):,.0f} per second"
    per_cpu = [rate for one in seen for rate in one.interrupts_per_s]
    if per_cpu:
        between = f"{min(per_cpu):,.0f} to {max(per_cpu):,.0f}"
        yield "Interrupts of one CPU", f"{between} per second"
    yield "Foreign requests", f"{sum(one.foreign_ios for one in seen):,} on the drive"
    yield "Disturbed repeats", f"{sum(repeat.disturbed for repeat in repeats)} of {len(repeats)}"


def _setting(setting: Mapping[str, str], keys: Sequence[str]) -> list[Cell]:
    return [Cell(setting.get(key, words.NONE)) for key in keys]


def provenance(run: StoredRun) -> Section:
    """Where each number comes from: profile, commands, files."""
    blocks: list[Block] = [Facts("", [("Run", run.result.run_id), ("Seed", str(run.result.seed))])]
    present = [(n, what) for n, what in RUN_FILES if (at := run.path(n)) and at.is_file()]
    rows = [[Cell(n, href=words.link(n)), Cell(what)] for n, what in present]
    if rows:
        blocks.append(Table("Files of the run", [Column("File"), Column("What it holds")], rows))
    blocks += _artifacts(run)
    missing = [[Cell(name)] for name in dict.fromkeys(run.missing)]
    if missing:
        blocks.append(Table("Files that could not be read", [Column("File")], missing))
    if run.result.profile_text:
        blocks.append(Verbatim("The profile, as it was run", run.result.profile_text))
    lost = f", {counted(len(missing), 'file')} could not be read" if missing else ""
    return Section(
        "provenance", "Where the numbers come from", blocks, f"files, commands, profile{lost}"
    )


def _artifacts(run: StoredRun) -> list[Block]:
    names = [name for name in run.files("stages") if not name.endswith(("seconds.csv", ".npz"))]
    commands = [name for name in names if name.rsplit("/", 1)[-1].startswith("command")]
    blocks: list[Block] = []
    if commands:
        rows = [
            [Cell(name, href=words.link(name)), Cell(run.text(name, limit=600) or "")]
            for name in commands[:MAX_FILES]
        ]
        columns = [Column("File"), Column("Command")]
        fold = f"{counted(len(commands), 'command')} that made the load"
        blocks.append(Table("Commands", columns, rows, fold=fold))
    if names:
        rows = [[Cell(name, href=words.link(name))] for name in names[:MAX_FILES]]
        more = f", the first {MAX_FILES} of them here" if len(names) > MAX_FILES else ""
        fold = f"{counted(len(names), 'file')} of the stages{more}"
        blocks.append(Table("Files of the stages", [Column("File")], rows, fold=fold))
    return blocks


def glossary() -> Section:
    """The words of this page."""
    return Section(
        "words", "Words used here", [Facts("", list(words.GLOSSARY))], "lower bound, CV …"
    )


MOST = 40  # stages of a figure


def timeline_blocks(result: RunResult) -> Iterator[Plots]:
    """A row for each stage; none for a run of less than two."""
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
    yield Plots(
        [
            Plot(
                name="timeline",
                title="What was done when",
                caption=f"{told}. Fills are bytes written over the capacity, the least that the "
                "flash was worn by.",
                alt=f"{told}.",
                figure=TimelineFigure(
                    tuple(_stretches(result, stages, axis.seconds)),
                    f"{axis.name} on the drive's clock",
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
