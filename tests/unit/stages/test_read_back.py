"""A fill that is read back: which places, how long, and what it means for a run."""

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from ssdbench.engine.estimates import rate_hint
from ssdbench.generator.base import Job, VerifyHeader, WrongData
from ssdbench.generator.fio import jobfile
from ssdbench.generator.fio.output import Ending, checked_report
from ssdbench.model.finding import Code, Severity
from ssdbench.model.found import FillDone
from ssdbench.model.loading import load_profile
from ssdbench.model.profile import Fill
from ssdbench.model.target import TargetInfo, TargetKind
from ssdbench.model.workload import Pattern
from ssdbench.report.tables import results_table
from ssdbench.stages.precondition import SAMPLES, Precondition, ReadBack
from ssdbench.suite.assemble import READ_BACK_SHARE, stages
from tests.support.builders import a_target
from tests.support.fakefio import a_job, a_report
from tests.support.fakes import WearyDrive
from tests.support.runs import ARun

WRONG = WrongData(misplaced=3, absent=2, damaged=0, first_byte=4096)
TB = 10**12
SHORT = """
target: /dev/x
steady: {rule: pss-quick}
repeats: 2
window: 10s
settle: {window: 10s, flat: 10s, max_time: 10s}
measure: [{sweep: {block: 4KiB, read: [100]}}]
"""
LONG = "target: /dev/x\nmeasure: [{sweep: {block: [4KiB, 16KiB], read: [0, 30, 70, 100]}}]\n"


def read_back_of(how: ReadBack, target: TargetInfo, fill: Fill = Fill(fill=1)) -> list[Job]:  # noqa: B008 - frozen
    stage = Precondition("01-precondition", (fill,), read_back=how)
    return stage.read_back_jobs(target, stage.jobs(target, seed=1), seed=1)


@pytest.mark.parametrize("block", [4096, 12288, 128 << 10, 1 << 20])
@pytest.mark.parametrize("size", [1 << 20, (300 << 20) + 512, (1 << 30) - 4096])
def test_a_whole_pass_reads_every_byte_once_in_multiples_of_the_blocks(
    block: int, size: int
) -> None:
    target = a_target(TargetKind.DRIVE, size_bytes=size, logical_block_bytes=512)
    fill = Fill.model_validate({"fill": 1, "block": block})

    jobs = read_back_of("whole", target, fill)

    ordered = [job for job in jobs if job.workload.pattern is Pattern.SEQUENTIAL]
    ends = [0]
    for job in ordered:
        part, own = job.workload.range, min(block, job.workload.block_bytes)
        assert part.offset_bytes == ends[-1]
        assert job.total_bytes == part.length_bytes
        assert part.length_bytes % job.workload.block_bytes == 0
        assert job.workload.block_bytes % own == 0
        ends.append(part.offset_bytes + part.length_bytes)
    assert ends[-1] == size
    assert sum(job.total_bytes or 0 for job in jobs if job not in ordered) in (0, SAMPLES * block)


@pytest.mark.parametrize("lacking", [0.01, 0.02, 0.5])
@pytest.mark.parametrize("shape", ["end", "middle", "anywhere", "every so often"])
def test_samples_find_99_of_100_drives_that_lack_one_percent(shape: str, lacking: float) -> None:
    (job,) = read_back_of("sampled", a_target(TargetKind.DRIVE, size_bytes=TB))
    blocks = job.workload.range.length_bytes // job.workload.block_bytes
    reads = (job.total_bytes or 0) // job.workload.block_bytes
    dice = np.random.default_rng(1)
    found = 0
    for _ in range(1000):
        at = dice.integers(0, blocks, reads)  # norandommap: each place is drawn on its own
        share = at / blocks
        match shape:
            case "end":
                bad = share >= 1 - lacking
            case "middle":
                start = dice.uniform(0, 1 - lacking)
                bad = (share >= start) & (share < start + lacking)
            case "anywhere":
                bad = (at * 2654435761 % 2**32) / 2**32 < lacking
            case _:
                bad = at % round(1 / lacking) == 0
        found += bool(bad.any())

    assert job.workload.pattern is Pattern.RANDOM and not job.cover
    assert "norandommap=1" in jobfile.jobfile([job], options={"filename": "/dev/x"})
    assert found >= 990


