"""`measure: - fio:`: the user's own job file, judged as other points are."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ssdbench.cli.main import run
from ssdbench.model.point import Estimate, PointResult, StreamResult
from ssdbench.model.profile import CapacityPlan
from ssdbench.model.result import RunResult
from ssdbench.stats.planning.runplan import candidates

HEAD = """
target: sim:x25m-g2-160,capacity=256MiB
unit: 4KiB
precondition: [{pattern: sequential, block: 128KiB, fill: 1}]
steady: {rule: seppanen, max_time: 60s}
repeats: 2
window: 10s
settle: {window: 10s, flat: 10s, spare: 10%, max_time: 30s}
measure:
"""
MEASURES = """
  - fio: jobs/db.fio
  - sweep: {block: 4KiB, read: 0, iodepth: 32}
"""
JOBS = """; a database
[global]
ioengine=libaio
norandommap
[data]
rw=randwrite
bs=4k
iodepth=32
[lookup]
stonewall
rw=randread
bs=8k
iodepth=4
[log]
new_group
rw=write
bs=16k
rate_iops=50
fsync=1
size=10%
[seldom]
new_group
rw=write
bs=16k
rate_iops=10
fsync=1
offset=50%
size=10%
"""


def profile(directory: Path, measures: str = MEASURES, jobs: str = JOBS) -> Path:
    (directory / "jobs").mkdir(parents=True)
    (directory / "jobs" / "db.fio").write_text(jobs)
    path = directory / "p.yaml"
    path.write_text(HEAD + measures)
    return path


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    """A run that was killed among the job's repeats and resumed."""
    home = tmp_path_factory.mktemp("jobs")
    path, out = profile(home), home / "out"
    argv = [sys.executable, "-m", "ssdbench", "run", str(path), "--output", str(out)]
    first = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    begun = out / "stages" / "03-fio"
    until = time.monotonic() + 60
    while not list(begun.glob("*/repeat-*/unit.json")) and time.monotonic() < until:
        time.sleep(0.02)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    path.unlink()  # the run keeps what it measures
    (home / "jobs" / "db.fio").unlink()
    run(["resume", str(out)])
    return RunResult.model_validate_json((out / "result.json").read_text())


@pytest.fixture(scope="module")
def resumed(result: RunResult) -> dict[str, PointResult]:
    """Its points by title."""
    points = [point for stage in result.stages for point in stage.points]
    return {point.point.workload.title: point for point in points}


def estimate(found: PointResult | StreamResult, metric: str, direction: str = "total") -> Estimate:
    return next(e for e in found.estimates if (e.metric, e.direction) == (metric, direction))


def test_a_job_equal_to_a_plain_point_has_its_rate_and_a_bound(
    resumed: dict[str, PointResult],
) -> None:
    job, plain = (estimate(resumed[title], "iops") for title in ("db.fio 1", ""))

    assert job.value == pytest.approx(plain.value, rel=0.05)
    assert job.bound is not None
    assert job.bound <= job.value


def test_a_job_that_sets_its_pace_has_a_share_of_its_rate_and_no_bound(
    resumed: dict[str, PointResult],
) -> None:
    point = resumed["db.fio 2"]
    lookup, log, seldom = point.streams

    assert estimate(point, "iops").bound is None
    assert estimate(log, "delivered_percent").value == pytest.approx(100, abs=0.5)
    assert estimate(log, "iops", "write").value == pytest.approx(50, rel=0.01)
    assert estimate(lookup, "lat_p99_ns", "read").value > 0
    both = estimate(lookup, "iops", "read").value + 50 + 10
    assert estimate(point, "iops").value == pytest.approx(both, rel=0.02)


def test_each_job_has_the_flushes_that_are_its_own(resumed: dict[str, PointResult]) -> None:
    point = resumed["db.fio 2"]
    _, log, seldom = (estimate_n(stream) for stream in point.streams)

    assert log == pytest.approx(5 * seldom, rel=0.05)
    assert estimate_n(point) == log + seldom


def estimate_n(found: PointResult | StreamResult) -> int:
    return sum(e.n for e in found.estimates if (e.metric, e.direction) == ("lat_p50_ns", "flush"))


def test_a_job_is_of_no_one_kind_and_a_paced_one_is_nothing_to_plan_on(result: RunResult) -> None:
    def used(wanted: CapacityPlan) -> list[str]:
        return [point.point.workload.title for point in candidates(result, wanted)]

    assert used(CapacityPlan()) == ["db.fio 1", ""]
    assert used(CapacityPlan.model_validate({"block": "4KiB", "read": 0})) == [""]


