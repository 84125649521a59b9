"""Test targets against planted numbers: which pass, which fail, and which cannot be judged."""

from pathlib import Path
from typing import Any

import pytest

from ssdbench.cli import conduct
from ssdbench.cli.summary import run_lines
from ssdbench.model.finding import Code, Finding
from ssdbench.model.point import Basis, Estimate, StreamResult
from ssdbench.model.profile.accept import Accepted, Target
from ssdbench.model.profile.standard import PtsForm, PtsTest
from ssdbench.model.pts import Pts, PtsCell, PtsMetric, PtsRound, PtsWindow
from ssdbench.model.rates import LoadFound
from ssdbench.model.result import FlashWritten, RunResult, StageResult
from ssdbench.model.rundirectory import MANIFEST
from ssdbench.model.workload import Stream
from ssdbench.report import render
from ssdbench.stats.planning.acceptance import whole, with_accepted
from tests.support.builders import a_finding, a_small_run

BOUND, MEAN, WORST_SECOND, UPPER_NS = 5_000.0, 6_000.0, 900.0, 3e6


def planted(result: RunResult, **point: Any) -> RunResult:
    """Return the run with only its write point, and with these numbers in it."""
    stage = next(stage for stage in result.stages if stage.points)
    one = next(p for p in stage.points if p.point.workload.read_percent == 0)
    known: dict[str, dict[str, Any]] = {
        "iops": {"value": MEAN, "bound": BOUND},
        "worst_second_iops": {"value": WORST_SECOND, "bound": WORST_SECOND},
        "lat_p99_ns": {"value": 2e6, "bound": UPPER_NS, "status": "published"},
        "lat_p99_99_ns": {"metric": "lat_p99.99_ns", "bound": None, "status": "suppressed"},
    }
    estimates = [
        e.model_copy(update=known[e.metric]) if e.metric in known else e for e in one.estimates
    ]
    if not any(e.metric == "worst_second_iops" for e in estimates):
        estimates.append(
            estimates[0].model_copy(
                update={"metric": "worst_second_iops", **known["worst_second_iops"]}
            )
        )
    changed = one.model_copy(
        update={"estimates": tuple(estimates), "verdict": "VALIDATED", "findings": (), **point}
    )
    found = stage.found.model_copy(update={"points": (changed,)})
    stages = tuple(s if s is not stage else s.model_copy(update={"found": found})
                   for s in result.stages)  # fmt: skip
    return result.model_copy(update={"stages": stages})


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunResult]:
    place = tmp_path_factory.mktemp("accept")
    return place, planted(a_small_run(place))


def one(result: RunResult, **target: Any) -> Accepted:
    (row,) = with_accepted(result, [Target.model_validate(target)]).accepted
    return row


WRITES = {"block": "4KiB", "read": 0}


@pytest.mark.parametrize(
    ("limit", "outcome", "why"),
    [
        ({"iops": BOUND}, "pass", "the bound keeps the limit"),
        ({"iops": BOUND + 1}, "fail", "although the mean keeps it"),
        ({"iops": MEAN + 1}, "fail", "and the mean miss"),
        ({"worst_second": WORST_SECOND}, "pass", "worst"),
        ({"worst_second": WORST_SECOND + 1}, "fail", "worst"),
        ({"latency": {"p99": "3ms"}}, "pass", "upper 95 % limit"),
        ({"latency": {"p99": "2.9ms"}}, "fail", "although the percentile itself keeps it"),
        ({"latency": {"p99.99": "1s"}}, "cannot tell", "too few"),
        ({"latency": {"p99.999": "1s"}}, "cannot tell", "not measured"),
    ],
)
def test_a_number_is_judged_by_its_pessimistic_side(
    stored: tuple[Path, RunResult], limit: dict[str, Any], outcome: str, why: str
) -> None:
    row = one(stored[1], of=WRITES, **limit)

    assert (row.outcome, why in row.why) == (outcome, True), row


