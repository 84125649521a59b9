"""Make job files for plain fio from a profile, with a README that names what plain fio lacks.

During a run, ssdbench decides how long each point settles and is measured. In the job files, each
point settles and is measured for the shortest time in the profile. The time to settle becomes fio's
ramp time.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ssdbench.engine.stage import AnyStage, derived_seed
from ssdbench.errors import UsageError
from ssdbench.generator.base import Job
from ssdbench.generator.fio.attachment import ENGINE
from ssdbench.generator.fio.jobfile import ENGINE_OPTIONS, filename, jobfile
from ssdbench.model.target import TargetInfo, TargetKind
from ssdbench.model.workload import IoEngine
from ssdbench.stages.interference import Interference
from ssdbench.stages.points import PointStage
from ssdbench.stages.precondition import Precondition, starts
from ssdbench.stages.steady import UNIT, Steady
from ssdbench.suite.assemble import stages
from ssdbench.suite.plan import fitted, require_fit, target_of
from ssdbench.suite.request import RunRequest

NOWHERE = "the-drive-under-test"  # a name that does not exist, so that nothing is overwritten

README = """\
# Job files of an ssdbench run

Made by `ssdbench run {profile} --export-jobs` for {target}, seed {seed}.
Every file that writes DESTROYS the data on `filename`. Check the name before each use, because
device names change.

Run them in the order of their names, in one go:

    for job in *.fio; do
        fio --output-format=json --output="${{job%.fio}}.json" "$job" || break
    done

{inside}{left_out}## What is lost without ssdbench

- The claim: nothing checks that this is the right drive, that it is unused, and that somebody
  agreed to lose its data.
- Steady state: the warm-up here writes up to {fills:g} times its range and stops. Nothing shows
  whether the drive is steady then. ssdbench continues until a rule is met, and says so if it is
  not.
- Settling: `ramp_time` is the shortest time of the profile. ssdbench also writes as much as the
  drive's spare area, and waits until the rate neither rises nor falls.
- Windows: here each has the length in the profile. ssdbench makes them longer if the rate has a
  rhythm or the drive has a buffer.
- The bound, the intervals and the verdict: each run of fio reports one mean. Do not average its
  percentiles.
- Rates: fio measures a request from when it is sent, and sends none while a slow one blocks it.
  ssdbench measures from when the request was due.
- Disturbance: other programs, a hot drive, throttling and I/O errors that fio does not see.
- The drive's own counters: fio counts the requests that it sends, ssdbench those that the drive
  completes.
- Resume: after an interruption, run the file again, and all files before it.
"""

SIMULATED = f"""\
The target is simulated. `ssdbench sim fio --state DRIVE.ssdb TARGET FILE` runs a file on it. To use
a real drive, replace `{NOWHERE}` by its name.

"""


def exported(wishes: RunRequest) -> Mapping[str, str]:
    """Return the text of each job file and of README.md by file name, in the order of the run.

    Nothing is written or measured. Raises the errors of `plan`, and UsageError if plain fio can run
    none of the profile's stages.
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
            # Plain fio does not read the data back, so they need no headers.
            fills = replace(stage, read_back=None).jobs(info, seed=seed)
            for number, jobs in enumerate(starts(fills, info), 1):
                yield f"{stage.name}-{number}.fio", jobfile(jobs, options=_way(info))
        case Steady():
            most = round(stage.max_fills * stage.workload.range.length_bytes)
            job = Job(UNIT, stage.workload, derived_seed(seed, stage.name, UNIT), total_bytes=most)
            yield f"{stage.name}.fio", jobfile([job], options=_way(info))
        case Interference(shares=True):
            return  # its rates follow from the warm-up
        case PointStage():
            yield from _of_points(stage, info, seed)


def _of_points(stage: PointStage, info: TargetInfo, seed: int) -> Iterator[tuple[str, str]]:
    """Yield one file for each repeat of each point, numbered in the random order of the run."""
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
    settle_s = stage.how.write_window_s if job.workload.writes else stage.how.flat_s
    timed = replace(job, runtime_s=stage.how.measure_s)
    way = _way(info, job.workload.engine)
    return jobfile([timed], options={**way, "ramp_time": f"{round(settle_s * 1000)}ms"})


def _way(info: TargetInfo, engine: IoEngine = IoEngine.LIBAIO) -> dict[str, str | int]:
    name = NOWHERE if info.kind is TargetKind.SIMULATED else filename(info.node)
    way: dict[str, str | int] = {"ioengine": ENGINE, "direct": 1, "thread": 1, "filename": name}
    if engine is IoEngine.IO_URING_CMD:  # a generic node has no page cache to bypass
        del way["direct"]
        way["filename"] = name.replace("/nvme", "/ng")
    if info.zone_bytes:
        way |= {"zonemode": "zbd", "size": info.end_bytes}
    return {**way, **ENGINE_OPTIONS[engine]}
