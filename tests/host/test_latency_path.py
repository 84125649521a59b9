"""Block tracepoints of a loop device: what they show, and that they are gone afterwards."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ssdbench.errors import HostLacks
from ssdbench.host import blktrace
from ssdbench.host.command import run
from ssdbench.host.sysfs import Sysfs
from ssdbench.host.tracefs import INSTANCE, ROOT, mounted
from ssdbench.model.target import TargetInfo
from ssdbench.stages.host.blocktrace import BlockTrace
from ssdbench.target.inspect import inspect, kernel_name
from tests.support.devices import attached_loop

pytestmark = [pytest.mark.host, pytest.mark.alone]  # the kernel has one tracer

HOLDER = """
import sys, time
from ssdbench.stages.host.blocktrace import BlockTrace
from ssdbench.target.inspect import inspect
with BlockTrace(inspect(sys.argv[1]), sys.argv[1].rpartition("/")[2], ()).running("held"):
    print("tracing", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TargetInfo]:
    monkeypatch.setenv("SSDBENCH_SETTINGS", str(tmp_path / "settings"))
    with attached_loop(tmp_path / "disk.img") as loop:
        yield inspect(str(loop.node))


def test_every_request_is_followed_through_its_layers(target: TargetInfo) -> None:
    trace = BlockTrace(target, kernel_name(target), ())

    with trace.running("test"):
        trace.start()
        run(["dd", f"if={target.node}", "of=/dev/null", "bs=4k", "count=100", "iflag=direct"])
        trace.stop()
        found = trace.figures

    assert found["requests"] == 100
    assert found["merges_per_request"] == 0
    assert 0 < found["queue_ns"] < found["device_ns"] < found["whole_ns"]
    assert not Path(INSTANCE).exists()


def test_where_debugfs_stays_closed_the_tracepoints_are_read_all_the_same(
    target: TargetInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blktrace, "closed", lambda name, sysfs: "debugfs is closed")
    trace = BlockTrace(target, kernel_name(target), (), btt=True)

    with trace.running("test"):
        trace.start()
        run(["dd", f"if={target.node}", "of=/dev/null", "bs=4k", "count=100", "iflag=direct"])
        trace.stop()

    assert trace.figures["requests"] == 100
    assert trace.lacking == ["debugfs is closed; the tracepoints were read without it"]


PROFILE = """
precondition: [{block: 128KiB, fill: 1}]
steady: {rule: seppanen, max_time: 2s}
measure: [{latency_path: {window: 1s}}]
"""


def test_a_run_that_meets_a_tracer_in_use_says_so(
    target: TargetInfo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSDBENCH_SETTINGS", str(tmp_path / "settings"))
    profile = tmp_path / "profile.yaml"
    profile.write_text(PROFILE)
    argv = [sys.executable, "-m", "ssdbench", "run", str(profile), "--target", target.node]
    switch = Path(f"/sys/block/{kernel_name(target)}/trace/enable")
    switch.write_text("1")
    try:
        done = subprocess.run(
            [*argv, "--destroy", target.id, "--output", str(tmp_path / "run")],
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        switch.write_text("0")

    said = done.stdout + done.stderr
    assert "the tracer is already in use" in said
    assert "Traceback" not in said


def test_a_tracer_in_use_is_said_and_left_alone(target: TargetInfo) -> None:
    with (
        BlockTrace(target, kernel_name(target), ()).running("first"),
        pytest.raises(HostLacks, match="already in use"),
        BlockTrace(target, kernel_name(target), ()).running("second"),
    ):
        pass
    assert not Path(INSTANCE).exists()


def test_after_a_kill_restore_removes_the_instance_and_the_mount(target: TargetInfo) -> None:
    before = mounted(Sysfs())
    argv = [sys.executable, "-c", HOLDER, target.node]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"tracing\n"
        assert Path(INSTANCE).exists()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    time.sleep(0.1)

    run([sys.executable, "-m", "ssdbench", "restore"])

    assert not Path(INSTANCE).exists(), ROOT
    assert mounted(Sysfs()) == before
