"""--attach-or-start: what the caller does around the worker; the whole of it is in tests/host."""

import os
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from ssdbench.cli import attachorstart
from ssdbench.cli.background import Parent, begin, end, ended
from ssdbench.cli.main import run
from ssdbench.engine import resumeconsent
from ssdbench.engine.journal import Journal, Kind
from ssdbench.engine.manifest import Manifest
from ssdbench.engine.resumeconsent import ConsentRecords
from ssdbench.errors import SsdbenchError, UsageError
from ssdbench.model.result import Budget
from tests.support.builders import StoredRunBuilder, a_manifest, a_target


def fake_systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = tmp_path / "bin" / "systemd-run"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(attachorstart, "_systemd_decides", lambda: True)
    monkeypatch.setattr(sys, "argv", ["ssdbench", "run", "demo", "--attach-or-start"])


def test_a_run_in_a_unit_ends_with_the_code_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "runs" / "a"
    fake_systemd(
        tmp_path,
        monkeypatch,
        f'echo "$@" > {tmp_path}/argv; mkdir {out}; echo \'{{"exit_code": 5}}\' > {out}/ended.json;'
        "exit 5",
    )

    assert attachorstart.call(out, wait=True) == Parent(out, 5)
    argv = (tmp_path / "argv").read_text()
    assert f"--working-directory={Path.cwd()}" in argv
    assert "--collect" in argv
    assert argv.rstrip().endswith("-m ssdbench run demo --attach-or-start --as-worker")
    assert sorted(path.name for path in out.parent.iterdir()) == ["a"]


def test_a_unit_puts_no_variable_in_the_place_of_a_word() -> None:
    argv = attachorstart.unit_argv(["run", "--output", "/runs/$HOME"], "u", {}, Path("/"))

    assert "/runs/$$HOME" in argv  # systemd makes one of two


def test_a_refusal_in_a_unit_is_told_where_it_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_systemd(tmp_path, monkeypatch, "echo 'refused: /dev/sda: is mounted' >&2; exit 3")

    assert attachorstart.call(tmp_path / "runs" / "a", wait=True) == Parent(None, 3)
    assert "refused: /dev/sda: is mounted" in capsys.readouterr().err


def test_a_worker_that_dies_is_told_and_not_taken_for_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_systemd(tmp_path, monkeypatch, "exit 75")
    monkeypatch.setattr(attachorstart, "_await_end", lambda directory: end(directory, 130))
    out = tmp_path / "a"
    out.mkdir()

    assert attachorstart.call(out, wait=True) == Parent(out, 130)  # by the one that was waited for
    (out / "ended.json").unlink()
    monkeypatch.setattr(attachorstart, "_await_end", lambda directory: None)
    monkeypatch.setattr(attachorstart, "_in_a_unit", lambda directory, wait: Parent(directory, 0))
    with pytest.raises(SsdbenchError, match="died before the run ended"):
        attachorstart.call(out, wait=True)


def test_a_job_of_slurm_keeps_its_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("ssdbench.host.command.which", lambda program: f"/usr/bin/{program}")

    assert attachorstart._systemd_decides({}, exists=lambda path: True)
    assert not attachorstart._systemd_decides({"SLURM_JOB_ID": "7"}, exists=lambda path: True)
    assert not attachorstart._systemd_decides({}, exists=lambda path: False)


def test_one_at_a_time_also_beside_a_run_that_a_person_continued(tmp_path: Path) -> None:
    out = tmp_path / "a"
    with (
        attachorstart.turn(out),
        pytest.raises(attachorstart.Lost),
        attachorstart.turn(out),
    ):
        pass
    out.mkdir()
    begin(out)  # this process, as `resume` would say it
    with pytest.raises(attachorstart.Lost), attachorstart.turn(out):
        pass


def test_what_never_began_is_moved_aside_and_nothing_of_a_users(tmp_path: Path) -> None:
    torn, own = tmp_path / "torn", tmp_path / "own"
    for directory, name in ((torn, ".manifest.json.7.tmp"), (own, "thesis.tex")):
        directory.mkdir()
        (directory / name).touch()

    assert not attachorstart.begun_before(torn)
    assert not attachorstart.begun_before(own)
    assert not torn.exists()
    assert (tmp_path / "torn.torn-1").is_dir()
    assert (own / "thesis.tex").exists()


def test_it_needs_a_directory_that_all_callers_name(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "demo", "--attach-or-start"]) == 2
    assert "--output" in capfd.readouterr().err


