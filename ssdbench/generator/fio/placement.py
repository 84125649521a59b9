"""Where fio really runs and takes its memory: asked of the kernel, of a fio that does no I/O."""

import time
from collections.abc import Collection, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from ssdbench.errors import CommandFailed, HostLacks
from ssdbench.host import command, numa

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
_STARTS_S = 60.0  # an emulated guest on a busy host takes its time
_ASK_EVERY_S = 0.02


def placed(options: Mapping[str, str], cpus: Collection[int]) -> dict[str, str]:
    """NUMA settings of a run; a start that chooses its CPUs itself keeps the memory's only."""
    return {name: value for name, value in options.items() if not cpus or name != NODES}


def require_numa(options: Mapping[str, str]) -> None:
    """Raise HostLacks when options of NUMA are wanted of a fio that was built without it."""
    for option in options:
        try:
            said = command.run(["fio", f"--cmdhelp={option}"], timeout_s=_STARTS_S).stdout
        except CommandFailed:
            said = ""
        if not offers(said):
            raise HostLacks(
                f"this fio was built without libnuma: it has no {option}",
                hint="Install the distribution's fio, or set `fio_memory` and `fio_nodes: keep`.",
            )


def offers(said: str) -> bool:
    """Whether `fio --cmdhelp=OPTION` tells of an option that works (one that does not says how
    fio must be built).
    """
    return "NUMA" in said and "libnuma-dev" not in said and "unsupported" not in said.lower()


def read_back(options: Mapping[str, str], cpus: Collection[int]) -> dict[str, str]:
    """CPUs and memory policy of fio's own job thread under these options, as the kernel has them.

    Starts a fio without I/O and ends it. Raises HostLacks when fio ends by itself, with its words,
    and when the kernel keeps another policy than was asked for.
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
    """What the job's thread has, once it is as asked for or can be expected to stay as it is."""
    deadline = time.monotonic() + _STARTS_S
    seen = None
    while time.monotonic() < deadline and process.poll() is None:
        seen = _job_thread(process.pid) or seen
        if seen is not None and (not policy or _same(policy, seen["memory"])):
            return seen
        time.sleep(_ASK_EVERY_S)
    return seen if process.poll() is None else None


def _job_thread(pid: int) -> dict[str, str] | None:
    """The youngest thread of a fio that has its job at work: the helper threads come before."""
    tasks = Path("/proc") / str(pid) / "task"
    try:
        threads = sorted(int(entry.name) for entry in tasks.iterdir())
    except OSError:
        return None
    if len(threads) < 3:  # the main one, the helper, and the job's
        return None
    name = f"{pid}/task/{threads[-1]}"
    try:
        status = (Path("/proc") / name / "status").read_text()
    except OSError:
        return None
    lines = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    cpus = lines.get("Cpus_allowed_list", "").strip()
    return {"cpus": cpus, "memory": numa.policy_of(name)}


def _same(wanted: str, kept: str) -> bool:
    # libnuma asks for local allocation by the default policy, which is the same for a task.
    return wanted == kept or (wanted == "local" and kept == numa.DEFAULT)


def _shown(options: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items())
