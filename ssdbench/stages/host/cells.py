"""What the starts of a trial gave: cells, and their medians."""

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from statistics import median

from ssdbench.model.base import Model
from ssdbench.model.found import Median
from ssdbench.model.point import UnitRecord


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
    more: dict[str, float] = {}  # what a probe or a program told, by name with unit


class Step(UnitRecord):
    """A finished unit of a trial: a measured start, or a step that builds for those after it."""

    cell: Cell | None = None
    file_bytes: int = 0  # of the file that was written for them


def cells_of(steps: Iterable[Step]) -> list[Cell]:
    """Those that were measured."""
    return [step.cell for step in steps if step.cell is not None]


def medians(cells: Sequence[Cell], order: Sequence[str] = ()) -> list[Median]:
    """One per workload and variant, over its repeats; names that `order` has come in it."""
    place = {name: n for n, name in enumerate(order)}
    by_cell: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        by_cell.setdefault((cell.workload, cell.variant), []).append(cell)
    return [
        _median(workload, variant, found)
        for (workload, variant), found in sorted(
            by_cell.items(), key=lambda item: [(place.get(name, 0), name) for name in item[0]]
        )
    ]


def _median(workload: str, variant: str, found: Sequence[Cell]) -> Median:
    def of(figure: Callable[[Cell], float | None], cells: Sequence[Cell] = found) -> float | None:
        known = [value for cell in cells if (value := figure(cell)) is not None]
        return median(known) if known else None

    own = Median(
        workload=workload,
        variant=variant,
        repeats=len(found),
        iops=round(median(c.iops for c in found), 1),
        iops_least=round(min(c.iops for c in found), 1),
        iops_most=round(max(c.iops for c in found), 1),
        bw_bytes_per_s=round(median(c.bw_bytes_per_s for c in found)),
        lat_p50_ns=_whole(of(lambda c: c.lat_p50_ns)),
        disturbed=sum(bool(c.disturbed) for c in found),
    )
    # A probe or a program costs the host time of its own.
    if names := dict.fromkeys(name for cell in found for name in cell.more):
        more = {n: median(c.more[n] for c in found if n in c.more) for n in names}
        return own.model_copy(update={"more": {n: round(value, 2) for n, value in more.items()}})
    own = own.model_copy(
        update={
            "lat_p99_ns": _whole(of(lambda c: c.lat_p99_ns)),
            "cpu_us_per_io": _cents(of(lambda c: c.cpu_us_per_io)),
        }
    )
    # Starts that sent the drive nothing in the window that was watched tell nothing of that.
    if not (seen := [c for c in found if c.iops_per_core > 0]):
        return own
    watts = [c.iops_per_watt for c in seen if c.iops_per_watt is not None]
    return own.model_copy(
        update={
            "host_cpu_us_per_io": _cents(of(lambda c: c.host_cpu_us_per_io, seen)),
            "iops_per_core": _whole(of(lambda c: c.iops_per_core, seen)),
            "iops_per_watt": round(median(watts), 1) if len(watts) == len(seen) else None,
            "merges_per_io": _cents(of(lambda c: c.merges_per_io, seen)),
            "interrupts_per_io": _cents(of(lambda c: c.interrupts_per_io, seen)),
            "in_flight": _cents(of(lambda c: c.in_flight, seen)),
        }
    )


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _cents(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def cells_csv(cells: Sequence[Cell]) -> str:
    """Every cell, one line each."""
    text = io.StringIO()
    more = sorted({name for cell in cells for name in cell.more})
    columns = [name for name in Cell.model_fields if name != "more"]
    writer = csv.DictWriter(text, [*columns, *more], lineterminator="\n")
    writer.writeheader()
    writer.writerows({**cell.model_dump(exclude={"more"}), **cell.more} for cell in cells)
    return text.getvalue()
