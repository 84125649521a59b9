"""Write the tables of docs/experiments from the stored rows, so that no number is typed.

A table stands under a mark, and ends where the lines with bars end:

    <!-- cases NAME: METRIC, METRIC -->     means over the seeds, a line for each case
    <!-- claims NAME -->                    what was wanted and found, a line for each claim
"""

import json
import re
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.kernel.experiment import REPOSITORY, STORE

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
    lines = _claims(document) if kind == "claims" else _cases(document, metrics.split(", "))
    head, *rest = ["| " + " | ".join(line) + " |\n" for line in lines]
    right = range(1, 3) if kind == "claims" else range(1, len(lines[0]))
    rule = "".join(f"{'--:' if n in right else '---'}|" for n in range(len(lines[0])))
    return f"{head}|{rule}\n{''.join(rest)}".replace("|  |", "| |")


def _cases(document: dict[str, Any], metrics: list[str]) -> list[list[str]]:
    rows = document["rows"]
    lines = [["case", *(metric.replace("_", " ") for metric in metrics)]]
    for case in dict.fromkeys(row["case"] for row in rows):
        cells = [
            [row["value"] for row in rows if row["case"] == case and row["metric"] == metric]
            for metric in metrics
        ]
        if any(cells):
            lines.append([case, *(_number(mean(values)) if values else "" for values in cells)])
    return lines


def _claims(document: dict[str, Any]) -> list[list[str]]:
    lines = [["claim", "wanted", "worst … best seed (mean)", ""]]
    for one in document["claims"]:
        claim = one["claim"]
        lines.append(
            [
                claim["text"].replace(" / ", " over "),
                f"{'at most' if claim['at_most'] else 'at least'} {claim['wanted']:.3g}",
                f"{one['worst']:.3f} … {one['best']:.3f} ({one['mean']:.3f})",
                one["verdict"],
            ]
        )
    return lines


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def write() -> list[Path]:
    """Write the tables of all pages again; return the pages."""
    pages = sorted(DOCS.glob("*.md"))
    for page in pages:
        page.write_text(filled(page.read_text()))
    return pages
