"""Test the answer of a capacity plan against planted bounds, latencies and drives."""

import csv
import json
import math
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ssdbench.cli import main
from ssdbench.cli.conduct import Ended
from ssdbench.cli.summary import run_lines
from ssdbench.model.profile import CapacityPlan
from ssdbench.model.result import RunResult
from ssdbench.report import render
from ssdbench.report.tables import plans_table, results_table
from ssdbench.report.view.calculation import figures, sum_lines
from ssdbench.report.view.capacity import (
    answer_cells,
    answer_line,
    answer_of,
    answer_rows,
    by_change,
    by_depth,
    candidates_line,
    meanings,
)
from ssdbench.report.view.headline import headline, headword
from ssdbench.report.view.words import letter
from ssdbench.stats.planning.capacity import Demand, Endurance, Limit, plan
from ssdbench.stats.planning.runplan import capacity_answer
from tests.support.builders import StoredRunBuilder, a_target, stage_result, with_found
from tests.support.pages import without_script

TB = 10**12


def a_run(
    directory: Path, bound: float = 10_000.0, *, load: dict[str, Any] | None = None, **head: Any
) -> RunResult:
    """Return a stored run of 4 KiB with 70 % reads and this bound, and of a load if named."""
    builder = StoredRunBuilder(
        directory, repeats=3, measure_s=5, target=head.pop("target", a_target(size_bytes=4 * TB))
    )
    builder.sweep(blocks=(4096,), reads=(70,), depths=(32,))
    stage = builder.stages[0]
    points = [
        point.model_copy(
            update={
                "estimates": tuple(
                    e.model_copy(update={"bound": bound}) if e.metric == "iops" else e
                    for e in point.estimates
                )
            }
        )
        for point in stage.points
    ]
    builder.stages[0] = with_found(stage, points=tuple(points))
    if load is not None:
        builder.stages.append(stage_result("load", load))
    return builder.write(**head)


def a_load(iops: float, **changes: Any) -> dict[str, Any]:
    """Return a load with a p99 of reads of 2.9 ms, at most 3.4 ms, and of writes of 1 ms."""

    def p99(direction: str, value_ns: float, bound_ns: float) -> dict[str, Any]:
        return {"metric": "lat_p99_ns", "unit": "ns", "value": value_ns, "bound": bound_ns,
                "direction": direction}  # fmt: skip

    return {
        "block_bytes": 4096, "read_percent": 70, "asked_iops": iops, "offered_iops": iops,
        "verdict": "VALIDATED", "estimates": [p99("read", 2.9e6, 3.4e6), p99("write", 1e6, 1.5e6)],
    } | changes  # fmt: skip


def asked(iops: float = 40_000, **changes: Any) -> CapacityPlan:
    return CapacityPlan.model_validate(
        {"demand_iops": iops, "failure_reserve": 2, "endurance_tb": 1e6} | changes
    )


def test_the_answer_is_one_line_with_drives_what_decides_p99_and_verdict(tmp_path: Path) -> None:
    # 40,000 IOPS of 4 KiB, 30 % writes, are 4.247 TB a day, 7,750 TB in 5 years: 10 drives of 800.
    # The rate needs 40,000 / 7,000 = 5.7, so 6, and 2: wear decides. 40,000 / (10 - 2) = 5,000.
    result = a_run(tmp_path, load=a_load(5_000))

    answer = capacity_answer(result, asked(endurance_tb=800))

    assert answer_line(answer) == (
        "Buy 10 drives, 2 of them spares, decided by wear; p99 of reads 2.9 ms (at most 3.4 ms), "
        "p99 of writes 1 ms (at most 1.5 ms) at the planned 5,000 IOPS per drive (40,000 IOPS on 8 "
        "drives); VALIDATED (simulated drive)"
    )
    assert headline(result.model_copy(update={"profile_text": QUESTION})).answer == answer_line(
        answer
    )
    assert not headline(a_run(tmp_path / "no question")).answer
    cells = answer_cells(answer)
    assert cells["drives with spares"] == "10" and cells["decided by"] == "wear"
    assert cells["headroom: IOPS"] == "28.6 %"  # 1 - 40,000 / (8 x 7,000)
    assert cells["headroom: reserve"] == "41.2 %"  # 1 - 40,000 / (8 x 8,500)
    assert cells["headroom: wear"] == "3.12 %"  # 1 - 7,750 / 8,000
    assert (cells["p99 of reads"], cells["p99 of reads, bound"]) == ("2.9 ms", "3.4 ms")


