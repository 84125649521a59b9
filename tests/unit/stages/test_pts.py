from dataclasses import replace
from pathlib import Path

import pytest

from ssdbench.engine.journal import Kind
from ssdbench.engine.stage import Lasting
from ssdbench.errors import UsageError
from ssdbench.model.finding import Code, Severity
from ssdbench.model.loading import load_profile
from ssdbench.model.profile import Purge
from ssdbench.model.profile.standard import PtsForm, PtsTest
from ssdbench.model.pts import PtsBins, PtsCell, PtsLatency, PtsRound, PtsSample
from ssdbench.stages.pts.rounds import Rounds, _means
from ssdbench.stages.pts.stage import cache_finding
from ssdbench.stages.pts.tests import (
    BLOCKS,
    COMPOSITE,
    COMPOSITE_ZONES,
    MIXES,
    TESTS,
    Setting,
)
from ssdbench.stages.pts.timed import _mean_ns
from ssdbench.stats.histogram import LOWER_EDGES_NS, Histogram
from ssdbench.stats.steady.ptsrounds import round_window
from ssdbench.suite.assemble import host_wishes
from tests.support.fakes import Killed, WearyDrive
from tests.support.runs import ARun
from tests.unit.stages.pts_drives import (
    HINT,
    RestlessDrive,
    a_run,
    a_setting,
    codes,
    flat,
    found,
    go,
    rounds_of,
)


def test_the_iops_test_is_seven_mixes_of_eight_blocks_writes_last() -> None:
    test = rounds_of(PtsTest.IOPS, WearyDrive())

    assert len(test.cells) == len(MIXES) * len(BLOCKS) == 56
    assert test.cells[0].name == "100/0 1 MiB" and test.cells[-1].name == "0/100 512 B"
    assert [t.cell for t in test.tracking] == ["0/100 4 KiB", "65/35 64 KiB", "100/0 1 MiB"]
    assert all(t.cell in [cell.name for cell in test.cells] for t in test.tracking)


def test_the_forms_differ_in_active_range_queue_and_threads() -> None:
    drive = WearyDrive()
    enterprise, client = (
        rounds_of(PtsTest.IOPS, drive, form=form).cells[6].workload for form in PtsForm
    )

    assert (enterprise.iodepth, enterprise.numjobs) == (32, 4)
    assert (client.iodepth, client.numjobs) == (16, 2)
    assert client.range.length_bytes == pytest.approx(0.75 * enterprise.range.length_bytes)


def test_half_kib_points_do_not_apply_to_a_drive_with_4_kib_blocks(tmp_path: Path) -> None:
    result = go(tmp_path, WearyDrive(logical_block_bytes=4096), PtsTest.LATENCY)

    assert codes(result).count(Code.NOT_APPLICABLE) == 3
    assert len(found(result).means) == 6


def test_what_is_said_of_a_test_before_it_begins_carries_the_name_of_its_stage(
    tmp_path: Path,
) -> None:
    drive = WearyDrive(fresh_iops=100, logical_block_bytes=4096)
    run = ARun(tmp_path / "run", drive)
    (stage,) = TESTS[PtsTest.LATENCY]("pts-latency", a_setting(drive, scale=0.05))
    run.stages.append(replace(stage, name="01-pts-latency"))

    result = run.go().stages[0]

    told = [f for f in result.findings if f.code is Code.NOT_APPLICABLE]
    assert {absent.block_bytes for absent in found(result).not_applicable} == {512}
    assert {finding.stage for finding in told} == {"01-pts-latency"}


def test_writes_of_no_whole_remap_units_are_labelled_in_every_test() -> None:
    drive = flat()
    coarse = replace(
        a_setting(drive), target=drive.info.model_copy(update={"remap_unit_bytes": 16384})
    )

    def labels(setting: Setting, test: PtsTest) -> list[str]:
        return [
            finding.message
            for stage in TESTS[test]("01", setting)
            for finding in stage.skipped
            if finding.code is Code.BELOW_REMAP_UNIT
        ]

    assert {test: len(labels(coarse, test)) for test in TESTS} == {
        **dict.fromkeys(TESTS, 1), PtsTest.THROUGHPUT: 0,
    }  # fmt: skip
    assert (
        "writes of 512 B, 4 KiB and 8 KiB are smaller than the mapping unit of 16 KiB"
        in labels(coarse, PtsTest.IOPS)[0]
    )
    assert "8 KiB" in labels(coarse, PtsTest.CROSSED)[0]
    assert not labels(a_setting(drive), PtsTest.DEMAND)


