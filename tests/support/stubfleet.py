"""Hosts that keep the contract of a run without doing one: they die, hang, reboot, lie and fill up.

The world knows what the fleet must not do, and counts it: a step of a drive that is done again
although it was done, two runs at once on one drive, a drive that is measured twice. Its time runs
SCALE times as fast as ours.
"""

import hashlib
import io
import json
import random
import re
import shlex
import socket
import socketserver
import tarfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from ssdbench.fleet.contract import MARK
from ssdbench.fleet.drive import Patience
from ssdbench.fleet.reach import Said, Silent

SCALE = 6000.0
STEPS = 4
STEP_S = (60.0, 900.0)
LOOK_EVERY_S = 120.0
GIVE_UP_S = 3000.0
FAULTS = ("none", "none", "dies", "hangs", "reboots", "terminated", "lies", "full", "cut")


def virtual_s() -> float:
    """The world's time."""
    return time.monotonic() * SCALE


def virtual_sleep(seconds: float) -> None:
    """Sleep so long in the world's time."""
    time.sleep(seconds / SCALE)


def patience() -> Patience:
    """As patient as a fleet of this world needs."""
    return Patience(LOOK_EVERY_S, GIVE_UP_S, virtual_sleep, virtual_s, time.time)


@dataclass
class Run:
    """A run of the world: its steps, as its journal would have them."""

    identity: str
    profile: str
    done: int = 0
    live: bool = False
    step_began_s: float = 0.0
    step_takes_s: float = 0.0
    exit_code: int | None = None


@dataclass
class StubHost:
    """One host and its fault, which happens `at_s`."""

    name: str
    drives: list[dict[str, object]]
    fault: str
    at_s: float
    boots: int = 1
    happened: bool = False
    runs: dict[str, Run] = field(default_factory=dict)
    calls: int = 0


