"""Hosts as processes that keep the contract of a run without doing one.

Each host has a door (a Unix socket) and a journal, which is all of it that outlives its process.
Its fault comes once, in the middle of a step of a run: it kills or stops itself, or its disk is
full. `python -m tests.support.stubfleet PLACE HOSTS SEED` is the power of all: it boots and wakes
them. The journals tell what happened; `violations` judges them. Time runs SCALE times as fast as
ours.
"""

import ctypes
import hashlib
import io
import json
import math
import os
import random
import re
import select
import shlex
import signal
import socket
import subprocess
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ssdbench.fleet.drive import Patience
from ssdbench.fleet.hostscripts import MARK
from ssdbench.fleet.transport import ScriptResult, Silent

SCALE = 6000.0
STEPS = 4
STEP_S = (60.0, 900.0)
LOOK_EVERY_S = 120.0
GIVE_UP_S = 3000.0
HANGS_S = 12_000.0
OFF_S = 600.0
ANSWER_S = 1.0  # of our time: whoever has not answered by then is silent
FAULTS = ("none", "dies", "hangs", "reboots", "terminated", "lies", "full", "cut")
INTERRUPT = frozenset({"dies", "reboots", "terminated", "full"})  # whose runs lose a step
SHARED = "eui.shared"  # the drive that two hosts show
PR_SET_PDEATHSIG = 1


def virtual_s() -> float:
    """The world's time."""
    return time.monotonic() * SCALE


def virtual_sleep(seconds: float) -> None:
    """Sleep so long in the world's time."""
    time.sleep(seconds / SCALE)


def patience() -> Patience:
    """As patient as a fleet of this world needs."""
    return Patience(LOOK_EVERY_S, GIVE_UP_S, virtual_sleep, virtual_s, time.time)


@dataclass(frozen=True)
class Spec:
    """One host, its drives, and its fault, which happens when a run has begun step `at_step`."""

    name: str
    drives: list[dict[str, object]]
    fault: str
    at_step: int


def names(hosts: int) -> list[str]:
    """Of so many hosts."""
    return [f"h{number:03}" for number in range(hosts)]


def specs(hosts: int, seed: int) -> list[Spec]:
    """Hosts with 1 to 24 drives. Serials repeat; the first two show one drive besides their own."""
    chance = random.Random(seed)
    made = []
    for number, name in enumerate(names(hosts)):
        drives = [
            _drive(f"/dev/nvme{n}n1", f"eui.{number:08x}{n:08x}", f"S{number % 97:04}{n}")
            for n in range(chance.randint(1, 24) if hosts > len(FAULTS) else 2)
        ]
        if number < 2:
            drives.append(_drive(f"/dev/nvme{40 + number}n1", SHARED, "SAN"))
        fault = FAULTS[number % len(FAULTS)]
        made.append(Spec(name, drives, fault, chance.randint(1, STEPS)))
    return made


def _drive(target: str, identity: str, serial: str) -> dict[str, object]:
    told = {"target": target, "id": identity, "kind": "drive", "model": "STUB 3840"}
    return {**told, "serial": serial, "size_bytes": 3_840_755_982_336, "reasons": []}


@dataclass
class Run:
    """A run as its host's journal has it; what is not in the journal dies with the process."""

    identity: str
    digest: str
    done: int = 0
    exit_code: int | None = None
    live: bool = field(default=False, compare=False)
    step_began_s: float = 0.0
    step_takes_s: float = 0.0