@pytest.mark.parametrize("test", [PtsTest.LATENCY, PtsTest.DEMAND, PtsTest.IDLE, PtsTest.CROSSED])
def test_a_drive_whose_blocks_are_too_large_for_a_test_is_refused_before_it_begins(
    test: PtsTest,
) -> None:
    drive = flat()
    large = drive.info.model_copy(update={"logical_block_bytes": 16384})

    with pytest.raises(UsageError, match="logical block of 16 KiB"):
        TESTS[test]("01", replace(a_setting(drive), target=large))


@pytest.mark.parametrize(
    ("test", "fills"), [(PtsTest.IOPS, 2), (PtsTest.THROUGHPUT, 2), (PtsTest.SATURATION, 0)]
)
def test_each_test_is_purged_and_filled_twice_where_it_is_not_about_a_fresh_drive(
    test: PtsTest, fills: int
) -> None:
    for stage in TESTS[test]("01", a_setting(WearyDrive())):
        steps = [step for step, _ in stage.preparation.steps()]
        written = sum(step.plan(WearyDrive().info, HINT).bytes_written[1] for step in steps)

        assert "purge" in [step.name for step in steps]
        assert written == fills * WearyDrive().size_bytes


def test_the_client_form_fills_its_active_range_with_at_least_two_capacities() -> None:
    drive = WearyDrive()
    preparation = rounds_of(PtsTest.IOPS, drive, form=PtsForm.CLIENT).preparation
    _, (fill, _) = preparation.steps()

    assert fill.plan(drive.info, HINT).bytes_written[1] == 3 * 0.75 * drive.size_bytes


def test_a_drive_that_was_not_purged_is_a_finding_and_spoils_what_begins_fresh() -> None:
    for test, severity in (
        (PtsTest.IOPS, Severity.WARNS),
        (PtsTest.SATURATION, Severity.INVALIDATES),
    ):
        setting = a_setting(WearyDrive(), purge=Purge.NONE)
        (finding,) = TESTS[test]("01", setting)[0].preparation.labels()

        assert finding.severity is severity and "not purged" in finding.message


def test_a_test_ends_when_five_rounds_are_alike(tmp_path: Path) -> None:
    drive = flat()

    result = go(tmp_path, drive, PtsTest.THROUGHPUT)

    assert len(found(result).rounds) == 5 and found(result).steady
    assert drive.purges == [Purge.FORMAT]
    purge, fill = found(result).preparation
    assert (purge.step, purge.written_bytes) == ("purge", 0)
    assert (fill.step, fill.written_bytes) == ("fill", 2 * drive.size_bytes)
    (window,) = found(result).windows
    assert window.steady and window.rounds == "rounds 1 to 5"
    (write,) = [mean for mean in found(result).means if mean.read_percent == 0]
    assert write.throughput_bytes_per_s == pytest.approx(2560 * 4096, rel=0.02)  # the planted floor


def test_steady_under_the_rule_of_five_rounds_is_never_validated(tmp_path: Path) -> None:
    run = a_run(tmp_path, flat(), PtsTest.THROUGHPUT, scale=1.0).go()

    assert run.verdict == "NOT VALIDATED"
    (finding,) = [f for f in run.stages[0].findings if f.code is Code.QUICK_RULE]
    assert "steady under the PTS rule in rounds 1 to 5" in finding.message


def test_a_drive_that_never_settles_is_said_to_be_unsteady_after_25_rounds(tmp_path: Path) -> None:
    drive = WearyDrive(floor_iops=25_600, fresh_iops=25_600, drift_per_fill=0.008)

    result = go(tmp_path, drive, PtsTest.THROUGHPUT, scale=0.25)

    assert len(found(result).rounds) == 25 and found(result).steady is False
    (finding,) = [f for f in result.findings if f.code is Code.NOT_STEADY]
    assert "not reached in 25 rounds" in finding.message
    assert result.complete


@pytest.mark.parametrize("round_", [1, 3])
def test_a_killed_test_goes_on_after_its_last_round_and_leaves_one_uncounted(
    tmp_path: Path, round_: int
) -> None:
    drive = flat()
    run = a_run(tmp_path, drive, PtsTest.THROUGHPUT)
    saves = iter(range(100))  # the purge, the fill, the rounds
    drive.on_save = lambda drive: (
        killed() if next(saves) == round_ + 2 else None
    )  # the purge, the fill
    with pytest.raises(Killed):
        run.go()
    began = len(drive.starts)

    result = run.resume().stages[0]

    rounds = found(result).rounds
    assert [one.number for one in rounds] == [1, 2, 3, 4, 5, 6]  # one of them does not count
    assert [one.number for one in rounds if not one.counted] == [round_ + 1]
    assert drive.purges == [Purge.FORMAT]  # not again
    assert began and any("paused" in finding.message for finding in result.findings)
    (window,) = found(result).windows
    assert window.steady and window.last_round == 6


