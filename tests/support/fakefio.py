"""A program named fio on PATH that says, does and returns what a test wants."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_PROGRAM = """#!{python} -ISE
import json, os, signal, sys, time
plan = json.load(open({plan!r}))
if "--version" in sys.argv:
    print(plan["version"]); sys.exit(0)
if "--enghelp" in sys.argv:
    print("Available IO engines:"); [print("\\t" + e) for e in plan["engines"]]; sys.exit(0)
open("argv.json", "w").write(json.dumps(sys.argv))
held = {{os.path.realpath("/proc/self/fd/" + fd) for fd in os.listdir("/proc/self/fd")}}
open("held.json", "w").write(json.dumps(sorted(held)))
stopped = []
signal.signal(signal.SIGINT, lambda *_: stopped.append(1))
if plan["ignore_term"]:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
end = time.monotonic() + plan["runs_s"]
while time.monotonic() < end and not (stopped and plan["heeds_stop"]):
    if plan["works"]:
        with open("work", "ab") as work:
            work.write(os.urandom(65536)); work.flush(); os.fsync(work.fileno())
    time.sleep(0.01)
sys.stderr.write(plan["stderr"])
with open("fio.json", "w") as report:
    report.write(plan["report"])
sys.exit(128 if stopped and plan["heeds_stop"] else plan["status"])
"""


class FakeFio:
    """The fake and its plan; change the plan, then start."""

    def __init__(self, directory: Path) -> None:
        self._plan_path = directory / "plan.json"
        self._plan: dict[str, Any] = {
            "version": "fio-3.33",
            "engines": ["libaio", "null", "nbd"],
            "runs_s": 0.2,
            "works": True,
            "heeds_stop": True,
            "ignore_term": False,
            "report": "",
            "stderr": "",
            "status": 0,
        }
        program = directory / "fio"
        program.write_text(_PROGRAM.format(python=sys.executable, plan=str(self._plan_path)))
        program.chmod(0o755)
        self.will()

    def will(self, **plan: object) -> "FakeFio":
        """Change what the next start does: report, status, stderr, runs_s, works, …"""
        self._plan |= plan
        self._plan_path.write_text(json.dumps(self._plan))
        return self


def a_report(*jobs: Mapping[str, Any]) -> str:
    """A report in fio's form with one group for each of `jobs`, see `a_job`."""
    document = {
        "fio version": "fio-3.33",
        "jobs": [{**job, "groupid": number} for number, job in enumerate(jobs)],
    }
    return json.dumps(document, indent=2) + "\n"


def a_job(
    *, read_ios: int = 0, write_ios: int = 0, block_bytes: int = 4096, **changes: Any
) -> dict[str, Any]:
    """One job of a report: so many I/Os of one latency, in 10 s."""

    def side(ios: int) -> dict[str, Any]:
        return {
            "io_bytes": ios * block_bytes,
            "total_ios": ios,
            "runtime": 10_000 if ios else 0,
            "short_ios": changes.get("short_ios", 0),
            "drop_ios": 0,
            "lat_ns": {"min": 100_000, "max": 100_000, "mean": 100_000.0, "bins": {"100000": ios}},
        }

    return {
        "jobname": "job",
        "error": changes.get("error", 0),
        "read": side(read_ios),
        "write": side(write_ios),
        "usr_cpu": 1.0,
        "sys_cpu": 2.0,
        "job_runtime": 10_000,
    }
