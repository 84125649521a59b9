"""Hunts for inputs that end in a traceback, hang, or show what a terminal acts on.

Each hunt makes so many inputs from a seed and raises AssertionError with the input that was found.
A wrong input may end in one of ssdbench's own errors, and in nothing else.

`python -m tests.fuzz.hunts profiles 1 100 LEDGER` hunts with the seeds 1 to 100, SHARES["profiles"]
inputs each. The ledger has a line for each seed that was hunted; those are passed over, so that a
hunt of hours may be stopped and started again. It goes on after a fault, and then exits with 1.
"""

import contextlib
import functools
import json
import pickle
import random
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from unittest import mock

import numpy as np

from ssdbench.cli import background
from ssdbench.cli.eventlog import EVENTS, PROGRESS, Reader
from ssdbench.engine.journal import Journal, Kind, Record, stored_records
from ssdbench.errors import ProfileError, SsdbenchError, UsageError
from ssdbench.generator.fio.output import CutShort, parse
from ssdbench.host import processes
from ssdbench.model.loading import load_profile, profile_schema
from ssdbench.model.rundirectory import JOURNAL
from ssdbench.report import render
from ssdbench.report.figure import ReportFigure
from ssdbench.report.plots.canvas import Drawn, to_svg
from ssdbench.report.read import StoredRun
from ssdbench.suite.plan import plan
from ssdbench.suite.request import RunRequest
from ssdbench.tuning.journal import Change
from ssdbench.tuning.journal import parse as settings_of
from tests.fuzz.mutation import dumped, mutated_bytes, mutated_json, mutated_text
from tests.support.builders import a_full_run, a_small_run
from tests.support.fakefio import a_job, a_report
from tests.support.pages import without_script

PROFILES = Path(__file__).parents[2] / "profiles"
LONGEST_S = 5.0  # of CPU, to read any one input
LONGEST_RENDERED_S = 60.0  # of CPU, for a whole report: seconds, and more while others work as well
PLANNED = 50  # of so many profiles one is planned, where it is right
_ACTS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@contextlib.contextmanager
def only_ours(what: object, longest_s: float = LONGEST_S) -> Iterator[None]:
    """Errors of ssdbench are answers, of one sane size; everything else is found."""
    began = time.process_time()
    try:
        yield
    except SsdbenchError as error:
        said = f"{error.message}\n{error.hint}" if isinstance(error, ProfileError) else ""
        assert not _ACTS.search(said), f"{what!r:.2000} is answered by {said!r:.500}"
        assert len(said) < 100_000, f"{what!r:.2000} is answered by {len(said)} characters"
    except Exception as error:
        raise AssertionError(f"{what!r:.3000} ends in {type(error).__name__}: {error}") from error
    took_s = time.process_time() - began
    assert took_s < longest_s, f"{what!r:.2000} took {took_s:.1f} s"


def profiles(count: int, seed: int = 1) -> int:
    """Profiles read, one of PLANNED planned as well; returns how many were right."""
    chance = random.Random(seed)
    words, parts = _words(), _parts()
    right = 0
    for number in range(count):
        text = mutated_text(chance.choice(parts), words, chance)
        with only_ours(text):
            profile = load_profile(text, "p.yaml")
            right += 1
            if right % PLANNED == 0:
                plan(RunRequest(profile, "p.yaml", text, target="sim:x25m-g2-160"))
        _tell("profiles", number + 1, count)
    return right


@functools.cache
def _words() -> list[str]:
    """Every key that a profile knows, and some that it does not."""
    schema = profile_schema()
    models = [schema, *schema["$defs"].values()]
    return sorted({key for model in models for key in model.get("properties", {})}) + [
        "x",
        "1",
        "?",
    ]


@functools.cache
def _parts() -> list[str]:
    """The shipped profiles without comments, whole and in blocks: short ones are read fast."""
    found = []
    for path in sorted(PROFILES.rglob("*.yaml")):
        lines = [re.sub(r"(^|\s+)#.*", "", line) for line in path.read_text().splitlines()]
        text = "\n".join(line for line in lines if line.strip())
        blocks = re.split(r"\n(?=[a-z])", text)
        found += [text, *blocks, *blocks, *blocks]
    stages = profile_schema()["$defs"]["Measure"]["properties"]
    found += [f"measure:\n  - {stage}: {{}}" for stage in stages]
    found += [f"measure:\n  - {stage}:\n      repeats: 3" for stage in stages]
    return found