def test_what_is_not_validated_never_passes(stored: tuple[Path, RunResult]) -> None:
    spoilt = planted(stored[1], verdict="NOT VALIDATED", findings=(a_finding(),))
    moving = planted(
        stored[1], verdict="NOT VALIDATED", findings=(a_finding(Code.NOT_STEADY_POINT),)
    )

    assert one(spoilt, of=WRITES, iops=1.0).outcome == "cannot tell"
    assert one(spoilt, of=WRITES, iops=1e9).outcome == "cannot tell"
    assert "cv-too-high" in one(spoilt, of=WRITES, iops=1.0).why
    assert one(moving, of=WRITES, iops=1.0).outcome == "cannot tell"
    assert one(moving, of=WRITES, iops=MEAN + 1).outcome == "fail"  # it had even less to promise


def test_the_worst_of_several_points_decides_and_none_is_no_pass(tmp_path: Path) -> None:
    result = a_small_run(tmp_path)
    points = {p.point.workload.read_percent: p.estimate("iops") for p in result.points}
    bounds = {read: estimate.bound or 0.0 for read, estimate in points.items() if estimate}

    row = one(result, of={"block": "4KiB"}, iops=1e9)

    assert row.seen == min(bounds.values()) == bounds[0]
    assert one(result, of={"block": "8KiB"}, iops=1.0).outcome == "cannot tell"
    assert one(result, of={"block": "4KiB", "span": "5%"}, iops=1.0).outcome == "cannot tell"


CAPACITY = 160_000_000_000
TWO_DRIVE_WRITES = 2 * CAPACITY / 86_400 / 4096  # 904 IOPS


def at_load(result: RunResult, *findings: Finding, **found: Any) -> RunResult:
    """Return a run that measured one load of writes: p99.9 is 4.5 ms, at most 4.9 ms."""
    estimates = tuple(
        Estimate(
            metric="lat_p99.9_ns", unit="ns", value=4.5e6, bound=bound, direction=way,
            status="published" if bound else "indicative",
        )
        for way, bound in found.pop("bounds", {"write": 4.9e6}).items()
    )  # fmt: skip
    known: dict[str, Any] = {
        "asked_iops": TWO_DRIVE_WRITES,
        "verdict": "VALIDATED",
        "estimates": estimates,
    }
    stage = StageResult(
        name="01-load", title="It", started_at="", duration_s=1, wall_s=1, findings=findings,
        found=LoadFound(**known | found),
    )  # fmt: skip
    return result.model_copy(update={"stages": (stage,)})


@pytest.mark.parametrize(
    ("found", "limit", "outcome"),
    [
        ({}, "5ms", "pass"),
        ({}, "4.8ms", "fail"),
        ({}, "4ms", "fail"),
        ({"missed": "only 57.1 % of what was due were done"}, "5ms", "fail"),
        ({"verdict": "NOT VALIDATED"}, "5ms", "cannot tell"),
        ({"verdict": "MEASURED, NOT PLANNABLE"}, "5ms", "cannot tell"),
        ({"bounds": {"write": None}}, "5ms", "cannot tell"),
        ({"asked_iops": 905.0}, "5ms", "cannot tell"),  # another load
        ({"read_percent": 70, "asked_iops": TWO_DRIVE_WRITES / 0.3}, "5ms", "cannot tell"),
    ],
)
def test_a_latency_at_drive_writes_per_day_is_judged_by_what_was_measured_at_that_load(
    stored: tuple[Path, RunResult], found: dict[str, Any], limit: str, outcome: str
) -> None:
    told = at_load(stored[1], **found)

    row = one(told, of=WRITES, at={"drive_writes_per_day": 2}, latency={"p99.9": limit})

    assert row.outcome == outcome, row.why
    if row.seen is not None:
        assert (row.seen, row.load) == (4.9e6, "at 2 drive writes per day, 904.2 IOPS")


