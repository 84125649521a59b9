"""The pure parts of ssdb_bpref, built for user space with the sanitizers and run case by case."""

import subprocess
from pathlib import Path

import pytest

from tests.support.sanitized import of_kmod


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return of_kmod("bpref_test", tmp_path_factory.mktemp("bpref"))


def test_the_schedulers_decide_as_their_documents_say(program: Path) -> None:
    cases = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()

    outcomes = {
        case: subprocess.run([program, case], capture_output=True, text=True, check=False)
        for case in cases
    }

    assert len(cases) == 16
    assert {case: done.stderr for case, done in outcomes.items() if done.returncode} == {}


def test_a_case_that_does_not_exist_is_no_success(program: Path) -> None:
    assert subprocess.run([program, "none"], check=False).returncode == 2
