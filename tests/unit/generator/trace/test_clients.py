"""A trace as work for fio: where requests go, when, and by whom."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ssdbench.generator.trace.clients import (
    START_MS,
    Sending,
    TraceWork,
    summarized_work,
    write_work,
)
from ssdbench.generator.trace.forms import Trace
from ssdbench.generator.trace.source import TraceError
from ssdbench.model.profile.replay import Placing
from tests.unit.generator.trace import traces

MIB = 1 << 20


def sending(**changes: Any) -> Sending:
    values: dict[str, Any] = {
        "clients": 2,
        "speed": 1.0,
        "placing": Placing.KEEP,
        "traced_bytes": 0,
        "range_bytes": 64 * MIB,
        "block_bytes": 512,
    }
    return Sending(**values | changes)


def made(tmp_path: Path, requests: list[traces.Request], **changes: Any) -> TraceWork:
    trace = Trace(traces.iolog(tmp_path / "it", requests))
    return write_work(trace, sending(**changes), tmp_path)


def told(work: TraceWork, client: int) -> list[str]:
    return work.log(client).read_text().splitlines()[3:-1]


def test_clients_take_turns_and_wait_for_the_millisecond_of_each_request(tmp_path: Path) -> None:
    work = made(tmp_path, [*traces.REQUESTS])

    assert told(work, 0) == [
        f"drive wait {START_MS} 0",
        "drive read 4096 4096",
        f"drive wait {START_MS + 1} 0",
        "drive read 1048576 8192",
        f"drive wait {START_MS + 2500} 0",
        "drive write 73728 512",
    ]
    assert told(work, 1) == [
        f"drive wait {START_MS + 1} 0",
        "drive write 8192 65536",
        f"drive wait {START_MS + 2} 0",
        "drive sync 0 0",
    ]
    assert work.due(0)["due_ns"].tolist() == [0, 1_500_000, 2_500_000_000]
    assert work.due(1)["write"].tolist() == [1]  # a flush is in no log of latencies
    assert (work.requests, work.bytes, work.bytes_written) == (4, 78336, 66048)
    assert work.dropped and list(work.dropped.values()) == [1]


def test_a_speed_that_would_take_for_ever_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="after more than 40 days"):
        made(tmp_path, [*traces.REQUESTS], speed=1e-15)


def test_speed_divides_the_times(tmp_path: Path) -> None:
    work = made(tmp_path, [*traces.REQUESTS], speed=4.0)

    assert work.last_due_ns == 625_000_000


def offsets(work: TraceWork) -> list[int]:
    return [int(line.split()[2]) for n in range(2) for line in told(work, n) if "read" in line]


@pytest.mark.parametrize(
    ("placing", "traced", "expected"),
    [
        (Placing.WRAP, 0, [0, 36 * MIB + 512]),
        (Placing.SCALE, 128 * MIB, [0, 50 * MIB + 512]),  # extent 50 of 64 to extent 25 of 32
    ],
)
def test_a_larger_trace_is_wrapped_or_folded(
    tmp_path: Path, placing: Placing, traced: int, expected: list[int]
) -> None:
    requests = [(0, 0, 4096, "r"), (0, 0, 4096, "w"), (1, 100 * MIB + 512, 4096, "r")]

    work = made(tmp_path, requests, placing=placing, traced_bytes=traced)

    assert offsets(work) == expected


def test_requests_are_whole_blocks_of_the_drive_and_lie_on_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    requests = [(n, int(rng.integers(0, 1 << 40)) // 512 * 512, 512 * int(rng.integers(1, 99)), "r")
                for n in range(500)]  # fmt: skip

    for placing in (Placing.WRAP, Placing.SCALE):
        work = made(tmp_path, requests, placing=placing, block_bytes=4096, traced_bytes=2 << 40)
        rows = [line.split() for n in range(2) for line in told(work, n) if "read" in line]
        assert len(rows) == 500 and work.rounded > 300
        for _, _, offset, size in rows:
            assert int(offset) % 4096 == int(size) % 4096 == 0 < int(size)
            assert int(offset) + int(size) <= 64 * MIB
        for client in range(2):
            (tmp_path / f"client-{client:04d}.due").unlink()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"range_bytes": 70 * 1024}, "ends beyond the 71.68 kB"),
        ({"placing": Placing.SCALE, "traced_bytes": 8192}, "beyond `traced_size`"),
        ({"placing": Placing.WRAP, "range_bytes": 32 * 1024}, "larger than the drive"),
    ],
)
def test_what_does_not_fit_is_told_with_its_line(
    tmp_path: Path, changes: dict[str, Any], why: str
) -> None:
    trace = Trace(traces.iolog(tmp_path / "it"))

    with pytest.raises(TraceError) as error:
        summarized_work(trace, sending(**changes))

    assert why in error.value.message and error.value.line == 5
