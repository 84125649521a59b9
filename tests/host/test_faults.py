"""What breaks in mid-run ends the run with a sentence and the right exit code.

Whatever it was: no fio is left, the host is as before, no number comes of the broken section, and
what was measured until then is kept.
"""

import json
import os
import signal
import sys
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
        (badfio.CRASHES, 4, "was ended by signal 11"),
        (badfio.HANGS, 5, "s, so fio was killed"),
        (badfio.CUTS_ITS_REPORT, 4, "fio's report cannot be read"),
    ],
    ids=["crashes", "hangs", "cuts-its-report"],
)
def test_a_fio_that_misbehaves_gives_no_number(
    mischief: str, code: int, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = badfio.bad_fio(tmp_path / "bin", mischief, start=2)
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
