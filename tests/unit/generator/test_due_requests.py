"""When fio's requests were due: the schedule drawn again, against what fio sent."""

from pathlib import Path

import numpy as np
import pytest

from ssdbench.errors import HostLacks
from ssdbench.generator.base import Job
from ssdbench.generator.fio import logs
from ssdbench.generator.fio.driver import Fio
from ssdbench.generator.fio.layout import sections
from ssdbench.generator.fio.simulated import SimAttachment
from ssdbench.model.workload import Arrivals
from ssdbench.sim.drive import SimDrive
from ssdbench.sim.spec import parse
from ssdbench.stats.openloop import NEVER_NS, Requests
from ssdbench.units import MIB
from tests.unit.generator.jobs import a_job

CAPACITY = 256 * MIB
END_S = 10.0


def offered(tmp_path: Path, job: Job, *, parameters: str = "") -> Requests:
    spec = parse(f"sim:x25m-g2-160,capacity={CAPACITY},seed=3{parameters}")
    with SimDrive.create(spec, tmp_path / "state.ssdb") as drive:
        fio = Fio(SimAttachment(drive, step_s=5))
        with fio.start([job], artifacts=tmp_path / "run") as running:
            for second in running:
                if second.t_s >= END_S:
                    running.stop()
            return running.outcome().requests(job.name, end_s=END_S)


@pytest.mark.parametrize(
    ("rate", "clients", "read", "arrivals"),
    [
        (1500.0, 64, 70, Arrivals.POISSON),
        (3000.0, 16, 100, Arrivals.POISSON),
        (333.0, 100, 0, Arrivals.POISSON),
        (500.0, 7, 100, Arrivals.EVEN),
    ],
)
def test_every_request_of_every_client_is_sent_when_it_is_due_or_when_the_client_is_free(
    tmp_path: Path, rate: float, clients: int, read: int, arrivals: Arrivals
) -> None:
    found = offered(
        tmp_path,
        a_job(
            rate_iops=rate, numjobs=clients, read_percent=read, arrivals=arrivals,
            length_bytes=CAPACITY, latency_log=True, runtime_s=END_S + 5,
        ),
    )  # fmt: skip

    sent = found.sent_ns < NEVER_NS
    late_ns = found.sent_ns[sent] - found.due_ns[sent]
    assert late_ns.min() >= 0
    # The drive answers in 0.05 ms but where it collects: most clients are free in time, exactly.
    assert np.percentile(late_ns, 90) < 2_000
    assert len(found.due_ns) == pytest.approx(rate * END_S, rel=0.05)
    assert np.all(np.diff(found.due_ns) >= 0)
    assert np.mean(found.is_write) == pytest.approx(1 - read / 100, abs=0.03)


def test_what_came_due_in_a_stall_waits_from_when_it_was_due(tmp_path: Path) -> None:
    found = offered(
        tmp_path,
        a_job(
            rate_iops=400.0, numjobs=4, read_percent=100, arrivals=Arrivals.POISSON,
            length_bytes=CAPACITY, latency_log=True, runtime_s=END_S + 5,
        ),
        parameters=",stall_period=5s,stall=1s",
    )  # fmt: skip

    waits = found.waited_ns(END_S * 1e9)
    # Of 4,000 requests 400 a second come due in each stall, and wait half of it on average.
    held = waits[waits > 20e6]
    assert len(held) > 350
    assert held.mean() == pytest.approx(0.5e9, rel=0.2)
    assert (found.seen_ns() > 20e6).sum() <= 3 * 4  # as fio itself sees it: one of each client


def test_a_fio_with_another_schedule_is_refused() -> None:
    job = a_job(rate_iops=1000.0, numjobs=1, read_percent=100, arrivals=Arrivals.POISSON)
    count = 900
    at_ms = np.sort(np.random.default_rng(1).integers(0, 1000, count))
    log = logs.ThreadLog(1, at_ms, np.full(count, 50_000), np.zeros(count, dtype=np.int64))

    with pytest.raises(HostLacks, match="other times"):
        logs.due_requests(job, sections(job), [log], origin_ms=0.0, end_s=1.0)
