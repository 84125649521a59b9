"""Experiments over the host on a loop device with real fio; settings are put back."""

import itertools
import os
import re
import shutil
import sys
import time
from pathlib import Path

import pytest

from ssdbench.engine.claimedsession import ClaimedSession
from ssdbench.generator.fio.driver import Sections
from ssdbench.host.command import Process, run
from ssdbench.model.found import Comparison
from ssdbench.model.kind import StageKind
from ssdbench.model.result import RunResult
from ssdbench.target.claim import Claim
from ssdbench.target.inspect import inspect
from ssdbench.units import MIB
from tests.support.devices import attached_loop

pytestmark = pytest.mark.host

WARM = """
precondition: [{pattern: sequential, block: 128KiB, fill: 1}]
steady: {rule: seppanen, max_time: 1s}
measure:
"""
SCHEDULERS = "  - schedulers: {schedulers: [none, mq-deadline], repeats: 1, window: 1s}\n"
ENGINES = "  - engines: {repeats: 1, window: 1s}\n"
ONE_SCHEDULER = "  - schedulers: {schedulers: none, repeats: 1, window: 1s}\n"


def compared(tmp_path: Path, measure: str) -> Comparison:
    """What a run on a loop device finds, after which the device's queue is as before."""
    profile = tmp_path / "profile.yaml"
    profile.write_text(WARM + measure)
    with attached_loop(tmp_path / "disk.img", size_bytes=64 * MIB) as loop:
        scheduler = Path(f"/sys/block/{loop.node.name}/queue/scheduler")
        before = scheduler.read_text()
        argv = [sys.executable, "-m", "ssdbench", "run", str(profile)]
        argv += ["--target", str(loop.node), "--destroy", inspect(str(loop.node)).id]

        run([*argv, "--output", str(tmp_path / "run")], ok=(0, 1), timeout_s=300)

        assert scheduler.read_text() == before
    result = RunResult.model_validate_json((tmp_path / "run/result.json").read_bytes())
    ((_, found),) = result.having(Comparison)
    return found


def test_schedulers_are_compared_and_the_queue_is_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSDBENCH_SETTINGS", str(tmp_path / "settings"))

    schedulers = compared(tmp_path, SCHEDULERS)

    assert schedulers.kind is StageKind.SCHEDULERS
    assert {median.variant for median in schedulers.medians} == {"none", "mq-deadline"}


@pytest.mark.alone  # latencies are compared
def test_engines_are_compared_and_the_page_cache_answers_sooner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSDBENCH_SETTINGS", str(tmp_path / "settings"))

    engines = compared(tmp_path, ENGINES)

    assert engines.kind is StageKind.ENGINES
    latency = {median.variant: median.lat_p50_ns or 0 for median in engines.medians}
    assert latency["page cache hits"] < latency["libaio"] / 5


def test_fio_holds_the_claim_while_a_variant_is_measured(tmp_path: Path) -> None:
    with attached_loop(tmp_path / "disk.img", size_bytes=64 * MIB) as loop:
        info = inspect(str(loop.node))
        held: list[str] = []
        work = Sections(({"rw": "randread", "bs": 4096, "time_based": 1, "runtime": 1},), 60.0)

        with Claim(info) as claim:

            def look(process: Process) -> None:
                held.append(str(Path(f"/proc/{process.pid}/fd/{claim.fd}").readlink()))

            done = ClaimedSession(info, claim).run_sections(
                work, artifacts=tmp_path / "fio", cpus=(), below=None, meanwhile=look
            )

    assert done.read.ios > 0
    assert held == [str(loop.node)]


