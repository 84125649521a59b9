"""The host over time in the report: whatever is planted in a host.csv is drawn where it was."""

from pathlib import Path

import pytest

from ssdbench.model.result import StageResult
from ssdbench.report.plots.canvas import to_svg
from ssdbench.report.plots.host import HostFigure, HostWindow
from ssdbench.report.read import StoredRun
from ssdbench.report.view import hostseries
from ssdbench.report.view.page import Plots
from tests.support.builders import a_full_run, stage_result

HEADER = (
    "t_s,phase,frequency_mhz,temperature_c,stolen_percent,other_cpus,switches_per_s,foreign_ios"
)


def trial(name: str) -> StageResult:
    return stage_result("engines", name=name, title="Compare", duration_s=30, wall_s=30)


def drawn(directory: Path, series: str, cpus: int) -> HostFigure:
    """The figure of a run whose only stage with a series is a trial with this one."""
    result = a_full_run(directory)
    (directory / "stages/09-engines").mkdir(parents=True)
    header = HEADER + "".join(f",interrupts_per_s_cpu{n}" for n in range(cpus))
    (directory / "stages/09-engines/host.csv").write_text(f"{header}\n{series}")
    run = StoredRun(directory, result.model_copy(update={"stages": (trial("09-engines"),)}))
    (plots,) = hostseries.figure(run)
    assert isinstance(plots, Plots)
    figure = plots.plots[0].figure
    assert isinstance(figure, HostFigure)
    assert to_svg(figure, "here").svg.startswith("<svg")
    return figure


def test_what_the_host_does_not_tell_has_no_panel(tmp_path: Path) -> None:
    figure = drawn(tmp_path, "5,between,,,0.0,0.1,900,,10,20\n15,measure,,,9.5,0.2,950,,11,90\n", 2)

    assert [panel.title for panel in figure.panels] == [
        "Stolen CPU time", "Other programs", "Context switches", "Interrupts of each CPU",
    ]  # fmt: skip
    assert figure.windows == (HostWindow(5, 15, disturbed=False),)
    assert list(figure.panels[0].lines[0].trace.high) == [0.0, 0.0, 9.5]
    assert [line.label for line in figure.panels[-1].lines] == ["CPU 0", "CPU 1"]


def test_of_many_cpus_the_busiest_and_the_idlest_are_drawn(tmp_path: Path) -> None:
    figure = drawn(tmp_path, "10,measure,3000,40,0,0,900,7,1,2,3,4,5,600\n", 6)

    assert [(line.label, list(line.trace.high)) for line in figure.panels[-1].lines] == [
        ("busiest CPU", [600.0, 600.0]), ("idlest CPU", [1.0, 1.0]),
    ]  # fmt: skip
    (other,) = [panel for panel in figure.panels if panel.title == "Other I/O on the drive"]
    assert list(other.lines[0].trace.high) == [0.7, 0.7]


@pytest.mark.parametrize("series", ["", "torn", "x,measure,,,,,,,1\n"])
def test_a_torn_series_is_no_figure_and_no_error(tmp_path: Path, series: str) -> None:
    result = a_full_run(tmp_path)
    (tmp_path / "stages/09-engines").mkdir(parents=True)
    (tmp_path / "stages/09-engines/host.csv").write_text(series)
    run = StoredRun(tmp_path, result.model_copy(update={"stages": (trial("09-engines"),)}))

    assert hostseries.figure(run) == []
