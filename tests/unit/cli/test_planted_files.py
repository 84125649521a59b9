"""Whoever puts a link into a run directory does not choose what is written through it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ssdbench.cli import debuglog
from ssdbench.cli.background import Child
from ssdbench.cli.eventlog import EventLog
from ssdbench.cli.main import run
from ssdbench.engine.events import StageStarted
from ssdbench.engine.journal import Journal
from ssdbench.engine.series import Recorder
from ssdbench.engine.store import StageStore
from ssdbench.errors import SsdbenchError, UsageError
from ssdbench.foreign import write_whole
from ssdbench.host import command, regular
from ssdbench.host.files import write_atomic
from ssdbench.model.target import Consent
from ssdbench.sim.virtualtime import VirtualClock

PROFILE = """
target: sim:x25m-g2-160,capacity=256MiB
precondition: [{pattern: sequential, block: 128KiB, fill: 1}]
unit: 4KiB
steady: {rule: seppanen, max_time: 60s}
repeats: 1
window: 10s
settle: {window: 10s, flat: 10s, spare: 1%, max_time: 20s}
measure: [{sweep: {read: 100}}]
"""
# Tells of each file below the run directory that is opened to be changed: its name, and whether a
# link would have been followed. What begins with a dot is moved to its place.
WATCHED = """
import json, os, sys
from pathlib import Path
from ssdbench.cli.main import run

report, place = Path(sys.argv[1]), os.path.realpath(sys.argv[2])

def told(event, arguments):
    if event != "open" or not isinstance(arguments[0], (str, bytes, os.PathLike)):
        return
    path, mode, flags = arguments
    path = os.path.join(os.path.realpath(os.path.dirname(path) or "."), os.path.basename(path))
    if path.startswith(place + "/") and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        seen.append([path.removeprefix(place + "/"), bool(flags & (os.O_NOFOLLOW | os.O_EXCL))])

