"""Runs that are killed with SIGKILL, put back and resumed, and the count of what became of them.

A killed run is resumed, and killed again, until it reaches its end; then the next one begins. What
is compared after every kill is a snapshot of everything of the host that a run could change.
"""

import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ssdbench.engine import journal as run_journal
from ssdbench.engine.hostsettings import restore
from ssdbench.host.command import spawn
from ssdbench.host.sysfs import Sysfs, chosen
from tests.support.warm import Forks, Started

ENDS_WITHIN_S = 120.0
IDLE = (2_000_000_000).to_bytes(4, "little").hex()  # of /dev/cpu_dma_latency when nobody holds it
# Counted by the kernel, not set by us.
_MOVING = {"stat", "inflight", "diskseq", "uevent"}


def snapshot(kernel_name: str = "", *, idle: bool = False) -> dict[str, str]:
    """Everything of this host, and of one device, that a run could change.

    The latency that idle CPUs may take is of the whole host: two runs at once see each other's.
    """
    sysfs = Sysfs()
    found: dict[str, str] = {}
    for name in sysfs.names(f"/sys/block/{kernel_name}/queue") if kernel_name else ():
        if name not in _MOVING:
            path = f"/sys/block/{kernel_name}/queue/{name}"
            found[path] = sysfs.find(path) or ""
    for irq in sysfs.names("/proc/irq"):
        path = f"/proc/irq/{irq}/smp_affinity_list"
        found[path] = sysfs.find(path) or ""
    for cpu in sysfs.names("/sys/devices/system/cpu/cpufreq"):
        path = f"/sys/devices/system/cpu/cpufreq/{cpu}/scaling_governor"
        found[path] = sysfs.find(path) or ""
    found["modules"] = str(sorted(line.split()[0] for line in _lines(sysfs, "/proc/modules")))
    mounts = (line.split(" ", 5)[2:5] for line in _lines(sysfs, "/proc/self/mountinfo"))
    found["mounts"] = str(sorted(mounts))
    found["tracers"] = str(sysfs.names("/sys/kernel/tracing/instances"))
    latency = Path("/dev/cpu_dma_latency")
    if idle and latency.exists():
        found["idle latency"] = latency.read_bytes().hex()
    return found


def _lines(sysfs: Sysfs, path: str) -> list[str]:
    return (sysfs.find(path) or "").splitlines()


def every_setting(kernel_name: str, *, idle: bool = False) -> str:
    """A `host:` that changes everything that a device's queue and this host let us change."""
    sysfs = Sysfs()
    queue = f"/sys/block/{kernel_name}/queue"
    offered = sysfs.read(f"{queue}/scheduler").replace("[", "").replace("]", "").split()
    now = chosen(sysfs.read(f"{queue}/scheduler"))
    wanted = {
        "scheduler": next((name for name in offered if name not in (now, "bfq")), now),
        "nr_requests": "32",
        "nomerges": "2",
        "rq_affinity": "2",
        "read_ahead_kb": "4",
        "add_random": str(1 - (sysfs.number(f"{queue}/add_random") or 0)),
        "wbt_lat_usec": "3000",
    }
    settable = {k: v for k, v in wanted.items() if sysfs.find(f"{queue}/{k}") is not None}
    return "{" + ", ".join(f"{k}: {v}" for k, v in settable.items()) + of_the_host(idle=idle) + "}"


def of_the_host(*, idle: bool = False) -> str:
    """What can be set whatever the target is."""
    found = ", idle: shallow" if idle and Path("/dev/cpu_dma_latency").exists() else ""
    if (os.cpu_count() or 1) > 1:
        found += ", own_cpus: [0], fio_cpus: [1]"
    if Path("/sys/devices/system/cpu/cpufreq/policy0").exists():
        found += ", governor: performance"
    return found


@dataclass
class Tally:
    """What became of the kills."""

    kills: int = 0
    restored: int = 0  # the host was as before
    resumed: int = 0  # a later process went on with the run
    begun_anew: int = 0  # killed before there was a run to go on with
    ended: int = 0  # runs that reached their end, each with every result once
    orphans: int = 0
    lost_records: int = 0
    stages: Counter[str] = field(default_factory=Counter)  # that the kills hit
    troubles: list[str] = field(default_factory=list)


