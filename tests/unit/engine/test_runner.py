from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from ssdbench.engine.journal import Kind, stored_records
from ssdbench.engine.runner import require_same
from ssdbench.engine.stage import Limits, Meter
from ssdbench.errors import DeviceError, TargetRefused, UsageError
from ssdbench.model.finding import Code
from ssdbench.model.found import Points
from ssdbench.model.profile import Purge as Method
from ssdbench.model.result import RunResult
from ssdbench.model.target import TargetInfo, TargetKind
from ssdbench.stages.purge import Purge
from ssdbench.target.purge import Purged
from tests.support.fakes import Killed, WearyDrive
from tests.support.runs import ARun, a_point, result_of


def codes(result: RunResult) -> set[Code]:
    return {finding.code for finding in result.findings}


@pytest.fixture
def run(tmp_path: Path) -> ARun:
    return ARun(tmp_path / "run")


def test_stages_run_in_their_order_and_are_stored(run: ARun) -> None:
    run.precondition().steady().sweep()

    result = run.go()

    assert run.finished() == ["01-precondition", "02-steady", "03-sweep"]
    assert (run.path / "result.json").is_file()
    assert [stage.name for stage in result.stages] == run.finished()


def test_the_journal_proves_the_result_that_is_stored(run: ARun) -> None:
    run.precondition()

    run.go()

    stored = (run.path / "result.json").read_bytes()
    last = stored_records(run.path / "journal.jsonl")[-1]
    assert last.kind is Kind.ENDED
    assert last.data["result_sha256"] == sha256(stored).hexdigest()


def test_every_destructive_stage_checks_the_target_again(run: ARun) -> None:
    run.precondition().steady().sweep(a_point(run.drive, "read", read=100))

    run.go()

    assert run.drive.rechecks == 2


def test_points_are_told_in_the_order_in_which_they_were_asked_for(run: ARun) -> None:
    points = [a_point(run.drive, f"read-{n}", read=100, block=4096 * n) for n in (4, 1, 3, 2, 5)]
    run.sweep(*points, repeats=2)

    stage = run.go().stages[-1]

    assert [point.point.id for point in stage.points] == [point.id for point in points]
    order = sorted((r.sequence, point.point.id) for point in stage.points for r in point.repeats)
    assert [name for _, name in order][:5] != [point.id for point in points]  # measured shuffled


def test_ten_repeats_of_a_steady_drive_are_valid(run: ARun) -> None:
    run.precondition().steady().sweep(repeats=10)

    result = run.go()

    assert [point.verdict for point in result.stages[-1].points] == ["VALIDATED"] * 2
    assert result.verdict == "VALIDATED"


def test_a_run_on_a_drive_that_is_never_steady_is_not_valid(run: ARun) -> None:
    run.drive = WearyDrive(drift_per_fill=0.2)
    run.precondition().steady().sweep(repeats=10)

    result = run.go()

    assert result.verdict == "NOT VALIDATED"
    assert Code.NOT_STEADY in {f.code for f in result_of(result, "02-steady").findings}
    inherited = {f.code for point in result.stages[-1].points for f in point.findings}
    assert Code.NOT_STEADY in inherited


def test_an_interrupted_run_keeps_a_partial_result(run: ARun) -> None:
    run.precondition().steady().sweep().interrupted_in("03-sweep", after_s=70)

    result = run.go()

    assert result.interrupted
    assert run.finished() == ["01-precondition", "02-steady"]
    assert not result.stages[-1].complete
    assert Code.CUT_SHORT in codes(result)
    assert result.verdict == "NOT VALIDATED"


@pytest.mark.parametrize("stage", ["01-precondition", "02-steady", "03-sweep", "04-span"])
def test_a_run_killed_in_any_stage_repeats_no_finished_repeat(run: ARun, stage: str) -> None:
    run.precondition().steady().sweep().span(0.5, 1).killed_in(stage, after_s=100)
    with pytest.raises(Killed):
        run.go()
    before = run.units(Kind.FINISHED)

    result = run.resume()

    finished = [unit for unit in run.units(Kind.FINISHED) if "repeat" in unit]
    assert len(finished) == len(set(finished)) == 2 * 3 + 2 * 2
    assert [u for u in before if "repeat" in u] == finished[: sum("repeat" in u for u in before)]
    assert Code.RESUMED in codes(result)
    assert all(stage.complete for stage in result.stages)


