"""What fio is told for the engine of a point; pure."""

from collections.abc import Mapping, Sequence

from ssdbench.generator.base import Job
from ssdbench.generator.fio.jobfile import Options
from ssdbench.model.workload import IoEngine

_FIXED: Options = {"ioengine": "io_uring", "fixedbufs": 1, "registerfiles": 1}
OPTIONS: Mapping[IoEngine, Options] = {
    IoEngine.LIBAIO: {},  # what a target is reached with anyway
    IoEngine.IO_URING: {"ioengine": "io_uring"},
    IoEngine.IO_URING_FIXED: _FIXED,
    IoEngine.IO_URING_POLLED: {**_FIXED, "hipri": 1},
    IoEngine.IO_URING_CMD: {"ioengine": "io_uring_cmd", "cmd_type": "nvme"},
}


def engine_of(jobs: Sequence[Job]) -> IoEngine:
    """The engine of all jobs of a start. Raises ValueError where they have several."""
    found = {job.workload.engine for job in jobs}
    if len(found) != 1:
        raise ValueError("the jobs of one start have one engine")
    return found.pop()
