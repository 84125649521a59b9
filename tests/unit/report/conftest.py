from pathlib import Path

import pytest

from ssdbench.model.result import RunResult
from ssdbench.report import render
from tests.support.builders import a_full_run


@pytest.fixture(scope="session")
def full_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunResult, str]:
    """A run with every kind of stage, rendered once: directory, result and page."""
    directory = tmp_path_factory.mktemp("full-run")
    result = a_full_run(directory)
    render(directory)
    return directory, result, (directory / "report.html").read_text(encoding="utf-8")
