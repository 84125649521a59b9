"""NUMA nodes from a profile's wishes and what this host has (pure).

`drive` stands for the node that the drive is attached to, so that a profile fits several hosts.
"""

from collections.abc import Collection

from ssdbench.errors import HostLacks
from ssdbench.host.topology import Topology, cpu_list, cpu_text
from ssdbench.model.profile import KEEP

DRIVE = "drive"
LOCAL = "local"


def cpus_of(name: str, wish: str, host: Topology) -> tuple[int, ...]:
    """CPUs of the nodes that a setting names; none for `keep`.

    Raises HostLacks for a node that this host does not have, and where it has one only.
    """
    if wish == KEEP:
        return ()
    nodes = _nodes(name, wish, host, sorted(set(host.node_of.values())))
    return tuple(cpu for cpu in host.cpus if host.node_of.get(cpu) in nodes)


def nodes_holding(wish: str, cpus: Collection[int], host: Topology) -> str:
    """The nodes as fio takes them, where `cpus` are exactly theirs; else nothing.

    fio's `numa_cpu_nodes` allows all CPUs of a node, whatever it was pinned to (measured: fio 3.33
    under `taskset -c 1` runs on 0 and 1 with it), so it may not be used for fewer.
    """
    if wish == KEEP:
        return ""
    nodes = {host.node_of[cpu] for cpu in cpus}
    every = {cpu for cpu in host.cpus if host.node_of.get(cpu) in nodes}
    return cpu_text(nodes) if every == set(cpus) else ""


def memory_policy(name: str, wish: str, host: Topology) -> str:
    """The policy as fio and the kernel write it, such as `bind:0-1`; nothing for `keep`.

    Raises HostLacks for a node without memory, and where there is one only.
    """
    if wish in (KEEP, LOCAL):
        return "" if wish == KEEP else LOCAL
    mode, _, where = wish.partition(":")
    return f"{mode}:{cpu_text(_nodes(name, where, host, host.memory_nodes))}"


def _nodes(name: str, wish: str, host: Topology, there: Collection[int]) -> tuple[int, ...]:
    listed = ", ".join(map(str, there))
    if len(there) < 2:
        raise HostLacks(
            f"{name}: this host has only one NUMA node",
            hint=f"Set `{name}: keep` in the profile.",
        )
    if wish == DRIVE and host.drive_node is None:
        raise HostLacks(
            f"{name}: the kernel knows no NUMA node of this drive",
            hint=f"Name the node yourself: {listed}.",
        )
    asked = (host.drive_node,) if wish == DRIVE and host.drive_node is not None else cpu_list(wish)
    if missing := [node for node in asked if node not in there]:
        raise HostLacks(
            f"{name}: there is no NUMA node {cpu_text(missing)}", hint=f"There are {listed}."
        )
    return asked
