"""What a user is told while a stage works."""

import pytest

from ssdbench.engine.events import Event, Progress, Reporter
from ssdbench.generator.base import Second


class Told:
    """A reporter with a clock in the test's hand."""

    def __init__(self, *, of_stage_s: tuple[float, float] | None = None) -> None:
        self.now = 0.0
        self.events: list[Event] = []
        self.reporter = Reporter(
            "02-steady",
            emit=self.events.append,
            wall=lambda: self.now,
            written_fills=lambda: self.now / 100,
            foreseen=lambda seen, at_work: (None, None, of_stage_s),
        )

    def at(self, now: float) -> Progress:
        self.now = now
        self.reporter.saw(Second(now, 1.0, 0, 1000, 0, 4_096_000))
        event = self.events[-1]
        assert isinstance(event, Progress)
        return event


def test_between_two_steps_the_time_left_just_passes() -> None:
    told = Told()
    share = [0.0]
    told.reporter.doing("repeats", lambda: share[0])

    assert told.at(5).left_s is None
    share[0] = 0.25
    assert told.at(10).left_s == 30
    assert told.at(20).left_s == 20
    assert told.at(20.5).written_fills == 0.205
    assert told.at(90).left_s is None  # it was foreseen wrongly: not "0 s left"
    share[0] = 0.5
    assert told.at(100).left_s == 100


@pytest.mark.parametrize(
    ("of_stage_s", "left_s"), [((0.0, 60.0), None), ((80.0, 95.0), 90), ((100.0, 500.0), None)]
)
def test_the_time_left_is_told_only_if_it_is_within_the_range_of_the_stage(
    of_stage_s: tuple[float, float], left_s: float | None
) -> None:
    told = Told(of_stage_s=of_stage_s)
    told.reporter.doing("repeats", lambda: 0.1)

    assert told.at(10).left_s == left_s


def test_what_nobody_can_foresee_has_neither_share_nor_time_but_a_state() -> None:
    told = Told()
    told.reporter.doing("4 KiB random write", lambda: None)
    told.reporter.being(lambda: f"{told.now:.0f} s so far, the rule is not met yet")

    event = told.at(700)

    assert (event.fraction, event.left_s) == (None, None)
    assert event.text == "4 KiB random write, 700 s so far, the rule is not met yet"


def test_a_new_doing_forgets_the_state_of_the_last() -> None:
    told = Told()
    told.reporter.being(lambda: "settling")
    told.reporter.doing("the next", lambda: 0.5)

    assert told.at(1).text == "the next"
