"""Run fio without a drive, to read fio's CPUs and memory policy and to measure the host's limit.

fio's null engine completes each request at once. So the measured IOPS (the ceiling) include only
fio's own work for each request, such as random content and bookkeeping, but not the kernel's work.
The host cannot send requests faster than the ceiling. If a drive's rate comes near the ceiling, the
host is too slow to measure the drive.
"""

import time
from collections.abc import Collection, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from ssdbench.errors import CommandFailed, HostLacks
from ssdbench.generator.base import Job
from ssdbench.generator.fio.jobfile import jobfile
from ssdbench.generator.fio.output import CutShort, parse
from ssdbench.host import command, placement
from ssdbench.model.workload import Workload

POLICY, NODES = "numa_mem_policy", "numa_cpu_nodes"
_IDLE_JOB = """\
[place]
ioengine=null
rw=read
size=1M
time_based=1
runtime=300
thread=1
thinktime=10ms"""
_STARTS_S = 60.0  # timeout for an emulated guest on a busy host
_ASK_EVERY_S = 0.02


def placed(options: Mapping[str, str], cpus: Collection[int]) -> dict[str, str]:
    """Return the NUMA options for fio; if fio has CPUs of its own, only the memory options."""
    return {name: value for name, value in options.items() if not cpus or name != NODES}


def require_numa(options: Mapping[str, str]) -> None:
    """Raise HostLacks if NUMA options are wanted but fio was built without NUMA."""
    for option in options:
        try:
            said = command.run(["fio", f"--cmdhelp={option}"], timeout_s=_STARTS_S).stdout
        except CommandFailed:
            said = ""
        if not supports_option(said):
            raise HostLacks(
                f"this fio was built without libnuma: it has no {option}",
                hint="Install the distribution's fio, or set `fio_memory` and `fio_nodes: keep`.",
            )


def supports_option(said: str) -> bool:
    """Tell whether `fio --cmdhelp=OPTION` describes an option that works."""
    return "NUMA" in said and "libnuma-dev" not in said and "unsupported" not in said.lower()


def read_back(options: Mapping[str, str], cpus: Collection[int]) -> dict[str, str]:
    """Return the CPUs and the memory policy that the kernel gives fio's job thread under options.

    The function starts a fio that does no I/O, and ends it. Raises HostLacks with fio's message if
    fio ends by itself, and if the kernel's policy differs from the policy that was set.
    """
    text = "\n".join([_IDLE_JOB, *(f"{name}={value}" for name, value in options.items())])
    with TemporaryDirectory(prefix="ssdbench-") as name:
        place = Path(name)
        (place / "job.fio").write_text(text + "\n")
        out, err = place / "stdout", place / "stderr"
        argv = ["fio", "--eta=never", "job.fio"]
        process = command.spawn(argv, stdout=out, stderr=err, cwd=place, cpus=cpus)
        try:
            found = _awaited(process, options.get(POLICY, ""))
        finally:
            process.kill()
        if found is None:
            said = (err.read_text(errors="replace") + out.read_text(errors="replace")).split("\n")
            why = next((line for line in said if line.strip()), "it says nothing")
            raise HostLacks(f"fio does not run under {_shown(options)}: {why.strip()}")
    if POLICY in options and not _same(options[POLICY], found["memory"]):
        raise HostLacks(
            f"fio was given {_shown(options)}, but the kernel keeps {found['memory'] or 'nothing'}"
        )
    return found


def _awaited(process: command.Process, policy: str) -> dict[str, str] | None:
    """Wait until the job's thread has the wanted settings, or its settings no longer change."""
    deadline = time.monotonic() + _STARTS_S
    seen = None
    while time.monotonic() < deadline and process.poll() is None:
        seen = _job_thread(process.pid) or seen
        if seen is not None and (not policy or _same(policy, seen["memory"])):
            return seen
        time.sleep(_ASK_EVERY_S)
    return seen if process.poll() is None else None


def _job_thread(pid: int) -> dict[str, str] | None:
    """Return the job thread of a running fio: its youngest thread, as helper threads are older."""
    tasks = Path("/proc") / str(pid) / "task"
    try:
        threads = sorted(int(entry.name) for entry in tasks.iterdir())
    except OSError:
        return None
    if len(threads) < 3:  # the main, the helper and the job's thread
        return None
    name = f"{pid}/task/{threads[-1]}"
    try:
        status = (Path("/proc") / name / "status").read_text()
    except OSError:
        return None
    lines = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    cpus = lines.get("Cpus_allowed_list", "").strip()
    return {"cpus": cpus, "memory": placement.policy_of(name)}


def _same(wanted: str, kept: str) -> bool:
    # For local allocation, libnuma sets the default policy, which has the same effect for a task.
    return wanted == kept or (wanted == "local" and kept == placement.DEFAULT)


def _shown(options: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items())


ENGINE = "null"
RUNTIME_S = 0.3
ANSWERS_S = 60.0


def ceiling_iops(
    workload: Workload, *, cpus: Collection[int] = (), placed: Mapping[str, str] | None = None
) -> float | None:
    """Measure the IOPS that fio reaches with the null engine on `cpus` (empty: all CPUs).

    `placed` are fio's NUMA options. The result is None for a workload with a rate or pauses, and if
    this fio has no null engine or could not run it. The dry run takes about half a second, and
    reads or writes nothing.
    """
    if not workload.keeps_queue_full:
        return None
    job = Job(name="ceiling", workload=workload, seed=1, runtime_s=RUNTIME_S)
    options: dict[str, str | int] = {"ioengine": ENGINE, "thread": 1, **(placed or {})}
    if cpus:
        options["cpus_allowed"] = ",".join(str(cpu) for cpu in sorted(cpus))
    try:
        said = command.run(
            ["fio", "--eta=never", "--output-format=json+", "-"],
            input=jobfile([job], options=options).encode(),
            timeout_s=ANSWERS_S,
        )
        outcome = parse(said.stdout, [job.name])[0].outcome
    except (CommandFailed, HostLacks, CutShort):
        return None
    # Reads and writes ran at the same time, so the longer of their times counts.
    runtime_s = max(outcome.read.runtime_s, outcome.write.runtime_s)
    return (outcome.read.ios + outcome.write.ios) / runtime_s if runtime_s else None
