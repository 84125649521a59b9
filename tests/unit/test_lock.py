"""The lock files: every package that is asked for, pinned and hashed, from no particular place."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCKS = sorted((ROOT / "locks").glob("*.txt"))
PYTHONS = ["3.11", "3.12", "3.13"]


def pins(lock: Path) -> Iterator[tuple[Requirement, list[str]]]:
    """Each pinned package, with its hashes."""
    joined = re.sub(r"\\\n", " ", lock.read_text())
    for line in joined.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            requirement, *hashes = line.split("--hash=")
            yield Requirement(requirement), [found.strip() for found in hashes]


def asked(group: str) -> Iterator[Requirement]:
    """What pyproject.toml asks for: ssdbench's own needs and those of a dependency group."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())

    def members(name: str) -> Iterator[str]:
        for member in project["dependency-groups"][name]:
            if isinstance(member, dict):
                yield from members(member["include-group"])
            else:
                yield member

    yield from map(Requirement, project["project"]["dependencies"])
    yield from map(Requirement, project["project"]["optional-dependencies"]["duckdb"])
    yield from map(Requirement, members(group))


def test_the_locks_are_those_that_nox_renews() -> None:
    assert [lock.name for lock in LOCKS] == ["dev.txt", "run.txt"]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_every_pin_has_hashes_and_no_pin_has_a_place(lock: Path) -> None:
    assert "://" not in lock.read_text()
    assert not re.search(r"^\s*-", re.sub(r"\\\n", " ", lock.read_text()), re.MULTILINE)
    for pin, hashes in pins(lock):
        assert [specifier.operator for specifier in pin.specifier] == ["=="], pin
        assert hashes, pin
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", found) for found in hashes), pin


def test_users_get_the_versions_that_are_tested() -> None:
    tested = {(pin.name, str(pin.specifier)) for pin, _ in pins(ROOT / "locks" / "dev.txt")}
    shipped = {(pin.name, str(pin.specifier)) for pin, _ in pins(ROOT / "locks" / "run.txt")}

    assert shipped - tested == set(), "renew the locks: nox -s lock"
    assert len(shipped) < len(tested)


@pytest.mark.parametrize("python", PYTHONS)
def test_what_pyproject_asks_for_is_locked_once_for_each_python(python: str) -> None:
    environment = {"python_version": python, "python_full_version": f"{python}.0"}
    locked = [
        pin
        for pin, _ in pins(ROOT / "locks" / "dev.txt")
        if pin.marker is None or pin.marker.evaluate(environment)
    ]
    versions = {canonicalize_name(pin.name): next(iter(pin.specifier)).version for pin in locked}

    assert len(versions) == len(locked)
    assert [
        str(wanted)
        for wanted in asked("dev")
        if not wanted.specifier.contains(versions.get(canonicalize_name(wanted.name), "0"))
    ] == [], "renew the lock: nox -s lock"
