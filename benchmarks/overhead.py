"""Measure what ssdbench costs the measurement: `python -m benchmarks.overhead` or `nox -s bench`.

The same job file runs under plain fio and under ssdbench, in alternating pairs (plain first, then
ssdbench first), on fio's null engine and on a loop device in memory, both with logs, at the
highest rate that the machine reaches. The table has the ratio of the IOPS with its one-sided 95 %
lower limit (pseudomedian of the logarithms of all paired ratios, exact signed-rank limit), our own
CPU time while fio runs, and the time that a start takes beyond its I/O. A control of plain against
plain, taken in the same way, shows how far this host can tell the two apart.
"""

import argparse
import itertools
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

from ssdbench.generator.base import Job
from ssdbench.generator.fio.attachment import Attachment, DeviceAttachment
from ssdbench.generator.fio.driver import Fio
from ssdbench.generator.fio.jobfile import Options, jobfile
from ssdbench.generator.fio.output import parse
from ssdbench.generator.fio.sampling import DeviceMeter, Feed, KernelFeed, Reading
from ssdbench.host import blockdev
from ssdbench.host.command import Process, inherited, run
from ssdbench.model.workload import ActiveRange, Pattern, Workload
from ssdbench.units import GIB, MIB

LIMIT_RATIO = 0.99
FEWEST = 5  # pairs, for an exact one-sided 95 % limit
LIMIT_CPU = 0.01
LIMIT_DEAD_S = 0.5
LIMIT_HELP_S = 0.150
MEMORY = Path("/dev/shm")  # a file of our own in a directory of its own


@dataclass(frozen=True, slots=True)
class Start:
    """Hold one start of fio, under ssdbench or alone."""

    iops: float
    dead_s: float  # wall time beyond the I/O
    cpu_share: float = 0.0  # our own CPU time over wall time while fio ran


@dataclass(slots=True)
class Comparison:
    """Hold all pairs on one target."""

    target: str
    plain: list[Start] = field(default_factory=list)
    ours: list[Start] = field(default_factory=list)
    control: list[Start] = field(default_factory=list)  # plain again, where ours would run

    def ratios(self, other: Sequence[Start]) -> list[float]:
        """Return the IOPS of `other` over those of plain fio, pair by pair."""
        return [b.iops / a.iops for a, b in zip(self.plain, other, strict=True)]


def pseudomedian_and_lower(
    differences: Sequence[float], *, miss: float = 0.05
) -> tuple[float, float]:
    """Return the Hodges-Lehmann estimate of the centre, and its exact one-sided lower limit.

    The limit is the order statistic of the Walsh averages that the Wilcoxon signed-rank test at
    level `miss` gives (Hollander and Wolfe, Nonparametric Statistical Methods, 3rd ed., 3.2 and
    3.3). Raises ValueError if there are too few differences for any limit at that level.
    """
    n = len(differences)
    averages = sorted(
        (a + b) / 2 for a, b in itertools.combinations_with_replacement(differences, 2)
    )
    ways = [1] + [0] * len(averages)  # in which ranks of the positive differences sum to the index
    for rank in range(1, n + 1):
        for total in range(len(averages), rank - 1, -1):
            ways[total] += ways[total - rank]
    below, at = 0, 0
    while below + ways[at] <= miss * 2**n:
        below += ways[at]
        at += 1
    if not at:
        raise ValueError(f"{n} pairs are too few for a limit that misses {miss:.0%}")
    return statistics.median(averages), averages[at - 1]


def middle_and_lower(ratios: Sequence[float]) -> tuple[float, float]:
    """Return the pseudomedian of the ratios and its exact one-sided 95 % lower limit."""
    middle, lower = pseudomedian_and_lower([math.log(ratio) for ratio in ratios])
    return math.exp(middle), math.exp(lower)


