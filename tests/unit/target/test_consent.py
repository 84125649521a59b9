"""Consent is for one target, exactly."""

import pytest

from ssdbench.errors import TargetRefused
from ssdbench.model.target import TargetInfo, TargetKind
from ssdbench.target import consent

DRIVE = TargetInfo(
    kind=TargetKind.LOOP,
    name="/dev/loop0",
    node="/dev/loop0",
    id="loop:/srv/my disk.img:1048576",
    size_bytes=1 << 20,
)


def test_the_exact_identity_is_consent() -> None:
    consent.require(DRIVE, DRIVE.id)


@pytest.mark.parametrize(
    "given",
    ["", " ", DRIVE.id[:-1], f" {DRIVE.id}", DRIVE.id.upper(), "/dev/loop0", "*"],
    ids=["empty", "blank", "part", "padded", "case", "node", "pattern"],
)
def test_anything_else_is_no_consent(given: str) -> None:
    with pytest.raises(TargetRefused, match="--destroy names"):
        consent.require(DRIVE, given)


def test_without_consent_the_user_is_told_what_to_type() -> None:
    with pytest.raises(TargetRefused, match="nobody has agreed") as refusal:
        consent.require(DRIVE, None)

    assert refusal.value.exit_code == 3
    assert "--destroy 'loop:/srv/my disk.img:1048576'" in refusal.value.hint


@pytest.mark.parametrize("kind", [TargetKind.SIMULATED, TargetKind.FILE])
def test_what_holds_nothing_of_the_users_needs_no_consent(kind: TargetKind) -> None:
    consent.require(DRIVE.model_copy(update={"kind": kind}), None)
