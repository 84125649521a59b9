"""Restrict this process to CPUs and memory nodes, and keep all CPUs out of deep idle states.

Programs that are started within such a block inherit its CPUs and memory policy. The kernel removes
the idle limit when the file that set it is closed, so the limit ends with a killed process
(Documentation/power/pm_qos_interface.rst).
"""

import ctypes
import os
import struct
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ssdbench.errors import HostLacks
from ssdbench.host.topology import LATENCY_NODE, cpu_list

LIBRARY = "libnuma.so.1"
DEFAULT = "default"
_MODES = {DEFAULT: 0, "prefer": 1, "bind": 2, "interleave": 3, "local": 4}  # uapi mempolicy.h
_MOST_NODES = 1024


@contextmanager
def shallow_idle() -> Iterator[None]:
    """Keep all CPUs out of idle states that take long to leave, in a block. Raises HostLacks."""
    with ExitStack() as held:
        try:
            node = held.enter_context(Path(LATENCY_NODE).open("r+b", buffering=0))
            node.write(struct.pack("=i", 0))
        except OSError as error:
            raise HostLacks(
                f"idle states cannot be limited: {LATENCY_NODE}: {error.strerror}",
                hint="Run as root, or set `idle: keep`.",
            ) from error
        yield


@contextmanager
def pinned(cpus: Collection[int]) -> Iterator[None]:
    """Restrict this process to some CPUs in a block; an empty set does nothing.

    Raises HostLacks.
    """
    if not cpus:
        yield
        return
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, cpus)
    except OSError as error:
        wanted = ", ".join(str(cpu) for cpu in sorted(cpus))
        raise HostLacks(
            f"ssdbench cannot use CPU {wanted}: {error.strerror}",
            hint="Choose from the CPUs that `taskset -p $$` shows.",
        ) from error
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def memory_policy(policy: str) -> Iterator[None]:
    """Set the memory policy of this process, and restore it at the end. Raises HostLacks.

    The policy is written as in the kernel, such as `bind:0`, `interleave:0-1`, `prefer:1`, `local`;
    an empty policy changes nothing.
    """
    if not policy:
        yield
        return
    before = policy_of() or DEFAULT
    _set(policy)
    try:
        if (kept := policy_of()) != policy:
            raise HostLacks(
                f"memory of ssdbench was set to {policy}, but the kernel keeps {kept}",
                hint="Set `own_memory: keep`.",
            )
        yield
    finally:
        _set(before)


def policy_of(process: str = "self", *, root: Path = Path("/")) -> str:
    """Return the memory policy of a process, or of a thread `PID/task/TID`; empty if not shown.

    The policy is read at the first memory mapping. This mapping belongs to the program's file and
    has no policy of its own, so the kernel shows the policy of the process or thread for it.
    """
    try:
        with (root / "proc" / process / "numa_maps").open() as maps:
            words = maps.readline().split()
    except OSError:
        return ""
    return words[1] if len(words) > 1 else ""


def _set(policy: str) -> None:
    mode, _, nodes = policy.partition(":")
    try:
        library = ctypes.CDLL(LIBRARY, use_errno=True)
    except OSError as error:
        raise HostLacks(
            "a memory policy of ssdbench needs libnuma",
            hint="Install it, for example with `apt-get install libnuma1`.",
        ) from error
    width = 8 * ctypes.sizeof(ctypes.c_ulong)
    mask = (ctypes.c_ulong * (_MOST_NODES // width))()
    for node in cpu_list(nodes):
        mask[node // width] |= 1 << node % width
    # Without nodes, the kernel accepts no mask.
    given, most = (mask, _MOST_NODES) if nodes else (None, 0)
    library.set_mempolicy.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong]
    if library.set_mempolicy(_MODES[mode], given, most) != 0:
        why = os.strerror(ctypes.get_errno())
        raise HostLacks(
            f"the memory policy {policy} cannot be set: {why}", hint="Set `own_memory: keep`."
        )
