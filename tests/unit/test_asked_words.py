"""What the programs of developers do with a word that they do not know: name it, and the others."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import blktests, kernel_table, page_runs
from benchmarks.kernel import __main__ as experiments
from ssdbench.host.command import run
from tests.vm import coccicheck, debug_kernel

NOXFILE = Path(__file__).parents[2] / "noxfile.py"


def plain(said: str) -> str:
    """Without line breaks, and the quotes that not every version of Python has."""
    return " ".join(said.replace("'", "").split())


@pytest.mark.parametrize(
    ("main", "words", "told"),
    [
        (kernel_table.main, ["nope"], "no kernel nope in the lab; it has 6.1, 6.1-rt, 6.12, "),
        (kernel_table.main, ["6.18=/dev/null"], "there is no kernel tree in /dev/null"),
        (kernel_table.main, ["mine=/"], "mine=/: NAME begins with the series, such as 6.18"),
        (debug_kernel.wished, ["nope"], "nope (choose from kasan, kcsan)"),
        (debug_kernel.wished, ["kasan", "6.5"], "6.5 (choose from 6.12, 6.12-rt, "),
        (debug_kernel.wished, ["6.1", "6.12"], "unrecognized arguments: 6.12"),
        (debug_kernel.wished, ["kcsan", "6.1-um"], "a kernel in user mode has no kcsan"),
        (coccicheck.main, ["nope"], "nope (choose from 6.1, 6.12)"),
        (page_runs.main, ["nope"], "no run nope; there are: demo, points, "),
        (blktests.main, ["CLONE", "--kernel", "nope"], "nope (choose from 6.1, 6.1-rt, "),
        (blktests.main, ["CLONE", "block/009"], "no test block/009 for one drive"),
        (experiments.main, ["slam", "--kernel", "nope"], "invalid choice: nope (choose from 6.1, "),
    ],
)
def test_a_word_that_is_not_known_ends_with_2_and_a_sentence(
    main: Callable[..., object],
    words: list[str],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "tests" / "block").mkdir(parents=True)
    for name in ("check", "tests/block/001"):
        (tmp_path / name).touch()
    words = [word.replace("CLONE", str(tmp_path)) for word in words]
    monkeypatch.setattr(sys, "argv", ["program", *words])
    monkeypatch.setenv("SSDBENCH_LAB_CACHE", "/dev/null/none")

    try:
        status = main() if main is experiments.main else main(words)
    except SystemExit as ended:
        status = ended.code

    assert status == 2
    assert told in plain(capsys.readouterr().err)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ([], ("kasan", "6.12")),
        (["kcsan"], ("kcsan", "6.12")),
        (["7.x"], ("kasan", "7.x")),
        (["kasan", "6.1-um"], ("kasan", "6.1-um")),
    ],
)
def test_a_debug_kernels_checker_and_series_may_each_be_left_out(
    words: list[str], meant: tuple[str, str]
) -> None:
    assert debug_kernel.wished(words) == meant


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["kasan", "nope"], "nope (choose from 6.12, 6.12-rt, "),
        (["tests/vm/test_nope.py"], "tests/vm/test_nope.py (choose from kasan, kcsan)"),
        (["kasan", "6.12-um"], "no guest boots 6.12-um"),
    ],
)
def test_the_session_with_debug_kernels_builds_none_for_a_word_that_is_not_known(
    words: list[str], told: str
) -> None:
    pytest.importorskip("nox")

    said = run(
        [sys.executable, "-m", "nox", "-f", str(NOXFILE), "-s", "vm-debug", "--", *words],
        env={"NO_COLOR": "1", "SSDBENCH_LAB_CACHE": "/dev/null/none"},
        ok=range(256),
    )

    assert said.status != 0
    assert told in plain(said.stderr)
