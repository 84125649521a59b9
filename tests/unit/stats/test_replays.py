"""Test the waits of a replay on clients with known waits."""

import numpy as np
import pytest

from ssdbench.stats.openloop import Client, Waits

MS = 1_000_000
START_NS = 7_000 * MS + 123_456


def a_client(due_ms: list[float], service_ms: list[float], *, late_ms: float = 0.0) -> Client:
    """Return a client that sends when due or free; its log has whole milliseconds."""
    due = np.array([at * MS for at in due_ms]).astype(np.int64)
    free, done = 0, []
    for at, took in zip(due, service_ms, strict=True):
        free = max(at + round(late_ms * MS), free) + round(took * MS)
        done.append(free)
    logged = (np.array(done) + START_NS) // MS
    writes = np.zeros(len(due), dtype=np.bool_)
    latency = np.array([round(took * MS) for took in service_ms])
    return Client(due, writes, logged, latency, writes)


def waited(client: Client, end_ms: float) -> Waits:
    waits = Waits(client.start_ns(), int(client.due_ns[-1]), int(end_ms * MS))
    waits.add(client)
    return waits


def test_what_waited_for_its_client_counts_from_when_it_was_due() -> None:
    due = [float(10 * n) for n in range(200)]
    service = [0.1] * 100 + [500.0] + [0.1] * 99  # a stall of half a second

    waits = waited(a_client(due, service), 2_000)

    reads = waits.reads[5]  # of the tenth that begins with the stall
    assert reads.n == 20 and sum(part.n for part in waits.reads) == 200
    assert waits.longest_ns == pytest.approx(500 * MS, abs=MS)
    assert reads.percentile_ns(0.5) == pytest.approx(400 * MS, rel=0.05)
    assert waits.held_up == 50  # 500 ms of it; the backlog is done before the next
    assert waits.reads[0].percentile_ns(0.99) < 0.2 * MS  # no millisecond of the clock


def test_what_was_sent_late_without_a_reason_counts_and_is_seen() -> None:
    due = [float(10 * n) for n in range(100)]
    client = a_client(due, [0.1] * 100)
    late = np.array([0] * 50 + [5] * 50)
    slow = Client(client.due_ns, client.writes, client.done_ms + late, client.latency_ns,
                  client.logged_writes)  # fmt: skip

    assert waited(client, 1_000).arrivals_off_ns() <= 2 * MS
    waits = waited(slow, 1_000)
    assert waits.arrivals_off_ns() == pytest.approx(5 * MS, abs=1.1 * MS)
    assert waits.longest_ns == pytest.approx(5 * MS, abs=1.1 * MS)


def test_what_was_never_sent_waited_until_the_end() -> None:
    whole = a_client([0.0, 10.0, 20.0], [0.1, 0.1, 0.1])
    client = Client(whole.due_ns, whole.writes, whole.done_ms[:1], whole.latency_ns[:1],
                    whole.logged_writes[:1])  # fmt: skip

    waits = waited(client, 900)

    assert (waits.asked, waits.sent, waits.in_time) == (3, 1, 1)
    assert waits.longest_ns == 890 * MS


def test_a_log_of_other_requests_is_not_believed() -> None:
    client = a_client([0.0, 10.0], [0.1, 0.1])

    assert client.sound
    other = Client(client.due_ns, ~client.writes, client.done_ms, client.latency_ns, client.writes)
    assert not other.sound
