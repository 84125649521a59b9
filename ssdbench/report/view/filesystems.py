"""File systems on the page; all of a run are drawn together: IOPS over threads, a line for each."""

from collections.abc import Iterator, Sequence

from ssdbench.model.found import FileSystemComparison, ThreadsMedian
from ssdbench.model.result import RunResult, StageResult
from ssdbench.report.figures import Line, LinesFigure
from ssdbench.report.view import words
from ssdbench.report.view.medians import BY_THREADS, table
from ssdbench.report.view.page import Block, Facts, Plot, Plots

MAX_LINES = 6
LEAD = (
    "4 KiB at random in one file, each file system on a drive that was filled again before it was "
    "made, without a discard. Aged: after its free space was filled with small files and every "
    "other of them deleted. Medians, to compare with each other."
)


def blocks(result: RunResult, stage: StageResult, found: FileSystemComparison) -> Iterator[Block]:
    """The figures, in the section of the last file system; the table of this one."""
    tried = result.having(FileSystemComparison)
    if stage is tried[-1][0]:
        yield from figure(stage, [median for _, one in tried for median in one.medians])
    yield from table(found.medians, BY_THREADS)
    facts = [("file_system", found.file_system), ("made_with", found.made_with)]
    facts.append(("measured", found.measured))
    facts += [(f"note_{number}", note) for number, note in enumerate(found.notes, start=1)]
    yield Facts("In numbers", [words.fact(name, value) for name, value in facts])


def figure(stage: StageResult, medians: Sequence[ThreadsMedian]) -> Iterator[Block]:
    """One figure for each state and direction."""
    plots = []
    for state in dict.fromkeys(median.state for median in medians):
        for direction in ("read", "write"):
            own = [m for m in medians if (m.state, m.direction) == (state, direction)]
            plots += list(_plots(stage, own, f"{direction}, {state}"))
    if plots:
        yield Plots(plots)


def _plots(stage: StageResult, medians: Sequence[ThreadsMedian], what: str) -> Iterator[Plot]:
    """As many as can be told apart by colour, dash and mark."""
    threads = sorted({median.threads for median in medians})
    every = tuple(_lines(medians))
    for first in range(0, len(every), MAX_LINES):
        lines = every[first : first + MAX_LINES]
        drawn = LinesFigure(
            lines=lines,
            x_label="threads",
            y_label="IOPS",
            ticks=tuple((float(count), str(count)) for count in threads),
            log_x=len(threads) > 1,
        )
        names = ", ".join(line.label for line in lines)
        title = f"File systems: random {what}"
        place = "".join(c if c.isalnum() else "-" for c in f"{what}-{first}")
        caption = LEAD if what.startswith("read, fresh") and not first else ""
        yield Plot(f"filesystems-{stage.name}-{place}", title, caption, f"{title}: {names}.", drawn)


def _lines(medians: Sequence[ThreadsMedian]) -> Iterator[Line]:
    for system in dict.fromkeys(median.file_system for median in medians):
        own = sorted((m for m in medians if m.file_system == system), key=lambda m: m.threads)
        yield Line(
            label=system,
            x=tuple(float(m.threads) for m in own),
            y=tuple(m.iops for m in own),
            low=tuple(m.iops_least for m in own),
            high=tuple(m.iops_most for m in own),
        )
