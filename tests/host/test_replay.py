"""A trace on a real loop device: fio sends each request to its place, on time."""

import os
from pathlib import Path

import numpy as np

from ssdbench.generator.base import Job
from ssdbench.generator.fio import logs
from ssdbench.generator.fio.attachment import DeviceAttachment
from ssdbench.generator.fio.driver import Fio
from ssdbench.generator.fio.jobfile import latency_logs
from ssdbench.generator.trace.clients import Sending, write_work
from ssdbench.generator.trace.forms import Trace
from ssdbench.host import blockdev, regular
from ssdbench.model.profile.replay import Placing
from ssdbench.model.workload import ActiveRange, Pattern, Workload
from tests.support.devices import LoopDevice
from tests.unit.generator.trace import traces

CLIENTS, NUMBER = 4, 400


def test_each_request_of_a_trace_goes_to_its_place_at_its_time(
    loop_device: LoopDevice, tmp_path: Path
) -> None:
    chance = np.random.default_rng(1)
    blocks = loop_device.size_bytes // 4096
    ways = chance.choice(list("rw"), NUMBER, p=[0.5, 0.5])
    requests = [
        (n * 4_000_000, int(block) * 4096, 4096, str(way))
        for n, (block, way) in enumerate(zip(chance.integers(0, blocks, NUMBER), ways, strict=True))
    ]
    trace = Trace(traces.iolog(tmp_path / "trace", [*requests, (requests[-1][0], 0, 0, "f")]))
    how = Sending(CLIENTS, 1.0, Placing.KEEP, 0, loop_device.size_bytes, 512)
    made = write_work(trace, how, tmp_path)
    workload = Workload(
        pattern=Pattern.RANDOM, block_bytes=4096, read_percent=50, numjobs=CLIENTS,
        range=ActiveRange(offset_bytes=0, length_bytes=loop_device.size_bytes),
    )  # fmt: skip
    artifacts = tmp_path / "fio"
    replays = tuple(os.path.relpath(made.log(n), artifacts) for n in range(CLIENTS))
    job = Job("replay", workload, seed=1, total_bytes=made.bytes, latency_log=True,
              replays=replays, total_requests=made.requests)  # fmt: skip
    claim = blockdev.claim(loop_device.node)
    try:
        with Fio(DeviceAttachment(loop_device.node, claim)).start(
            [job], artifacts=artifacts
        ) as run:
            list(run)
            outcome = run.outcome()
    finally:
        os.close(claim)

    written = {offset for _, offset, _, way in requests if way == "w"}
    content = np.fromfile(loop_device.backing, dtype=np.uint8).reshape(-1, 4096)
    touched = np.flatnonzero((content != 0).any(axis=1)) * 4096
    assert set(touched.tolist()) == written
    assert outcome.jobs[0].write.ios == int(np.sum(ways == "w"))
    assert outcome.jobs[0].flushes.ios == 1
    for path in latency_logs(artifacts, 0, job):
        with regular.open_log(path) as lines:
            log = logs.of_thread(path.name, lines)
        due = made.due(log.thread - 1)
        assert log.direction.tolist() == due["write"].tolist()
        late_ms = log.t_ms - log.latency_ns / 1e6 - due["due_ns"] / 1e6
        # Others keep this host busy: half of the requests must be near their time.
        assert np.median(late_ms - late_ms.min()) < 10
