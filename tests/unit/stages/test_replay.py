"""A trace on a small simulated drive with real fio, from the command line."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from ssdbench.cli.main import run
from ssdbench.generator.trace import clients
from ssdbench.model.finding import Code
from ssdbench.model.replay import ReplayFound
from ssdbench.model.result import RunResult
from tests.unit.generator.trace import traces

PROFILE = """
target: sim:x25m-g2-160,capacity=256MiB
precondition: [{{pattern: sequential, fill: 1}}]
steady: {{rule: pss-quick, max_time: 10s}}
measure:
  - replay: {{file: {trace}, name: it, speed: 2, passes: 0, repeats: 2, clients: 16}}
{more}
"""
NUMBER, RATE, SPEED = 12_000, 500, 2
ARRIVALS = np.cumsum(
    np.random.default_rng(3).exponential(1e9 / RATE, NUMBER)
).astype(np.int64)  # fmt: skip


def requests() -> list[traces.Request]:
    chance = np.random.default_rng(4)
    block = chance.integers(0, (256 << 20) // 4096, NUMBER)
    kinds = chance.choice(list("rwf"), NUMBER, p=[0.94, 0.05, 0.01])
    return [
        (int(ns), int(at) * 4096 if way != "f" else 0, 4096 if way != "f" else 0, str(way))
        for ns, at, way in zip(ARRIVALS, block, kinds, strict=True)
    ]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunResult]:
    place = tmp_path_factory.mktemp("replay")
    trace = traces.iolog(place / "trace.log", requests())
    accept = "accept: [{of: {replay: it}, latency: {p99: 1s}}]"
    (place / "it.yaml").write_text(PROFILE.format(trace=trace, more=accept))
    code = run(["run", str(place / "it.yaml"), "--output", str(place / "out"), "--json"])
    assert code == 1  # two replays do not validate
    return place / "out", RunResult.model_validate_json((place / "out/result.json").read_text())


def found(result: RunResult) -> ReplayFound:
    ((_, replayed),) = result.having(ReplayFound)
    return replayed


def test_requests_arrive_at_the_times_of_the_trace_by_the_drives_own_clock(
    stored: tuple[Path, RunResult],
) -> None:
    directory, result = stored
    due_s = np.array([ns for ns, _, _, way in requests() if way != "f"]) / SPEED / 1e9
    due_s -= ARRIVALS[0] / SPEED / 1e9

    for replay in found(result).replays:
        with (directory / replay.artifacts / "seconds.csv").open() as file:
            rows = list(csv.DictReader(file))
        done = np.cumsum([int(row["read_ios"]) + int(row["write_ios"]) for row in rows])
        end_s = np.array([float(row["t_s"]) for row in rows])[:-1]
        late_s = end_s - due_s[np.minimum(done[:-1], len(due_s) - 1)]
        assert done[-1] == len(due_s)
        # What comes next is not due yet; in a thousandth of the trace it is done.
        assert np.all(np.abs(late_s) <= due_s[-1] / 1000), late_s
        assert replay.arrivals_off_percent is not None and replay.arrivals_off_percent < 0.1
        assert (replay.delivered_percent, replay.ended) == (100, True)


def test_latency_is_that_of_the_drive_and_the_verdict_knows_what_is_missing(
    stored: tuple[Path, RunResult],
) -> None:
    _, result = stored
    replayed = found(result)
    reads = {e.metric: e for e in replayed.estimates if e.direction == "read"}
    codes = {f.code for stage in result.stages for f in stage.findings}

    assert 20e3 < reads["lat_p50_ns"].value < 1e6  # a read of flash, not a millisecond of waiting
    assert reads["lat_p50_ns"].n == 2 * sum(way == "r" for *_, way in requests())
    assert (replayed.verdict, replayed.loop) == ("NOT VALIDATED", "open")
    assert Code.TOO_FEW_REPEATS in codes and Code.UNDELIVERED not in codes
    assert replayed.trace is not None and replayed.trace.flushes > 50
    (cache,) = (f.message for f in result.findings if f.code is Code.VOLATILE_CACHE)
    assert "not every write is followed by a flush" in cache
    (told,) = result.accepted
    assert (told.outcome, "NOT VALIDATED" in told.why) == ("cannot tell", True)


def test_of_a_long_trace_other_clients_are_logged_in_each_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "MOST_LOGGED", 1000)
    sent = requests()[:2000]
    trace = traces.iolog(tmp_path / "trace.log", sent)
    (tmp_path / "it.yaml").write_text(PROFILE.format(trace=trace, more=""))

    assert run(["run", str(tmp_path / "it.yaml"), "--output", str(tmp_path / "out"), "--json"]) == 1

    result = RunResult.model_validate_json((tmp_path / "out/result.json").read_text())
    replayed = found(result)
    halves = [sum(way != "f" for *_, way in sent[first::2]) for first in (0, 1)]
    assert [replay.logged for replay in replayed.replays] == halves
    reads = {e.metric: e for e in replayed.estimates if e.direction == "read"}
    assert reads["lat_p50_ns"].n == sum(way == "r" for *_, way in sent)
    assert all(replay.delivered_percent == 100 for replay in replayed.replays)
    assert "one in 2 clients is logged" in replayed.sent


def test_the_page_and_the_tables_have_the_replay(stored: tuple[Path, RunResult]) -> None:
    directory, _ = stored
    page = (directory / "report.html").read_text()
    with (directory / "results.csv").open() as file:
        rows = list(csv.DictReader(file))

    assert "p99 of the trace, at most" in page and "Working set, in blocks of 4 KiB" in page
    told = {row["metric"] for row in rows if row["stage_kind"] == "replay"}
    assert {"lat_p50_ns", "lat_p99.9_ns"} <= told
    left = [path.name for path in (directory / "stages").rglob("*") if "lat." in path.name]
    assert left == [] and not list(directory.rglob("client-*"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("fio version 3 iolog\n0 d read 0 4096\n9 d read 268435456 4096\n", "trace.log:3: "),
        ("fio version 3 iolog\n9 d read 0 4096\n8 d read 0 4096\n", "trace.log:3: "),
        ("", "trace.log: the trace is empty"),
        ("fio version 3 iolog\n9 d trim 0 4096\n", "no read and no write"),
        (None, "trace.log: the trace cannot be read"),
    ],
)
@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_trace_that_cannot_be_sent_is_refused_before_anything_is_written(
    command: str, text: str | None, why: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.log"
    if text is not None:
        trace.write_text(text)
    (tmp_path / "it.yaml").write_text(PROFILE.format(trace=trace, more=""))
    output = ["--output", str(tmp_path / "out")] if command == "run" else []

    code = run([command, str(tmp_path / "it.yaml"), *output])

    assert (code, why in (err := capfd.readouterr().err)) == (2, True), err
    assert not (tmp_path / "out").exists() and "Traceback" not in err


@pytest.mark.parametrize("direction", ["flush", "trim"])
def test_a_target_of_what_has_no_latency_in_a_replay_is_refused_with_its_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], direction: str
) -> None:
    trace = traces.iolog(tmp_path / "trace.log", requests())
    accept = f"accept: [{{of: {{replay: it, direction: {direction}}}, latency: {{p99: 1s}}}}]"
    (tmp_path / "it.yaml").write_text(PROFILE.format(trace=trace, more=accept))

    assert run(["plan", str(tmp_path / "it.yaml")]) == 2
    said = capfd.readouterr().err
    assert "it.yaml:7:" in said and f"no latency of a {direction}" in said


def test_plan_tells_what_would_be_sent(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    trace = traces.iolog(tmp_path / "trace.log", version=2)
    (tmp_path / "it.yaml").write_text(PROFILE.format(trace=trace, more=""))

    assert run(["plan", str(tmp_path / "it.yaml"), "--json"]) == 0

    stage = json.loads(capfd.readouterr().out)["stages"][-1]
    assert "closed loop" in stage["jobs"][0] and "1 trims" in " ".join(stage["notes"])
