import math
import random

import pytest

from benchmarks.overhead import pseudomedian_and_lower

# Hollander and Wolfe, example 3.1 (Hamilton's depression scale, before and after).
BEFORE = (1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30)
AFTER = (0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29)


def test_the_worked_example_of_the_book() -> None:
    differences = [b - a for b, a in zip(BEFORE, AFTER, strict=True)]

    centre, lower = pseudomedian_and_lower(differences, miss=0.025)

    assert centre == pytest.approx(0.46)
    assert lower == pytest.approx(0.010)


def test_a_start_in_ten_at_half_the_rate_does_not_hide_that_nothing_is_lost() -> None:
    source, covered, lower = random.Random(11), 0, 0.0
    for _ in range(300):
        logs = [
            source.gauss(0, 0.015)
            + source.choice([0] * 9 + [-0.65])
            - source.choice([0] * 9 + [-0.65])
            for _ in range(25)
        ]
        _, lower = pseudomedian_and_lower(logs)
        covered += lower <= 0

    assert covered / 300 == pytest.approx(0.95, abs=0.03)
    assert math.exp(lower) > 0.98


def test_too_few_pairs_have_no_limit() -> None:
    with pytest.raises(ValueError, match="4 pairs"):
        pseudomedian_and_lower([0.1, 0.2, 0.3, 0.4])
