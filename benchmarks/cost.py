"""Measure what a profile costs: hours and drive fills of whole runs on the shipped models.

    python -m benchmarks.cost pm9a3 p4500-4t --profile profiles/pessimistic.yaml --seeds 3
    python -m benchmarks.cost pm9a3 --profile profiles/pessimistic.yaml --points

A large, fast drive of full size would take days of computing. So each model is made small and as
much slower: a fill takes as long as at full size. Times that do not depend on the size (heat,
stalls) stay. `--full` leaves the models as they are. The core's own loop is in fio's place
(`benchmarks.core_generator`), so probes are left out.
"""

import argparse
import io
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ruamel.yaml import YAML

from benchmarks.core_generator import for_rates
from benchmarks.judge_published import by_core
from ssdbench.model.finding import Severity
from ssdbench.model.found import Points
from ssdbench.model.point import Repeat
from ssdbench.model.result import RunResult, StageResult
from ssdbench.sim.spec import parse
from ssdbench.stats.estimate import coefficient_of_variation

MODELS = ("pm9a3", "p4500-4t", "660p-1t", "c300-256", "x25m-g2-160", "bm1743")
TIMES = (
    "t_read", "t_prog", "t_erase", "t_suspend", "fw_read", "fw_write", "cmd_serial",
    "slc_t_prog", "slc_t_read", "t_trim", "idle_delay",
)  # fmt: skip
RATES = ("channel_mbps", "link_mbps", "link_write_mbps")
HOUR_S = 3600


def slow_and_small(model: str, gib: int) -> str:
    """Return a target: the model with so many GiB, filled in the same time as at full size."""
    full, small = (
        parse(f"sim:{model},scale=1").params,
        parse(f"sim:{model},capacity={gib}GiB").params,
    )
    factor = full["capacity_bytes"] / small["capacity_bytes"]
    slower = [f"{t}={round(small[f'{t}_ns'] * factor)}ns" for t in TIMES if small[f"{t}_ns"]]
    slower += [f"{r}={max(1, round(small[r] / factor))}MB/s" for r in RATES if small[r]]
    return f"sim:{model},capacity={gib}GiB,{','.join(slower)}"


def buffer_share_bytes(model: str, capacity_bytes: int) -> int:
    """Return the write buffer that a drive of this size would have if it shrank with the drive.

    A small drive keeps a larger one, two programs per die; to fill it would take minutes.
    """
    full = parse(f"sim:{model},scale=1").params
    return (full["wbuf_bytes"] + full["cache_bytes"]) * capacity_bytes // full["capacity_bytes"]


def without_probes(profile_text: str) -> str:
    """Return the profile without its probes."""
    profile = YAML(typ="safe").load(profile_text)
    profile["measure"] = [one for one in profile["measure"] if "probe" not in one]
    written = io.StringIO()
    YAML(typ="safe").dump(profile, written)
    return written.getvalue()


def lines(result: RunResult, capacity_bytes: int, *, by_point: bool = False) -> Iterator[str]:
    """Say how many hours and fills each stage took, and why points are not VALIDATED.

    With `by_point`, also say what each point took.
    """
    for stage in result.stages:
        hours, fills = stage.duration_s / HOUR_S, stage.bytes_written / capacity_bytes
        yield f"  {stage.name}: {hours:.1f} h, {fills:.1f} fills{_split(stage)}"
        if by_point:
            yield from _each(stage, capacity_bytes)
    points = [point for stage in result.stages for point in stage.points]
    for point in points:
        for finding in point.findings:
            if finding.severity is Severity.INVALIDATES:
                yield f"    {point.point.id}: {finding.code}: {finding.message}"
    hours = sum(stage.duration_s for stage in result.stages) / HOUR_S
    fills = sum(stage.bytes_written for stage in result.stages) / capacity_bytes
    valid = sum(point.verdict == "VALIDATED" for point in points)
    yield f"  all: {hours:.1f} h, {fills:.1f} fills, {valid} of {len(points)} VALIDATED"


def _split(stage: StageResult) -> str:
    """Say what the hours of a stage of points went into."""
    found = stage.found
    if not isinstance(found, Points):
        return ""
    repeats = [repeat for point in stage.points for repeat in point.repeats]
    unbroken = [repeat for repeat in repeats if repeat.unbroken_s]
    others = [repeat for repeat in repeats if not repeat.unbroken_s]
    parts = {
        "long repeats": sum(r.measure_to_s for r in unbroken),
        "settling": sum(r.settle_s for r in others),
        "counted": sum(r.measure_to_s - r.measure_from_s for r in others),
        "conversions": sum(r.measure_to_s for r in found.conversions),
        "return": found.again.measure_to_s if found.again else 0.0,
    }
    return " (" + ", ".join(f"{name} {s / HOUR_S:.1f} h" for name, s in parts.items()) + ")"


def _each(stage: StageResult, capacity_bytes: int) -> Iterator[str]:
    """Say what the repeats of each point took, and the writes between and after the points."""
    found = stage.found
    if not isinstance(found, Points):
        return
    again = [found.again] if found.again else []
    of_points = [repeat for point in found.points for repeat in point.repeats]
    done = sorted([*of_points, *found.conversions, *again], key=lambda one: one.sequence)
    if not done:
        return
    ends = [*(one.at_fills for one in done[1:]), 0.0]
    ends[-1] = done[0].at_fills + stage.bytes_written / capacity_bytes
    fills: dict[str, float] = {}
    groups: dict[str, list[Repeat]] = {}
    for one, end in zip(done, ends, strict=True):
        groups.setdefault(one.point, []).append(one)
        fills[one.point] = fills.get(one.point, 0.0) + end - one.at_fills
    for name, own in groups.items():
        settled_s = sum(one.settle_s for one in own)
        counted_s = sum(one.measure_to_s - one.measure_from_s for one in own)
        varies = 100 * coefficient_of_variation([one.iops for one in own])
        yield (
            f"    {name}: {len(own)} x, settling {settled_s / HOUR_S:.2f} h, counted "
            f"{counted_s / HOUR_S:.2f} h, {fills[name]:.2f} fills, varies by {varies:.2f} %"
        )


def main() -> int:
    """Run each model by each profile, and print what it cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--profile", type=Path, action="append", required=True)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--gib", type=int, default=16, help="of each copy; more is truer")
    parser.add_argument("--full", action="store_true", help="the models themselves, not copies")
    parser.add_argument("--points", action="store_true", help="say what each point took, too")
    options = parser.parse_args()
    for model in options.models:
        full = f"sim:{model},scale=1"
        target = full if options.full else slow_and_small(model, options.gib)
        capacity = parse(target).params["capacity_bytes"]
        buffer = buffer_share_bytes(model, capacity)
        for profile in options.profile:
            text = without_probes(profile.read_text())
            for seed in range(1, options.seeds + 1):
                with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
                    result = by_core(
                        target,
                        text,
                        Path(name) / "run",
                        seed=seed,
                        buffer_bytes=buffer,
                        applies=for_rates,
                    )
                told = lines(result, capacity, by_point=options.points)
                print(f"{model}, {profile.stem}, seed {seed}:", *told, sep="\n")
                sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
