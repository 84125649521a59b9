"""Unmodified fio on the simulated drive measures what is true of it."""

import json
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from ssdbench.host.command import run
from ssdbench.sim import library
from ssdbench.sim.core import Job
from ssdbench.sim.drive import SimDrive
from ssdbench.sim.simulation import fill, steady, wear_in
from ssdbench.sim.spec import parse
from ssdbench.sim.truth import Load, closed_form

pytestmark = pytest.mark.host

KIB = 1024
FIO_NS = 1000  # what virtual time charges for fio's own part of a request


def worn_in(target: str, state: Path, *, block_bytes: int, span_bytes: int = 0) -> None:
    """A drive in steady state under random writes; the core's own loop is quick at it."""
    job = Job(block_bytes=block_bytes, span_bytes=span_bytes)
    with SimDrive.create(parse(target), state) as drive:
        fill(drive.core)
        wear_in(drive.core, job)
        steady(drive.core, job)


def counters(state: Path) -> dict[str, int]:
    with SimDrive.open(state) as drive:
        return drive.counters()


def fio(state: Path, *options: str) -> dict[str, Any]:
    """One fio in virtual time; its only job."""
    argv = ["fio", "--name=job", "--ioengine=nbd", "--uri=sim:", "--thread", "--bs=4096",
            "--clocksource=clock_gettime", "--norandommap", "--output-format=json",
            *options]  # fmt: skip
    environment = {
        "LD_PRELOAD": str(library.native_file("libssdb_virtualtime.so")),
        "SSDB_VT_STATE": str(state),
    }
    output = run(["env", *(f"{k}={v}" for k, v in environment.items()), *argv], timeout_s=120)
    job: dict[str, Any] = json.loads("{" + output.stdout.partition("{")[2])["jobs"][0]
    return job


@pytest.mark.parametrize("op", ["7%", "14%", "28%"])
def test_fio_measures_the_closed_forms_rate_and_amplification(tmp_path: Path, op: str) -> None:
    target, state = f"sim:p4500-4t,capacity=8GiB,op={op}", tmp_path / "drive.ssdb"
    spec = parse(target)
    truth = closed_form(target, spec.params, Load())
    worn_in(target, state, block_bytes=4 * KIB)
    before = counters(state)

    size = f"--size={spec.capacity_bytes}"
    job = fio(state, "--rw=randwrite", "--iodepth=32", size, "--time_based", "--runtime=20")

    after = counters(state)
    grown = {name: after[name] - before[name] for name in after}
    assert truth is not None and truth.write_amplification is not None
    assert job["write"]["iops"] == pytest.approx(truth.iops, rel=0.02)
    assert grown["nand_write_units"] / grown["host_write_units"] == pytest.approx(
        truth.write_amplification, rel=0.01
    )


@pytest.mark.parametrize(("span", "published"), [(8e9 / 160e9, 3182), (1.0, 342)])
def test_fio_measures_hegers_figures(tmp_path: Path, span: float, published: float) -> None:
    target, state = "sim:x25m-g2-160,scale=20", tmp_path / "drive.ssdb"
    span_bytes = int(parse(target).capacity_bytes * span) // 16384 * 16384
    worn_in(target, state, block_bytes=4 * KIB, span_bytes=span_bytes)

    job = fio(
        state, "--rw=randwrite", "--iodepth=32", f"--size={span_bytes}", "--time_based",
        "--runtime=600",
    )  # fmt: skip

    assert job["write"]["iops"] == pytest.approx(published, rel=0.05)


@pytest.mark.parametrize("stride_kib", [32, 64, 512])
def test_fio_sees_dunns_peaks_every_1024_kib(tmp_path: Path, stride_kib: int) -> None:
    target, state = "sim:transcend-ts16gssd25", tmp_path / "drive.ssdb"
    with SimDrive.create(parse(target), state) as drive:
        fill(drive.core)
    log = tmp_path / "lat"

    fio(
        state, f"--rw=write:{(stride_kib - 4) * KIB}", "--iodepth=1",
        f"--size={2048 * stride_kib * KIB}", "--log_offset=1", f"--write_lat_log={log}",
    )  # fmt: skip

    rows = [line.split(",") for line in Path(f"{log}_lat.1.log").read_text().splitlines()]
    offsets = [int(row[4]) for row in rows]
    slow = [offset for offset, row in zip(offsets, rows, strict=True) if int(row[1]) > 3_000_000]
    boundaries = [offset for offset in offsets if offset % (1024 * KIB) == 0]
    assert len(boundaries) == 2048 * stride_kib // 1024
    assert slow == boundaries[-len(slow) :]
    assert len(slow) >= len(boundaries) - 4  # the first merges wait until the log blocks are full


@pytest.mark.parametrize(("rw", "peak"), [("read", 700e6), ("write", 650e6)])
def test_fio_measures_the_dram_drives_latency_and_peak(
    tmp_path: Path, rw: str, peak: float
) -> None:
    state = tmp_path / "drive.ssdb"
    SimDrive.create(parse("sim:dram-ssd-2012"), state).close()

    one = fio(state, f"--rw=rand{rw}", "--iodepth=1", "--size=1g", "--io_size=64m")[rw]
    bulk = fio(state, f"--rw={rw}", "--iodepth=4", "--size=1g", "--bs=1048576")[rw]

    assert one["lat_ns"]["mean"] - FIO_NS == pytest.approx(7_000, rel=0.05)
    assert bulk["bw_bytes"] == pytest.approx(peak, rel=0.01)


def test_fio_sees_the_cliff_where_the_spare_is_used_up(tmp_path: Path) -> None:
    """Random 4 KiB writes to a fresh SATA SSD: flat for long, then much less."""
    target, state, log = "sim:c300-256,scale=100", tmp_path / "drive.ssdb", tmp_path / "rate"
    spec = parse(target)
    truth = closed_form(target, spec.params, Load())
    SimDrive.create(spec, state).close()

    fio(
        state, "--rw=randwrite", "--iodepth=32", f"--size={spec.capacity_bytes}",
        f"--io_size={8 * spec.capacity_bytes}", f"--write_iops_log={log}", "--log_avg_msec=1000",
    )  # fmt: skip

    rows = Path(f"{log}_iops.1.log").read_text().splitlines()
    rates = [int(row.split(",")[1]) for row in rows][:-1]
    written = list(accumulate(4 * KIB * rate / spec.capacity_bytes for rate in rates))
    cliff = 1 + spec.params["op_ppm"] / 1e6
    before = [rate for rate, done in zip(rates, written, strict=True) if done < 0.95 * cliff]
    after = [rate for rate, done in zip(rates, written, strict=True) if done > 1.3 * cliff]
    assert truth is not None
    assert len(before) > 10
    assert min(before[1:]) > 0.95 * max(before)  # deceptively steady
    assert max(after) < 0.6 * max(before)
    assert sum(rates[-20:]) / 20 == pytest.approx(truth.iops, rel=0.03)
