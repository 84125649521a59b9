"""The example for Slurm, as a user with sudo: on two nodes, and a run that meets its limit."""

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ssdbench.target.inspect import inspect
from tests.support.devices import LoopDevice
from tests.systems.conftest import Machine, connect, required, until

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "slurm.sh"
PLACE = Path("/run/job")  # of the machine; users can read it
USER = "nobody"
DRIVE = "sim:x25m-g2-160,capacity=256MiB"
# Slurm's clock has a resolution of a minute, so the signal comes 60 to 120 s after the start.
LIMITS = {"--time=3-00:00:00": "--time=3", "USR1@300": "USR1@60", "--wait 4m": "--wait 50s"}
PROFILE = """
precondition: [{pattern: sequential, block: 128KiB, fill: 1}]
repeats: 40
steady: {rule: seppanen, max_time: 2s}
window: 2s
settle: {window: 1s, flat: 1s, max_time: 2s}
measure: [{sweep: {read: 100, iodepth: 4}}]
"""
CONFIG = """
ClusterName=one
SlurmctldHost=n1(10.99.1.1)
SlurmUser=root
AuthInfo=socket=/run/munge.socket,cred_expire=5
StateSaveLocation=/run/slurm/state
SlurmdSpoolDir=/run/slurm/spool
SlurmctldPidFile=/run/slurm/ctld.pid
SlurmdPidFile=/run/slurm/d.pid
ProctrackType=proctrack/linuxproc
MpiDefault=none
ReturnToService=2
KillWait=5
NodeName=n1 NodeAddr=10.99.1.1 CPUs=1
NodeName=n2 NodeAddr=10.99.1.2 CPUs=1
PartitionName=all Nodes=n1,n2 Default=YES State=UP
"""


@pytest.fixture(scope="module")
def nodes(machines: Callable[[str], Machine]) -> list[Machine]:
    """A cluster of two nodes, and a user who may use sudo."""
    for name in ("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "sudo"):
        required(name)
    first, second = nodes = [machines("n1"), machines("n2")]
    connect(first, second, 1)
    key = os.urandom(128)
    for node in nodes:
        equip(node, key)
    nodes[0].start(required("slurmctld"), "-D", "-f", "/run/slurm.conf")
    for node in nodes:
        node.start(required("slurmd"), "-D", "-f", "/run/slurm.conf", "-N", node.name)
    told = ("sinfo", "-h", "-o", "%T %D")
    until(lambda: as_user(nodes[0], *told) == "idle 2\n", "the nodes' start")
    return nodes


def equip(node: Machine, key: bytes) -> None:
    """Start munge on a node, and give it the configuration, ssdbench and the user's right."""
    own = node.directory
    (own / "slurm.conf").write_text(CONFIG)
    (own / "key").write_bytes(key)
    (own / "key").chmod(0o600)
    (own / "sudoers").mkdir()
    (own / "sudoers" / "user").write_text(f"{USER} ALL=(ALL) NOPASSWD: ALL\n")
    (own / "sudoers" / "user").chmod(0o440)
    (own / "programs").mkdir()
    program = own / "programs" / "ssdbench"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ssdbench "$@"\n')
    program.chmod(0o755)
    node.run("mkdir", "-p", "/run/slurm/state", "/run/slurm/spool", "/etc/slurm", PLACE)
    node.run("chmod", "777", PLACE)
    for source, place in (("sudoers", "/etc/sudoers.d"), ("programs", "/usr/local/sbin")):
        node.run("mount", "--bind", own / source, place)
    node.run("cp", own / "slurm.conf", "/run/slurm.conf")
    node.start(
        required("munged"), "-F", "--force", "--key-file", own / "key",
        "--socket", "/run/munge.socket", "--pid-file", "/run/munged.pid",
        "--seed-file", own / "seed", "--log-file", own / "munge.log",
    )  # fmt: skip
    until(lambda: node.run("ls", "/run").stdout.count("munge.socket"), "munged's start")


def as_user(node: Machine, *argv: str) -> str:
    """Return what a program prints that the user runs; empty if it failed."""
    words = ["setpriv", f"--reuid={USER}", "--clear-groups", "env", "SLURM_CONF=/run/slurm.conf"]
    done = node.run(*words, *argv, ok=range(256), cwd=PLACE)
    return "" if done.returncode else done.stdout


def put(node: Machine, name: str, text: str) -> None:
    """Put a file where the user can read it."""
    (node.directory / name).write_text(text)
    node.run("cp", node.directory / name, PLACE)


def state(node: Machine, job: str) -> dict[str, str]:
    """Return what scontrol tells of a task."""
    told = as_user(node, "scontrol", "show", "job", f"{job}_1").split()
    return dict(word.split("=", 1) for word in told if "=" in word)


@pytest.mark.timeout(600)
def test_the_drives_of_two_nodes_are_measured_each_on_its_node(nodes: list[Machine]) -> None:
    lines = "".join(
        f"{node.name} {DRIVE},seed={n} {DRIVE},seed={n}\n" for n, node in enumerate(nodes, 1)
    )
    submit = re.search(r"^# (n=0; while .*)$", EXAMPLE.read_text(), re.MULTILINE)
    assert submit
    for node in nodes:
        put(node, "slurm.sh", EXAMPLE.read_text().replace("pessimistic", f"{PLACE}/two.yaml"))
        put(node, "two.yaml", PROFILE.replace("repeats: 40", "repeats: 2"))
        put(node, "drives.txt", lines)
    as_user(nodes[0], "sh", "-c", submit[1])
    until(lambda: as_user(nodes[0], "squeue", "-h") == "", "the end of all tasks", most_s=500)

    for node in nodes:
        told = node.run("sh", "-c", f"cat {PLACE}/slurm-*.out").stdout
        found = [one.parent.name for one in (node.directory / "lib" / "lot").glob("*/result.json")]
        assert found == [f"{DRIVE},seed={node.name[1]}"], told


@pytest.mark.timeout(2400)
def test_a_task_that_meets_its_limit_of_time_is_queued_again_and_goes_on(
    nodes: list[Machine], tmp_path: Path
) -> None:
    node = nodes[0]
    script = EXAMPLE.read_text().replace("pessimistic", f"{PLACE}/lot.yaml")
    for given, ours in LIMITS.items():
        assert given in script
        script = script.replace(given, ours)
    put(node, "slurm.sh", script)
    put(node, "lot.yaml", PROFILE)
    with LoopDevice.several(tmp_path) as make:
        drive = make()
        put(node, "drives.txt", f"n1 {drive.node} {inspect(str(drive.node)).id}\n")
        job = as_user(
            node, "sbatch", "--parsable", "--array=1", "-w", "n1", "slurm.sh", "drives.txt"
        )
        job = job.strip()
        until(lambda: int(state(node, job).get("Restarts", 0)), "a requeue", most_s=300)
        fills = [one.stat().st_mtime_ns for one in filled(node)]
        ends = ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED")
        until(lambda: state(node, job).get("JobState") in ends, "the end of the job", most_s=1800)
    told = node.run("sh", "-c", f"cat {PLACE}/slurm-*.out").stdout

    assert "Permission denied" not in told
    assert state(node, job)["ExitCode"] == "1:0", told  # measured, but NOT VALIDATED
    assert fills and [one.stat().st_mtime_ns for one in filled(node)] == fills
    assert len(list((node.directory / "lib/lot/loop:").rglob("result.json"))) == 1


def filled(node: Machine) -> list[Path]:
    """Return the records of finished fills."""
    return sorted((node.directory / "lib/lot/loop:").rglob("stages/01-*/**/unit.json"))
