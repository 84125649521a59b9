"""Experiments over the host on a generic kernel: all file systems, and the bundled schedulers."""

import json
from pathlib import Path

import pytest

from tests.vm.conftest import REPOSITORY, Guest

# Endurance tests: one takes four minutes on a busy machine.
pytestmark = [pytest.mark.vm, pytest.mark.soak]

SEVEN = ["ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "nilfs2"]
HEAD = """\
content: zeros
precondition: [{block: 128KiB, fill: 1}]
steady: {rule: seppanen, max_time: 2s}
measure:
"""
ALL_FILE_SYSTEMS = "  - filesystems: {threads: 2, window: 1s, aging: 0, file: 10%}\n"
SCHEDULERS = "  - schedulers: {schedulers: [bpref-as, bpref-cfq], repeats: 1, window: 1s}\n"
SCRIPT = """
export SSDBENCH_SETTINGS=/run/settings
printf '%s' "$PROFILE" > /run/p.yaml
run="{python} -m ssdbench run /run/p.yaml --target /dev/nvme0n1 --output /run/out"
$run > /run/said 2>&1 || [ $? = 1 ] || {{ cat /run/said >&2; exit 1; }}
cat /sys/block/nvme0n1/queue/scheduler /run/out/result.json
"""


def ran(guest: Guest, image: Path, profile: str, *, modules: bool) -> tuple[str, list[dict]]:  # type: ignore[type-arg]
    """The scheduler after the run, and all medians of its stages."""
    with image.open("wb") as file:
        file.truncate(400 << 20)
    script = SCRIPT.format(python=f"{REPOSITORY}/.venv/bin/python")
    answer = guest(
        f"export PROFILE='{profile}'\n{script}", disks=(f"nvme={image}",), modules=modules
    )
    assert answer.status == 0, answer.stderr[-2000:]
    scheduler, _, result = answer.stdout.partition("\n")
    return scheduler, json.loads(result)["stages"]


def test_all_seven_file_systems_are_compared_on_a_generic_kernel(
    guest: Guest, tmp_path: Path
) -> None:
    _, stages = ran(guest, tmp_path / "disk", HEAD + ALL_FILE_SYSTEMS, modules=False)

    tried = [stage for stage in stages if stage["found"]["kind"] == "filesystem"]
    assert [stage["found"]["file_system"] for stage in tried] == SEVEN
    for stage in tried:
        assert stage["complete"], stage["findings"]
        rates = {r["direction"]: r["iops"] for r in stage["found"]["medians"]}
        assert set(rates) == {"read", "write"}
        assert min(rates.values()) > 0, stage["name"]


def test_the_bundled_schedulers_are_compared_like_the_kernels_own(
    guest: Guest, tmp_path: Path
) -> None:
    scheduler, stages = ran(guest, tmp_path / "disk", HEAD + SCHEDULERS, modules=True)

    assert "[none]" in scheduler  # put back
    trial = stages[-1]
    assert trial["complete"], trial["findings"]
    found = {(r["variant"], r["workload"]) for r in trial["found"]["medians"]}
    assert {variant for variant, _ in found} == {"bpref-as", "bpref-cfq"}
    assert len(found) == 12
    assert all(r["iops"] > 0 for r in trial["found"]["medians"])