@pytest.mark.parametrize(
    ("limit", "outcome", "why"),
    [
        ("5ms", "pass", "the upper 95 % limit keeps the limit"),
        ("4.8ms", "cannot tell", "too few slow requests to call it a failure; measure for longer"),
    ],
)
def test_a_percentile_without_a_figure_may_keep_a_target_and_misses_none(
    stored: tuple[Path, RunResult], limit: str, outcome: str, why: str
) -> None:
    few = Estimate(
        metric="lat_p99.9_ns", unit="ns", value=4.5e6, bound=4.7e6, direction="write",
        status="suppressed", limit_for_targets=4.9e6,
    )  # fmt: skip

    row = one(
        at_load(stored[1], estimates=(few,)),
        of=WRITES,
        at={"drive_writes_per_day": 2},
        latency={"p99.9": limit},
    )

    assert (row.outcome, row.why, row.seen) == (outcome, why, 4.9e6)


def test_a_load_is_told_as_not_validated_with_the_reason(
    stored: tuple[Path, RunResult],
) -> None:
    spoilt = at_load(stored[1], a_finding(), verdict="NOT VALIDATED")

    row = one(spoilt, of=WRITES, at={"iops": TWO_DRIVE_WRITES}, latency={"p99.9": "1s"})

    assert (row.outcome, row.why) == ("cannot tell", "it is NOT VALIDATED (cv-too-high)")


def test_reads_alone_are_limited_at_a_load_and_of_a_point(stored: tuple[Path, RunResult]) -> None:
    mixed = at_load(
        stored[1], read_percent=70, asked_iops=3000.0, bounds={"read": 2e6, "write": 9e6}
    )
    target: dict[str, Any] = {"of": {"block": "4KiB", "read": 70}, "at": {"iops": 3000.0}}

    assert one(mixed, **target, latency={"p99.9": "5ms"}).outcome == "fail"
    reads = one(mixed, **target, latency={"read p99.9": "5ms"})
    assert (reads.outcome, reads.seen, reads.metric) == ("pass", 2e6, "lat_read_p99.9_ns")
    assert one(mixed, **target, latency={"write p99.9": "5ms"}).outcome == "fail"

    (point,) = stored[1].points
    both = tuple(
        e.model_copy(update={"direction": way, "bound": bound, "status": "published"})
        for e in point.estimates
        if e.metric == "lat_p99_ns"
        for way, bound in (("read", 2e6), ("write", 9e6))
    )
    workload = point.point.workload.model_copy(update={"read_percent": 70})
    result = planted(
        stored[1],
        point=point.point.model_copy(update={"workload": workload}),
    )
    stage = next(stage for stage in result.stages if stage.points)
    found = stage.found.model_copy(
        update={"points": (stage.points[0].model_copy(update={"estimates": both}),)}
    )
    swept = result.model_copy(update={"stages": (stage.model_copy(update={"found": found}),)})
    assert one(swept, of={"block": "4KiB"}, latency={"p99": "5ms"}).outcome == "fail"
    assert one(swept, of={"block": "4KiB"}, latency={"read p99": "5ms"}).outcome == "pass"


def test_a_point_that_only_writes_is_none_of_a_target_for_reads(
    stored: tuple[Path, RunResult],
) -> None:
    row = one(stored[1], of={"block": "4KiB"}, latency={"read p99": "5ms"})

    assert (row.outcome, "nothing of this kind was measured" in row.why) == ("cannot tell", True)


def test_write_amplification_is_judged_by_what_coarse_counters_allow(
    stored: tuple[Path, RunResult],
) -> None:
    def at(most: float) -> str:
        written = FlashWritten(host_bytes=10**12, media_bytes=3 * 10**12, media_step_bytes=10**11)
        told = stored[1].model_copy(update={"flash_written": written})
        return one(told, write_amplification=most).outcome

    assert [at(3.2), at(3.0), at(2.8)] == ["pass", "cannot tell", "fail"]
    assert one(stored[1], write_amplification=9.0).outcome == "cannot tell"


