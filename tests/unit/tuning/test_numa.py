"""NUMA nodes from wishes and a made-up host of two."""

from dataclasses import replace
from pathlib import Path

import pytest

from ssdbench.errors import HostLacks
from ssdbench.generator.fio.dryruns import placed, supports_option
from ssdbench.host.placement import policy_of
from ssdbench.host.sysfs import Sysfs
from ssdbench.host.topology import Topology, topology
from ssdbench.model.profile import Host
from ssdbench.tuning.plan import host_plan

NODE = "sys/devices/system/node"
FILES = {
    "sys/devices/system/cpu/online": "0-3\n",
    f"{NODE}/has_memory": "0-1\n",
    f"{NODE}/node0/cpulist": "0-1\n",
    f"{NODE}/node1/cpulist": "2-3\n",
    "sys/block/sda/device/numa_node": "1\n",
}


@pytest.fixture
def two(tmp_path: Path) -> Topology:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return topology("sda", Sysfs(tmp_path))


def test_the_drives_node_is_found_and_fio_is_put_there_with_its_memory(two: Topology) -> None:
    plan = host_plan(Host(fio_nodes="drive", fio_memory="bind:drive"), two, "d")

    assert plan.fio_cpus == (2, 3)
    assert plan.fio_options == {"numa_cpu_nodes": "1", "numa_mem_policy": "bind:1"}
    assert "memory of fio = bind:1: " in "\n".join(plan.lines())


def test_ssdbench_on_the_other_node_leaves_fio_its_own_and_local_memory(two: Topology) -> None:
    plan = host_plan(Host(own_nodes="0", own_memory="bind:0"), two, "d")

    assert (plan.own_cpus, plan.fio_cpus) == ((0, 1), (2, 3))
    assert plan.fio_options == {"numa_mem_policy": "local"}  # it would inherit ours
    assert [(e["setting"], e["value"]) for e in plan.held()][-1] == ("memory of ssdbench", "bind:0")


def test_fewer_cpus_than_a_nodes_are_not_widened_by_fio_to_all_of_them(two: Topology) -> None:
    plan = host_plan(Host(fio_nodes="1", fio_cpus=(3,)), two, "d")

    assert plan.fio_cpus == (3,)
    assert plan.fio_options == {}


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        (Host(fio_nodes="2"), "there is no NUMA node 2"),
        (Host(fio_memory="interleave:0,3"), "there is no NUMA node 3"),
        (Host(fio_nodes="1", fio_cpus=(0,)), "CPU 0 is on none of the nodes of fio_nodes"),
    ],
)
def test_a_node_that_is_not_there_is_refused_with_those_that_are(
    wishes: Host, said: str, two: Topology
) -> None:
    with pytest.raises(HostLacks, match=said) as refused:
        host_plan(wishes, two, "d")

    assert refused.value.hint


@pytest.mark.parametrize("wish", [Host(fio_nodes="0"), Host(fio_memory="bind:0")])
def test_on_a_host_of_one_node_there_is_nothing_to_choose(wish: Host) -> None:
    with pytest.raises(HostLacks, match="only one NUMA node"):
        host_plan(wish, Topology(cpus=(0, 1), node_of={0: 0, 1: 0}), "d")


def test_a_drive_without_a_known_node_asks_for_a_number(two: Topology) -> None:
    with pytest.raises(HostLacks, match="does not know the NUMA node of this drive") as refused:
        host_plan(Host(fio_memory="bind:drive"), replace(two, drive_node=None), "d")

    assert "0, 1" in refused.value.hint


def test_local_memory_is_had_on_every_host() -> None:
    plan = host_plan(Host(fio_memory="local"), Topology(cpus=(0,)), "d")

    assert plan.fio_options == {"numa_mem_policy": "local"}


def test_a_fio_without_libnuma_is_known_by_what_it_says() -> None:
    without = (
        "numa_mem_policy: Build fio with libnuma-dev(el) to enable this option\n type: unsupported"
    )

    assert supports_option("numa_mem_policy: NUMA memory policy setup\n type: string")
    assert not supports_option(without)
    assert not supports_option("No such command: numa_mem_policy")


def test_a_variant_that_chooses_its_cpus_is_not_sent_back_to_the_nodes() -> None:
    numa = {"numa_cpu_nodes": "1", "numa_mem_policy": "bind:1"}

    assert placed(numa, ()) == numa
    assert placed(numa, (0,)) == {"numa_mem_policy": "bind:1"}


def test_the_policy_of_a_process_is_read_from_its_first_mapping(tmp_path: Path) -> None:
    maps = tmp_path / "proc/7/task/9/numa_maps"
    maps.parent.mkdir(parents=True)
    maps.write_text("55e884b4b000 interleave:0-1 file=/usr/bin/fio mapped=2 N0=2\n")

    assert policy_of("7/task/9", root=tmp_path) == "interleave:0-1"
    assert policy_of("8", root=tmp_path) == ""
