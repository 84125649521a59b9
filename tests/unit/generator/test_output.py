"""fio's reports: recorded ones, and everything that may surround or spoil them."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssdbench.generator.fio.logs import histogram_rows, logged_io
from ssdbench.generator.fio.output import CutShort, engines_of, parse, version_of
from tests.support.fakefio import a_job, a_report

RECORDED = Path(__file__).parents[2] / "data/fio/3.33"


def recorded(name: str) -> str:
    return (RECORDED / name).read_text()


def test_a_recorded_report_gives_each_job_its_totals() -> None:
    groups = parse(recorded("two-jobs.json"), ["fill", "mix"])

    fill, mix = (group.outcome for group in groups)
    assert (fill.name, fill.write.ios, fill.write.bytes) == ("fill", 256, 16 * 2**20)
    assert fill.read.ios == 0
    assert mix.read.ios == 81053


def test_bins_hold_every_io_and_give_fios_own_percentile() -> None:
    mix = parse(recorded("two-jobs.json"), ["fill", "mix"])[1].outcome

    assert mix.read.latency.n == mix.read.ios
    assert mix.read.latency.percentile_ns(0.99) == pytest.approx(272384, rel=1 / 64)


def test_resets_of_zones_are_told_where_fio_counts_them() -> None:
    old, new = a_job(write_ios=1000), {**a_job(write_ios=1000), "zone_resets": 7}
    groups = parse(a_report(old, new), ["old", "new"])

    assert [group.outcome.zone_resets for group in groups] == [None, 7]


def test_text_before_the_report_is_no_part_of_it() -> None:
    text = recorded("stopped.json")
    (group,) = parse(text, ["mix"])

    assert "terminating on signal 2" in text[: text.index("\n{")]
    assert group.outcome.read.ios == 45184


def test_of_several_reports_the_last_one_counts() -> None:
    text = recorded("intervals.json")

    first = parse(text[: text.index("\n{")], ["mix"])[0].outcome
    last = parse(text, ["mix"])[0].outcome

    assert last.read.ios > first.read.ios > 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"total_ios": 1000', '"total_ios": "1000"'),
        ('"total_ios": 1000', '"total_ios": 1e400'),
        ('"total_ios": 1000', '"total_ios": -1'),
        ('"total_ios": 1000', '"total_ios": 99999999999999999999'),
        ('"error": 0', '"error": "none"'),
        ('"error": 0', '"error": null'),
        ('"groupid": 0', '"groupid": Infinity'),
        ('"usr_cpu": ', '"usr_cpu": NaN, "x": '),
        ('"bins": {', '"bins": {"x": 1, '),
        ('"bins": {', '"bins": {"-1": 1, '),
        ('"bins": {', '"bins": {"1": 1e30, '),
        ('"bins": {', '"bins": {"99999999999999999999": 1, '),
        ('"jobs": [', '"jobs": [[], '),
        ('"jobs": [', '"deep": ' + "[" * 50_000 + ', "jobs": ['),
    ],
    ids=range(14),
)
def test_what_fio_never_writes_is_no_report(old: str, new: str) -> None:
    text = a_report(a_job(write_ios=1000))
    place = text.rindex(old)  # what is written comes after what is read

    with pytest.raises(CutShort, match="cannot be read"):
        parse(text[:place] + new + text[place + len(old) :], ["job"])


def test_a_mean_over_split_entries_is_weighted_by_their_ios() -> None:
    few, many = a_job(read_ios=1), a_job(read_ios=3)
    many["read"]["lat_ns"]["mean"] = 200_000.0
    text = a_report(few, many).replace('"groupid": 1', '"groupid": 0')

    (group,) = parse(text, ["job"])

    assert group.outcome.read.lat_mean_ns == 175_000.0


@given(cut=st.integers(1, 40_000))
def test_a_report_that_is_cut_short_is_never_believed(cut: int) -> None:
    text = recorded("two-jobs.json").rstrip()

    with pytest.raises(CutShort):
        parse(text[: -min(cut, len(text))], ["fill", "mix"])


@given(st.text(max_size=200))
def test_no_text_is_too_odd_to_be_refused(text: str) -> None:
    with pytest.raises(CutShort):
        parse(text, ["job"])


def test_a_report_of_fewer_jobs_than_were_started_is_refused() -> None:
    with pytest.raises(CutShort, match="1 jobs of 2"):
        parse(a_report(a_job(read_ios=1)), ["one", "two"])


@pytest.mark.parametrize(
    ("text", "version"), [("fio-3.33\n", (3, 33)), ("fio-3.42-12-gf534438", (3, 42))]
)
def test_versions_of_releases_and_of_git_are_read(text: str, version: tuple[int, int]) -> None:
    assert version_of(text) == version


def test_a_program_that_is_not_fio_has_no_version() -> None:
    with pytest.raises(ValueError, match="not a version of fio"):
        version_of("fiona 1.2")


def test_engines_are_the_indented_names() -> None:
    text = "Available IO engines:\n\tlibaio\n\tnbd\n"

    assert engines_of(text) == {"libaio", "nbd"}


def test_rows_of_a_histogram_log_are_chosen_by_time() -> None:
    lines = recorded("mix_clat_hist.1.log").splitlines(keepends=True)
    times = sorted({int(line.split(",")[0]) for line in lines})

    reads, writes = (
        list(histogram_rows(lines, direction, from_ms=0, to_ms=times[-1]))
        for direction in ("read", "write")
    )
    first = list(histogram_rows(lines, "read", from_ms=0, to_ms=times[0]))

    assert len(reads) + len(writes) == len(lines)
    assert {t_ms for t_ms, _ in first} == {times[0]}
    assert sum(int(counts.sum()) for _, counts in reads + writes) == sum(
        sum(int(count) for count in line.split(",")[3:]) for line in lines
    )


def test_a_torn_last_row_is_left_out_and_foreign_bins_are_refused() -> None:
    lines = recorded("mix_clat_hist.1.log").splitlines(keepends=True)

    torn = histogram_rows([lines[0], lines[2][:500]], "read", from_ms=0, to_ms=float("inf"))

    assert len(list(torn)) == 1
    with pytest.raises(ValueError, match="2 bins instead of 1856"):
        list(histogram_rows(["5, 0, 4096, 1, 2\n"], "read", from_ms=0, to_ms=10))


@pytest.mark.parametrize("more", ["", ", 0x0", ", 0, 77"], ids=["6-columns", "priority", "later"])
def test_single_ios_of_several_threads_are_put_in_order(more: str) -> None:
    one = [f"1005, 200, 1, 4096, 8192, 0{more}\n"]
    two = [f"1002, 100, 0, 4096, 0, 0{more}\n", f"1009, 300, 0, 4096, 4096, 0{more}\n"]

    logged = logged_io([one, two], origin_ms=1000)

    assert list(logged.t_ns) == [2_000_000, 5_000_000, 9_000_000]
    assert list(logged.latency_ns) == [100, 200, 300]
    assert list(logged.offset_bytes) == [0, 8192, 4096]
    assert list(logged.is_write) == [False, True, False]


def test_a_log_of_nothing_is_empty() -> None:
    assert np.size(logged_io([[]], origin_ms=0).t_ns) == 0


def test_fios_longest_latency_ends_its_last_bin() -> None:
    job = a_job(write_ios=1000)
    job["write"]["lat_ns"] |= {"bins": {"1000": 990, "17112760320": 10}, "max": 45_000_000_000}

    write = parse(a_report(job), ["stalls"])[0].outcome.write

    assert write.latency.percentile_ns(0.995) == 45e9
    assert write.latency.percentile_ns(0.9) < 1100
