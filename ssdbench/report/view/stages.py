"""One section per stage: what it did and measured."""

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
    """Yield a section for each stage but judged warm-ups, which have a section of their own."""
    for stage in sorted(run.result.stages, key=lambda s: KINDS[s.kind].page_order):
        if stage.verdict is None:
            blocks = list(_blocks(run, stage))
            yield Section(f"stage-{stage.name}", stage.title, blocks, _brief(stage))


def _brief(stage: StageResult) -> str:
    """Return one line for a stage that is folded; empty for one that is shown open."""
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
        yield Prose("This stage was not finished; what it measured until then is kept.", tone="bad")
    yield from VIEWS[type(stage.found)](run, stage, stage.found)
    yield Fold("What it took", [cost(stage)])


# One row for each kind of result: what its section shows. A test holds it against `AnyFound`.
VIEWS: Mapping[type, Callable[[StoredRun, StageResult, Any], Iterator[Block]]] = {
    PurgeDone: preparation.purge_blocks,
    FillDone: preparation.fill_blocks,
    WarmUp: lambda run, stage, found: iter(()),  # the section on steady state shows it
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
        ("Took, on the drive's clock", format_duration(stage.duration_s)),
        ("Took, on the wall clock", format_duration(stage.wall_s)),
    ]
    if stage.bytes_written:
        items.append(("Written", format_capacity(stage.bytes_written)))
    if stage.bytes_read:
        items.append(("Read", format_capacity(stage.bytes_read)))
    return Facts("", items)