def test_steady_state_is_proven_again_after_a_crash_and_the_fill_is_not(run: ARun) -> None:
    run.precondition().steady().sweep().killed_in("03-sweep", after_s=100)
    with pytest.raises(Killed):
        run.go()

    run.resume()

    assert run.reused() == ["01-precondition"]
    assert run.finished() == ["02-steady", "03-sweep"]


def test_what_is_said_of_a_resumed_run_claims_nothing_that_was_not_done(run: ARun) -> None:
    run.precondition().steady().sweep().killed_in("03-sweep", after_s=100)
    with pytest.raises(Killed):
        run.go()
    run.drive.starts.clear()
    run.drive.epoch = "boot-2"  # so that fill and warm-up are to be done again

    result = run.resume(stopped_by=2)

    assert (result.stages, run.drive.starts) == ((), [])
    (told,) = (f for f in result.findings if f.code is Code.RESUMED)
    for claim in ("proven", "done again", "measured again", "were kept"):
        assert claim not in f"{told.message} {told.advice}"
    assert "results that no longer count" in told.message


def test_nothing_is_written_when_only_the_report_was_lost(run: ARun) -> None:
    run.precondition().steady().sweep()
    first = run.go()
    (run.path / "result.json").unlink()

    again = run.resume()

    assert run.drive.starts == []
    assert [s.points for s in again.stages] == [s.points for s in first.stages]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param({"epoch": "boot-2"}, "restarted", id="host-restarted"),
        pytest.param({"written_bytes": 1 << 40}, "did not write", id="written-by-others"),
        pytest.param({"discarded_bytes": 4096}, "discarded", id="discarded"),
    ],
)
def test_a_fill_is_repeated_when_the_drive_is_not_as_it_was_left(
    run: ARun, change: dict[str, object], reason: str
) -> None:
    run.precondition().steady().sweep().killed_in("03-sweep", after_s=100)
    with pytest.raises(Killed):
        run.go()
    for name, value in change.items():
        setattr(run.drive, name, value)

    result = run.resume()

    assert run.reused() == []
    assert reason in next(f.message for f in result.findings if f.code is Code.RESUMED)


@pytest.mark.parametrize(("past_bytes", "stands"), [(0, True), (10**9, False)])
def test_a_fill_is_repeated_when_the_drive_counts_writes_that_no_kernel_counted(
    run: ARun, past_bytes: int, stands: bool
) -> None:
    run.drive = WearyDrive(health=lambda drive: drive.written_bytes)
    run.precondition().steady().sweep().killed_in("03-sweep", after_s=100)
    with pytest.raises(Killed):
        run.go()
    run.drive.health = lambda drive: drive.written_bytes + past_bytes

    result = run.resume()

    assert run.reused() == (["01-precondition"] if stands else [])
    said = next(f.message for f in result.findings if f.code is Code.RESUMED)
    assert ("the drive's health log counts 1 GB" in said) is not stands


def test_a_fill_that_others_undid_is_not_finished_by_a_second_resume(run: ARun) -> None:
    run.precondition().sweep().killed_in("02-sweep", after_s=100)
    with pytest.raises(Killed):
        run.go()
    run.drive.epoch = "boot-2"
    with pytest.raises(Killed):
        run.resume(killed_in="01-precondition")

    run.resume()

    assert run.finished()[0] == "01-precondition"
    assert run.reused() == []


def test_a_fill_is_repeated_where_nothing_counts_writes(run: ARun) -> None:
    run.drive = WearyDrive(epoch="")
    run.precondition().steady().sweep().killed_in("03-sweep", after_s=100)
    with pytest.raises(Killed):
        run.go()

    run.resume()

    assert run.reused() == []


