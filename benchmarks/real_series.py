"""Judge the rules by series of real drives: by what the drive did after the verdict.

    nox -s judge-the-judges -- --real DIRECTORY

DIRECTORY holds `INDEX.csv` and the series it names. A row of the index is one series: `file`,
`drive` (the model), `span_GiB` (the active range, which is one fill) and, where there are two
drives of a model, `device_alias`; other columns are not read. A series is CSV, gzip-compressed if
its name ends in .gz, with the columns `end_s` (seconds since the workload began, at the end of the
sample) and `bytes_per_s` (the mean since the sample before): one write workload, from its start,
without a pause.

A rule is asked as in a run: at the first moment at which it holds, what would it have published?
That is compared with the mean of all the rest of the series, if at least ten minutes are left.
Rules that go by seconds are asked only where samples are short enough.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ssdbench.errors import UsageError
from ssdbench.sim.series import number, read_series, rows
from ssdbench.stats.series import History, Series
from ssdbench.stats.steady.rules import judge
from ssdbench.stats.steady.watch import WindowRule
from ssdbench.units import GIB

INDEX = "INDEX.csv"
LEAST_REST_S = 600.0
SHORT_S = 5400.0
HORIZON_S = 600.0
WRONG = 0.05
NEEDED = ("file", "drive", "span_GiB")


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """Hold one series of a real drive."""

    name: str
    drive: str
    series: Series

    @property
    def sample_s(self) -> float:
        """The usual length of a sample."""
        return float(np.median(np.diff(self.series.t_s, prepend=0.0)))

    @property
    def length_s(self) -> float:
        """The time from the start of the workload to the last sample."""
        return float(self.series.t_s[-1])


@dataclass(frozen=True, slots=True)
class Answer:
    """Hold what one rule says of one series; rates are over the mean of the rest."""

    rule: str
    drive: str
    steady: bool
    hours: float  # when it was satisfied
    length_s: float
    rest_s: float
    published: float  # NaN where nothing was judged
    above_horizon: bool  # above the slowest ten minutes of the rest

    @property
    def judged(self) -> bool:
        """Whether enough of the series came after the verdict."""
        return self.steady and self.rest_s >= LEAST_REST_S

    @property
    def wrong(self) -> bool:
        """Whether the number is more than 5 % above what the drive did in the rest."""
        return self.judged and self.published > 1 + WRONG


def recorded(directory: Path) -> Iterator[Recorded]:
    """Yield all series of a directory. Raises UsageError with file and line."""
    index = directory / INDEX
    for line, entry in rows(index, NEEDED):
        fill_bytes = number(entry["span_GiB"]) * GIB
        if not fill_bytes > 0:
            raise UsageError(
                f"{index}:{line}: span_GiB is a size in GiB, got {entry['span_GiB']!r}"
            )
        series = read_series(directory / entry["file"], fill_bytes)
        alias = entry.get("device_alias")
        drive = f"{entry['drive']} ({alias})" if alias else entry["drive"]
        yield Recorded(entry["file"], drive, series)


def coarsest_s(rule: WindowRule) -> float:
    """Return how long samples may be for a rule: fio's go by seconds, Seppanen's by 20 s."""
    if rule.step_s == 1:
        return 1.5
    return 10.5 if rule.min_window_s < 60 else 60.5


def answer(real: Recorded, rule: WindowRule, name: str = "") -> Answer | None:
    """Return what a rule says of a series; None where its samples are too long for the rule."""
    if real.sample_s > coarsest_s(rule):
        return None
    verdict = judge(real.series, rule)
    rest_s = real.length_s - verdict.checked_s if verdict.steady else 0.0
    published, above = math.nan, False
    if rest_s >= LEAST_REST_S:
        history = History.of(real.series)
        published = verdict.lower_bound / history.mean(verdict.checked_s, real.length_s)
        slowest = history.steps(verdict.checked_s, real.length_s, HORIZON_S).min()
        above = bool(verdict.lower_bound > slowest)
    return Answer(
        rule=name or rule.name,
        drive=real.drive,
        steady=verdict.steady,
        hours=verdict.checked_s / 3600,
        length_s=real.length_s,
        rest_s=rest_s,
        published=published,
        above_horizon=above,
    )


HEAD = (
    f"{'':36}{'series':>7}{'steady':>8}{'judged':>8}{'wrong >+5 %':>13}{'on drives':>11}"
    f"{'largest':>9}{'median':>8}{'> slowest 10 min':>18}{'hours':>7}"
)


def row(name: str, answers: Sequence[Answer]) -> str:
    """Return one line of the table."""
    judged = [a for a in answers if a.judged]
    wrong = [a for a in judged if a.wrong]
    shares = np.array([a.published for a in judged] or [math.nan])
    return (
        f"{name:36}{len(answers):>7}{sum(a.steady for a in answers):>8}{len(judged):>8}"
        f"{len(wrong):>13}"
        f"{f'{len({a.drive for a in wrong})} of {len({a.drive for a in answers})}':>11}"
        f"{shares.max():>9.2f}{np.median(shares):>8.2f}"
        f"{sum(a.above_horizon for a in judged):>18}"
        f"{np.median([a.hours for a in answers if a.steady] or [math.nan]):>7.2f}"
    )


def report(directory: Path, rules: Mapping[str, WindowRule]) -> None:
    """Print the table, and what the first rule did not call steady. Raises UsageError."""
    found = list(recorded(directory))
    if not found:
        raise UsageError(f"{directory / INDEX} names no series")
    hours = sum(real.length_s for real in found) / 3600
    drives = sorted({real.drive for real in found})
    print(f"\nreal: {len(found)} series, {hours:.0f} hours, {len(drives)} drives")
    for drive in drives:
        lengths = [real.length_s for real in found if real.drive == drive]
        print(f"  {drive}: {len(lengths)} series, {sum(lengths) / 3600:.0f} hours")
    print(HEAD)
    first: list[Answer] = []
    for name, by in rules.items():
        answers = [a for real in found if (a := answer(real, by, name)) is not None]
        first = first or answers
        if answers:
            print(row(name, answers))
    unsteady = [a for a in first if not a.steady]
    short = sum(a.length_s < SHORT_S for a in unsteady)
    print(
        f"{first[0].rule if first else 'none'}: {len(unsteady)} of {len(first)} not called steady, "
        f"{short} of these shorter than {SHORT_S / 3600:g} hours"
    )
