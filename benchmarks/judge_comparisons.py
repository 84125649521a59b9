"""Count how often `compare` calls equal drives different, and how often it finds a difference.

    python -m benchmarks.judge_comparisons [--pairs 1000] [--seed 20261122]

Each pair is two runs of ten repeats: of equal drives whose repeats are independent, resemble their
neighbours or stay at one of two levels for a while; and of drives that are 10 % apart. Wanted: of
equal pairs the lower 95 % limit of those called different (Clopper and Pearson) is not above 5 %,
except where a run may stay at one level from its first to its last repeat; and at least 80 % of
true differences are found. Pairs that are neither called different nor shown equal are counted.
"""

import argparse
import sys
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.synthetic import Floats, Rng
from benchmarks.tables import markdown
from ssdbench.stats.compare import ALPHA, compare
from ssdbench.stats.distributions import binomial_upper_limit

Draw = Callable[[Rng], Floats]
SEED = 20_261_122
REPEATS = 10
APART = 1.1
LEAST_FOUND = 0.8


def resembling(rho: float) -> Draw:
    """Return what draws a series whose values resemble the one before; it varies by 2 %."""

    def draw(rng: Rng) -> Floats:
        values = np.empty(REPEATS)
        values[0] = rng.standard_normal()
        for place in range(1, REPEATS):
            values[place] = rho * values[place - 1] + rng.standard_normal() * np.sqrt(1 - rho**2)
        return np.asarray(1000 * (1 + 0.02 * values))

    return draw


def regimes(stay: float, apart: float) -> Draw:
    """Return what draws two levels, `apart` standard deviations, for `stay` repeats on average."""

    def draw(rng: Rng) -> Floats:
        level = int(rng.integers(2))
        levels = []
        for _ in range(REPEATS):
            level = 1 - level if rng.uniform() < 1 / stay else level
            levels.append(level)
        return np.asarray(
            1000 * (1 + 0.02 * (apart * np.array(levels) + rng.standard_normal(REPEATS)))
        )

    return draw


def varying(variation: float) -> Draw:
    """Return what draws independent repeats."""
    return lambda rng: 1000 * (1 + variation * rng.standard_normal(REPEATS))


EQUAL = {
    "equal, independent": resembling(0.0),
    "equal, autocorrelation 0.5": resembling(0.5),
    "equal, 0.65": resembling(0.65),
    "equal, 0.8": resembling(0.8),
    "equal, two levels, 2 repeats each on average": regimes(2, 3),
    "equal, two levels, 5 repeats": regimes(5, 3),
    "equal, two levels, 10 repeats": regimes(10, 3),
}
DIFFERENT = {
    f"10 % apart, independent, repeats vary by {100 * variation:.0f} %": varying(variation)
    for variation in (0.02, 0.03, 0.04)
}


def lower_limit(count: int, of: int) -> float:
    """Return the one-sided 95 % lower limit of a share."""
    return 1 - binomial_upper_limit(of - count, of)


def counted(draw: Draw, *, pairs: int, seed: int, times: float = 1.0) -> tuple[int, int, int]:
    """Count the pairs called different, not told apart, and different by Mann-Whitney alone."""
    rng = np.random.default_rng(seed)
    found = [compare(draw(rng), times * draw(rng)) for _ in range(pairs)]
    return (
        sum(c.p <= ALPHA for c in found),
        sum(c.unsure for c in found),
        sum(c.p_mann_whitney <= ALPHA for c in found),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; return 1 where a wanted share is missed."""
    parser = argparse.ArgumentParser(description="comparisons of pairs whose truth is known")
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args(argv)
    rows, missed = [], []
    for name, draw in {**EQUAL, **DIFFERENT}.items():
        times = 1.0 if name in EQUAL else APART
        called, unsure, alone = counted(draw, pairs=options.pairs, seed=options.seed, times=times)
        limit = lower_limit(called, options.pairs)
        shares = (called / options.pairs, limit, unsure / options.pairs, alone / options.pairs)
        rows.append((name, *(f"{100 * share:.1f} %" for share in shares)))
        if limit > ALPHA if name in EQUAL else called < LEAST_FOUND * options.pairs:
            missed.append(name)
    pairs = f"{REPEATS} against {REPEATS} repeats, {options.pairs:,} pairs each"
    head = (pairs, "called different", "lower 95 % limit", "cannot tell", "Mann-Whitney alone")
    print(markdown(head, rows))
    for name in missed:
        print(f"MISSED {name}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