def test_what_a_purge_will_erase_is_not_warmed_up_again(
    run: ARun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run with several fill levels is killed in the purge between two of them."""
    run.stages.append(Purge("01-purge", Method.DISCARD))
    run.precondition().steady().sweep()
    run.stages.append(Purge("05-purge", Method.DISCARD))
    run.precondition().steady().sweep()
    purge = WearyDrive.purge

    def die_at_the_second_purge(drive: WearyDrive, *args: Any) -> Purged:
        if drive.purges:
            raise Killed
        return purge(drive, *args)

    monkeypatch.setattr(WearyDrive, "purge", die_at_the_second_purge)
    with pytest.raises(Killed):
        run.go()
    monkeypatch.setattr(WearyDrive, "purge", purge)

    run.resume()

    assert run.reused() == ["01-purge", "02-precondition", "03-steady", "04-sweep"]


def test_a_kill_between_the_stored_repeat_and_its_record_repeats_only_that_one(run: ARun) -> None:
    run.precondition().steady().sweep()
    saves = []

    def die_at_the_third_repeat(drive: WearyDrive) -> None:
        saves.append(drive)
        if len(saves) == 5:  # fill, warm-up, three repeats
            raise Killed

    run.drive.on_save = die_at_the_third_repeat
    with pytest.raises(Killed):
        run.go()

    run.resume()

    begun = [unit for unit in run.units(Kind.BEGUN) if "repeat" in unit]
    assert len(begun) == 6 + 1


def test_another_drive_is_refused_on_resume(run: ARun) -> None:
    run.precondition().steady().killed_in("02-steady")
    with pytest.raises(Killed):
        run.go()
    run.drive.size_bytes *= 2

    with pytest.raises(TargetRefused, match="begun on"):
        run.resume()


def test_fills_above_the_write_limit_are_refused_before_anything_is_written(run: ARun) -> None:
    run.limits = Limits(max_writes_bytes=run.drive.size_bytes - 1)
    run.precondition()

    with pytest.raises(UsageError, match="--max-writes"):
        run.go()

    assert run.drive.written_bytes == 0


def test_the_write_limit_is_never_exceeded(run: ARun) -> None:
    limit = 2 * run.drive.size_bytes
    run.limits = Limits(max_writes_bytes=limit)
    run.precondition().steady().sweep()

    result = run.go()

    assert run.drive.size_bytes < run.drive.written_bytes <= limit
    assert not result.stages[-1].complete
    assert "--max-writes" in " ".join(f.message for s in result.stages for f in s.findings)


def test_the_time_limit_ends_the_run_with_an_upper_bound(run: ARun) -> None:
    run.limits = Limits(max_time_s=600)
    run.precondition().steady().sweep()

    result = run.go()

    steady = result_of(result, "02-steady")
    assert "is not higher than this" in " ".join(finding.message for finding in steady.findings)
    assert sum(stage.duration_s for stage in result.stages) <= 601


def test_a_failing_drive_leaves_what_was_measured(run: ARun) -> None:
    run.precondition().steady().sweep()
    seconds = []

    def fail_late(drive: WearyDrive, second: object) -> None:
        if (run.path / "stages/03-sweep").exists():
            seconds.append(second)
        if len(seconds) == 400:
            raise DeviceError("the drive answered with EIO")

    run.drive.on_second = fail_late
    with pytest.raises(DeviceError):
        run.go()

    stored = RunResult.model_validate_json((run.path / "result.json").read_bytes())
    assert stored.stages[-1].points
    assert not stored.stages[-1].complete


def test_nothing_is_started_that_the_write_limit_has_no_room_for(run: ARun) -> None:
    run.limits = Limits(max_writes_bytes=run.drive.size_bytes + 4096)
    run.precondition().steady()

    result = run.go()

    assert run.drive.written_bytes == run.drive.size_bytes
    assert [stage.name for stage in result.stages] == ["01-precondition"]
    assert "--max-writes" in " ".join(finding.message for finding in result.findings)


def test_a_used_up_limit_is_told_before_anything_of_the_run_changes(run: ARun) -> None:
    run.limits = Limits(max_writes_bytes=run.drive.size_bytes + 4096)
    run.precondition().steady()
    run.go()
    before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}

    with pytest.raises(UsageError, match="--max-writes .* nothing more can be measured") as caught:
        run.resume()

    least_mib = (run.drive.size_bytes + (64 << 20)) // (1 << 20) + 1
    assert caught.value.hint.endswith(f"ssdbench resume {run.path} --max-writes {least_mib}MiB")
    assert before == {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}

    (run.path / "result.json").write_text("{")  # a damaged result is written anew
    assert run.resume().finished_at is None


def test_each_limit_that_is_used_up_is_told_with_what_it_needs() -> None:
    limits = Limits(max_time_s=5, max_writes_bytes=1 << 20)
    meter = Meter(limits, seconds=7.5, bytes_written=1 << 20)

    assert [(limit.option, limit.least) for limit in meter.used_up(ahead_bytes=64 << 20)] == [
        ("--max-time", "8s"), ("--max-writes", "66MiB"),
    ]  # fmt: skip
    assert [limit.option for limit in meter.used_up()] == ["--max-time"]


def test_reads_go_on_where_nothing_more_may_be_written(run: ARun) -> None:
    run.limits = Limits(max_writes_bytes=run.drive.size_bytes + 4096)
    run.precondition().sweep(a_point(run.drive, "read", read=100))
    run.interrupted_in("02-sweep").go()

    assert run.resume().finished_at is not None


def test_a_point_near_what_the_host_reaches_without_a_drive_is_host_bound(run: ARun) -> None:
    run.drive = WearyDrive(host_ceiling_iops=2_400.0)  # reads: 2,000, writes: 100
    run.precondition().steady().sweep(
        a_point(run.drive, "write", read=0), a_point(run.drive, "read", read=100), repeats=10
    )

    result = run.go()

    sweep = result_of(result, "03-sweep")
    bound = {p.point.id for p in sweep.points if Code.HOST_BOUND in {f.code for f in p.findings}}
    assert bound == {"read"}
    assert isinstance(sweep.found, Points)
    assert sweep.found.host_ceiling_iops == {"write": 2400, "read": 2400}
    assert len(run.drive.asked_ceilings) == 2


def test_a_repeat_whose_record_was_altered_is_named_and_not_believed(run: ARun) -> None:
    run.precondition().steady().sweep(a_point(run.drive, "write"))
    run.killed_in("03-sweep/write/repeat-02")
    with pytest.raises(Killed):
        run.go()
    record = run.path / "stages/03-sweep/write/repeat-01/unit.json"
    text = record.read_text()
    record.write_text(text.replace("1", "2", 1))

    with pytest.raises(UsageError, match="unit.json is damaged: its checksum is not the one"):
        run.resume()

    record.write_text(text)
    assert run.resume().finished_at is not None


KNOWN = TargetInfo(
    kind=TargetKind.DRIVE,
    name="/dev/sda",
    node="/dev/sda",
    id="naa.5002538f12345678",
    size_bytes=1 << 30,
    model="Flash X",
    serial="X Y",
)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"serial": "X_Y"}, "its serial number is X_Y, and was X Y"),
        ({"serial": ""}, "its serial number is unknown, and was X Y"),
        ({"model": "Flash Y"}, "its model is Flash Y, and was Flash X"),
        ({"size_bytes": 1 << 29}, "536870912 bytes, but the run was begun on"),
    ],
)
def test_a_run_does_not_go_on_on_a_drive_that_only_shares_the_name(
    change: dict[str, object], said: str
) -> None:
    now = KNOWN.model_copy(update=change)

    require_same(KNOWN, KNOWN.id, KNOWN.size_bytes, known=KNOWN)
    with pytest.raises(TargetRefused, match=said):
        require_same(now, KNOWN.id, KNOWN.size_bytes, known=KNOWN)
