"""Draw drives with a block, without one, or behind a buffer, and ask `detect-blocksize` of them.

A drive is made from its number alone. Half of the sizes are on the lattice of the search (odd x 2^k
x 4 KiB), half are off it. The walks are those of `detect-blocksize`, done by the core itself
instead of fio, which takes a second instead of five.
"""

from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from benchmarks import hidden_flash
from benchmarks.core_generator import core_job
from benchmarks.hidden_flash import CoreBench, logged
from benchmarks.synthetic import Rng
from benchmarks.zoo import stalling
from ssdbench.errors import UsageError
from ssdbench.model.inside import BlockSizeFound, ProbeFound
from ssdbench.model.target import TargetInfo, TargetKind
from ssdbench.sim.core import Drive
from ssdbench.sim.library import Params
from ssdbench.sim.spec import parse
from ssdbench.stages.blocksize import FURTHER_WAYS, PROBES_WITHOUT_BLOCK, BlockSize
from ssdbench.stages.blockverdict import WayVerdict, absorbed, answer, buffered
from ssdbench.stages.strides import StrideWay, Trace, fills, heard, stride_job
from ssdbench.stats.inside.blockjudge import judge
from ssdbench.stats.inside.blocksize import BlockVerdict
from ssdbench.stats.inside.strides import StridePlan
from ssdbench.stats.inside.writebuffer import Held
from ssdbench.stats.inside.writesizes import BLOCK, of_probe, one_answer, write_size
from ssdbench.units import KIB, MIB

UNIT_BYTES = 4 * KIB
SMALLEST_UNITS, LARGEST_UNITS = 8, 4096  # 32 KiB to 16 MiB
LARGEST_ODD = 31
BETWEEN_S = 0.1  # passes: as long as the generator takes to begin the next one
SMALLEST_BUFFER_BYTES, LARGEST_BUFFER = 64 * KIB, 0.2  # the latter as a share of the drive


@dataclass(frozen=True, slots=True)
class Hidden:
    """Hold a drive and the truth about it."""

    kind: str
    params: dict[str, int]
    block_bytes: int | None


def made(number: int, seed: int) -> Hidden:
    """Return the drive of a number: one of eight has no block, half have a buffer of any size."""
    rng = np.random.default_rng([0xB10C, seed, number])
    if number % 8 == 7:
        found = _pages(rng)
    else:
        kind = "on the lattice" if number % 2 == 0 else "off the lattice"
        found = _blocks(rng, kind, _size(rng, on_lattice=number % 2 == 0))
    found.params["wbuf_bytes"] = _buffer(rng, found.params["capacity_bytes"])
    return found


def _buffer(rng: Rng, capacity_bytes: int) -> int:
    """Return the bytes of a buffer: 0 for half of the drives, else up to a fifth of the drive."""
    if rng.random() < 0.5:
        return 0
    most = np.log(LARGEST_BUFFER * capacity_bytes)
    size = float(np.exp(rng.uniform(np.log(SMALLEST_BUFFER_BYTES), most)))
    return round(size / UNIT_BYTES) * UNIT_BYTES


