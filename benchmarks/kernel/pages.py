"""Write the tables of docs/experiments from the stored rows, so that no number is typed.

A table stands under a mark, and ends where the lines with bars end:

    <!-- cases NAME: METRIC, METRIC -->     means over the seeds, a line for each case
    <!-- claims NAME -->                    what was wanted and found, a line for each claim
"""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.kernel.experiment import REPOSITORY, STORE
from benchmarks.tables import markdown

DOCS = REPOSITORY / "docs" / "experiments"
SERIES = "6.12"
MARK = re.compile(r"^(<!-- (cases|claims) ([\w-]+)(?:: ([\w, ]+))? -->\n)(?:\|.*\n)*", re.MULTILINE)


def filled(text: str) -> str:
    """Return a page with its marked tables written again."""
    return MARK.sub(lambda found: found[1] + table(found[2], found[3], found[4] or ""), text)


def names(text: str) -> list[str]:
    """Return the experiments whose tables a page has."""
    return list(dict.fromkeys(found[3] for found in MARK.finditer(text)))


def stored(name: str, series: str = SERIES) -> dict[str, Any]:
    """Return the stored document of an experiment."""
    document: dict[str, Any] = json.loads((STORE / f"{name}-{series}.json").read_text())
    return document


def seeds(name: str) -> int:
    """Return how many seeds are stored."""
    return len({row["seed"] for row in stored(name)["rows"]})


def table(kind: str, name: str, metrics: str, series: str = SERIES) -> str:
    """Return the table of cases or of claims of an experiment, from its stored rows."""
    document = stored(name, series)
    if kind == "claims":
        return claims(document, ".3g").replace(" / ", " over ") + "\n"
    said = cases(document["rows"], metrics.split(", "), many, " ")
    return said.replace("|  |", "| |") + "\n"


def claims(document: dict[str, Any], form: str) -> str:
    """Return the table of claims, with what was wanted in a format of numbers."""
    head = ("claim", "wanted", "worst … best seed (mean)", "95 % of the mean", "")
    rows = [
        (
            one["claim"]["text"],
            _wanted(one["claim"], form),
            f"{one['worst']:.3f} … {one['best']:.3f} ({one['mean']:.3f})",
            f"{one['low']:.3f} … {one['high']:.3f}" if one["seeds"] > 1 else "",
            one["verdict"],
        )
        for one in document["claims"]
    ]
    return markdown(head, rows, right=(1, 2, 3)).replace("|  |", "| |")


def _wanted(claim: dict[str, Any], form: str) -> str:
    if claim["most"] is not None:
        return f"{claim['wanted']:{form}} to {claim['most']:{form}}"
    return f"{'at most' if claim['at_most'] else 'at least'} {claim['wanted']:{form}}"


def cases(
    rows: Sequence[dict[str, Any]],
    metrics: Sequence[str],
    form: Callable[[float], str],
    between_words: str = "_",
) -> str:
    """Return the table of cases that have any of these metrics: the means over the seeds."""
    lines = []
    for case in dict.fromkeys(row["case"] for row in rows):
        found = [of(rows, case, metric) for metric in metrics]
        if any(found):
            lines.append([case, *(form(mean(values)) if values else "" for values in found)])
    head = ["case", *(metric.replace("_", between_words) for metric in metrics)]
    return markdown(head, lines, right=range(1, len(head)))


def of(rows: Sequence[dict[str, Any]], case: str, metric: str) -> list[float]:
    """Return the numbers of a case, one for each seed."""
    return [row["value"] for row in rows if row["case"] == case and row["metric"] == metric]


def many(value: float) -> str:
    """Return a number with four digits, or whole where it is large."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def write() -> list[Path]:
    """Write the tables of all pages again; return the pages."""
    pages = sorted(DOCS.glob("*.md"))
    for page in pages:
        page.write_text(filled(page.read_text()))
    return pages
