"""Test the rules on drives that were not used to tune them; rules that ignore the rate must fail.

`nox -s judge-the-judges` prints the full result.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from benchmarks import judge_the_answers as answers
from benchmarks import judge_the_judges as judges
from benchmarks import synthetic, zoo
from ssdbench.stats.series import History
from ssdbench.stats.steady.pss import Pss, window_criteria
from ssdbench.stats.steady.watch import Look, WindowRule

FIRST_SEED = 2_000_000  # apart from the seeds of tuning and of the published table
DRIVES = {"replayed": 8 * len(synthetic.FAMILIES), "simulated": 3 * len(zoo.FAMILIES)}


@dataclass(frozen=True, slots=True)
class AlwaysSteady:
    """A rule that calls everything steady after a minute."""

    name: str = "always"
    validates: bool = True
    step_s: float = 60.0
    hold: int = 1
    min_window_s: float = 60.0

    def look(self, history: History, at_s: float) -> Look:
        """Return no criterion, so that all of them hold."""
        if not at_s:
            return Look(early="no sample yet")
        blocks = history.blocks(0, at_s, 10)
        return Look(to_s=at_s, blocks=blocks, lower_bound=float(blocks.mean()))


@dataclass(frozen=True, slots=True)
class NeverSteady:
    """A rule that is never satisfied."""

    name: str = "never"
    validates: bool = True
    step_s: float = 60.0
    hold: int = 10**9
    min_window_s: float = 60.0

    def look(self, history: History, at_s: float) -> Look:
        """Return the usual criteria; no number of checks in a row is enough for this rule."""
        if not at_s:
            return Look(early="no sample yet")
        blocks = history.blocks(0, at_s, 10)
        return Look(to_s=at_s, blocks=blocks, criteria=window_criteria(blocks))


@cache
def samples(corpus: str) -> tuple[synthetic.Sample, ...]:
    draw = judges.CORPORA[corpus]
    return tuple(draw(FIRST_SEED + i) for i in range(DRIVES[corpus]))


def scored(corpus: str, rule: WindowRule) -> judges.Score:
    drives = samples(corpus)
    return judges.Score([judges.case_of(rule, i, s) for i, s in enumerate(drives)])


def broken(score: judges.Score) -> set[str]:
    """Return the promises that a rule does not keep; few drives cannot show shares below 1 %."""
    kept = {
        "wrong": score.wrong <= 1,
        "drift": score.false_accepts == 0,
        "steady": score.steady_accepted >= 0.92,
        "time": score.median_fills <= 2.6,
    }
    return {name for name, holds in kept.items() if not holds}


@pytest.mark.parametrize("corpus", judges.CORPORA)
def test_pss_keeps_its_promises_on_drives_it_has_not_seen(corpus: str) -> None:
    score = scored(corpus, judges.CONTENDERS["pss"])

    assert broken(score) == set()


@pytest.mark.parametrize("corpus", judges.CORPORA)
def test_a_judge_that_is_always_satisfied_fails(corpus: str) -> None:
    found = broken(scored(corpus, AlwaysSteady()))

    assert {"wrong", "drift"} <= found


@pytest.mark.parametrize("corpus", judges.CORPORA)
def test_a_judge_that_is_never_satisfied_fails(corpus: str) -> None:
    found = broken(scored(corpus, NeverSteady()))

    assert {"steady", "time"} <= found


def test_the_snia_window_is_seen_to_be_optimistic() -> None:
    score = scored("replayed", judges.CONTENDERS["snia"])

    assert score.wrong / score.accepted > 0.1
    assert score.false_accepts > score.drifting / 2


@pytest.mark.parametrize(
    "options",
    [
        ["--drives", "0"],
        ["--drives", "abc"],
        ["--jobs", "0"],
        ["--first-seed", "-5"],
        ["--rules", "foo"],
        ["--rules", ","],
        ["--rules", "pss", "--detail", "snia"],
    ],
)
def test_a_call_that_makes_no_sense_is_told_in_a_sentence(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        judges.main(options)

    assert left.value.code == 2
    assert "error: " in capsys.readouterr().err.splitlines()[-1]


def test_the_same_seed_is_the_same_drive() -> None:
    first, again = zoo.sample(7), zoo.sample(7)

    assert first.truth == again.truth
    assert np.array_equal(first.rate, again.rate)


def test_the_bound_of_a_periodic_drive_is_not_above_its_lower_phase() -> None:
    rule = Pss("pss", validates=True, min_fills=2.0)
    drives = [synthetic.sample(FIRST_SEED + seed, "periodic") for seed in range(12)]
    cases = [judges.case_of(rule, seed, drive) for seed, drive in enumerate(drives)]

    pairs = list(zip(cases, drives, strict=True))
    assert sum(case.accepted for case in cases) >= 10
    assert sum(case.shape != "flat" for case in cases) >= 10
    assert all(c.published * d.truth <= 1.05 * d.lower for c, d in pairs if c.accepted)


def test_bistable_drives_are_answered_with_their_lower_level() -> None:
    rule = Pss("pss", validates=True, min_fills=2.0)
    cases = [
        judges.case_of(rule, seed, zoo.sample(FIRST_SEED + seed, "sim-bistable"))
        for seed in range(8)
    ]

    answered = [c for c in cases if c.accepted and c.shape != "flat"]
    assert len(answered) >= 7
    assert all(abs(c.mode - 1) < 0.06 for c in answered)


def test_a_count_goes_on_from_the_drives_that_were_judged_before(tmp_path: Path) -> None:
    asked: list[int] = []

    def ask(number: int, seed: int) -> list[answers.Outcome]:
        asked.append(number)
        return [answers.Outcome("block size", "no block", answers.RIGHT, note=f"{number} {seed}")]

    part, kept = answers.Part(ask, short=1, full=2), tmp_path / "kept"

    first = list(answers.judged(part, range(2), 7, 1, kept))
    again = list(answers.judged(part, range(3), 7, 1, kept))
    other = list(answers.judged(part, range(1), 8, 1, kept))

    assert asked == [0, 1, 2, 0]  # another seed draws other drives
    assert again[:2] == first and again[2].note == "2 7" and other[0].note == "0 8"
