"""The targets of the profile on the page: met or missed, and the datasheet's values."""

from collections import Counter
from collections.abc import Sequence

from ssdbench.model.profile.accept import Accepted, Outcome
from ssdbench.model.result import RunResult
from ssdbench.report.view import words
from ssdbench.report.view.page import Block, Cell, Prose, Section, Table, numbers, texts
from ssdbench.units import counted

TONES: dict[Outcome, str] = {"pass": "good", "fail": "bad", "cannot tell": "warn"}
_NAMES = {
    "iops": "rate",
    "throughput_bytes_per_s": "throughput",
    "worst_minute_iops": "worst minute",
    "worst_second_iops": "worst second",
    "write_amplification": "write amplification",
}


def sections(result: RunResult) -> list[Section]:
    """One section for a profile with targets; none for another."""
    if not result.accepted:
        return []
    blocks: list[Block] = [Prose(_lead(result.accepted), tone=_tone(result.accepted))]
    blocks.append(_table(result.accepted))
    if any(row.datasheet is not None for row in result.accepted):
        blocks.append(_beside(result.accepted))
    return [Section("targets", "Targets", blocks)]


def wanted(row: Accepted) -> str:
    """`rate at least 40,000 IOPS`, with the load at which it is wanted."""
    limit = f"{name(row)} {row.direction} {_value(row, row.wanted)}"
    return f"{limit} {row.load}".rstrip()


def seen(row: Accepted) -> str:
    """Format the measured value at its pessimistic limit."""
    return _value(row, row.seen)


def middle(row: Accepted) -> str:
    """Format the measured mean or percentile."""
    return _value(row, row.middle)


def name(row: Accepted) -> str:
    """`rate`, `p99.9`, `read p99`."""
    latency = row.metric.removeprefix("lat_").removesuffix("_ns").replace("_", " ")
    return _NAMES.get(row.metric) or latency


def _value(row: Accepted, value: float | None) -> str:
    return words.quantity(value, "" if row.unit == "1" else row.unit)


def _tone(rows: Sequence[Accepted]) -> str:
    outcomes = {row.outcome for row in rows}
    worst = sorted(TONES, key=("fail", "cannot tell", "pass").index)
    return next(TONES[word] for word in worst if word in outcomes)


def _lead(rows: Sequence[Accepted]) -> str:
    seen_so_often = Counter(row.outcome for row in rows)
    parts = [f"{counted(seen_so_often[word], 'number')}: {word}" for word in TONES
             if seen_so_often[word]]  # fmt: skip
    return (
        f"{', '.join(parts)}. A rate is judged by its bound, a percentile by its upper 95 % limit; "
        "what is not VALIDATED never passes."
    )


def _table(rows: Sequence[Accepted]) -> Table:
    columns = [
        *texts("Target", "Wanted"),
        *numbers("Ours, pessimistic", "Mean or percentile"),
        *texts("Outcome", "Why"),
    ]
    return Table("What the drive must hold", columns, [_row(row) for row in rows])


def _row(row: Accepted) -> list[Cell]:
    return [
        Cell(words.times(row.target), hint=row.workload),
        Cell(wanted(row)),
        Cell(seen(row), "strong"),
        Cell(middle(row)),
        Cell(row.outcome, TONES[row.outcome]),
        Cell(words.sentence(row.why)),
    ]


def _beside(rows: Sequence[Accepted]) -> Table:
    columns = [
        *texts("Target", "Number"),
        *numbers("Ours, pessimistic", "Datasheet"),
        *texts("Its conditions", "Why ours is worse, as far as this run knows"),
    ]
    stated = [row for row in rows if row.datasheet is not None]
    return Table("Beside the datasheet", columns, [_stated(row) for row in stated])


def _stated(row: Accepted) -> list[Cell]:
    told = row.datasheet_conditions or "none stated"
    worse = row.worse_because
    return [
        Cell(words.times(row.target), hint=row.workload),
        Cell(name(row)),
        Cell(seen(row), "strong"),
        Cell(_value(row, row.datasheet)),
        Cell(f"{told} ({row.datasheet_source})" if row.datasheet_source else told),
        Cell("; ".join(worse) or words.NONE),
    ]
