"""Compare what other ways of running fio report with a drive's known truth: `nox -s peers`.

Each way runs, unmodified, through `ssdbench sim exec` on a fresh simulated drive: 4 KiB random
writes, 32 in flight, in virtual time. The table shows reported rate over true sustained rate. A
benchmark that is not installed has no row. To add one: a name, what it is told, and a function.
ssdbench's own runs take two hours of the drive's clock and more: a minute of a core for a drive of
4,000 IOPS, over ten for one of 60,000. They are made of slow drives, or of all with `--long`.

`--hours` runs nothing of that. It computes how long whole jobs of others take on the shipped models
at their full size, from their published definitions (`JOBS`) and the models' rates.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.cost import HOUR_S, MODELS, slow_and_small
from ssdbench import open_run
from ssdbench.errors import CommandFailed
from ssdbench.host.command import run, which
from ssdbench.sim.modelfile import load_embedded
from ssdbench.sim.simulation import simulate
from ssdbench.sim.spec import parse
from ssdbench.sim.truth import Load, closed_form
from ssdbench.units import KIB

DRIVES = (
    "sim:x25m-g2-160,capacity=2GiB",
    "sim:p4500-4t,capacity=4GiB",
    "sim:pm9a3,capacity=4GiB",
    "sim:660p-1t,capacity=4GiB",
)
COPY_GIB = 16
DEEP = 128  # as in the profile `pessimistic`
LONG_IOPS = 10_000  # from here on an own run takes many minutes of a core
WRITES = ("--ioengine=libaio", "--direct=1", "--rw=randwrite", "--bs=4k", "--iodepth=32")
PROFILE = """
precondition:
  - {pattern: sequential, block: 128KiB, fill: 2}
  - {pattern: random, block: 4KiB, fill: 1}
content: random
steady: {rule: pss, workload: {block: 4KiB, iodepth: 32, numjobs: 1}, max_fills: 6}
repeats: 10
window: 60s
settle: {window: 2m, flat: 60s, max_fills: 2}
measure:
  - sweep: {block: 4KiB, read: [0], iodepth: 32, numjobs: 1}
"""


@dataclass(frozen=True, slots=True)
class WholeJob:
    """Hold what a job of others asks for: fills in order and at random, and minutes beside them."""

    name: str
    in_order: float
    at_random: float
    minutes: float


# TKperf (commit 002b8a32, DeviceTests.py and Devices.py): two fills of 128 KiB, then 5 to 25 rounds
# of 56 loads for a minute each. bench-fio (commit 033cecb1): two fills of 1 MiB if asked to
# precondition, then 2 modes x 7 depths x 7 numbers of jobs for a minute each. SSD-iq (commit
# 8a0a3f43, benchbench.sh): three times an erase, a fill of 512 KiB, loads and pauses of 5,630 s;
# also 3, 4 and 4 fills of 4 KiB, which count here as if all of them were uniform.
JOBS = (
    WholeJob("SNIA's IOPS test by TKperf, 5 rounds", 2, 0, 5 * 56),
    WholeJob("the same, 25 rounds", 2, 0, 25 * 56),
    WholeJob("bench-fio --precondition, its default loads", 2, 0, 2 * 7 * 7),
    WholeJob("SSD-iq, benchbench.sh", 3, 3 + 4 + 4, 3 * 5630 / 60),
)


@dataclass(frozen=True, slots=True)
class Reported:
    """Hold what a user reads from the tool, in IOPS; `said` is its word on validity."""

    iops: float
    said: str = ""


def _tool(target: str, *argv: str) -> str:
    ssdbench = (sys.executable, "-m", "ssdbench", "sim", "exec", target, "--")
    return run([*ssdbench, *argv], timeout_s=3600).stdout


def _job(output: str) -> dict[str, Any]:
    """Return the job of fio's JSON, which warnings may stand around."""
    document = json.loads("{" + output.partition("{")[2].rpartition("}")[0] + "}")
    job: dict[str, Any] = document["jobs"][0]
    return job


def _filled(target: str, options: str) -> dict[str, Any]:
    """Write the whole drive once in order, then at random over all of it with more options."""
    fill = "fio --name=fill --rw=write --bs=128k --ioengine=libaio --iodepth=8 >/dev/null"
    job = f"fio --name=test --time_based --output-format=json {options} {' '.join(WRITES)}"
    return _job(_tool(target, "sh", "-c", f"{fill} && {job}"))


def usual_job(target: str, directory: Path) -> Reported:
    """Run the job of most pages on the web: one gigabyte for one minute."""
    options = ("--name=test", "--size=1g", "--time_based", "--runtime=60", "--output-format=json")
    return Reported(_job(_tool(target, "fio", "--filename={}", *WRITES, *options))["write"]["iops"])


def after_a_fill(target: str, directory: Path) -> Reported:
    """Write the whole drive once in order, then a minute at random over all of it."""
    return Reported(_filled(target, "--runtime=60")["write"]["iops"])


