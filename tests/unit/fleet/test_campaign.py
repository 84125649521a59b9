"""A whole fleet on hosts that die, hang, reboot, lie and fill up, with a control process that dies.

The hosts are processes (`tests.support.stubfleet`); what happened is read from their journals.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ssdbench.errors import UsageError
from ssdbench.fleet.drive import Stage, State
from ssdbench.fleet.inventory import Fleet
from ssdbench.fleet.plan import plan
from ssdbench.fleet.records import Records
from ssdbench.fleet.scheduler import run_fleet
from tests.support import stubfleet
from tests.support.stubfleet import SHARED, BySocket, Spec

PROFILE = "repeats: 3\n"
CALLS = 4  # of `fleet run` at most, once all is repaired


class Killed(Exception):
    """The control process is gone."""


def fleet_of(hosts: list[str], at_once: int, *excluded: str) -> Fleet:
    racks = [{"name": host, "rack": f"r{n // 20}"} for n, host in enumerate(hosts)]
    return Fleet.model_validate(
        {
            "title": "stubs", "profile": "p", "hosts": racks, "drives": [{"model": "STUB*"}],
            "exclude": [{"identity": one} for one in excluded], "consent": "c", "canary": 0,
            "limits": {"at_once": at_once, "per_host": 24, "per_rack": 200},
        }
    )  # fmt: skip


def once(
    fleet: Fleet, identities: frozenset[str], place: Path, dies_at: int = -1
) -> dict[str, State]:
    """One `fleet run`; without its control process after so many lines of its story."""
    records, reach = Records(place / "f"), BySocket(str(place))
    made = plan(fleet, identities, PROFILE, reach, Path("FLEET.yaml"))
    made.require_no_mistake()
    said: list[str] = []

    def tell(line: str) -> None:
        said.append(line)
        if len(said) == dies_at:
            raise Killed

    records.make()
    return run_fleet(fleet, made, reach, records, stubfleet.patience(), tell)


def to_be_measured(hosts: list[Spec]) -> list[str]:
    every = [str(drive["id"]) for host in hosts for drive in host.drives]
    return [identity for identity in every if identity != SHARED]


def all_measured(place: Path, identities: list[str]) -> bool:
    kept = {one.job["identity"]: one.state.stage for one in Records(place / "f").all()}
    return kept == dict.fromkeys(identities, Stage.MEASURED)


def nothing_was_done_twice_nor_lost(place: Path, identities: list[str]) -> None:
    assert stubfleet.violations(place, identities) == []
    assert all_measured(place, identities)
    assert len(Records(place / "f").measured()) == len(identities)


def test_every_drive_is_measured_once_whatever_dies(tmp_path: Path) -> None:
    with stubfleet.powered(tmp_path, hosts=8, seed=3) as hosts:
        names, wanted = [host.name for host in hosts], to_be_measured(hosts)
        consent = frozenset(wanted)

        claimed = (
            "eui.shared is seen as h000 /dev/nvme40n1, h001 /dev/nvme41n1: this is one drive with"
        )
        with pytest.raises(UsageError, match=claimed):
            once(fleet_of(names, 16), consent | {SHARED}, tmp_path)
        assert list(stubfleet.journal(tmp_path)) == []

        fleet = fleet_of(names, 16, SHARED)
        with pytest.raises(Killed):
            once(fleet, consent, tmp_path, dies_at=2)
        ends = once(fleet, consent, tmp_path)

        stages = {state.stage for state in ends.values()}
        assert {Stage.MEASURED, Stage.FAILED} <= stages
        assert stages <= {Stage.MEASURED, Stage.FAILED, Stage.GIVEN_UP}
        every = list(Records(tmp_path / "f").all())
        lying = [one for one in every if "clock" in " ".join(one.state.findings)]
        assert {one.job["host"] for one in lying} == {"h005"}

        stubfleet.repaired(tmp_path)
        for _ in range(CALLS):
            once(fleet, consent, tmp_path)
            if all_measured(tmp_path, wanted):
                break
    nothing_was_done_twice_nor_lost(tmp_path, wanted)


@pytest.mark.soak
def test_many_hosts_and_a_control_process_killed_three_times(tmp_path: Path) -> None:
    count = int(os.environ.get("SSDBENCH_FLEET_HOSTS", "60"))
    chance = random.Random(7)
    argv = [sys.executable, "-X", "faulthandler", "-m", "tests.unit.fleet.test_campaign"]
    argv += [str(tmp_path), str(count), os.environ.get("SSDBENCH_FLEET_AT_ONCE", "80")]
    with stubfleet.powered(tmp_path, count, seed=1) as hosts:
        wanted = to_be_measured(hosts)
        (tmp_path / "consent").write_text("\n".join(wanted))
        for _ in range(3):
            with subprocess.Popen(argv) as control:
                while not (tmp_path / "begun").exists():
                    time.sleep(0.1)
                time.sleep(chance.uniform(1, 8))
                control.send_signal(signal.SIGKILL)
        subprocess.run(argv, check=True)
        stubfleet.repaired(tmp_path)
        for _ in range(CALLS):
            subprocess.run(argv, check=True)
            if all_measured(tmp_path, wanted):
                break
    nothing_was_done_twice_nor_lost(tmp_path, wanted)


def main() -> None:
    """A control process that can be killed: the place, how many hosts, how many drives at once."""
    place, count, at_once = sys.argv[1:]
    consent = frozenset((Path(place) / "consent").read_text().split("\n"))
    fleet = fleet_of(stubfleet.names(int(count)), int(at_once), SHARED)
    once(fleet, consent, Path(place))


if __name__ == "__main__":
    main()
