"""Test the LBA format that a profile or a command line asks for."""

import pytest

from ssdbench.errors import ProfileError, UsageError
from ssdbench.model.fitting import misfits
from ssdbench.model.loading import load_profile
from ssdbench.model.target import LbaFormat, TargetInfo, TargetKind, asked_format

OFFERED = ("512+0", "512+8", "4096+0")


def drive(**changes: object) -> TargetInfo:
    return TargetInfo(
        kind=TargetKind.DRIVE, name="/dev/nvme0n1", node="/dev/nvme0n1", id="eui.1",
        size_bytes=1_000_000 * 512, logical_block_bytes=512, physical_block_bytes=512,
        lba_format=LbaFormat(data=512), lba_formats=OFFERED,
    ).model_copy(update=changes)  # fmt: skip


def test_a_size_is_a_format_without_metadata() -> None:
    profile = load_profile("purge: format\nlba_format: 4KiB\n", "p.yaml")

    assert profile.lba_format == LbaFormat(data=4096)
    assert misfits(profile, drive()) == []


def test_a_format_that_the_drive_has_not_is_refused_with_those_that_it_has() -> None:
    profile = load_profile("purge: format\nlba_format: {data: 4096, metadata: 8}\n", "p.yaml")

    (path, said), *_ = misfits(profile, drive())

    assert path == ("lba_format",)
    assert said.endswith("has no LBA format 4096+8; it offers 512+0, 512+8, 4096+0")


def test_a_drive_without_a_choice_is_said_to_have_none() -> None:
    profile = load_profile("purge: format\nlba_format: 4KiB\n", "p.yaml")

    (_, said), *_ = misfits(profile, drive(lba_format=None, lba_formats=()))

    assert "offers no choice of LBA formats" in said


def test_blocks_below_the_new_logical_block_do_not_fit() -> None:
    text = "purge: format\nlba_format: 4KiB\nmeasure: [{sweep: {block: 512}}]\n"

    found = misfits(load_profile(text, "p.yaml"), drive())

    assert any("logical block of 4 KiB" in said for _, said in found)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lba_format: 4KiB\n", "only `purge: format` changes the LBA format"),
        ("purge: format\nlba_format: {data: 512, protection: 1}\n", "needs 8 bytes of metadata"),
    ],
)
def test_a_format_that_cannot_be_is_told_where_it_stands(text: str, words: str) -> None:
    with pytest.raises(ProfileError, match=words):
        load_profile(text, "p.yaml")


def test_a_target_is_read_as_it_was_stored() -> None:
    assert TargetInfo.model_validate_json(drive().model_dump_json()) == drive()


def test_a_plan_expects_what_fits_with_the_new_metadata() -> None:
    info = drive().formatted(LbaFormat(data=4096))
    assert (info.size_bytes, info.logical_block_bytes) == (125_000 * 4096, 4096)

    info = drive().formatted(LbaFormat(data=512, metadata=8, protection=1))
    assert info.size_bytes == 1_000_000 * 512 // 520 * 512


@pytest.mark.parametrize("sizes", ["", "x", "4096+y", "0", "512+-8"])
def test_what_is_no_format_is_refused(sizes: str) -> None:
    with pytest.raises(UsageError, match="is not an LBA format"):
        asked_format(sizes)


def test_a_format_of_a_command_line_reads_as_drives_say_it() -> None:
    assert asked_format("512+8", 1) == LbaFormat(data=512, metadata=8, protection=1)
    assert asked_format("4KiB").sizes == "4096+0"
