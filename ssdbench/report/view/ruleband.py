"""The band that a steady-state rule allows its window, as far as it can be drawn.

A limit on how far values lie apart is drawn as a band of that height in their middle: all of them
lie in it exactly when the limit holds.
"""

from collections.abc import Callable, Sequence

import numpy as np

from ssdbench.model.result import SteadyVerdict
from ssdbench.report.figures import Band, Floats

Ends = tuple[float, float]


def paired(verdict: SteadyVerdict) -> Floats:
    """Means of two blocks each, which the rules of the pss family judge; empty for others."""
    blocks = np.asarray(verdict.window_blocks)
    if "pairs" not in verdict.criteria or len(blocks) % 2:
        return np.array([])
    means: Floats = blocks.reshape(-1, 2).mean(axis=1)
    return means


def band(verdict: SteadyVerdict) -> Band | None:
    """The limit of a rule on the values of its window; None where it has none."""
    for name, (words, ends) in _DRAWN.items():
        if name in verdict.criteria and verdict.window_blocks:
            allowed = verdict.criteria[name][1]
            low, high = ends(verdict, allowed)
            return Band(f"{verdict.rule}: {words.format(_percent(allowed))}", low, high)
    return None


def fit_words(verdict: SteadyVerdict) -> str:
    """The fitted line, with the rule's limit on it where it has one."""
    if "slope" not in verdict.criteria:
        return "straight-line fit"
    return f"straight-line fit ({verdict.rule}: within {_percent(verdict.criteria['slope'][1])})"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _apart(values: Sequence[float] | Floats, height: float) -> Ends:
    middle = (float(min(values)) + float(max(values))) / 2
    return middle - height / 2, middle + height / 2


def _around(middle: float, share: float) -> Ends:
    return middle * (1 - share), middle * (1 + share)


def _pairs(verdict: SteadyVerdict, allowed: float) -> Ends:
    return _apart(paired(verdict), allowed * verdict.mean)


def _rounds(verdict: SteadyVerdict, allowed: float) -> Ends:
    return _apart(verdict.window_blocks, allowed * verdict.mean)


def _sections(verdict: SteadyVerdict, allowed: float) -> Ends:
    return _around(verdict.window_blocks[0], allowed)


def _levels(verdict: SteadyVerdict, allowed: float) -> Ends:
    return _around(verdict.lower_mode or verdict.mean, allowed)


def _deviation(verdict: SteadyVerdict, allowed: float) -> Ends:
    return _around(verdict.mean, allowed)


# By the name of the criterion, the one that is drawn first: what it says of its limit, its ends.
_DRAWN: dict[str, tuple[str, Callable[[SteadyVerdict, float], Ends]]] = {
    "pairs": ("pairs of blocks within {}", _pairs),
    "excursion": ("rounds within {}", _rounds),
    "difference": ("the second section within {} of the first", _sections),
    "drift": ("the lower level may drift by {}", _levels),
    "cv": ("mean and {}, the largest standard deviation", _deviation),
}
