"""The main job from the command line, on a small simulated drive with real fio."""

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ssdbench.cli.background import ended, worker
from ssdbench.cli.main import run
from tests.support.documents import checked
from tests.support.page_runs import STORED, unpacked

SMALL = """
title: Small
target: sim:x25m-g2-160,capacity=256MiB
precondition: [{pattern: sequential, block: 128KiB, fill: 1}]
unit: 4KiB
steady: {rule: seppanen, max_time: 60s}
repeats: 1
window: 10s
settle: {window: 10s, flat: 10s, spare: 1%, max_time: 20s}
measure: [{sweep: {read: 100}}]
"""
WITH_JOBS = SMALL.replace("sweep: {read: 100}", "fio: {file: j.fio}")
LONG = SMALL.replace("repeats: 1", "repeats: 1000").replace("256MiB", "1GiB")


def ssdbench(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "ssdbench", *arguments]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object], int]:
    """A whole run with --json: its directory, its document, its exit code."""
    place = tmp_path_factory.mktemp("run")
    (place / "small.yaml").write_text(SMALL)
    done = subprocess.run(
        ssdbench(
            "run",
            str(place / "small.yaml"),
            "--output",
            str(place / "out"),
            "--seed",
            "7",
            "--endurance",
            "100",
            "--json",
        ),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode in (0, 1), done.stderr
    return place / "out", checked(done.stdout, "run"), done.returncode


@pytest.fixture(scope="module")
def kept_cut(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that reached its limit of time in the warm-up."""
    place = tmp_path_factory.mktemp("cut")
    (place / "small.yaml").write_text(SMALL)
    argv = ssdbench("run", "small.yaml", "--output", "out", "--max-time", "15s")
    assert subprocess.run(argv, cwd=place, check=False, timeout=60).returncode == 1
    return place / "out"


@pytest.fixture
def cut(kept_cut: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(kept_cut, tmp_path / "out")


def test_a_rated_endurance_that_was_given_is_kept_and_planned_with(
    stored: tuple[Path, dict[str, object], int],
) -> None:
    directory, _, _ = stored

    manifest = json.loads((directory / "manifest.json").read_text())
    assert (manifest["endurance_tb"], manifest["consent"]["wear"]) == (100.0, False)
    assert json.loads((directory / "result.json").read_text())["endurance_tb"] == 100.0


def test_a_quick_run_ends_with_a_report_and_is_not_validated(
    stored: tuple[Path, dict[str, object], int],
) -> None:
    directory, document, code = stored

    assert code == 1
    assert document["verdict"] == "NOT VALIDATED"
    assert document["simulated"] is True
    assert Path(str(document["report"])) == directory / "report.html"
    assert (directory / "report.html").stat().st_size > 10_000
    assert json.loads((directory / "manifest.json").read_text())["seed"] == 7
    assert {"host-before.json", "host-after.json", "results.csv", "summary.csv"} <= {
        path.name for path in directory.iterdir()
    }


def test_findings_in_json_carry_the_numbers_of_their_sentence(
    stored: tuple[Path, dict[str, object], int],
) -> None:
    directory, document, _ = stored

    told = json.dumps(document["result"])
    kept = json.loads((directory / "result.json").read_text())
    found = {
        finding["code"]: finding
        for stage in kept["stages"]
        for point in stage["found"].get("points", ())
        for finding in point["findings"]
    }
    assert found["too-few-repeats"]["numbers"] == {"repeats": 1, "least": 10}
    assert "only 1 repeat; at least 10 are needed" in found["too-few-repeats"]["message"]
    assert json.dumps(found["too-few-repeats"]["numbers"]) in told


def test_a_success_that_the_result_does_not_have_is_none(
    stored: tuple[Path, dict[str, object], int], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    planted = tmp_path / "run"
    shutil.copytree(stored[0], planted)
    (planted / "ended.json").write_text('{"exit_code": 0}')

    assert run(["attach", str(planted)]) == 2
    assert "says exit code 0 (VALIDATED), but the stored result gives 1" in capfd.readouterr().err


@pytest.mark.parametrize("removed", [False, True])
def test_a_run_directory_that_goes_away_in_mid_run_is_the_reason_that_is_told(
    removed: bool, tmp_path: Path
) -> None:
    (tmp_path / "long.yaml").write_text(LONG)
    argv = ssdbench("run", "long.yaml", "--output", "out")
    with subprocess.Popen(argv, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + 120
        while not (tmp_path / "out" / "stages" / "03-sweep").exists():
            assert process.poll() is None and time.monotonic() < until
            time.sleep(0.02)
        (tmp_path / "out").rename(tmp_path / "renamed")
        if removed:
            shutil.rmtree(tmp_path / "renamed")
        _, said = process.communicate(timeout=120)

    assert process.returncode == 4
    assert f"error: {tmp_path}/out was removed or renamed while the run went on" in said
    assert "space" not in said.splitlines()[-1]


@pytest.mark.parametrize(("closed", "code"), [("2>&-", 1), (">&-", 141), ("<&- >&- 2>&-", 141)])
def test_a_run_whose_streams_are_closed_is_stored_and_ends_as_ever(
    closed: str, code: int, tmp_path: Path
) -> None:
    """As some daemons and cron wrappers leave them; a file of the run gets no word of it."""
    (tmp_path / "small.yaml").write_text(SMALL)
    argv = ssdbench("run", "small.yaml", "--output", "out")

    done = subprocess.run(
        ["bash", "-c", f"{shlex.join(argv)} {closed}"], cwd=tmp_path, check=False, timeout=300,
        capture_output=True, text=True,
    )  # fmt: skip

    assert (done.returncode, "VALIDATED" in done.stdout) == (code, code == 1), done.stderr
    assert "bug" not in done.stderr
    assert (tmp_path / "out" / "report.html").exists()
    assert json.loads((tmp_path / "out" / "ended.json").read_text()) == {"exit_code": 1}


def test_a_run_that_ended_can_be_attached_to(
    stored: tuple[Path, dict[str, object], int], capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["attach", str(stored[0])]) == 1

    out, err = capfd.readouterr()
    assert "report.html" in out
    assert "[1/3] Fill the drive" in err
    assert "NOT VALIDATED" in err


def test_a_report_is_rendered_again(
    stored: tuple[Path, dict[str, object], int], capfd: pytest.CaptureFixture[str]
) -> None:
    (stored[0] / "report.html").unlink()

    assert run(["report", str(stored[0]), "--json"]) == 0

    files = json.loads(capfd.readouterr().out)["files"]
    assert files[0] == str(stored[0] / "report.html")
    assert all(Path(path).exists() for path in files)


def test_a_run_never_overwrites_another(
    stored: tuple[Path, dict[str, object], int], capfd: pytest.CaptureFixture[str]
) -> None:
    profile = stored[0].parent / "small.yaml"

    assert run(["run", str(profile), "--output", str(stored[0])]) == 2
    assert "exists already" in capfd.readouterr().err


def test_a_run_directory_whose_name_is_no_utf_8_is_refused_before_the_run(
    stored: tuple[Path, dict[str, object], int], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    profile = stored[0].parent / "small.yaml"
    assert profile.exists()

    assert run(["run", str(profile), "--output", f"{tmp_path}/\udcff"]) == 2

    assert "is not in UTF-8" in capfd.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.fixture
def no_utf8(tmp_path: Path) -> Path:
    """A directory whose name is not UTF-8, with a profile, its job file and a cut run in it."""
    place = tmp_path / "\udcff"
    place.mkdir()
    (place / "p.yaml").write_text(WITH_JOBS)
    (place / "j.fio").write_text("[a]\nrw=randread\nbs=4k\ntime_based\nruntime=2\n")
    (place / "run").mkdir()
    unpacked(STORED / "cut.tar.xz", place / "run")
    return place


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["resume", "{}/run"], "the run directory's name"),
        (["run", "{}/p.yaml", "--export-jobs", "{}/jobs"], "the profile's name"),
        (["fleet", "run", "{}/fleet.yaml"], "the name of the fleet file"),
        (["fleet", "run", "--local", "1", "--profile", "{}/p.yaml"], "the profile's name"),
        (["fleet", "run", "--local", "1", "--output", "{}/o"], "the name of the fleet's directory"),
    ],
    ids=["resume", "exported jobs", "fleet file", "profile of a fleet", "directory of a fleet"],
)
def test_what_would_be_stored_below_a_name_that_is_no_utf_8_is_refused_before_anything_is_done(
    words: list[str], says: str, no_utf8: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = sorted(no_utf8.rglob("*"))

    assert run([word.format(no_utf8) for word in words]) == 2

    said = capfd.readouterr().err
    assert says in said
    assert "is not in UTF-8" in said
    assert sorted(no_utf8.rglob("*")) == before


@pytest.mark.parametrize(
    "words",
    [
        ["plan", "{}/p.yaml"],
        ["run", "{}/p.yaml", "--output", "{}/../out", "--max-time", "40s"],
        ["report", "{}/run"],
        ["report", "{}/run", "--format", "openmetrics", "--output", "{}/o.txt"],
        ["capacity", "{}/run", "--iops", "10", "--json"],
    ],
    ids=lambda words: " ".join(words[:3]),
)
def test_what_is_only_read_below_such_a_name_is_read(
    words: list[str], no_utf8: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = str(no_utf8.parent / "out")

    code = run([out if word == "{}/../out" else word.format(no_utf8) for word in words])

    assert code in (0, 1), capfd.readouterr().err


@pytest.mark.parametrize("variable", ["TMPDIR", "SSDBENCH_SETTINGS"])
def test_a_directory_of_the_environment_that_is_no_utf_8_is_told_before_the_run(
    variable: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(variable, f"{tmp_path}/\udcff")

    assert run(["run", "demo", "--output", str(tmp_path / "run")]) == 2

    assert f"the environment variable {variable} is not in UTF-8" in capfd.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("place", ["/proc", "/sys", "/proc/self/fdinfo", "link"])
def test_a_run_directory_in_a_file_system_of_the_kernel_is_told_why_it_cannot_be(
    place: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "link").symlink_to("/proc")
    root = "/sys" if place == "/sys" else "/proc"

    assert run(["run", "demo", "--output", str(tmp_path / place / "x")]) == 4

    said = capfd.readouterr().err
    assert f"{root} shows the kernel and keeps no files" in said
    assert "renamed" not in said
    assert "sudo" not in said
    assert "hint: Choose another place." in said


@pytest.fixture
def long_profile(tmp_path: Path) -> Path:
    (tmp_path / "long.yaml").write_text(LONG)
    return tmp_path / "long.yaml"


def test_sigterm_ends_a_run_with_a_partial_report(long_profile: Path) -> None:
    out = long_profile.parent / "out"
    with subprocess.Popen(
        ssdbench("run", str(long_profile), "--output", str(out)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        _wait_for(out / "process.json")
        process.send_signal(signal.SIGTERM)
        stdout, stderr = process.communicate(timeout=120)

    assert process.returncode == 143, stderr
    assert "Traceback" not in stderr
    assert f"report: {out}/report.html" in stdout
    assert ended(out) == 143
    assert json.loads((out / "result.json").read_text())["interrupted"] is True


def test_a_detached_run_is_stopped_with_a_partial_report(long_profile: Path) -> None:
    out = long_profile.parent / "out"
    begun = subprocess.run(
        ssdbench("run", str(long_profile), "--output", str(out), "--detach"),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert (begun.returncode, begun.stdout) == (0, f"{out}\n"), begun.stderr
    assert worker(out).alive()
    assert run(["stop", str(out)]) == 0
    assert not worker(out).alive()
    assert ended(out) == 130
    assert (out / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--target", "sim:x25m-g2-16"], 2, "did you mean 'x25m-g2-160'"),
        (["--target", "sim:x25m-g2-160,capacty=1GiB"], 2, "capacty"),
        (["--target", "/dev/no-such-drive"], 2, "there is no device /dev/no-such-drive"),
        (["--target", "no-such-file"], 2, "there is no file no-such-file"),
        (["--target", "."], 2, "is a directory"),
        (["--target", "/dev/null"], 3, "character device"),
        (["--max-writes", "1MiB"], 2, "more than --max-writes"),
        (["--max-time", "10"], 2, "a duration looks like"),
        (["--seed", "-1"], 2, "--seed"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_run_that_cannot_be_is_refused_and_leaves_nothing(
    long_profile: Path,
    capfd: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    said: str,
) -> None:
    out = long_profile.parent / "out"

    assert run(["run", str(long_profile), "--output", str(out), *arguments]) == code

    stdout, stderr = capfd.readouterr()
    assert stdout == ""
    assert said in stderr
    assert not out.exists()


def test_a_profile_without_a_target_says_what_to_add(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "quick"]) == 2
    assert "--target" in capfd.readouterr().err


def test_a_simulated_drive_leaves_the_host_as_it_is_and_says_so(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.yaml").write_text(f"host: {{scheduler: none}}\n{SMALL}")

    assert run(["plan", str(tmp_path / "p.yaml")]) == 0
    assert "host settings: kept as they are" in capfd.readouterr().out


def test_all_mistakes_of_a_profile_are_printed_for_editors(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("titel: x\nrepeats: many\n")

    assert run(["run", str(path)]) == 2

    lines = capfd.readouterr().err.splitlines()
    assert lines[0] == f"{path}:1:1: unknown key 'titel' (did you mean 'title'?)"
    assert lines[1] == f"{path}:2:10: repeats: must be a whole number, got 'many'"


def test_resume_of_what_is_no_run_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "link").symlink_to("/etc")  # as in many a directory that is none
    assert run(["resume", str(tmp_path)]) == 2
    assert "is not a run directory" in capfd.readouterr().err


@pytest.mark.parametrize("name", ["events.jsonl", "stages", "journal.jsonl"])
def test_resume_writes_to_no_place_that_a_link_leads_to(
    cut: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    elsewhere = (cut / name).rename(tmp_path / "elsewhere")
    (cut / name).symlink_to(elsewhere)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    assert run(["resume", str(cut), "--max-time", "10h"]) == 2

    assert f"{cut / name} is a symbolic link" in capfd.readouterr().err
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def test_a_run_with_a_manifest_of_schema_1_is_not_resumed(
    cut: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    manifest = json.loads((cut / "manifest.json").read_text())
    del manifest["consent"]
    manifest |= {"schema_version": 1, "destroy_id": None, "overwrite_signatures": False}
    (cut / "manifest.json").write_text(json.dumps(manifest))

    before = {path: path.read_bytes() for path in cut.rglob("*") if path.is_file()}

    assert run(["resume", str(cut), "--max-time", "10h"]) == 2

    said = capfd.readouterr().err
    assert "the manifest of the run has schema 1, and this ssdbench reads schema 2 only" in said
    assert "Use ssdbench 1.0.0 for it" in said
    assert before == {path: path.read_bytes() for path in cut.rglob("*") if path.is_file()}


def test_a_run_that_used_up_its_limit_is_not_resumed_without_a_higher_one(
    cut: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = (cut / "journal.jsonl").read_bytes()

    assert run(["resume", str(cut)]) == 2

    said = capfd.readouterr().err
    assert "--max-time of 15 s was reached" in said
    least = re.search(rf"ssdbench resume {re.escape(str(cut))} --max-time (\d+)s\n", said)
    assert least is not None and int(least[1]) > 15
    assert (cut / "journal.jsonl").read_bytes() == before

    (cut / "result.json").unlink()  # as after a kill between the last record and the result
    assert run(["resume", str(cut)]) == 1
    assert (cut / "result.json").exists()


def test_a_run_that_is_finished_is_shown_and_left_as_it_is(
    stored: tuple[Path, dict[str, object], int], capfd: pytest.CaptureFixture[str]
) -> None:
    output, first, code = stored
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in _files(output)}

    assert run(["resume", str(output), "--max-time", "10h", "--json"]) == code
    shown = capfd.readouterr()
    assert run(["resume", str(output)]) == code

    assert json.loads(shown.out) == first
    assert f"{output} is finished: nothing is left to measure" in shown.err
    assert "[1/" not in shown.err  # no forecast of what is done
    assert f"report: {output}/report.html" in capfd.readouterr().out
    after = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in _files(output)}
    assert after == before


def _files(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


def _wait_for(path: Path) -> None:
    until = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < until, f"{path} never came"
        time.sleep(0.02)


def test_host_settings_that_mean_nothing_to_a_simulated_drive_are_told(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(f"{SMALL}\nhost: {{scheduler: noop}}\n")
    done = subprocess.run(
        ssdbench("run", "small.yaml", "--output", "out", "--json"),
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip

    assert "which has its own clock: scheduler noop" in done.stderr
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    (told,) = [f for f in result["findings"] if f["code"] == "not-applicable"]
    assert told["numbers"] == {"settings": ["scheduler noop"]}
