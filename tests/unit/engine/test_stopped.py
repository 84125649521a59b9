import signal
from pathlib import Path

import pytest

from ssdbench.engine.stage import stopped_by
from tests.support.runs import ARun


@pytest.mark.parametrize(
    ("number", "told"),
    [(signal.SIGINT, "stopped with Ctrl-C"), (signal.SIGTERM, "stopped by SIGTERM")],
)
def test_a_signal_is_told_as_people_say_it(number: int, told: str) -> None:
    assert stopped_by(number) == told


def test_a_run_that_was_stopped_says_so_and_not_a_number(tmp_path: Path) -> None:
    result = ARun(tmp_path / "run").precondition().interrupted_in("01-precondition").go()

    said = [finding.message for finding in result.findings]

    assert any("it was stopped with Ctrl-C" in message for message in said)
