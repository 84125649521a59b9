"""Writes the job files that a run would use, for plain fio, and says what is lost without ssdbench.

The run finds out meanwhile how long each settles and lasts. Here both are what the profile asks for
at least, and fio's own ramp time stands for settling.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ssdbench.engine.stage import AnyStage, derived_seed
from ssdbench.errors import UsageError
from ssdbench.generator.base import Job
from ssdbench.generator.fio.attachment import ENGINE
from ssdbench.generator.fio.jobfile import ENGINE_OPTIONS, filename, jobfile
from ssdbench.model.target import TargetInfo, TargetKind
from ssdbench.model.workload import IoEngine, Workload
from ssdbench.stages.points import PointStage
from ssdbench.stages.precondition import Precondition, starts
from ssdbench.stages.steady import UNIT, Steady
from ssdbench.suite.assemble import stages
from ssdbench.suite.plan import fitted, require_fit, target_of
from ssdbench.suite.request import RunRequest

NOWHERE = "the-drive-under-test"  # no file of this name is made, so that nothing is hit by mistake

README = """\
# Job files of an ssdbench run

Made by `ssdbench run {profile} --export-jobs` for {target}, seed {seed}.
Every file that writes DESTROYS what is on `filename`. Look at it before each use: device names
move.

Run them in the order of their names, in one go:

    for job in *.fio; do
        fio --output-format=json --output="${{job%.fio}}.json" "$job" || break
    done

{inside}{left_out}## What is lost without ssdbench

- The claim: nothing checks that the drive is the one that was meant, that it is unused, and that
  somebody agreed.
- Steady state: the warm-up here writes up to {fills:g} times its range and stops. Nothing says
  whether the drive was steady then. ssdbench goes on until a rule holds, and says so where none
  does.
- Settling: `ramp_time` is the least time that the profile asks for. ssdbench writes the drive's
  spare area first, and waits until nothing rises or falls.
- Windows: here each has the length of the profile. ssdbench makes them longer where the rate has a
  rhythm or the drive a buffer.
- The bound, the intervals and the verdict: fio reports one mean for each start. Do not average its
  percentiles.
- Rates: fio counts a request from when it sends it, and sends none while it waits for a slow one.
  The latencies of ssdbench hold what the rate made wait.
- Disturbance: other programs, a hot drive, throttling and I/O errors that fio does not see.
- The drive's own counters: fio counts what it submitted, ssdbench what the drive did.
- Resume: a file that was cut short has to be run again, after everything before it.
"""

SIMULATED = f"""\
The target is simulated. `ssdbench sim fio --state DRIVE.ssdb TARGET FILE` runs a file on it; put
the name of a real drive in place of `{NOWHERE}` to run them elsewhere.

"""


def exported(wishes: RunRequest) -> Mapping[str, str]:
    """Return each file by its name, in the order of the run, and README.md.

    Looks at the target and changes nothing. Raises what `plan` raises, and UsageError where no
    stage of the profile could be run with plain fio.
    """
    info = target_of(wishes)
    require_fit(wishes, info)
    info = info.formatted(wishes.profile.lba_format)
    wishes, _ = fitted(wishes, info)
    seed = wishes.profile.seed if wishes.seed is None else wishes.seed
    with wishes.blamed_on_profile():
        planned = stages(wishes.profile, info)
    files: dict[str, str] = {}
    left_out = []
    for stage in planned:
        found = dict(_of_stage(stage, info, seed))
        if not found:
            left_out.append(f"- {stage.name}: {stage.title}")
        files |= found
    if not files:
        raise UsageError(
            f"{wishes.profile_name} has no stage that plain fio could run",
            hint="export a profile with sweeps, spans, job files or mixes",
        )
    missing = "## Not in these files\n\n" + "\n".join(left_out) + "\n\n" if left_out else ""
    inside = SIMULATED if info.kind is TargetKind.SIMULATED else ""
    files["README.md"] = README.format(
        profile=wishes.profile_name,
        target=info.name,
        seed=seed,
        inside=inside,
        left_out=missing,
        fills=wishes.profile.steady.max_fills,
    )
    return files


def _of_stage(stage: AnyStage, info: TargetInfo, seed: int) -> Iterator[tuple[str, str]]:
    match stage:
        case Precondition():
            for number, jobs in enumerate(starts(stage.jobs(info, seed=seed), info), 1):
                yield f"{stage.name}-{number}.fio", jobfile(jobs, options=_way(info))
        case Steady():
            most = round(stage.max_fills * stage.workload.range.length_bytes)
            job = Job(UNIT, stage.workload, derived_seed(seed, stage.name, UNIT), total_bytes=most)
            yield f"{stage.name}.fio", jobfile([job], options=_way(info))
        case PointStage():
            yield from _of_points(stage, info, seed)


def _of_points(stage: PointStage, info: TargetInfo, seed: int) -> Iterator[tuple[str, str]]:
    """Return a file for each repeat of each point, numbered in the order that chance gave them."""
    wanted = [one for group in stage.groups for order in stage.passes(group, seed) for one in order]
    for number, one in enumerate(wanted, 1):
        job = Job("measure", one.point.workload, one.seed)
        yield (
            f"{stage.name}-{number:04d}-{one.point.id}-repeat-{one.repeat:02d}.fio",
            _timed(job, stage, info),
        )
    if stage.returns_to is not None:
        again = f"{stage.name}-again"
        job = Job("measure", stage.returns_to, derived_seed(seed, stage.name, again))
        yield f"{stage.name}-{len(wanted) + 1:04d}-as-the-warm-up.fio", _timed(job, stage, info)


def _timed(job: Job, stage: PointStage, info: TargetInfo) -> str:
    settle_s = _settle_s(stage, job.workload)
    timed = replace(job, runtime_s=stage.how.measure_s)
    way = _way(info, job.workload.engine)
    return jobfile([timed], options={**way, "ramp_time": f"{round(settle_s * 1000)}ms"})


def _settle_s(stage: PointStage, workload: Workload) -> float:
    return stage.how.write_window_s if workload.writes else stage.how.flat_s


def _way(info: TargetInfo, engine: IoEngine = IoEngine.LIBAIO) -> dict[str, str | int]:
    name = NOWHERE if info.kind is TargetKind.SIMULATED else filename(info.node)
    way: dict[str, str | int] = {"ioengine": ENGINE, "direct": 1, "thread": 1, "filename": name}
    if engine is IoEngine.IO_URING_CMD:  # a generic node has no page cache to bypass
        del way["direct"]
        way["filename"] = name.replace("/nvme", "/ng")
    if info.zone_bytes:
        way |= {"zonemode": "zbd", "size": info.end_bytes}
    return {**way, **ENGINE_OPTIONS[engine]}
