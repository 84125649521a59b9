"""Open loop: latencies from the due time against a simulated truth, and the search for a rate."""

import math
from heapq import heappop, heappush

import numpy as np
import pytest

from ssdbench.model.workload import ActiveRange, Arrivals, Pattern, Workload
from ssdbench.stats.histogram import Histogram
from ssdbench.stats.openloop import Search, all_busy, confidence_of_lowest, from_due
from ssdbench.stats.percentiles import percentile
from ssdbench.stats.ratejudge import judged

SECONDS, THREADS, RATE = 120.0, 20, 2000.0


def sent_and_due(arrivals: Arrivals, freeze_s: float) -> tuple[Histogram, Histogram]:
    """Latencies as threads with one request in flight see them, and from the due time.

    A drive answers in 0.2 to 0.6 ms but for one freeze that holds up everything.
    """
    rng = np.random.default_rng(5)
    seen, due = [], []
    gap_s = THREADS / RATE
    for _ in range(THREADS):
        count = int(SECONDS / gap_s)
        gaps = rng.exponential(gap_s, count) if arrivals is Arrivals.POISSON else gap_s
        at_s = np.cumsum(np.broadcast_to(gaps, count)) + rng.uniform(0, gap_s)
        free_s = 0.0
        for due_s, service_s in zip(at_s, rng.uniform(0.2e-3, 0.6e-3, count), strict=True):
            sent_s = max(due_s, free_s)
            ends_s = sent_s + service_s
            if sent_s < 60.0 + freeze_s and ends_s > 60.0:
                ends_s = 60.0 + freeze_s + service_s
            free_s = ends_s
            seen.append(ends_s - sent_s)
            due.append(ends_s - due_s)
    return tuple(Histogram.of(np.rint(np.array(x) * 1e9).astype(np.int64)) for x in (seen, due))  # type: ignore[return-value]


@pytest.mark.parametrize("arrivals", list(Arrivals))
@pytest.mark.parametrize("freeze_s", [0.5, 2.0])
def test_waits_that_the_generator_hid_are_found(arrivals: Arrivals, freeze_s: float) -> None:
    seen, true = sent_and_due(arrivals, freeze_s)

    found = from_due(seen, RATE / THREADS, arrivals)

    assert found.n == seen.n
    for quantile in (0.5, 0.99, 0.997, 0.999):
        wanted = true.percentile_ns(quantile)
        assert found.percentile_ns(quantile) == pytest.approx(wanted, rel=0.12)
    assert seen.percentile_ns(0.999) < 1e6 < 1e8 < true.percentile_ns(0.999)


def test_a_drive_that_always_answers_in_time_is_left_as_it_is() -> None:
    seen = Histogram.of(np.full(1000, 200_000))

    assert from_due(seen, 10, Arrivals.EVEN) is seen
    assert from_due(seen, 10, Arrivals.POISSON).percentile_ns(0.99) < 210_000


def test_a_rate_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="positive"):
        from_due(Histogram.empty(), 0.0, Arrivals.EVEN)


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


def test_the_lowest_of_five_is_below_the_median_with_97_percent() -> None:
    assert confidence_of_lowest(5) == pytest.approx(0.96875)


def a_rate(rate: float = 1000.0, arrivals: Arrivals = Arrivals.POISSON) -> Workload:
    return Workload(
        pattern=Pattern.RANDOM, block_bytes=4096, read_percent=100, numjobs=100,
        range=ActiveRange(offset_bytes=0, length_bytes=1 << 30), rate_iops=rate, arrivals=arrivals,
    )  # fmt: skip


def judge(latencies_ms: list[float], achieved: float = 1000.0, limit_ms: float = 10) -> str:
    """One block per latency, a thousand requests each; the reason, or empty when it holds."""
    blocks = {"read": [Histogram.of(np.full(1000, round(ms * 1e6))) for ms in latencies_ms]}
    found = judged(
        blocks, a_rate(), offered_iops=1000.0, achieved_iops=achieved, seconds=60.0,
        quantile=0.99, limit_ns=limit_ms * 1e6,
    )  # fmt: skip
    assert found.kept == (found.reason == "")
    return found.reason


def test_a_rate_holds_only_if_it_was_done_in_time_without_a_growing_backlog() -> None:
    assert judge([1.0] * 10) == ""
    assert "above the limit" in judge([11.0] * 10)
    assert "offered rate" in judge([1.0] * 10, achieved=970)
    assert "backlog" in judge([1 + n / 10 for n in range(10)])


def test_random_arrivals_alone_do_not_fail_a_rate() -> None:
    assert judge([1.0] * 10, achieved=1000 * 0.99 - 8) == ""


def test_too_few_requests_for_a_bound_keep_no_limit() -> None:
    blocks = {"read": [Histogram.of([1_000_000] * 10)] * 10}

    found = judged(
        blocks, a_rate(), offered_iops=1000, achieved_iops=1000, seconds=1,
        quantile=0.99, limit_ns=1e7,
    )  # fmt: skip

    assert not found.kept
    assert "too few" in found.reason
    assert percentile(blocks["read"], 0.99) is not None


@pytest.mark.parametrize(("clients", "iops", "stall_s"), [(16, 1000, 1.0), (64, 2000, 0.5)])
def test_requests_of_a_stall_found_every_client_busy(
    clients: int, iops: int, stall_s: float
) -> None:
    """One queue for all clients: each stall of ten seconds' cycle keeps all of them, once full."""
    cycle_s, cycles, service_s = 10.0, 30, 0.0005
    due = np.cumsum(np.random.default_rng(3).exponential(1 / iops, round(iops * cycle_s * cycles)))
    free, seen, met_all_busy = [0.0] * clients, [], 0
    for at in due:
        first = heappop(free)
        met_all_busy += first > at
        begun = max(at, first)
        into = begun % cycle_s
        done = begun + service_s + max(0.0, stall_s - into)
        seen.append(done - begun)
        heappush(free, done)

    share = all_busy(Histogram.of(np.array(seen) * 1e9), iops, clients, float(due[-1]))

    assert share == pytest.approx(met_all_busy / len(due), rel=0.15)


def test_clients_that_are_many_are_never_all_busy() -> None:
    quick = Histogram.of(np.full(10_000, 2_000_000))  # two requests of a thousand are in flight

    assert all_busy(quick, 1000, 16, 10.0) < 1e-6
    assert all_busy(quick, 1000, 2, 10.0) > 0.5
