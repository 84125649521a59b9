"""Show the targets of the profile, which of them the drive met, and the datasheet's values."""

from collections import Counter
from collections.abc import Sequence

from ssdbench.model.profile.accept import Accepted, Outcome
from ssdbench.model.result import RunResult
from ssdbench.report.view import words
from ssdbench.report.view.page import Block, Cell, ColumnOf, Prose, Section, number, table_of
from ssdbench.units import counted

TONES: dict[Outcome, str] = {"pass": "good", "fail": "bad", "cannot tell": "warn"}
_NAMES = {
    "iops": "rate",
    "throughput_bytes_per_s": "throughput",
    "worst_minute_iops": "worst minute",
    "worst_second_iops": "worst second",
    "write_amplification": "write amplification",
    "watts": "power of the drive",
    "iops_per_watt": "rate per watt",
}


def sections(result: RunResult) -> list[Section]:
    """Return the section about the profile's targets; no section if the profile has no targets."""
    rows = result.accepted
    if not rows:
        return []
    # the colour of the worst outcome
    outcomes = {row.outcome for row in rows}
    worst = sorted(TONES, key=("fail", "cannot tell", "pass").index)
    blocks: list[Block] = [
        Prose(_lead(rows), tone=next(TONES[word] for word in worst if word in outcomes)),
        table_of("The requirements of the profile", rows, _REQUIRED),
    ]
    if stated := [row for row in rows if row.datasheet is not None]:
        blocks.append(table_of("Measured values and the datasheet", stated, _STATED))
    return [Section("targets", "Targets", blocks)]


def wanted(row: Accepted) -> str:
    """Format the required limit and the load, such as `rate at least 40,000 IOPS`."""
    limit = f"{name(row)} {row.direction} {_value(row, row.wanted)}"
    return f"{limit} {row.load}".rstrip()


def seen(row: Accepted) -> str:
    """Format the pessimistic end of the measured value, which is compared with the limit."""
    return _value(row, row.seen)


def middle(row: Accepted) -> str:
    """Format the measured mean, or the measured percentile."""
    return _value(row, row.middle)


def name(row: Accepted) -> str:
    """Return the name of the limited value, such as `rate`, `p99.9` or `read p99`."""
    latency = row.metric.removeprefix("lat_").removesuffix("_ns").replace("_", " ")
    return _NAMES.get(row.metric) or latency


def _value(row: Accepted, value: float | None) -> str:
    return words.quantity(value, "" if row.unit == "1" else row.unit)


def _lead(rows: Sequence[Accepted]) -> str:
    counts = Counter(row.outcome for row in rows)
    parts = [f"{counted(counts[word], 'number')}: {word}" for word in TONES if counts[word]]
    return (
        f"{', '.join(parts)}. A rate passes if its lower bound does, a percentile of latency if "
        "its upper 95 % limit does. A number that is not VALIDATED never passes."
    )


def _target(row: Accepted) -> Cell:
    return Cell(words.times(row.target), hint=row.workload)


def _conditions(row: Accepted) -> str:
    text = row.datasheet_conditions or "none stated"
    return f"{text} ({row.datasheet_source})" if row.datasheet_source else text


_SEEN: ColumnOf[Accepted] = (
    number("Measured, pessimistic limit"),
    lambda row: Cell(seen(row), "strong"),
)
_REQUIRED: list[ColumnOf[Accepted]] = [
    ("Target", _target),
    ("Required", lambda row: Cell(wanted(row), "name")),
    _SEEN,
    (number("Mean or percentile"), middle),
    ("Outcome", lambda row: Cell(row.outcome, TONES[row.outcome])),
    ("Why", lambda row: Cell(words.sentence(row.why), "name")),
]
_STATED: list[ColumnOf[Accepted]] = [
    ("Target", _target),
    ("Number", name),
    _SEEN,
    (number("Datasheet"), lambda row: _value(row, row.datasheet)),
    ("Conditions of the datasheet", _conditions),
    (
        "Possible reasons why the measured value is worse",
        lambda row: "; ".join(row.worse_because) or words.NONE,
    ),
]