@pytest.mark.parametrize(
    ("demand", "slo", "decides", "drives"),
    [
        (Demand(iops=70_000), None, Limit.RATE, 11),
        (Demand(iops=70_000), 5_000.0, Limit.LATENCY, 21),
        (Demand(iops=68_000), 9_990.0, Limit.RATE, 11),  # 9.71 and 9.72: latency adds no drive
        (Demand(iops=7_000, rebuild_iops=30_000), None, Limit.RESERVE, 6),  # 37,000 / 8,500
        (Demand(iops=7_000, capacity_bytes=60e12), None, Limit.CAPACITY, 16),  # 15 of 4 TB
        (Demand(iops=7_000, write_bytes_per_day=5e12), None, Limit.WEAR, 10),  # 9,125 TB of 1,000
    ],
)
def test_the_limit_that_needs_most_drives_decides(
    demand: Demand, slo: float | None, decides: Limit, drives: int
) -> None:
    worn = Endurance(rated_bytes=1e15, capacity_bytes=4 * TB)

    made = plan(10_000, demand, worn, slo_iops=slo)

    assert (made.decided_by, made.drives) == (decides, drives)
    needs = {need.limit: need for need in made.needs}
    assert needs[decides].drives == drives
    for need in needs.values():
        assert need.drives is not None and need.headroom is not None
        assert need.drives <= drives and 0 <= need.headroom < 1
    assert made.planned_iops == pytest.approx(demand.iops / (drives - 1))


def test_both_bounds_stand_in_the_table_if_the_limit_of_p99_allows_less(tmp_path: Path) -> None:
    answer = capacity_answer(a_run(tmp_path), asked())
    made = plan(10_000, Demand(iops=40_000, reserve=2), slo_iops=8_000)

    cells = answer_cells(replace(answer, plan=made))

    assert cells["drives with spares"] == "10"  # 40,000 / 5,600 is 7.14, and 2 spares
    assert (cells["IOPS bound, each"], cells["IOPS bound within p99"]) == ("10,000", "8,000")
    assert cells["headroom: IOPS"] == "28.6 %"  # 1 - 40,000 / (8 x 7,000)
    assert cells["headroom: latency"] == "10.7 %"  # 1 - 40,000 / (8 x 5,600)
    assert "IOPS bound within p99" not in answer_cells(answer)


def test_an_answer_has_its_mark_once_and_each_headroom_its_limit(tmp_path: Path) -> None:
    answer = capacity_answer(a_run(tmp_path), asked(endurance_tb=None))

    assert answer_line(answer).startswith(
        "8 drives INCOMPLETE (simulated drive), 2 of them spares, decided by IOPS"
    )
    assert answer_line(answer).count("INCOMPLETE") == 1
    assert "; why: the workload writes, and the rated endurance" in answer_line(answer)
    names = [line.name for line in (*sum_lines(answer), *figures(answer))]
    assert "Unused by the load" in names and "Headroom" not in names


@pytest.mark.parametrize(
    ("more", "load", "factors"),
    [
        ("", 2_000, ""),
        (", growth: 30%", 2_600, "2,000 x 1.3 = 2,600 IOPS"),
        (", growth: 10%, years: 3, peak: 2", 5_324, "2,000 x 1.331 x 2 = 5,324 IOPS"),
        (", peak: 1.5", 3_000, "2,000 x 1.5 = 3,000 IOPS"),
    ],
)
def test_growth_and_bursts_stand_where_the_load_is_used(
    tmp_path: Path, more: str, load: float, factors: str
) -> None:
    text = f"plan: {{demand_iops: 2000{more}}}\nmeasure: [{{sweep: {{}}}}]\n"

    result = a_run(tmp_path, profile_text=text)
    answer, top = answer_of(result), headline(result)

    assert answer is not None and answer.plan is not None
    assert answer.plan.load_iops == pytest.approx(load)
    assert f"({factors or '2,000 IOPS'} on 1 drive)" in answer_line(answer)
    lines = {line.name: line.text for line in sum_lines(answer)}
    assert lines["Load to carry"] == (factors or "2,000 IOPS")
    parts = re.findall(r"(?:^|= |x )([\d.,]+)", top.holds_for)
    assert math.prod(map(number, parts)) == pytest.approx(load if factors else 1)
    assert top.holds_for.startswith(f"for {load:,.0f} IOPS = 2,000 now x" if factors else "")


def test_the_planned_load_is_carried_by_the_drives_that_are_left(tmp_path: Path) -> None:
    answer = capacity_answer(a_run(tmp_path), asked(growth="50%"))

    # 60,000 / 7,000 = 8.6, so 9, and 2 spares: 60,000 / 9.
    assert answer.plan is not None and answer.plan.drives == 11
    assert answer.plan.planned_iops == pytest.approx(60_000 / 9)


@pytest.mark.parametrize(
    ("measured", "said"),
    [
        (6_600, "p99 of reads 2.9 ms (at most 3.4 ms)"),
        (6_400, "on 6 drives) (measured at 6,400)"),  # 4 % below 6,667
        (6_200, "at the planned 6,667 IOPS per drive (40,000 IOPS on 6 drives), only at 6,200"),
        (9_000, "only at 9,000"),
    ],
)
def test_p99_counts_only_at_the_planned_load(tmp_path: Path, measured: float, said: str) -> None:
    # 40,000 / 7,000 = 5.7, so 6, and 2 spares: 6,667 IOPS for each of 6.
    answer = capacity_answer(a_run(tmp_path, load=a_load(measured)), asked())

    assert said in answer_line(answer)
    assert bool(answer.latencies) == (abs(measured / (40_000 / 6) - 1) <= 0.05)
    assert answer.validated