def test_a_test_whose_drive_was_written_by_others_begins_again(tmp_path: Path) -> None:
    drive = flat()
    run = a_run(tmp_path, drive, PtsTest.THROUGHPUT)
    saves = iter(range(100))  # the purge, the fill, the rounds
    drive.on_save = lambda drive: killed() if next(saves) == 4 else None
    with pytest.raises(Killed):
        run.go()
    drive.epoch = "boot-2"

    result = run.resume().stages[0]

    assert drive.purges == [Purge.FORMAT] * 2
    assert [one.counted for one in found(result).rounds] == [True] * 5


def test_rounds_on_a_fill_that_others_undid_stay_undone_after_a_second_resume(
    tmp_path: Path,
) -> None:
    drive = flat()
    run = a_run(tmp_path, drive, PtsTest.THROUGHPUT)
    saves = iter(range(100))  # the purge, the fill, the rounds
    drive.on_save = lambda drive: killed() if next(saves) == 5 else None
    with pytest.raises(Killed):
        run.go()
    drive.epoch = "boot-2"
    with pytest.raises(Killed):
        run.resume(killed_in=run.stages[0].name)

    result = run.resume().stages[0]

    rounds = found(result).rounds
    assert [one.number for one in rounds] == [1, 2, 3, 4, 5]
    assert sum(name == "round-02" for name in run.units(Kind.FINISHED)) == 2


def killed() -> None:
    raise Killed


def test_scaled_durations_are_labelled_and_never_valid(tmp_path: Path) -> None:
    result = go(tmp_path, flat(), PtsTest.THROUGHPUT)

    assert found(result).scale == 0.05
    assert Code.QUICK_RULE in codes(result)


def test_the_latency_test_ends_with_a_histogram_in_steady_state(tmp_path: Path) -> None:
    drive = WearyDrive(fresh_iops=100)

    result = go(tmp_path, drive, PtsTest.LATENCY)

    (last,) = found(result).in_steady_state
    assert last.latency is not None and last.bins is not None
    assert "p99.999" not in last.latency.percentiles_ns  # six thousand I/Os
    assert all(cell.bins is None for one in found(result).rounds for cell in one.cells)
    assert last.cell == "0/100 4 KiB, 1 min"
    assert drive.starts[-1][0].runtime_s == 60  # 20 min, scaled
    assert last.latency.mean_ns == pytest.approx(1e9 / 100, rel=0.05)
    assert last.latency.min_ns <= last.latency.mean_ns <= last.latency.max_ns
    assert sum(last.bins.count) == pytest.approx(60 * 100, rel=0.02)


def test_the_latency_of_a_cell_holds_the_wait_for_a_slot_of_the_drive(tmp_path: Path) -> None:
    drive = WearyDrive(fresh_iops=100, slot_wait_ns=5_000_000)

    result = go(tmp_path, drive, PtsTest.LATENCY)

    (last,) = found(result).in_steady_state
    assert last.latency is not None
    assert last.latency.mean_ns == pytest.approx(1e9 / 100 + 5_000_000, rel=0.05)


def test_the_latency_of_a_phase_holds_the_wait_for_a_slot_and_none_over_time_lacks_it(
    tmp_path: Path,
) -> None:
    drive = WearyDrive(fresh_iops=100, floor_iops=100, slot_wait_ns=640_000_000)

    result = go(tmp_path, drive, PtsTest.SATURATION)

    measured = found(result)
    assert measured.samples and not any(sample.latency for sample in measured.samples)
    for phase in measured.phases:
        assert phase.mean_ns == pytest.approx(128e9 / 100 + 640e6, rel=0.05)  # 128 outstanding
    told = [one.message for one in result.findings if one.code is Code.QUEUE_FULL]
    assert len(told) == len(measured.phases)
    assert "33 % of their latency" in told[0]