class NullMeter:
    """Read the counters of an idle device at the cost of a busy one, and report progress."""

    def __init__(self, meter: DeviceMeter) -> None:
        self._meter = meter
        self._reads = 0

    def read(self) -> Reading:
        """Return the counters as if one more read had ended."""
        self._meter.read()
        self._reads += 1
        return Reading(self._reads, 0, self._reads * 4096, 0)

    def close(self) -> None:
        self._meter.close()


class NullAttachment:
    """Let fio use its null engine: no device, the highest rate that fio itself reaches."""

    name = "null"
    engine = "null"
    exact = True

    def __init__(self, idle_device: str) -> None:
        self._idle = idle_device

    def options(self) -> Options:
        return {"ioengine": "null", "thread": 1}

    def environment(self, directory: Path) -> dict[str, str]:
        return {}

    def pass_fds(self) -> tuple[int, ...]:
        return ()

    def require(self, jobs: Sequence[Job]) -> None:
        """Accept every job."""

    def check(self) -> None:
        """Check nothing: the engine has no device."""

    def watch(self, process: Process, jobs: Sequence[Job]) -> Feed:
        """Return a feed of seconds that costs as much as a device's."""
        meter = DeviceMeter(self._idle, process.pid, block_bytes=4096, root=Path("/"))
        return KernelFeed(process, NullMeter(meter), stall_s=60)


def a_job(*, numjobs: int, iodepth: int, seconds: float, size_bytes: int) -> Job:
    """Return a job of 4 KiB random reads with a histogram log."""
    workload = Workload(
        pattern=Pattern.RANDOM,
        block_bytes=4096,
        read_percent=100,
        iodepth=iodepth,
        numjobs=numjobs,
        range=ActiveRange(offset_bytes=0, length_bytes=size_bytes),
    )
    return Job("bench", workload, seed=1, runtime_s=seconds, histogram_log=True)


def run_plain(attachment: Attachment, job: Job, directory: Path) -> Start:
    """Run the job file under fio alone."""
    (directory / "job.fio").write_text(jobfile([job], options=attachment.options()))
    began = time.monotonic()
    argv = ["fio", "--eta=never", "--output-format=json+", "--output=fio.json", "job.fio"]
    with ExitStack() as claims:  # the job file names the target by the descriptor of its claim
        for descriptor in attachment.pass_fds():
            claims.enter_context(inherited(descriptor))
        run(["sh", "-c", f"cd '{directory}' && exec {' '.join(argv)}"], timeout_s=300)
    wall = time.monotonic() - began
    done = parse((directory / "fio.json").read_text(), [job.name])[0].outcome.read
    return Start(done.ios / done.runtime_s, wall - done.runtime_s)


def run_ours(attachment: Attachment, job: Job, directory: Path) -> Start:
    """Run the job under ssdbench, with a judge that looks at every second."""
    fio = Fio(attachment)
    assert fio.name  # asked once per run of ssdbench, not once per start
    began, cpu_began = time.monotonic(), time.process_time()
    with fio.start([job], artifacts=directory) as running:
        for _ in running:
            pass
    cpu, watched = time.process_time() - cpu_began, time.monotonic() - began
    done = running.outcome().jobs[0].read
    wall = time.monotonic() - began
    return Start(done.ios / done.runtime_s, wall - done.runtime_s, cpu / watched)


def compare(attachment: Attachment, job: Job, *, pairs: int) -> Comparison:
    """Run alternating pairs, each with a control."""
    found = Comparison(attachment.name)
    runs: list[tuple[list[Start], Callable[[Attachment, Job, Path], Start]]] = [
        (found.plain, run_plain), (found.ours, run_ours), (found.control, run_plain),
    ]  # fmt: skip
    for pair in range(pairs):
        for into, start in runs if pair % 2 == 0 else reversed(runs):
            with tempfile.TemporaryDirectory(prefix="ssdbench-bench-") as directory:
                into.append(start(attachment, job, Path(directory)))
        print(f"{found.target}: pair {pair + 1} of {pairs}", file=sys.stderr)
    return found


