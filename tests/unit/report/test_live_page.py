"""The page that follows a run, open in Chromium from the disk while the run measures."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import html5lib
import pytest

from ssdbench.cli.livepage import LivePage
from ssdbench.engine.events import RunStarted
from ssdbench.model.result import RunResult
from ssdbench.report import live, write
from ssdbench.report.live import Course
from ssdbench.report.read import StoredRun
from tests.support.chromium import PHONE, Browser, BrowserFailed
from tests.unit.cli.test_livepage import AT_WORK, STARTED, SWEEP
from tests.unit.cli.test_run import LONG
from tests.unit.report.test_page_proof import require_no_fault

# The pauses are shortened, so that the test need not wait for half a minute.
QUICK = """
import sys
from ssdbench.cli import livepage, main
livepage.EVERY_S, livepage.COST_TIMES = 1.0, 10
sys.exit(main.run(sys.argv[1:]))
"""
WITHIN_S = 120.0
SCROLLED = 260
LOOK = """(() => ({written: document.getElementById("live")?.dataset.written ?? "",
  y: scrollY, open: document.querySelector("#findings details")?.open,
  stage: document.querySelector("#course dd")?.textContent ?? "",
  age: document.getElementById("age")?.textContent,
  curve: document.querySelector("polygon")?.getAttribute("points") ?? ""}))()"""


def seen(page: Browser, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Wait until the page shows what is wanted; nothing but the page itself loads it again."""
    until_s = time.monotonic() + WITHIN_S
    while time.monotonic() < until_s:
        try:
            found: dict[str, Any] = page.evaluate(LOOK)
            if wanted(found):
                return found
        except BrowserFailed:  # it is between two pages
            pass
        time.sleep(0.1)
    pytest.fail(f"the page never showed it; now: {page.evaluate(LOOK)}")


def _newer(old: dict[str, Any], now: dict[str, Any]) -> bool:
    return now["written"] > old["written"] and now["curve"] not in ("", old["curve"])


def _newer_at_its_place(old: dict[str, Any], now: dict[str, Any]) -> bool:
    # A busy browser may be asked between the loading of a page and the end of its script.
    return _newer(old, now) and (now["y"], now["open"]) == (SCROLLED, True)


def test_an_open_page_follows_a_run_keeps_its_place_and_ends_at_the_report(
    tmp_path: Path, chromium: Browser
) -> None:
    (tmp_path / "long.yaml").write_text(LONG.replace("seppanen, max_time: 60s", "pss"))
    path = tmp_path / "out" / "live.html"
    argv = [sys.executable, "-c", QUICK, "run", str(tmp_path / "long.yaml"), "--output",
            str(path.parent), "--page"]  # fmt: skip
    with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as process:
        try:
            until_s = time.monotonic() + WITHIN_S
            while not (path.exists() and "RUNNING" in path.read_text()):
                assert time.monotonic() < until_s
                time.sleep(0.05)
            chromium.open(path, PHONE)
            assert (chromium.asked, chromium.refused) == ([], [])
            first = seen(chromium, lambda now: bool(now["curve"]))
            assert " of 3: " in first["stage"]

            chromium.evaluate(f"scrollTo(0, {SCROLLED})")
            chromium.evaluate("document.querySelector('#findings details').open = true")
            for _ in range(2):
                first = seen(chromium, partial(_newer_at_its_place, first))

            process.send_signal(signal.SIGINT)
            process.wait(WITHIN_S)
            seen(chromium, lambda now: not now["written"])
            assert path.read_bytes() == path.with_name("report.html").read_bytes()
            chromium.evaluate("window.mark = 1")
            time.sleep(2.5)
            assert chromium.evaluate("window.mark") == 1  # the report is not loaded again
        finally:
            process.kill()


def test_a_page_that_nobody_writes_any_more_says_how_old_it_is(
    tmp_path: Path, chromium: Browser
) -> None:
    page = LivePage(tmp_path, wanted=True)
    for event in (replace(STARTED, directory=tmp_path), SWEEP, AT_WORK):
        page.see(event)
    path = tmp_path / "live.html"
    written = path.read_text().partition('data-written="')[2].partition('"')[0]
    path.write_text(path.read_text().replace(written, str(int(written) - 600_000)))
    chromium.open(path, PHONE)

    shown = seen(chromium, lambda now: "60" in now["age"])
    assert "Last written 60" in shown["age"]
    assert "NO NEWS" in (told := chromium.evaluate("document.getElementById('live').innerText"))
    assert f"ssdbench resume {tmp_path}" in told


def test_a_page_of_a_run_in_progress_is_strict_silent_and_for_every_reader(
    tmp_path: Path, chromium: Browser, full_run: tuple[Path, RunResult, str]
) -> None:
    directory, result, _ = full_run
    course = Course(RunStarted("r1", directory, result.target, ()))
    course.see(SWEEP)
    for second in range(50):
        course.see(replace(AT_WORK, ran_s=float(second)))
    course.take(result)
    whole = live.frame(course, write.page(StoredRun(directory, result)), every_s=1000.0)
    page = tmp_path / "live.html"
    page.write_text(whole.replace(live.STATE, live.state(course, every_s=1000.0)))

    html5lib.HTMLParser(strict=True).parse(page.read_text())
    require_no_fault(page, chromium)