class StubHost:
    """The process of one host."""

    def __init__(self, spec: Spec, place: Path) -> None:
        self.spec = spec
        self.runs: dict[str, Run] = {}
        self.place = place
        self.full = self.happened = False
        self.calls = 0
        self.chance = random.Random(f"{spec.name} {os.getpid()}")
        path = place / f"{spec.name}.journal"
        for line in path.read_text().splitlines() if path.exists() else ():
            self._apply(json.loads(line))
        self.door = socket.socket(socket.AF_UNIX)
        (place / f"{spec.name}.sock").unlink(missing_ok=True)
        self.door.bind(str(place / f"{spec.name}.sock"))
        self.door.listen(64)
        self.journal = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)  # from now on up

    def _note(self, run: str, event: str, **more: object) -> None:
        """One write: a process that is killed has written it or not."""
        told = {"run": run, "event": event, **more}
        os.write(self.journal, json.dumps(told).encode() + b"\n")
        self._apply(told)

    def _apply(self, told: dict[str, Any]) -> None:
        match told["event"]:
            case "new":
                self.runs[told["run"]] = Run(told["identity"], told["digest"])
            case "begun":
                self.runs[told["run"]].exit_code = None
            case "done":
                self.runs[told["run"]].done = told["step"]
            case "ended":
                self.runs[told["run"]].exit_code = told["code"]
            case "fault":
                self.happened = True

    def serve(self) -> None:
        """Until the power is cut."""
        while True:
            self._one()

    def _one(self) -> None:
        talk, _ = self.door.accept()
        self._go_on()
        with talk, suppress(OSError), talk.makefile("rb") as file:
            asked = json.loads(file.readline() or b"{}")  # nothing from who was killed meanwhile
            said = self._answer(asked["script"], asked["given"]) if asked else None
            if said is not None:
                told = {"stdout": said.stdout.hex(), "stderr": said.stderr, "status": said.status}
                talk.sendall(json.dumps(told).encode())

    def _answer(self, script: str, given: str) -> ScriptResult | None:
        """What a script of the contract prints; None where the connection breaks."""
        self.calls += 1
        if "--attach-or-start" in script:
            said = self._start(shlex.split(script), given)
            return None if self.spec.fault == "cut" and self.calls % 2 else said
        if " drives --json" in script:
            told = {"document": "drives", "devices": self.spec.drives, "models": []}
            return ScriptResult(json.dumps(told).encode(), "", 0)
        found = re.search(r"^cd (\S+)", script, re.MULTILINE)
        assert found
        name = Path(found[1]).name
        return self._look(name) if f"{MARK}boot" in script else self._fetch(name)

    def _start(self, words: list[str], given: str) -> ScriptResult:
        name = Path(words[words.index("--output") + 1]).name
        identity = words[words.index("--destroy") + 1]
        node = words[words.index("--target") + 1]
        if (node, identity) not in [(one["target"], one["id"]) for one in self.spec.drives]:
            self._note(name, "refused", identity=identity)
            return ScriptResult(b"", "refused: another drive", 3)
        if self.full and not (self.place / "repaired").exists():
            return ScriptResult(b"", "error: no space left on device", 4)
        if name not in self.runs:
            digest = hashlib.sha256(given.encode()).hexdigest()
            self._note(name, "new", identity=identity, digest=digest)
        run = self.runs[name]
        if not run.live and run.done < STEPS:
            run.live = True
            self._begin(name, run, virtual_s())
        return ScriptResult(b"{}", "", 0)

    def _begin(self, name: str, run: Run, at_s: float) -> None:
        self._note(name, "begun", step=run.done + 1)
        run.step_began_s, run.step_takes_s = at_s, self.chance.uniform(*STEP_S)
        if run.done + 1 == self.spec.at_step and not self.happened:
            self._note(name, "fault")
            self._happens()

    def _happens(self) -> None:
        match self.spec.fault:
            case "dies" | "reboots":
                os.kill(os.getpid(), signal.SIGKILL)
            case "terminated":
                self._end_all(143)
                os._exit(0)
            case "hangs":
                os.kill(os.getpid(), signal.SIGSTOP)
            case "full":
                self.full = True
                self._end_all(4)

    def _go_on(self) -> None:
        now_s = virtual_s()
        for name, run in self.runs.items():
            while run.live and now_s - run.step_began_s >= run.step_takes_s:
                self._note(name, "done", step=run.done + 1)
                if run.done < STEPS:
                    self._begin(name, run, run.step_began_s + run.step_takes_s)
                else:
                    run.live = False
                    self._note(name, "ended", code=1)

    def _end_all(self, code: int) -> None:
        for name, run in self.runs.items():
            if run.live:
                run.live = False
                self._note(name, "ended", code=code)

    def _look(self, name: str) -> ScriptResult:
        run = self.runs.get(name)
        clock = time.time() + (86_400 * 900 if self.spec.fault == "lies" else 0)
        boot = f"boot-{os.getpid()}"
        told = [f"{MARK}boot", boot, f"{MARK}clock", str(int(clock))]
        if run is not None:
            process = {"pid": 7, "started_ticks": 70, "boot_id": boot if run.live else "gone"}
            told += [f"{MARK}process", json.dumps(process)]
            told += [f"{MARK}stat", "7 (python) S " + " ".join(["0"] * 18) + " 70"]
            share = {"fraction": run.done / STEPS, "text": f"step {run.done}", "rate_iops": 1e5}
            told += [f"{MARK}progress", json.dumps(share)]
            told += [f"{MARK}free", "dev 1 1 99999999 1% /"]
            if run.exit_code is not None:
                told += [f"{MARK}ended", json.dumps({"exit_code": run.exit_code})]
        return ScriptResult("\n".join(told).encode(), "", 0)

    def _fetch(self, name: str) -> ScriptResult:
        run, held = self.runs[name], io.BytesIO()
        target = {"id": run.identity}
        files = {
            "manifest.json": {"target": target, "profile_sha256": run.digest},
            "result.json": {"run_id": name, "target": target},
        }
        with tarfile.open(fileobj=held, mode="w:gz", compresslevel=1) as archive:
            for key, value in files.items():
                data = json.dumps(value).encode()
                member = tarfile.TarInfo(key)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
        return ScriptResult(held.getvalue(), "", 0)