def test_a_standard_test_can_fail_a_target_and_never_pass_it(
    stored: tuple[Path, RunResult],
) -> None:
    cells = [PtsCell(cell="0/100 4 KiB", block_bytes=4096, read_percent=0, queue=32, threads=1,
                     iops=iops, throughput_bytes_per_s=0.0) for iops in (990, 1010)]  # fmt: skip
    window = PtsWindow(
        cell="0/100 4 KiB", metric=PtsMetric.IOPS, first_round=1, last_round=2, average=1000.0,
        allowed_data_excursion=1, measured_data_excursion=1, allowed_slope_excursion=1,
        measured_slope_excursion=1, fit="", correlation=0, steady=True,
    )  # fmt: skip
    test = Pts(
        test=PtsTest.IOPS, form=PtsForm.ENTERPRISE, steady=True, active_range_bytes=CAPACITY,
        rounds=tuple(PtsRound(number=n, cells=(cell,)) for n, cell in enumerate(cells, 1)),
        windows=(window,),
    )  # fmt: skip
    stage = StageResult(
        name="01-pts", title="It", started_at="", duration_s=1, wall_s=1, found=test
    )
    result = stored[1].model_copy(update={"stages": (stage,)})
    of = {"test": "iops", "cell": "0/100 4 KiB"}

    assert one(result, of=of, iops=900.0).outcome == "cannot tell"
    assert one(result, of=of, iops=900.0).seen == 990  # the lowest of its rounds
    assert one(result, of=of, iops=1001.0).outcome == "fail"


def test_a_job_and_one_of_its_streams_are_targets_by_their_names(
    stored: tuple[Path, RunResult],
) -> None:
    (point,) = stored[1].points
    p99 = next(e for e in point.estimates if e.metric == "lat_p99_ns")
    slow = p99.model_copy(update={"bound": 9e6, "status": "published"})
    titled = point.point.workload.model_copy(update={"title": "mysql.fio 1"})
    result = planted(
        stored[1],
        point=point.point.model_copy(update={"workload": titled}),
        streams=(StreamResult(name="log", label="log: 4 KiB", estimates=(slow,)),),
    )
    limit = {"p99": "5ms"}

    assert one(result, of={"job": "mysql.fio"}, latency=limit).outcome == "pass"
    assert one(result, of={"job": "mysql.fio", "stream": "log"}, latency=limit).outcome == "fail"
    assert one(result, of={"job": "other"}, latency=limit).outcome == "cannot tell"
    for another in ("mysql", "mysql.fio 2"):
        assert one(result, of={"job": another}, latency=limit).outcome == "cannot tell"


@pytest.mark.parametrize(
    ("streams", "outcome"),
    [
        ([((4096,), 0)], "pass"),
        ([((4096, 65536), 0)], "cannot tell"),
        ([((4096,), 0), ((4096,), 100)], "cannot tell"),
        ([((4096,), 0), ((65536,), 0)], "cannot tell"),
    ],
)
def test_a_mix_of_several_kinds_is_not_of_the_kind_of_its_smallest_block(
    stored: tuple[Path, RunResult],
    streams: list[tuple[tuple[int, ...], int]],
    outcome: str,
) -> None:
    (point,) = stored[1].points
    workload = point.point.workload
    several = tuple(
        Stream(
            name=f"s{number}", options=(), random=True, block_sizes=sizes, mean_bytes=sizes[-1],
            read_percent=reads, range=workload.range,
        )
        for number, (sizes, reads) in enumerate(streams)
    )  # fmt: skip
    mixed = workload.model_copy(update={"streams": several, "title": "bulk"})
    result = planted(stored[1], point=point.point.model_copy(update={"workload": mixed}))

    assert one(result, of=WRITES, iops=BOUND).outcome == outcome
    assert one(result, of={"job": "bulk"}, iops=BOUND).outcome == "pass"


SHEET = {"iops": 90_000.0, "iodepth": 64, "state": "fresh", "source": "page 2"}


