"""How often each answer of `ssdbench probe` is right, wrong or "cannot tell", over made-up drives.

    python -m benchmarks.probe_accuracy [--drives 24] [--first 0] [--only spare]

A drive is made from its number alone: page-mapped (with a buffer, flushes, SLC cache, stripes and a
spare area from a seed), block-mapped, or without translation. The truth is what was asked for.
Figures are reported with seeds that the rules were not made with.
"""

import argparse
import json
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from ssdbench.sim.simulation import simulate
from ssdbench.sim.spec import parse
from ssdbench.sim.truth import Load, write_amplification
from ssdbench.units import KIB

SEED = 20_260_701
PAGE, BLOCKS, NONE = "page", "blocks", "none"
LEAST_COLLECTED = 1.2  # write amplification from which a TRIM of a quarter must be felt
CANNOT = "cannot tell"
Answer = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Drive:
    """A made-up drive: its target, and what is true of it."""

    target: str
    kind: str
    params: Mapping[str, int]

    @property
    def dies(self) -> int:
        """That work at the same time."""
        return self.params["channels"] * self.params["dies_per_channel"]

    @property
    def amplification(self) -> float | None:
        """Of random writes of 32 KiB in steady state; None without a closed form."""
        if self.kind != PAGE:
            return None
        return write_amplification(self.params, Load(block_bytes=32 * KIB, read_percent=0))


def made(number: int, seed: int) -> Drive:
    """The drive of that number: two of eight have no page mapping, one of four an SLC cache."""
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
    channels = int(rng.choice([4, 5, 6, 8, 10, 12]))
    settings = {
        "capacity": "2GiB",
        "channels": channels,
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


def remap_unit(drive: Drive, said: Answer) -> bool:
    """Exact; "or less" is right for what is less."""
    unit, found = drive.params["map_unit_bytes"], said.get("remap_unit_bytes")
    return isinstance(found, int) and (found == unit or (bool(said["at_most"]) and unit <= found))


def write_buffer(drive: Drive, said: Answer) -> bool:
    """Within a quarter."""
    return _near(said.get("buffer_bytes"), max(drive.params["wbuf_bytes"], 1), 0.25)


def flush(drive: Drive, said: Answer) -> bool:
    """Waits for a volatile buffer and for no other."""
    held = drive.params["wbuf_volatile"] and drive.params["wbuf_bytes"]
    return said.get("flush_waits_for") == ("buffer" if held else "nothing")


def slc_cache(drive: Drive, said: Answer) -> bool:
    """Within a quarter, or none where there is none."""
    size = drive.params["slc_bytes"]
    if not size:
        return "cache_bytes" not in said
    return _near(said.get("cache_bytes"), size, 0.25)


def chunk(drive: Drive, said: Answer) -> bool:
    """Of each die what it programs at once, or a whole remap unit; "or less" is right for less."""
    side, found = _side(drive), said.get("chunk_bytes")
    return isinstance(found, int) and (
        (drive.kind == PAGE and found == side) or (bool(said["at_most"]) and side <= found)
    )


def stripe(drive: Drive, said: Answer) -> bool:
    """What all dies hold side by side."""
    return drive.kind == PAGE and said.get("stripe_bytes") == drive.dies * _side(drive)


def _side(drive: Drive) -> int:
    if drive.kind != PAGE:
        return drive.params["map_unit_bytes"]  # pages go round the dies
    side = drive.params["program_unit_bytes"] * drive.params["planes"]
    return max(side, drive.params["map_unit_bytes"])


def parallelism(drive: Drive, said: Answer) -> bool:
    """As the core itself gains from 256 reads under way over one, within a tenth."""
    one, most = (
        simulate(drive.target, drive.params, Load(read_percent=100, iodepth=depth)).iops
        for depth in (1, 256)
    )
    return _near(said.get("reads_at_once"), most / one, 0.1)


def mapping(drive: Drive, said: Answer) -> bool:
    """Only a page-mapped drive scatters data; it need not show that."""
    share = said.get("scattered_over_ordered")
    return isinstance(share, float) and (drive.kind == PAGE or share >= 0.9)


def spare(drive: Drive, said: Answer) -> bool:
    """Over-provisioning within a percentage point or a tenth, on page-mapped drives alone."""
    truth, found = drive.params["op_ppm"] / 1e6, said.get("over_provisioning")
    return (
        drive.kind == PAGE
        and isinstance(found, float)
        and abs(found - truth) <= max(0.01, truth / 10)
    )


def amplification(drive: Drive, said: Answer) -> bool:
    """The truth lies between the bounds."""
    truth = drive.amplification
    low, high = said.get("write_amplification_least"), said.get("write_amplification_most")
    return (
        truth is not None
        and isinstance(low, float)
        and isinstance(high, float)
        and (low <= truth <= high)
    )


def trim(drive: Drive, said: Answer) -> bool:
    """Faster where collection costs something."""
    truth = drive.amplification
    return truth is not None and truth >= LEAST_COLLECTED and said.get("trim_effect") == "faster"


BY_READS = ("read chunk", "parallelism")
KINDS: Mapping[str, tuple[str, Callable[[Drive, Answer], bool]]] = {
    "remap unit": ("remap-unit", remap_unit),
    "write buffer": ("write-buffer", write_buffer),
    "flush": ("flush", flush),
    "SLC cache": ("slc-cache", slc_cache),
    "read chunk": ("read-chunk", chunk),
    "stripe": ("stripe", stripe),
    "parallelism": ("parallelism", parallelism),
    "mapping": ("mapping", mapping),
    "over-provisioning": ("spare", spare),
    "write amplification": ("spare", amplification),
    "TRIM": ("trim", trim),
}


def asked(drive: Drive, only: list[str]) -> dict[str, Answer]:
    """What `ssdbench probe` says of a drive, by probe."""
    with TemporaryDirectory() as place:
        argv = [sys.executable, "-m", "ssdbench", "probe", drive.target, "--json"]
        argv += ["--output", str(Path(place) / "run")]
        argv += [word for name in only for word in ("--only", name)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{drive.target}: {done.stderr.strip()[-400:]}")
    return {str(probe["probe"]): probe for probe in json.loads(done.stdout)["probes"]}


def main() -> None:
    """Print every answer that is not right, and the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--drives", type=int, default=24)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--only", action="append", default=[], help="a probe, by its name")
    parser.add_argument("--verbose", action="store_true", help="print right answers as well")
    wanted = parser.parse_args()
    count: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    for number in range(wanted.first, wanted.first + wanted.drives):
        drive = made(number, wanted.seed)
        said = asked(drive, wanted.only)
        for kind, (probe, right) in KINDS.items():
            if probe not in said or (kind in BY_READS and drive.params["slc_bytes"]):
                continue  # how fast an SLC cache is read depends on what is left in it
            answer = said[probe]
            text = str(answer["answer"])
            verdict = (
                CANNOT
                if text.startswith(CANNOT)
                else ("right" if right(drive, answer) else "wrong")
            )
            count[kind][verdict] += 1
            if verdict != "right" or wanted.verbose:
                print(
                    f"{number} {drive.target}: {kind} {verdict}: {text}"
                    f" [{drive.amplification or math.nan:.2f}]",
                    flush=True,
                )
    print("| answer | right | wrong | cannot tell |\n|---|---|---|---|")
    for kind, seen in count.items():
        if seen:
            print(f"| {kind} | {seen['right']} | {seen['wrong']} | {seen[CANNOT]} |")


if __name__ == "__main__":
    main()
