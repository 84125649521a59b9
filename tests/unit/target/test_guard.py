"""Why a target must not be overwritten: every reason, at once, and closed in doubt."""

import errno
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ssdbench.errors import HostLacks, TargetRefused
from ssdbench.host.procfs import Mount, Opener
from ssdbench.host.sysfs import Sysfs
from ssdbench.model.target import Consent, TargetInfo, TargetKind
from ssdbench.target import guard, surroundings
from ssdbench.target.objection import Objection, refuse


@dataclass
class FakeHost:
    """A host that answers as told; an answer that is an exception is raised."""

    answers: dict[str, Any] = field(default_factory=dict)

    def _answer(self, question: str, default: Any) -> Any:
        answer = self.answers.get(question, default)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def partitions(self) -> list[str]:
        return list(self._answer("partitions", []))

    def holders(self) -> list[str]:
        return list(self._answer("holders", []))

    def beside(self) -> list[str]:
        return list(self._answer("beside", []))

    def users(self) -> list[str]:
        return list(self._answer("users", []))

    def mounts(self) -> list[Mount]:
        return list(self._answer("mounts", []))

    def mounted_writes(self) -> str:
        return "this kernel refuses writes to mounted devices, too"

    def swap_areas(self) -> list[str]:
        return list(self._answer("swap_areas", []))

    def openers(self) -> list[Opener]:
        return list(self._answer("openers", []))

    def holds_system(self) -> bool:
        return bool(self._answer("holds_system", False))

    def read_only(self) -> list[str]:
        return list(self._answer("read_only", []))

    def claimed(self) -> bool:
        return bool(self._answer("claimed", False))

    def signatures(self) -> list[str]:
        return list(self._answer("signatures", []))

    def zoned(self) -> bool:
        return bool(self._answer("zoned", False))

    def fabric(self) -> str:
        return str(self._answer("fabric", ""))

    def other_paths(self) -> list[str]:
        return list(self._answer("other_paths", []))

    def shared(self) -> bool:
        return bool(self._answer("shared", False))

    def locked(self) -> list[str]:
        return list(self._answer("locked", []))


LOOP = TargetInfo(
    kind=TargetKind.LOOP, name="/dev/loop0", node="/dev/loop0", id="loop:/x:1", size_bytes=1 << 20
)
IN_USE: dict[str, tuple[Any, str]] = {
    "partitions": (["loop0p1"], "it has partitions: loop0p1"),
    "holders": (["dm-3"], "it is in use by /dev/dm-3"),
    "beside": (["dm-4"], "it is in use by /dev/dm-4, which shares bytes or space with it"),
    "users": (["bcache has /dev/loop0 registered"], "bcache has /dev/loop0 registered"),
    "mounts": ([Mount("7:0", "/srv", "ext4", "/dev/loop0")], "is mounted on /srv"),
    "swap_areas": (["/dev/loop0p2"], "the kernel swaps to /dev/loop0p2"),
    "openers": ([Opener(42, "qemu")], "process 42 (qemu) has it open"),
    "holds_system": (True, "it holds the running system"),
    "read_only": (["loop0"], "it is read-only"),
    "claimed": (True, "has claimed it"),
    "signatures": (["LVM2_member"], "it holds the signature of LVM2_member"),
    "zoned": (True, "it is zoned"),
    "fabric": ("NVMe over tcp", "it is reached over a network (NVMe over tcp)"),
    "other_paths": (["sdb"], "other live paths lead to it: sdb"),
    "shared": (True, "may be attached to other controllers"),
    "locked": (["it is locked (ATA security)"], "it is locked (ATA security)"),
}


def reasons(host: FakeHost, info: TargetInfo = LOOP) -> list[str]:
    return [o.reason for o in guard.objections(info, host)]


def test_an_idle_empty_device_may_be_overwritten() -> None:
    assert guard.objections(LOOP, FakeHost()) == []


@pytest.mark.parametrize("question", IN_USE)
def test_each_use_of_a_device_is_a_reason(question: str) -> None:
    answer, reason = IN_USE[question]

    (found,) = reasons(FakeHost({question: answer}))

    assert reason in found


def test_zones_that_can_be_filled_are_no_reason() -> None:
    info = LOOP.model_copy(update={"zone_bytes": 1 << 20})

    assert reasons(FakeHost({"zoned": True}), info) == []


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ("3 of 4 MiB, 1 of them conventional", "it is zoned, and its zones are not all alike"),
        ("not read: Permission denied", "it is zoned, and its zones were not read: Permission"),
    ],
)
def test_zones_that_could_not_be_read_are_no_unlike_ones(told: str, why: str) -> None:
    info = LOOP.model_copy(update={"facts": {"zones": told}})

    (found,) = reasons(FakeHost({"zoned": True}), info)
    assert found.startswith(why)


def test_all_reasons_come_at_once() -> None:
    host = FakeHost({question: answer for question, (answer, _) in IN_USE.items()})

    assert len(reasons(host)) == len(IN_USE)


