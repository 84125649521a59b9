import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from benchmarks.gallery import a_browser
from ssdbench.cli import main
from ssdbench.errors import HostLacks
from ssdbench.model.result import RunResult
from ssdbench.report import render
from tests.support.builders import a_full_run
from tests.support.chromium import Browser, browser
from tests.support.page_runs import a_page_run

VERSION = re.compile(r"(Made by ssdbench |content=\"ssdbench )[0-9][^ \"]*")


@pytest.fixture(scope="session")
def full_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunResult, str]:
    """A run with every kind of stage, rendered once: directory, result and page."""
    directory = tmp_path_factory.mktemp("full-run")
    result = a_full_run(directory)
    render(directory)
    return directory, result, (directory / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def page_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The pages of the stored runs, each rendered once; their version is none of a release."""
    place, pages = tmp_path_factory.mktemp("pages"), dict[str, Path]()

    def page(name: str) -> Path:
        if name not in pages:
            directory = a_page_run(name, place / name)
            assert main.run(["report", str(directory)]) == 0
            pages[name] = directory / "report.html"
            text = VERSION.sub(r"\1VERSION", pages[name].read_text(encoding="utf-8"))
            pages[name].write_text(text, encoding="utf-8")
        return pages[name]

    return page


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """A page in a browser; without one a test says what it did not look at."""
    try:
        program = a_browser()
    except HostLacks as error:
        lacking(f"NO PAGE WAS LOOKED AT: {error.message}")
    with browser(program) as page:
        yield page


def lacking(told: str) -> NoReturn:
    """Say loudly what was not done; it is a failure where it is required."""
    if "browser" in os.environ.get("SSDBENCH_REQUIRE", "").split(","):
        pytest.fail(told)
    pytest.skip(told)