def test_each_repeat_has_offsets_of_its_own(resumed: dict[str, PointResult]) -> None:
    repeats = resumed["db.fio 1"].repeats

    assert len({repeat.seed for repeat in repeats}) == len(repeats) == 2


@pytest.mark.parametrize(
    ("measures", "jobs", "told"),
    [
        ("  - fio: jobs/db.fio\n", "[a]\nrw=write\nexec_prerun=id\n", "jobs/db.fio:3: exec_prerun"),
        ("  - fio: jobs/db.fio\n", "[a]\nrandom_distribution=zap:1\n", "jobs/db.fio:2: fio refuse"),
        ("  - fio: jobs/db.fio\n", "[a]\nrw=randread\nrandom_distribution=zipf:nan\niodepth=2\n",
         "jobs/db.fio:3: fio refuses it: fio: zipf theta"),
        ("  - fio: jobs/none.fio\n", JOBS, "jobs/none.fio cannot be read: No such file"),
        ("  - fio: {file: ../../etc/hosts}\n", JOBS, "../../etc/hosts"),
        ("  - fio: jobs\n", JOBS, "jobs"),
        ("  - fio: {repeats: 2}\n", JOBS, "give either `file`"),
        ("  - fio:\n", JOBS, "give either `file`"),
        ('  - fio: ""\n', JOBS, "the name of the job file is empty"),
        ("  - fio: jobs/db.fio\n", "[a]\nrw=write\nfsync=-1\n", "jobs/db.fio:3: fsync=-1 is no"),
        ("  - fio: jobs/db.fio\n", "[a]\nrate_iops=1,2,3,4\n", "jobs/db.fio:2: rate_iops=1,2,3,4"),
        ("  - fio: jobs/db.fio\n", "[a]\nrw=randread\nrandom_distribution=zoned:50/50:60/60\n",
         "jobs/db.fio:3: fio refuses it"),
        *[("  - fio: jobs/db.fio\n", f"[a]\nioengine={engine}\nrw=randread\n{option}\n",
           f"jobs/db.fio:4: fio refuses it: {why}")
          for engine, option, why in (
              ("libaio", "verify=none", "fio: failed parsing verify=none"),
              ("libaio", "verify_offset=0", "fio: failed parsing verify_offset=0"),
              ("libaio", "log_compression=0", "fio: failed parsing log_compression=0"),
              ("libaio", "dataplacement=none", "Bad option <dataplacement=none>"),
              ("libaio", "hipri_percentage=0", "Bad option <hipri_percentage=0>"),
              ("io_uring", "userspace_reap=0", "Bad option <userspace_reap=0>"),
              ("psync", "cmdprio_percentage=0", "Bad option <cmdprio_percentage=0>"),
              ("psync", "ramp_time=soon", "fio: failed parsing ramp_time=soon"),
          )],
        ("  - fio: |\n      [a]\n      directory=/tmp\n", JOBS, "job:2: directory is refused"),
    ],
)  # fmt: skip
def test_a_bad_job_is_told_with_its_place_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], measures: str, jobs: str, told: str
) -> None:
    path = profile(tmp_path / "home", measures, jobs)

    status = run(["run", str(path), "--output", str(tmp_path / "out")])

    said = capsys.readouterr().err
    assert status == 2
    assert f"{path}:10:" in said
    assert told in said
    assert not (tmp_path / "out").exists()


