"""Test that every kind of stage has facts, a result, a key in profiles, a page and tests."""

import re
from pathlib import Path
from typing import get_args

import pytest

from ssdbench.model.found import AnyFound
from ssdbench.model.kind import KINDS, StageKind
from ssdbench.model.profile import spec
from ssdbench.model.profile.spec import MeasuredStage

ROOT = Path(__file__).parents[3]
PREPARING = {StageKind.PURGE, StageKind.PRECONDITION, StageKind.STEADY}


def kinds_of(found: type) -> set[StageKind]:
    return set(get_args(found.model_fields["kind"].annotation))  # type: ignore[attr-defined]


def test_every_kind_has_a_row_in_the_table() -> None:
    assert set(KINDS) == set(StageKind)


def test_every_kind_has_exactly_one_type_of_result() -> None:
    named = [kind for found in get_args(AnyFound) for kind in kinds_of(found)]

    assert sorted(named) == sorted(StageKind)


def test_every_kind_that_measures_can_be_asked_for_in_a_profile() -> None:
    wanted = {stage.kind for stage in get_args(MeasuredStage)}

    assert wanted == set(StageKind) - PREPARING
    assert all(issubclass(stage, spec.HostTrial) or stage.kind for stage in get_args(MeasuredStage))


@pytest.mark.parametrize("kind", sorted(set(StageKind) - PREPARING))
def test_every_kind_is_run_by_a_test(kind: StageKind) -> None:
    """A test asks for the kind as a profile does, or names it as the code does."""
    key = "filesystems" if kind is StageKind.FILESYSTEM else kind.value
    asked_for = re.compile(rf"[-{{\[] *{key}: *[{{\n]|StageKind\.{kind.name}\b")
    tests = [p for p in (ROOT / "tests").rglob("test_*.py") if p.name != Path(__file__).name]

    assert [p.name for p in tests if asked_for.search(p.read_text())]
