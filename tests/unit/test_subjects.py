"""Subjects of commits: an area, an order, at most 72 characters, since the last release."""

import subprocess
from pathlib import Path

import pytest

from release.subjects import since_release, wrong


@pytest.mark.parametrize(
    "subject",
    [
        "docs: add a page about volumes",
        "stats, report: tell the slowest phase",
        "ssdbench/host: process names as the kernel gives them",
        "noxfile: feed " + "x" * 58,
    ],
)
def test_an_area_and_an_order_are_right(subject: str) -> None:
    assert wrong(subject) == ""


@pytest.mark.parametrize(
    ("subject", "why"),
    [
        ("add a page about volumes", "`area: verb`"),
        ("Docs: add a page", "`area: verb`"),
        ("docs: a page about volumes", "'a' is not an order"),
        ("docs: adds a page", "'adds' is not an order"),
        ("docs: added a page", "'added' is not an order"),
        ("docs: adding a page", "'adding' is not an order"),
        ("docs: Add a page", "'Add' is not an order"),
        ("docs: 517 tests of xfstests", "'517' is not an order"),
        ("noxfile: feed " + "x" * 59, "73 characters, 72 are allowed"),
    ],
)
def test_what_is_wrong_with_a_subject_is_said(subject: str, why: str) -> None:
    assert why in wrong(subject)


def commit(clone: Path, *subjects: str, tag: str = "") -> None:
    options = ["-c", "user.name=a", "-c", "user.email=a@localhost", "-c", "commit.gpgsign=false"]
    for subject in subjects:
        argv = ["git", *options, "commit", "-q", "--allow-empty", "-m", subject]
        subprocess.run(argv, cwd=clone, check=True)
    if tag:
        subprocess.run(["git", "tag", tag], cwd=clone, check=True)


def test_only_commits_since_the_last_release_count(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    commit(tmp_path, "A page", "release: 1.0.0", "docs: add a page")
    named = [subject for _, subject in since_release(tmp_path)]
    commit(tmp_path, "Another page", tag="v1.1.0")
    commit(tmp_path, "docs: add a third page")
    tagged = [subject for _, subject in since_release(tmp_path)]

    assert named == ["docs: add a page"]
    assert tagged == ["docs: add a third page"]


def test_a_short_history_and_none_are_no_mistake(tmp_path: Path) -> None:
    whole, short, bare = tmp_path / "whole", tmp_path / "short", tmp_path / "bare"
    bare.mkdir()
    subprocess.run(["git", "init", "-q", str(whole)], check=True)
    commit(whole, "A page", "release: 1.0.0", "docs: add a page", "docs: add another")
    subprocess.run(["git", "clone", "-q", "--depth", "1", whole.as_uri(), str(short)], check=True)

    assert [subject for _, subject in since_release(short)] == ["docs: add another"]
    assert list(since_release(bare)) == []
