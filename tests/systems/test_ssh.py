"""A fleet over real SSH: identities, versions, faults of hosts, and a rehearsal without drives."""

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ssdbench
from tests.support.devices import LoopDevice
from tests.systems.conftest import Machine
from tests.systems.sshhosts import SshHosts

PROFILE = """
precondition: [{pattern: sequential, block: 128KiB, fill: 1}]
repeats: 2
steady: {rule: seppanen, max_time: 2s}
window: 2s
settle: {window: 1s, flat: 1s, max_time: 2s}
measure: [{sweep: {read: 100, iodepth: 4}}]
"""
TARGET = "sim:x25m-g2-160,capacity=256MiB"
DRIVES = 5  # of each host: more drives than a message names


@pytest.fixture(scope="module")
def farm(machines: Callable[[str], Machine]) -> SshHosts:
    """Three hosts."""
    farm = SshHosts.of(machines)
    (farm.directory / "lot.yaml").write_text(PROFILE)
    for name in ("h1", "h2", "h3"):
        farm.add(name)
    return farm


@pytest.fixture
def drives(farm: SshHosts, tmp_path: Path) -> Iterator[dict[str, list[str]]]:
    """Loop devices of the first two hosts, which see no other block devices."""
    with LoopDevice.several(tmp_path) as make:
        own = {name: [make().node.name for _ in range(DRIVES)] for name in ("h1", "h2")}
        for name, host in farm.hosts.items():
            links = "".join(
                f"ln -s ../devices/virtual/block/{one} /sys/block/{one}\n"
                for one in own.get(name, ())
            )
            host.run("sh", "-ec", f"mount -t tmpfs tmpfs /sys/block\n{links}")
        yield own
        for host in farm.hosts.values():
            host.run("umount", "/sys/block")


def other_version(farm: SshHosts, host: str, **constants: str) -> list[str]:
    """Return the command of a fleet whose one host has another ssdbench than the others."""
    program = farm.directory / "any-ssdbench"
    changed = "; ".join(f"{name} = {value}" for name, value in constants.items())
    program.write_text(
        f"#!{sys.executable}\nimport socket\nimport ssdbench\n"
        f"if socket.gethostname() == {host!r}:\n"
        f"    ssdbench.__version__ = '9.9.9'\n"
        f"    import ssdbench.model.result as result\n"
        f"    {changed or 'pass'}\n"
        "from ssdbench.cli.main import main\nmain()\n"
    )
    program.chmod(0o755)
    return [str(program)]


def test_a_plan_shows_every_drive_and_drafts_a_consent_that_consents_to_nothing(
    farm: SshHosts, drives: dict[str, list[str]]
) -> None:
    draft = farm.directory / "draft.consent"
    file = farm.fleet_file("identities", drives=[{"identity": "loop:*"}], consent=draft.name)
    draft.write_text("")
    asked = farm.fleet("plan", file, "--json", ok=(2,))
    draft.unlink()
    nothing = farm.fleet_file("without", drives=[{"identity": "loop:*"}])
    shown = farm.fleet("plan", nothing, "--draft-consent", draft, ok=(2,))
    drafted = draft.read_text().splitlines()

    found = json.loads(asked.stdout)["drives"]
    names = {one["host"] + Path(one["target"]).name for one in found}
    assert names == {host + one for host, own in drives.items() for one in own}
    assert all(one["identity"] in shown.stdout for one in found)
    assert all(one["said"] == "no consent" for one in found)
    assert all(line.startswith("#") for line in drafted)
    assert "10 drives would be erased, but there is no `consent:` file" in shown.stderr
    assert (
        "exists, and is not overwritten"
        in farm.fleet("plan", file, "--draft-consent", draft, ok=(2,)).stderr
    )

    draft.write_text(draft.read_text().replace(f"#{found[3]['identity']}", found[3]["identity"]))
    said = [
        one["said"]
        for one in json.loads(farm.fleet("plan", file, "--json", ok=(2,)).stdout)["drives"]
    ]
    assert said == ["no consent"] * 3 + [""] + ["no consent"] * 6


