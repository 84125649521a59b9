"""What `run` notices that has changed since `plan`."""

from pathlib import Path

import pytest

from ssdbench.model.target import TargetInfo, TargetKind
from ssdbench.target.planned import Planned

DRIVE = TargetInfo(
    kind=TargetKind.DRIVE,
    name="/dev/nvme0n1",
    node="/dev/nvme0n1",
    id="eui.0025385b91b0a4d2",
    size_bytes=1 << 30,
    model="M",
    serial="S",
    firmware="1",
    facts={"LBA format": "0: 512 bytes, 0 bytes of metadata", "temperature": "35 °C"},
)
PLAN = Planned(profile_sha256="00", target=DRIVE, signatures=("gpt",))


def changed(**update: object) -> Planned:
    return PLAN.model_copy(update={"target": DRIVE.model_copy(update=update)})


def test_a_drive_that_only_became_warmer_is_unchanged() -> None:
    assert PLAN.changes(changed(facts={**DRIVE.facts, "temperature": "40 °C"})) == []


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (changed(id="eui.1"), "the identity was eui.0025385b91b0a4d2"),
        (changed(size_bytes=1 << 29), "is now 536870912"),
        (changed(firmware="2"), "the firmware was 1 when it was planned and is now 2"),
        (changed(logical_block_bytes=4096), "the logical block in bytes was 512"),
        (changed(facts={"LBA format": "1: 4096 bytes"}), "the LBA format was 0: 512 bytes"),
        (PLAN.model_copy(update={"signatures": ()}), "its signatures were gpt"),
        (PLAN.model_copy(update={"signatures": ("ext4",)}), "and are now ext4"),
        (PLAN.model_copy(update={"partitions": ("sda1",)}), "its partitions were none"),
        (PLAN.model_copy(update={"profile_sha256": "11"}), "the profile is not the one"),
    ],
    ids=["identity", "size", "firmware", "block", "format", "wiped", "formatted", "partitioned",
         "profile"],
)  # fmt: skip
def test_each_change_is_a_sentence(now: Planned, said: str) -> None:
    (sentence,) = PLAN.changes(now)

    assert said in sentence


def test_everything_that_changed_is_said_at_once() -> None:
    assert len(PLAN.changes(changed(id="eui.1", size_bytes=1, serial="T"))) == 3


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(PLAN.model_dump_json())

    assert Planned.model_validate_json((tmp_path / "plan.json").read_text()) == PLAN
