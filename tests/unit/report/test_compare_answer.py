"""Test what `compare` answers first, against planted rates, searches and latencies."""

import csv
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ssdbench.cli import main
from ssdbench.model.point import PointResult
from ssdbench.model.result import RunResult
from ssdbench.report.comparison import answer_lines, answer_table, measured_verdict, much
from ssdbench.stats.compare import compared, search_rates
from tests.support.builders import StoredRunBuilder, stage_result, with_found
from tests.support.chromium import Browser, Look
from tests.support.pages import without_script
from tests.unit.report.test_answer import a_load

AB = ("A", "B")  # runs of one model have letters
POINT = "4 KiB random 70/30 read/write, QD 32 x 4"


def scaled(point: PointResult, factor: float, p99_ms: float) -> PointResult:
    """Return the point with all rates times `factor`, and a p99 of reads within 5 %."""

    def estimate(one: Any) -> Any:
        if one.metric in ("iops", "bw_bytes_per_s"):
            names = ("value", "bound", "ci_low", "ci_high")
            values = {name: getattr(one, name) for name in names}
            return one.model_copy(update={k: v and v * factor for k, v in values.items()})
        if one.metric == "lat_p99_ns":
            ns = p99_ms * 1e6
            span = {"value": ns, "ci_low": 0.95 * ns, "ci_high": 1.05 * ns, "direction": "read"}
            return one.model_copy(update=span)
        return one

    repeats = [r.model_copy(update={"iops": r.iops * factor}) for r in point.repeats]
    return point.model_copy(
        update={"repeats": tuple(repeats), "estimates": tuple(map(estimate, point.estimates))}
    )


def searched(rates: Sequence[float], **changes: Any) -> dict[str, Any]:
    """Return what a rate search found: each search kept its rate, and failed above it."""
    common = {"achieved_iops": 1.0, "reason": ""}
    steps = [
        {"search": n, "step": step, "offered_iops": rate * times, "kept": kept} | common
        for n, rate in enumerate(rates, start=1)
        for step, (times, kept) in enumerate(((0.5, True), (1.0, True), (1.1, False)))
    ]
    return {
        "percentile": "p99", "limit_ns": 1e7, "block_bytes": 4096, "read_percent": 70,
        "rate_iops": min(rates), "steps": steps, "workload": "4 KiB random 70/30 read/write",
        "verdict": "VALIDATED",
    } | changes  # fmt: skip


def a_run(
    directory: Path,
    factor: float = 1.0,
    p99_ms: float = 6.1,
    *,
    reads: tuple[int, ...] = (70,),
    rates: Sequence[float] | None = None,
    more: tuple[str, ...] = (),
    load: dict[str, Any] | None = None,
    **head: Any,
) -> RunResult:
    builder = StoredRunBuilder(directory, repeats=10, measure_s=5)
    builder.sweep(blocks=(4096,), reads=reads, depths=(32,))
    points = [scaled(point, factor, p99_ms) for point in builder.stages[0].points]
    builder.stages[0] = with_found(builder.stages[0], points=tuple(points))
    if rates is not None:
        builder.stages.append(stage_result("rate", searched(rates)))
    if load is not None:
        builder.stages.append(stage_result("load", load))
    if "probe" in more:
        builder.probe("stripe", "stripes of 64 KiB", stripe_bytes=65536)
    return builder.write(run_id=directory.name, **head)


def line(*runs: RunResult) -> str:
    return answer_lines(runs, compared(runs))[0]


def mean(run: RunResult) -> float:
    estimate = run.points[0].estimate("iops")
    assert estimate is not None
    return estimate.value


def test_the_first_line_says_what_differs_by_how_much_and_p99(tmp_path: Path) -> None:
    slow, fast = a_run(tmp_path / "slow"), a_run(tmp_path / "fast", 2.1, 2.9)

    numbers = f"{mean(fast):,.0f} against {mean(slow):,.0f} IOPS"
    assert line(slow, fast) == (
        f"B is 2.1 x faster than A at {POINT}: {numbers}; p99 of reads 2.9 ms against 6.1 ms"
    )
    back = line(fast, slow)
    assert back.startswith(f"B is 2.1 x slower than A at {POINT}: ")
    assert back.endswith("p99 of reads 6.1 ms against 2.9 ms")


def test_a_p99_whose_intervals_overlap_is_not_called_different(tmp_path: Path) -> None:
    first, second = a_run(tmp_path / "a", p99_ms=6.1), a_run(tmp_path / "b", 2.1, 6.0)

    assert line(first, second).endswith("p99 of reads 6 ms against 6.1 ms (no difference shown)")
    (row,) = [row for row in answer_table(compared([first, second]), AB) if "p99" in row.label]
    assert row.answer == "no difference shown"