@pytest.mark.parametrize("question", IN_USE)
@pytest.mark.parametrize(
    "failure",
    [OSError(errno.EIO, "Input/output error"), HostLacks("wipefs is not installed")],
    ids=["io-error", "tool-missing"],
)
def test_a_question_without_an_answer_is_a_reason(question: str, failure: Exception) -> None:
    (found,) = reasons(FakeHost({question: failure}))

    assert "cannot tell " in found


def test_udev_looking_at_a_device_is_no_reason() -> None:
    assert reasons(FakeHost({"openers": [Opener(9, "(udev-worker)")]})) == []


@pytest.mark.parametrize("kind", [TargetKind.DRIVE, TargetKind.MAPPED, TargetKind.VIRTUAL])
def test_an_idle_drive_may_be_overwritten(kind: TargetKind) -> None:
    assert reasons(FakeHost(), LOOP.model_copy(update={"kind": kind})) == []


def still(found: Sequence[Objection], *, overwrite: bool = False, shared: bool = False) -> None:
    """Refuse what these two options leave."""
    left = guard.remaining(found, Consent(overwrite=overwrite, shared=shared))
    refuse(LOOP.name, left)


def test_a_choice_of_path_does_not_override_a_signature() -> None:
    found = guard.objections(LOOP, FakeHost({"other_paths": ["sdb"], "signatures": ["gpt"]}))

    still(found, overwrite=True, shared=True)
    with pytest.raises(TargetRefused, match="signature") as refusal:
        still(found, shared=True)
    assert refusal.value.options == ("--overwrite-signatures",)
    with pytest.raises(TargetRefused, match="paths") as refusal:
        still(found, overwrite=True)
    assert refusal.value.options == ("--accept-shared",)


def test_a_reader_without_a_medium_is_refused() -> None:
    assert reasons(FakeHost(), LOOP.model_copy(update={"size_bytes": 0})) == [
        "it has no medium: its size is 0"
    ]


def test_only_signatures_and_partitions_can_be_overridden() -> None:
    soft = guard.objections(LOOP, FakeHost({"signatures": ["gpt"], "partitions": ["loop0p1"]}))
    hard = guard.objections(LOOP, FakeHost({"signatures": ["gpt"], "claimed": True}))

    still(soft, overwrite=True)
    with pytest.raises(TargetRefused) as refusal:
        still(soft)
    assert "--overwrite-signatures" in refusal.value.hint
    with pytest.raises(TargetRefused) as refusal:
        still(hard, overwrite=True)
    assert len(refusal.value.reasons) == 1
    assert refusal.value.options == ()


def test_a_simulated_drive_needs_no_guard() -> None:
    guard.check(LOOP.model_copy(update={"kind": TargetKind.SIMULATED}))


def test_a_device_that_is_gone_is_refused() -> None:
    gone = LOOP.model_copy(update={"node": "/dev/absent", "major_minor": "499:7"})

    with pytest.raises(TargetRefused) as refusal:
        guard.check(gone)
    assert refusal.value.reasons == ("it is gone",)


@pytest.mark.parametrize(
    ("release", "cmdline", "config", "said"),
    [
        ("6.7.12-amd64", "quiet", None, ""),
        ("6.1.0-40-amd64", "bdev_allow_write_mounted=0", None, ""),
        ("6.8.0-31-generic", "quiet", "CONFIG_BLK_DEV_WRITE_MOUNTED=y", "started with"),
        ("6.12.9", "quiet", "# CONFIG_BLK_DEV_WRITE_MOUNTED is not set", "this kernel refuses"),
        ("6.18.44", "ro bdev_allow_write_mounted=0 quiet", None, "this kernel refuses"),
        ("7.0.1", "bdev_allow_write_mounted=y", "# CONFIG_BLK_DEV_WRITE_MOUNTED is not set",
         "started with"),
    ],
)  # fmt: skip
def test_the_kernels_own_refusal_is_named_since_6_8(
    tmp_path: Path, release: str, cmdline: str, config: str | None, said: str
) -> None:
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "boot").mkdir()
    (tmp_path / "proc/sys/kernel/osrelease").write_text(f"{release}\n")
    (tmp_path / "proc/cmdline").write_text(f"{cmdline}\n")
    if config is not None:
        (tmp_path / f"boot/config-{release}").write_text(f"CONFIG_BLOCK=y\n{config}\n")

    told = surroundings.mounted_writes(Sysfs(tmp_path))

    assert told.startswith(said) and bool(told) == bool(said)


def test_the_advice_about_a_mount_says_what_the_kernel_does() -> None:
    host = FakeHost({"mounts": [Mount("7:0", "/srv", "ext4", "/dev/loop0")]})

    (found,) = guard.objections(LOOP, host)

    assert found.remedy == "unmount it (this kernel refuses writes to mounted devices, too)"
