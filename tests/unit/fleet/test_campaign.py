"""A whole fleet on hosts that die, hang, reboot, lie and fill up, with a scheduler that dies."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ssdbench.fleet.campaign import campaign
from ssdbench.fleet.drive import Stage, State
from ssdbench.fleet.inventory import Fleet
from ssdbench.fleet.plan import plan
from ssdbench.fleet.reach import Reach
from ssdbench.fleet.records import Records
from tests.support import stubfleet
from tests.support.stubfleet import BySocket, InProcess, World

PROFILE = "repeats: 3\n"


class Killed(Exception):
    """The control process is gone."""


def fleet_of(world: World, at_once: int) -> Fleet:
    racks = [{"name": host, "rack": f"r{n // 20}"} for n, host in enumerate(world.hosts)]
    return Fleet.model_validate(
        {
            "title": "stubs", "profile": "p", "hosts": racks, "drives": [{"model": "STUB*"}],
            "consent": "c", "canary": 0,
            "limits": {"at_once": at_once, "per_host": 24, "per_rack": 200},
        }
    )  # fmt: skip


def once(
    fleet: Fleet, identities: frozenset[str], reach: Reach, records: Records, dies_at: int = -1
) -> dict[str, State]:
    """One `fleet run`; without its control process after so many lines of its story."""
    made = plan(fleet, identities, PROFILE, reach, Path("FLEET.yaml"))
    said: list[str] = []

    def tell(line: str) -> None:
        said.append(line)
        if len(said) == dies_at:
            raise Killed

    records.make()
    return campaign(fleet, made, reach, records, stubfleet.patience(), tell)


def nothing_was_done_twice_nor_lost(world: World, records: Records) -> None:
    assert world.violations == []
    assert set(world.measured.values()) == {1}
    assert set(world.measured) == set(world.identities)
    kept = {one.job["identity"]: one.state.stage for one in records.all()}
    assert set(kept) == set(world.identities)
    assert set(kept.values()) == {Stage.MEASURED}


def test_every_drive_is_measured_once_whatever_dies(tmp_path: Path) -> None:
    world = World(hosts=9, seed=3)
    for host, fault in zip(world.hosts.values(), stubfleet.FAULTS, strict=True):
        host.fault, host.at_s, host.drives = fault, 300.0, host.drives[:2]
    stubfleet.WORLDS["unit"] = world
    fleet, reach = fleet_of(world, at_once=18), InProcess("unit")
    records, consent = Records(tmp_path / "f"), frozenset(world.identities)

    with pytest.raises(Killed):
        once(fleet, consent, reach, records, dies_at=2)
    ends = once(fleet, consent, reach, records)

    assert world.violations == []
    of = {name: state.stage for name, state in ends.items()}
    dead = {Stage.GIVEN_UP, Stage.FAILED}
    assert dead >= set(of.values()) - {Stage.MEASURED}
    lying = [one for one in records.all() if "clock" in " ".join(one.state.findings)]
    assert {one.job["host"] for one in lying} == {"h006"}

    world.repaired = True  # somebody plugs the dead host in again, and empties the full disk
    once(fleet, consent, reach, records)
    nothing_was_done_twice_nor_lost(world, records)


@pytest.mark.soak
def test_many_hosts_and_a_control_process_killed_three_times(tmp_path: Path) -> None:
    world = World(int(os.environ.get("SSDBENCH_FLEET_HOSTS", "60")), seed=1)
    door = tmp_path / "world.sock"
    server = stubfleet.served(world, door)
    chance = random.Random(7)
    argv = [
        sys.executable,
        "-X",
        "faulthandler",
        "-m",
        "tests.unit.fleet.test_campaign",
        str(door),
        str(tmp_path / "f"),
    ]
    records = Records(tmp_path / "f")
    try:
        hosts = " ".join(world.hosts)
        given = "\n".join([hosts, *world.identities]).encode()
        (tmp_path / "given").write_bytes(given)
        for _ in range(3):
            with (tmp_path / "given").open("rb") as stdin:
                control = subprocess.Popen(argv, stdin=stdin)
            time.sleep(chance.uniform(4, 12))
            control.send_signal(signal.SIGKILL)
            control.wait()
        for _ in range(2):
            subprocess.run(argv, input=given, check=True)
            world.repaired = True
    finally:
        server.shutdown()
        server.server_close()
    nothing_was_done_twice_nor_lost(world, records)


def main() -> None:
    """A control process that can be killed: world's door and records as arguments."""
    hosts, *identities = sys.stdin.read().split("\n")
    world = World(0, 0)
    world.hosts = {name: stubfleet.StubHost(name, [], "none", 0.0) for name in hosts.split()}
    once(
        fleet_of(world, at_once=80),
        frozenset(identities),
        BySocket(sys.argv[1]),
        Records(Path(sys.argv[2])),
    )


if __name__ == "__main__":
    main()
