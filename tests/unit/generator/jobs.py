"""Readable jobs for tests of the generator."""

from typing import Any

from ssdbench.generator.base import Job
from ssdbench.model.workload import ActiveRange, Pattern, Workload
from ssdbench.units import GIB

JOB_FIELDS = {"runtime_s", "total_bytes", "histogram_log", "latency_log", "cover", "seed"}


def a_job(name: str = "job", **changes: Any) -> Job:
    """A random 4 KiB write over 1 GiB, seed 7, until it is stopped; changed as said."""
    job = {"seed": 7, **{key: changes.pop(key) for key in JOB_FIELDS & changes.keys()}}
    active = ActiveRange(
        offset_bytes=changes.pop("offset_bytes", 0), length_bytes=changes.pop("length_bytes", GIB)
    )
    fields = {"pattern": Pattern.RANDOM, "block_bytes": 4096, "read_percent": 0, **changes}
    return Job(name, Workload(range=active, **fields), **job)


def a_sequential(name: str = "job", **changes: Any) -> Job:
    """A sequential 128 KiB write over 1 GiB."""
    return a_job(name, **{"pattern": Pattern.SEQUENTIAL, "block_bytes": 131072, **changes})
