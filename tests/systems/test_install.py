"""`fleet install` and the Ansible role put this version on hosts over SSH, without a registry."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ssdbench import __version__
from tests.systems.conftest import Machine, required
from tests.systems.sshhosts import SshHosts
from tests.systems.wheelhouse import ROOT, wheels

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.fixture(scope="module")
def farm(machines: Callable[[str], Machine]) -> SshHosts:
    """Two hosts, and the wheels on the control machine."""
    farm = SshHosts.of(machines)
    wheels(farm.directory / "wheels", PYTHON)
    for name in ("h1", "h2"):
        farm.add(name)
    return farm


def test_fleet_install_installs_once_and_what_it_installed_runs(farm: SshHosts) -> None:
    prefix = farm.directory / "prefix"  # the machines share it: the second host finds it there
    file = farm.fleet_file(
        "installed", targets="sim:x25m-g2-160,capacity=256MiB",
        ssdbench=[str(prefix / "bin" / "ssdbench")],
    )  # fmt: skip
    words = ("install", file, "--wheels", farm.directory / "wheels", "--prefix", prefix, "--json")
    before = farm.fleet("plan", file, ok=(2,))
    one = json.loads(file.read_text())
    (farm.directory / "one.yaml").write_text(json.dumps({**one, "hosts": one["hosts"][:1]}))

    alone = farm.fleet("install", farm.directory / "one.yaml", *words[2:])
    again = farm.fleet(*words)
    after = farm.fleet("plan", file)

    assert "ssdbench" in before.stderr
    assert json.loads(alone.stdout)["hosts"] == {"h1": "installed"}
    assert json.loads(again.stdout)["hosts"] == {"h1": "there", "h2": "there"}
    assert (
        prefix / "bin/ssdbench"
    ).readlink() == prefix / f"lib/ssdbench/{__version__}/bin/ssdbench"
    assert "2 drives would be measured" in after.stdout


def test_the_ansible_role_plans_installs_and_then_changes_nothing(farm: SshHosts) -> None:
    prefix = farm.directory / "by-ansible"
    inventory = farm.directory / "inventory"
    inventory.write_text(
        f"[drive_hosts]\nh1 ansible_ssh_common_args='-F {farm.directory}/config'"
        " ansible_ssh_pipelining=true ansible_ssh_transfer_method=piped"
        f" ansible_python_interpreter={sys.executable}\n"
    )
    given = {
        "ssdbench_wheels": str(farm.directory / "wheels"), "ssdbench_prefix": str(prefix),
        "ssdbench_packages": [],
    }  # fmt: skip
    play: list[str | Path] = [
        required("ansible-playbook"), "-i", inventory, ROOT / "docs/examples/install.yaml",
        "-e", json.dumps(given), "-T", "60",
    ]  # fmt: skip

    planned = farm.control.run(*play, "--check")
    assert not prefix.exists()
    made = farm.control.run(*play)
    again = farm.control.run(*play)

    assert "failed=0" in planned.stdout and "changed=3" in planned.stdout
    assert "failed=0" in made.stdout and "changed=0" not in made.stdout
    assert "failed=0" in again.stdout and "changed=0" in again.stdout
    told = farm.hosts["h1"].run(prefix / "bin" / "ssdbench", "--version")
    assert told.stdout == f"ssdbench, version {__version__}\n"
