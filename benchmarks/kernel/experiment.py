"""What an experiment is, how its model is frozen, and how its rows are kept and judged.

The order is the point: the model is made (from a data sheet, or from one number measured before
anything is compared), written to a file and hashed; only then is anything compared. A stored
model is never made again, and rows that belong to another model are refused.
"""

import csv
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from types import MappingProxyType
from typing import Protocol

from ssdbench.lab.archive import cache_directory
from ssdbench.lab.session import GuestRequest, run_in_guest

CACHE = cache_directory()
REPOSITORY = Path(__file__).parents[2]
STORE = REPOSITORY / "reports" / "experiments"

Model = dict[str, int | str]


@dataclass(frozen=True, slots=True)
class Row:
    """One number of one case."""

    seed: int
    case: str
    metric: str
    value: float


@dataclass(frozen=True, slots=True)
class Claim:
    """What a paper says: `over` is at least `wanted` times the best of `under`, for each seed.

    With `at_most`, no more than that; without `under`, `over` itself is compared.
    """

    text: str
    over: str
    wanted: float
    under: tuple[str, ...] = ()
    metric: str = "iops"
    at_most: bool = False


@dataclass(frozen=True, slots=True)
class Judged:
    """A claim and what was found: the worst, mean and best of the seeds."""

    claim: Claim
    worst: float
    mean: float
    best: float
    seeds: int

    @property
    def verdict(self) -> str:
        """Reached by every seed, by some, or by none."""
        reached = [_holds(self.claim, value) for value in (self.worst, self.best)]
        return "reached" if all(reached) else "some seeds" if any(reached) else "not reached"


class Experiment(Protocol):
    """One comparison of a paper, as guests can make it."""

    @property
    def name(self) -> str:
        """As the command line has it."""
        ...

    @property
    def about(self) -> str:
        """What is compared."""
        ...

    @property
    def cpus(self) -> int:
        """Of the guest."""
        ...

    def freeze(self, series: str) -> Model:
        """The model; may run a guest to measure the software's cost, and compares nothing."""
        ...

    def script(self, model: Model, seed: int) -> str:
        """Shell text that prints lines `row CASE METRIC VALUE`."""
        ...

    def claims(self) -> Sequence[Claim]:
        """What is judged."""
        ...


def digest(model: Model) -> str:
    """Hash that ties rows to the model they were taken with."""
    return hashlib.sha256(json.dumps(model, sort_keys=True).encode()).hexdigest()


def rows_of(said: str, seed: int) -> list[Row]:
    """The rows among a guest's lines."""
    words = [line.split() for line in said.splitlines()]
    return [Row(seed, w[1], w[2], float(w[3])) for w in words if len(w) == 4 and w[0] == "row"]


def in_guest(script: str, series: str, *, cpus: int = 1) -> str:
    """What a script printed in a guest that counts its time in instructions."""
    request = GuestRequest(
        argv=("bash", "-euc", script),
        series=series,
        disks=(),
        cwd=REPOSITORY,
        reproducible=True,
        timeout_s=1800,
        # Reproducible guests have one CPU; more share its stream of instructions.
        devices=("-smp", str(cpus)) if cpus > 1 else (),
    )
    answer = run_in_guest(request, CACHE)
    if answer.status:
        raise SystemExit(f"the guest ended with {answer.status}: {answer.stderr[-2000:]}")
    return answer.stdout


def frozen(experiment: Experiment, series: str) -> Model:
    """The stored model, made and stored now if there is none."""
    path = STORE / f"{experiment.name}-{series}.model.json"
    if not path.exists():
        STORE.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(experiment.freeze(series), indent=2, sort_keys=True) + "\n")
    model: Model = json.loads(path.read_text())
    return model


def measure(experiment: Experiment, model: Model, seed: int, series: str) -> list[Row]:
    """All cases of one seed, in one guest."""
    return rows_of(in_guest(experiment.script(model, seed), series, cpus=experiment.cpus), seed)