def test_a_drive_that_does_no_request_is_an_error_and_no_rate_of_zero(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSDBENCH_SETTINGS", str(tmp_path / "settings"))
    profile = tmp_path / "profile.yaml"
    profile.write_text(WARM + ONE_SCHEDULER)
    path = f"{silent_fio(tmp_path / 'bin')}:{os.environ['PATH']}"
    with attached_loop(tmp_path / "disk.img", size_bytes=64 * MIB) as loop:
        argv = [sys.executable, "-m", "ssdbench", "run", str(profile)]
        argv += ["--target", str(loop.node), "--destroy", inspect(str(loop.node)).id]

        said = run(
            [*argv, "--output", str(tmp_path / "run")], ok=(5,), timeout_s=300, env={"PATH": path}
        ).stderr

    assert "fio did no I/O in" in said
    result = RunResult.model_validate_json((tmp_path / "run/result.json").read_bytes())
    ((stage, found),) = result.having(Comparison)
    assert not stage.complete
    assert found.medians == ()


def silent_fio(directory: Path) -> Path:
    """A fio that does nothing in the start of a trial, and says so with status 0."""
    directory.mkdir()
    program = directory / "fio"
    program.write_text(
        f"""#!{sys.executable}
import json, os, subprocess, sys
from pathlib import Path
job = Path("job.fio")
if job.exists() and "[part0]" in job.read_text():
    zero = {{"io_bytes": 0, "total_ios": 0, "runtime": 0, "short_ios": 0, "drop_ios": 0}}
    job = {{"jobname": "part0", "groupid": 0, "error": 0, "read": zero, "write": zero,
           "usr_cpu": 0.0, "sys_cpu": 0.0, "job_runtime": 1000}}
    Path("fio.json").write_text(json.dumps({{"fio version": "fio-3.33", "jobs": [job]}}))
    sys.exit(0)
os.execv({shutil.which("fio")!r}, ["fio", *sys.argv[1:]])
"""
    )
    program.chmod(0o755)
    return directory


def test_a_hint_of_random_reads_ends_readahead_and_changes_nothing_for_random_reads(
    tmp_path: Path,
) -> None:
    """1,000 buffered reads of 4 KiB from ext4, by the requests that reach the device."""
    (tmp_path / "m").mkdir()
    with attached_loop(tmp_path / "disk.img", size_bytes=128 * MIB) as loop:
        run(["mkfs.ext4", "-q", "-F", str(loop.node)], timeout_s=60)
        run(["mount", str(loop.node), str(tmp_path / "m")], timeout_s=60)
        try:
            (tmp_path / "m" / "f").write_bytes(os.urandom(64 * MIB))
            run(["sync", "-f", str(tmp_path / "m")], timeout_s=120)
            stat = Path(f"/sys/block/{loop.node.name}/stat")
            requests = {}
            for order in ("randread", "read"):
                for hint in ("0", "random", "sequential"):
                    before = int(stat.read_text().split()[0])
                    job = f"--name=t --filename={tmp_path}/m/f --rw={order} --fadvise_hint={hint}"
                    rest = "--bs=4k --size=64m --number_ios=1000 --norandommap --invalidate=1"
                    run(["fio", *job.split(), *rest.split()], timeout_s=120)
                    requests[order, hint] = int(stat.read_text().split()[0]) - before
        finally:
            run(["umount", str(tmp_path / "m")], timeout_s=60)

    at_random = [requests["randread", hint] for hint in ("0", "random", "sequential")]
    assert at_random == [pytest.approx(970, abs=100)] * 3  # some pages twice; and the inode
    assert requests["read", "random"] >= 1000
    assert requests["read", "0"] < 40
    assert requests["read", "sequential"] < 40


def test_uncached_requests_leave_no_pages_and_read_the_drive_again(tmp_path: Path) -> None:
    """RWF_DONTCACHE (Linux 6.14) on ext4: 32 MiB written, then read twice, 1 MiB at a time."""
    (tmp_path / "m").mkdir()
    with attached_loop(tmp_path / "disk.img", size_bytes=128 * MIB) as loop:
        run(["mkfs.ext4", "-q", "-F", str(loop.node)], timeout_s=60)
        run(["mount", str(loop.node), str(tmp_path / "m")], timeout_s=60)
        try:
            if tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) < (6, 14):
                with pytest.raises(OSError, match="not supported"):
                    _write_and_read_twice(tmp_path / "m" / "refused", 0x80, Path("/dev/null"))
                return
            left, read_mib = {}, {}
            for name, flag in (("cached", 0), ("uncached", 0x80)):
                left[name], *read_mib[name] = _write_and_read_twice(
                    tmp_path / "m" / name, flag, Path(f"/sys/block/{loop.node.name}/stat")
                )
        finally:
            run(["umount", str(tmp_path / "m")], timeout_s=60)

    assert left["cached"] == 8192
    assert left["uncached"] < 80
    assert read_mib["cached"] == [pytest.approx(32, abs=1), pytest.approx(0, abs=0.5)]
    assert read_mib["uncached"] == [pytest.approx(34, abs=2)] * 2


def _write_and_read_twice(path: Path, flag: int, stat: Path) -> tuple[int, float, float]:
    """Pages in memory after the write; MiB that each of two readings had from the drive."""
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        for place in range(32):
            os.pwritev(file, [os.urandom(MIB)], place * MIB, flag)
        os.fsync(file)
        time.sleep(0.5)  # pages are dropped where their write ends
        cached = run(["fincore", "-b", "-n", "-o", "PAGES", str(path)], timeout_s=60)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        sectors = [int(stat.read_text().split()[2])]
        for _ in range(2):
            for place in range(32):
                os.preadv(file, [bytearray(MIB)], place * MIB, flag)
            sectors.append(int(stat.read_text().split()[2]))
    finally:
        os.close(file)
    first, second = ((b - a) * 512 / MIB for a, b in itertools.pairwise(sectors))
    return int(cached.stdout), first, second