@contextmanager
def memory_loop(size_bytes: int) -> Iterator[Path]:
    """Make a loop device over written memory; remove it at the end."""
    with tempfile.TemporaryDirectory(prefix="ssdbench-bench-", dir=MEMORY) as directory:
        backing = Path(directory) / "disk.img"
        backing.write_bytes(os.urandom(MIB) * (size_bytes // MIB))
        node = Path(run(["losetup", "--find", "--show", str(backing)]).stdout.strip())
        try:
            yield node
        finally:
            run(["losetup", "--detach", str(node)])


def help_cpu_s(times: int = 7) -> float:
    """Return the CPU time of `ssdbench --help`, the least of several starts."""
    found = []
    for _ in range(times):
        before = getrusage(RUSAGE_CHILDREN)
        run([sys.executable, "-m", "ssdbench", "--help"], timeout_s=60)
        after = getrusage(RUSAGE_CHILDREN)
        found.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return min(found)


def measure(*, pairs: int, seconds: float, numjobs: int) -> list[Comparison]:
    """Compare on both targets."""
    with memory_loop(256 * MIB) as node:
        descriptor = blockdev.claim(node)
        try:
            idle = blockdev.device_number(descriptor)
            null = a_job(numjobs=numjobs, iodepth=1, seconds=seconds, size_bytes=GIB)
            loop = a_job(numjobs=numjobs, iodepth=32, seconds=seconds, size_bytes=256 * MIB)
            return [
                compare(NullAttachment(idle), null, pairs=pairs),
                compare(DeviceAttachment(node, descriptor), loop, pairs=pairs),
            ]
        finally:
            os.close(descriptor)


def row(found: Comparison) -> tuple[str, bool]:
    """Return the line of one target, and whether all its limits hold."""
    ratio, lower = middle_and_lower(found.ratios(found.ours))
    control, control_lower = middle_and_lower(found.ratios(found.control))
    cpu_share = statistics.fmean(start.cpu_share for start in found.ours)
    dead_s = statistics.median(start.dead_s for start in found.ours)
    line = (
        f"{found.target:12} {len(found.plain):>5} "
        f"{statistics.median(start.iops for start in found.plain):>12,.0f} {ratio:>7.4f} "
        f"{lower:>8.4f} {control:>8.4f} {control_lower:>8.4f} {cpu_share:>8.2%} {dead_s:>6.3f}s "
        f"{max(start.dead_s for start in found.ours):>6.3f}s "
        f"{statistics.median(start.dead_s for start in found.plain):>6.3f}s"
    )
    held = lower >= LIMIT_RATIO and cpu_share <= LIMIT_CPU and dead_s <= LIMIT_DEAD_S
    return line, held


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; with --strict the status says whether all limits hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--numjobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--strict", action="store_true", help="status 1 when a limit is missed")
    options = parser.parse_args(arguments)
    if options.pairs < FEWEST:
        parser.error(f"--pairs: fewer than {FEWEST} have no 95 % limit")
    found = measure(pairs=options.pairs, seconds=options.seconds, numjobs=options.numjobs)
    rows, help_s = [row(comparison) for comparison in found], help_cpu_s()
    print(
        f"{'target':12} {'pairs':>5} {'plain IOPS':>12} {'ratio':>7} {'95 % low':>8} "
        f"{'control':>8} {'its low':>8} {'our CPU':>8} {'dead':>7} {'worst':>7} {'fio own':>7}"
    )
    print(*(line for line, _ in rows), sep="\n")
    print(
        f"{'wanted':12} {'>= 20':>5} {'':>12} {'':>7} {f'>= {LIMIT_RATIO}':>8} {'':>8} {'':>8} "
        f"{f'<= {LIMIT_CPU:.0%}':>8} {f'<={LIMIT_DEAD_S}s':>7}"
    )
    print(
        f"ssdbench --help: {help_s * 1000:.0f} ms of CPU (wanted: <= {LIMIT_HELP_S * 1000:.0f} ms)"
    )
    held = help_s <= LIMIT_HELP_S and all(good for _, good in rows)
    return 1 if options.strict and not held else 0


if __name__ == "__main__":
    sys.exit(main())
