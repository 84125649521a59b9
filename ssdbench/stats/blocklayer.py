"""Measure the cost of the block layer: compare points with and without it, and read traces.

A closed loop keeps a fixed number of requests in flight. By Little's law (1961) the time of a
request is the number of requests in flight divided by the rate. The difference of the request times
at the two points is the cost of the layer, including queueing if several requests are in flight.
The repeats of the two points are compared in the same way as the repeats of two drives.

In a block trace a request is queued (Q), gets a request slot (G), is inserted into the scheduler
(I), issued to the driver (D) and completed (C); these are the letters of btt(1). If the trace also
has an event of the driver or of the interrupt, this event divides the time between D and C. The
method follows section 4, "Driver Timing", of the report on wimpy processors (2010;
docs/paper-conditions.md). But here each time is the median over all requests.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median

import numpy as np

from ssdbench.model.finding import Finding
from ssdbench.model.findings.host import BlockLayerCost
from ssdbench.model.point import PointResult
from ssdbench.model.workload import IoEngine
from ssdbench.stats.compare import ALPHA, compare
from ssdbench.units import NS_PER_S

# Against plain io_uring only the layer differs; against libaio also the submission interface.
_LIKE_IT = (IoEngine.IO_URING, IoEngine.LIBAIO)
LEAST_REPEATS = 2


def block_layer_costs(points: Sequence[PointResult], stage: str) -> Iterator[Finding]:
    """Return a finding for each point that was measured with and without the block layer."""
    for past in points:
        if past.point.workload.engine is not IoEngine.IO_URING_CMD:
            continue
        through = next((p for e in _LIKE_IT for p in points if _same_through(e, p, past)), None)
        if through is None or min(len(past.repeats), len(through.repeats)) < LEAST_REPEATS:
            continue
        times = [_request_ns(past), _request_ns(through)]
        if not all(map(len, times)):
            continue
        found = compare(*times)
        workload = through.point.workload.model_copy(update={"engine": IoEngine.LIBAIO})
        yield BlockLayerCost(
            workload=workload.label(),
            through=str(through.point.workload.engine),
            through_iops=_mean_iops(through),
            past_iops=_mean_iops(past),
            cost_ns=found.shift,
            cost_low_ns=found.shift_low,
            cost_high_ns=found.shift_high,
            p=found.p,
            shown=found.p <= ALPHA,
        ).finding(stage=stage, point=past.point.id)


def _same_through(engine: IoEngine, through: PointResult, past: PointResult) -> bool:
    wanted = past.point.workload.model_copy(update={"engine": engine})
    return through.point.workload == wanted and through.point.sweep == past.point.sweep


def _mean_iops(point: PointResult) -> float:
    return float(np.mean([repeat.iops for repeat in point.repeats]))


def _request_ns(point: PointResult) -> list[float]:
    """Return the mean time of a request in each repeat; empty if a repeat completed nothing."""
    in_flight = point.point.workload.iodepth * point.point.workload.numjobs
    rates = [repeat.iops for repeat in point.repeats]
    return [in_flight / rate * NS_PER_S for rate in rates] if all(rates) else []


class Step(StrEnum):
    """Name the kind of a trace event: the step that a request has reached."""

    QUEUED = "queued"  # Q
    PLACED = "placed"  # G: it got a request slot and a tag
    INSERTED = "inserted"  # I: into the scheduler
    ISSUED = "issued"  # D: to the driver
    COMPLETED = "completed"  # C
    MERGED_BACK = "merged-back"
    MERGED_FRONT = "merged-front"
    ABSORBED = "absorbed"  # a whole request became part of another
    REQUEUED = "requeued"
    PREPARED = "prepared"  # the driver begins, before D, on the same CPU
    DISPATCHED = "dispatched"  # the driver is about to pass it to the device, after D
    INTERRUPT = "interrupt"  # of the device, on the CPU that completes the request


@dataclass(frozen=True, slots=True)
class Seen:
    """Hold one trace event of one request; both sector fields are 0 if the event has no sectors."""

    at_ns: int
    step: Step
    cpu: int = 0
    sector: int = 0
    sectors: int = 0


@dataclass(slots=True)
class Request:
    """Hold the time at which a request passed each layer; None if no event shows this time."""

    queued_ns: int | None
    placed_ns: int
    inserted_ns: int | None = None
    prepared_ns: int | None = None
    issued_ns: int | None = None
    dispatched_ns: int | None = None
    interrupt_ns: int | None = None
    completed_ns: int | None = None

    def layers(self) -> dict[str, int]:
        """Return the nanoseconds in each layer, and `whole_ns` from queued to completed."""
        if self.issued_ns is None or self.completed_ns is None:
            return {}
        found = {}
        if self.queued_ns is not None:
            found["queue_ns"] = self.placed_ns - self.queued_ns
            found["whole_ns"] = self.completed_ns - self.queued_ns
        driver_ns = self.prepared_ns or self.issued_ns
        left_ns = self.dispatched_ns or self.issued_ns
        back_ns = self.interrupt_ns or self.completed_ns
        if self.inserted_ns is None:
            found["plug_ns"] = driver_ns - self.placed_ns
        else:
            found["plug_ns"] = self.inserted_ns - self.placed_ns
            found["scheduler_ns"] = driver_ns - self.inserted_ns
        if self.prepared_ns is not None or self.dispatched_ns is not None:
            found["driver_ns"] = left_ns - driver_ns
        found["device_ns"] = back_ns - left_ns
        if self.interrupt_ns is not None:
            found["completion_ns"] = self.completed_ns - self.interrupt_ns
        return found


@dataclass(slots=True)
class TracedRequests:
    """Collect all requests from a sequence of trace events."""

    requests: list[Request] = field(default_factory=list)
    merged: int = 0  # bios and requests that became part of another
    _bios: dict[int, int] = field(default_factory=dict)
    _open: dict[int, Request] = field(default_factory=dict)
    _interrupts: dict[int, int] = field(default_factory=dict)
    _prepared: dict[int, int] = field(default_factory=dict)
    _last_issued: dict[int, Request] = field(default_factory=dict)

    def take(self, seen: Seen) -> None:
        """Process one trace event; requests that began before the first event are ignored."""
        match seen.step:
            case Step.QUEUED:
                self._bios[seen.sector] = seen.at_ns
            case Step.PLACED:
                queued_ns = self._bios.pop(seen.sector, None)
                self._open[seen.sector] = Request(queued_ns, seen.at_ns)
            case Step.INTERRUPT:
                self._interrupts[seen.cpu] = seen.at_ns
            case Step.PREPARED:
                self._prepared[seen.cpu] = seen.at_ns
            case Step.DISPATCHED:
                if (request := self._last_issued.pop(seen.cpu, None)) is not None:
                    request.dispatched_ns = seen.at_ns
            case Step.MERGED_BACK | Step.MERGED_FRONT | Step.ABSORBED:
                self._merge(seen)
            case _:
                if (request := self._open.get(seen.sector)) is not None:
                    self._progress(request, seen)

    def _merge(self, seen: Seen) -> None:
        self.merged += 1
        if seen.step is Step.ABSORBED:
            self._open.pop(seen.sector, None)
            return
        self._bios.pop(seen.sector, None)
        if seen.step is Step.MERGED_FRONT:  # the request now begins where the bio begins
            request = self._open.pop(seen.sector + seen.sectors, None)
            if request is not None:
                self._open[seen.sector] = request

    def _progress(self, request: Request, seen: Seen) -> None:
        match seen.step:
            case Step.INSERTED:
                request.inserted_ns = seen.at_ns
            case Step.REQUEUED:
                request.issued_ns = request.dispatched_ns = None
            case Step.ISSUED:
                request.issued_ns = seen.at_ns
                prepared_ns = self._prepared.pop(seen.cpu, None)
                begun_ns = request.inserted_ns or request.placed_ns
                if prepared_ns is not None and prepared_ns >= begun_ns:
                    request.prepared_ns = prepared_ns
                self._last_issued[seen.cpu] = request
            case Step.COMPLETED:
                request.completed_ns = seen.at_ns
                interrupt_ns = self._interrupts.get(seen.cpu)
                left_ns = request.dispatched_ns or request.issued_ns
                if interrupt_ns is not None and left_ns is not None and interrupt_ns >= left_ns:
                    request.interrupt_ns = interrupt_ns
                self.requests.append(request)
                del self._open[seen.sector]


LAYERS = tuple(
    f"{name}_ns"
    for name in ("queue", "plug", "scheduler", "driver", "device", "completion", "whole")
)


def traced_requests(events: Iterable[Seen]) -> TracedRequests:
    """Process trace events, which must be in the order of time."""
    traced = TracedRequests()
    for seen in events:
        traced.take(seen)
    return traced


def medians_ns(requests: Iterable[Request]) -> Mapping[str, float]:
    """Return the median time of each layer. These medians do not add up to the total median."""
    found = [request.layers() for request in requests]
    values = {layer: [own[layer] for own in found if layer in own] for layer in LAYERS}
    return {layer: float(median(own)) for layer, own in values.items() if own}