def fio_steadystate(target: str, directory: Path) -> Reported:
    """Run fio's own rule as in its manual: slope of the IOPS below 0.3 % for 300 s."""
    rule = "--ss=iops_slope:0.3% --ss_dur=300 --ss_ramp=60 --runtime=7200"
    found = _filled(target, rule)["steadystate"]
    said = "attained" if found["attained"] else "not attained"
    return Reported(float(found["data"]["iops_mean"]), said)


def bench_fio(target: str, directory: Path) -> Reported:
    """Run bench-fio of fio-plot, with its preconditioning and its minute per point."""
    _tool(
        target, "bench-fio", "--target", "{}", "--type", "file", "--size", "100%", "--mode",
        "randwrite", "--iodepth", "32", "--numjobs", "1", "--output", str(directory / "out"),
        "--destructive", "--quiet",
    )  # fmt: skip
    (found,) = (directory / "out").rglob("*.json")
    return Reported(_job(found.read_text())["write"]["iops"])


def ssdbench_bound(target: str, directory: Path) -> Reported:
    """Run ssdbench; return its number to plan on."""
    profile, output = directory / "profile.yaml", directory / "run"
    profile.write_text(PROFILE)
    argv = [sys.executable, "-m", "ssdbench", "run", str(profile), "--target", target]
    run([*argv, "--output", str(output)], ok=(0, 1), timeout_s=7200)
    point = open_run(output).summary.iloc[0]
    return Reported(float(point["iops_bound"]), str(point["verdict"]))


WAYS: Sequence[tuple[str, str, Callable[[str, Path], Reported]]] = (
    ("usual fio job, 1 GiB, 60 s", "fio", usual_job),
    ("one sequential fill, then 60 s", "fio", after_a_fill),
    ("one fill, then fio --ss=iops_slope:0.3%", "fio", fio_steadystate),
    ("bench-fio, 60 s", "bench-fio", bench_fio),
    ("ssdbench's bound", "fio", ssdbench_bound),
)


def true_iops(target: str, iodepth: int = 32) -> float:
    """Return what the drive sustains under this load."""
    spec, load = parse(target), Load(iodepth=iodepth)
    found = closed_form(spec.text, spec.params, load) or simulate(spec.text, spec.params, load)
    return found.iops


def fill_hours(model: str) -> tuple[float, float]:
    """Return the hours of a fill of a model at full size: in order, and by random 4 KiB writes."""
    size_bytes = parse(f"sim:{model},scale=1").params["capacity_bytes"]
    small = slow_and_small(model, COPY_GIB)  # takes as long per fill
    random_bytes_per_s = true_iops(small, DEEP) * 4 * KIB
    in_order_bytes_per_s = load_embedded(model).simulated["seq_write_mbps"] * 1e6
    small_bytes = parse(small).params["capacity_bytes"]
    return (
        size_bytes / in_order_bytes_per_s / HOUR_S,
        small_bytes / random_bytes_per_s / HOUR_S,
    )


def print_hours(models: Sequence[str]) -> None:
    """Print how long the jobs of others take on each model."""
    known = {model: fill_hours(model) for model in models}
    print(f"{'hours at full size':<46}" + "".join(f"{model:>13}" for model in known))
    rows = (WholeJob("a fill in order", 1, 0, 0), WholeJob("a fill at random", 0, 1, 0), *JOBS)
    for job in rows:
        hours = [
            job.in_order * fill + job.at_random * random + job.minutes / 60
            for fill, random in known.values()
        ]
        print(f"{job.name:<46}" + "".join(f"{one:>13.1f}" for one in hours))


def main() -> int:
    """Print a row for each way that is installed here, or the hours of others' whole jobs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--drive", action="append", help="instead of the four of the table")
    parser.add_argument("--way", default="", help="only the ways whose name has this in it")
    parser.add_argument(
        "--long", action="store_true", help="ssdbench's own runs of fast drives too"
    )
    parser.add_argument("--hours", action="store_true", help="of others' jobs on the models")
    asked = parser.parse_args()
    if asked.hours:
        print_hours(MODELS)
        return 0
    drives = asked.drive or DRIVES
    truths = {target: true_iops(target) for target in drives}
    print(f"{'reported / true sustained IOPS':<42}" + "".join(f"{d[4:20]:>20}" for d in drives))
    print(f"{'(true IOPS)':<42}" + "".join(f"{truths[d]:>20,.0f}" for d in drives))
    for name, program, way in (found for found in WAYS if asked.way in found[0]):
        if which(program) is None:
            print(f"{name:<42}  {program} is not installed")
            continue
        cells = [
            "not run"
            if way is ssdbench_bound and truths[target] > LONG_IOPS and not asked.long
            else _cell(way, target, truths[target])
            for target in drives
        ]
        print(f"{name:<42}" + "".join(f"{cell:>20}" for cell in cells), flush=True)
    return 0


def _cell(way: Callable[[str, Path], Reported], target: str, truth: float) -> str:
    with tempfile.TemporaryDirectory() as directory:
        try:
            found = way(target, Path(directory))
        except CommandFailed as error:
            print(f"  {way.__name__} on {target}: {error}", file=sys.stderr)
            return "failed"
    return f"{found.iops / truth:.2f} {found.said}".strip()


if __name__ == "__main__":
    sys.exit(main())
