"""Test open loops: the list of due requests, its verdict on planted waits, and the search."""

import math
from heapq import heappop, heappush

import numpy as np
import pytest

from ssdbench.model.rates import OfferedRate
from ssdbench.model.workload import Direction
from ssdbench.stats.histogram import Histogram
from ssdbench.stats.openloop import (
    NEVER_NS,
    OfferedWindow,
    Requests,
    Search,
    Whole,
    blocked,
    confidence_of_lowest,
    found_all_busy,
    highest_kept,
    judged,
    stalls,
)
from ssdbench.stats.percentiles import percentile

SECOND = 10**9


@pytest.mark.parametrize("start", [10.0, 1_000.0, 700_000.0])
@pytest.mark.parametrize("truth", [137.0, 9_876.0, 350_000.0])
def test_a_search_ends_just_below_the_truth(start: float, truth: float) -> None:
    search = Search(start_iops=start, least_iops=5.0)
    while (rate := search.next_iops()) is not None:
        search.saw(rate, held=rate <= truth)

    assert search.held_iops is not None
    assert truth / 1.05 / 1.001 <= search.held_iops <= truth
    assert search.steps < 25


def test_a_drive_that_keeps_no_rate_ends_the_search_without_one() -> None:
    search = Search(start_iops=1000, least_iops=10)
    while (rate := search.next_iops()) is not None:
        search.saw(rate, held=False)

    assert search.held_iops is None


def test_a_rate_that_held_by_luck_above_one_that_failed_counts_for_nothing() -> None:
    search = Search(start_iops=1000, least_iops=10)
    search.saw(2000, held=True)
    search.saw(500, held=False)

    assert search.held_iops is None
    assert (search.next_iops() or math.inf) < 500


def test_a_rate_above_a_failed_one_or_above_what_the_drive_completes_does_not_count() -> None:
    def offered(iops: float, *, kept: bool = True) -> OfferedRate:
        return OfferedRate(offered_iops=iops, achieved_iops=iops, kept=kept, reason="")

    good = [offered(iops) for iops in (3000.0, 1000.0, 2000.0)]
    late = [offered(1000.0), offered(2000.0, kept=False), offered(3000.0)]

    assert highest_kept(good) == 3000
    assert highest_kept(late) == 1000
    assert highest_kept(late[1:]) == 0
    assert highest_kept(good, 2500.0) == 2000
    assert highest_kept([]) == 0


def test_the_lowest_of_five_is_below_the_median_with_97_percent() -> None:
    assert confidence_of_lowest(5) == pytest.approx(0.96875)


def listed(due_s: "np.ndarray", waits_s: "np.ndarray") -> Requests:
    due, done = (np.rint(at * SECOND).astype(np.int64) for at in (due_s, due_s + waits_s))
    return Requests.of(due, due, done, np.zeros(len(due), dtype=np.bool_))


def judge(requests: Requests, *, limit_ms: float = 10, rate: float = 1000.0) -> OfferedRate:
    found = judged(requests, OfferedWindow(rate, 100, 0.0, 60.0, 0.99, limit_ms * 1e6))
    assert found.kept == (found.reason == "")
    return found


def steady(rate: float = 1000.0) -> "np.ndarray":
    return np.arange(0, 60, 1 / rate)


def test_a_rate_holds_only_if_it_was_done_in_time_without_a_growing_backlog() -> None:
    due = steady()
    assert judge(listed(due, np.full(len(due), 0.001))).reason == ""
    assert "above the limit" in judge(listed(due, np.full(len(due), 0.011))).reason
    assert "backlog" in judge(listed(due, 0.001 + due / 60 * 0.001)).reason


def test_what_was_never_sent_has_waited_until_the_end() -> None:
    due = steady()
    lost = listed(due, np.full(len(due), 0.001))
    for at in (lost.sent_ns, lost.done_ns):
        at[-1200:] = NEVER_NS  # due in the last 1.2 s of 60: two percent

    found = judge(lost)

    assert "98.0 % of the requests that were due" in found.reason
    assert found.value_ns == pytest.approx(0.6e9, rel=0.02)  # half of these waited longer
    assert found.seen_ns < 1.1e6


