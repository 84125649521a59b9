"""The states of `tests.vm.states` in a guest: each reason named, harmless ones let pass.

Nothing is written.

A sample in CI, because a guest is slow; all of them on both kernels in `nox -s soak`.
"""

import json
import os
from pathlib import Path

import pytest

from ssdbench.host.lock import waiting
from ssdbench.lab.archive import Archive, Package, extract
from ssdbench.lab.session import Lab
from tests.vm.conftest import REPOSITORY, Guest, cache
from tests.vm.states import STATES, chosen

pytestmark = pytest.mark.vm

# User space that makes the states; the guest runs it where it was extracted.
PACKAGES = (
    "mdadm", "lvm2", "libdevmapper-event1.02.1", "libaio1", "libedit2", "libbsd0", "libmd0",
    "btrfs-progs", "libext2fs2", "liblzo2-2", "bcache-tools",
)  # fmt: skip
SAMPLE = 6  # every sixth state, so that each family has two or three
LEAST = 60
DISK_BYTES = 128 << 20
BUSES = {"S": "scsi", "N": "nvme"}


@pytest.fixture(scope="session")
def tools() -> Path:
    """Where mdadm, lvm, btrfs and bcache's tools lie; fetched once into the lab's cache."""
    into = cache() / "state-tools"
    with waiting(cache() / "state-tools.lock"):
        if not (into / "complete").exists():
            archive = Archive(cache())
            stable = [
                Package(name, next(v for v in archive.versions(name) if "bpo" not in v))
                for name in PACKAGES
            ]
            extract([archive.download(package) for package in stable], into)
            (into / "complete").touch()
    return into


def refused(guest: Guest, lab: Lab, tools: Path, directory: Path, number: int) -> None:
    disks = []
    for letter in "ABCSN":
        (directory / letter).touch()
        os.truncate(directory / letter, DISK_BYTES)
        disks.append(f"{BUSES.get(letter, 'virtio')}={directory / letter}")

    answer = guest(
        f"exec {REPOSITORY}/.venv/bin/python -m tests.vm.states {tools} {number} {SAMPLE}",
        disks=tuple(disks),
        modules=False,
    )

    assert answer.status == 0, answer.stderr
    tried = [json.loads(line) for line in answer.stdout.splitlines()]
    assert len(tried) == len(chosen(number, SAMPLE, lab.kernel.series))
    wrong = [
        state
        for state in tried
        if state["fault"]
        or not state["unchanged"]
        or not any(state["expected"] in reason for reason in state["reasons"] or [""])
        or bool(state["expected"]) != bool(state["reasons"])
    ]
    assert not wrong, json.dumps(wrong, indent=1)


def test_there_are_enough_states() -> None:
    assert len({state.name for state in STATES}) == len(STATES) >= LEAST


def test_a_sample_of_dangerous_states_is_refused_by_name(
    guest: Guest, lab: Lab, tools: Path, tmp_path: Path
) -> None:
    refused(guest, lab, tools, tmp_path, 0)


@pytest.mark.soak
@pytest.mark.parametrize("number", range(1, SAMPLE))
def test_all_other_dangerous_states_are_refused_by_name(
    guest: Guest, lab: Lab, tools: Path, tmp_path: Path, number: int
) -> None:
    refused(guest, lab, tools, tmp_path, number)
