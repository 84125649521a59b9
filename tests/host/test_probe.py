"""`ssdbench probe` on simulated drives whose structure is known."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ssdbench.model.inside import ProbeFound
from ssdbench.model.result import RunResult
from tests.support.documents import checked

pytestmark = pytest.mark.host


def probed(directory: Path, target: str, *only: str) -> dict[str, dict[str, Any]]:
    argv = [sys.executable, "-m", "ssdbench", "probe", target, "--json"]
    argv += ["--output", str(directory / "run")]
    for name in only:
        argv += ["--only", name]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return {probe["probe"]: probe for probe in checked(done.stdout, "probe")["probes"]}


def test_the_x25m_gives_away_its_structure(tmp_path: Path) -> None:
    said = probed(
        tmp_path, "sim:x25m-g2-160,capacity=1GiB",
        "read-chunk", "stripe", "parallelism", "write-buffer", "remap-unit", "spare",
    )  # fmt: skip

    assert said["read-chunk"]["answer"] == "read chunk of 16 KiB or less"
    assert said["stripe"]["stripe_bytes"] == 10 * 16 * 1024
    assert said["parallelism"]["reads_at_once"] == pytest.approx(10, rel=0.15)
    assert said["write-buffer"]["buffer_bytes"] == pytest.approx(320 * 1024, rel=0.25)
    assert said["remap-unit"]["remap_unit_bytes"] == 16 * 1024
    spare = said["spare"]
    assert spare["over_provisioning_least"] <= 0.043 <= spare["over_provisioning_most"]


def test_the_slc_cache_of_a_qlc_drive_is_found(tmp_path: Path) -> None:
    said = probed(tmp_path, "sim:660p-1t,capacity=8GiB,link=400", "slc-cache")

    # 0.1 GB static, and half of what is free at a quarter of its capacity.
    assert said["slc-cache"]["cache_bytes"] == pytest.approx(1.26e9, rel=0.25)


# 0.1 GB static, and half of what is free at a quarter of its capacity, with three quarters written.
BACK_BYTES = (12 / 1024 + 0.5 * (1 + 0.075 - 0.75) / 4) * (8 << 30)


@pytest.mark.parametrize(("fold", "back_bytes"), [("yes", BACK_BYTES), ("no", 0)])
def test_idle_time_gives_a_full_slc_cache_back_only_if_the_drive_empties_it(
    tmp_path: Path, fold: str, back_bytes: float
) -> None:
    profile = tmp_path / "p.yaml"
    profile.write_text(
        "measure: [{probe: {of: [slc-cache], rests: [1s, 30s]}}]\nprecondition: []\n"
    )
    drive = f"sim:660p-1t,capacity=8GiB,link=400,slc_idle_fold={fold}"

    argv = [sys.executable, "-m", "ssdbench", "run", str(profile), "--target", drive]
    argv += ["--output", str(tmp_path / "run")]
    subprocess.run(argv, capture_output=True, timeout=300, check=False)
    ((_, found),) = RunResult.model_validate_json(
        (tmp_path / "run/result.json").read_bytes()
    ).having(ProbeFound)

    # 131 MB a second leave the cache; in the first second less than what is above its new limit.
    rows = [row for row in found.measured if "rest_s" in row]
    first, last = (int(row["recovered_bytes"] or 0) for row in rows)
    assert first <= 10e6
    assert last == found.numbers.recovered_bytes == pytest.approx(back_bytes, rel=0.1, abs=10e6)
    assert "of a full cache is free again after idle time" in found.answer


def test_a_planted_cost_of_waking_is_found_and_none_is_seen_on_a_drive_that_never_sleeps(
    tmp_path: Path,
) -> None:
    profile = tmp_path / "p.yaml"
    profile.write_text(
        "measure: [{probe: {of: wake, rests: [100ms, 1s, 10s]}}]\nprecondition: []\n"
    )
    found = {}
    for name, t_wake in (("sleeps", "5ms"), ("never", "0")):
        drive = f"sim:p4500-4t,capacity=4GiB,idle_delay=2s,t_wake={t_wake}"
        argv = [sys.executable, "-m", "ssdbench", "run", str(profile), "--target", drive]
        argv += ["--output", str(tmp_path / name)]
        subprocess.run(argv, capture_output=True, timeout=300, check=False)
        text = (tmp_path / name / "result.json").read_bytes()
        ((_, found[name]),) = RunResult.model_validate_json(text).having(ProbeFound)

    numbers = found["sleeps"].numbers
    assert numbers.wake_us == pytest.approx(5000, rel=0.001)
    assert numbers.wake_after_s == 10
    assert [row["wake_us"] is None for row in found["sleeps"].measured] == [True, True, False]
    assert "none seen after 0.1 s and 1 s" in found["sleeps"].answer
    assert found["never"].answer.startswith("none seen: ")
    assert found["never"].numbers.wake_us is None
    assert ",probe_wake_us,5" in (tmp_path / "sleeps/results.csv").read_text()
    assert ",probe_wake_us,," in (tmp_path / "never/results.csv").read_text()  # no 0


def test_a_small_slc_cache_is_found_and_room_that_is_cache_is_no_spare_area(tmp_path: Path) -> None:
    said = probed(tmp_path, "sim:660p-1t,capacity=4GiB,link=400", "slc-cache", "spare")

    assert said["slc-cache"]["cache_bytes"] == pytest.approx(0.59e9, rel=0.25)
    assert said["spare"]["answer"] == "cannot tell: even sequential writes slow down"


def test_a_cache_that_takes_random_writes_hides_the_spare_area(tmp_path: Path) -> None:
    drive = "sim:660p-1t,capacity=2GiB,link=400,slc=350MiB,slc_dynamic=0%"

    said = probed(tmp_path, drive, "spare")

    assert said["spare"]["answer"].startswith("cannot tell: ")


def test_what_a_drive_does_not_show_cannot_be_told(tmp_path: Path) -> None:
    said = probed(tmp_path, "sim:dram-ssd-2012,capacity=1GiB", "stripe", "write-buffer", "spare")

    assert all(answer["answer"].startswith("cannot tell") for answer in said.values())


@pytest.mark.parametrize(("volatile", "waits"), [("yes", "buffer"), ("no", "nothing")])
def test_a_flush_waits_for_a_volatile_buffer_and_not_for_a_protected_one(
    tmp_path: Path, volatile: str, waits: str
) -> None:
    drive = f"sim:x25m-g2-160,capacity=512MiB,wbuf_volatile={volatile}"

    said = probed(tmp_path, drive, "flush")

    assert said["flush"]["flush_waits_for"] == waits


def test_a_trim_gives_room_to_a_drive_that_collects(tmp_path: Path) -> None:
    said = probed(tmp_path, "sim:x25m-g2-160,capacity=512MiB", "trim")

    assert said["trim"]["trim_effect"] == "faster"
    assert said["trim"]["rate_after_over_before"] > 2


def test_without_collection_the_effect_of_a_trim_cannot_be_told(tmp_path: Path) -> None:
    said = probed(tmp_path, "sim:dram-ssd-2012,capacity=512MiB", "trim")

    assert said["trim"]["answer"].startswith("cannot tell")