@pytest.mark.parametrize(
    "other", [{"block_bytes": 8192}, {"read_percent": 50}, {"pattern": "sequential"}]
)
def test_p99_of_another_block_mix_or_order_is_not_taken(
    tmp_path: Path, other: dict[str, Any]
) -> None:
    answer = capacity_answer(a_run(tmp_path, load=a_load(6_666, **other)), asked())

    assert not answer.latencies
    assert answer.other_load_iops is None
    assert "p99 was not measured" in answer_line(answer)


@pytest.mark.parametrize(
    ("differs", "workload", "keys"),
    [
        ({"block": "8KiB"}, "8 KiB with any share of reads", "block: 8KiB, read: 0"),
        ({"read": 50}, "any block size with 50 % reads", "block: 4KiB, read: 50"),
        ({"block": 4000}, "4000 B with any share of reads", "block: 4000B, read: 0"),
    ],
)
def test_a_question_with_another_block_or_mix_is_refused_in_a_sentence(
    tmp_path: Path, differs: dict[str, Any], workload: str, keys: str
) -> None:
    answer = capacity_answer(a_run(tmp_path, load=a_load(6_666)), asked(**differs))

    assert answer.plan is None
    assert answer_line(answer) == (
        f"No plan: no point measures {workload} at random over the whole drive, and ssdbench "
        f"does not compute it from other sizes or mixes: add `- sweep: {{{keys}}}`; measured were "
        "4 KiB with 70 % reads"
    )
    assert answer_cells(answer)["verdict"] == "no plan"
    assert by_change(a_run(tmp_path), answer) == []


def test_a_workload_that_was_not_measured_is_no_verdict_on_the_drive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a_run(tmp_path)

    assert main.run(["capacity", str(tmp_path), "--iops", "40000", "--block", "8KiB"]) == 1

    said = capsys.readouterr().out
    assert "VALIDATED" not in said
    assert said.count("no point measures 8 KiB") == said.count("add `- sweep") == 1
    assert said.splitlines()[-1].startswith("no plan: ")


def test_a_limit_of_p99_is_judged_at_the_planned_load(tmp_path: Path) -> None:
    result = a_run(tmp_path, load=a_load(6_666))

    kept = capacity_answer(result, asked(p99="3.4ms"))
    lost = capacity_answer(result, asked(p99="3ms"))

    assert kept.validated
    assert not lost.validated
    assert any("p99 at the planned load" in why and "3.4 ms" in why for why in lost.reasons)


def test_only_the_rows_of_an_answer_are_explained(tmp_path: Path) -> None:
    answer = capacity_answer(a_run(tmp_path, load=a_load(6_666)), asked())

    rows = answer_rows([(a_run(tmp_path), answer)], ["A"])
    said = meanings(rows)

    assert "Headroom: " in said and "For reserve it is 85 %" in said
    assert "For latency" not in said and "IOPS that miss p99" not in said and "Price" not in said


@pytest.mark.parametrize(
    ("measured", "verdict", "said"),
    [
        (None, "INCOMPLETE", "p99 was not measured at the planned 6,667 IOPS per drive"),
        (5_000, "INCOMPLETE", "(40,000 IOPS on 6 drives), only at 5,000"),
        (6_666, "VALIDATED", "p99 of reads 2.9 ms"),
        (9_000, "VALIDATED", "but is within its limit at the higher load of 9,000 IOPS"),
    ],
)
def test_p99_of_a_closed_loop_is_not_enough_for_an_answer_with_a_limit(
    tmp_path: Path, measured: float | None, verdict: str, said: str
) -> None:
    result = a_run(tmp_path, load=None if measured is None else a_load(measured))

    answer = capacity_answer(result, asked(p99="100s"))  # any queue depth keeps this limit

    assert answer.verdict == verdict
    assert said in answer_line(answer)
    why = [one for one in answer.incomplete if "closed loop" in one]
    assert len(why) == (verdict == "INCOMPLETE")
    cells, limits = answer_cells(answer), ("p99 of reads", "p99 of writes")
    assert "p99" not in cells  # each limit has its row, as in the column of another candidate
    assert all((cells[name] == "not measured") == (measured != 6_666) for name in limits)
    assert answer.plan is not None and answer.plan.drives == 8  # the number is the same


QUESTION = (
    "plan: {demand_iops: 40000, failure_reserve: 2, endurance_tb: 800}\nmeasure: [{sweep: {}}]"
)


def test_below_the_answer_stands_p99_at_the_planned_load_and_no_other_one(tmp_path: Path) -> None:
    plain = a_run(tmp_path / "plain").model_copy(update={"profile_text": QUESTION})
    loaded = a_run(tmp_path / "loaded", load=a_load(5_000))
    loaded = loaded.model_copy(update={"profile_text": QUESTION})

    def rows(result: RunResult) -> dict[str, list[str]]:
        table = headline(result).table
        assert table is not None
        found = ([cell.text.replace("\u00a0", " ") for cell in row] for row in table.rows)
        return {name: rest for name, *rest in found}

    assert rows(loaded) == {
        "IOPS of each drive": ["5,000", "7,000 (70 % of 10,000)"],
        "p99 of reads at this load": ["2.9 ms, at most 3.4 ms", "–"],
        "p99 of writes at this load": ["1 ms, at most 1.5 ms", "–"],
        "life, years": ["5.16", "needs 5"],
    }
    assert not any(name.startswith("p99") for name in rows(plain))
    assert [len(headline(one).beside) for one in (loaded, plain)] == [0, 1]  # at the highest load
    assert headline(loaded).answer_tone == "good"


