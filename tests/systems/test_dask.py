"""Dask clusters that others started measure the drives of a fleet, within its limits."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.systems.conftest import Machine, required, until
from tests.systems.sshhosts import SshHosts

PROFILE = """
precondition: [{pattern: sequential, block: 128KiB, fill: 1}]
steady: {rule: seppanen, max_time: 2s}
repeats: 2
window: 2s
settle: {window: 1s, flat: 1s, max_time: 2s}
measure: [{sweep: {read: 100, iodepth: 4}}]
"""
CLUSTERS = {
    "LocalCluster": """
from distributed import LocalCluster
cluster = LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=None)
""",
    "dask-jobqueue": """
from dask_jobqueue.local import LocalCluster
nearby = {"host": "127.0.0.1", "dashboard": False}
cluster = LocalCluster(cores=2, processes=1, memory="1GB", scheduler_options=nearby)
cluster.adapt(minimum_jobs=0, maximum_jobs=2)
""",
}


@pytest.fixture(scope="module")
def farm(machines: Callable[[str], Machine]) -> SshHosts:
    """Three hosts."""
    farm = SshHosts.of(machines)
    (farm.directory / "lot.yaml").write_text(PROFILE)
    for name in ("h1", "h2", "h3"):
        farm.add(name)
    return farm


@pytest.fixture(params=CLUSTERS)
def scheduler(request: pytest.FixtureRequest, farm: SshHosts) -> Iterator[str]:
    """A cluster at work on the control machine; its address."""
    other = Path(required("ansible-playbook")).with_name("python")  # where nox installed packages
    script = "import dask_jobqueue; print(dask_jobqueue.__path__[0])"
    found = subprocess.run([other, "-c", script], capture_output=True, text=True, check=True)
    packages = farm.directory / "packages"
    packages.mkdir(exist_ok=True)
    if not (packages / "dask_jobqueue").exists():
        (packages / "dask_jobqueue").symlink_to(found.stdout.strip())
    program, told = farm.directory / "cluster.py", farm.directory / "address"
    lines = f"{CLUSTERS[request.param]}print(cluster.scheduler_address, flush=True)".splitlines()
    program.write_text(
        "import time\nif __name__ == '__main__':\n"
        + "".join(f"    {line}\n" for line in [*lines, "time.sleep(600)"])
    )
    with told.open("w") as out:
        cluster = subprocess.Popen(
            farm.control.enter(["env", "-C", farm.directory, sys.executable, program]),
            stdout=out, env={**os.environ, "PYTHONPATH": str(packages)},
        )  # fmt: skip
    until(lambda: told.read_text().endswith("\n"), "the start of a cluster")
    yield told.read_text().strip()
    cluster.kill()
    cluster.wait()


def test_a_cluster_that_is_already_there_measures_each_drive_within_the_limits(
    farm: SshHosts, scheduler: str
) -> None:
    file = farm.fleet_file(
        f"at-{scheduler.rpartition(':')[2]}", profile="lot.yaml",
        targets="sim:x25m-g2-160,capacity=256MiB", engine={"scheduler": scheduler}, canary=0,
        limits={"per_rack": 2},
    )  # fmt: skip

    ran = farm.fleet("run", file)

    assert "3 drives: 3 measured" in ran.stdout
    results = (file.with_suffix(".fleet") / "runs").rglob("result.json")
    times = [json.loads(path.read_text()) for path in results]
    spans = sorted((one["started_at"], one["finished_at"]) for one in times)
    assert len(spans) == 3
    assert spans[2][0] >= min(spans[0][1], spans[1][1])  # two of a rack, then the third