def test_99_999_percent_is_of_all_rounds_together_and_never_an_average() -> None:
    def a_round(number: int, slow: int) -> PtsRound:
        bins = Histogram.of([100_000] * (400_000 - slow) + [9_000_000] * slow)
        used = bins.counts.nonzero()[0]
        cell = PtsCell(
            cell="c", block_bytes=4096, read_percent=0, queue=1, threads=1, iops=1.0,
            throughput_bytes_per_s=1.0,
            latency=PtsLatency(min_ns=1e5, mean_ns=1e5, max_ns=9e6),
            bins=PtsBins(
                latency_ns=tuple(LOWER_EDGES_NS[used].tolist()),
                count=tuple(bins.counts[used].tolist()),
            ),
        )  # fmt: skip
        return PtsRound(number=number, cells=(cell,))

    def mean(*rounds: PtsRound) -> PtsLatency:
        (cell,) = _means(rounds, [round_window([1.0] * 5)])
        assert cell.latency is not None
        return cell.latency

    (whole,) = a_round(5, 0).cells
    silent = PtsRound(number=5, cells=(whole.model_copy(update={"latency": None, "bins": None}),))

    even = mean(*(a_round(n, 6) for n in range(1, 5)), silent)
    fewer = mean(*(a_round(n, 1) for n in range(1, 5)), silent)
    few = mean(a_round(1, 6), silent)

    # 1.6 million I/Os: 16 may lie beyond; 24 slow ones are more, 4 are fewer.
    assert even.percentiles_ns["p99.999"] == pytest.approx(9e6, rel=1 / 60)
    assert fewer.percentiles_ns["p99.999"] == pytest.approx(1e5, rel=1 / 60)
    assert not few.percentiles_ns
    assert (even.mean_ns, even.min_ns) == (1e5, 1e5)  # not of the round without a latency


def test_the_mean_latency_of_a_phase_is_that_of_its_ios_and_not_of_its_pauses() -> None:
    def sample(iops: float, mean_ns: float | None) -> PtsSample:
        latency = None if mean_ns is None else PtsLatency(min_ns=1, mean_ns=mean_ns, max_ns=9e6)
        return PtsSample(
            phase="p", from_start_s=60, sample=1, t_s=60, written_bytes=0, fills=0, iops=iops,
            throughput_bytes_per_s=0, idle_s=0, latency=latency,
        )  # fmt: skip

    assert _mean_ns([sample(900, 1e5), sample(0, None), sample(100, 2e5)]) == pytest.approx(1.1e5)
    assert _mean_ns([sample(0, None)]) is None


def test_the_demand_matrix_goes_down_from_the_most_outstanding_requests() -> None:
    test = rounds_of(PtsTest.DEMAND, WearyDrive())

    totals = [cell.workload.iodepth * cell.workload.numjobs for cell in test.cells[1:]]
    assert len(totals) == 49 and totals == sorted(totals, reverse=True)
    assert test.cells[0].seconds == 300
    assert test.warm_up is not None and test.warm_up.until_steady


def test_the_demand_test_ends_at_the_highest_middle_and_lowest_demand(tmp_path: Path) -> None:
    drive = WearyDrive(fresh_iops=25_600, floor_iops=25_600)
    run = a_run(tmp_path, drive, PtsTest.DEMAND, scale=0.02)
    test = run.stages[0]
    assert isinstance(test, Rounds)
    few = [c for c in test.cells if c.name.split()[0] in ("pre-write", "T32", "T1")]
    run.stages[0] = replace(test, cells=tuple(few))

    result = run.go().stages[0]

    names = [cell.cell for cell in found(result).in_steady_state]
    assert [name.split()[0] for name in names] == ["max", "mid", "min"]
    assert names[-1] == "min demand, T1 Q1"
    pre_writes = [start[0] for start in drive.starts if start[0].runtime_s == 3600 * 0.02]
    assert len(pre_writes) == 3 and all(job.workload.numjobs == 32 for job in pre_writes)


def test_the_composite_mix_is_that_of_the_implementations() -> None:
    odd = dict.fromkeys((1024, 1536, 2048, 2560, 3072, 3584), 1)
    whole = {4096: 67, 8192: 10, 16384: 7, 32768: 3, 65536: 3}

    assert dict(COMPOSITE) == {512: 4, **odd, **whole}
    assert sum(share for _, share in COMPOSITE) == 100
    assert COMPOSITE_ZONES == ((50.0, 5.0), (30.0, 15.0), (20.0, 80.0))


def test_the_composite_split_sums_up_on_drives_with_4_kib_blocks() -> None:
    for logical in (512, 4096):
        test = rounds_of(PtsTest.COMPOSITE, WearyDrive(logical_block_bytes=logical))
        split = test.cells[-1].workload.block_split

        assert sum(share for _, share in split) == 100
        assert all(size % logical == 0 for size, _ in split)


