"""Test how series of real drives are read, and how rules are judged by what came afterwards."""

import gzip
from pathlib import Path

import pytest

from benchmarks import judge_the_judges as judges
from benchmarks import real_series
from ssdbench.stats.steady.pss import Pss
from ssdbench.stats.steady.rules import Snia

FILL_BYTES = 1 << 30
FILL_S = 1200
INDEX = "file,drive,device_alias,span_GiB\n"


def series(path: Path, levels: list[tuple[int, float]], *, sample_s: int = 60) -> None:
    """Return seconds at each level, which is a share of a fill in FILL_S."""
    lines, end_s = ["end_s,bytes_per_s"], 0
    for seconds, level in levels:
        for _ in range(seconds // sample_s):
            end_s += sample_s
            lines.append(f"{end_s},{level * FILL_BYTES / FILL_S:.0f}")
    with gzip.open(path, "wt") if path.suffix == ".gz" else path.open("w") as file:
        file.write("\n".join(lines) + "\n")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "INDEX.csv").write_text(
        INDEX + "flat.csv.gz,A,a1,1\nfalls.csv,A,a2,1\nshort.csv,B,,1\n"
    )
    series(tmp_path / "flat.csv.gz", [(12 * FILL_S, 1.0)])
    series(tmp_path / "falls.csv", [(FILL_S, 1.0), (11 * FILL_S, 0.5)])
    series(tmp_path / "short.csv", [(FILL_S, 1.0)])
    return tmp_path


def test_what_a_rule_publishes_is_held_against_the_rest(directory: Path) -> None:
    flat, falls, short = real_series.recorded(directory)

    hasty = real_series.answer(falls, Snia())
    patient = real_series.answer(falls, Pss("pss", validates=True, min_fills=2.0))
    assert hasty is not None
    assert hasty.wrong
    assert hasty.published == pytest.approx(1 / (11.5 / 23 + 0.02), rel=0.1)  # nearly twice
    assert hasty.above_horizon
    assert patient is not None
    assert patient.steady
    assert not patient.wrong
    assert patient.published == pytest.approx(1.0, abs=0.01)
    same = real_series.answer(flat, Snia())
    assert same is not None
    assert same.published == pytest.approx(1.0)
    early = real_series.answer(short, Pss("pss", validates=True, min_fills=2.0))
    assert early is not None
    assert not early.steady
    assert (flat.drive, falls.drive, short.drive) == ("A (a1)", "A (a2)", "B")


def test_rules_that_go_by_seconds_are_not_asked_of_minutes(directory: Path) -> None:
    first = next(real_series.recorded(directory))

    asked = [name for name, made in judges.CONTENDERS.items() if real_series.answer(first, made)]

    assert "pss" in asked
    assert "snia" in asked
    assert not [name for name in asked if judges.CONTENDERS[name].step_s < 60]


def test_the_table_says_how_many_drives_it_stands_on(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert judges.main(["--real", str(directory), "--rules", "pss,snia"]) == 0

    told = capsys.readouterr().out
    assert "3 series, 8 hours, 3 drives" in told
    assert "pss: 1 of 3 not called steady, 1 of these shorter than 1.5 hours" in told
    assert [line.split() for line in told.splitlines() if line.startswith("snia ")][0][4:8] == [
        *("1", "1", "of", "3")
    ]


@pytest.mark.parametrize(
    ("index", "text", "told"),
    [
        ("file,drive\nx.csv,A\n", "", "INDEX.csv:1: there is no column 'span_GiB'"),
        (INDEX + "x.csv,A,,0\n", "", "INDEX.csv:2: span_GiB is a size in GiB, got '0'"),
        (INDEX + "y.csv,A,,1\n", "", "y.csv cannot be read: No such file or directory"),
        (INDEX + "x.csv,A,,1\n", "end_s,bytes_per_s\n", "x.csv has no samples"),
        (INDEX + "x.csv,A,,1\n", "end_s,bytes_per_s\n1,5\n1,5\n", "x.csv:3: time does not move"),
        (INDEX + "x.csv,A,,1\n", "end_s,bytes_per_s\n1,fast\n", "x.csv:2: end_s and bytes_per_s"),
        (INDEX + "x.csv,A,,1\n", "end_s,bytes_per_s\n1\n", "x.csv:2: the line ends too early"),
        (INDEX, "", "names no series"),
    ],
)
def test_a_series_that_cannot_be_read_is_told_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], index: str, text: str, told: str
) -> None:
    (tmp_path / "INDEX.csv").write_text(index)
    (tmp_path / "x.csv").write_text(text)

    assert judges.main(["--real", str(tmp_path)]) == 2
    assert told in capsys.readouterr().err
