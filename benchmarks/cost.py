"""Measure what a profile costs: hours and drive fills of whole runs on the shipped models.

    python -m benchmarks.cost pm9a3 660p-1t --profile profiles/pessimistic.yaml --seeds 3

A drive of the full size would take hours of computing. So each model is made small and as much
slower: a fill takes as long as one of the full size. Times that do not depend on the size (heat,
stalls) stay. The core's own loop is in fio's place (`benchmarks.core_generator`).
"""

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.judge_published import by_core
from ssdbench.model.kind import StageKind
from ssdbench.model.result import RunResult
from ssdbench.sim.spec import parse

BUFFER_KIB = 1024
MODELS = ("pm9a3", "p4500-4t", "bm1743", "660p-1t", "c300-256", "p320h-700")
SLOWER = (
    "t_read", "t_prog", "t_erase", "t_suspend", "fw_read", "fw_write", "cmd_serial",
    "slc_t_prog", "slc_t_read", "t_trim", "idle_delay",
)  # fmt: skip


def slow_small(model: str, gib: int) -> str:
    """A target: the model with so many GiB, on which a fill takes as long as at the full size."""
    full = parse(f"sim:{model},scale=1").params
    small = parse(f"sim:{model},capacity={gib}GiB").params
    factor = full["capacity_bytes"] / small["capacity_bytes"]
    changes = [
        f"{name}={round(small[f'{name}_ns'] * factor)}ns" for name in SLOWER if small[f"{name}_ns"]
    ]
    changes += [
        f"{name}={max(1, round(small[name] / factor))}MB/s"
        for name in ("channel_mbps", "link_mbps", "link_write_mbps")
        if small[name]
    ]
    return f"sim:{model},capacity={gib}GiB,{','.join(changes)}"


def parts(result: RunResult, capacity_bytes: int) -> str:
    """Hours and fills of each stage, and how many points are VALIDATED."""
    lines = [
        f"{stage.name} {stage.duration_s / 3600:.1f} h {stage.bytes_written / capacity_bytes:.1f}"
        for stage in result.stages
    ]
    for stage in result.stages:
        if stage.points:
            one = [r for p in stage.points for r in p.repeats]
            long = [r for r in one if r.unbroken_s]
            found = stage.found
            print("   ", stage.name, "unbroken", len(long), round(sum(r.measure_to_s for r in long)/3600, 1),
                  "settle", round(sum(r.settle_s for r in one if not r.unbroken_s)/3600, 1),
                  "windows", round(sum(r.measure_to_s-r.measure_from_s for r in one if not r.unbroken_s)/3600, 1),
                  "conversions", [round(r.measure_to_s/3600,2) for r in found.conversions],
                  "again", round(found.again.measure_to_s/3600, 1) if found.again else None)
            for p in stage.points:
                print("      ", p.point.id, p.verdict, [round(r.settle_s) for r in p.repeats], [round(r.iops) for r in p.repeats])
                for f in p.findings:
                    if f.severity.name == "INVALIDATES":
                        print("           ", f.code, f.message)
    points = [point for stage in result.stages for point in stage.points]
    valid = sum(point.verdict == "VALIDATED" for point in points)
    hours = sum(stage.duration_s for stage in result.stages) / 3600
    fills = sum(stage.bytes_written for stage in result.stages) / capacity_bytes
    codes = sorted({
        str(f.code)
        for p in points if p.verdict != "VALIDATED"
        for f in p.findings if f.severity.name == "INVALIDATES"
    })  # fmt: skip
    return (
        f"{hours:.1f} h, {fills:.1f} fills, {valid} of {len(points)} VALIDATED {codes} "
        f"({'; '.join(lines)})"
    )


def main() -> int:
    """Run each model by each profile, and print what it cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--profile", type=Path, action="append", required=True)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--gib", type=int, default=8)
    options = parser.parse_args()
    for model in options.models:
        target = slow_small(model, options.gib)
        capacity = parse(target).params["capacity_bytes"]
        full = parse(f"sim:{model},scale=1").params
        buffer = (full["wbuf_bytes"] + full["cache_bytes"]) * capacity // full["capacity_bytes"]
        for profile in options.profile:
            for seed in range(1, options.seeds + 1):
                with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
                    result = by_core(target, profile.read_text(), Path(name) / "run", seed=seed, buffer_bytes=buffer)
                print(f"{model} {profile.stem} {seed}: {parts(result, capacity)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