@dataclass(frozen=True)
class BySocket:
    """Reaches these hosts as ssh would: what does not answer is silent."""

    place: str

    def call(
        self,
        address: str,
        script: str,
        *,
        given: bytes = b"",
        idle_s: float | None = None,
        most_bytes: int = 0,
    ) -> ScriptResult:
        """Ask one, which sleeps before it reads. Raises Silent."""
        slept = re.search(r"^sleep ([0-9.]+)$", script, re.MULTILINE)
        virtual_sleep(float(slept[1]) if slept else 0.0)
        if "--attach-or-start" in script:
            (Path(self.place) / "begun").touch()
        try:
            with socket.socket(socket.AF_UNIX) as door:
                door.settimeout(ANSWER_S)
                door.connect(f"{self.place}/{address}.sock")
                asked = {"script": script, "given": given.decode()}
                door.sendall(json.dumps(asked).encode() + b"\n")
                with door.makefile("rb") as file:
                    told = json.loads(file.read())
        except (OSError, ValueError) as error:
            raise Silent(f"{address} does not answer: {error}") from error
        return ScriptResult(bytes.fromhex(told["stdout"]), told["stderr"], told["status"])


def journal(place: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """All that happened, by host."""
    for path in sorted(place.glob("*.journal")):
        for line in path.read_text().splitlines():
            yield path.stem, json.loads(line)


def faultless(place: Path) -> list[str]:
    """Hosts whose fault never met a run: what they were to show was not tried."""
    kinds = json.loads((place / "faults.json").read_text())
    begun: Counter[str] = Counter()
    done: Counter[str] = Counter()
    for host, told in journal(place):
        begun[host] += told["event"] == "begun"
        done[host] += told["event"] == "done"
    return [
        host for host, kind in kinds.items() if (begun[host] > done[host]) != (kind in INTERRUPT)
    ]


def violations(place: Path, identities: list[str]) -> list[str]:
    """What a fleet must not do: a drive measured not once, a step done twice, two runs, no consent.

    `identities` are those that are to be measured, and no others.
    """
    of_run: dict[tuple[str, str], str] = {}
    done: Counter[tuple[str, int]] = Counter()
    measured: Counter[str] = Counter()
    wrong = []
    for host, told in journal(place):
        if told["event"] == "refused":
            wrong.append(f"{host} was asked to erase {told['identity']}, which is not there")
            continue
        if told["event"] == "new":
            of_run[host, told["run"]] = told["identity"]
        identity = of_run[host, told["run"]]
        if told["event"] == "done":
            done[identity, told["step"]] += 1
        elif told["event"] == "begun" and done[identity, told["step"]]:
            wrong.append(f"{identity}: step {told['step']} is begun again")
        elif told["event"] == "ended":
            measured[identity] += told["code"] == 1
    runs = Counter(of_run.values())
    wrong += [f"{one} has {runs[one]} runs" for one in identities if runs[one] != 1]
    wrong += [f"{one} was not to be measured" for one in sorted(runs.keys() - set(identities))]
    wrong += [
        f"{one} was measured {measured[one]} times" for one in identities if measured[one] != 1
    ]
    wrong += [f"{host}: its fault never came" for host in faultless(place)]
    wrong += [f"{one}: step {step} done {n} times" for (one, step), n in done.items() if n != 1]
    return wrong


@contextmanager
def powered(place: Path, hosts: int, seed: int) -> Iterator[list[Spec]]:
    """All hosts up, until the end; `repaired(place)` brings back those that are dead or full."""
    argv = [sys.executable, "-m", "tests.support.stubfleet", str(place), str(hosts), str(seed)]
    pipe, root = subprocess.PIPE, Path(__file__).parents[2]
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, cwd=root) as supply:
        assert supply.stdout
        try:
            assert supply.stdout.readline() == b"up\n"
            yield specs(hosts, seed)
        finally:
            supply.communicate()  # the end of its stdin


