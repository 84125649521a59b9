"""All file systems of a run together: IOPS over threads, one line per file system."""

from collections.abc import Iterator, Mapping, Sequence

from ssdbench.model.result import StageResult
from ssdbench.report.figures import Line, LinesFigure
from ssdbench.report.view.page import Block, Plot, Plots

Record = Mapping[str, object]

KIND = "filesystem"
MAX_LINES = 6
LEAD = (
    "4 KiB at random in one file, each file system on a drive that was filled again before it was "
    "made, without a discard. Aged: after its free space was filled with small files and every "
    "other of them deleted. Medians, to compare with each other."
)


def figure(stage: StageResult, stages: Sequence[StageResult]) -> list[Block]:
    """The figures, in the section of the last file system; nothing in the others."""
    tried = [one for one in stages if one.kind == KIND]
    if not tried or stage is not tried[-1]:
        return []
    records = [record for one in tried for record in _records(one)]
    plots = []
    for state in dict.fromkeys(str(record["state"]) for record in records):
        for word in ("read", "write"):
            own = [r for r in records if (r["state"], r["direction"]) == (state, word)]
            plots += list(_plots(stage, own, f"{word}, {state}"))
    return [Plots(plots)]


def _records(stage: StageResult) -> list[Record]:
    found = stage.data.get("medians")
    return [r for r in found if isinstance(r, Mapping)] if isinstance(found, list) else []


def _plots(stage: StageResult, records: Sequence[Record], words: str) -> Iterator[Plot]:
    """As many as can be told apart by colour, dash and mark."""
    threads = sorted({int(str(record["threads"])) for record in records})
    every = tuple(_lines(records))
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
        title = f"File systems: random {words}"
        place = "".join(c if c.isalnum() else "-" for c in f"{words}-{first}")
        caption = LEAD if words.startswith("read, fresh") and not first else ""
        alt = f"{title}: {names}."
        yield Plot(f"filesystems-{stage.name}-{place}", title, caption, alt, drawn)


def _lines(records: Sequence[Record]) -> Iterator[Line]:
    for system in dict.fromkeys(str(record["file_system"]) for record in records):
        own = sorted(
            (r for r in records if r["file_system"] == system), key=lambda r: int(str(r["threads"]))
        )
        yield Line(
            label=system,
            x=tuple(float(str(r["threads"])) for r in own),
            y=tuple(float(str(r["iops"])) for r in own),
            low=tuple(float(str(r["iops_least"])) for r in own),
            high=tuple(float(str(r["iops_most"])) for r in own),
        )
