"""Set the memory policy of a process through libnuma, and read it back from the kernel."""

import ctypes
import os
from pathlib import Path
from typing import Self

from ssdbench.errors import HostLacks
from ssdbench.host.topology import cpu_list

LIBRARY = "libnuma.so.1"
DEFAULT = "default"
_MODES = {DEFAULT: 0, "prefer": 1, "bind": 2, "interleave": 3, "local": 4}  # uapi mempolicy.h
_MOST_NODES = 1024


class Policy:
    """This process' memory policy, from `with` to its end; programs started meanwhile inherit it.

    `policy` is written as the kernel shows it: `bind:0`, `interleave:0-1`, `prefer:1`, `local`;
    an empty one changes nothing. One within another is put back to that. Raises HostLacks where it
    cannot be had.
    """

    def __init__(self, policy: str, nodes: tuple[int, ...] = ()) -> None:
        self._policy = policy
        self._nodes = nodes
        self._before = ""

    @classmethod
    def of(cls, policy: str) -> Self:
        """With the nodes that the policy itself names."""
        return cls(policy, _nodes(policy))

    def __enter__(self) -> Self:
        if self._policy:
            self._before = policy_of()
            _set(self._policy.partition(":")[0], self._nodes)
            if (kept := policy_of()) != self._policy:
                self._put_back()
                raise HostLacks(
                    f"memory of ssdbench was set to {self._policy}, but the kernel keeps {kept}"
                )
        return self

    def __exit__(self, *exc: object) -> None:
        if self._policy:
            self._put_back()

    def _put_back(self) -> None:
        before = self._before or DEFAULT
        _set(before.partition(":")[0], _nodes(before))


def _nodes(policy: str) -> tuple[int, ...]:
    return cpu_list(policy.partition(":")[2])


def policy_of(process: str = "self", *, root: Path = Path("/")) -> str:
    """The policy of a process, or of a thread named `PID/task/TID`; empty where none is told.

    The first mapping is part of the program's file, which has no policy of its own: the kernel
    shows that of the task there.
    """
    try:
        with (root / "proc" / process / "numa_maps").open() as maps:
            words = maps.readline().split()
    except OSError:
        return ""
    return words[1] if len(words) > 1 else ""


def _set(mode: str, nodes: tuple[int, ...]) -> None:
    try:
        library = ctypes.CDLL(LIBRARY, use_errno=True)
    except OSError as error:
        raise HostLacks(
            "a memory policy of ssdbench needs libnuma",
            hint="Install it, for example with `apt-get install libnuma1`.",
        ) from error
    mask = (ctypes.c_ulong * (_MOST_NODES // (8 * ctypes.sizeof(ctypes.c_ulong))))()
    for node in nodes:
        width = 8 * ctypes.sizeof(ctypes.c_ulong)
        mask[node // width] |= 1 << node % width
    # Without nodes the kernel wants no mask at all.
    given, most = (mask, _MOST_NODES) if nodes else (None, 0)
    library.set_mempolicy.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong]
    if library.set_mempolicy(_MODES[mode], given, most) != 0:
        number = ctypes.get_errno()
        raise HostLacks(f"memory policy {mode} cannot be set: {os.strerror(number)}")