class KilledRuns:
    """Runs of one profile on one target, one after another, in `directory`."""

    def __init__(
        self,
        directory: Path,
        profile: str,
        target: Sequence[str],
        *,
        kernel_name: str = "",
        idle: bool = False,
    ) -> None:
        self.tally = Tally()
        self._directory = directory
        self._target = tuple(target)
        self.kernel_name = kernel_name
        self.settings = directory / "settings"
        self.stderr = directory / "stderr"
        self.ssdbench = [sys.executable, "-m", "ssdbench"]
        self.forks: Forks | None = None  # where ssdbench starts from instead
        self._profile = directory / "profile.yaml"
        self._profile.write_text(profile)
        self._number = 0
        self._owed = 0  # kills that no later process has gone on from yet
        self._idle = idle
        self._before = self._undisturbed()

    @property
    def output(self) -> Path:
        """The run directory of now."""
        return self._directory / f"run{self._number}"

    def kill(self, when: Callable[[Path, Started], None]) -> None:
        """Start or resume, wait until `when` returns, kill, and look at what is left."""
        known = len(self.records())
        process = self.start()
        when(self.output, process)
        acknowledged = self.records()
        ended = process.ended(0)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        self._count_resumed(known)
        if ended:
            self._judge_end(process)
        else:
            self._look_around(acknowledged)

    def kill_in(self, stage: str, *, tries: int = 5) -> None:
        """Kill inside a stage; a run that was quicker than the kill ends, and the next is tried."""
        for _ in range(tries):
            self.kill(once_in(stage, then_s=0.05))
            if self.tally.stages[stage]:
                return
            self.finish()

    def finish(self) -> None:
        """Let the run of now reach its end."""
        known = len(self.records())
        process = self.start()
        process.wait(120)
        self._count_resumed(known)
        self._judge_end(process)

    def snapshot(self) -> dict[str, str]:
        """Everything that these runs could change, as it is now."""
        return snapshot(self.kernel_name, idle=self._idle)

    def records(self) -> list[dict[str, object]]:
        """The whole records of the run of now."""
        path = self.output / run_journal.NAME
        if not path.exists():
            return []
        whole = path.read_bytes().rpartition(b"\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    def said(self) -> str:
        """The tally as JSON."""
        return json.dumps({**vars(self.tally), "stages": dict(self.tally.stages)}, indent=1)

    def start(self) -> Started:
        """A process that begins a run, or goes on with the one of now."""
        argv = ["resume", str(self.output)]
        if not (self.output / run_journal.NAME).exists():
            self._number += self.output.exists()
            argv = ["run", str(self._profile), *self._target, "--output", str(self.output)]
        env, stdout = {"SSDBENCH_SETTINGS": str(self.settings)}, self._directory / "stdout"
        if self.forks is not None:
            return self.forks.start(argv, env=env, stdout=stdout, stderr=self.stderr)
        return spawn([*self.ssdbench, *argv], env=env, stdout=stdout, stderr=self.stderr)

    def _count_resumed(self, known: int) -> None:
        if any(record["kind"] == "resumed" for record in self.records()[known:]):
            self.tally.resumed += self._owed
            self._owed = 0

    def _look_around(self, acknowledged: list[dict[str, object]]) -> None:
        """After a kill: nothing of it is left at work, or changed, or lost."""
        tally = self.tally
        tally.kills += 1
        tally.orphans += len(self.orphans())
        restore(directory=self.settings)
        changed = self._changed()
        if changed or list(self.settings.glob("*.jsonl")):
            tally.troubles.append(f"kill {tally.kills}: not restored: {changed}")
        else:
            tally.restored += 1
        kept = self.records()
        tally.lost_records += kept[: len(acknowledged)] != acknowledged
        tally.stages[_stage_of(kept)] += 1
        if kept:
            self._owed += 1
        else:
            tally.begun_anew += 1

    def _undisturbed(self) -> dict[str, str]:
        """The snapshot before the first run, once no other run keeps the CPUs from idling."""
        deadline = time.monotonic() + ENDS_WITHIN_S
        while True:
            found = self.snapshot()
            if found.get("idle latency", IDLE) == IDLE or time.monotonic() > deadline:
                return found
            time.sleep(0.1)

    def _changed(self) -> dict[str, tuple[str, str]]:
        """What is not as before the first run: was, is. What other runs hold passes with them."""
        deadline = time.monotonic() + ENDS_WITHIN_S
        while True:
            before, now = self._before, self.snapshot()
            changed = {
                name: (before.get(name, ""), now.get(name, ""))
                for name in sorted(before.keys() | now.keys())
                if before.get(name) != now.get(name)
            }
            if not changed or time.monotonic() > deadline:
                return changed
            time.sleep(0.1)

    def _judge_end(self, process: Started) -> None:
        """A run that ended by itself has every result, and each once."""
        if process.wait(0) not in (0, 1):
            said = (self.stderr).read_text()[-500:]
            self.tally.troubles.append(f"{self.output.name} ended with {process.poll()}: {said}")
            self._number += 1
            return
        finished = [
            f"{r.get('stage')}/{r['unit']}"
            for r in self.records()
            if r["kind"] == "finished" and "repeat" in str(r.get("unit", ""))
        ]
        result = json.loads((self.output / "result.json").read_text())
        if len(finished) != len(set(finished)) or result["finished_at"] is None:
            self.tally.troubles.append(f"{self.output.name}: {finished}, {result['finished_at']}")
        else:
            self.tally.ended += 1
        self._number += 1

    def orphans(self) -> list[int]:
        """fio processes that still work for the run, once they had a moment to end."""
        deadline = time.monotonic() + ENDS_WITHIN_S
        while (found := self._fios()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return found

    def _fios(self) -> list[int]:
        found = []
        for process in Path("/proc").iterdir():
            try:
                if process.name.isdigit() and (process / "comm").read_text().strip() == "fio":
                    where = os.readlink(process / "cwd")  # noqa: PTH115 - it may be deleted
                    found += [int(process.name)] * where.startswith(str(self.output))
            except OSError:
                continue
        return found


def _stage_of(records: list[dict[str, object]]) -> str:
    named = [str(record["stage"]) for record in records if record.get("stage")]
    return named[-1] if named else "before the first"


def after(seconds: float) -> Callable[[Path, Started], None]:
    """A moment so long after the start."""

    def wait(output: Path, process: Started) -> None:
        del output
        process.ended(seconds)

    return wait


def once_in(stage: str, *, then_s: float = 0.2, within_s: float = 60.0) -> Callable[..., None]:
    """A moment after a stage, or any one for "", first touched the target in this process."""

    def wait(output: Path, process: Started) -> None:
        path = output / run_journal.NAME
        skip = path.stat().st_size if path.exists() else 0
        deadline = time.monotonic() + within_s
        begun = False
        while not begun and time.monotonic() < deadline and not process.ended(0.02):
            text = path.read_bytes()[skip:] if path.exists() else b""
            begun = any(
                b'"begun"' in line and f'"{stage}'.encode() in line for line in text.splitlines()
            )
        process.ended(then_s)

    return wait
