"""Test the true rates of the planted queues against formulas."""

import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import hidden_queues
from benchmarks.hidden_queues import Queue, Served


def a_queue(**changes: object) -> Queue:
    queue = Queue("M/M/1", "p99", 0.0005, True, 0.0, 0.0, 1.0, True, 0.010)
    return replace(queue, **changes)  # type: ignore[arg-type]


def test_the_true_rate_of_mm1_is_that_of_the_formula() -> None:
    # Response times are exponential with mean 1 / (served - offered).
    formula = 2000 - math.log(100) / 0.010
    assert hidden_queues.truth(a_queue(), seed=1)[0] == pytest.approx(formula)

    found, error = hidden_queues.truth(a_queue(family="bursts"), seed=1)  # without any: by Lindley

    assert 0 < error <= 0.005
    assert found == pytest.approx(formula, rel=0.012)


def test_the_mean_wait_of_md1_is_that_of_pollaczek_and_khinchin() -> None:
    rng = np.random.default_rng(2)
    due = np.cumsum(rng.exponential(1 / 1500.0, 400_000))
    queue = a_queue(family="M/D/1", exponential=False)

    waits = Served.drawn(queue, len(due), float(due[-1]), rng).done_s(due) - due

    assert waits.mean() == pytest.approx(0.0005 * (1 + 0.75 / (2 * 0.25)), rel=0.03)


@pytest.mark.parametrize("regular", [True, False])
def test_what_comes_due_in_a_stall_waits_for_its_end(regular: bool) -> None:
    rng = np.random.default_rng(3)
    queue = a_queue(
        family="stalls", service_s=1e-6, exponential=False, cycle_s=2.0, slow_s=0.2, speed=0.0,
        regular=regular,
    )  # fmt: skip
    due = np.cumsum(rng.exponential(1 / 1000.0, 1_000_000))

    waits = Served.drawn(queue, len(due), float(due[-1]), rng).done_s(due) - due

    held = waits[waits > 1e-3]
    assert len(held) / len(due) == pytest.approx(0.1, rel=0.15)
    assert held.max() <= 0.2 * (1 + 1e-3)
    assert held.mean() == pytest.approx(0.1, rel=0.03)


def test_five_searches_answer_below_the_truth() -> None:
    found, valid, _ = hidden_queues.asked(a_queue(), seed=4)

    assert valid
    assert found.searches == 5
    assert found.rate_iops is not None
    assert 0.85 < found.rate_iops / (2000 - math.log(100) / 0.010) <= 1.02
