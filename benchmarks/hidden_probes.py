"""Hidden drives of every kind, and what each answer of `ssdbench probe` would be if it were right.

A drive is made from its number alone: page-mapped (with a buffer, flushes, SLC cache, stripes and a
spare area from a seed), block-mapped, or without translation. The probes are asked through the
command itself, with fio. The truth is what the drive was made with.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ssdbench.host.command import run
from ssdbench.sim.simulation import simulate
from ssdbench.sim.spec import parse
from ssdbench.sim.truth import Load, write_amplification
from ssdbench.units import KIB

PAGE, BLOCKS, NONE = "page-mapped", "block-mapped", "DRAM"
LEAST_COLLECTED = 1.2  # write amplification from which a TRIM of a quarter must be felt
CANNOT = "cannot tell"
Answer = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Drive:
    """Hold a made-up drive: its target, and what is true of it."""

    target: str
    kind: str
    params: Mapping[str, int]

    @property
    def side_bytes(self) -> int:
        """What each die programs at once, or a whole remap unit."""
        unit = self.params["map_unit_bytes"]
        if self.kind != PAGE:
            return unit  # pages go round the dies
        return max(self.params["program_unit_bytes"] * self.params.get("planes", 1), unit)

    @property
    def stripe_bytes(self) -> int:
        """What all dies hold side by side."""
        return self.params["channels"] * self.params["dies_per_channel"] * self.side_bytes

    @property
    def amplification(self) -> float:
        """Write amplification of random 32 KiB writes in steady state; NaN without a formula."""
        if self.kind != PAGE:
            return np.nan
        return write_amplification(self.params, Load(block_bytes=32 * KIB)) or np.nan


def made(number: int, seed: int) -> Drive:
    """Return the drive of that number: of eight, two without page mapping, two with SLC."""
    rng = np.random.default_rng([seed, number])
    if number % 8 == 6:
        block = int(rng.choice([512, 768, 1024, 2048]))
        return _drive(f"sim:memoright-gt,capacity=512MiB,block={block}KiB", BLOCKS)
    if number % 8 == 7:
        return _drive(f"sim:dram-ssd-2012,capacity=1GiB,t_prog={int(rng.integers(5, 30))}us", NONE)
    if number % 4 == 1:
        static = int(rng.integers(1200, 3600))  # lasts for some seconds
        return _drive(f"sim:660p-1t,capacity=8GiB,link=400,slc={static}MiB,slc_dynamic=0%", PAGE)
    unit = int(rng.choice([4, 8, 16, 32]))
    settings = {
        "capacity": "2GiB",
        "channels": int(rng.choice([4, 5, 6, 8, 10, 12])),
        "map_unit": f"{unit}KiB",
        "op": f"{rng.uniform(4, 28):.1f}%",
        "t_read": f"{int(rng.integers(40, 300))}us",
        "t_prog": f"{int(rng.integers(500, 1600))}us",
        "wbuf": f"{int(rng.choice([512, 1024, 2048, 4096]))}KiB",
        "wbuf_volatile": str(rng.choice(["yes", "no"])),
    }
    text = ",".join(f"{name}={value}" for name, value in settings.items())
    return _drive(f"sim:{rng.choice(['x25m-g2-160', 'c300-256', 'intel320'])},{text}", PAGE)


def _drive(target: str, kind: str) -> Drive:
    return Drive(target, kind, parse(target).params)


def _near(said: object, truth: float, share: float) -> bool:
    return isinstance(said, int | float) and abs(said / truth - 1) <= share


def _or_less(said: Answer, key: str, truth: int) -> bool:
    """Whether an answer is exact, or "or less" and not less than the truth."""
    found = said.get(key)
    return isinstance(found, int) and (found == truth or (bool(said["at_most"]) and truth <= found))


def _flush(drive: Drive, said: Answer) -> bool:
    held = drive.params["wbuf_volatile"] and drive.params["wbuf_bytes"]
    return bool(said.get("flush_waits_for") == ("buffer" if held else "nothing"))


def _slc_cache(drive: Drive, said: Answer) -> bool:
    size, found = drive.params["slc_bytes"], said.get("cache_bytes")
    return _near(found, size, 0.25) if size else found is None


def _chunk(drive: Drive, said: Answer) -> bool:
    exact = drive.kind == PAGE or bool(said.get("at_most"))
    return exact and _or_less(said, "chunk_bytes", drive.side_bytes)


def _parallelism(drive: Drive, said: Answer) -> bool:
    """As the core itself gains from 256 reads under way over one, within a tenth."""
    one, most = (
        simulate(drive.target, drive.params, Load(read_percent=100, iodepth=depth)).iops
        for depth in (1, 256)
    )
    return _near(said.get("reads_at_once"), most / one, 0.1)


def _mapping(drive: Drive, said: Answer) -> bool:
    """Only a page-mapped drive scatters data; it need not show that."""
    share = said.get("scattered_over_ordered")
    return isinstance(share, float) and (drive.kind == PAGE or share >= 0.9)


def _spare(drive: Drive, said: Answer) -> bool:
    truth, found = drive.params["op_ppm"] / 1e6, said.get("over_provisioning")
    near = isinstance(found, float) and abs(found - truth) <= max(0.01, truth / 10)
    return near and drive.kind == PAGE


def _amplification(drive: Drive, said: Answer) -> bool:
    low, high = said.get("write_amplification_least"), said.get("write_amplification_most")
    return low is not None and high is not None and bool(low <= drive.amplification <= high)


BY_READS = ("read chunk", "parallelism")
RIGHT: Mapping[str, tuple[str, Callable[[Drive, Answer], bool]]] = {  # answer: probe, whether right
    "remap unit": (
        "remap-unit",
        lambda d, said: _or_less(said, "remap_unit_bytes", d.params["map_unit_bytes"]),
    ),
    "write buffer": (
        "write-buffer",
        lambda d, said: _near(said.get("buffer_bytes"), max(d.params["wbuf_bytes"], 1), 0.25),
    ),
    "flush": ("flush", _flush),
    "SLC cache": ("slc-cache", _slc_cache),
    "read chunk": ("read-chunk", _chunk),
    "stripe": (
        "stripe",
        lambda d, said: d.kind == PAGE and said.get("stripe_bytes") == d.stripe_bytes,
    ),
    "parallelism": ("parallelism", _parallelism),
    "mapping": ("mapping", _mapping),
    "over-provisioning": ("spare", _spare),
    "write amplification": ("spare", _amplification),
    "TRIM": (  # faster where collection costs something
        "trim",
        lambda d, said: d.amplification >= LEAST_COLLECTED and said.get("trim_effect") == "faster",
    ),
}


def answers(drive: Drive) -> Iterator[tuple[str, str, str]]:
    """Ask all probes; yield each question, how right its answer is, and the words of it.

    How fast an SLC cache is read depends on what is left in it, so no reads are asked about there.
    """
    with TemporaryDirectory() as place:
        argv = [sys.executable, "-m", "ssdbench", "probe", drive.target, "--json"]
        output = run([*argv, "--output", str(Path(place) / "run")], timeout_s=3600).stdout
    said = {str(probe["probe"]): probe for probe in json.loads(output)["probes"]}
    for question, (probe, right) in RIGHT.items():
        if question not in BY_READS or not drive.params["slc_bytes"]:
            answer = said[probe]
            told = str(answer["answer"])
            how = "right" if right(drive, answer) else "wrong"
            yield question, CANNOT if told.startswith(CANNOT) else how, told