def test_a_fleet_is_rehearsed_over_ssh_without_a_drive_and_each_tells_of_another_version(
    farm: SshHosts,
) -> None:
    words = other_version(farm, "h2")
    file = farm.fleet_file("rehearsal", profile="lot.yaml", targets=TARGET, ssdbench=words)
    note = f"note: ssdbench is 9.9.9 on h2, and {ssdbench.__version__} here"

    planned = farm.fleet("plan", file)
    ran = farm.fleet("run", file)
    again = farm.fleet("run", file)
    status = farm.fleet("status", file)
    merged = farm.control.run(
        sys.executable, "-m", "ssdbench", "merge", file.with_suffix(".fleet") / "runs", ok=(0, 1)
    )

    assert "3 drives would be measured" in planned.stdout
    assert "Warning" not in ran.stderr  # of Dask: the control host has no way to the internet
    assert "3 drives: 3 measured" in ran.stdout and "3 drives: 3 measured" in again.stdout
    assert status.stdout.count(" measured ") == 3
    assert all(note in told for told in (planned.stdout, ran.stderr, again.stderr, status.stdout))
    assert f"measured by ssdbench {ssdbench.__version__}, 9.9.9, which have" in merged.stdout
    assert len(list((farm.hosts["h3"].directory / "lib").rglob("result.json"))) == 1


def test_a_host_that_measures_by_another_method_is_refused(farm: SshHosts) -> None:
    words = other_version(farm, "h3", **{"result.METHOD": "2"})
    file = farm.fleet_file("methods", profile="lot.yaml", targets=TARGET, ssdbench=words)

    for command in ("plan", "run"):
        told = farm.fleet(command, file, ok=(2,)).stderr
        assert "h3: its ssdbench 9.9.9 measures by method 2" in told
    assert not list((farm.hosts["h1"].directory / "lib").rglob("methods"))


def test_all_faults_of_all_hosts_are_told_at_once_each_with_its_reason(farm: SshHosts) -> None:
    for name in ("h4", "h5"):
        farm.add(name)
    program = farm.directory / "some-ssdbench"
    program.write_text(
        f'#!/bin/sh\n[ "$(hostname)" = h2 ] && exec no-ssdbench "$@"\n'
        f'exec {sys.executable} -m ssdbench "$@"\n'
    )
    program.chmod(0o755)
    farm.renew_key("h3")
    farm.hosts["h4"].end()
    full = "/var/lib/ssdbench/fleet"
    farm.hosts["h5"].run("mkdir", full)
    farm.hosts["h5"].run("mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", full)
    keys: dict[str, object] = {"profile": "lot.yaml", "targets": TARGET}
    file = farm.fleet_file("faults", ssdbench=[str(program)], canary=0, **keys)

    planned = farm.fleet("plan", file, ok=(2,))
    assert "h2: h2 cannot list its drives" in planned.stderr
    assert "no-ssdbench: not found" in planned.stderr
    told = planned.stdout
    assert "no answer: h3: the host key of h3 is not the one in known_hosts" in told
    assert "no answer: h4: h4 cannot be reached: ssh: connect to host" in told
    assert "h1 " in told and "h5 " in told

    file = farm.fleet_file("faults", canary=0, **keys)
    ran = farm.fleet("run", file, ok=(1,))
    # The run says which file found no room, or its start says it where no such file fits any more.
    no_room = re.compile("failed.*(KiB free|No space left on device)")
    assert no_room.search(ran.stderr)
    status = farm.fleet("status", file).stdout
    rows = {line.split()[2]: line for line in status.splitlines() if TARGET in line}
    assert " measured " in rows["h1"] and " failed " in rows["h5"]
    assert no_room.search(rows["h5"])
    assert "no answer: h3: the host key" in status and "no answer: h4: h4 cannot" in status
    assert "waiting" not in status