class World:
    """All hosts. Only what is told here is true."""

    def __init__(self, hosts: int, seed: int, faults: tuple[str, ...] = FAULTS) -> None:
        chance = random.Random(seed)
        self.lock = threading.Lock()
        self.chance = chance
        self.violations: list[str] = []
        self.measured: dict[str, int] = {}  # identity: how often a run of it came to its end
        self.repaired = False  # dead hosts are up again, full disks have room
        self.began_s = virtual_s()
        self.hosts: dict[str, StubHost] = {}
        for number in range(hosts):
            name = f"h{number:03}"
            drives = [
                {
                    "target": f"/dev/nvme{n}n1", "id": f"eui.{number:08x}{n:08x}", "kind": "drive",
                    "model": "STUB 3840", "serial": f"S{number % 97:04}{n}",  # serials repeat
                    "size_bytes": 3_840_755_982_336, "reasons": [],
                }
                for n in range(chance.randint(1, 24))
            ]  # fmt: skip
            at_s = chance.uniform(0, 3000)
            self.hosts[name] = StubHost(name, drives, chance.choice(faults), at_s)

    @property
    def identities(self) -> list[str]:
        """Of all drives."""
        return [str(one["id"]) for host in self.hosts.values() for one in host.drives]

    def call(self, address: str, script: str, given: bytes) -> Said:
        """A script of the contract, as that host answers it. Raises Silent."""
        with self.lock:
            host = self.hosts[address]
            host.calls += 1
            self._happen(host)
            self._go_on(host)
            if self._is_silent(host):
                raise Silent(f"{address} does not answer")
            if "--attach-or-start" in script:
                return self._start(host, script, given)
            if f"{MARK}boot" in script:
                return self._look(host, script)
            if "tar -cf" in script:
                return self._fetch(host, script)
            if " drives --json" in script:
                told = {"document": "drives", "devices": host.drives, "models": []}
                return Said(json.dumps(told).encode(), "", 0)
            raise AssertionError(script)

    def _happen(self, host: StubHost) -> None:
        now_s = virtual_s() - self.began_s
        if host.happened or now_s < host.at_s:
            return
        host.happened = True
        self._go_on(host)
        if host.fault in ("reboots", "terminated", "dies"):
            host.boots += 1
            for run in host.runs.values():
                if run.live:  # the step that was at work is lost, those before it are not
                    run.live = False
                    run.exit_code = 143 if host.fault == "terminated" else None
        if host.fault == "full":
            for run in host.runs.values():
                if run.live:
                    run.live, run.exit_code = False, 4

    def _is_silent(self, host: StubHost) -> bool:
        since_s = virtual_s() - self.began_s - host.at_s
        if host.fault == "dies":
            return since_s > 0 and not self.repaired
        return host.fault in ("hangs", "reboots", "terminated") and 0 < since_s < 600

    def _go_on(self, host: StubHost) -> None:
        now_s = virtual_s()
        for run in host.runs.values():
            while run.live and now_s - run.step_began_s >= run.step_takes_s:
                run.done += 1
                run.step_began_s += run.step_takes_s
                if run.done > STEPS:
                    self.violations.append(f"{run.identity}: step {run.done} of {STEPS}")
                if run.done >= STEPS:
                    run.live, run.exit_code = False, 1
                    self.measured[run.identity] = self.measured.get(run.identity, 0) + 1

    def _start(self, host: StubHost, script: str, given: bytes) -> Said:
        words = shlex.split(script)
        name = Path(words[words.index("--output") + 1]).name
        identity = words[words.index("--destroy") + 1]
        node = words[words.index("--target") + 1]
        here = {str(one["target"]): str(one["id"]) for one in host.drives}
        if here.get(node) != identity:
            self.violations.append(f"{identity} is not {node} of {host.name}")
            return Said(b"", "refused: another drive", 3)
        if host.fault == "full" and host.happened and not self.repaired:
            return Said(b"", "error: no space left on device", 4)
        run = host.runs.setdefault(name, Run(identity, given.decode()))
        others = [
            one for other in self.hosts.values() for key, one in other.runs.items()
            if one.identity == identity and one is not run and (one.live or one.done)
        ]  # fmt: skip
        if others:
            self.violations.append(f"{identity} has two runs")
        if not run.live and run.done < STEPS:
            run.live, run.exit_code = True, None
            run.step_began_s = virtual_s()
            run.step_takes_s = self.chance.uniform(*STEP_S)
        if host.fault == "cut" and host.calls % 2:  # done, but the answer is lost
            raise Silent(f"{host.name}: connection reset")
        return Said(b"{}", "", 0)

    def _look(self, host: StubHost, script: str) -> Said:
        found = re.search(r"^cd (\S+)", script, re.MULTILINE)
        assert found
        run = host.runs.get(Path(found[1]).name)
        clock = time.time() + (86_400 * 900 if host.fault == "lies" else 0)
        boot = f"boot-{host.name}-{host.boots}"
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
        return Said("\n".join(told).encode(), "", 0)

    def _fetch(self, host: StubHost, script: str) -> Said:
        found = re.search(r"^cd (\S+)", script)
        assert found
        name = Path(found[1]).name
        run = host.runs[name]
        digest = hashlib.sha256(run.profile.encode()).hexdigest()
        target = {"id": run.identity}
        files = {
            "manifest.json": {"target": target, "profile_sha256": digest},
            "result.json": {"run_id": name, "target": target},
        }
        held = io.BytesIO()
        with tarfile.open(fileobj=held, mode="w:gz", compresslevel=1) as archive:
            for key, value in files.items():
                data = json.dumps(value).encode()
                member = tarfile.TarInfo(key)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
        return Said(held.getvalue(), "", 0)


WORLDS: dict[str, World] = {}


@dataclass(frozen=True)
class InProcess:
    """Reaches a world of this process."""

    name: str

    def call(self, address: str, script: str, *, given: bytes = b"") -> Said:
        """Ask it."""
        return WORLDS[self.name].call(address, script, given)


@dataclass(frozen=True)
class BySocket:
    """Reaches the world of another process, which stays when this one is killed."""

    path: str

    def call(self, address: str, script: str, *, given: bytes = b"") -> Said:
        """Ask it. Raises Silent as a host would."""
        with socket.socket(socket.AF_UNIX) as door:
            door.connect(self.path)
            asked = {"address": address, "script": script, "given": given.decode()}
            door.sendall(json.dumps(asked).encode() + b"\n")
            with door.makefile("rb") as file:
                told = json.loads(file.read())
        if told["silent"]:
            raise Silent(told["silent"])
        return Said(bytes.fromhex(told["stdout"]), told["stderr"], told["status"])


def served(world: World, path: Path) -> socketserver.ThreadingUnixStreamServer:
    """A server of a world; `shutdown` ends it."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            line = self.rfile.readline()
            if not line:  # whoever asked was killed
                return
            asked = json.loads(line)
            try:
                said = world.call(asked["address"], asked["script"], asked["given"].encode())
                told = {"silent": "", "stdout": said.stdout.hex(), "stderr": said.stderr}
                told["status"] = said.status  # type: ignore[assignment]
            except Silent as error:
                told = {"silent": error.message}
            self.wfile.write(json.dumps(told).encode())

    class Server(socketserver.ThreadingUnixStreamServer):
        request_queue_size = 256
        daemon_threads = True

    server = Server(str(path), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
