"""Which series are fitted and which are held out; the held-out half stays closed while fitting."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import fidelity
from benchmarks.fidelity import (
    Judged,
    Listed,
    Sealed,
    Sheet,
    by_formula,
    by_sheet,
    fills_to_steady,
    index,
    split,
)
from ssdbench.errors import UsageError
from ssdbench.sim.amplification import Before, Policy, Writes
from ssdbench.sim.fit import Fit, Observed, Parameters
from ssdbench.sim.series import read_series
from ssdbench.units import GIB, KIB

HEAD = "file,drive,device_alias,span_GiB,pattern,details,preceded_by,sample_s\n"
ZONES = "activeZones: 4 pagesPerZone: 2048"
ROWS = [
    "{drive}-u.csv,{drive},x,1,uniform,,sanitize,60",
    "{drive}-z2.csv,{drive},x,1,zipf-shuffle,0.200000,sanitize,60",
    "{drive}-z2b.csv,{drive},y,1,zipf-shuffle,0.200000,sanitize,10",
    "{drive}-z4.csv,{drive},x,1,zipf-shuffle,0.400000,sanitize,60",
    "{drive}-z4n.csv,{drive},x,1,zipf-shuffle,0.400000,nothing written,60",
    "{drive}-s.csv,{drive},x,1,zones-shuffle,s0.9 f0.1 s0.1 f0.9,sanitize,60",
    "{drive}-q.csv,{drive},x,40," + f"zns-noshuffle,{ZONES},sanitize, one sequential fill,60",
    "{drive}-f.csv,{drive},x,1,fiozipf-shuffle,0.800000,sanitize,60",
]
DRIVES = ("Maker One 960G", "Maker Two 1.92T")
MADE = Parameters(1.2 * GIB, Policy("greedy"), GIB, 1e9, 0.0, {4096: 1e9})


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    rows = [row.format(drive=drive) for drive in DRIVES for row in ROWS]
    (tmp_path / "INDEX.csv").write_text(HEAD + "\n".join(rows) + "\n")
    for row in rows:
        file = tmp_path / row.split(",")[0]
        lines = [f"{60 * at},{GIB / 600:.0f}" for at in range(1, 31)]  # three fills of 1 GiB
        file.write_text("end_s,bytes_per_s\n" + "\n".join(lines) + "\n")
    return tmp_path


def test_repeats_of_a_workload_are_on_one_side_and_both_sides_are_about_half(
    directory: Path,
) -> None:
    half, sealed = split(index(directory))

    inside = {(one.drive, one.workload) for one in half}
    outside = {(one.drive, one.workload) for one in sealed.listed}
    assert not inside & outside
    assert len(half) + len(sealed.listed) == 2 * len(ROWS)
    assert len(inside) == 8  # of 14: four of seven workloads of each drive
    for drive in DRIVES:
        repeats = [one in half for one in index(directory) if f"{drive}-z2" in one.path.name]
        assert repeats[0] == repeats[1]
    assert split(index(directory))[0] == half


def test_words_of_the_index_become_patterns(directory: Path) -> None:
    named = {one.path.name.removeprefix(f"{one.drive}-"): one.writes for one in index(directory)}

    assert named["u.csv"] == Writes("random", GIB, iodepth=512)
    assert named["z4n.csv"] == Writes("zipf:0.4", GIB, before=Before.NOTHING, iodepth=512)
    assert named["s.csv"] == Writes("zoned:10/90:90/10", GIB, iodepth=512)
    assert named["q.csv"] == Writes(
        "rewrite:1048576KiB/4", 40 * GIB, 512 * KIB, Before.SEQUENTIAL, 1
    )
    assert named["f.csv"] is None


def test_the_held_out_half_cannot_be_read_before_every_drive_is_fitted(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    read: list[tuple[str, str]] = []
    phase = ["fit"]

    def watched(path: Path, fill_bytes: float) -> object:
        read.append((phase[0], path.name))
        return read_series(path, fill_bytes)

    def fitted(runs: list[Observed]) -> Fit:
        return Fit(MADE, {runs[0].writes: MADE}, {runs[0].writes: 0.1}, 0.0)

    def opened(sealed: Sealed) -> list[tuple[Listed, Observed]]:
        phase[0] = "judge"
        return real_open(sealed)

    half, sealed = split(index(directory))
    real_open = Sealed.open
    with pytest.raises(UsageError, match="stays closed: Maker One 960G is not fitted yet"):
        sealed.open()
    monkeypatch.setattr(fidelity, "read_series", watched)
    monkeypatch.setattr(fidelity, "fit", fitted)
    monkeypatch.setattr(Sealed, "open", opened)
    assert fidelity.main([str(directory)]) == 0
    kept = {one.path.name for one in sealed.listed}
    assert {name for at, name in read if at == "fit"} <= {one.path.name for one in half}
    assert not {name for at, name in read if at == "fit"} & kept
    assert {name for at, name in read if at == "judge"} <= kept
    assert "not predicted: 2 runs of fiozipf-shuffle" in capsys.readouterr().out


def test_a_directory_without_an_index_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fidelity.main([str(tmp_path)]) == 2
    assert "cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("pattern", "details"),
    [
        ("zipf-shuffle", ""),
        ("zones-shuffle", "s0.9 f0.1 s0.1"),
        ("zones-shuffle", "s0 f1"),
        ("zns-noshuffle", "activeZones: 4"),
    ],
)
def test_details_that_do_not_describe_the_pattern_are_refused_with_their_line(
    pattern: str, details: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = f"a.csv,One,x,1,{pattern},{details},sanitize,60"
    (tmp_path / "INDEX.csv").write_text(f"{HEAD}{row}\n")

    assert fidelity.main([str(tmp_path)]) == 2
    said = f"INDEX.csv:2: details {details!r} do not describe {pattern}"
    assert said in capsys.readouterr().err


def test_one_workload_alone_leaves_nothing_to_predict(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (directory / "INDEX.csv").write_text(HEAD + ROWS[0].format(drive="One") + "\n")
    (directory / "One-u.csv").write_bytes((directory / f"{DRIVES[0]}-u.csv").read_bytes())
    monkeypatch.setattr(fidelity, "fit", lambda _: Fit(MADE, {}, {}, 0.0))

    assert fidelity.main([str(directory)]) == 2
    assert (
        "nothing is predicted: a drive needs two workloads of a pattern" in capsys.readouterr().err
    )


def test_a_range_larger_than_the_fitted_flash_is_named_and_not_predicted(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = replace(MADE, physical_bytes=0.5 * GIB)
    runs: list[Observed] = []
    monkeypatch.setattr(fidelity, "fit", lambda _: Fit(small, {}, {}, 0.0))
    monkeypatch.setattr(fidelity, "print_results", runs.extend)

    assert fidelity.main([str(directory)]) == 2
    said = [line for line in capsys.readouterr().out.splitlines() if "no spare area" in line]
    kept = [one.path.name for one in split(index(directory))[1].listed if one.read()]
    assert [line.split(": ")[:2] for line in said] == [["not predicted", name] for name in kept]
    assert not runs


def test_fills_to_steady_are_where_the_last_quarter_outside_ends() -> None:
    assert fills_to_steady([3.0, 2.0, 1.2, 1.0, 1.0, 1.0, 1.0, 1.0]) == 0.75
    assert fills_to_steady([1.0] * 8) == 0.0
    assert np.isnan(fills_to_steady([3.0, 2.5, 2.0, 1.8, 1.5, 1.3, 1.2, 1.0]))


def test_the_allowed_error_is_15_percent_or_half_more_than_the_spread_of_repeats(
    directory: Path,
) -> None:
    named = {one.path.name: one for one in index(directory)}
    rates = {"z2": 80e6, "z2b": 120e6, "z4": 100e6, "z4n": 50e6}
    runs = []
    for name, rate in rates.items():
        one = named[f"{DRIVES[0]}-{name}.csv"]
        assert one.writes is not None
        runs.append((one, Observed(name, one.writes, np.full(8, rate))))

    spread = fidelity.spreads(runs)
    assert list(spread.values()) == [pytest.approx(0.2)]  # of z2 and z2b alone
    judged = Judged("a", "b", "zipf", "c", 1.0, 1.29, 0.0, 2.0, True, 0.0, 1.0, 1.0)
    assert judged.allowed == 0.15
    assert replace(judged, spread=0.02).allowed == 0.15
    assert replace(judged, spread=0.2).allowed == pytest.approx(0.3)
    assert fidelity.within([judged, replace(judged, spread=0.2)]) == 1


def test_a_drive_that_no_data_sheet_names_has_none(tmp_path: Path) -> None:
    sheet = "Maker D7-One,2000,100000\nOther Two,3000,200000\n"
    (tmp_path / "devices.csv").write_text("model,SeqWriteMBs,RndWriteIOPS\n" + sheet)

    found = fidelity.sheets(tmp_path, [DRIVES[0], "Third Three 960G"])
    assert found == {DRIVES[0]: Sheet(2e9, 4.096e8, 1024 * GIB)}


def test_a_data_sheet_and_the_greedy_formula_predict_without_a_run() -> None:
    sheet = Sheet(2e9, 4e8, 1024 * GIB)

    assert by_sheet(sheet, Writes("zipf:0.4", 894 * GIB)) == 4e8
    assert by_sheet(sheet, Writes("rewrite:1GiB/1", 894 * GIB)) == 2e9
    # Lambert's W at alpha = 1024/894: write amplification 4.23.
    assert by_formula(sheet, Writes("random", 894 * GIB)) == pytest.approx(2e9 / 4.17, rel=0.02)
