"""What the starts of an experiment over the host gave: cells, their medians, the stage's result."""

import csv
import io
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Protocol, Self

from ssdbench.engine.journal import utc_now
from ssdbench.engine.stage import Context
from ssdbench.host.files import make_directory, write_atomic
from ssdbench.model.base import Model
from ssdbench.model.finding import Finding
from ssdbench.model.findings.course import CutShort
from ssdbench.model.findings.host import StartsDisturbed
from ssdbench.model.findings.kind import FindingKind
from ssdbench.model.kind import StageKind
from ssdbench.model.result import StageResult, stage_result

CSV = "cells.csv"


class Cell(Model):
    """One measured start."""

    variant: str
    workload: str
    repeat: int
    iops: float
    bw_bytes_per_s: float
    lat_p50_ns: float | None = None  # None where a program tells none
    lat_p99_ns: float | None = None
    cpu_us_per_io: float = 0.0  # of fio's threads, user and system
    bytes_read: int = 0
    bytes_written: int = 0
    disturbed: str = ""
    host_cpu_us_per_io: float = 0.0  # of everybody, kernel threads and interrupts included
    iops_per_core: float = 0.0  # per CPU second of the whole host
    iops_per_watt: float | None = None  # of the CPU packages; None where no meter tells
    merges_per_io: float = 0.0
    interrupts_per_io: float = 0.0
    switches_per_io: float = 0.0
    in_flight: float = 0.0  # mean occupancy of the drive's queue
    in_flight_p95: float = 0.0
    more: dict[str, float] = {}  # what a probe showed, by name with unit


class Experiment(Protocol):
    """What a result says of its stage."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> StageKind: ...
    @property
    def title(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Began:
    """When a stage began, on each clock that its result tells."""

    started_at: str
    wall: float  # time.monotonic()
    meter_s: float  # what the run had spent on the target before

    @classmethod
    def now(cls, context: Context) -> Self:
        """This moment."""
        return cls(utc_now(), time.monotonic(), context.meter.seconds)


def kept(
    stage: Experiment,
    context: Context,
    began: Began,
    cells: Sequence[Cell],
    *,
    cut_short: str,
    summary: Mapping[str, str | int | float | bool | None],
    compared: Sequence[Mapping[str, object]],
    skipped: Sequence[Finding] = (),
) -> StageResult:
    """The result of an experiment, with its cells in a file; stored when it is complete.

    `compared` are its medians; `skipped` says what could not be tried on this host.
    """
    path = context.store.path / CSV
    make_directory(path.parent)  # a stage that failed before its first start has none
    write_atomic(path, cells_csv(cells))
    result = stage_result(
        name=stage.name,
        kind=stage.kind,
        title=stage.title,
        started_at=began.started_at,
        duration_s=context.meter.seconds - began.meter_s,
        wall_s=time.monotonic() - began.wall,
        bytes_read=sum(cell.bytes_read for cell in cells),
        bytes_written=sum(cell.bytes_written for cell in cells),
        summary=dict(summary),
        findings=(*skipped, *cell_findings(stage.name, cells, cut_short)),
        figures=({"kind": "trial", "csv": context.store.relative(path), "title": stage.title},),
        data={"medians": [dict(record) for record in compared]},
        complete=not cut_short,
    )
    if result.complete:
        context.store.save("stage.json", result)
    return result


def medians(cells: Sequence[Cell], order: Sequence[str] = ()) -> list[dict[str, object]]:
    """One record per workload and variant, over its repeats; names that `order` has come in it."""
    place = {name: n for n, name in enumerate(order)}
    by_cell: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        by_cell.setdefault((cell.workload, cell.variant), []).append(cell)
    return [
        {
            "workload": workload,
            "variant": variant,
            "repeats": len(found),
            "iops": round(median(c.iops for c in found), 1),
            "iops_least": round(min(c.iops for c in found), 1),
            "iops_most": round(max(c.iops for c in found), 1),
            "bw_bytes_per_s": round(median(c.bw_bytes_per_s for c in found)),
            **_latency("lat_p50_ns", [c.lat_p50_ns for c in found]),
            **(_probed(found) or _costs(found)),
            "disturbed": sum(bool(c.disturbed) for c in found),
        }
        for (workload, variant), found in sorted(
            by_cell.items(), key=lambda item: [(place.get(name, 0), name) for name in item[0]]
        )
    ]


def _latency(name: str, values: Sequence[float | None]) -> dict[str, object]:
    """The median of those that are known; nothing without any."""
    known = [value for value in values if value is not None]
    return {name: round(median(known))} if known else {}


def _costs(found: Sequence[Cell]) -> dict[str, object]:
    """Medians of what the host spent; left out where a probe spent some of it itself.

    Starts that sent the drive nothing in the window that was watched tell nothing of that.
    """
    own = {
        **_latency("lat_p99_ns", [c.lat_p99_ns for c in found]),
        "cpu_us_per_io": round(median(c.cpu_us_per_io for c in found), 2),
    }
    if not (found := [c for c in found if c.iops_per_core > 0]):
        return own
    return {
        **own,
        "host_cpu_us_per_io": round(median(c.host_cpu_us_per_io for c in found), 2),
        "iops_per_core": round(median(c.iops_per_core for c in found)),
        **_energy(found),
        "merges_per_io": round(median(c.merges_per_io for c in found), 2),
        "interrupts_per_io": round(median(c.interrupts_per_io for c in found), 2),
        "in_flight": round(median(c.in_flight for c in found), 2),
    }


def _probed(found: Sequence[Cell]) -> dict[str, object]:
    """Medians of what a probe showed, in its order."""
    names = dict.fromkeys(name for cell in found for name in cell.more)
    return {
        name: round(median(cell.more[name] for cell in found if name in cell.more), 2)
        for name in names
    }


def _energy(found: Sequence[Cell]) -> dict[str, object]:
    """IOPS per watt, only where every repeat could tell."""
    told = [cell.iops_per_watt for cell in found if cell.iops_per_watt is not None]
    return {"iops_per_watt": round(median(told), 1)} if len(told) == len(found) else {}


def cells_csv(cells: Sequence[Cell]) -> str:
    """Every cell, one line each."""
    text = io.StringIO()
    more = sorted({name for cell in cells for name in cell.more})
    columns = [name for name in Cell.model_fields if name != "more"]
    writer = csv.DictWriter(text, [*columns, *more], lineterminator="\n")
    writer.writeheader()
    writer.writerows({**cell.model_dump(exclude={"more"}), **cell.more} for cell in cells)
    return text.getvalue()


def cell_findings(stage: str, cells: Sequence[Cell], cut_short: str) -> list[Finding]:
    """That starts were disturbed, or that not all were made."""
    found: list[FindingKind] = []
    disturbed = [cell for cell in cells if cell.disturbed]
    if disturbed:
        found.append(StartsDisturbed(len(disturbed), len(cells), disturbed[0].disturbed))
    if cut_short:
        found.append(CutShort(len(cells), None, "starts", cut_short))
    return [kind.finding(stage=stage) for kind in found]