def test_the_datasheets_figure_stands_beside_ours_with_what_the_run_knows_of_the_difference(
    stored: tuple[Path, RunResult],
) -> None:
    row = one(stored[1], of=WRITES, iops=BOUND, datasheet=SHEET)
    alone = one(stored[1], of=WRITES, datasheet=SHEET | {"share": "5%"})
    worse = one(stored[1], of=WRITES, datasheet={"iops": 4_000.0})

    assert (row.outcome, row.datasheet) == ("pass", 90_000)
    assert (row.datasheet_conditions, row.datasheet_source) == ("QD 64, fresh drive", "page 2")
    told = "; ".join(row.worse_because)
    assert "the datasheet's drive is fresh" in told and "the mean is 6,000" in told
    assert "the datasheet's queue is QD 64" in told
    assert (alone.wanted, alone.outcome) == (4_500, "pass")  # no limit of one's own
    assert worse.worse_because == ()  # ours is better: nothing to explain


def test_targets_are_in_the_table_the_page_and_the_exit_code(
    stored: tuple[Path, RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, plain = stored
    (place / MANIFEST).touch()  # what makes it a run; nothing here reads it
    codes = {}
    for name, iops in (("pass", BOUND), ("fail", BOUND + 1)):
        target = Target.model_validate({"name": "OLTP", "of": WRITES, "iops": iops})
        result = with_accepted(plain, [target])
        assert whole(result.accepted) == name
        monkeypatch.setattr(conduct, "_reported", lambda *_, kept=result: kept)
        monkeypatch.setattr(conduct, "render", lambda directory: [directory / "report.html"])
        ended = conduct.resume(place, None, conduct.Audience(lambda event: None))
        codes[name] = ended.exit_code
        assert "OLTP    rate at least 5," in "\n".join(run_lines(ended))
    unknown = with_accepted(plain, [Target.model_validate({"write_amplification": 9.0})])
    monkeypatch.setattr(conduct, "_reported", lambda *_: unknown)
    codes["cannot tell"] = conduct.resume(
        place, None, conduct.Audience(lambda event: None)
    ).exit_code

    assert codes == {"pass": 0, "fail": 6, "cannot tell": 1}


def test_a_report_has_targets_csv_only_where_there_are_targets(tmp_path: Path) -> None:
    result = a_small_run(tmp_path)
    asked = with_accepted(result, [Target.model_validate({"name": "OLTP <b>", "iops": 1.0})])

    render(tmp_path, asked)
    page = (tmp_path / "report.html").read_text()
    assert ">Targets<" in page and "OLTP\xa0&lt;b&gt;" in page.replace(" ", "\xa0")
    assert "OLTP <b>,03-" not in page and "at least,1.0" in (tmp_path / "targets.csv").read_text()
    render(tmp_path, result)
    assert not (tmp_path / "targets.csv").exists()
    assert "The requirements of the profile" not in (tmp_path / "report.html").read_text()


def test_a_latency_without_a_known_end_misses_what_is_below_it_and_keeps_nothing(
    stored: tuple[Path, RunResult],
) -> None:
    stage = next(stage for stage in stored[1].stages if stage.points)
    (point,) = stage.points
    open_ended = {"value": 17e9, "bound": None, "status": "suppressed", "at_least": True}
    estimates = [
        e.model_copy(update=open_ended) if e.metric == "lat_p99_ns" else e for e in point.estimates
    ]
    result = planted(stored[1], estimates=tuple(estimates))

    missed = one(result, of=WRITES, latency={"p99": "5s"})
    above = one(result, of=WRITES, latency={"p99": "30s"})

    assert (missed.outcome, "at least 17 s" in missed.why) == ("fail", True)
    assert above.outcome == "cannot tell"


def test_a_latency_has_no_reason_that_is_about_the_bound_of_the_rate(
    stored: tuple[Path, RunResult],
) -> None:
    basis = Basis(horizon_s=600.0, pieces=3, seconds=1800.0, fills=2.0)
    sheet = {"iops": 1e9, "latency": {"p99": "1us"}}
    target = Target.model_validate({"of": WRITES, "datasheet": sheet})
    rate, latency = with_accepted(planted(stored[1], basis=basis), [target]).accepted

    assert sum("the bound is" in reason for reason in rate.worse_because) == 1
    assert latency.metric == "lat_p99_ns" and "the percentile itself" in latency.worse_because[0]
    assert not [reason for reason in latency.worse_because if "bound" in reason]
