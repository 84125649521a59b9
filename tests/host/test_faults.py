"""What breaks in mid-run ends the run with a sentence and the right exit code.

Whatever it was: no fio is left, the host is as before, no number comes of the broken section, and
what was measured until then is kept.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ssdbench.host.command import run
from ssdbench.target.inspect import inspect
from ssdbench.units import MIB
from tests.host.test_kill_restore import PROFILE
from tests.support import badfio
from tests.support.devices import LoopDevice, attached_loop
from tests.support.killing import KilledRuns, every_setting, once_in

pytestmark = pytest.mark.alone  # what all of the host shares is compared

IMPATIENT = (  # a hang is given up after 5 s instead of two minutes
    "from ssdbench.generator.fio.attachment import DeviceAttachment as A;"
    "A.__init__.__kwdefaults__['stall_s'] = 5.0;"
    "import sys; from ssdbench.cli.main import main; sys.exit(main())"
)
READS = PROFILE.replace("read: 50", "read: 100")


@contextmanager
def a_loop(directory: Path, text: str = PROFILE) -> Iterator[tuple[KilledRuns, LoopDevice]]:
    """Runs on a loop device with every setting changed."""
    with attached_loop(directory / "disk.img", size_bytes=32 * MIB) as device:
        yield runs_on(device, directory, text), device


def runs_on(device: LoopDevice, directory: Path, text: str = PROFILE) -> KilledRuns:
    info = inspect(str(device.node))
    name = device.node.name
    target = [
        "--target",
        info.name,
        "--destroy",
        info.id,
        "--overwrite-signatures",
        "--overwrite-data",
    ]
    runs = KilledRuns(directory, text % every_setting(name), target, kernel_name=name)
    runs.ssdbench = [sys.executable, "-c", IMPATIENT]
    return runs


def broken(
    runs: KilledRuns, breaks: Callable[[], object] | None = None, *, in_stage: str = "02-steady"
) -> tuple[int, str]:
    """Run until it ends by itself, breaking something in one of its stages; what it said."""
    before = runs.snapshot()
    process = runs.start()
    if breaks is not None:
        once_in(in_stage, then_s=0.3)(runs.output, process)
        breaks()
    status = process.wait(120)
    assert status is not None
    assert runs.orphans() == []
    assert runs.snapshot() == before
    assert list(runs.settings.glob("*.jsonl")) == []
    said = runs.stderr.read_text()
    assert "Traceback" not in said
    return status, said


def measured(runs: KilledRuns) -> list[object]:
    """Every point that the stored result gives a number for."""
    stages = json.loads((runs.output / "result.json").read_text())["stages"]
    return [point for stage in stages for point in stage["found"].get("points", ())]


@pytest.mark.parametrize(
    ("mischief", "code", "sentence"),
    [
        (badfio.CRASHES, 4, "was killed by signal 11"),
        (badfio.HANGS, 5, "s, so fio was killed"),
        (badfio.CUTS_ITS_REPORT, 4, "fio's report cannot be read"),
    ],
    ids=["crashes", "hangs", "cuts-its-report"],
)
def test_a_fio_that_misbehaves_gives_no_number(
    mischief: str, code: int, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Fill, read a sample, read all of it: the fourth run of fio is the warm-up.
    directory = badfio.bad_fio(tmp_path / "bin", mischief, start=4)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
    with a_loop(tmp_path) as (runs, _):
        status, said = broken(runs)

    assert (status, sentence in said) == (code, True), said
    assert measured(runs) == []
    assert (runs.output / "report.html").exists()


def test_a_drive_that_fails_in_mid_run_is_a_device_error(tmp_path: Path) -> None:
    with a_loop(tmp_path, READS) as (runs, device):
        half = device.size_bytes // 2
        status, said = broken(runs, lambda: os.truncate(device.backing, half), in_stage="03-sweep")

    assert status == 5, said
    assert "a read at byte" in said
    assert "EIO" in said
    assert measured(runs) == []


def test_a_target_file_that_is_deleted_in_mid_run_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "target.bin"
    with path.open("wb") as file:
        file.truncate(32 * MIB)
    runs = KilledRuns(tmp_path, PROFILE % "{}", ["--target", str(path)])

    status, said = broken(runs, path.unlink)

    assert status == 5, said
    assert f"{path} is gone" in said
    assert measured(runs) == []


def test_a_run_directory_that_fills_up_ends_the_run_and_restores_the_host(tmp_path: Path) -> None:
    place = tmp_path / "small"
    place.mkdir()
    run(["mount", "-t", "tmpfs", "-o", "size=500k", "tmpfs", str(place)])
    try:
        with attached_loop(tmp_path / "disk.img", size_bytes=32 * MIB) as device:
            runs = runs_on(device, place)
            runs.settings = tmp_path / "settings"
            fill = place / "fill"
            status, said = broken(runs, lambda: fill.write_bytes(bytes(_free(place))))
            assert status == 4, said
            assert "No space left on device" in said
            fill.unlink()
            run(["mount", "-o", "remount,size=200m", str(place)])
            runs.finish()
        assert runs.tally.troubles == []
        assert runs.tally.ended == 1
    finally:
        run(["umount", str(place)])


def _free(place: Path) -> int:
    status = os.statvfs(place)
    return status.f_bavail * status.f_frsize


def family(pid: int) -> list[int]:
    """A process and all that it started, the first one first."""
    found = [pid]
    for one in found:
        for task in Path(f"/proc/{one}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


def codes_of(point: object) -> dict[str, str]:
    """The code and message of each finding of a stored point that keeps it from being valid."""
    assert isinstance(point, dict)
    return {f["code"]: f["message"] for f in point["findings"] if f["severity"] == "invalidates"}


def test_a_run_that_is_stopped_while_it_measures_goes_on_and_its_point_is_disturbed(
    tmp_path: Path,
) -> None:
    longer = PROFILE.replace("\nwindow: 1s", "\nwindow: 6s")

    with a_loop(tmp_path, longer) as (runs, _):
        before = runs.snapshot()
        process = runs.start()
        once_in("03-sweep", then_s=4.0)(runs.output, process)
        stopped = family(process.pid)
        assert len(stopped) > 1  # fio as well
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(5.0)
        for pid in reversed(stopped):
            os.kill(pid, signal.SIGCONT)
        status = process.wait(120)

        assert status == 1, runs.stderr.read_text()
        assert runs.snapshot() == before
    (point,) = measured(runs)
    assert "ssdbench was stopped or got no CPU for" in codes_of(point)["disturbed"]


def test_a_host_that_slept_between_two_parts_of_a_run_is_told(tmp_path: Path) -> None:
    """In a time namespace one of two clocks is moved on, as if the host had slept."""
    with a_loop(tmp_path) as (runs, _):
        process = runs.start()
        once_in("02-steady")(runs.output, process)
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(120) == 143
        runs.ssdbench = ["unshare", "--time", "--boottime", "3600", *runs.ssdbench]
        assert runs.start().wait(120) == 1, runs.stderr.read_text()

    found = json.loads((runs.output / "result.json").read_text())["findings"]
    (changed,) = [f for f in found if f["code"] == "host-changed"]
    assert changed["severity"] == "invalidates"
    assert "time suspended: " in changed["message"]


@contextmanager
def memory_group(name: str) -> Iterator[Path]:
    """A control group of its own with a limit of memory, of version 1 or 2."""
    root = next(p for p in (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")) if p.is_dir())
    group = root / name
    group.mkdir()
    try:
        yield group
    finally:
        deadline = time.monotonic() + 60
        while (group / "cgroup.procs").read_text() and time.monotonic() < deadline:
            time.sleep(0.1)
        group.rmdir()


@pytest.mark.parametrize("victim", ["fio", "ssdbench"])
def test_a_program_that_the_kernel_ends_for_want_of_memory_gives_no_number(
    victim: str, tmp_path: Path
) -> None:
    endless = PROFILE.replace("\nwindow: 1s", "\nwindow: 600s")
    group_name = f"ssdbench-test-{os.getpid()}"
    with memory_group(group_name) as group, a_loop(tmp_path, endless) as (runs, _):
        before = runs.snapshot()
        inside = ["sh", "-c", 'echo $$ > "$0"; exec "$@"', str(group / "cgroup.procs")]
        runs.ssdbench = [*inside, *runs.ssdbench]
        process = runs.start()
        once_in("03-sweep", then_s=1.5)(runs.output, process)
        ours, *started = family(process.pid)
        fios = [pid for pid in started if comm(pid) == "fio"]
        assert fios
        for pid in fios if victim == "fio" else [ours]:
            Path(f"/proc/{pid}/oom_score_adj").write_text("1000")
        use_up(group)
        status = process.wait(120)
        said = runs.stderr.read_text()

        assert status is not None, "the kernel ended nothing"
        assert runs.orphans() == []
        if victim == "fio":
            assert (status, "was killed by signal 9" in said) == (4, True), said
        else:
            assert status == -signal.SIGKILL
            assert runs.snapshot() != before
            run([sys.executable, "-m", "ssdbench", "restore"], env=settings_of(runs))
        assert runs.snapshot() == before
        assert list(runs.settings.glob("*.jsonl")) == []
        run([sys.executable, "-m", "ssdbench", "report", str(runs.output)])
        assert victim == "ssdbench" or measured(runs) == []
    assert (runs.output / "result.json").exists() == (victim == "fio")


def settings_of(runs: KilledRuns) -> dict[str, str]:
    return {"SSDBENCH_SETTINGS": str(runs.settings)}


def comm(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def use_up(group: Path) -> None:
    """Let the kernel run out of memory in a group: little more is allowed, and then asked for."""
    limit, used = group / "memory.limit_in_bytes", group / "memory.usage_in_bytes"
    if not limit.exists():
        limit, used = group / "memory.max", group / "memory.current"
    limit.write_text(str(int(used.read_text()) + 16 * MIB))
    hog = (
        'echo 900 > /proc/$$/oom_score_adj; echo $$ > "$0"; '
        "head -c 64M /dev/zero | tail -c 64M > /dev/null"
    )
    run(["sh", "-c", hog, str(group / "cgroup.procs")], ok=(0, 137), timeout_s=120)
    limit.write_text("-1" if limit.name == "memory.limit_in_bytes" else "max")


def test_a_second_ctrl_c_ends_at_once_and_restores_the_host(tmp_path: Path) -> None:
    with a_loop(tmp_path) as (runs, _):
        before = runs.snapshot()
        process = runs.start()
        once_in("02-steady", then_s=0.1)(runs.output, process)
        os.kill(process.pid, signal.SIGINT)
        os.kill(process.pid, signal.SIGINT)

        assert process.wait(120) == 130
        assert runs.orphans() == []
        assert runs.snapshot() == before
        assert "Traceback" not in runs.stderr.read_text()