def test_a_profile_that_names_a_file_again_and_again_is_refused_soon(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = profile(tmp_path, "  - fio: jobs/db.fio\n" * 17, JOBS + "#" * (63 << 10))

    assert run(["plan", str(path)]) == 2

    said = capsys.readouterr().err
    assert "more than 1 MiB" in said and str(path) in said


@pytest.mark.parametrize(
    ("stream", "told"),
    [
        ("{name: a}", "stream 'a' needs `iodepth`, or a rate"),
        ("{name: a, rate_iops: 5, rate_mb_per_s: 1}", "rate_iops already gives a rate"),
        ("{name: a, drive_writes_per_day: 1, read: 100}", "only reads writes nothing"),
        ("{name: a, iodepth: 1, blocks: {4KiB: 50}}", "add up to 50 %"),
        ("{name: a, iodepth: 1, blocks: {big: 100}}", "'big' is not a size"),
        ("{name: a, iodepth: 1, blocks: {4KiB: 60, '4096': 40}}", "'4096' is given twice"),
        ("{name: a, iodepth: 1, hot: 5%}", "only with `pattern: hot`"),
        ("{name: a, iodepth: 1, pattern: hot, hot: 0.4%}", "a whole percentage from 1 to 99"),
        ("{name: global, iodepth: 1}", "'global' has a special meaning"),
        ("{name: a, rate_iops: 1e-9}", "less than a byte per second"),
        ("{name: a, iodepth: 1, block: 1GiB}", "smaller than one block of 1 GiB"),
        ("{name: a, iodepth: 1, block: 1000}", "not a multiple of the target's block"),
        ("{name: a, iodepth: 1, priority: idle}", "no priorities"),
        ("{name: 'a b', iodepth: 1}", "characters other than letters"),
        ("{name: a, iodepth: 1, trim: 20}", "a share of trims needs a rate"),
        ("{name: a, rate_iops: 9, trim: 100, flush_every: 1}", "only trims has no data"),
        (
            "{name: a, iodepth: 1, trim: 100}",
            "streams[0] (a): jobs that trim need another job that writes",
        ),
    ],
)
def test_a_bad_stream_is_told_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], stream: str, told: str
) -> None:
    path = profile(tmp_path, f"  - mix:\n      streams:\n        - {stream}\n")

    assert run(["plan", str(path)]) == 2

    said = capsys.readouterr().err
    assert told in said
    assert str(path) in said


def test_a_mix_is_a_job_file_in_other_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measures = """
  - mix:
      name: oltp
      streams:
        - {name: data, read: 75, block: 8KiB, pattern: zipf, theta: 1.1, rate_iops: 400, numjobs: 2}
        - {name: log, pattern: sequential, blocks: {4KiB: 50, 8KiB: 50}, rate_mb_per_s: 3,
           iodepth: 1, flush_every: 1, offset: 75%, span: 64MiB, think: 2ms}
        - {name: bulk, drive_writes_per_day: 50, read: 50, block: 16KiB,
           pattern: hot, hot: 10%, hits: 90%}
"""
    path = profile(tmp_path, measures)

    assert run(["plan", str(path)]) == 0

    data, log, bulk = (
        dict(word.split("=", 1) for word in line.split("]: ")[1].split())
        for line in capsys.readouterr().out.splitlines()
        if "note: oltp [" in line
    )
    assert data["rate"] == f"{400 * 0.75 * 8192 / 2:.0f},{400 * 0.25 * 8192 / 2:.0f}"
    assert (data["rw"], data["random_distribution"], data["iodepth"]) == (
        "randrw",
        "zipf:1.1",
        "32",
    )
    assert (log["rw"], log["bssplit"], log["fsync"]) == ("write", "4096/50:8192/50", "1")
    assert (log["offset"], log["size"]) == (f"{192 << 20}", f"{64 << 20}")
    assert (log["rate"], log["thinktime"]) == ("1,3000000", "2000us")
    writes = 50 * (256 << 20) / 86400
    assert bulk["rate"] == f"{writes:.0f},{writes:.0f}"  # as many reads beside them
    assert bulk["random_distribution"] == "zoned:90/10:10/90"