def test_only_the_last_pass_carries_headers_and_reads_look_for_the_same_ones() -> None:
    target = a_target(TargetKind.DRIVE, size_bytes=TB)
    stage = Precondition("01-precondition", (Fill(fill=2),), read_back="whole")
    jobs = stage.jobs(target, seed=1)
    compared = stage.read_back_jobs(target, jobs, seed=1)

    first, last = jobs
    assert first.verify is None
    assert last.verify == VerifyHeader(last.seed, last.workload.block_bytes)
    assert {job.verify for job in compared} == {last.verify}
    text = jobfile.jobfile([last], options={"filename": "/dev/x"})
    read = jobfile.jobfile(compared, options={"filename": "/dev/x"})
    offset = f"verify_offset={last.verify.offset_bytes(last.workload.block_bytes)}"
    for lines in (text.splitlines(), read.splitlines()):
        assert offset in lines and "verify=crc32c" in lines
    assert "do_verify=0" in text and "refill_buffers=0" in text
    assert "do_verify" not in read and "continue_on_error=verify" in read
    assert jobfile.jobfile([first], options={}) == jobfile.jobfile(
        Precondition("01-precondition", (Fill(fill=2),)).jobs(target, seed=1)[:1], options={}
    )


@pytest.mark.parametrize("block", [512, 4096, 128 << 10])
def test_a_header_lies_within_its_block_and_differs_between_seeds(block: int) -> None:
    offsets = [VerifyHeader(seed, block).offset_bytes(block) for seed in range(1000)]

    assert all(64 <= offset <= block - 128 and offset % 8 == 0 for offset in offsets)
    assert len(set(offsets)) >= min(40, block // 16)


@pytest.mark.parametrize("text", [SHORT, LONG])
@pytest.mark.parametrize("size", [TB // 4, 4 * TB, 16 * TB])
def test_a_fill_is_read_as_a_whole_where_that_takes_less_than_a_twentieth(
    text: str, size: int
) -> None:
    profile, target = load_profile(text, "p"), a_target(TargetKind.DRIVE, size_bytes=size)
    hint = rate_hint(target, profile.rated)

    planned = stages(profile, target)
    (fill,) = [stage for stage in planned if isinstance(stage, Precondition)]

    others = [stage.plan(target, hint).seconds for stage in planned if stage is not fill]
    none, sampled, whole = (
        replace(fill, read_back=how).plan(target, hint).seconds
        for how in (None, "sampled", "whole")
    )
    if (text, size) in {(SHORT, 16 * TB), (LONG, TB // 4)}:
        assert fill.read_back == ("sampled" if text == SHORT else "whole")
    for end in (0, 1):
        rest = sum(seconds[end] for seconds in others) + none[end]
        assert none[end] < sampled[end] < none[end] + 2
        if fill.read_back == "whole":
            assert whole[end] - none[end] < READ_BACK_SHARE * rest
    told = fill.plan(target, hint)
    assert told.bytes_read[0] > 0
    assert f"read back and compared ({fill.read_back})" in told.jobs[-1]


def test_a_simulated_drive_has_the_same_jobs_as_ever_and_its_capacity_is_known() -> None:
    target = a_target()
    (fill,) = [s for s in stages(load_profile(LONG, "p"), target) if isinstance(s, Precondition)]

    assert fill.read_back is not None
    assert fill.jobs(target, seed=1) == replace(fill, read_back=None).jobs(target, seed=1)
    assert fill.plan(target, rate_hint(target)).bytes_read == (0, 0)


def a_fill(
    path: Path, how: ReadBack, **changes: Any
) -> tuple[ARun, FillDone, dict[Code, Severity]]:
    run = ARun(path)
    run.drive = WearyDrive(size_bytes=256 << 20, **changes)
    run.stages.append(Precondition("01-precondition", (Fill(fill=1),), read_back=how))
    (stage,) = run.go().stages
    assert isinstance(stage.found, FillDone)
    return run, stage.found, {one.code: one.severity for one in stage.findings}


@pytest.mark.parametrize("how", get_args(ReadBack))
def test_a_fill_that_reads_back_right_has_no_finding(how: ReadBack, tmp_path: Path) -> None:
    run, found, codes = a_fill(tmp_path / "run", how)

    assert not codes
    assert found.read_back == how
    assert run.drive.starts[0][-1].verify is not None
    assert all(job.workload.read_percent == 100 for job in run.drive.starts[1])
    assert found.wrong_reads == 0


class SimulatedDrive(WearyDrive):
    """It stores no data."""

    @property
    def info(self) -> TargetInfo:
        return super().info.model_copy(update={"simulated": True})


def test_of_a_simulated_drive_nothing_is_read_and_the_result_says_that_it_is_known(
    tmp_path: Path,
) -> None:
    run = ARun(tmp_path / "run")
    run.drive = SimulatedDrive(wrong=WRONG)
    run.stages.append(Precondition("01-precondition", (Fill(fill=1),), read_back="whole"))

    (stage,) = run.go().stages

    assert isinstance(stage.found, FillDone)
    assert (stage.found.read_back, stage.found.wrong_reads) == ("known", None)
    assert len(run.drive.starts) == 1
    assert not stage.findings


def test_wrong_data_invalidate_the_run_end_the_reading_and_are_in_the_table(tmp_path: Path) -> None:
    run, found, codes = a_fill(tmp_path / "run", "whole", wrong=WRONG)

    assert codes == {Code.CAPACITY_UNPROVEN: Severity.INVALIDATES}
    assert (found.read_back, found.wrong_reads) == ("sampled", 5)
    assert len(run.drive.starts) == 2  # nothing more is read of a drive that is known to be bad
    result = run.resume()
    (finding,) = result.stages[0].findings
    assert "3 had the data of another place, 2 had no data of this fill" in finding.message
    rows = {row["metric"]: row for row in results_table(result).rows}
    assert rows["capacity_proof"]["answer"] == "sampled"
    assert rows["wrong_reads"]["metric_value"] == 5


@pytest.mark.parametrize(
    ("target", "content", "severity"),
    [({"zone_bytes": 1 << 28}, "random", Severity.WARNS), ({}, "zeros", Severity.INVALIDATES)],
)
def test_a_fill_that_cannot_be_read_back_is_a_finding(
    target: dict[str, Any], content: str, severity: Severity
) -> None:
    fill = Fill.model_validate({"fill": 1, "content": content})
    stage = Precondition("01-precondition", (fill,), read_back="whole")
    drive = a_target(TargetKind.DRIVE, **target)

    assert stage.read_back_jobs(drive, stage.jobs(drive, seed=1), seed=1) == []
    (finding,) = [one for one in stage._labels(drive) if one.code is Code.CAPACITY_UNPROVEN]
    assert finding.severity is severity


SAID = """\
verify: bad header offset 0, wanted 52428800 at file /dev/fd/9 offset 52428800, length 131072 \
(requested block: offset=52428800, length=131072)
verify: bad magic header 6598, wanted acca at file /dev/fd/9 offset 0, length 131072 \
(requested block: offset=0, length=131072)
crc32c: verify failed at file /dev/fd/9 offset 104927232, length 4096 \
(requested block: offset=104857600, length=131072, flags=8)
       Expected CRC: a55f1a31
"""


def ended(said: str, **job: Any) -> Ending:
    report = a_report({**a_job(read_ios=10), **job})
    return Ending(("fio",), 0, report, said, stopped=False, target="/dev/x")


def a_compared_job(verify: VerifyHeader | None) -> Job:
    workload = read_back_of("sampled", a_target(TargetKind.DRIVE, size_bytes=TB))[0].workload
    return Job("read-back-1", workload, 1, verify=verify)


def test_fio_tells_what_was_wrong_with_each_place() -> None:
    job = a_compared_job(VerifyHeader(1, 4096))
    (outcome,) = checked_report(ended(SAID, error=84, total_err=3), [job])

    assert outcome.wrong == WrongData(misplaced=1, absent=1, damaged=1, first_byte=0)
    assert outcome.io_errors == 0


def test_wrong_data_in_words_of_another_version_are_wrong_all_the_same() -> None:
    job = a_compared_job(VerifyHeader(1, 4096))
    (outcome,) = checked_report(ended("no such words", error=84, total_err=3), [job])

    assert outcome.wrong is not None and outcome.wrong.places == 3


def test_the_same_error_of_a_job_that_compares_nothing_is_an_error_of_the_drive() -> None:
    with pytest.raises(Exception, match="EILSEQ"):
        checked_report(ended("", error=84, total_err=3), [a_compared_job(None)])
