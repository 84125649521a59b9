"""Draw the state of the host during all repeats, one after the other on one axis.

The figure leaves out fills and warm-ups between the repeats.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ssdbench.model.result import StageResult
from ssdbench.model.rundirectory import HOST_SERIES, STAGES
from ssdbench.report.figure import thinned
from ssdbench.report.plots.host import HostFigure, HostLine, HostPanel, HostWindow
from ssdbench.report.read import Floats, StoredRun
from ssdbench.report.view.page import Block, Plot, Plots

LEAD = (
    "Recorded every 10 s, and at the start and end of each window, during settling and counted "
    "time. Shaded: counted time. Hatched: a repeat that is marked as disturbed. Fills and "
    "warm-ups between the repeats are left out."
)
MOST_LINES = 4  # with more CPUs, only the busiest and the idlest are drawn
_INTERRUPTS = "interrupts_per_s_cpu"
_PANELS = (
    ("frequency_mhz", "CPU frequency", "MHz"),
    ("temperature_c", "Temperature", "°C"),
    ("stolen_percent", "Stolen CPU time", "%"),
    ("other_cpus", "Other programs", "CPUs busy"),
    ("foreign_per_s", "Other I/O on the drive", "requests/s"),
    ("switches_per_s", "Context switches", "1/s"),
)


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """The readings of one file, and their start on the axis in seconds."""

    start_s: float
    columns: dict[str, Floats]
    windows: tuple[HostWindow, ...]

    @property
    def t_s(self) -> Floats:
        return self.start_s + self.columns["t_s"]


def figure(run: StoredRun) -> list[Block]:
    """Return the figure of the host; nothing if no readings are stored (simulated drives)."""
    parts: list[_Part] = []
    marks: list[tuple[float, str]] = []
    end_s = 0.0
    for stage in run.result.stages:
        first_s = end_s
        for part in _parts(run, stage, end_s):
            parts.append(part)
            end_s = float(part.t_s[-1])
        if end_s > first_s:
            marks.append((first_s, stage.name))
    panels = tuple(_panels(parts))
    if not panels:
        return []
    drawn = HostFigure(
        panels=panels,
        windows=tuple(window for part in parts for window in part.windows),
        marks=tuple(marks),
        x_label="seconds of measurements",
    )
    alt = f"{', '.join(panel.title for panel in panels)} over {end_s:.0f} s of measurements."
    return [Plots([Plot("host-series", "State of the host", LEAD, alt, drawn)], wide=True)]


def _parts(run: StoredRun, stage: StageResult, from_s: float) -> Iterator[_Part]:
    """Yield the readings of a stage, in order of time."""
    repeats = sorted((r for point in stage.points for r in point.repeats), key=lambda r: r.sequence)
    for repeat in repeats:
        if (
            repeat.host is None
            or (columns := _read(run, f"{repeat.artifacts}/{HOST_SERIES}")) is None
        ):
            continue
        window = HostWindow(
            from_s + repeat.measure_from_s, from_s + repeat.measure_to_s, repeat.disturbed
        )
        yield _Part(from_s, columns, (window,))
        from_s += float(columns["t_s"][-1])
    if not repeats and (columns := _read(run, f"{STAGES}/{stage.name}/{HOST_SERIES}")) is not None:
        yield _Part(from_s, columns, tuple(_counted(columns, from_s)))


def _read(run: StoredRun, name: str) -> dict[str, Floats] | None:
    """Read the columns of one file, with other I/O per second; None if no readings are stored."""
    if run.text(name, limit=1) is None:
        return None
    found = run.table(name, marked=("phase", "measure"))
    if found is None or "t_s" not in found or not len(found["t_s"]):
        return None
    sound = np.isfinite(found["t_s"])
    columns = {column: values[sound] for column, values in found.items()}
    if not len(columns["t_s"]):
        return None
    if "foreign_ios" in columns:
        lengths = np.maximum(np.diff(columns["t_s"], prepend=0.0), 1.0)
        columns["foreign_per_s"] = columns["foreign_ios"] / lengths
    return columns


def _counted(columns: dict[str, Floats], from_s: float) -> Iterator[HostWindow]:
    """Yield the counted intervals of a comparison of settings; each row ends an interval."""
    before = 0.0
    for t_s, is_counted in zip(columns["t_s"], columns["phase"], strict=True):
        if is_counted:
            yield HostWindow(from_s + before, from_s + float(t_s), disturbed=False)
        before = float(t_s)


def _panels(parts: Sequence[_Part]) -> Iterator[HostPanel]:
    """Yield a panel for each recorded quantity."""
    for name, title, unit in _PANELS:
        if (line := _line(parts, (name,), "")) is not None:
            yield HostPanel(title, unit, (line,))
    names = sorted({n for part in parts for n in part.columns if n.startswith(_INTERRUPTS)})
    names.sort(key=lambda name: int(name.removeprefix(_INTERRUPTS)))
    each: list[tuple[str, list[str]]]
    if len(names) <= MOST_LINES:
        each = [(f"CPU {name.removeprefix(_INTERRUPTS)}", [name]) for name in names]
    else:
        each = [(words, names) for words in ("busiest CPU", "idlest CPU")]
    lines = [line for words, chosen in each if (line := _line(parts, chosen, words)) is not None]
    if lines:
        yield HostPanel("Interrupts of each CPU", "1/s", tuple(lines))


def _line(parts: Sequence[_Part], names: Sequence[str], words: str) -> HostLine | None:
    """Join the values of all parts: the largest of several columns; the smallest for `idlest`."""
    x, y = [], []
    for part in parts:
        columns = [part.columns[name] for name in names if name in part.columns]
        if not columns:
            continue
        together = np.vstack(columns)
        values = together.min(axis=0) if words.startswith("idlest") else together.max(axis=0)
        known = np.isfinite(values)
        x.append(part.t_s[known])
        y.append(values[known])
    if not x or not len(all_x := np.concatenate(x)):
        return None
    all_y = np.concatenate(y)
    # A value belongs to the interval before it; the first interval starts with its part.
    all_x, all_y = np.insert(all_x, 0, parts[0].start_s), np.insert(all_y, 0, all_y[0])
    return HostLine(words, thinned(all_x, all_y))
