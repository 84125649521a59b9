"""Experiments with the kernel modules: what is judged, and what is stored."""

import json
import subprocess
from pathlib import Path

import pytest

from benchmarks.kernel import experiment as lab
from benchmarks.kernel.__main__ import EXPERIMENTS
from benchmarks.kernel.experiment import Claim, Row, claims, digest, judge, rows_of

STORED = sorted(path for path in lab.STORE.glob("*.json") if ".model" not in path.name)


def rows(**rates: list[float]) -> list[Row]:
    return [
        Row(seed, case, "iops", rate)
        for case, of_seeds in rates.items()
        for seed, rate in enumerate(of_seeds, start=1)
    ]


def test_a_claim_is_judged_seed_by_seed_against_the_best_of_the_others() -> None:
    found = judge(Claim("", "a", 2.0, ("b", "c")), rows(a=[30, 44], b=[10, 20], c=[12, 11]))

    assert found is not None
    assert (found.worst, found.mean, found.best, found.seeds) == (2.2, 2.35, 2.5, 2)


@pytest.mark.parametrize(
    ("rule", "over", "verdict"),
    [
        ("a >= 2.0 b", [21, 21.2, 21.1], "reached"),
        ("a >= 2.0 b", [19, 22, 20], "cannot tell"),
        ("a >= 2.0 b", [21, 23], "cannot tell"),  # two seeds that reach it, and far apart
        ("a >= 2.0 b", [18, 19, 18.5], "not reached"),
        ("a <= 2.0 b", [21, 21.2, 21.1], "not reached"),
        ("a <= 2.0 b", [18, 19, 18.5], "reached"),
        ("a in 2.0..2.3 b", [21, 21.2, 21.1], "reached"),
        ("a in 2.0..2.1 b", [20.9, 21.2, 21], "cannot tell"),
        ("a in 1.3..1.4 b", [17, 17.1, 17], "not reached"),  # above what was published
        ("a >= 2.0 b", [30], "reached by one seed"),
        ("a >= 2.0 b", [10], "not reached by one seed"),
    ],
)
def test_a_verdict_stands_where_the_whole_interval_of_the_mean_is(
    rule: str, over: list[float], verdict: str
) -> None:
    (claim,) = claims({"": rule})

    found = judge(claim, rows(a=over, b=[10] * len(over)))

    assert found is not None
    assert found.verdict == verdict


def test_the_interval_of_ten_seeds_is_that_of_students_t() -> None:
    ratios = [0.98, 0.99, 1.0, 1.01, 1.02, 0.98, 0.99, 1.0, 1.01, 1.02]
    found = judge(Claim("", "a", 1.0), rows(a=ratios))

    assert found is not None
    half = 2.2622 * 0.0149071 / 10**0.5  # t for nine degrees, and their standard deviation
    assert (found.low, found.high) == pytest.approx((1 - half, 1 + half), abs=1e-5)


@pytest.mark.parametrize("b", [[10.0], [10.0, 0.0]], ids=["lacks a seed", "is nothing"])
def test_a_claim_without_all_of_its_cases_is_not_judged(b: list[float]) -> None:
    assert judge(Claim("", "a", 2.0, ("b",)), rows(a=[30, 30], b=b)) is None


def test_only_lines_of_four_words_that_begin_with_row_are_rows() -> None:
    said = "seed 7\nrow a iops 12.5\nrow a iops\nthe row a iops 3\nseed 8\nrow b merges 4\n"

    assert rows_of(said) == [Row(7, "a", "iops", 12.5), Row(8, "b", "merges", 4.0)]


def test_a_stored_model_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "STORE", tmp_path)
    (tmp_path / "bpref-6.12.model.json").write_text('{"t_prog_ns": 1}')

    assert lab.frozen(EXPERIMENTS["bpref"], "6.12") == {"t_prog_ns": 1}


def test_rows_of_another_model_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "STORE", tmp_path)
    bpref = EXPERIMENTS["bpref"]
    taken = [Row(1, "a", "iops", 2.0)]
    lab.store(bpref, {"t_prog_ns": 1}, taken, "6.12")

    assert lab.stored_rows(bpref, {"t_prog_ns": 1}, "6.12") == taken
    with pytest.raises(SystemExit, match="another model"):
        lab.stored_rows(bpref, {"t_prog_ns": 2}, "6.12")


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_what_is_stored_follows_from_its_rows_and_its_model(path: Path) -> None:
    stored = json.loads(path.read_text())
    model = json.loads(path.with_suffix(".model.json").read_text())
    taken = [Row(**row) for row in stored["rows"]]
    judged = [judge(claim, taken) for claim in EXPERIMENTS[stored["experiment"]].claims]

    assert stored["model_sha256"] == digest(model)
    assert [
        (c["claim"]["text"], c["worst"], c["mean"], c["low"], c["high"], c["verdict"])
        for c in stored["claims"]
    ] == [
        (found.claim.text, found.worst, found.mean, found.low, found.high, found.verdict)
        for found in judged
        if found
    ]
    assert len(path.with_suffix(".csv").read_text().splitlines()) == len(taken) + 1


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_what_a_guest_is_told_is_shell_text_without_errors(name: str) -> None:
    model = json.loads((lab.STORE / f"{name}-6.12.model.json").read_text())

    said = subprocess.run(
        ["bash", "-n"], input=EXPERIMENTS[name].whole(model, 1, 2), capture_output=True, text=True
    )

    assert (said.returncode, said.stderr) == (0, "")