def a_missed_run(tmp_path: Path, p99_ms: Sequence[float], **changes: Any) -> RunResult:
    """Return a run whose rounds have these p99s of reads, for a limit of 2 ms; 10 and 14 drives."""
    of = zip((10, 14), (5_000.0, 40_000 / 12), p99_ms, strict=False)
    rounds = [
        {
            "drives": drives, "load_iops": iops, "kept": ms <= 2, "p99": [
                {"metric": "lat_p99_ns", "unit": "ns", "value": ms * 1e6, "bound": ms * 1.05e6,
                 "direction": "read"}
            ],
        }
        for drives, iops, ms in of
    ]  # fmt: skip
    load = a_load(rounds[-1]["load_iops"], planned=rounds, estimates=rounds[-1]["p99"])  # type: ignore[arg-type]
    question = QUESTION.replace("endurance_tb", "read: 70, p99: {read: 2ms}, endurance_tb")
    return a_run(tmp_path, load=load, profile_text=question, **changes)


def test_a_measured_no_is_a_validated_answer(tmp_path: Path) -> None:
    result = a_missed_run(tmp_path, (3.1, 2.6))

    answer, top, box = answer_of(result), headline(result), headword(result)

    assert answer is not None
    no = "No: with 10 drives p99 of reads is 3.1 ms (limit 2 ms), with 14 drives 2.6 ms"
    assert top.answer == f"{no}; more drives were not measured; VALIDATED (simulated drive)"
    assert (top.number, top.unit) == ("No", "count of drives that was measured keeps the limit")
    assert (box.word, box.tone, top.answer_tone) == ("VALIDATED: THE ANSWER IS NO", "note", "note")
    assert top.rate is not None and "does not answer the question" in top.rate.meaning
    assert top.table is not None
    assert [row[0].text.replace("\u00a0", " ") for row in top.table.rows] == [
        "p99 of reads with 10 drives (5,000 IOPS each)",
        "p99 of reads with 14 drives (3,333 IOPS each)",
    ]
    assert answer_cells(answer) == {
        "drives with spares": "no count is enough",
        "p99 of reads": "2.6 ms",
        "p99 of reads, bound": "2.73 ms",
        "IOPS that miss p99": "3,333",
        "verdict": "VALIDATED",
    }
    last = list(run_lines(Ended(tmp_path, result, (tmp_path / "report.html",), exit_code=6)))
    assert "NOT VALIDATED" not in "".join(last)


def test_candidates_without_an_answer_are_named_beside_the_one_to_buy(tmp_path: Path) -> None:
    lost = a_missed_run(tmp_path / "lost", (3.1, 2.6), target=a_target(sim_model="lost"))
    spoilt = lost.model_copy(update={"verdict": "NOT VALIDATED"})
    kept = a_missed_run(
        tmp_path / "kept", (1.9,), target=a_target(size_bytes=4 * TB, sim_model="kept")
    )

    def line(*runs: RunResult) -> str:
        return candidates_line([(one, answer_of(one)) for one in runs])  # type: ignore[misc]

    buy = "Buy 10 drives of kept (decided by wear)"
    none = "; no count of lost keeps the limit of p99; VALIDATED (simulated drives)"
    assert line(lost, kept) == f"{buy}{none}"
    assert line(spoilt, kept) == f"{buy}; no count of lost NOT VALIDATED keeps the limit of p99"


def test_a_no_from_a_run_that_is_not_validated_has_its_mark(tmp_path: Path) -> None:
    result = a_missed_run(tmp_path, (3.1, 2.6), verdict="NOT VALIDATED")

    answer, top = answer_of(result), headline(result)

    assert answer is not None and answer.no and not answer.validated
    assert top.answer.startswith("No: with 10 drives") and "; NOT VALIDATED (" in top.answer
    assert top.unit.endswith("NOT VALIDATED") and top.answer_tone == "bad"
    assert answer_cells(answer)["drives with spares"] == "no count is enough NOT VALIDATED"


def test_one_missed_round_is_no_proof_that_more_drives_are_not_enough(tmp_path: Path) -> None:
    answer = answer_of(a_missed_run(tmp_path, (3.1,)))

    assert answer is not None and (answer.no, answer.verdict) == ("", "NOT VALIDATED")
    assert answer.reasons[0].endswith("(limit 2 ms); more drives were not measured")


def test_after_a_missed_round_no_headroom_of_latency_is_known(tmp_path: Path) -> None:
    answer = answer_of(a_missed_run(tmp_path, (3.1, 1.8)))

    assert answer is not None
    cells = answer_cells(answer)
    assert cells["drives with spares"] == "14" and cells["headroom: latency"] == "none known"
    assert (cells["IOPS that keep p99"], cells["IOPS that miss p99"]) == ("3,333", "5,000")


