"""The pages of the papers' experiments: made from stored rows alone, small, and of every run."""

import json
import random
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from unittest.mock import create_autospec

import numpy as np
import pytest

from benchmarks import papers
from benchmarks.kernel.__main__ import EXPERIMENTS
from benchmarks.kernel.experiment import STORE
from ssdbench.cli import main
from ssdbench.host import command
from ssdbench.sim.core import Drive, Job, Op, Order
from ssdbench.sim.library import Params
from ssdbench.sim.simulation import fill, steady
from ssdbench.sim.spec import catalogue, parse
from ssdbench.units import MIB
from tests.support.sim_figures import Bench

PAGES = sorted(path for path in papers.PAPERS.glob("*.md") if path.stem != "README")
# The strides of Dunn 2009, as short as they still show their shape.
STRIDES = """\
target: sim:transcend-ts16gssd25,capacity=128MiB
precondition: [{pattern: sequential, block: 128KiB, fill: 1}]
measure:
  - blocksize: {strides: [64KiB, 512KiB, 1MiB, 2MiB], writes: 200}
"""


def kept(profile: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of a run, where a page would be made from them."""
    path = place / "short.yaml"
    path.write_text(profile)
    assert main.run(["run", str(path), "--output", str(place / "run")]) in (0, 1)
    monkeypatch.setattr(papers, "PAPERS", place / "pages")
    papers.keep("short", place / "run")
    return place / "pages"


def test_a_short_figure_1_of_yu_rises_with_the_size_of_a_transfer() -> None:
    drive = Bench(next(card for card in catalogue() if card.name == "dram-ssd-2012")).fresh()
    rates = {
        kib: drive.run(
            Job(order=Order.RANDOM, read_percent=100, block_bytes=kib << 10, stop_ios=500)
        )
        for kib in (4, 64, 1024)
    }
    mb_per_s = {kib: found.bytes_per_s / 1e6 for kib, found in rates.items()}

    assert mb_per_s[4] < 0.9 * mb_per_s[64]
    assert mb_per_s[64] < 0.995 * mb_per_s[1024]
    assert mb_per_s[1024] == pytest.approx(700, rel=0.01)  # the paper's peak


def test_short_strides_of_dunn_are_level_from_the_block_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = kept(STRIDES, tmp_path, monkeypatch)
    found = json.loads((pages / "short.json").read_text())["found"]
    rates = {one["stride_bytes"] >> 10: one["mb_per_s"] for one in found if "peaks" in one}

    assert rates[64] > 3 * rates[512] > 3 * 1.5 * rates[1024]
    assert rates[2048] == pytest.approx(rates[1024], rel=0.02)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_stored_page_is_what_its_rows_give(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(papers, "drawn", lambda name: (papers.PAPERS / f"{name}.svg").exists())
    make = papers.page_of_experiment if page.stem in EXPERIMENTS else papers.page_of_profile

    assert page.read_text() == make(page.stem)


def test_all_that_was_run_has_a_small_page_in_the_list() -> None:
    listed = (papers.PAPERS / "README.md").read_text()
    ran = [path.stem for path in papers.PAPERS.glob("*.json")]
    ran += [name for name in EXPERIMENTS if (STORE / f"{name}-6.12.json").exists()]

    assert sorted(page.stem for page in PAGES) == sorted(ran)
    assert [name for name in ran if f"({name}.md)" not in listed] == []
    assert [path for path in papers.PAPERS.iterdir() if path.stat().st_size > 300_000] == []


def test_an_experiment_is_run_by_the_command_that_its_page_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = create_autospec(command.run)
    monkeypatch.setattr(papers, "run", run)

    papers.taken("scsi")

    assert run.call_args.args[0][1:] == ["-m", "benchmarks.kernel", "scsi"]


def test_an_unknown_name_is_refused_before_anything_is_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert papers.main(["paper-of-nobody"]) == 2
    assert "no experiment paper-of-nobody; there are: paper-dunn" in capsys.readouterr().err


def credited_bits(ends_s: list[float], hz: int) -> float:
    """Bits a completion, as Linux before 5.18 credits (drivers/char/random.c,
    add_timer_randomness): from the least of three differences of the times, in jiffies.
    """
    at = last = last2 = total = 0
    for end in ends_s:
        delta = int(end * hz) - at
        delta2, delta3 = delta - last, delta - last - last2
        at, last, last2 = at + delta, delta, delta2
        total += min((min(abs(delta), abs(delta2), abs(delta3)) >> 1).bit_length(), 11)
    return total / len(ends_s)


def test_by_the_rule_of_2010_a_disk_adds_entropy_with_each_read_and_a_flash_drive_none() -> None:
    """Section 3 of the report. A read of the disk takes a seek and a part of a turn of 4 ms."""
    drive = Bench(next(card for card in catalogue() if card.name == "x25m-g2-160")).fresh()
    job = Job(order=Order.RANDOM, read_percent=100, block_bytes=4096, iodepth=1, stop_ios=2000)
    read_s = 1 / drive.run(job).iops
    chance = random.Random(1)
    moves = [chance.uniform(0.0005, 0.0065) + chance.uniform(0, 0.004) for _ in range(2000)]
    disk, flash = list(accumulate(moves)), list(accumulate([read_s] * 2000))

    bits = {hz: round(credited_bits(disk, hz), 3) for hz in (1000, 250, 100)}

    assert bits == {1000: 0.697, 250: 0.067, 100: 0.0}  # a read, by the kernel's ticks a second
    assert [credited_bits(flash, hz) for hz in bits] == [0, 0, 0]


@pytest.mark.parametrize(
    ("model", "writes", "reads"),
    [
        ("micron-pcie-2010,capacity=512MiB", 0.11, 0.85),
        ("c300-256,capacity=2GiB", 0.29, 1.00),
        ("x25m-g2-160,capacity=2GiB", 0.80, 0.82),
    ],
)
def test_requests_that_are_not_aligned_cost_two_units_each(
    model: str, writes: float, reads: float
) -> None:
    """4 KiB at 2 KiB past a multiple of 4 KiB, as shares of the aligned rates; a full drive."""
    spec = parse(f"sim:{model}")
    rates = []
    for offset in (0, 2048):
        drive = Drive.in_memory(Params(dict(spec.params)))
        fill(drive)
        job = Job(offset_bytes=offset, span_bytes=spec.capacity_bytes - 8192)
        written = steady(drive, job)[0].iops
        read = drive.run(replace(job, read_percent=100, stop_ios=50_000, idle_s=60)).iops
        rates.append((written, read))

    (aligned, aligned_read), (unaligned, unaligned_read) = rates
    assert unaligned / aligned == pytest.approx(writes, abs=0.01)
    assert unaligned_read / aligned_read == pytest.approx(reads, abs=0.01)


@pytest.mark.parametrize(
    ("model", "burst_s", "slow_ms"),
    [
        ("micron-pcie-2010,capacity=512MiB", 0.18, 3.3),
        ("c300-256,capacity=2GiB", 2.5, 3.9),
        ("x25m-g2-160,capacity=2GiB", 10.4, 48.1),
    ],
)
def test_reads_behind_the_burst_of_a_checkpoint_are_slow_for_milliseconds(
    model: str, burst_s: float, slow_ms: float
) -> None:
    """64 MiB in random writes of 16 KiB, 32 at a time, on a full drive; then reads, one at a time.

    Slow is more than twice the median of a quiet drive.
    """
    drive = Drive.in_memory(Params(dict(parse(f"sim:{model}").params)))
    fill(drive)
    steady(drive, Job())
    read = Job(read_percent=100, iodepth=1, stop_ios=2000, idle_s=60)
    quiet = drive.run(read, per_io=2000).per_io["latency_ns"]

    burst = drive.run(Job(block_bytes=16384, stop_bytes=64 << 20, idle_s=10))
    behind = drive.run(replace(read, idle_s=0), per_io=2000).per_io["latency_ns"]

    slow = (behind > 2 * sorted(quiet)[1000]).nonzero()[0]
    assert burst.duration_s == pytest.approx(burst_s, rel=0.03)
    assert behind[: slow[-1] + 1].sum() / 1e6 == pytest.approx(slow_ms, rel=0.03)


@pytest.mark.parametrize(
    ("model", "longest_us"),
    [
        ("micron-pcie-2010,capacity=512MiB", 0.9),
        ("c300-256,capacity=2GiB", 16.6),
        ("x25m-g2-160,capacity=2GiB", 10.0),
    ],
)
def test_reads_beside_trims_wait_for_microseconds(model: str, longest_us: float) -> None:
    """4 KiB reads of one half of a full drive, one at a time, beside trims of the other half.

    A thousand trims of 1 MiB a second; `longest_us` is by how much the slowest read is slower.
    """
    spec = parse(f"sim:{model}")
    half = spec.capacity_bytes // 2
    drive = Drive.in_memory(Params(dict(spec.params)))
    fill(drive)
    steady(drive, Job())
    latencies_ns = []
    for trim_every_ns in (0, 1_000_000):
        drive.idle(drive.now_ns + 60_000_000_000)
        chance, now = random.Random(1), drive.now_ns
        trim_ns, found = now, []
        for _ in range(2000):
            while trim_every_ns and trim_ns <= now:
                trimmed = half + chance.randrange(half >> 20) * MIB
                drive.submit(Op.TRIM, trimmed, MIB, now_ns=trim_ns)
                trim_ns += trim_every_ns
            page = chance.randrange(half // 4096) * 4096
            ended = drive.submit(Op.READ, page, 4096, now_ns=now).done_ns
            found.append(ended - now)
            now = ended
        latencies_ns.append(found)

    alone, beside = latencies_ns
    assert sum(beside) / sum(alone) == pytest.approx(1, abs=0.001)
    assert (max(beside) - max(alone)) / 1000 == pytest.approx(longest_us, abs=0.1)


@pytest.mark.parametrize(
    ("model", "gain"),
    [
        ("micron-pcie-2010,capacity=512MiB", 1.97),
        ("c300-256,capacity=2GiB", 1.83),
        ("x25m-g2-160,capacity=2GiB", 1.75),
    ],
)
def test_an_atomic_write_of_a_page_saves_nearly_half_of_the_writes(model: str, gain: float) -> None:
    """16 KiB pages at random places of a full drive: with each page written first to a ring of 2
    MiB, as databases do against torn pages, and without that.
    """
    spec, page, ring = parse(f"sim:{model}"), 16384, 128
    places = np.random.default_rng(1).integers(ring, spec.capacity_bytes // page, size=400_000)
    twice = np.stack([np.arange(len(places)) % ring, places], axis=1).ravel()
    pages = []
    for blocks in (twice, places):
        drive = Drive.in_memory(Params(dict(spec.params)))
        fill(drive)
        job = Job(order=Order.LISTED, block_bytes=page, blocks=blocks.astype(np.uint32))
        pages.append(steady(drive, job)[0].iops * len(places) / len(blocks))

    assert pages[1] / pages[0] == pytest.approx(gain, abs=0.02)
