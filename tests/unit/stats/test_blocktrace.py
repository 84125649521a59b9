"""Test the layers of a request from events with planted times."""

from ssdbench.stats.blocklayer import Seen, Step, medians_ns, traced_requests


def test_the_time_in_each_layer_is_the_time_between_its_events() -> None:
    traced = traced_requests(
        [
            Seen(100, Step.QUEUED, sector=8),
            Seen(130, Step.PLACED, sector=8),
            Seen(170, Step.INSERTED, sector=8),
            Seen(250, Step.ISSUED, sector=8, cpu=1),
            Seen(260, Step.DISPATCHED, cpu=1),
            Seen(900, Step.INTERRUPT, cpu=0),
            Seen(1000, Step.COMPLETED, sector=8, cpu=0),
        ]
    )

    assert medians_ns(traced.requests) == {
        "queue_ns": 30,
        "plug_ns": 40,
        "scheduler_ns": 80,
        "driver_ns": 10,
        "device_ns": 640,
        "completion_ns": 100,
        "whole_ns": 900,
    }


def test_without_events_of_driver_and_interrupt_the_device_has_the_rest() -> None:
    traced = traced_requests(
        [
            Seen(0, Step.QUEUED, sector=8),
            Seen(10, Step.PLACED, sector=8),
            Seen(15, Step.ISSUED, sector=8),
            Seen(115, Step.COMPLETED, sector=8),
        ]
    )

    assert medians_ns(traced.requests) == {
        "queue_ns": 10, "plug_ns": 5, "device_ns": 100, "whole_ns": 115
    }  # fmt: skip


def test_what_nvme_prepares_before_the_issue_is_the_drivers() -> None:
    traced = traced_requests(
        [
            Seen(0, Step.QUEUED, sector=8),
            Seen(10, Step.PLACED, sector=8),
            Seen(30, Step.PREPARED, cpu=1),
            Seen(45, Step.ISSUED, sector=8, cpu=1),
            Seen(145, Step.COMPLETED, sector=8),
        ]
    )

    layers = medians_ns(traced.requests)
    assert (layers["plug_ns"], layers["driver_ns"], layers["device_ns"]) == (20, 15, 100)


def test_a_merged_bio_is_counted_and_the_request_goes_on_from_its_new_start() -> None:
    traced = traced_requests(
        [
            Seen(0, Step.QUEUED, sector=8, sectors=8),
            Seen(10, Step.PLACED, sector=8, sectors=8),
            Seen(20, Step.QUEUED, sector=0, sectors=8),
            Seen(21, Step.MERGED_FRONT, sector=0, sectors=8),
            Seen(22, Step.QUEUED, sector=16, sectors=8),
            Seen(23, Step.MERGED_BACK, sector=16, sectors=8),
            Seen(30, Step.ISSUED, sector=0, sectors=24),
            Seen(90, Step.COMPLETED, sector=0, sectors=24),
        ]
    )

    assert traced.merged == 2
    assert [r.layers()["device_ns"] for r in traced.requests] == [60]


def test_requests_that_began_before_the_first_event_are_passed_over() -> None:
    traced = traced_requests([Seen(5, Step.ISSUED, sector=8), Seen(9, Step.COMPLETED, sector=8)])

    assert traced.requests == []
    assert medians_ns(traced.requests) == {}
