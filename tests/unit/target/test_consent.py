"""Consent is for one target, exactly."""

import json
from pathlib import Path

import pytest

from ssdbench.errors import TargetRefused
from ssdbench.model.target import Consent, TargetInfo, TargetKind
from ssdbench.target import consent
from ssdbench.target.consent import Wear
from ssdbench.target.identity import NOT_USED
from ssdbench.target.objection import refuse

DRIVE = TargetInfo(
    kind=TargetKind.LOOP,
    name="/dev/loop0",
    node="/dev/loop0",
    id="loop:/srv/my disk.img:1048576",
    size_bytes=1 << 20,
)


def test_the_exact_identity_is_consent() -> None:
    assert consent.objections(DRIVE, Consent(identity=DRIVE.id)) == []


@pytest.mark.parametrize(
    "given",
    ["", " ", DRIVE.id[:-1], f" {DRIVE.id}", DRIVE.id.upper(), "/dev/loop0", "*"],
    ids=["empty", "blank", "part", "padded", "case", "node", "pattern"],
)
def test_anything_else_is_no_consent(given: str) -> None:
    (found,) = consent.objections(DRIVE, Consent(identity=given))

    assert f"the given identity {given!r} is not its own" in found.reason
    assert found.option == ()  # nothing to paste: first be sure which drive it is


def test_a_name_that_other_drives_share_is_no_consent_and_is_named_as_such() -> None:
    shared = "naa.5000000000000016"
    drive = DRIVE.model_copy(
        update={"id": "serial.Flash_X.S1", "facts": {f"{NOT_USED}{shared}": "it is a filler"}}
    )

    (found,) = consent.objections(drive, Consent(identity=shared))

    assert found.reason == (
        f"the given identity '{shared}' is not enough: it is a filler; its own is "
        "'serial.Flash_X.S1'"
    )


def test_without_consent_the_user_is_told_what_to_type() -> None:
    with pytest.raises(TargetRefused, match="refusing to erase it without --destroy") as refusal:
        refuse(DRIVE.name, consent.objections(DRIVE, Consent()))

    assert refusal.value.exit_code == 3
    assert refusal.value.options == ("--destroy", DRIVE.id)
    assert "--destroy 'loop:/srv/my disk.img:1048576'" in refusal.value.hint


@pytest.mark.parametrize("kind", [TargetKind.SIMULATED, TargetKind.FILE])
def test_what_holds_nothing_of_the_users_needs_no_consent(kind: TargetKind) -> None:
    assert consent.objections(DRIVE.model_copy(update={"kind": kind}), Consent()) == []


LAB = DRIVE.model_copy(update={"kind": TargetKind.VIRTUAL, "serial": "SSDBENCH-LAB-0"})


@pytest.mark.parametrize(
    ("environment", "serial", "listed"),
    [
        ({}, "SSDBENCH-LAB-0", "SSDBENCH-LAB-0"),
        ({"SSDBENCH_LAB": "1"}, "S4EVNX", "S4EVNX"),
        ({"SSDBENCH_LAB": "1"}, "SSDBENCH-LAB-0", "SSDBENCH-LAB-1"),
        ({"SSDBENCH_LAB": "1"}, "SSDBENCH-LAB-0", None),
    ],
    ids=["not-in-the-lab", "a-real-serial", "another-disk", "no-list"],
)
def test_each_sign_of_the_lab_is_needed(
    tmp_path: Path, environment: dict[str, str], serial: str, listed: str | None
) -> None:
    disks = tmp_path / "disks.json"
    if listed is not None:
        disks.write_text(json.dumps([{"serial": listed}]))
    info = LAB.model_copy(update={"serial": serial})

    assert not consent.implied(info, environment=environment, disks=disks)


def test_a_disk_of_the_lab_needs_no_consent(tmp_path: Path) -> None:
    (tmp_path / "disks.json").write_text('[{"serial": "SSDBENCH-LAB-0"}]')

    assert consent.implied(LAB, environment={"SSDBENCH_LAB": "1"}, disks=tmp_path / "disks.json")


def test_the_identity_of_another_drive_is_named_as_such() -> None:
    (found,) = consent.objections(DRIVE, Consent(identity="naa.5"), others={"naa.5": "/dev/sdb"})

    assert "the given identity 'naa.5' belongs to /dev/sdb; its own is" in found.reason


@pytest.mark.parametrize(
    ("tb", "endurance", "needed"),
    [(1, 1000, False), (10, 1000, False), (10.1, 1000, True), (1, None, True), (0, None, False)],
)
def test_wear_above_a_hundredth_or_unknown_needs_consent(
    tb: float, endurance: float | None, *, needed: bool
) -> None:
    drive = DRIVE.model_copy(update={"kind": TargetKind.DRIVE})
    wear = Wear(int(tb * 10**12), endurance)

    assert wear.needs_consent is needed
    assert consent.wear_objections(drive, wear, Consent(wear=True)) == []
    # A loop device has no flash.
    assert consent.wear_objections(DRIVE, wear, Consent()) == []
    options = [o.option for o in consent.wear_objections(drive, wear, Consent())]
    assert options == ([("--accept-wear",)] if needed else [])