def test_a_lower_latency_and_a_higher_rate_are_better(tmp_path: Path) -> None:
    slow = a_run(tmp_path / "a", rates=[1_000, 1_010, 990, 1_020, 1_005])
    fast = a_run(tmp_path / "b", 2.1, 2.9, rates=[1_800, 1_810, 1_790, 1_820, 1_805])

    def tones(*runs: RunResult) -> list[str]:
        found = compared(runs)
        return [measured_verdict(one, AB)[0] for one in (*found.rates, *found.latencies)]

    assert tones(slow, fast) == ["good", "good"]
    assert tones(fast, slow) == ["bad", "bad"]


@pytest.mark.parametrize(
    ("factor", "said"),
    [
        (1.3, "B is 30.0 % faster than A"),
        (0.88, "B is 12.0 % slower than A"),
        (0.14, "B is 7.1 x slower than A"),  # -86 %
        (1.0, "no difference shown"),
    ],
)
def test_the_size_of_a_difference_is_said_in_words(
    tmp_path: Path, factor: float, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    a_run(tmp_path / "a")
    a_run(tmp_path / "b", factor)

    assert main.run(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    printed = capsys.readouterr().out

    assert printed.startswith(said)
    assert "0.00" not in printed
    if factor == 0.14:
        assert "-86.0 %" in printed and "0 % of pairs" in printed


def test_several_points_are_counted_behind_the_main_one(tmp_path: Path) -> None:
    first, second = (
        a_run(tmp_path / name, factor, reads=(100, 70, 0))
        for name, factor in (("a", 1.0), ("b", 1.2))
    )

    said = line(first, second)

    assert said.startswith("B is 20.0 % faster than A at 4 KiB random write, QD 32 x 4")
    assert said.endswith(
        "of 3 points, B is faster at 3, slower at 0, and not clearly different at 0"
    )


def test_a_difference_that_is_not_validated_says_so(tmp_path: Path) -> None:
    good = a_run(tmp_path / "a")
    bad = a_run(tmp_path / "b", 2.0)
    points = tuple(p.model_copy(update={"verdict": "NOT VALIDATED"}) for p in bad.points)
    bad = bad.model_copy(update={"stages": (with_found(bad.stages[0], points=points),)})

    assert line(good, bad).startswith("B is 2 x faster than A, but NOT VALIDATED at")


def test_rate_searches_are_compared_by_their_searches(tmp_path: Path) -> None:
    first = a_run(tmp_path / "a", rates=[1_000, 1_010, 990, 1_020, 1_005, 995])
    second = a_run(tmp_path / "b", rates=[1_800, 1_810, 1_790, 1_820, 1_805, 1_795])

    found = compared([first, second])

    (rate,) = found.rates
    assert rate.values == (990, 1_790)
    assert rate.intervals == ((990, 1_020), (1_790, 1_820))
    assert rate.differs and rate.validated and rate.p_corrected is not None
    said = answer_lines([first, second], found)[0]
    assert "B is 1.8 x higher than A, 1,790 against 990 IOPS" in said
    assert "rate within the limit (4 KiB random 70/30 read/write: p99 of at most 10 ms" in said
    assert search_rates(second.stages[1].found)[0] == 1_800  # type: ignore[arg-type]


def test_runs_that_only_have_a_rate_in_common_are_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, rates in (("a", [1_000, 1_010]), ("b", [1_800, 1_810])):
        builder = StoredRunBuilder(tmp_path / name)
        builder.stages.append(stage_result("rate", searched(rates)))
        builder.write(run_id=name)

    assert main.run(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    assert capsys.readouterr().out.startswith("rate within the limit")


def test_runs_that_answer_one_question_are_compared_by_their_drives_first(tmp_path: Path) -> None:
    question: dict[str, Any] = {
        "profile_text": "plan: {demand_iops: 90000, block: 4KiB, read: 70}\n"
    }
    slow, fast = a_run(tmp_path / "a", **question), a_run(tmp_path / "b", 2.1, **question)
    other = a_run(tmp_path / "c", profile_text=question["profile_text"].replace("90000", "80000"))

    first, asked, *each, differs = answer_lines([slow, fast], compared([slow, fast]))
    assert re.match(r"\d+ drives INCOMPLETE of B \(.*\), against \d+ INCOMPLETE of A \(", first)
    assert asked.startswith("question: 90,000 IOPS of 4 KiB with 70 % reads")
    assert [one[:3] for one in each] == ["A: ", "B: "]
    assert all(re.match(r"[AB]: \d+ drives .*at the planned", one) for one in each)
    assert differs.startswith("B is 2.1 x faster")
    assert len(answer_lines([slow, other], compared([slow, other]))) == 1


@pytest.mark.parametrize(("second", "same"), [(5_000.0, True), (9_000.0, False)])
def test_different_planned_loads_are_said_in_one_sentence(
    tmp_path: Path, second: float, same: bool
) -> None:
    runs = []
    for name, iops in (("a", 5_000.0), ("b", second)):
        rounds = [{"drives": 9, "load_iops": iops, "kept": True}]
        found = a_load(iops, planned=rounds)
        runs.append(a_run(tmp_path / name, load=found))

    left_out = [said for said in compared(runs).left_out if "load" in said]

    told = "5,000 IOPS of a (p99 of reads 2.9 ms and of writes 1 ms) and 9,000 "
    assert left_out == [] if same else len(left_out) == 1 and told in left_out[0]


def test_what_was_not_compared_is_said(tmp_path: Path) -> None:
    first = a_run(tmp_path / "a", rates=[1_000, 1_010], more=("probe",))
    second = a_run(tmp_path / "b")

    left_out = compared([first, second]).left_out

    assert (
        "only a searched for the rate of 4 KiB random 70/30 read/write: p99 of at most 10 ms, from "
        "when due" in left_out
    )
    assert "`compare` does not take stages of the kind probe, which a measured" in left_out


def test_the_answer_is_the_same_on_terminal_page_csv_and_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a_run(tmp_path / "a", rates=[1_000, 1_010, 990, 1_020, 1_005])
    a_run(tmp_path / "b", 2.1, 2.9, rates=[1_800, 1_810, 1_790, 1_820, 1_805], more=("probe",))
    runs = [str(tmp_path / "a"), str(tmp_path / "b")]
    page, rows = tmp_path / "page.html", tmp_path / "rows.csv"

    assert main.run(["compare", *runs, "--html", str(page), "--csv", str(rows)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert main.run(["compare", *runs, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)

    first = "B is 2.1 x faster than A at 4 KiB random 70/30 read/write, QD 32"
    assert said[0].startswith(first) and told["answer"] == [said[0]]
    text = without_script(page.read_text())
    answer = text[text.index('id="answer"') : text.index('id="runs"')]
    assert "B is 2.1 x faster than A" in answer and "Not compared:" in answer
    head = answer[answer.index("<thead>") : answer.index("</thead>")]
    assert head.index("Answer") < head.index(">A<") < head.index(">B<")
    table = list(csv.DictReader(rows.read_text().splitlines()))
    answers = [row["answer"] for row in table]
    assert answers == [
        "B is 2.1 x faster than A", "B is 1.8 x higher than A", "B is 2.1 x lower than A"
    ]  # fmt: skip
    assert [row["metric"] for row in table] == ["iops", "rate_within_limit_iops", "lat_p99_ns"]
    assert [float(row["metric_value"]) for row in table[1:]] == [1_790, 2.9e6]
    assert [
        one["answer"] for one in (*told["pairs"], *told["rates"], *told["latencies"])
    ] == answers
    assert any("not compared" in one and "probe" in one for one in said)


@pytest.mark.parametrize("look", [Look("wide", 1400), Look("phone", 390, phone=True)])
def test_no_answer_is_cut_off_in_a_browser(tmp_path: Path, chromium: Browser, look: Look) -> None:
    a_run(tmp_path / "a", rates=[1_000, 1_010], reads=(100, 70, 0))
    a_run(tmp_path / "b", 2.1, 2.9, rates=[1_800, 1_810], reads=(100, 70, 0))
    page = tmp_path / "page.html"
    assert main.run(
        ["compare", str(tmp_path / "a"), str(tmp_path / "b"), "--html", str(page)]
    ) == 0  # fmt: skip

    chromium.open(page, look)
    shown = json.loads(
        chromium.evaluate(
            """JSON.stringify([...document.querySelectorAll("#answer tbody tr")].map(row => {
            const cell = row.cells[1], place = cell.getBoundingClientRect();
            return [cell.textContent, place.left, place.right, cell.scrollWidth, cell.clientWidth];
            }))"""
        )
    )

    assert [row[0] for row in shown][:3] == ["B is 2.1 x faster than A"] * 3
    assert len(shown) == 3 + 1 + 3
    for _, left, right, needs, has in shown:
        assert 0 <= left < right <= look.width and needs <= has


def test_a_ratio_below_one_and_a_half_is_a_percentage() -> None:
    assert much(100, 149, "faster", "slower") == "49.0 % faster"
    assert much(100, 150, "faster", "slower") == "1.5 x faster"
    assert much(100, 10, "faster", "slower") == "10 x slower"
    assert much(0, 10, "faster", "slower") == "faster"