def a_stored_run(base: Path) -> Path:
    """A small run with every file that commands read of one."""
    a_small_run(base)
    (base / background.PROCESS).write_text(json.dumps(asdict(processes.ours())))
    background.end(base, 1)
    (base / "events.jsonl").write_text('{"event": "RunStarted", "text": "started"}\n' * 3)
    (base / "progress.json").write_text('{"text": "fill", "fraction": 0.5, "left_s": 9.0}')
    journal = Journal.create(base / "journal.jsonl")
    for unit in ("a", "b"):
        journal.append(Kind.BEGUN, stage="01-fill", unit=unit, data={"bytes": 4096})
    journal.close()
    return base


def directories(base: Path, count: int, seed: int = 1) -> int:
    """Run directories of which one file is damaged, read in process; returns how many were read.

    One directory serves all: only what was damaged is written, read and put back.
    """
    chance = random.Random(seed)
    whole = {path: path.read_bytes() for path in sorted(base.rglob("*")) if path.is_file()}
    run, records = StoredRun.open(base), stored_records(base / JOURNAL)
    bulk = [path for path in whole if path.suffix in (".csv", ".npz")]
    small = [
        base / name for name in (background.PROCESS, background.ENDED, EVENTS, PROGRESS, JOURNAL)
    ]
    sound = 0
    for number in range(count):
        kind = chance.randrange(4)
        path = base / "result.json" if kind < 2 else chance.choice(bulk if kind == 2 else small)
        damaged = (
            dumped(mutated_json(json.loads(whole[path]), chance))
            if kind == 0
            else mutated_bytes(whole[path], chance)
        )
        path.write_bytes(damaged)
        with only_ours((path.name, damaged)):
            match kind:
                case 0 | 1:
                    _read_result(base, run)
                case 2:
                    _read_bulk(replace(run, missing=[]), path)
                case _:
                    _read_small(base, records)
            sound += kind < 3
        path.write_bytes(whole[path])
        _tell("run directories", number + 1, count)
    return sound


def _read_result(base: Path, before: StoredRun) -> None:
    """A result, and the files that it names where the damage is in their names."""
    known = {repeat.artifacts for point in before.result.points for repeat in point.repeats}
    run = StoredRun.open(base)
    named = {repeat.artifacts for point in run.result.points for repeat in point.repeats}
    for artifacts in named - known:
        assert (path := run.path(artifacts)) is None or path.is_relative_to(base.resolve())
        run.files(artifacts)
        run.text(artifacts)
        run.seconds(f"{artifacts}/seconds.csv")
        run.histograms(f"{artifacts}/histograms.npz")


def _read_bulk(run: StoredRun, path: Path) -> None:
    relative = path.relative_to(run.directory).as_posix()
    if path.suffix == ".npz":
        run.histograms(relative)
    elif path.name == "seconds.csv":
        run.seconds(relative)
    else:
        run.table(relative)


def _read_small(base: Path, records: Sequence[Record]) -> None:
    reader = Reader(base)
    list(reader.lines())
    reader.progress()
    background.ended(base)
    with contextlib.suppress(UsageError):
        background.worker(base)
    # A journal has no record that it did not have before, and none out of its place.
    found = stored_records(base / JOURNAL)
    assert found == list(records[: len(found)]), "a damaged record counts"


def rendered(base: Path, count: int, seed: int = 1) -> int:
    """Results changed within their types, and rendered; returns how many were."""
    chance = random.Random(seed)
    whole = (base / "result.json").read_bytes()
    done = 0
    with _each_figure_drawn_once():
        while done < count:
            damaged = dumped(mutated_json(json.loads(whole), chance, alike=True))
            (base / "result.json").write_bytes(damaged)
            with only_ours(damaged, LONGEST_RENDERED_S):
                StoredRun.open(base)
                _rendered_once(base)
                done += 1
                _tell("rendered", done, count)
    (base / "result.json").write_bytes(whole)
    return done


