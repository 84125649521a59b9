"""What a user's job file asks of a drive is what plain fio asks of it, and what ssdbench says.

Each text runs twice on a fresh simulated drive: as fio itself reads it, and as ssdbench writes it
anew. Every request that arrived is compared, and with it what ssdbench believes of the stream.
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from ssdbench.errors import UsageError
from ssdbench.generator.base import Job
from ssdbench.generator.fio.jobfile import jobfile
from ssdbench.generator.fio.userjobs import ON_THE_DRIVE, for_simulated_drive, job_file
from ssdbench.generator.fio.userworkloads import Room, phases_of
from ssdbench.model.workload import Stream
from ssdbench.sim import library
from ssdbench.sim.drive import SimDrive
from ssdbench.sim.spec import parse
from ssdbench.units import KIB, MIB

pytestmark = pytest.mark.host

DRIVE = "sim:x25m-g2-160,capacity=256MiB"
CAPACITY_BYTES = 256 * MIB
READ, WRITE, TRIM = range(3)
PARTS = 16  # of the drive, in which offsets are counted

Whole = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Arrived:
    """Every request of all threads, as fio logged it with its offset."""

    seconds: float
    direction: Whole
    size_bytes: Whole
    offset_bytes: Whole
    follows: npt.NDArray[np.bool_]  # begins where the same thread's last one of its kind ended

    def rate(self, direction: int) -> float:
        """Requests a second."""
        return float((self.direction == direction).sum()) / self.seconds

    @property
    def read_percent(self) -> float:
        """Of reads and writes."""
        moved = int((self.direction != TRIM).sum())
        return 100 * float((self.direction == READ).sum()) / max(1, moved)

    def of(self, direction: int) -> "Arrived":
        """One direction alone."""
        mine = self.direction == direction
        return Arrived(self.seconds, self.direction[mine], self.size_bytes[mine],
                       self.offset_bytes[mine], self.follows[mine])  # fmt: skip


def run_fio(text: str, directory: Path, seconds: float) -> Arrived:
    """What arrives at a fresh drive from a job file that is on it already."""
    directory.mkdir()
    state = directory / "drive.ssdb"
    SimDrive.create(parse(DRIVE), state).close()
    job = directory / "job.fio"
    job.write_text(
        f"[global]\nwrite_lat_log=x\nlog_offset=1\nrandseed=11\nrandrepeat=0\ntime_based=1\n"
        f"disable_slat=1\ndisable_clat=1\nlog_entries=400000\nruntime={round(seconds * 1000)}ms\n"
        f"{text}"
    )
    preload = library.preloadable("libssdb_virtualtime.so")
    argv = ["env", f"LD_PRELOAD={preload}", f"SSDB_VT_STATE={state}", "fio", "job.fio"]
    said = subprocess.run(
        argv, cwd=directory, capture_output=True, text=True, check=False, timeout=120
    )
    assert said.returncode == 0, said.stdout + said.stderr
    logs = [np.loadtxt(log, delimiter=",", dtype=np.int64, usecols=(2, 3, 4), ndmin=2)
            for log in sorted(directory.glob("x_lat.*.log")) if log.stat().st_size]  # fmt: skip
    assert logs, f"nothing arrived:\n{text}"
    rows = np.concatenate(logs)
    follows = np.concatenate([_follows(log) for log in logs])
    with SimDrive.open(state) as drive:
        counters = drive.counters()
    written = int(rows[rows[:, 0] == WRITE, 1].sum())
    assert counters["host_write_bytes"] == written, "the log is not what arrived at the drive"
    return Arrived(seconds, rows[:, 0], rows[:, 1], rows[:, 2], follows)


def _follows(log: Whole) -> npt.NDArray[np.bool_]:
    found = np.zeros(len(log), dtype=bool)
    for direction in (READ, WRITE, TRIM):
        (mine,) = np.nonzero(log[:, 0] == direction)
        ends = log[mine, 2] + log[mine, 1]
        found[mine[1:]] = log[mine[1:], 2] == ends[:-1]
    return found


def plainly(text: str, directory: Path, seconds: float) -> Arrived:
    """The text as fio reads it."""
    sections = job_file(text, path="job.fio")
    return run_fio(
        for_simulated_drive(sections, engine_options=lambda _: frozenset()).text, directory, seconds
    )


def by_ssdbench(text: str, directory: Path, seconds: float) -> tuple[Arrived, list[Stream]]:
    """The text as ssdbench writes it, and what it says that this is."""
    room = Room(CAPACITY_BYTES, 512, simulated=True, discards=True)
    (phase,) = phases_of(job_file(text, path="job.fio"), path="job.fio", room=room).phases
    job = Job("j", phase.workload, seed=10, runtime_s=seconds)
    written = jobfile([job], options=ON_THE_DRIVE)
    return run_fio(written, directory, seconds), list(phase.workload.streams)


RATED = "rate_process=poisson"
# Options that change rate, mix, size or place; one job, unless it says [global] and jobs itself.
LIST = [
    # mix: the last of both counts, also over [global]
    "rw=randrw\nrwmixread=75\nrwmixwrite=40",
    "rw=randrw\nrwmixwrite=40\nrwmixread=75",
    "[global]\nrw=randrw\nrwmixread=70\nrwmixwrite=30\n[a]\nrwmixread=50",
    "[global]\nrw=randrw\nrwmixwrite=20\n[a]\nrwmixread=50\n",
    "[global]\nrw=randrw\nrwmixread=50\n[a]\nrwmixwrite=20",
    "[global]\nrw=randrw\nrwmixread=10\n[global]\nrwmixwrite=10\n[a]\nbs=8k",
    "rw=randrw\nrwmixwrite=0",
    "rw=rw\nrwmixread=20\nrw_sequencer=identical",
    # sizes
    "rw=randrw\nbs=4k,16k",
    "rw=randrw\nbs=,16k",
    "rw=randrw\nbs=16k,",
    "[global]\nbs=8k,16k\n[a]\nrw=randrw\nbs=,64k",
    "[global]\nbs=32k,8k\n[a]\nrw=randrw\nbs=64k,",
    "rw=randread\nnorandommap\nbssplit=4k/10:16k/70:64k/20",
    "rw=randread\nnorandommap\nbssplit=4k/10:16k/:64k/:32k/",
    "rw=randread\nnorandommap\nbssplit=8k/50:20k/50",
    "rw=randread\nnorandommap\nbssplit=12k/50:64k/50",
    "rw=randread\nnorandommap\nbssplit=4k/0:8k/50:16k/",
    "rw=randrw\nnorandommap\nbs=16k\nbssplit=,4k/50:32k/50",
    "rw=randrw\nnorandommap\nbssplit=4k/50:32k/50,64k/100",
    "[global]\nrw=randrw\nnorandommap\nbssplit=4k/50:8k/50\n[a]\nbssplit=,16k/50:64k/50",
    "[global]\nrw=randread\nnorandommap\nbsrange=4k-16k\n[a]\nbs=64k",
    "[global]\nrw=randread\nnorandommap\nbssplit=4k/50:16k/50\n[a]\nbs=64k",
    "[global]\nrw=randread\nnorandommap\nbssplit=8k/50:64k/50\n[a]\nbsrange=4k-32k",
    "[global]\nrw=randread\nnorandommap\nbsrange=8k-32k\n[a]\nbssplit=4k/50:16k/50",
    "rw=randread\nnorandommap\nbsrange=4k-64k",
    "rw=randread\nnorandommap\nbsrange=64k-4k",
    "rw=randread\nnorandommap\nbsrange=4k-10k",
    "rw=randread\nnorandommap\nbsrange=6k-20k",
    "rw=randread\nnorandommap\nbsrange=4k:16k",
    "rw=randrw\nnorandommap\nbsrange=4k-16k,64k-128k",
    "rw=write\nbssplit=4k/50:64k/50",
    "rw=randread\nnorandommap\nbssplit=4k/50:16k/30",
    "rw=randread\nnorandommap\nbssplit=4k/60:16k/60",
    "rw=randread\nnorandommap\nbssplit=4k/90:16k/90:64k/90",
    "rw=randrw\nnorandommap\nbssplit=4k/33:8k/33:16k/33,20k-28k/5.:4k/95",
    "rw=randread\nnorandommap\nbssplit=16k/75:20k-28k/4:36k-60k/21",
    "rw=randrw\nbs=4k:16k",
    "rw=randrw\nbs=8192/60:4096/35:16384/5",
    "rw=randrw\nbs=4k/28:8k/9:16k/8:32k/9:64k/11:128k/35",
    "[global]\nbs=64k\n[a]\nrw=randrw\nbs=,4k/15:1024k:85,",
    # place
    "rw=randread\nbs=4k\nblockalign=64k",
    "rw=randrw\nbs=16k\nba=4k,32k\n",
    "rw=randread\nnorandommap\nba=16k\nbs=4k\noffset=64m\nsize=32m",
    "rw=randwrite\noffset=25%\nsize=25%",
    "rw=randread\nbs=24k\noffset=33%\nsize=10%",
    "rw=randread\nbs=24k\nsize=33%",
    "rw=randread\noffset=64m",
    "rw=randread\nfileoffset=64m\nsize=16m",
    "rw=write\nbs=64k\nsize=16m\noffset_increment=32m\nnumjobs=4",
    "rw=randread\nsize=20%\noffset_increment=25%\nnumjobs=4",
    "[global]\nsize=16m\n[a]\nrw=randread\nsize=50%",
    "rw=randread\nsize=100%",
    "rw=read\nsize=1000k\nbs=4k",
    "rw=randread\nsize=64m\noffset_increment=10%\nnumjobs=3",
    "rw=randread\nsize=30%\noffset=65%",
    "rw=randread\nbs=64k\noffset=33%\nsize=33%",
    "rw=randread\nbs=4k\noffset=33%\noffset_align=1m\nsize=10%",
    "rw=write\nbs=64k\nsize=16m\noffset_align=1m\noffset_increment=33%\nnumjobs=2",
    # off
    "rw=randwrite\nverify=0\nnrfiles=1\nfile_service_type=random\nbs_unaligned=0\nzonemode=none\n"
    "rate_min=0\nmax_latency=0\nend_fsync=0\nfill_device=0\nmem=malloc",
    # order and locality
    "rw=randread\nnorandommap\npercentage_random=30",
    "rw=randrw\nnorandommap\npercentage_random=30,80",
    "[global]\nrw=randrw\nnorandommap\npercentage_random=30,80\n[a]\npercentage_random=,10",
    "rw=randread\nrandom_distribution=zipf:1.2",
    "rw=randread\nrandom_distribution=zipf:1.2:0.5\nsize=50%",
    "rw=randread\nrandom_distribution=pareto:0.2",
    "rw=randread\nrandom_distribution=normal:20",
    "rw=randread\nrandom_distribution=zoned:60/10:30/20:10/70",
    "rw=randread\nrandom_distribution=zoned_abs:60/16m:40/64m",
    "rw=randread\nrandom_generator=lfsr\nsize=16m",
    "rw=randread:8\nnorandommap",
    "rw=randread:8\nrw_sequencer=identical\nnorandommap",
    "rw=read:60k\nbs=4k",
    "rw=write:60k\nbs=4k\nsize=16m\noffset=32m",
    "rw=read:-4k",
    "rw=read:-8k\noffset=64m\nsize=16m",
    "rw=write:-64k\nbs=16k",
    "rw=randread\nsize=1m",
    "rw=randread\nsize=1m\nnorandommap",
    # rates
    "rw=randread\nrate_iops=600",
    "rw=randread\nrate_iops=1k",
    "rw=randread\nrate=2m\nbs=8k",
    "rw=randrw\nrwmixread=70\nrate_iops=300",
    "rw=randrw\nrwmixread=70\nrate_iops=300,100",
    "rw=randrw\nrwmixread=70\nrate_iops=300:100",
    "rw=randrw\nrwmixread=20\nrate=4m,1m\nbs=16k,4k",
    "rw=randrw\nrwmixwrite=90\nrate=1m",
    "[global]\nrw=randrw\nrate_iops=300,100\n[a]\nrate_iops=,50",
    "rw=randread\nnorandommap\nrate_iops=600\nbssplit=8k/50:64k/50",
    "rw=randread\nnorandommap\nrate=8m\nbssplit=8k/50:64k/50",
    "rw=randread\nnorandommap\nrate=8m\nbsrange=4k-10k",
    "rw=randread\nnorandommap\nrate_iops=300\nbsrange=4k-64k",
    "rw=randread\nnorandommap\nrate_iops=300\nbssplit=12k/50:64k/50",
    "rw=randread\nrate_iops=100\nnumjobs=3",
    "rw=randread\nrate=0",
    "rw=randrw\nfsync=8\nrate_iops=100",
    f"rw=randrw\n{RATED}\nrate_iops=100,50\nnumjobs=4",
    "rw=randrw\nrate_iops=500\nthinktime=1ms",
    "rw=trimwrite\nbs=16k\nrate=1m",
    f"rw=randread\n{RATED}\nrate_iops=600\nbs=32k",
    f"rw=randread\n{RATED}\nrate=8m\nbs=32k",
    f"rw=randread\nnorandommap\n{RATED}\nrate_iops=600\nbssplit=8k/50:64k/50",
    f"rw=randread\nnorandommap\n{RATED}\nrate_iops=600\nbsrange=4k-64k",
    f"rw=randread\nnorandommap\n{RATED}\nrate=8m\nbssplit=8k/50:64k/50",
    f"rw=randread\nnorandommap\n{RATED}\nrate=4m\nbsrange=4k-64k",
    f"rw=randrw\nnorandommap\n{RATED}\nrwmixread=70\nrate_iops=400,200\nbs=4k,32k",
    f"rw=randrw\nnorandommap\n{RATED}\nrate=2m,4m\nbssplit=4k/50:16k/50,8k/50:64k/50",
    f"rw=randread\n{RATED}\nrate_iops=5000\niodepth=8\nioengine=libaio",
    "rw=randwrite\nrate_iops=600\nrate_process=linear",
    "rw=randread\nrate_iops=600\nthinktime=500us",
    "rw=randread\nrate_iops=600\nthinktime=10ms",
    "rw=randread\nrate_iops=600\nthinktime=10ms\nthinktime_blocks=10",
    "rw=randread\nrate_iops=600\nthinktime=10ms\nrate_ignore_thinktime=1",
    "rw=randread\nrate_iops=600\nthinktime=1s\nthinktime_iotime=1s",
    f"rw=randread\n{RATED}\nrate_iops=600\nthinktime=10ms",
    "rw=randread\nthinktime=1ms",
    "rw=randread\nthinktime=10ms\nthinktime_blocks=20\nthinktime_blocks_type=issue",
    "rw=randread\nthinktime=100ms\nthinktime_spin=10ms",
    "rw=randread\nthinktime=500ms\nthinktime_iotime=500ms",
    # how many at once
    "rw=randread\nioengine=libaio\niodepth=8\nnumjobs=2",
    "rw=randread\niodepth=8",
    "rw=randread\nioengine=libaio\niodepth=16\niodepth_batch_submit=8\niodepth_batch_complete_max=8",
    "rw=randread\nioengine=libaio\niodepth=16\niodepth_batch_complete=4\niodepth_low=4",
    # trims
    "rw=randtrimwrite\nbs=16k\nrate_iops=3,200",
    "rw=trimwrite\nbs=64k",
    # several jobs
    "[a]\nrw=randread\nrate_iops=200\n[b]\nrw=randwrite\nrate_iops=50\nbs=16k\noffset=50%",
]  # fmt: skip


def whole_job(text: str) -> str:
    """A job file of one job, unless the text has sections of its own."""
    return text if text.startswith("[") else f"[a]\n{text}\n"


@pytest.mark.parametrize("text", LIST, ids=lambda text: text.replace("\n", " "))
def test_ssdbench_asks_of_the_drive_what_fio_asks_and_says_so(text: str, tmp_path: Path) -> None:
    text = whole_job(text)
    seconds = 10.0 if "rate" in text else 1.0
    plain = plainly(text, tmp_path / "plain", seconds)
    ours, streams = by_ssdbench(text, tmp_path / "ours", seconds)

    for direction in (READ, WRITE, TRIM):
        theirs, mine = plain.of(direction), ours.of(direction)
        n = min(len(theirs.direction), len(mine.direction))
        assert mine.rate(direction) == pytest.approx(
            theirs.rate(direction), rel=0.03 + 4 / max(1, n) ** 0.5
        )
        if not n:
            continue
        _alike(theirs.size_bytes, mine.size_bytes, n)
        _alike(_parts(theirs), _parts(mine), n)
        assert float(mine.follows.mean()) == pytest.approx(float(theirs.follows.mean()), abs=0.05)
        for one, other in ((theirs, mine), (mine, theirs)):
            assert one.offset_bytes.min() >= other.offset_bytes.min() - CAPACITY_BYTES // 64
            assert _end(one) <= _end(other) + CAPACITY_BYTES // 64
    _as_told(plain, streams)


def _alike(theirs: Whole, mine: Whole, n: int) -> None:
    """The same values, in the same shares."""
    for value in np.union1d(theirs, mine):
        shares = [float((one == value).mean()) for one in (theirs, mine)]
        assert shares[0] == pytest.approx(shares[1], abs=0.02 + 2.5 / n**0.5), value


def _parts(one: Arrived) -> Whole:
    return one.offset_bytes * PARTS // CAPACITY_BYTES


def _end(one: Arrived) -> int:
    return int((one.offset_bytes + one.size_bytes).max())


def _as_told(plain: Arrived, streams: list[Stream]) -> None:
    """What fio asked of the drive is what ssdbench believes."""
    moved = plain.of(TRIM) if all(s.only_trims for s in streams) else plain
    begin = min(s.range.offset_bytes for s in streams)
    end = max(s.range.offset_bytes + s.range.length_bytes for s in streams)
    assert begin <= int(plain.offset_bytes.min()) and _end(plain) <= end
    if len(streams) > 1:
        return
    (stream,) = streams
    if not stream.trim_percent:
        assert plain.read_percent == pytest.approx(stream.read_percent, abs=3)
    assert set(np.unique(moved.size_bytes)) >= set(stream.block_sizes)
    assert int(moved.size_bytes.min()) >= min(stream.block_sizes)
    assert int(moved.size_bytes.max()) <= max(stream.block_sizes)
    n = len(moved.size_bytes)
    assert float(moved.size_bytes.mean()) == pytest.approx(stream.mean_bytes, rel=0.02 + 2 / n**0.5)
    if stream.offered_iops is not None:
        assert n / plain.seconds == pytest.approx(stream.offered_iops, rel=0.02 + 4 / n**0.5)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[global]\nsize=50%\n[a]\nsize=16m", "4: size=16m comes after a percentage"),
        ("[global]\noffset=50%\n[a]\noffset=0", "4: offset=0 comes after a percentage"),
        ("[a]\nrate=1k\nrate_process=poisson", "2: rate=1k is less than one block"),
        ("[a]\nrw=randrw\nrate_iops=,300", "3: only the writes have a rate"),
        ("[a]\nrw=randrw\nrate=1m,", "3: only the reads have a rate"),
        ("[a]\nbsrange=4k", "2: bsrange=4k is not a range"),
        ("[a]\nbssplit=4k/50:16k/50\nbsrange=8k-32k", "3: bsrange=8k-32k begins above"),
        ("[a]\nzonemode=strided\nzonesize=1m", "2: zonemode is refused"),
        ("[a]\nrate_iops=10\nrate_min=1m", "3: rate_min is refused"),
    ],
)
def test_what_fio_would_do_otherwise_than_it_reads_is_refused(text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        phases_of(
            job_file(text, path="job.fio"),
            path="job.fio",
            room=Room(CAPACITY_BYTES, 4 * KIB, simulated=True),
        )
