"""Where fio and ssdbench run and take their memory, asked of this kernel."""

import os
from pathlib import Path

import pytest

from ssdbench.errors import HostLacks
from ssdbench.generator.fio.dryruns import read_back, require_numa
from ssdbench.host.command import spawn
from ssdbench.host.placement import memory_policy, policy_of

pytestmark = pytest.mark.host

FIRST_NODE = 0
NOT_THERE = 999


def test_the_job_of_a_fio_has_the_memory_and_the_cpus_that_it_was_given() -> None:
    cpu = min(os.sched_getaffinity(0))
    wanted = {"numa_mem_policy": f"bind:{FIRST_NODE}"}

    require_numa(wanted)

    assert read_back(wanted, [cpu]) == {"cpus": str(cpu), "memory": f"bind:{FIRST_NODE}"}


def test_a_node_that_the_kernel_does_not_have_is_refused_in_fios_words() -> None:
    with pytest.raises(HostLacks, match=f"does not run under numa_mem_policy=bind:{NOT_THERE}"):
        read_back({"numa_mem_policy": f"bind:{NOT_THERE}"}, [])


def test_our_own_policy_lasts_as_long_as_the_block() -> None:
    with memory_policy(f"bind:{FIRST_NODE}"):
        inside = policy_of()

    assert (inside, policy_of()) == (f"bind:{FIRST_NODE}", "default")


def test_a_policy_within_another_is_put_back_to_that() -> None:
    with memory_policy("local"):
        with memory_policy(f"interleave:{FIRST_NODE}"):
            inside = policy_of()
        between = policy_of()

    assert (inside, between, policy_of()) == (f"interleave:{FIRST_NODE}", "local", "default")


def test_a_program_started_under_a_policy_has_it(tmp_path: Path) -> None:
    out, err = tmp_path / "out", tmp_path / "err"
    with memory_policy(f"bind:{FIRST_NODE}"):
        started = spawn(["cat", "/proc/self/numa_maps"], stdout=out, stderr=err, cpus=[0])

    assert started.wait(120) == 0
    assert {line.split()[1] for line in out.read_text().splitlines()} == {f"bind:{FIRST_NODE}"}
