"""Make a section for each stage of a run."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ssdbench.model.found import (
    Comparison,
    FileSystemComparison,
    FillDone,
    Points,
    PurgeDone,
    WarmUp,
)
from ssdbench.model.inside import BlockSizeFound, ProbeFound
from ssdbench.model.kind import KINDS
from ssdbench.model.pts import Pts
from ssdbench.model.rates import LoadFound, RateFound
from ssdbench.model.replay import ReplayFound
from ssdbench.model.result import StageResult
from ssdbench.report.read import StoredRun
from ssdbench.report.view import inside, pointstage, preparation, pts, rates, replays, trials, words
from ssdbench.report.view.page import Block, Facts, Fold, Prose, Section
from ssdbench.units import format_capacity, format_duration


def sections(run: StoredRun) -> Iterator[Section]:
    """Yield a section for each stage except warm-ups; the steady-state section shows warm-ups."""
    for stage in sorted(run.result.stages, key=lambda s: KINDS[s.kind].page_order):
        if stage.verdict is None:
            blocks = list(_blocks(run, stage))
            yield Section(f"stage-{stage.name}", stage.title, blocks, _brief(stage))


def _brief(stage: StageResult) -> str:
    """Return the line that is visible while a stage is folded; empty for an unfolded stage."""
    if not stage.complete:
        return ""
    match stage.found:
        case PurgeDone() | FillDone():
            volume = f"{format_capacity(stage.bytes_written)} written in "
            return (volume if stage.bytes_written else "") + format_duration(stage.duration_s)
        case BlockSizeFound(block_bytes=None, answer=answer):
            return answer or "no answer"
        case _:
            return ""


def _blocks(run: StoredRun, stage: StageResult) -> Iterator[Block]:
    if not stage.complete:
        yield Prose(
            "This stage was not finished. Shown is what it had measured until then.", tone="bad"
        )
    yield from VIEWS[type(stage.found)](run, stage, stage.found)
    yield Fold("Time and bytes of this stage", [cost(stage)])


# For each kind of result, the function that makes its section. A test checks that no kind is
# missing.
VIEWS: Mapping[type, Callable[[StoredRun, StageResult, Any], Iterator[Block]]] = {
    PurgeDone: preparation.purge_blocks,
    FillDone: preparation.fill_blocks,
    WarmUp: lambda run, stage, found: iter(()),  # shown in the steady-state section
    Points: pointstage.blocks,
    Pts: pts.blocks,
    ReplayFound: replays.blocks,
    RateFound: rates.blocks,
    LoadFound: rates.load_blocks,
    BlockSizeFound: inside.block_size_blocks,
    ProbeFound: inside.probe_blocks,
    Comparison: trials.blocks,
    FileSystemComparison: trials.file_system_blocks,
}


def cost(stage: StageResult) -> Facts:
    """Return when a stage ran, for how long, and the bytes it read and wrote."""
    items = [
        ("Stage", stage.name),
        ("Started", words.moment(stage.started_at)),
        ("Drive's time", format_duration(stage.duration_s)),
        ("Host's time", format_duration(stage.wall_s)),
    ]
    if stage.bytes_written:
        items.append(("Bytes written", format_capacity(stage.bytes_written)))
    if stage.bytes_read:
        items.append(("Bytes read", format_capacity(stage.bytes_read)))
    return Facts("", items)
