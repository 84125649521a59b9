"""fio on a claimed drive, and past the block layer where a job asks for it (NVMe passthrough).

The generic node of a namespace (/dev/ng0n1) knows of no claim, and the kernel counts nothing that
goes through it. So the claim on the block node is held and inherited as ever, the requests are
counted by the rings that they end in, and the last sum is that of fio's report.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from ssdbench.errors import UsageError
from ssdbench.generator.base import Job, Running
from ssdbench.generator.fio.attachment import ROOT, STALL_S, Attachment, DeviceAttachment
from ssdbench.generator.fio.driver import Fio
from ssdbench.generator.fio.jobfile import Options, engine_of
from ssdbench.generator.fio.output import CutShort, parse
from ssdbench.generator.fio.sampling import DeviceMeter, Feed, KernelFeed, Meter, Reading, one_block
from ssdbench.host import nvme, regular
from ssdbench.host.command import Process
from ssdbench.host.iouring import Rings
from ssdbench.model.workload import IoEngine

REPORT = "fio.json"


class Passing:
    """fio on a claimed drive: through the block layer, or past it."""

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
        """`fio 3.33`."""
        return self._through.name

    def start(self, jobs: Sequence[Job], *, artifacts: Path) -> Running:
        """Start jobs, one after another, in one process; what `Fio.start` raises."""
        if not jobs or engine_of(jobs) is not IoEngine.IO_URING_CMD:
            return self._through.start(jobs, artifacts=artifacts)
        with nvme.generic(self._node, self._claim) as descriptor:  # fio has its own from then on
            way = PassthroughAttachment(self._node, self._claim, descriptor)
            if any(job.workload.writes for job in jobs):
                self._before_writing_past()
            fio = Fio(way, cpus=self._cpus, options=self._options)
            return fio.start(jobs, artifacts=artifacts)


class PassthroughAttachment(DeviceAttachment):
    """The generic node of a namespace whose block node we hold by a claim."""

    def __init__(
        self,
        node: Path,
        claim_fd: int,
        generic_fd: int,
        *,
        stall_s: float = STALL_S,
        root: Path = ROOT,
    ) -> None:
        super().__init__(
            node, claim_fd, engine=IoEngine.IO_URING_CMD.value, stall_s=stall_s, root=root
        )
        self._generic = generic_fd
        self._report = Path()

    def options(self) -> Options:
        """The same threads, on the generic node; the page cache is not in the way there."""
        return {
            "ioengine": self.engine,
            "thread": 1,
            "filename": str(regular.held(self._generic)),
        }

    def environment(self, directory: Path) -> dict[str, str]:
        """Nothing; where fio will report is noted."""
        self._report = directory / REPORT
        return {}

    def pass_fds(self) -> tuple[int, ...]:
        """The claim, so that the drive stays ours until fio has ended, and the generic node."""
        return (self._claim, self._generic)

    def require(self, jobs: Sequence[Job]) -> None:
        """Raise UsageError for jobs that cannot be served, or that could not be counted."""
        super().require(jobs)
        if one_block(jobs) is None or len(_directions(jobs)) != 1:
            raise UsageError("past the block layer a start has one block size and one direction")

    def watch(self, process: Process, jobs: Sequence[Job]) -> Feed:
        """Seconds from the rings of fio."""
        (reads,) = _directions(jobs)
        meter = PassthroughMeter(
            Rings(process.pid, self._root),
            # None of ours: whatever the block node did meanwhile is somebody else's.
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
    """What ended in the rings of fio, all of one size and direction; at last what fio reports."""

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
        """The sums now."""
        ios = max(self._rings.ended(), self._reported())
        foreign = self._others.read().foreign_ios
        if self._reads:
            return Reading(read_ios=ios, read_bytes=ios * self._block, foreign_ios=foreign)
        return Reading(write_ios=ios, write_bytes=ios * self._block, foreign_ios=foreign)

    def close(self) -> None:
        """Give up the counters of the block node."""
        self._others.close()


def _directions(jobs: Sequence[Job]) -> set[bool]:
    """Whether the jobs read; both, for jobs that do both."""
    shares = {job.workload.read_percent for job in jobs}
    return {share > 0 for share in shares} | {share == 100 for share in shares}


def _reported_ios(report: Path, names: Sequence[str]) -> int:
    """The requests in fio's report; 0 while there is none."""
    try:
        groups = parse(report.read_text(errors="replace"), names).groups
    except (OSError, CutShort):
        return 0
    return sum(group.outcome.read.ios + group.outcome.write.ios for group in groups)
