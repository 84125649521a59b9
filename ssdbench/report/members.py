"""The drives of a lot as the statistics take them: results, conditions and latencies from disk."""

import re
from collections.abc import Sequence

import numpy as np

from ssdbench.model.rundirectory import HISTOGRAMS, MEASURE, PHASE, TEMPERATURE
from ssdbench.report.read import StoredRun
from ssdbench.stats.histogram import Histogram
from ssdbench.stats.lots.population import Member
from ssdbench.stats.runcompare import Key, points_of

_LEADING_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
HOST = "host"  # its name, in the facts of a host


def members(runs: Sequence[StoredRun]) -> list[Member]:
    """One for each run, in their order; a bulk file that is missing is noted in its run."""
    return [_member(run) for run in runs]


def _member(run: StoredRun) -> Member:
    target, facts = run.result.target, run.result.target.facts
    latencies: dict[Key, dict[str, Histogram]] = {}
    warmth: list[float] = []
    for key, point in points_of(run.result).items():
        parts = [run.histograms(f"{repeat.artifacts}/{HISTOGRAMS}") for repeat in point.repeats]
        latencies[key] = {
            name: Histogram.merged(part[name] for part in parts if name in part)
            for name in ("read", "write")
        }
        if not target.simulated:
            for repeat in point.repeats:
                warmth += _warmth(run, f"{repeat.artifacts}/{TEMPERATURE}")
    conditions: dict[str, str | float | None] = {
        "firmware": target.firmware or None,
        "slot": facts.get("place") or None,
        "host": run.result.host.get(HOST) or None,
        "temperature": float(np.mean(warmth)) if warmth else None,
        "wear": _number(facts.get("percentage used")),
    }
    if target.simulated:  # its host and its clock do nothing to it
        conditions = dict.fromkeys(conditions)
    return Member(run.result, conditions, latencies)


def _warmth(run: StoredRun, relative: str) -> list[float]:
    """The temperatures while measuring; none for a drive without a sensor."""
    path = run.path(relative)
    if path is None or not path.is_file():
        return []
    table = run.table(relative, marked=(PHASE, MEASURE)) or {}
    if "temperature_c" not in table:
        return []
    degrees = table["temperature_c"]
    counted = table[PHASE] > 0 if PHASE in table else np.ones(len(degrees), dtype=np.bool_)
    return [float(value) for value in degrees[counted] if np.isfinite(value)]


def _number(text: str | None) -> float | None:
    found = _LEADING_NUMBER.match(text or "")
    return float(found.group()) if found else None
