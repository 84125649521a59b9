"""Measure whether the drives of a host are slower while all of them work at the same time.

The trial only reads, so the trial causes no wear and needs no fill. Small random reads load the
CPUs most, and large sequential reads load the buses most. An empty drive answers faster than a
filled drive, so the trial loads the host more than the run will.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import repeat
from pathlib import Path
from random import Random

from ssdbench.engine.session import TargetSession
from ssdbench.engine.targets import claimed, require_able
from ssdbench.errors import Interrupted
from ssdbench.generator.base import Job
from ssdbench.host.files import make_directory, write_atomic
from ssdbench.model.kind import KINDS, About
from ssdbench.model.workload import ActiveRange, Pattern, Workload
from ssdbench.stages.points import PointStage
from ssdbench.stats.checks import Loss, loss, says
from ssdbench.suite.assemble import stages
from ssdbench.suite.plan import RunPlan
from ssdbench.suite.request import RunRequest

ROUNDS = 10
SURE_AFTER = 5  # rounds, after which a loss that is surely too large ends the trial
WINDOW_S = 8.0
RAMP_S = 2.0  # at the start of each measurement, which is not counted
SMALL_BYTES, LARGE_BYTES = 4096, 128 * 1024
DEPTH = 32  # if the profile has no points
SHARE_NOTHING = "side by side: simulated drives share nothing, as each has its own clock"


@dataclass(frozen=True, slots=True)
class Turn:
    """Hold the rates of one measurement, of one drive alone or of all drives at the same time."""

    workload: str
    round: int
    iops: dict[str, float]  # of each drive


@dataclass(frozen=True, slots=True)
class Tried:
    """Hold the answer of a trial, with all measured rates."""

    side_by_side: bool
    says: str
    losses: tuple[Loss, ...] = ()
    turns: tuple[Turn, ...] = ()  # in the order of time


def objection(planned: Sequence[RunPlan]) -> str:
    """Return the reason why these runs cannot run at the same time; "" if they can."""
    infos = [one.target for one in planned]
    if any(info.zone_bytes for info in infos):
        return "a zoned drive can be read only where it was written, and a trial does not write"
    if len({info.simulated for info in infos}) > 1:
        return "a simulated drive takes CPU time from a real one"
    if any(KINDS[stage.kind].about is About.SETTINGS for stage in planned[0].stages):
        return "the profile compares settings of the host, so no other run may use the host"
    wide = [one for plan in planned for one in plan.host.settings if not one.drive]
    if wide:
        return f"the profile changes the host itself ({wide[0].attribute}) for each run"
    return ""


def trial(
    each: Sequence[RunRequest],
    planned: Sequence[RunPlan],
    directory: Path,
    *,
    interrupted: Callable[[], int | None] = lambda: None,
) -> Tried:
    """Measure each drive alone and all drives together. The caller must hold the lock of the host.

    Nothing is written to the drives. Raises SsdbenchError, and Interrupted after a signal.
    """
    with ExitStack() as held:
        sessions: dict[str, TargetSession] = {}
        for one, plan in zip(each, planned, strict=True):
            require_able(plan.target)
            claim = claimed(
                plan.target,
                directory,
                one.consent,
                destroys=False,
                fio_cpus=plan.host.fio_cpus,
                fio_options=plan.host.fio_options,
                locked=True,
            )
            sessions[one.target] = held.enter_context(claim)

        def go_on() -> None:
            if (number := interrupted()) is not None:
                raise Interrupted(number)

        def rate(drive: str, workload: Workload, place: Path, seed: int) -> float:
            go_on()
            own = place / str(list(sessions).index(drive) + 1)
            make_directory(own)
            return _rate(sessions[drive], workload, own, seed, go_on)

        return rounds(list(sessions), _workloads(each, planned), directory, rate)


def rounds(
    drives: Sequence[str],
    workloads: Mapping[str, Mapping[str, Workload]],
    directory: Path,
    rate: Callable[[str, Workload, Path, int], float],
) -> Tried:
    """Measure the rounds of the trial; each round measures each drive alone and all together.

    `workloads` maps the name of a workload and then a drive to the workload of this drive. `rate`
    is a function that measures one drive.
    """
    chance = Random("side by side")
    seen: list[Turn] = []
    losses: list[Loss] = []
    with ThreadPoolExecutor(len(drives)) as threads:
        for name, of_drive in workloads.items():
            alone: dict[str, list[float]] = defaultdict(list)
            together: dict[str, list[float]] = defaultdict(list)
            found: list[Loss] = []
            for number in range(1, ROUNDS + 1):
                turns = [*([drive] for drive in drives), list(drives)]
                chance.shuffle(turns)
                for turn in turns:
                    place = directory / f"{name.replace(' ', '-')}-{number:02}-{len(seen):03}"
                    own = [of_drive[drive] for drive in turn]
                    rates = list(threads.map(rate, turn, own, repeat(place), repeat(number)))
                    for drive, value in zip(turn, rates, strict=True):
                        (together if len(turn) > 1 else alone)[drive].append(value)
                    seen.append(Turn(name, number, dict(zip(turn, rates, strict=True))))
                found = [loss(drive, name, alone[drive], together[drive]) for drive in drives]
                if number >= SURE_AFTER and any(one.is_large for one in found):
                    break
            losses += found
            if not all(one.is_small for one in found):
                break
    beside, why = says(losses)
    return Tried(beside, why, tuple(losses), tuple(seen))


def store(tried: Tried, path: Path) -> None:
    """Store a trial with all its rates as a JSON file."""
    write_atomic(path, json.dumps(asdict(tried), indent=1) + "\n")


def seconds(drives: int) -> float:
    """Return the longest time, in seconds, that a trial with this number of drives may take."""
    return 2 * ROUNDS * (drives + 1) * (WINDOW_S + RAMP_S + 1)


def _workloads(
    each: Sequence[RunRequest], planned: Sequence[RunPlan]
) -> dict[str, dict[str, Workload]]:
    found: dict[str, dict[str, Workload]] = defaultdict(dict)
    for one, plan in zip(each, planned, strict=True):
        info = plan.target
        there = info.formatted(one.profile.lba_format)
        points = [
            point.workload
            for stage in stages(one.profile, there)
            if isinstance(stage, PointStage)
            for point in stage.points
        ]
        deepest = max(points, key=lambda w: w.iodepth * w.numjobs, default=None)
        for pattern, size in ((Pattern.RANDOM, SMALL_BYTES), (Pattern.SEQUENTIAL, LARGE_BYTES)):
            block = max(size, info.logical_block_bytes)
            workload = Workload(
                pattern=pattern,
                block_bytes=block,
                read_percent=100,
                iodepth=deepest.iodepth if deepest else DEPTH,
                numjobs=deepest.numjobs if deepest else 1,
                range=ActiveRange(offset_bytes=0, length_bytes=info.size_bytes // block * block),
            )
            found[f"{size >> 10} KiB {pattern} reads"][one.target] = workload
    return found


def _rate(
    session: TargetSession,
    workload: Workload,
    artifacts: Path,
    seed: int,
    go_on: Callable[[], None],
) -> float:
    """Return the IOPS of one drive; `go_on` is called every second and may raise Interrupted."""
    job = Job(name="trial", workload=workload, seed=seed, runtime_s=RAMP_S + WINDOW_S)
    counted = []
    with session.generator().start([job], artifacts=artifacts) as running:
        for second in running:
            go_on()
            if second.t_s > RAMP_S + 1e-9:
                counted.append(second)
        running.outcome()
    return sum(s.ios for s in counted) / max(sum(s.duration_s for s in counted), 1e-9)
