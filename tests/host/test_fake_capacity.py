"""Drives that claim more than they have, or change data, under real fio; and honest ones."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from ssdbench.generator.base import JobOutcome, WrongData
from ssdbench.generator.fio.attachment import attachment
from ssdbench.generator.fio.driver import Fio
from ssdbench.host.command import run
from ssdbench.model.profile import Fill
from ssdbench.stages.precondition import Precondition, ReadBack, starts
from ssdbench.target.claim import Claim
from ssdbench.target.inspect import inspect
from ssdbench.units import KIB, MIB

SIZE = 160 * MIB + 3 * 4096  # 1,280 blocks of 128 KiB and a rest
SEQUENTIAL = Fill(fill=1)
RANDOM = Fill.model_validate({"fill": 1, "pattern": "random", "block": "64KiB"})


@pytest.fixture(scope="session")
def fake_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = Path(__file__).parents[1] / "support" / "fakedrive.c"
    library = tmp_path_factory.mktemp("fake") / "fakedrive.so"
    flags = ["-O1", "-Wall", "-Wextra", "-Werror", "-Wno-format", "-shared", "-fPIC"]
    run([shutil.which("cc") or "cc", *flags, "-o", str(library), str(source)])
    return library


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    path = tmp_path / "disk.img"
    with path.open("wb") as file:
        file.truncate(SIZE)
    return path


class Drive:
    """A file that is filled and read back as a run does it."""

    def __init__(self, path: Path, place: Path) -> None:
        self.path, self._place, self._count = path, place, 0

    def wrong(self, how: ReadBack, *fills: Fill, seed: int = 5) -> WrongData | None:
        """Fill it, and return what was wrong with what it reads."""
        stage = Precondition("01-precondition", fills or (SEQUENTIAL,), read_back=how)
        info = inspect(str(self.path))
        found: list[JobOutcome] = []
        with Claim(info) as claim:
            assert claim.fd is not None
            fio = Fio(attachment(info, claim.fd))
            jobs = stage.jobs(info, seed=seed)
            compared = stage.read_back_jobs(info, jobs, seed=seed)
            for start in (*starts(jobs, info), *starts(compared, info)):
                self._count += 1
                with fio.start(start, artifacts=self._place / str(self._count)) as running:
                    list(running)
                found += running.outcome().jobs
        read = sum(one.read.bytes for one in found)
        assert read == sum(job.total_bytes or 0 for job in compared)
        assert how != "whole" or read >= SIZE
        wrong = [one.wrong for one in found if one.wrong is not None]
        assert not any(one.io_errors for one in found)
        return wrong[0] if wrong else None


def a_fake(kind: str, lacking: float, cache: int = 8, block: int = 128 * KIB) -> str:
    real = round(SIZE * (1 - lacking)) // block * block
    return f"{kind}:{real}:{block}:{cache}"


KINDS = ("wrap", "limbo", "garbage", "cache")


@pytest.mark.parametrize(
    ("lacking", "fills", "how"),
    [
        (0.02, (SEQUENTIAL,), "sampled"),
        (0.5, (SEQUENTIAL, RANDOM), "sampled"),
        (0.9, (SEQUENTIAL,), "whole"),
        (0.01, (RANDOM,), "whole"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_drive_that_lacks_capacity_is_found(
    kind: str, lacking: float, fills: tuple[Fill, ...], how: ReadBack, disk: Path, tmp_path: Path,
    fake_library: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("LD_PRELOAD", str(fake_library))
    monkeypatch.setenv("FAKE", a_fake(kind, lacking, block=fills[-1].block_bytes))

    wrong = Drive(disk, tmp_path).wrong(how, *fills)

    assert wrong is not None
    assert wrong.misplaced + wrong.absent > 0
    assert wrong.damaged <= 1  # the rest of the drive is smaller than a block


@pytest.mark.parametrize("how", ["whole", "sampled"])
@pytest.mark.parametrize("kind", ["scattered", "corrupt"])
def test_one_block_in_a_hundred_that_is_lost_or_changed_anywhere_is_found(
    kind: str, how: ReadBack, disk: Path, tmp_path: Path, fake_library: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("LD_PRELOAD", str(fake_library))
    monkeypatch.setenv("FAKE", a_fake(kind, 0.0))

    wrong = Drive(disk, tmp_path).wrong(how)

    assert wrong is not None
    assert (wrong.damaged if kind == "corrupt" else wrong.absent) == wrong.places > 0


def test_the_data_of_an_earlier_fill_are_not_taken_for_those_of_this_one(
    disk: Path, tmp_path: Path, fake_library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drive = Drive(disk, tmp_path)
    assert drive.wrong("whole", seed=1) is None
    monkeypatch.setenv("LD_PRELOAD", str(fake_library))
    monkeypatch.setenv("FAKE", a_fake("scattered", 0.0))

    wrong = drive.wrong("whole", seed=2)

    assert wrong is not None and wrong.absent == wrong.places > 0


@pytest.mark.parametrize("how", ["whole", "sampled"])
@pytest.mark.parametrize("fills", [(SEQUENTIAL,), (RANDOM,), (SEQUENTIAL, RANDOM)])
def test_an_honest_drive_returns_what_was_written(
    fills: tuple[Fill, ...], how: ReadBack, disk: Path, tmp_path: Path
) -> None:
    drive = Drive(disk, tmp_path)

    assert [drive.wrong(how, *fills, seed=seed) for seed in range(3)] == [None] * 3


PROFILE = """
title: A short run on a file
precondition: [{pattern: sequential, block: 128KiB, fill: 1}]
steady: {rule: seppanen, max_time: 1s}
repeats: 1
window: 1s
settle: {window: 1s, flat: 1s, max_time: 1s}
measure: [{sweep: {block: 4KiB, read: 0, iodepth: 4}}]
"""


@pytest.mark.parametrize("fake", [True, False])
def test_a_run_tells_of_a_fake_in_all_of_its_results(
    fake: bool, disk: Path, tmp_path: Path, fake_library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "profile.yaml").write_text(PROFILE)
    argv = [sys.executable, "-m", "ssdbench", "run", str(tmp_path / "profile.yaml"), "--target"]
    if fake:
        monkeypatch.setenv("FAKE", a_fake("wrap", 0.5))
        argv = ["env", f"LD_PRELOAD={fake_library}", *argv]

    run([*argv, str(disk), "--output", str(tmp_path / "run")], ok=(1,), timeout_s=300)

    result = json.loads((tmp_path / "run" / "result.json").read_text())
    (fill,) = [one for one in result["stages"] if one["found"]["kind"] == "precondition"]
    codes = {one["code"]: one["severity"] for one in fill["findings"]}
    assert (codes.get("capacity-unproven") == "invalidates") == fake
    assert bool(fill["found"]["wrong_reads"]) == fake
    assert fill["found"]["read_back"] == ("sampled" if fake else "whole")
    assert fill["found"]["read_back_reads"] >= 1000
    rows = (tmp_path / "run" / "results.csv").read_text()
    assert ",capacity_proof," in rows and ",wrong_reads," in rows
    page = (tmp_path / "run" / "report.html").read_text()
    assert "read back and compared" in page
    assert ("did not return what was written" in page) == fake
