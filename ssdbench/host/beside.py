"""Runs of several drives side by side: each is a process below the one that saw that they may be.

That process holds the lock of the host for all of them, and is named in their environment; the name
counts only for its own children, which die with it.
"""

import os
from collections.abc import Mapping

LEADER = "SSDBENCH_BESIDE"


def leader(environment: Mapping[str, str] = os.environ) -> int | None:
    """The process that measures drives side by side, where this one does one of them for it."""
    parent = os.getppid()
    return parent if environment.get(LEADER) == str(parent) else None


def environment() -> dict[str, str]:
    """What a child needs to know that we lead it."""
    return {LEADER: str(os.getpid())}