@pytest.mark.parametrize("code", [70, 4, None])  # a bug, a full disk, a kill
def test_a_run_that_failed_after_its_last_measurement_gets_its_report_and_its_own_end(
    code: int | None, tmp_path: Path
) -> None:
    directory = tmp_path / "a"
    StoredRunBuilder(directory, repeats=3, measure_s=2).sweep(
        blocks=(4096,), reads=(0,), depths=(32,)
    ).write()
    if code is not None:
        end(directory, code)

    assert attachorstart.is_over(directory)
    assert attachorstart.end_of(directory) == ended(directory) in (0, 1)
    assert (directory / "report.html").is_file()


OURS = "repeats: 3\n"


def planted(tmp_path: Path, text: str = OURS) -> Path:
    """A run directory as a run leaves it that was killed when it had just begun."""
    (directory := tmp_path / "a").mkdir()
    (directory / "manifest.json").write_text(
        a_manifest(run_id="a", profile_text=text).model_dump_json()
    )
    Journal.create(directory / "journal.jsonl").append(Kind.RUN)
    (tmp_path / "p.yaml").write_text(OURS)
    return directory


def gone_on_with(directory: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, list[str]]:
    """The exit code of one call, and the profiles that a run would have gone on with."""
    seen: list[str] = []

    def stopped_there(text: str, name: str) -> None:
        seen.append(text)
        raise SsdbenchError("far enough")

    monkeypatch.setattr("ssdbench.suite.run.load_profile", stopped_there)
    profile, drive = directory.parent / "p.yaml", a_target()
    words = ["run", str(profile), "--target", drive.name, "--destroy", drive.id]
    code = run([*words, "--output", str(directory), "--attach-or-start", "--as-worker"])
    return code, seen


def test_what_was_compared_is_what_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever owns the directory exchanges the manifest once it was found to be the right one."""
    directory = planted(tmp_path)
    monkeypatch.setattr(resumeconsent, "needs_record", lambda info: False)

    def exchanged(_: Path) -> bool:
        (directory / "manifest.json").write_text(
            a_manifest(run_id="a", profile_text="purge: format\n").model_dump_json()
        )
        return False

    monkeypatch.setattr(attachorstart, "is_over", exchanged)

    assert gone_on_with(directory, monkeypatch)[1] == [OURS]


def test_root_goes_on_with_a_run_of_its_own_record_only_whatever_is_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    directory = planted(tmp_path)
    monkeypatch.setenv("SSDBENCH_SETTINGS", str(tmp_path / "settings"))
    monkeypatch.setattr(resumeconsent, "needs_record", lambda info: True)
    before = sorted(path.name for path in directory.iterdir())

    assert gone_on_with(directory, monkeypatch) == (2, [])
    assert "this host has no record that root started" in capfd.readouterr().err
    assert sorted(path.name for path in directory.iterdir()) == before

    kept = Manifest.model_validate_json((directory / "manifest.json").read_bytes())
    ConsentRecords().note(kept)
    assert gone_on_with(directory, monkeypatch)[1] == [OURS]


OTHER = {"profile_text": "purge: format\n"}


def cut_from(profile_text: str) -> Budget:
    whole = sha256(profile_text.encode()).hexdigest()
    return Budget(seconds=9, likely_s=9, counted_on="", whole_sha256=whole)


@pytest.mark.parametrize(
    ("stored", "budget_s", "told"),
    [
        ({}, None, None),
        (OTHER, None, "another profile"),  # under the hash of ours
        ({**OTHER, "budget": cut_from(OURS)}, None, "another --budget"),
        ({**OTHER, "budget": cut_from(OURS)}, 9.0, None),
        ({**OTHER, "budget": cut_from("repeats: 4\n")}, 9.0, "another profile"),
    ],
)
def test_a_planted_run_goes_on_with_the_profile_that_is_named_or_not_at_all(
    stored: dict[str, object], budget_s: float | None, told: str | None, tmp_path: Path
) -> None:
    kept = a_manifest(run_id="a", profile_text=OURS).model_copy(update=stored)
    (tmp_path / "manifest.json").write_text(kept.model_dump_json())

    def go_on() -> None:
        attachorstart.require_same_work(
            tmp_path, profile_text=OURS, seed=None, budget_s=budget_s, is_target=lambda *_: True
        )

    if told is None:
        go_on()
    else:
        with pytest.raises(UsageError, match=told):
            go_on()
