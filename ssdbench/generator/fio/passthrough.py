"""Run fio on a claimed drive, through the block layer or past it (NVMe passthrough).

The generic node of a namespace (/dev/ng0n1) ignores claims, and the kernel does not count the
requests that are sent to it. So fio inherits the claim on the block node. The requests are counted
in fio's io_uring rings; the final sum comes from fio's report.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from ssdbench.errors import UsageError
from ssdbench.generator.base import Job, Running
from ssdbench.generator.fio.attachment import Attachment, DeviceAttachment
from ssdbench.generator.fio.driver import Fio
from ssdbench.generator.fio.jobfile import Options, engine_of
from ssdbench.generator.fio.output import CutShort, parse
from ssdbench.generator.fio.sampling import DeviceMeter, Feed, KernelFeed, Meter, Reading, one_block
from ssdbench.host import nvme, regular
from ssdbench.host.command import Process
from ssdbench.host.iouring import Rings
from ssdbench.model.workload import IoEngine

REPORT = "fio.json"


class PassthroughFio:
    """Run fio on a claimed drive, through the block layer or by NVMe passthrough."""

    def __init__(
        self,
        way: Attachment,
        node: Path,
        claim_fd: int,
        *,
        cpus: Collection[int] = (),
        options: Mapping[str, str] | None = None,
        before_writing_past: Callable[[], None] = lambda: None,
    ) -> None:
        self._through = Fio(way, cpus=cpus, options=options)
        self._node = node
        self._claim = claim_fd
        self._cpus = cpus
        self._options = options
        self._before_writing_past = before_writing_past

    @property
    def name(self) -> str:
        return self._through.name

    def start(self, jobs: Sequence[Job], *, artifacts: Path) -> Running:
        if not jobs or engine_of(jobs) is not IoEngine.IO_URING_CMD:
            return self._through.start(jobs, artifacts=artifacts)
        with nvme.generic(self._node, self._claim) as descriptor:  # fio has inherited a copy
            way = PassthroughAttachment(self._node, self._claim, descriptor)
            if any(job.workload.writes for job in jobs):
                self._before_writing_past()
            fio = Fio(way, cpus=self._cpus, options=self._options)
            return fio.start(jobs, artifacts=artifacts)


class PassthroughAttachment(DeviceAttachment):
    """Reach the generic node of a namespace whose block node is claimed."""

    def __init__(self, node: Path, claim_fd: int, generic_fd: int) -> None:
        super().__init__(node, claim_fd, engine=IoEngine.IO_URING_CMD.value)
        self._generic = generic_fd
        self._report = Path()

    def options(self) -> Options:
        """Return the usual options, changed for the generic node, which has no page cache."""
        return {
            "ioengine": self.engine,
            "thread": 1,
            "filename": str(regular.held(self._generic)),
        }

    def environment(self, directory: Path) -> dict[str, str]:
        """Return an empty environment, and remember where fio's report will be."""
        self._report = directory / REPORT
        return {}

    def pass_fds(self) -> tuple[int, ...]:
        return (self._claim, self._generic)

    def require(self, jobs: Sequence[Job]) -> None:
        super().require(jobs)
        if one_block(jobs) is None or len(_directions(jobs)) != 1:
            raise UsageError("past the block layer, fio has one block size and one direction")

    def watch(self, process: Process, jobs: Sequence[Job]) -> Feed:
        (reads,) = _directions(jobs)
        meter = PassthroughMeter(
            Rings(process.pid, self._root),
            # fio sends nothing through the block node, so all I/O there is from other programs.
            DeviceMeter(
                self._major_minor,
                process.pid,
                block_bytes=one_block(jobs),
                root=self._root,
                reads=False,
                writes=False,
            ),
            block_bytes=one_block(jobs) or 1,
            reads=reads,
            ended=lambda: _reported_ios(self._report, [job.name for job in jobs]),
        )
        return KernelFeed(process, meter, stall_s=self._stall_s)


class PassthroughMeter:
    """Count completed requests in fio's io_uring rings, and after fio's end in its report."""

    def __init__(
        self,
        rings: Rings,
        others: Meter,
        *,
        block_bytes: int,
        reads: bool,
        ended: Callable[[], int],
    ) -> None:
        self._rings = rings
        self._others = others
        self._block = block_bytes
        self._reads = reads
        self._reported = ended

    def read(self) -> Reading:
        ios = max(self._rings.ended(), self._reported())
        foreign = self._others.read().foreign_ios
        if self._reads:
            return Reading(read_ios=ios, read_bytes=ios * self._block, foreign_ios=foreign)
        return Reading(write_ios=ios, write_bytes=ios * self._block, foreign_ios=foreign)

    def close(self) -> None:
        self._others.close()


def _directions(jobs: Sequence[Job]) -> set[bool]:
    """Return, for each job, True if the job reads or False if the job writes."""
    shares = {job.workload.read_percent for job in jobs}
    return {share > 0 for share in shares} | {share == 100 for share in shares}


def _reported_ios(report: Path, names: Sequence[str]) -> int:
    """Return the number of requests in fio's report; 0 without a report."""
    try:
        groups = parse(report.read_text(errors="replace"), names)
    except (OSError, CutShort):
        return 0
    return sum(group.outcome.read.ios + group.outcome.write.ios for group in groups)
