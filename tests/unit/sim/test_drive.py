"""Simulated drives in files: they keep their state, and no damage goes unsaid."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from ssdbench.cli.sim import command
from ssdbench.errors import DeviceError, SsdbenchError, UsageError
from ssdbench.sim.core import Drive, Job, Op
from ssdbench.sim.drive import SimDrive, data_path, saved_path, spec_path
from ssdbench.sim.spec import parse

TARGET = "sim:p4500-4t,capacity=4GiB,erase_block=32KiB"
IN_REQUEST = 12  # offset of drive.in_request: after u64 magic and u32 abi


@pytest.fixture
def state(tmp_path: Path) -> Path:
    path = tmp_path / "state.ssdb"
    SimDrive.create(parse(TARGET), path).close()
    return path


def tear(state: Path) -> None:
    """What a SIGKILL inside a request leaves behind."""
    with state.open("r+b") as file:
        file.seek(IN_REQUEST)
        file.write((1).to_bytes(4, "little"))


def test_a_drive_goes_on_where_its_last_user_left_it(state: Path) -> None:
    with SimDrive.open(state) as drive:
        drive.core.run(Job(stop_ios=10_000))
        before = (drive.core.now_ns, drive.counters())

    with SimDrive.open(state) as drive:
        assert (drive.core.now_ns, drive.counters()) == before
        assert drive.spec == parse(TARGET)
        assert drive.info()["simulated"] is True


def test_a_drive_has_all_its_blocks_from_the_first_day_and_so_has_a_copy(
    state: Path, tmp_path: Path
) -> None:
    with SimDrive.open(state) as drive:
        drive.snapshot(tmp_path / "copy.ssdb")
    SimDrive.open(tmp_path / "copy.ssdb").close()

    for path in (state, tmp_path / "copy.ssdb"):
        assert path.stat().st_blocks * 512 >= path.stat().st_size


def test_a_drive_has_one_user_at_a_time(state: Path) -> None:
    with SimDrive.open(state), pytest.raises(UsageError, match="in use by another process"):
        SimDrive.open(state)


def test_an_existing_state_is_never_overwritten(state: Path) -> None:
    with pytest.raises(UsageError, match="already exists"):
        SimDrive.create(parse(TARGET), state)


def test_a_torn_state_is_refused_until_it_was_checked(state: Path) -> None:
    tear(state)

    with pytest.raises(DeviceError, match="torn"):
        SimDrive.open(state)
    with SimDrive.open(state, repair=True) as drive:
        assert drive.core.broken_invariant() == 0
    SimDrive.open(state).close()


def test_a_drive_made_anew_has_no_checksums_of_the_one_before_it(state: Path) -> None:
    spec = SimDrive.open(state).spec
    state.unlink()

    drive = SimDrive.create(spec, state)

    assert not saved_path(state).exists()
    drive.close(saves=False)  # as a user that was killed
    SimDrive.open(state).close()


def test_a_torn_state_whose_maps_disagree_stays_refused(state: Path) -> None:
    with SimDrive.open(state) as drive:
        drive.core.run(Job(stop_ios=10_000))
    with state.open("r+b") as file:
        file.seek(state.stat().st_size // 4)
        file.write(bytes(range(256)) * 256)
    with pytest.raises(DeviceError, match="the checksums do not match"):
        SimDrive.open(state)
    tear(state)

    with pytest.raises(DeviceError, match="maps disagree"):
        SimDrive.open(state, repair=True)


@pytest.mark.parametrize("left", [0, 100, 4096, 1 << 20])
def test_a_truncated_state_is_refused(state: Path, left: int) -> None:
    with state.open("r+b") as file:
        file.truncate(left)

    with pytest.raises(UsageError, match="truncated"):
        SimDrive.open(state)


def test_a_state_of_another_version_is_refused(state: Path) -> None:
    with state.open("r+b") as file:
        file.seek(8)
        file.write((99).to_bytes(4, "little"))

    with pytest.raises(UsageError, match="another version"):
        SimDrive.open(state)


@pytest.mark.parametrize("text", ["", "{}", '{"params": 1}', "[1]"])
def test_a_damaged_specification_is_refused(state: Path, text: str) -> None:
    spec_path(state).write_text(text)

    with pytest.raises(UsageError, match="is damaged"):
        SimDrive.open(state)


def test_a_specification_of_another_drive_is_refused(state: Path) -> None:
    data = json.loads(spec_path(state).read_text())
    data["params"]["t_prog_ns"] += 1
    spec_path(state).write_text(json.dumps(data))

    with pytest.raises(UsageError, match="t_prog_ns differs"):
        SimDrive.open(state)


def test_a_drive_whose_examination_broke_off_is_free_while_the_error_is_told(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Drive) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Drive, "attach", broken)
    with pytest.raises(KeyboardInterrupt) as told:
        SimDrive.open(state)
    monkeypatch.undo()

    SimDrive.open(state).close()

    assert told.tb is not None  # its frames still hold what they had


def test_a_missing_drive_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="side by side|cannot be read"):
        SimDrive.open(tmp_path / "none.ssdb")


def test_a_snapshot_brings_the_past_back(state: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.ssdb"
    data_path(state).write_bytes(b"old")
    with SimDrive.open(state) as drive:
        drive.core.run(Job(stop_ios=10_000))
        then = drive.counters()
        drive.snapshot(kept)
        drive.core.run(Job(stop_ios=10_000))
        data_path(state).write_bytes(b"new")

        drive.restore(kept)

        assert drive.counters() == then
        assert data_path(state).read_bytes() == b"old"
        with pytest.raises(UsageError, match="in use"):
            SimDrive.open(state)
    with SimDrive.open(kept) as other:
        assert other.counters() == then


def test_a_copy_is_a_drive_of_its_own(state: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.ssdb"
    with SimDrive.open(state) as drive:
        drive.snapshot(kept)

        drive.core.submit(Op.WRITE, 0, 4096)

    with SimDrive.open(kept) as other:
        assert other.counters()["host_write_units"] == 0


def test_a_snapshot_overwrites_nothing(state: Path) -> None:
    with SimDrive.open(state) as drive, pytest.raises(UsageError, match="already exists"):
        drive.snapshot(state)


def kill_at_work(state: Path) -> None:
    work = (
        "import sys; from pathlib import Path; from ssdbench.sim.drive import SimDrive;"
        "from ssdbench.sim.core import Job\n"
        "with SimDrive.open(Path(sys.argv[1])) as d:\n"
        "    print('at work', flush=True)\n"
        "    while True: d.core.run(Job(stop_ios=50000))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", work, str(state)], stdout=subprocess.PIPE, text=True
    ) as user:
        assert user.stdout is not None
        user.stdout.readline()
        user.kill()


def kill_and_mend(state: Path, times: int) -> None:
    """Each death, sound or torn, leaves a drive that is whole once it is mended."""
    for _ in range(times):
        kill_at_work(state)
        with SimDrive.open(state, repair=True) as drive:
            assert drive.core.broken_invariant() == 0
            assert drive.core.run(Job(stop_ios=20_000)).errors == 0


def test_a_user_killed_at_work_leaves_a_state_that_can_be_mended(state: Path) -> None:
    kill_and_mend(state, 5)


@pytest.mark.soak
def test_two_hundred_users_killed_at_work_leave_states_that_can_be_mended(state: Path) -> None:
    kill_and_mend(state, 200)


def test_the_command_line_creates_inspects_copies_and_restores(tmp_path: Path) -> None:
    state, kept = tmp_path / "a.ssdb", tmp_path / "b.ssdb"

    def call(*arguments: str) -> dict[str, object]:
        result = CliRunner().invoke(command, [*arguments, "--json"], catch_exceptions=False)
        assert result.exit_code == 0
        found: dict[str, object] = json.loads(result.stdout)
        return found

    assert call("create", TARGET, str(state))["simulated"] is True
    assert call("snapshot", str(state), str(kept))["snapshot"] == str(kept)
    assert call("restore", str(state), str(kept))["source"] == str(kept)
    assert call("inspect", str(state))["sound"] is True
    assert call("truth", str(state))["method"] == "closed form"


def test_the_models_are_listed_for_programs() -> None:
    result = CliRunner().invoke(command, ["models", "--json"])

    cards = {card["target"]: card for card in json.loads(result.stdout)["models"]}

    assert cards["sim:pm9a3"]["figures"]["random_write_iops"] == 200_000
    assert all(card["sources"] for card in cards.values())


def test_a_flipped_bit_of_a_saved_drive_is_refused_and_a_word_said(state: Path) -> None:
    files = (state, spec_path(state), saved_path(state))
    kept = {path: path.read_bytes() for path in files}
    for path in files:
        data = kept[path]
        for place in {0, len(data) - 1, *range(0, len(data), max(1, len(data) // 40))}:
            for good in files:
                good.write_bytes(kept[good])
            bit = 1 << place % 8
            path.write_bytes(data[:place] + bytes([data[place] ^ bit]) + data[place + 1 :])

            with pytest.raises(SsdbenchError):
                SimDrive.open(state)

    for good in files:
        good.write_bytes(kept[good])
    SimDrive.open(state).close()


def test_a_drive_whose_user_was_killed_has_no_checksum_to_hold_against_it(state: Path) -> None:
    drive = SimDrive.open(state)

    assert not saved_path(state).exists()
    drive.close()
    assert saved_path(state).exists()
