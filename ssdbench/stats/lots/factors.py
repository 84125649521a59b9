"""Tests whether firmware, slot, host, temperature or wear change the rate, where drives can tell.

All conditions that vary go into one linear model of the rates. A condition is separated where the
others together do not say the same of the drives: where leaving it out lowers the rank of the
design by all that it adds. Then an F test compares the fit with it and without it (extra sum of
squares). Everything else "cannot be separated", with what it goes along with.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ssdbench.stats.distributions import f_upper_p

LEAST_LEFT = 4  # degrees of freedom behind the error
LEAST_PER_LEVEL = 2  # drives, on average
_NOTHING = 1e-9

Floats = npt.NDArray[np.float64]
Condition = Sequence[str | float | None]  # of each drive; None where it is not known


@dataclass(frozen=True, slots=True)
class Effect:
    """What can be said of one condition."""

    condition: str
    why_not: str = ""  # why it cannot be separated; empty where it can
    levels: int = 0  # different values
    change_percent: float | None = None  # most to least, or a number's range; of the mean rate
    p: float | None = None

    @property
    def separated(self) -> bool:
        """Tell whether the drives can tell."""
        return not self.why_not


def effects(rates: Sequence[float], conditions: Mapping[str, Condition]) -> tuple[Effect, ...]:
    """Say what each condition does to the rates, in the order given."""
    values = np.asarray(rates, dtype=np.float64)
    why = {name: _unusable(list(condition)) for name, condition in conditions.items()}
    columns = {name: _columns(c) for name, c in conditions.items() if not why[name]}
    return tuple(
        Effect(name, why[name]) if why[name] else _effect(name, columns, values)
        for name in conditions
    )


def _unusable(condition: list[str | float | None]) -> str:
    """Say why a condition tells nothing, whatever the others are."""
    known = [value for value in condition if value is not None]
    different = len(set(known))
    if not known:
        return "not known of any drive"
    if len(known) < len(condition):
        return f"not known of {len(condition) - len(known)} of {len(condition)} drives"
    if different == 1:
        return "the same for all drives"
    if isinstance(known[0], str) and len(known) < LEAST_PER_LEVEL * different:
        return "nearly each drive has its own"
    return ""


def _columns(condition: Condition) -> Floats:
    """Return a number over its range, from its mean; else a column for each level but the first."""
    if all(isinstance(value, int | float) for value in condition):
        numbers = np.array([float(value or 0) for value in condition])
        return np.asarray(((numbers - numbers.mean()) / np.ptp(numbers))[:, None])
    names = sorted({str(value) for value in condition})
    return np.array(
        [[str(value) == name for name in names[1:]] for value in condition], dtype=float
    )


def _effect(name: str, columns: Mapping[str, Floats], values: Floats) -> Effect:
    own = columns[name]
    levels = own.shape[1] + 1
    others = {other: them for other, them in columns.items() if other != name}
    without, whole = _design(values, *others.values()), _design(values, *others.values(), own)
    if _rank(whole) - _rank(without) < own.shape[1]:
        along = [o for o, them in others.items() if not _apart(values, own, them)]
        return Effect(name, f"goes along with {' and '.join(along) or 'the others together'}")
    left = len(values) - _rank(whole)
    if left < LEAST_LEFT:
        return Effect(name, f"{len(values)} drives are too few beside the other conditions")
    fitted, *_ = np.linalg.lstsq(whole, values, rcond=None)
    error = _squares(values - whole @ fitted)
    plain, *_ = np.linalg.lstsq(without, values, rcond=None)
    gained = _squares(values - without @ plain) - error
    total = _squares(values - values.mean())
    if error <= _NOTHING * total:
        p = 0.0 if gained > _NOTHING * total else 1.0
    else:
        p = f_upper_p((gained / own.shape[1]) / (error / left), own.shape[1], left)
    at = np.append(fitted[-own.shape[1] :], 0.0)
    change = 100 * float(np.ptp(at)) / float(values.mean()) if values.mean() else None
    return Effect(name, "", levels, change, p)


def _apart(values: Floats, own: Floats, them: Floats) -> bool:
    gained = _rank(_design(values, own, them)) - _rank(_design(values, them))
    return bool(gained == own.shape[1])


def _design(values: Floats, *columns: Floats) -> Floats:
    return np.column_stack([np.ones(len(values)), *columns])


def _rank(design: Floats) -> int:
    return int(np.linalg.matrix_rank(design))


def _squares(values: Floats) -> float:
    return float(values @ values)