def test_no_directory_of_a_stage_is_in_an_answer(tmp_path: Path) -> None:
    result = a_run(tmp_path, load=a_load(6_666))

    answer = capacity_answer(result, asked(read=70, p99={"read": "1ms"}))

    (stage,) = {one.stage for one in answer.latencies}
    assert answer.reasons and stage not in answer_line(answer)


def test_a_range_of_drives_says_how_many_keep_the_limit_and_no_change_beside_it_is_made_up(
    tmp_path: Path,
) -> None:
    rounds = [
        {"drives": 10, "load_iops": 5_000.0, "kept": False, "missed": "it fell behind"},
        {"drives": 14, "load_iops": 40_000 / 12, "kept": True},
    ]
    result = a_run(tmp_path, load=a_load(40_000 / 12, planned=rounds))
    wanted = asked(read=70, p99={"read": "4ms"}, endurance_tb=800)

    answer = capacity_answer(result, wanted)
    changed = {row[0]: row[1:] for row in by_change(result, answer)[1:]}

    order = "10 miss the limit of p99, 14 keep it, 11 to 13 were not measured"
    start = f"Buy 14 drives, 2 of them spares, decided by latency: {order}; p99 of reads"
    assert answer_line(answer).startswith(start)
    assert changed["demand x 1.25"] == ("–", "–", "not known to hold")
    assert all(row[0] == "–" for row in changed.values() if row[2])


@pytest.mark.parametrize(
    ("asks", "answered"),
    [
        ("read: 70, p99: {read: 4ms}", True),
        ("read: 70, p99: {read: 1ms}", False),  # drives, NOT VALIDATED
        ("read: 70, block: 8KiB", False),  # no plan
    ],
)
def test_no_green_box_stands_below_a_red_answer(tmp_path: Path, asks: str, answered: bool) -> None:
    question = QUESTION.replace("endurance_tb", f"{asks}, endurance_tb")
    result = a_run(tmp_path, load=a_load(5_000)).model_copy(update={"profile_text": question})

    top, box = headline(result), headword(result)

    assert result.verdict == "VALIDATED"
    assert box.word == ("VALIDATED" if answered else "NO VALIDATED ANSWER")
    last = list(run_lines(Ended(tmp_path, result, (tmp_path / "report.html",), exit_code=0)))[-2]
    assert last.startswith(f"{box.word}: ")
    assert (top.answer_tone, box.tone) == (("good", "good") if answered else ("bad", "note"))
    assert box.meaning.startswith("The measurement is VALIDATED, but not the answer") != answered


def test_no_green_box_stands_beside_an_answer_that_lacks_an_input(tmp_path: Path) -> None:
    question = QUESTION.replace(", endurance_tb: 800", "")
    result = a_run(tmp_path, load=a_load(6_666), profile_text=question)

    top, box = headline(result), headword(result)

    assert result.verdict == "VALIDATED"
    assert box.word == "MEASUREMENT VALIDATED, ANSWER INCOMPLETE"
    assert (box.tone, top.answer_tone) == ("note", "bad")
    assert box.meaning.startswith("The answer lacks an input, which may add drives.")
    assert top.label.startswith("Drives of") and "to buy, at least" in top.label
    page = render(tmp_path)[0].read_text(encoding="utf-8")
    assert page.index("the rated endurance of the drive is unknown") < page.index("<nav")


def test_the_page_says_the_answer_once_at_the_top(tmp_path: Path) -> None:
    result = a_run(tmp_path, load=a_load(5_000), profile_text=QUESTION)

    page = render(tmp_path)[0].read_text(encoding="utf-8")
    section = page[page.index('id="plan"') :]

    assert page.count(headline(result).answer) == 1
    head = page[: page.index("<nav")]
    sizes = re.findall(r'class="value">(\S+) ', head)
    assert headline(result).answer in head and sizes == ["10"]  # the drives, in the largest type
    assert re.search(r"</h2>\s*<p[^>]*>Question: ", section)


def test_no_number_of_drives_stands_without_not_validated(tmp_path: Path) -> None:
    result = a_run(tmp_path, verdict="NOT VALIDATED", load=a_load(6_666))
    wanted = asked(price=100.0, power_w=7, failure_rate="1%", capacity=8)

    answer = capacity_answer(result, wanted)
    frame = results_table(
        result.model_copy(
            update={"profile_text": "plan: {demand_iops: 40000}\nmeasure: [{sweep: {}}]"}
        )
    ).frame()
    (row,) = plans_table([(result, answer)]).rows

    assert answer.plan is not None
    assert answer.plan.verdict == "NOT VALIDATED"
    assert answer_line(answer).startswith(f"{answer.plan.drives} drives NOT VALIDATED")
    assert answer_cells(answer)["drives with spares"] == f"{answer.plan.drives} NOT VALIDATED"
    assert row["drives"] == f"{answer.plan.drives} NOT VALIDATED"
    counts = ("Drives", "Reserve", "Price of", "Power", "Expected")
    lines = [
        line for line in (*sum_lines(answer), *figures(answer)) if line.name.startswith(counts)
    ]
    assert len(lines) >= 8 and all(line.text.endswith("NOT VALIDATED") for line in lines)
    assert all("NOT VALIDATED" in line[1] for line in by_change(result, answer)[1:])
    assert all(depth.verdict == "NOT VALIDATED" for depth in answer.depths)
    assert by_depth(answer) == []  # one depth
    drives = frame[frame["metric"] == "capacity_drives"].iloc[0]
    assert drives["status"] == "suppressed" and "drives NOT VALIDATED" in drives["answer"]


