"""Run directories that somebody else made: nothing hangs, nothing outside is written or run."""

import csv
import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from ssdbench.cli.main import run
from ssdbench.report import render
from ssdbench.report.read import StoredRun
from ssdbench.report.tables import csv_bytes, summary_table
from tests.support.builders import StoredRunBuilder, a_full_run, a_small_run, a_target
from tests.support.pages import without_script

ESCAPE = "a\x1b[2J\x1b]0;x\x07\u202eb"


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.parametrize("name", ["report.html", "results.csv", "summary.csv", "results.parquet"])
def test_a_link_in_place_of_a_report_or_its_draft_is_not_followed(
    tmp_path: Path, name: str
) -> None:
    a_small_run(tmp_path / "run")
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (tmp_path / "run" / f".{name}.draft").symlink_to(precious)
    (tmp_path / "run" / name).symlink_to(precious)

    render(tmp_path / "run")

    assert precious.read_text() == "mine"
    assert not (tmp_path / "run" / name).is_symlink()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("command", ["report", "compare", "capacity", "attach", "stop", "resume"])
def test_a_pipe_in_place_of_a_file_hangs_no_command(
    tmp_path: Path, command: str, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("result.json", "process.json", "ended.json", "manifest.json", "events.jsonl"):
        os.mkfifo(tmp_path / name)
    also = [str(tmp_path)] if command == "compare" else []

    assert run([command, str(tmp_path), *also]) in (2, 4)
    assert "Traceback" not in capfd.readouterr().err


# What root may open, and what never ends, hangs, or is gone once it was read.
KERNEL_FILES = ("/proc/kmsg", "/proc/kcore", "/proc/self/mem", "/proc/self/fd/0", "/dev/zero")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("command", ["report", "compare", "capacity", "attach", "stop", "resume"])
@pytest.mark.parametrize("leads_to", KERNEL_FILES)
def test_a_link_in_place_of_a_file_is_not_read(
    tmp_path: Path, command: str, leads_to: str, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("result.json", "process.json", "ended.json", "manifest.json", "events.jsonl"):
        (tmp_path / name).symlink_to(leads_to)
    also = [str(tmp_path)] if command == "compare" else []

    assert run([command, str(tmp_path), *also]) in (2, 4)
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.timeout(60)
@pytest.mark.parametrize("command", ["report", "compare", "capacity", "attach", "stop", "resume"])
def test_a_file_that_no_memory_holds_is_not_read(
    tmp_path: Path, command: str, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("result.json", "process.json", "manifest.json", "journal.jsonl", "events.jsonl"):
        (tmp_path / name).touch()
        os.truncate(tmp_path / name, 1 << 42)
    also = [str(tmp_path)] if command == "compare" else []

    assert run([command, str(tmp_path), *also]) in (2, 4)
    assert "Traceback" not in capfd.readouterr().err


def test_a_small_file_of_large_arrays_is_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    a_small_run(tmp_path)
    stored = StoredRun.open(tmp_path)
    path = next(tmp_path.rglob("*.npz"))
    np.savez_compressed(path, read=np.zeros(1 << 24, np.int64))
    name = path.relative_to(tmp_path).as_posix()

    assert stored.histograms(name) == {}
    assert stored.missing == [f"{name} (unreadable)"]


def test_pipes_in_place_of_bulk_files_are_missing_files(tmp_path: Path) -> None:
    a_full_run(tmp_path)
    for path in [*tmp_path.rglob("*.csv"), *tmp_path.rglob("*.npz")]:
        path.unlink()
        os.mkfifo(path)

    assert render(tmp_path)[0].exists()


def test_a_nul_in_a_stored_path_is_a_missing_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    a_full_run(tmp_path)
    stored = tmp_path / "result.json"
    stored.write_text(re.sub(r'"artifacts":\s*"', '"artifacts": "\\\\u0000', stored.read_text()))

    assert run(["report", str(tmp_path)]) == 0, capfd.readouterr().err


def test_no_file_of_a_report_holds_what_a_terminal_acts_on(tmp_path: Path) -> None:
    target = a_target(name=ESCAPE, model=ESCAPE, serial=ESCAPE, facts={ESCAPE: ESCAPE})
    builder = StoredRunBuilder(tmp_path, target=target, repeats=2, measure_s=20)
    builder.steady().sweep(blocks=(4096,), reads=(0,), depths=(32,))
    builder.write(title=ESCAPE, run_id=ESCAPE)

    files = render(tmp_path)

    for path in files:
        if path.suffix in (".html", ".csv"):
            assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", path.read_text()), path


def test_the_id_of_a_point_ends_no_attribute_of_a_figure(tmp_path: Path) -> None:
    result = a_full_run(tmp_path)
    stored = tmp_path / "result.json"
    known = sorted({point.point.id for point in result.points}, key=len, reverse=True)
    text = stored.read_text()
    for name in known:
        text = text.replace(json.dumps(name), json.dumps(f'{name}"><script>alert(1)</script>\\1'))
    stored.write_text(text)

    assert "<script" not in without_script(render(tmp_path)[0].read_text())


def test_cells_of_text_are_no_formulas_and_numbers_stay_numbers(tmp_path: Path) -> None:
    builder = StoredRunBuilder(tmp_path, target=a_target(name="=cmd|' /C calc'!A0"))
    builder.sweep(blocks=(4096,), reads=(0,), depths=(32,))
    result = builder.write(run_id="@SUM(A1)")

    (cells,) = csv.DictReader(csv_bytes(summary_table(result)).decode().splitlines())

    assert cells["run_id"] == "'@SUM(A1)"
    assert cells["target"] == "'=cmd|' /C calc'!A0"
    assert float(cells["iops"]) > 0


@pytest.mark.parametrize(("mask", "mode"), [(0o000, 0o644), (0o077, 0o600), (0o027, 0o640)])
def test_what_is_written_is_never_writable_by_others_and_the_umask_is_kept(
    tmp_path: Path, mask: int, mode: int
) -> None:
    a_small_run(tmp_path)

    with umask(mask):
        files = render(tmp_path)

    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {mode}


def test_text_of_a_run_is_shown_without_what_a_terminal_acts_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    a_small_run(tmp_path, run_id=ESCAPE)
    (tmp_path / "ended.json").write_text('{"exit_code": 0}')
    process = {"pid": 1, "started_ticks": 1, "boot_id": ESCAPE}
    (tmp_path / "process.json").write_text(json.dumps(process))
    (tmp_path / "events.jsonl").write_text(json.dumps({"text": ESCAPE}) + "\n")

    assert run(["attach", str(tmp_path)]) == 0
    run(["capacity", str(tmp_path)])
    run(["compare", str(tmp_path), str(tmp_path)])

    shown = capfd.readouterr()
    assert r"\x1b[2J" in shown.err
    assert "\x1b" not in shown.out + shown.err


@pytest.mark.parametrize("command", ["report", "compare", "capacity"])
def test_a_result_with_a_number_beyond_all_measure_is_a_sentence(
    tmp_path: Path, command: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Found by `nox -s fuzz`: the first division of it raises OverflowError."""
    for name in "ab":
        a_small_run(tmp_path / name)
        path = tmp_path / name / "result.json"
        document = json.loads(path.read_text())
        document["stages"][-1]["bytes_written"] = 10**400
        path.write_text(json.dumps(document))
    also = [str(tmp_path / "b")] if command == "compare" else []

    assert run([command, str(tmp_path / "a"), *also]) == 2
    assert "a number that is too large" in capfd.readouterr().err
