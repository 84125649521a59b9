"""A target that nothing measures is told before the run, at its line."""

from pathlib import Path

import pytest

from ssdbench.cli.main import run

PROFILE = """
target: sim:x25m-g2-160,capacity=1GiB
measure:
  - sweep: {{block: 4KiB, read: [0, 70], iodepth: 32}}
  - span: {{block: 8KiB, spans: [5%, 100%]}}
  - rate: {{block: 4KiB, read: 70, percentile: p99.9, limit: 5ms}}
  - pts: {{tests: [iops]}}
accept:
  - {target}
"""


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("{iops: 1}", 0),
        ("{of: {block: 4KiB, read: 70, iodepth: 32}, iops: 1}", 0),
        ("{of: {block: 8KiB, span: 5%}, iops: 1}", 0),
        ("{of: {test: iops}, iops: 1}", 0),
        ("{write_amplification: 3}", 0),
        ("{of: {block: 4KiB}, at: {drive_writes_per_day: 1}, latency: {p99.9: 5ms}}", 0),
        ("{of: {block: 8KiB, span: 25%}, iops: 1}", 2),
        ("{of: {block: 4KiB, span: 5%}, iops: 1}", 2),
        ("{of: {block: 16KiB}, iops: 1}", 2),
        ("{of: {block: 4KiB, read: 30}, latency: {p99: 1ms}}", 2),
        ("{of: {iodepth: 1}, datasheet: {iops: 5}}", 2),
        ("{of: {test: latency}, iops: 1}", 2),
        ("{of: {replay: x}, latency: {p99: 1ms}}", 2),
        ("{of: {job: x}, latency: {p99: 1ms}}", 2),
        ("{of: {stream: x}, latency: {p99: 1ms}}", 2),
        ("{of: {block: 4KiB}, at: {iops: 1}, latency: {p99: 5ms}}", 2),
        ("{of: {block: 4KiB, read: 100}, at: {drive_writes_per_day: 1}, latency: {p99: 5ms}}", 2),
        ("{of: {block: 4KiB}, at: {iops: 1}, iops: 5}", 2),
        ("{of: {block: 4KiB}}", 2),
        ("{of: {cell: x}, iops: 1}", 2),
    ],
)
def test_a_target_that_nothing_measures_is_refused_at_its_line(
    target: str, code: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "it.yaml"
    path.write_text(PROFILE.format(target=target))

    assert run(["plan", str(path)]) == code

    err = capfd.readouterr().err
    assert (f"{path}:9:" in err) == (code == 2), err


MIXED = """
target: sim:x25m-g2-160,capacity=1GiB
measure:
  - mix: {{name: bulk, streams: [{{name: a, blocks: {{16KiB: 50, 64KiB: 50}}, iodepth: 2}}]}}
  - mix: {{name: log, streams: [{{name: a, block: 32KiB, iodepth: 1}}]}}
accept:
  - {{of: {{block: {block}, read: {read}}}, iops: 1}}
"""


@pytest.mark.parametrize(
    ("block", "read", "code"), [("32KiB", 0, 0), ("16KiB", 0, 2), ("32KiB", 50, 2)]
)
def test_a_mix_measures_a_block_only_where_all_of_it_has_that_block(
    block: str, read: int, code: int, tmp_path: Path
) -> None:
    path = tmp_path / "it.yaml"
    path.write_text(MIXED.format(block=block, read=read))

    assert run(["plan", str(path)]) == code


NAMED = """
target: sim:x25m-g2-160,capacity=1GiB
measure:
  - fio: |
      [db]
      rw=randread
      iodepth=4
  - mix: {{name: pair, streams: [{{name: a, iodepth: 2}}]}}
accept:
  - {{of: {{job: {job}}}, latency: {{p99: 1ms}}}}
"""


@pytest.mark.parametrize(
    ("job", "code"), [("job", 0), ("pair", 0), ("pair 2", 0), ("db", 2), ("pai", 2), ("pairs", 2)]
)
def test_a_job_that_reports_call_otherwise_is_refused_with_the_names_that_there_are(
    job: str, code: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "it.yaml"
    path.write_text(NAMED.format(job=job))

    assert run(["plan", str(path)]) == code

    assert ("the jobs here are job, pair" in capfd.readouterr().err) == (code == 2)
