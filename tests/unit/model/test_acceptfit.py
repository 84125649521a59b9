"""Test that a target which no stage measures is reported before the run, at its line."""

from pathlib import Path

import pytest

from ssdbench.cli.main import run
from ssdbench.model.fitting import loads
from ssdbench.model.loading import load_profile
from ssdbench.model.profile import spec

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
        ("{of: {block: 4KiB}, at: {iops: 500}, latency: {p99: 5ms}}", 0),
        ("{of: {block: 8KiB, read: 70}, at: {iops: 500}, latency: {read p99: 5ms}}", 0),
        ("{of: {block: 8KiB}, at: {iops: 500}, latency: {p99: 5ms}}", 2),
        ("{of: {block: 4KiB, read: 100}, at: {iops: 500}, latency: {write p99: 5ms}}", 2),
        ("{of: {block: 4KiB, iodepth: 32}, latency: {read p99: 1ms}}", 0),
        ("{of: {job: x}, at: {iops: 500}, latency: {p99: 5ms}}", 2),
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


def loads_of(*targets: str, measure: str = "sweep: {block: 4KiB}") -> list[spec.Load]:
    text = f"target: sim:x25m-g2-160\nmeasure: [{{{measure}}}]\naccept:\n"
    return loads(load_profile(text + "".join(f"  - {{{one}}}\n" for one in targets), "p.yaml"))


MIXED_AT = "of: {block: 4KiB, read: 70}, at: {iops: 3000}, latency:"


def test_a_load_that_targets_name_is_measured_once_for_the_rarest_percentile() -> None:
    reads, whole = f"{MIXED_AT} {{read p99: 10ms}}", f"{MIXED_AT} {{p99.9: 20ms, p99.99: 50ms}}"

    (load,) = loads_of(reads, whole)

    assert (load.block_bytes, load.read_percent, load.iops) == (4096, 70, 3000)
    assert (load.percentile, load.limit_s, load.clients) == ("p99.99", 0.05, None)
    assert len(loads_of(reads, whole.replace("3000", "3001"))) == 2
    assert not loads_of("of: {block: 4KiB, read: 70}, latency: {p99: 1ms}")


def test_a_load_is_offered_as_the_search_of_that_workload_offers_its_rates() -> None:
    search = "rate: {block: 4KiB, read: 70, limit: 10ms, clients: 256, arrivals: even, settle: 5s}"

    (load,) = loads_of("of: {block: 4KiB}, at: {iops: 3000}, latency: {p99: 10ms}", measure=search)

    assert (load.read_percent, load.clients, load.arrivals, load.settle_s) == (70, 256, "even", 5)


def test_a_load_that_the_profile_measures_itself_is_not_measured_twice() -> None:
    own = "load: {block: 4KiB, read: 70, iops: 3000}"

    assert not loads_of(f"{MIXED_AT} {{p99: 10ms}}", measure=own)
    assert len(loads_of(f"{MIXED_AT} {{p99: 10ms}}", measure=own.replace("3000", "3001"))) == 1
