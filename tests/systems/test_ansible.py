"""The example for Ansible over real SSH: what changed, what failed, and what was found is true."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.systems.conftest import Machine, required
from tests.systems.sshhosts import SshHosts
from tests.systems.test_ssh import PROFILE

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "ansible.yaml"
DRIVE = "sim:x25m-g2-160,capacity=256MiB"  # its node is its identity
INVENTORY = """
[drive_hosts]
h1
[drive_hosts:vars]
ansible_ssh_common_args="-F {directory}/config"
ansible_pipelining=true
ansible_python_interpreter={python}
ssdbench_drives=[{{"node": "{drive}", "identity": "{drive}"}}]
ssdbench_profile={directory}/lot.yaml
"""


@pytest.fixture(scope="module")
def farm(machines: Callable[[str], Machine]) -> SshHosts:
    """A control machine with the playbook, which polls faster, and a host with ssdbench."""
    required("ansible-playbook")
    required("sudo")
    farm = SshHosts.of(machines)
    host, own = farm.add("h1"), farm.directory
    (own / "lot.yaml").write_text(PROFILE)
    (own / "inventory").write_text(
        INVENTORY.format(directory=own, drive=DRIVE, python=sys.executable)
    )
    (own / "ansible.yaml").write_text(EXAMPLE.read_text().replace("poll: 300", "poll: 2"))
    programs = own / "programs"
    programs.mkdir()
    (programs / "ssdbench").write_text(f'#!/bin/sh\nexec {sys.executable} -m ssdbench "$@"\n')
    (programs / "ssdbench").chmod(0o755)
    host.run("mount", "--bind", programs, "/usr/local/sbin")
    return farm


def play(farm: SshHosts, *words: str, ok: int = 0) -> subprocess.CompletedProcess[str]:
    """Run the playbook."""
    argv = ["ansible-playbook", "-i", "inventory", "ansible.yaml", *words]
    return farm.control.run(*argv, ok=(ok,))


def recap(done: subprocess.CompletedProcess[str]) -> dict[str, int]:
    """Return the counts of h1."""
    (line,) = re.findall(r"^h1 .*", done.stdout, re.MULTILINE)
    return {name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", line)}


def test_a_playbook_plans_measures_once_and_tells_what_is_not_validated(farm: SshHosts) -> None:
    planned = play(farm, "--check")
    nothing = list((farm.hosts["h1"].directory / "lib").iterdir())
    measured = play(farm)
    again = play(farm)
    checked = play(farm, "--check")
    failed = play(farm, "-e", "ssdbench_not_validated_fails=true", ok=2)

    assert nothing == []
    assert "Fill the drive" in planned.stdout
    plays = (planned, measured, again, checked, failed)
    assert [recap(one)["changed"] for one in plays] == [1, 1, 0, 0, 0]
    assert [recap(one)["failed"] for one in plays] == [0, 0, 0, 0, 1]
    assert not any("ASYNC FAILED" in one.stdout for one in plays)
    assert all(f"NOT VALIDATED: ['{DRIVE}']" in one.stdout for one in plays[1:])
    assert len(list((farm.hosts["h1"].directory / "lib").rglob("result.json"))) == 1


def test_a_drive_that_is_refused_fails_its_host_with_the_reason(farm: SshHosts) -> None:
    drives = '{"ssdbench_drives": [{"node": "/dev/no-drive", "identity": "eui.1"}]}'

    failed = play(farm, "-e", drives, ok=2)

    assert recap(failed)["failed"] == 1 and recap(failed)["changed"] == 0
    assert "/dev/no-drive" in failed.stdout