def test_a_backlog_that_the_limit_would_allow_is_none_that_holds() -> None:
    # 1 % more comes than is done: after a minute requests wait 0.6 s, within a limit of 2 s
    due = steady()
    late = listed(due, 0.01 + 0.01 * due)

    assert not judge(late, limit_ms=2000).kept


def test_too_few_requests_for_a_bound_keep_no_limit() -> None:
    due = np.linspace(0, 59, 100)
    few = listed(due, np.full(100, 0.001))

    assert "too few" in judge(few, rate=1.67).reason
    blocks = blocked(few, few.waited_ns(60e9), OfferedWindow(1.67, 100, 0.0, 60.0, 0.99, 1e7))
    assert percentile(blocks, 0.99) is not None
    assert sum(block.n for block in blocks) == 100


def test_both_directions_must_keep_the_limit() -> None:
    due = steady()
    is_write = np.arange(len(due)) % 4 == 0
    mixed = listed(due, np.where(is_write & (np.arange(len(due)) % 32 == 0), 0.02, 0.001))
    mixed = Requests(mixed.due_ns, mixed.sent_ns, mixed.done_ns, is_write)

    found = judge(mixed)  # an eighth of the writes is slow, and a thirty-second of all

    assert not found.kept
    assert found.value_ns == pytest.approx(20e6, rel=0.02)
    assert found.beyond == pytest.approx(150)


@pytest.mark.parametrize(("direction", "kept"), [("read", True), ("write", False), (None, False)])
def test_only_the_limited_direction_must_keep_the_limit(
    direction: Direction | None, kept: bool
) -> None:
    due = steady()
    is_write = np.arange(len(due)) % 4 == 0
    mixed = listed(due, np.where(is_write, 0.02, 0.001))  # each write is too slow, and no read
    mixed = Requests(mixed.due_ns, mixed.sent_ns, mixed.done_ns, is_write)

    offer = OfferedWindow(1000, 100, 0.0, 60.0, 0.99, 10e6, direction)
    found = judged(mixed, offer)

    assert found.kept == kept
    assert found.value_ns == pytest.approx(1e6 if kept else 20e6, rel=0.02)
    assert found.beyond == pytest.approx(450 if kept else 150)
    assert (found.stalls == 0) == kept


@pytest.mark.parametrize(("clients", "iops", "stall_s"), [(16, 1000, 1.0), (64, 2000, 0.5)])
def test_requests_of_a_stall_found_every_client_busy(
    clients: int, iops: int, stall_s: float
) -> None:
    """One queue for all clients: once it is full, every stall makes all of them wait."""
    cycle_s, cycles, service_s = 10.0, 30, 0.0005
    due = np.cumsum(np.random.default_rng(3).exponential(1 / iops, round(iops * cycle_s * cycles)))
    free, sent, done, met_all_busy = [0.0] * clients, [], [], 0
    for at in due:
        first = heappop(free)
        met_all_busy += first > at
        begun = max(at, first)
        done.append(begun + service_s + max(0.0, stall_s - begun % cycle_s))
        sent.append(begun)
        heappush(free, done[-1])
    at_ns = [np.rint(np.array(at) * SECOND).astype(np.int64) for at in (due, sent, done)]
    requests = Requests.of(at_ns[0], at_ns[1], at_ns[2], np.zeros(len(due), dtype=np.bool_))

    share = found_all_busy(requests, clients, 0.0, float(at_ns[0][-1]) + 1)

    assert share == pytest.approx(met_all_busy / len(due), rel=0.001)
    # each stall is one, however many requests waited in it
    whole = requests.due_between(0.0, cycles * cycle_s * SECOND)
    assert stalls(whole.due_ns, whole.waited_ns(SECOND * 1000), 20e6) == cycles


def test_requests_of_several_clients_become_one_queue() -> None:
    def one(start: int) -> Requests:
        due: Whole = np.arange(start, 100, 10)
        return Requests.of(due, due, due + 5, due % 2 == 0)

    merged = Requests.merged([one(3), one(0)])

    assert list(merged.due_ns[:4]) == [0, 3, 10, 13]
    assert list(merged.of_direction(writes=True).due_ns[:2]) == [0, 10]
    assert not len(Requests.merged([]).due_ns)
    assert Histogram.of(merged.waited_ns(1000)).n == 20