def test_exported_jobs_are_those_of_the_run_and_fio_takes_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mix = "  - mix: {streams: [{name: a, rate_iops: 9}]}\n"
    path = profile(tmp_path / "home", MEASURES + mix + "  - blocksize: {writes: 400}\n")
    out = tmp_path / "out"

    assert run(["run", str(path), "--export-jobs", str(out)]) == 0

    jobs = sorted(out.glob("*.fio"))
    done = subprocess.run(
        ["fio", "--parse-only", *jobs], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    names = [file.name for file in jobs]
    assert names[:2] == ["01-precondition-1.fio", "02-steady.fio"]
    assert [name.partition("-phase-")[2] for name in names if "03-fio-0" in name][-1] == ""
    assert sum("03-fio-0" in name for name in names) == 2 * 2 + 1
    assert sum("04-sweep-0" in name for name in names) == 2 + 1
    texts = [file.read_text() for file in jobs]
    repeats = [text for name, text in zip(names, texts, strict=True) if "-repeat-" in name]
    seeds = [re.findall(r"^randseed=(\d+)", text, re.MULTILINE)[0] for text in repeats]
    assert len(set(seeds)) == len(repeats) == 8
    assert all("ramp_time=10000ms" in text and "runtime=10000ms" in text for text in repeats)
    assert all("filename=the-drive-under-test" in text for text in texts)
    readme = (out / "README.md").read_text()
    assert "blocksize" in readme and "fio measures a request from when it is sent" in readme
    assert run(["run", str(path), "--export-jobs", str(out)]) == 2
    assert "is not empty" in capsys.readouterr().err


SERVERS = sorted(Path(__file__).parents[3].glob("profiles/server-*.yaml"))


@pytest.mark.parametrize("path", SERVERS, ids=lambda path: path.stem)
def test_each_number_of_a_server_has_its_source_or_is_assumed(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stream's source stands beside it or in the comment right above it."""
    lines = path.read_text().splitlines()
    streams = [number for number, line in enumerate(lines) if "- {name: " in line]
    for number in streams:
        above = number
        while lines[above - 1].strip().startswith("#"):
            above -= 1
        told = " ".join([*lines[above:number], lines[number].partition("  # ")[2]])
        assert "https://" in told or "assumed" in told, lines[number]

    assert len(SERVERS) == 9
    assert run(["plan", str(path), "--target", "sim:p4500-4t,capacity=4GiB"]) == 0
    said = capsys.readouterr().out
    assert said.count("]: rw=") == len(streams)
    writes = path.stem != "server-vector"  # vector search only reads
    assert ("the first writing job of the plan" in said) == writes


RATED = """
  - mix: {name: web, window: 40s, streams: [{name: page, read: 100, rate_iops: 400}]}
  - mix:
      name: sizes
      repeats: 10
      streams: [{name: few, read: 100, blocks: {4KiB: 99, 1MiB: 1}, rate_iops: 50}]
accept:
  - of: {job: web}
    latency: {p99: 20ms}
"""


def test_what_a_rate_made_wait_is_in_the_latency_and_sizes_that_chance_drew_refuse_nothing(
    tmp_path: Path,
) -> None:
    """Planted: a stall of half a second in ten, so one request in a hundred waits over 0.4 s.

    fio sends one of them during the stall and the others, which were due, after it.
    """
    out = tmp_path / "out"
    path = profile(tmp_path, RATED)
    stalls = "256MiB,stall_period_ns=10000000000,stall_ns=500000000,stall_random=no"
    path.write_text(path.read_text().replace("256MiB", stalls))

    run(["run", str(path), "--output", str(out)])

    result = RunResult.model_validate_json((out / "result.json").read_text())
    web, sizes = (point for stage in result.stages for point in stage.points)
    (page,) = web.streams
    for found in (web, page):
        assert estimate(found, "lat_p99_ns", "read").value == pytest.approx(400e6, rel=0.1)
        assert estimate(found, "lat_p50_ns", "read").value < 2e6
    assert {row.outcome for row in result.accepted} == {"cannot tell"}  # two repeats validate none
    assert (result.accepted[0].middle or 0) > 300e6
    (few,) = sizes.streams
    assert estimate(few, "delivered_percent").bound == pytest.approx(100, abs=0.5)
    codes = {finding.code.value for finding in sizes.findings}
    assert not codes & {"undelivered", "cv-too-high"}


TRIMMED = """
  - mix:
      name: files
      streams:
        - {name: data, block: 16KiB, iodepth: 8}
        - {name: deleted, block: 16KiB, trim: 100, rate_iops: 200}
  - fio: |
      [tw]
      rw=randtrimwrite
      bs=16k
      rate_iops=50
  - sweep: {block: 16KiB, read: 0, iodepth: 8}
accept:
  - of: {job: files, direction: trim}
    latency: {p50: 100us}
  - of: {job: files, stream: data}
    latency: {p50: 100us}
"""


def test_trims_free_space_and_count_apart(tmp_path: Path) -> None:
    """Planted: equal rates of random writes and trims keep half of the drive mapped."""
    out = tmp_path / "out"

    run(["run", str(profile(tmp_path, TRIMMED)), "--output", str(out)])

    result = RunResult.model_validate_json((out / "result.json").read_text())
    files, pairs, plain = (point for stage in result.stages for point in stage.points)
    # The drive is at its limit in both: what it writes for each write falls with the trims.
    assert estimate(files, "iops").value > 1.5 * estimate(plain, "iops").value
    data, deleted = files.streams
    assert estimate(deleted, "iops", "trim").value == pytest.approx(200, rel=0.01)
    assert estimate(deleted, "delivered_percent").value == pytest.approx(100, abs=0.5)
    assert estimate(data, "iops", "write").value == pytest.approx(
        estimate(files, "iops").value, rel=0.01
    )
    assert {e.direction for e in files.estimates} == {"total", "write"}
    assert estimate(files, "iops").bound is not None  # the data set their own pace
    assert [p.point.workload.title for p in candidates(result, CapacityPlan())] == [""]
    (tw,) = pairs.streams
    both = [estimate(tw, "iops", direction).value for direction in ("trim", "write")]
    assert both == pytest.approx([50, 50], rel=0.01)
    assert estimate(pairs, "iops").value == pytest.approx(50, rel=0.01)
    # A drive with holes is filled and warmed up before anything else is measured.
    kinds = [str(stage.kind) for stage in result.stages]
    prepared = ["precondition", "steady"]
    assert kinds == [*prepared, "mix", *prepared, "fio", *prepared, "sweep"]
    trims, writes = result.accepted
    assert trims.middle is not None and trims.middle < 100_000 < (writes.middle or 0)


def test_a_drive_without_trim_is_told_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = profile(tmp_path, "  - fio: |\n      [a]\n      rw=trimwrite\n")
    argv = ["--target", "sim:dram-ssd-2012,capacity=1GiB", "--output", str(tmp_path / "out")]

    assert run(["run", str(path), *argv]) == 2

    said = capsys.readouterr().err
    assert "job:2: rw=trimwrite cannot be served: the target takes no discards" in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("measured", "target", "told"),
    [
        ("- mix: {name: a/b, streams: [{name: a, iodepth: 1}]}", "iops: 1", "a / or a character"),
        ("- mix:", "iops: 1", "missing key 'measure[0].mix.streams'"),
        ("- mix: {streams: [{name: a, iodepth: 1}]}", "of: {job: oltp}, iops: 5", "(job oltp)"),
        ("- mix: {streams: [{name: a, iodepth: 1}]}",
         "of: {job: mix, stream: b}, latency: {p99: 1ms}", "(job mix, stream b)"),
        ("- mix: {streams: [{name: a, iodepth: 1}]}",
         "of: {job: mix, direction: trim}, latency: {p99: 1ms}", "direction trim"),
        ("- mix: {streams: [{name: a, rate_iops: 9}]}", "of: {job: mix}, iops: 5", "has no bound"),
        ("- fio: jobs/db.fio", "of: {job: db.fi0}, iops: 5", "(job db.fi0)"),
        ("- replay:", "iops: 1", "missing key 'measure[0].replay.file'"),
        ("- replay: {file: t.csv, columns: {time: offset}}", "iops: 1", "has the column"),
        ("- replay: {file: t.csv, traced_size: 1GiB}", "iops: 1", "only with `placing: scale`"),
        ("- replay: {file: t.log, files: [a, a]}", "iops: 1", "'a' is given twice"),
        ("- replay: {file: t.csv, form: csv, files: [a]}", "iops: 1", "only an iolog has"),
        ("- replay: {file: /gone.csv}", "of: {replay: gone.csv}, latency: {p99: 1ms}",
         "/gone.csv: the trace cannot be read"),
    ],
)  # fmt: skip
def test_a_tired_profile_is_told_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], measured: str, target: str, told: str
) -> None:
    path = profile(tmp_path, f"  {measured}\naccept: [{{{target}}}]\n")

    assert run(["plan", str(path)]) == 2

    said = capsys.readouterr().err
    assert told in said
    assert re.search(rf"{re.escape(str(path))}:[0-9]+:[0-9]+: ", said)


def test_a_trace_lies_beside_its_profile_from_wherever_it_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = profile(tmp_path, "  - replay: {file: t.csv}\n")
    (path.parent / "t.csv").write_text("time,op,offset,size\n0,r,0,4096\n5000,w,4096,4096\n")
    (elsewhere := tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(elsewhere)

    assert run(["plan", str(path)]) == 0

    said = capsys.readouterr().out
    assert "replays of t.csv: 2 requests" in said
    assert re.search(r"drive's time: .+ to .+ by .*at most .+", said)
    assert run(["plan", str(path), "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    least, likely = planned["seconds"]
    assert least < likely and planned["longest_s"] == pytest.approx(1.25 * likely, rel=0.01)