def judge(claim: Claim, rows: Sequence[Row]) -> Judged | None:
    """A claim against the rows, seed by seed; None where a case is missing."""
    ratios = []
    for seed in sorted({row.seed for row in rows}):
        found = {r.case: r.value for r in rows if r.seed == seed and r.metric == claim.metric}
        if claim.over not in found or any(case not in found for case in claim.under):
            return None
        under = max((found[case] for case in claim.under), default=1.0)
        if not under:
            return None
        ratios.append(found[claim.over] / under)
    if not ratios:
        return None
    ratios.sort(reverse=claim.at_most)
    return Judged(claim, ratios[0], mean(ratios), ratios[-1], len(ratios))


def _holds(claim: Claim, ratio: float) -> bool:
    return ratio <= claim.wanted if claim.at_most else ratio >= claim.wanted


def stored_rows(experiment: Experiment, model: Model, series: str) -> list[Row]:
    """Rows of earlier runs with this very model."""
    path = STORE / f"{experiment.name}-{series}.json"
    if not path.exists():
        return []
    document = json.loads(path.read_text())
    if document["model_sha256"] != digest(model):
        raise SystemExit(f"{path} holds rows of another model; move it away to measure again")
    return [Row(**row) for row in document["rows"]]


def store(
    experiment: Experiment,
    model: Model,
    rows: Sequence[Row],
    series: str,
    wall_s: Mapping[int, float] = MappingProxyType({}),
) -> None:
    """The whole experiment as JSON, its rows as CSV; `wall_s` is how long each new seed took."""
    path = STORE / f"{experiment.name}-{series}.json"
    before = json.loads(path.read_text()).get("wall_s", {}) if path.exists() else {}
    rows = sorted(rows, key=lambda row: (row.seed, row.case, row.metric))
    judged = [found for claim in experiment.claims() if (found := judge(claim, rows))]
    document = {
        "experiment": experiment.name,
        "about": experiment.about,
        "kernel": series,
        "model": model,
        "model_sha256": digest(model),
        "wall_s": before | {str(seed): round(took) for seed, took in wall_s.items()},
        "claims": [asdict(found) | {"verdict": found.verdict} for found in judged],
        "rows": [asdict(row) for row in rows],
    }
    path.write_text(json.dumps(document, indent=1) + "\n")
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(["seed", "case", "metric", "value"])
    writer.writerows([row.seed, row.case, row.metric, row.value] for row in rows)
    path.with_suffix(".csv").write_text(table.getvalue())


def cases_table(rows: Sequence[Row], metric: str) -> str:
    """Mean, least and most of each case over the seeds, as Markdown."""
    lines = [f"| case | {metric}, mean | least | most | seeds |", "|---|--:|--:|--:|--:|"]
    for case in dict.fromkeys(row.case for row in rows):
        values = [row.value for row in rows if row.case == case and row.metric == metric]
        if values:
            lines.append(
                f"| {case} | {mean(values):,.6g} | {min(values):,.6g} | {max(values):,.6g}"
                f" | {len(values)} |"
            )
    return "\n".join(lines)


def claims_table(experiment: Experiment, rows: Sequence[Row]) -> str:
    """What was claimed and what was found, as Markdown."""
    lines = ["| claim | wanted | worst | mean | best | |", "|---|--:|--:|--:|--:|---|"]
    for claim in experiment.claims():
        found = judge(claim, rows)
        sign = "<=" if claim.at_most else ">="
        if found is None:
            lines.append(f"| {claim.text} | {sign} {claim.wanted:g} | | | | not taken |")
            continue
        lines.append(
            f"| {claim.text} | {sign} {claim.wanted:g} | {found.worst:.3f} | {found.mean:.3f}"
            f" | {found.best:.3f} | {found.verdict} |"
        )
    return "\n".join(lines)
