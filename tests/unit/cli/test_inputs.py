"""Which file a profile's name means, and what is said of files that are none."""

from pathlib import Path

import pytest

from ssdbench.cli.inputs import find_profile, installed_profiles, read_profile
from ssdbench.errors import UsageError


def refusal(name: str) -> str:
    with pytest.raises(UsageError) as caught:
        read_profile(name)
    return f"{caught.value.message} {caught.value.hint}"


def test_a_shipped_profile_is_found_by_its_name() -> None:
    assert find_profile("demo").name == "demo.yaml"
    assert {"demo", "quick", "pessimistic"} <= set(installed_profiles())


def test_the_users_own_profile_goes_before_the_shipped_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "ssdbench" / "demo.yaml"
    own.parent.mkdir()
    own.write_text("title: mine")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    profile, text = read_profile("demo")

    assert (profile.title, text) == ("mine", "title: mine")


def test_an_unknown_name_lists_the_known_ones() -> None:
    assert "no profile 'dmo'" in refusal("dmo")
    assert "demo" in refusal("dmo")


def test_a_missing_file_is_said_so(tmp_path: Path) -> None:
    assert f"there is no profile {tmp_path}/x.yaml" in refusal(f"{tmp_path}/x.yaml")


def test_a_directory_is_no_profile(tmp_path: Path) -> None:
    assert "is a directory" in refusal(str(tmp_path))


def test_a_directory_of_the_same_name_does_not_hide_a_shipped_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path)

    assert find_profile("demo").name == "demo.yaml"
    assert "mine is a directory, not a profile" in refusal("mine")


def test_bytes_that_are_no_text_are_shown_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_bytes(b"title: a\nplan: \xff\n")

    assert f"{path}:2:1: a byte that is not UTF-8" in refusal(str(path))


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_bytes(b"#" * (2 << 20))

    assert "larger than 64 KiB" in refusal(str(path))


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_bytes(b"\xef\xbb\xbftitle: a\n")

    assert read_profile(str(path))[0].title == "a"
