"""The search for the block size as units: what is walked is never walked again."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from ssdbench.engine.journal import Kind
from ssdbench.generator.base import Job, LoggedIo, Running
from ssdbench.model.finding import Code
from ssdbench.model.inside import BlockSizeFound
from ssdbench.model.result import StageResult
from ssdbench.model.workload import Pattern
from ssdbench.stages.blocksize import BlockSize
from ssdbench.stages.probe.bench import Bench
from ssdbench.stages.probe.spare import REMAP_BLOCKS, REMAP_MOST_BYTES, RemapUnit
from ssdbench.stats.inside.strides import Floats
from ssdbench.units import GIB, MIB
from tests.support.fakes import Killed, WearyDrive, WearyRunning
from tests.support.runs import ARun


@dataclass
class Blocked(WearyDrive):
    """Opens a block at every MiB, which takes ten times as long as another write."""

    size_bytes: int = 4 * GIB
    fresh_iops: float = 1e6
    floor_iops: float = 1e6

    def start(self, jobs: Sequence[Job], *, artifacts: Path) -> Running:
        artifacts.mkdir(parents=True, exist_ok=True)
        self.starts.append(list(jobs))
        return Walking(self, jobs)


class Walking(WearyRunning):
    """Logs the writes of strided jobs."""

    def logged(self, job: str) -> LoggedIo:
        (asked,) = [one for one in self._jobs if one.name == job]
        stride = asked.workload.stride_bytes or asked.workload.block_bytes
        writes = (asked.total_bytes or 0) // asked.workload.block_bytes
        offsets = asked.workload.range.offset_bytes + stride * np.arange(writes)
        noise = np.random.default_rng(asked.seed).lognormal(0, 0.02, writes)
        latency = 100_000 * noise * np.where(offsets % MIB < stride, 10, 1)
        return LoggedIo(
            t_ns=range(writes),
            latency_ns=latency.astype(int).tolist(),
            offset_bytes=offsets.tolist(),
            is_write=[True] * writes,
        )


def found_in(stage: StageResult) -> BlockSizeFound:
    assert isinstance(stage.found, BlockSizeFound)
    return stage.found


@pytest.fixture
def run(tmp_path: Path) -> ARun:
    run = ARun(tmp_path / "run", Blocked())
    run.stages.append(BlockSize("01-blocksize", writes=2000))
    return run


def test_a_planted_block_is_found_from_one_walk_over_written_regions(run: ARun) -> None:
    stage = run.go().stages[0]

    assert found_in(stage).block_bytes == MIB
    assert run.units(Kind.FINISHED) == ["condition-1", "writes-1"]
    assert {figure.kind for figure in found_in(stage).figures} == {"scatter", "series"}


@pytest.mark.parametrize(("at", "again"), [(1, ["writes-1"]), (0, ["condition-1", "writes-1"])])
def test_a_killed_search_repeats_no_finished_walk(run: ARun, at: int, again: list[str]) -> None:
    saves = iter(range(100))

    def strikes(drive: WearyDrive) -> None:
        if next(saves) == at:
            raise Killed

    run.drive.on_save = strikes
    with pytest.raises(Killed):
        run.go()

    stage = run.resume().stages[0]

    assert len(run.drive.starts) == len(again)
    assert run.units(Kind.FINISHED) == ["condition-1", "writes-1"]
    assert found_in(stage).block_bytes == MIB


def test_after_a_crash_the_regions_are_written_and_walked_again(run: ARun) -> None:
    saves = iter(range(100))

    def strikes(drive: WearyDrive) -> None:
        if next(saves) == 1:
            raise Killed

    run.drive.on_save = strikes
    with pytest.raises(Killed):
        run.go()
    run.drive.epoch = "boot-2"

    stage = run.resume().stages[0]

    assert len(run.drive.starts) == 2
    (told,) = [f for f in stage.findings if f.code is Code.RESUMED]
    assert told.numbers == {"finished": 1, "units": "starts"} and stage.complete


class Doubtful(Bench):
    """A drive whose rates tell nothing below 1 GiB of each job, and then that no shift costs."""

    size_bytes = 64 * GIB
    written = 0

    def __init__(self) -> None:
        """Start nothing."""

    def discard(self, offset_bytes: int, length_bytes: int) -> bool:
        return True

    def fill(self, length_bytes: int, *, pattern: Pattern = Pattern.SEQUENTIAL) -> Floats:
        self.written += length_bytes
        return np.zeros(0)

    def random_writes(
        self,
        block_bytes: int,
        iodepth: int,
        span_bytes: int,
        total_bytes: int,
        offsets: Sequence[int],
    ) -> list[float]:
        self.written += total_bytes * len(offsets)
        told = total_bytes >= REMAP_MOST_BYTES and block_bytes > min(REMAP_BLOCKS)
        shifted = 1.0 if told else 0.8
        return [1.0, shifted, 1.0, shifted]


def test_rates_that_tell_late_at_every_size_never_cost_more_than_was_announced() -> None:
    drive, probe = Doubtful(), RemapUnit()

    assert probe.ask(drive).answer.startswith("cannot tell")
    assert drive.written <= probe.writes(drive.size_bytes)