def _size(rng: Rng, *, on_lattice: bool) -> int:
    """Return a block's size in units of 4 KiB, about evenly by magnitude."""
    while True:
        units = round(float(np.exp(rng.uniform(np.log(SMALLEST_UNITS), np.log(LARGEST_UNITS)))))
        odd = units
        while odd % 2 == 0:
            odd //= 2
        if (odd <= LARGEST_ODD) == on_lattice:
            return units
        if on_lattice:
            shift = int(rng.integers(0, 9))
            units = int(rng.integers(0, LARGEST_ODD // 2 + 1) * 2 + 1) << shift
            if SMALLEST_UNITS <= units <= LARGEST_UNITS:
                return units


def _trouble(rng: Rng) -> dict[str, int]:
    found = {"noise_ppm": int(rng.choice([0, 50_000, 100_000, 200_000, 300_000]))}
    if rng.random() < 0.5:
        found |= stalling(rng.uniform(0.2e9, 8e9), rng.uniform(1e6, 20e6), rng.integers(2))
    return found


def _blocks(rng: Rng, kind: str, units: int) -> Hidden:
    block = units * UNIT_BYTES
    phase = int(rng.integers(units)) * UNIT_BYTES if rng.random() < 0.5 else 0
    params = {
        "ftl": 1,
        "capacity_bytes": int(rng.choice([768, 1024, 1536, 2048])) * MIB,
        "map_unit_bytes": UNIT_BYTES,
        "block_bytes": block,
        "block_phase_bytes": phase,
        "log_blocks": int(rng.choice([1, 2, 4, 8, 16])),
        "t_read_ns": int(rng.uniform(20e3, 80e3)),
        "t_prog_ns": int(rng.uniform(30e3, 600e3)),
        "t_erase_ns": int(rng.uniform(0.5e6, 4e6)),
        "merge_page_ns": int(rng.uniform(5e3, 60e3)),
        "fw_read_ns": 10_000,
        "fw_write_ns": int(rng.choice([5_000, 10_000, 60_000])),
        "cmd_serial_ns": 2_000,
        "link_mbps": int(rng.choice([150, 300, 600])),
        "queue_slots": 32,
        "seed": int(rng.integers(1, 2**31)),
    }
    if rng.random() < 0.3:  # merges hardly cost more than programs, which vary
        params |= {
            "t_prog_ns": int(rng.uniform(0.5e6, 4e6)),
            "t_erase_ns": int(rng.uniform(0.1e6, 1e6)),
            "merge_page_ns": max(50, int(rng.uniform(0.2e6, 4e6)) // units),
        }
    return Hidden(kind, params | _trouble(rng), block)


def _pages(rng: Rng) -> Hidden:
    unit = int(rng.choice([4, 8, 16, 32, 64])) * KIB
    page = max(16 * KIB, unit)
    channels = int(rng.choice([1, 2, 4, 8]))
    params = {
        "ftl": 0,
        "capacity_bytes": int(rng.choice([768, 1024, 2048])) * MIB,
        "op_ppm": int(rng.uniform(60_000, 400_000)),
        "map_unit_bytes": unit,
        "channels": channels,
        "dies_per_channel": 1,
        "program_unit_bytes": page,
        "read_unit_bytes": page,
        "erase_block_bytes": 512 * KIB // channels // page * page or page,
        "t_read_ns": int(rng.uniform(40e3, 200e3)),
        "t_prog_ns": int(rng.uniform(300e3, 1500e3)),
        "t_erase_ns": int(rng.uniform(2e6, 8e6)),
        "gc_policy": int(rng.integers(3)),
        "gc_paced": int(rng.integers(2)),
        "fw_read_ns": 10_000,
        "fw_write_ns": int(rng.choice([5_000, 10_000, 60_000])),
        "cmd_serial_ns": 2_000,
        "link_mbps": int(rng.choice([150, 300, 600])),
        "seed": int(rng.integers(1, 2**31)),
    }
    return Hidden("no block", params | _trouble(rng), None)


NVME = ("p4500-4t", "pm9a3", "bm1743", "660p-1t", "p320h-700", "micron-pcie-2010", "intel320")


def of_any_kind(number: int, seed: int) -> Hidden:
    """Return a drive with a block, page-mapped, or a changed copy of a model, in turn.

    The copies have mapping units of 4 to 64 KiB, and buffers, dies, links and times at random.
    """
    if number % 3 == 0:
        return made(number // 3, seed)
    rng = np.random.default_rng([0x512E, seed, number])
    if number % 3 == 1:
        return Hidden("no block", hidden_flash.made(number, seed), None)
    while True:
        unit = int(rng.choice([4, 8, 16, 32, 64]))
        page = max(16, unit)
        settings = {
            "capacity": f"{int(rng.choice([8, 16, 32]))}GiB",
            "map_unit": f"{unit}KiB",
            "program_unit": f"{page}KiB",
            "read_unit": f"{page}KiB",
            "erase_block": f"{int(rng.choice([2, 4]))}MiB",
            "t_read": f"{int(rng.integers(40, 150))}us",
            "t_prog": f"{int(rng.integers(300, 4000))}us",
            "channels": int(rng.choice([2, 4, 8, 10, 12, 16])),
            "dies_per_channel": int(rng.choice([1, 2, 4])),
            "wbuf": f"{int(rng.choice([0, 1, 8, 64, 256]))}MiB",
            "op": f"{rng.uniform(6, 28):.1f}%",
            "noise": f"{int(rng.choice([0, 5, 20]))}%",
            "gc_policy": str(rng.choice(["greedy", "fifo", "dchoice"])),
        }
        if rng.random() < 0.3:
            settings["fw_write"] = f"{int(rng.integers(5, 60))}us"
            settings["link"] = str(rng.choice([300, 600, 1000, 2000, 3200, 7000]))
        text = ",".join(f"{name}={value}" for name, value in settings.items())
        with suppress(UsageError):  # too little spare area for so large erase blocks
            params = dict(parse(f"sim:{rng.choice(NVME)},{text}").params)
            return Hidden("copy of a model", params, None)


def walk(
    drive: Drive, walked: list[StridePlan], way: StrideWay, trace: Trace, *, seed: int
) -> None:
    """Walk a plan on the drive; add what the passes logged to the trace."""
    for index, one in enumerate(p for plan_ in walked for p in plan_.passes):
        job = stride_job("walk", way, one, block_bytes=UNIT_BYTES, seed=seed * 1000 + index)
        walking = replace(core_job(job), idle_s=BETWEEN_S)
        said = drive.run(walking, per_io=walking.stop_bytes // UNIT_BYTES)
        trace.add(one, heard(way, logged(said)))


def asked(hidden: Hidden, *, seed: int) -> tuple[BlockVerdict, Held | None]:
    """Return the verdict of `detect-blocksize`, and how much it says that a buffer holds."""
    said = _walked(hidden, _target(hidden), seed, Drive.in_memory(Params(hidden.params)))
    verdict = next(
        (one.verdict for one in said.values() if one.found), said[StrideWay.WRITES].verdict
    )
    assert verdict is not None
    return verdict, buffered(said)


def sized(hidden: Hidden, *, seed: int) -> BlockSizeFound:
    """Return the whole answer of `detect-blocksize`: with the probes, if no block is found."""
    target = _target(hidden)
    drive = Drive.in_memory(Params(hidden.params))
    said = _walked(hidden, target, seed, drive)
    strides = answer(said, target=target, block_bytes=UNIT_BYTES, seed=seed).found
    parts = [write_size(BLOCK, strides.answer, seconds=0, written=0)]
    if strides.block_bytes is None:
        bench = CoreBench(drive)
        for probe in PROBES_WITHOUT_BLOCK:
            told = probe.ask(bench)
            found = ProbeFound(probe=probe.name, answer=told.answer, numbers=told.numbers)
            parts.append(of_probe(found, seconds=0, written=0))
    return one_answer(strides, {part.part: part for part in parts}, target)


def _target(hidden: Hidden) -> TargetInfo:
    return TargetInfo(
        kind=TargetKind.SIMULATED, name="hidden", node="", id="hidden",
        size_bytes=hidden.params["capacity_bytes"],
    )  # fmt: skip


def _walked(
    hidden: Hidden, target: TargetInfo, seed: int, drive: Drive
) -> dict[StrideWay, WayVerdict]:
    """Walk one round and way after another until a block is found; return all verdicts."""
    said: dict[StrideWay, WayVerdict] = {}
    for walked in BlockSize("blocks").rounds(target, seed=seed):
        regions = max(walked, key=lambda p: p.conditioning_bytes).regions
        for job in fills("condition", regions, seed=seed, most_bytes=target.size_bytes):
            drive.run(core_job(job))
        for way in (StrideWay.WRITES, *FURTHER_WAYS):
            if way is not StrideWay.WRITES and not absorbed(said, target):
                break
            one = said.setdefault(way, WayVerdict(Trace()))
            walk(drive, walked, way, one.trace, seed=seed)
            one.verdict = judge(one.trace.series(), seed=seed, own=way is StrideWay.WRITES)
            if one.found:
                return said
    return said