seen = []
sys.addaudithook(told)
status = run(sys.argv[3:])
report.write_text(json.dumps(seen))
sys.exit(status)
"""


def watched(place: Path, *arguments: str) -> tuple[int, dict[str, bool]]:
    """The exit code, and each file that was opened to be written, with whether links were safe."""
    argv = [sys.executable, "-c", WATCHED, str(place / "seen"), str(place / "out"), *arguments]
    done = subprocess.run(argv, cwd=place, capture_output=True, text=True, timeout=300, check=False)
    seen: list[tuple[str, bool]] = json.loads((place / "seen").read_text())
    return done.returncode, {name: all(s for n, s in seen if n == name) for name, _ in seen}


@pytest.fixture(scope="module")
def a_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, dict[str, bool]]]:
    """A run that was cut short, its continuation and its report, with what each opened."""
    place = tmp_path_factory.mktemp("planted")
    (place / "p.yaml").write_text(PROFILE)
    first = ("run", "p.yaml", "--output", "out", "--max-time", "15s", "--debug")
    return place / "out", {
        name: watched(place, *arguments)[1]
        for name, arguments in {
            "run": first,
            "resume": ("resume", "out", "--max-time", "10h", "--debug"),
            "report": ("report", "out"),
        }.items()
    }


@pytest.mark.parametrize("verb", ["run", "resume", "report"])
def test_no_file_of_a_run_is_opened_in_a_way_that_follows_links(
    a_run: tuple[Path, dict[str, dict[str, bool]]], verb: str
) -> None:
    _, opened = a_run
    always = {"events.jsonl", "debug.log", "journal.jsonl"} if verb != "report" else set()

    assert always <= set(opened[verb]) and len(opened[verb]) >= 5
    assert [name for name, safe in opened[verb].items() if not safe] == []
    if verb == "run":
        bulk = {Path(name).name for name in opened[verb]}
        assert {"seconds.csv", "stdout", "stderr"} <= bulk


@pytest.mark.parametrize("plant", [os.symlink, lambda _, path: os.mkfifo(path)])
def test_resume_refuses_whatever_file_of_a_run_was_exchanged(
    a_run: tuple[Path, dict[str, dict[str, bool]]],
    tmp_path: Path,
    plant: Callable[[Path, Path], None],
    capfd: pytest.CaptureFixture[str],
) -> None:
    directory, _ = a_run
    precious = tmp_path / "precious"
    precious.write_text("mine")
    files = [path for path in sorted(directory.rglob("*")) if path.is_file()]

    assert len(files) > 30
    for path in files:
        kept = path.rename(tmp_path / "kept")
        plant(precious, path)
        assert run(["resume", str(directory)]) == 2
        path.unlink()
        kept.rename(path)
        assert path.name in capfd.readouterr().err
    assert precious.read_text() == "mine"


def test_report_writes_to_no_file_that_links_lead_to(
    a_run: tuple[Path, dict[str, dict[str, bool]]], tmp_path: Path
) -> None:
    directory, _ = a_run
    linked = tmp_path / "linked"
    outside = {}
    for number, path in enumerate(p for p in sorted(directory.rglob("*")) if p.is_file()):
        copy = tmp_path / f"outside-{number}"
        copy.write_bytes(path.read_bytes())
        link = linked / path.relative_to(directory)
        link.parent.mkdir(parents=True, exist_ok=True)
        if path.name in ("result.json", "journal.jsonl"):  # read, or nothing is written
            copy.rename(link)
            continue
        outside[copy] = path.read_bytes()
        link.symlink_to(copy)

    assert run(["report", str(linked)]) == 0

    assert {copy: copy.read_bytes() for copy in outside} == outside
    assert not (linked / "report.html").is_symlink()


def _logs(path: Path) -> None:
    debuglog.start()
    try:
        debuglog.keep_in(path.parent)
    finally:
        debuglog.stop()


def _spawns(path: Path) -> None:
    command.spawn(["sh", "-c", "echo planted"], stdout=path, stderr=None).wait()


def _packs(path: Path) -> None:
    plain = path.with_name("log")
    plain.write_text("planted")
    regular.pack_logs([plain])


def _detaches(path: Path) -> None:
    reader, writer = os.pipe()
    try:
        Child(writer).started(path.parent)
    finally:
        os.close(reader)
        os.close(writer)


WRITERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "events": (
        "events.jsonl",
        lambda path: EventLog(path.parent).write(StageStarted("x", "planted", 1, 1)),
    ),
    "debug": ("debug.log", _logs),
    "journal": ("journal.jsonl", Journal),
    "seconds": ("seconds.csv", lambda path: Recorder(path, phase="measure").flush()),
    "said": ("stdout", _spawns),
    "packed": (".log.tmp", _packs),
    "detached": ("run.log", _detaches),
    "clock": ("page", lambda path: VirtualClock.create(path, state=path)),
    "whole": ("x", lambda path: write_whole(path, b"planted")),
    "draft": (".x.draft", lambda path: write_whole(path.with_name("x"), b"planted")),
    "atomic": ("x", lambda path: write_atomic(path, b"planted")),
}


@pytest.mark.parametrize("plant", [os.symlink, os.link])
@pytest.mark.parametrize("writer", WRITERS)
def test_no_writer_changes_what_a_planted_name_leads_to(
    tmp_path: Path, writer: str, plant: Callable[[Path, Path], None]
) -> None:
    """Links that somebody plants while the run goes on, after all was looked through."""
    name, write = WRITERS[writer]
    (place := tmp_path / "place").mkdir()
    precious = tmp_path / "precious"
    precious.write_text("mine")
    plant(precious, place / name)

    try:
        write(place / name)
    except (SsdbenchError, OSError) as error:
        assert str(place / name) in str(error)

    assert precious.read_text() == "mine"


@pytest.mark.parametrize("name", ["stages", "stages/01-fill", "stages/01-fill/fio"])
def test_a_stage_writes_to_no_directory_that_a_link_leads_to(tmp_path: Path, name: str) -> None:
    (elsewhere := tmp_path / "elsewhere").mkdir()
    link = tmp_path / "run" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(elsewhere)

    stage = StageStore(tmp_path / "run", "01-fill")
    with pytest.raises(UsageError, match="symbolic link"):
        stage.directory("fio")
    with pytest.raises(UsageError, match="symbolic link"):
        stage.save("fio/x.json", Consent())

    assert not [path for path in elsewhere.rglob("*") if path.is_file()]