def test_json_has_the_verdict_in_each_object_with_a_number_of_drives(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a_run(tmp_path, verdict="NOT VALIDATED")
    main.run(["capacity", str(tmp_path), "--iops", "40000", "--endurance", "1e6", "--json"])
    told = json.loads(capsys.readouterr().out)

    def objects(value: Any) -> list[dict[str, Any]]:
        inner = value.values() if isinstance(value, dict) else value
        own = [value] if isinstance(value, dict) else []
        nested = [o for v in inner if isinstance(v, dict | list) for o in objects(v)]
        return [*own, *nested]

    counts = [one for one in objects(told) if isinstance(one.get("drives"), int)]
    needs = told["plan"]["needs"]
    assert len(counts) > len(needs) + 3
    assert all(one["verdict"] == "NOT VALIDATED" for one in counts if one not in needs)


def test_a_smaller_simulated_drive_is_planned_with_the_capacity_of_its_model(
    tmp_path: Path,
) -> None:
    small = a_target(size_bytes=TB // 1000, full_size_bytes=2 * TB)
    old = a_target(
        size_bytes=TB // 1000, facts={"simulation note 1": "capacity is 1 GB instead of 2 TB: …"}
    )
    wanted = asked(capacity=20, price=100)

    full = capacity_answer(a_run(tmp_path / "a", target=small), wanted)
    unknown = capacity_answer(a_run(tmp_path / "b", target=old), wanted)

    assert full.plan is not None and full.plan.drives_for_capacity == 10
    assert (full.plan.drives, full.plan.cost_per_tb) == (12, 50.0)
    assert full.plan.wear is not None and full.plan.wear.dwpd_used is not None
    assert full.plan.wear.dwpd_used < 1
    assert unknown.plan is not None and not unknown.validated
    assert (unknown.plan.drives_for_capacity, unknown.plan.cost_per_tb) == (None, None)
    assert unknown.plan.wear is not None and unknown.plan.wear.dwpd_used is None
    assert any("smaller than its model" in why for why in unknown.incomplete)


def test_a_simulated_target_knows_the_capacity_of_its_model() -> None:
    from ssdbench.target.inspect import inspect

    small, whole = inspect("sim:x25m-g2-160,capacity=512MiB"), inspect("sim:dram-ssd-2012")

    assert (small.size_bytes, small.sold_bytes) == (512 << 20, 160_041_885_696)
    assert whole.sold_bytes == 68_719_476_736


def test_candidates_are_answered_in_one_line_with_what_decides(tmp_path: Path) -> None:
    wanted = asked(endurance_tb=800)

    def of(model: str, bound: float, **head: Any) -> RunResult:
        target = a_target(size_bytes=4 * TB, sim_model=f"{model},capacity=1GiB")
        return a_run(tmp_path / model, bound, run_id=model, target=target, **head)

    fast, slow = of("fast", 20_000), of("slow", 3_000)
    bad = of("bad", 40_000, verdict="NOT VALIDATED")

    def line(*runs: RunResult, **changes: Any) -> str:
        own = wanted.model_copy(update=changes)
        return candidates_line([(run, capacity_answer(run, own)) for run in runs])

    # 40,000 / 2,100 = 19.05, so 20, and 2; wear needs 10 of any drive.
    wear, iops = "(decided by wear)", "(decided by IOPS)"
    valid = "; VALIDATED (simulated drives)"
    assert line(slow, fast) == f"Buy 10 drives of fast {wear}, against 22 of slow {iops}{valid}"
    # Two drives of one name are letters, and the line says which run is which letter.
    of_fast, of_slow = wear.replace("(", "(run fast, "), iops.replace("(", "(run slow, ")
    assert line(fast, fast) == f"Buy 10 drives of A {of_fast} or of B {of_fast}{valid}"
    assert line(slow, fast, fast) == (
        f"Buy 10 drives of B {of_fast} or of C {of_fast}, against 22 of A {of_slow}{valid}"
    )
    assert (
        line(fast, bad) == f"Buy 10 drives of fast {wear}, against 10 NOT VALIDATED of bad {wear}"
    )
    others = f"22 of slow {iops} and 10 NOT VALIDATED of bad {wear}"
    assert line(slow, bad, fast) == f"Buy 10 drives of fast {wear}, against {others}"
    bought = f"Buy 10 drives for 3,000 of fast {wear}, against 22 for 6,600 of slow {iops}{valid}"
    assert line(slow, fast, price=300.0) == bought
    of_bad = wear.replace("(", "(run bad, ")
    both = f"10 drives NOT VALIDATED of A {of_bad}, against 10 NOT VALIDATED of B {of_bad}"
    assert line(bad, bad) == both
    assert line(fast, slow, read_percent=35).startswith("fast: No plan: no point measures")


def test_candidates_have_the_same_answer_on_terminal_page_csv_and_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a_run(tmp_path / "slow", 3_000, run_id="slow")
    a_run(tmp_path / "fast", 20_000, run_id="fast", load=a_load(5_000))
    page, rows = tmp_path / "page.html", tmp_path / "rows.csv"
    given = [
        *("capacity", str(tmp_path / "slow"), str(tmp_path / "fast"), "--iops", "40000"),
        *("--reserve", "2", "--endurance", "800", "--price", "150", "--power", "7"),
    ]

    assert main.run([*given, "--html", str(page), "--csv", str(rows)]) == 0
    said = capsys.readouterr().out
    assert main.run([*given, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)

    buy = "Buy 10 drives for 1,500 of B (run fast, decided by wear)"
    slow = "22 for 3,300 of A (run slow, decided by IOPS)"
    line = f"{buy}, against {slow}; VALIDATED (simulated drives)"
    assert said.splitlines()[0] == told["answer"] == line
    question = (
        "40,000 IOPS of any measured block size with the smallest measured share of reads, "
        "peak x 1, no growth, spares 2"
    )
    assert said.splitlines()[1].startswith(f"question: {question}")
    assert told["question"].startswith(question)
    assert max(map(len, said.splitlines()[2:20])) <= 80
    text = without_script(page.read_text())
    assert line in text and f"Question: {question}" in text
    assert "<h1>slow against fast</h1>" in text  # the drives have one name
    assert text.count("Buy 22 drives, 2 of them spares, decided by IOPS") == 1  # not yet above
    for name, slower, faster in (
        ("drives with spares", "22", "10"),
        ("decided by", "IOPS", "wear"),
        ("headroom: IOPS", "4.76 %", "64.3 %"),
        ("headroom: wear", "56 %", "3.12 %"),
        ("planned IOPS, each", "2,000", "5,000"),
        ("p99 of reads, bound", "–", "3.4 ms"),
        ("price", "3,300", "1,500"),
        ("power, W", "154", "70"),
        ("verdict", "VALIDATED", "VALIDATED"),
    ):
        assert re.search(rf"^{name} +{slower} +{faster}(  |$)", said, re.MULTILINE), name
        assert re.search(rf">{name}<.*?>{slower}<.*?>{faster}<", text), name
    table = list(csv.DictReader(rows.read_text().splitlines()))
    assert [row["drives"] for row in table] == ["22", "10"]
    assert [row["decided_by"] for row in table] == ["rate", "wear"]
    assert all(row["question"].startswith(question) for row in table)
    assert [row["lat_p99_read_upper_ns"] for row in table] == ["", "3400000.0"]
    assert [float(row["wear_headroom_percent"]) for row in table] == pytest.approx(
        [100 * (1 - 7750.3 / 800 / drives) for drives in (22, 10)], abs=0.01
    )
    plans = [one["plan"] for one in told["candidates"]]
    assert [(p["drives"], p["decided_by"]) for p in plans] == [(10, "wear"), (22, "rate")]
    assert [one["direction"] for one in told["candidates"][0]["latencies"]] == ["read", "write"]


def test_candidates_without_a_price_are_named_if_others_have_one(tmp_path: Path) -> None:
    fast, slow = (
        a_run(
            tmp_path / name, bound, run_id=name, target=a_target(size_bytes=4 * TB, sim_model=name)
        )
        for name, bound in (("fast", 20_000.0), ("slow", 3_000.0))
    )
    wanted = asked(endurance_tb=800)
    priced = wanted.model_copy(update={"price": 900.0})

    def line(*prices: CapacityPlan) -> str:
        plans = zip((fast, slow), prices, strict=True)
        return candidates_line([(run, capacity_answer(run, one)) for run, one in plans])

    why = "; by the number of drives, because the price of slow is not known; VALIDATED"
    assert line(priced, wanted).startswith("Buy 10 drives of fast") and why in line(priced, wanted)
    assert "not known" not in line(wanted, wanted) + line(priced, priced)


@pytest.mark.parametrize(
    ("second", "given", "refused"),
    [
        ("p99: {read: 5ms}", [], "--p99, or --p99-read and --p99-write."),
        ("peak: 2", ["--iops", "4000"], "--peak."),
        ("spares: 3, growth: 20%", [], "--growth and --years; --spares."),
        ("peak: 2", ["--peak", "1.5"], None),
        ("price: 300, warranty_years: 3", [], None),  # of the drive, not of the question
    ],
)
def test_candidates_that_are_asked_different_questions_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], second: str, given: list[str],
    refused: str | None,
) -> None:  # fmt: skip
    for name, more in (("a", ""), ("b", f", {second}")):
        plan = f"plan: {{demand_iops: 40000, read: 70, block: 4KiB, endurance_tb: 800{more}}}"
        a_run(tmp_path / name, run_id=name, profile_text=f"{plan}\nmeasure: [{{sweep: {{}}}}]\n")

    code = main.run(["capacity", str(tmp_path / "a"), str(tmp_path / "b"), *given])
    said = capsys.readouterr()

    assert (code == 2) == (refused is not None)
    if refused is not None:
        assert "the profiles of these runs ask different questions" in said.err
        assert said.err.rstrip().endswith(f"Give one value for all runs: {refused}")


def test_the_title_names_the_drives(tmp_path: Path) -> None:
    for name in ("quick", "large"):
        target = a_target(size_bytes=4 * TB, sim_model=f"sim:{name},capacity=4GiB")
        a_run(tmp_path / name, run_id=f"run-{name}", target=target)
    page = tmp_path / "page.html"

    runs = [str(tmp_path / name) for name in ("quick", "large")]
    main.run(["capacity", *runs, "--iops", "40000", "--endurance", "800", "--html", str(page)])

    assert "<h1>quick against large</h1>" in page.read_text()


NUMBER = r"[0-9][0-9,]*(?:\.[0-9]+)?"


def number(text: str) -> float:
    return float(text.replace(",", ""))


def agrees(printed: str, value: float) -> bool:
    """Tell whether a printed number is this value, rounded to its last digit."""
    decimals = len(printed.partition(".")[2])
    return abs(number(printed) - value) <= 0.5 * 10.0**-decimals * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(40))