def repaired(place: Path) -> None:
    """Somebody plugs in the dead hosts again, and empties the full disks."""
    (place / "repaired").touch()


class Supply:
    """The power of all hosts."""

    def __init__(self, place: Path, each: list[Spec]) -> None:
        self.place, self.each = place, {one.name: one for one in each}
        faults = {one.name: one.fault for one in each}
        (place / "faults.json").write_text(json.dumps(faults))
        self.names = {self._boot(name): name for name in self.each}  # by their processes
        self.hung: list[tuple[float, int]] = []  # until when, which process
        self.off: list[tuple[float, str]] = []  # until when, which host

    def _boot(self, name: str) -> int:
        pid = os.fork()
        if pid:
            return pid
        try:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            os.close(0)
            StubHost(self.each[name], self.place).serve()
        finally:
            os._exit(1)

    def hold(self) -> None:
        """Boot and wake them, until stdin ends."""
        while not select.select([0], [], [], 0.02)[0]:
            now_s, mended = virtual_s(), (self.place / "repaired").exists()
            while (found := os.waitpid(-1, os.WNOHANG | os.WUNTRACED))[0]:
                pid, status = found
                if os.WIFSTOPPED(status):
                    self.hung.append((now_s + HANGS_S, pid))
                else:
                    name = self.names.pop(pid)
                    unplugged = self.each[name].fault == "dies"
                    self.off.append((math.inf if unplugged else now_s + OFF_S, name))
            for one in [one for one in self.hung if one[0] <= now_s]:
                self.hung.remove(one)
                os.kill(one[1], signal.SIGCONT)
            for off in [off for off in self.off if off[0] <= now_s or mended]:
                self.off.remove(off)
                self.names[self._boot(off[1])] = off[1]
        for pid in self.names:
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    where, count, the_seed = sys.argv[1:]
    power = Supply(Path(where), specs(int(count), int(the_seed)))
    while len(list(power.place.glob("*.journal"))) < len(power.each):
        time.sleep(0.02)
    print("up", flush=True)
    power.hold()
