"""A target that is not as the run left it is asked about again; what the run left is not."""

import os
import random
from pathlib import Path

import pytest

from ssdbench.engine import resumeconsent
from ssdbench.engine.journal import Kind, Record
from ssdbench.engine.resumeconsent import ContentCheck, check_content
from ssdbench.engine.session import KERNEL, Counters
from ssdbench.model.target import TargetInfo, TargetKind
from ssdbench.target import content
from ssdbench.target.content import Watch
from ssdbench.target.objection import DATA, DESTROY
from ssdbench.units import MIB

SIZE = 4 * MIB
RUN = "run 2026-01-01"
AT_WORK = (
    Record(0, "2026-01-01T00:00:00+00:00", Kind.BEGUN, "s", "u",
           {"counters": {"written_bytes": 0, "epoch": "boot a", "source": KERNEL}}),
)  # fmt: skip


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Counters:
    """What the kernel counts of the drive, as in the journal; records lie in a place of their own.

    Tests make a drive of a file.
    """
    now = Counters(written_bytes=0, epoch="boot a", source=KERNEL)
    monkeypatch.setattr(resumeconsent, "counters_of", lambda info: now)
    monkeypatch.setattr(content, "signatures", lambda node: [])
    monkeypatch.setenv("SSDBENCH_SETTINGS", str(tmp_path / "state/settings"))
    return now


def target(tmp_path: Path, kind: TargetKind = TargetKind.DRIVE) -> TargetInfo:
    path = tmp_path / "drive"
    path.write_bytes(random.Random(1).randbytes(SIZE))
    return TargetInfo(kind=kind, name="d", node=str(path), id="naa.1", size_bytes=SIZE)


def put(info: TargetInfo, place: int, data: bytes) -> None:
    with Path(info.node).open("r+b") as file:
        file.seek(place)
        file.write(data)


def asked(
    info: TargetInfo, records: tuple[Record, ...] = (), *, ours: bool = False
) -> ContentCheck:
    return check_content(info, RUN, records, ours=ours)


def test_what_a_run_left_is_its_own(tmp_path: Path) -> None:
    info = target(tmp_path)
    content.remember(info, run=RUN)

    found = asked(info)

    assert found.unchanged
    assert found.seen is not None


def test_a_change_takes_consent_to_its_data(tmp_path: Path) -> None:
    info = target(tmp_path)
    content.remember(info, run=RUN)
    put(info, 0, b"precious")

    (against,) = asked(info).against

    assert against.option == DATA


def test_counters_that_moved_take_consent_where_no_sample_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = target(tmp_path)
    content.remember(info, run=RUN)
    at_rest = (Record(0, AT_WORK[0].at, Kind.ENDED, "", "", AT_WORK[0].data),)
    assert asked(info, at_rest).unchanged
    moved = Counters(written_bytes=512, epoch="boot a", source=KERNEL)
    monkeypatch.setattr(resumeconsent, "counters_of", lambda info: moved)

    (against,) = asked(info, at_rest).against

    assert (
        "something else wrote to it since: the target's counters moved by 512 B" in against.reason
    )


def at_work(info: TargetInfo) -> None:
    Watch(info, RUN, content.look(info)).before_writing()


@pytest.mark.parametrize(("restarted", "passes"), [(False, True), (True, False)])
def test_blocks_of_a_file_system_pass_after_a_kill_only_while_the_counters_prove_them_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restarted: bool, passes: bool
) -> None:
    info = target(tmp_path)
    at_work(info)
    put(info, 0, os.urandom(MIB))
    if restarted:
        monkeypatch.setattr(resumeconsent, "counters_of", lambda info: Counters(epoch="boot b"))

    assert not asked(info, AT_WORK).unchanged
    assert asked(info, AT_WORK, ours=True).unchanged is passes


@pytest.mark.parametrize("others", ["", "another run"])
def test_a_drive_without_this_runs_record_is_asked_about_as_for_a_new_run(
    tmp_path: Path, others: str
) -> None:
    info = target(tmp_path)
    content.remember(info, run=others)

    found = asked(info)

    assert not found.unchanged
    assert [o.reason for o in found.against] == (
        ["another run of ssdbench used it since"] if others else []
    )


def test_a_file_is_compared_after_a_kill_and_its_consent_is_its_identity(tmp_path: Path) -> None:
    info = target(tmp_path, TargetKind.FILE)
    assert asked(info).unchanged  # without a record its mark speaks
    at_work(info)
    assert asked(info).unchanged
    put(info, 0, b"precious")

    (against,) = asked(info).against

    assert against.option == (DESTROY, info.id)


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    info = target(tmp_path)
    content.remember(info, run=RUN)
    Path(info.node).unlink()

    (against,) = asked(info).against

    assert against.option == ()
    assert "cannot tell what it holds: No such file" in against.reason


def test_a_simulated_drive_holds_nobodys_data(tmp_path: Path) -> None:
    assert asked(target(tmp_path, TargetKind.SIMULATED)) == ContentCheck()