def test_a_composite_test_tells_what_it_mixes_and_its_mean_block(tmp_path: Path) -> None:
    result = go(tmp_path, WearyDrive(size_bytes=1 << 26), PtsTest.COMPOSITE, scale=0.001)

    assert (4096, 67) in found(result).block_split
    assert found(result).zones == COMPOSITE_ZONES
    assert {cell.block_bytes for one in found(result).rounds for cell in one.cells} == {7818}


def test_a_drive_that_recovers_while_idle_shows_it_in_the_idle_test(tmp_path: Path) -> None:
    drive = WearyDrive(recovers_bytes_per_s=2000 * 4096)

    result = go(tmp_path, drive, PtsTest.IDLE, scale=0.2)

    phases = {phase.phase: phase for phase in found(result).phases}
    short, long = phases["1 s of writes, 1 s idle"], phases["1 s of writes, 10 s idle"]
    assert phases["warm-up"].iops < short.iops < long.iops
    assert long.iops == pytest.approx(1000, rel=0.05)  # fresh again after each pause
    assert phases["after 10 s idle"].iops < 0.9 * long.iops
    assert long.idle_s == 359 * 50 * 0.2
    assert Code.DISTURBED not in codes(result)


def test_an_idle_test_whose_drive_was_never_idle_says_so(tmp_path: Path) -> None:
    result = go(tmp_path, RestlessDrive(), PtsTest.IDLE, scale=0.2)

    assert codes(result).count(Code.DISTURBED) == 3  # pauses of 3 s and more


def test_the_crossed_test_is_sequential_random_sequential_from_a_purged_drive(
    tmp_path: Path,
) -> None:
    drive = flat()

    result = go(tmp_path, drive, PtsTest.CROSSED, scale=0.01)

    first, middle, last = found(result).phases
    assert drive.purges == [Purge.FORMAT] and len(drive.starts) == 3  # no fill
    assert first.throughput_bytes_per_s == pytest.approx(2560 * 4096, rel=0.02)
    assert middle.iops == pytest.approx(1280, rel=0.02) and last.samples == 288
    assert found(result).steady is None


def test_an_interrupted_history_begins_again_from_its_purge(tmp_path: Path) -> None:
    drive = flat()
    run = a_run(tmp_path, drive, PtsTest.CROSSED, scale=0.01)
    run.interrupted_in("01-pts-crossed", after_s=20)
    assert run.go().verdict == "NOT VALIDATED"

    result = run.resume().stages[0]

    assert result.complete and drive.purges == [Purge.FORMAT] * 2
    assert run.stages[0].lasting is Lasting.RESULTS


def test_a_write_cache_that_is_not_as_the_form_asks_is_a_finding() -> None:
    drive = WearyDrive().info.model_copy(update={"facts": {"write cache": "on"}})

    assert [f.code for f in cache_finding(drive, PtsForm.ENTERPRISE)] == [Code.UNSAFE_OPTION]
    assert list(cache_finding(drive, PtsForm.CLIENT)) == []
    assert list(cache_finding(WearyDrive().info, PtsForm.ENTERPRISE)) == []
    off = {"setting": "cache_type", "value": "write through"}
    assert list(cache_finding(drive, PtsForm.ENTERPRISE, [off])) == []


@pytest.mark.parametrize(
    ("facts", "host", "measure", "wanted"),
    [
        ({"write cache": "on"}, "", "- pts: {form: enterprise}", "off"),
        ({"write cache": "off"}, "", "- pts: {form: client}", "on"),
        ({"write cache": "on"}, "", "- pts: {form: client}", "keep"),
        ({"write cache": "not supported"}, "", "- pts: {form: enterprise}", "keep"),
        ({"volatile write cache": "absent"}, "", "- pts: {form: enterprise}", "keep"),
        ({}, "", "- pts: {form: enterprise}", "keep"),
        ({"write cache": "on"}, "host: {write_cache: on}", "- pts: {form: enterprise}", "on"),
        ({"write cache": "on"}, "", "- pts: {form: enterprise}\n- sweep: {}", "keep"),
    ],
)
def test_standard_tests_alone_set_the_write_cache_as_their_form_asks(
    facts: dict[str, str], host: str, measure: str, wanted: str
) -> None:
    profile = load_profile(f"{host}\nmeasure:\n{measure}\n", "p.yaml")
    target = WearyDrive().info.model_copy(update={"facts": facts})

    assert host_wishes(profile, target).write_cache.value == wanted