@contextlib.contextmanager
def _each_figure_drawn_once() -> Iterator[None]:
    """Most figures of a damaged run are those of the whole one, and drawing takes the most time."""
    drawn: dict[bytes, Drawn] = {}

    def once(view: ReportFigure, name: str) -> Drawn:
        key = pickle.dumps((view, name))
        if key not in drawn:
            drawn[key] = to_svg(view, name)
        return drawn[key]

    with mock.patch("ssdbench.report.plots.canvas.to_svg", once):
        yield


def _rendered_once(base: Path) -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for path in render(base):
            if path.suffix in (".html", ".csv"):
                text = path.read_text(encoding="utf-8")
                shown = without_script(text) if path.suffix == ".html" else ""
                assert "<script" not in shown.replace("\\", "")
                assert not _ACTS.search(text.replace("\t", " "))


def answers(count: int, seed: int = 1) -> int:
    """Reports of fio; returns how many were believed."""
    chance = random.Random(seed)
    text = a_report(a_job(read_ios=10, write_ios=1000))
    start = text.index("{")
    believed = 0
    for number in range(count):
        if number % 2:
            odd = text[:start] + json.dumps(
                mutated_json(json.loads(text[start:]), chance), indent=2
            )
        else:
            odd = mutated_bytes(text.encode(), chance).decode("utf-8", "replace")
        with only_ours(odd), contextlib.suppress(CutShort):
            parse(odd, ["job"])
            believed += 1
        _tell("answers of fio", number + 1, count)
    return believed


def settings(journal: bytes) -> int:
    """Every byte of a settings journal cut there, and each of its bits flipped.

    No change comes out that is not one of the journal's own; returns how many were tried.
    """
    known = {change for at in range(len(journal)) for change in _told(journal[:at])}
    tried = 0
    for at in range(len(journal)):
        damaged = [journal[:at]]
        for bit in range(8):
            flipped = bytearray(journal)
            flipped[at] ^= 1 << bit
            damaged.append(bytes(flipped))
        for text in damaged:
            with only_ours(text):
                assert set(_told(text)) <= known, f"{text!r} tells of other changes"
            tried += 1
    return tried


def _told(journal: bytes) -> tuple[Change, ...]:
    return tuple(settings_of(journal).changes)


def _tell(what: str, done: int, count: int) -> None:
    """A sign of life every so often, for hunts of hours."""
    if done % 50_000 == 0 or done == count:
        sys.stderr.write(f"{what}: {done:,} of {count:,}\n")


def _seeded_directories(count: int, seed: int) -> int:
    with tempfile.TemporaryDirectory(dir=_memory()) as name:
        return directories(a_stored_run(Path(name)), count, seed)


def _seeded_rendered(count: int, seed: int) -> int:
    """Every other seed changes a small run, and every other one a full run."""
    with tempfile.TemporaryDirectory(dir=_memory()) as name:
        (a_small_run if seed % 2 else a_full_run)(Path(name))
        return rendered(Path(name), count, seed)


def _memory() -> str | None:
    """A file system in memory, where there is one."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


HUNTS: dict[str, Callable[[int, int], int]] = {
    "profiles": profiles,
    "directories": _seeded_directories,
    "rendered": _seeded_rendered,
    "answers": answers,
}
SHARES = {"profiles": 10_000, "directories": 1_000, "rendered": 10, "answers": 10_000}


def seeds(hunt: str, first: int, last: int, ledger: Path) -> int:
    """Hunt with the seeds that the ledger does not have; returns how many found a fault."""
    lines = ledger.read_text().splitlines() if ledger.exists() else []
    hunted = {entry["seed"] for entry in map(json.loads, lines) if entry["hunt"] == hunt}
    faults = 0
    for seed in sorted(set(range(first, last + 1)) - hunted):
        began, entry = time.monotonic(), {"hunt": hunt, "seed": seed, "inputs": SHARES[hunt]}
        try:
            entry["passed"] = HUNTS[hunt](SHARES[hunt], seed)
        except AssertionError as found:
            faults += 1
            sys.stderr.write(f"{hunt}, seed {seed}: {found}\n")
            continue
        entry["s"] = round(time.monotonic() - began)
        with ledger.open("a", encoding="ascii") as file:
            file.write(json.dumps(entry) + "\n")
    return faults


if __name__ == "__main__":
    _, name, first, last, path = sys.argv
    raise SystemExit(1 if seeds(name, int(first), int(last), Path(path)) else 0)