def test_each_printed_sum_is_right_on_a_pocket_calculator(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    bound = 10 ** chance.uniform(1.2, 5.5)
    answer = capacity_answer(
        a_run(tmp_path, bound),
        asked(
            bound * chance.choice([0.7, 1.4, 7.0, 21.0, 10 ** chance.uniform(-1, 5)]),
            growth=chance.choice(["0%", "30%", "7.5%"]),
            utilisation=chance.choice(["70%", "65%", "72.5%"]),
            rebuild_iops=chance.choice([None, 1234.5]),
            endurance_tb=10 ** chance.uniform(2, 5),
            price=chance.choice([449.99, 300.0]),
            capacity=chance.choice([12, 33.3]),
            power_w=7.25,
        ),
    )
    made = answer.plan
    assert made is not None
    lines = {line.name: line.text for line in (*sum_lines(answer), *figures(answer))}

    shared = re.search(
        rf"planned ({NUMBER}) IOPS per drive \((?:.* = )?({NUMBER}) IOPS on ({NUMBER}) drive",
        answer_line(answer),
    )
    assert shared is not None and agrees(shared[1], number(shared[2]) / number(shared[3]))
    product = re.fullmatch(rf"({NUMBER}) x ({NUMBER}) = ({NUMBER}) IOPS for each drive",
                           lines["Utilisation"])  # fmt: skip
    assert product is not None
    assert agrees(product[3], number(product[1]) * number(product[2]))
    count = rf"= ({NUMBER}), so ({NUMBER})"
    load = re.fullmatch(rf"({NUMBER}) / ({NUMBER}) {count}", lines["Drives for the load"])
    assert load is not None and load[2] == product[3]
    assert agrees(load[3], number(load[1]) / number(load[2]))
    assert -(-number(load[3]) // 1) == number(load[4]) == made.drives_for_load
    after = re.fullmatch(
        rf"\(?({NUMBER})(?: \+ ({NUMBER})\))? / \(({NUMBER}) x 0.85\) {count}",
        lines["Drives after failures"],
    )
    assert after is not None
    assert agrees(
        after[4], (number(after[1]) + number(after[2] or "0")) / (number(after[3]) * 0.85)
    )
    assert -(-number(after[4]) // 1) == number(after[5]) == made.drives_for_rebuild
    data = re.fullmatch(rf"({NUMBER}) TB / ({NUMBER}) TB per drive {count}",
                        lines["Drives for the data"])  # fmt: skip
    assert data is not None and agrees(data[3], number(data[1]) / number(data[2]))
    assert -(-number(data[3]) // 1) == number(data[4])
    wear = re.match(rf"({NUMBER}) TB a day x ({NUMBER}) days / ({NUMBER}) TB {count}",
                    lines["Drives for the wear"])  # fmt: skip
    assert wear is not None and made.wear is not None
    assert agrees(wear[4], number(wear[1]) * number(wear[2]) / number(wear[3]))
    assert -(-number(wear[4]) // 1) == number(wear[5]) == made.wear.drives_for_wear
    written = re.fullmatch(
        rf"({NUMBER}) IOPS(?: x ({NUMBER}))? x ({NUMBER}) \(writes\) x ({NUMBER}) B x ({NUMBER}) s "
        rf"= ({NUMBER}) TB over all drives",
        lines["Written per day"],
    )
    assert written is not None
    factors = [number(one or "1") for one in written.groups()[:5]]
    assert math.prod(factors) / 1e12 == pytest.approx(number(written[6]), rel=5e-5)
    for name, unit in (("Price of all drives", ""), ("Power of all drives", " W")):
        whole = re.fullmatch(rf"({NUMBER}) x ({NUMBER}){unit} = ({NUMBER}){unit}", lines[name])
        assert whole is not None and agrees(whole[3], number(whole[1]) * number(whole[2]))
        assert number(whole[1]) == made.drives
    tb = re.fullmatch(rf"({NUMBER}) / ({NUMBER}) TB = ({NUMBER})", lines["Price per TB"])
    assert tb is not None and agrees(tb[3], number(tb[1]) / number(tb[2]))


def test_runs_are_named_by_letters() -> None:
    assert [letter(place) for place in (0, 1, 25, 26, 27, 52)] == ["A", "B", "Z", "AA", "AB", "BA"]
