"""Describe a trace of block I/O (`trace`), or compute percentiles of latency logs (`latencies`)."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ssdbench.cli.options import PATH, json_option
from ssdbench.cli.output import answer, document, table
from ssdbench.errors import UsageError
from ssdbench.units import format_ns

if TYPE_CHECKING:
    from ssdbench.model.profile.replay import Columns
    from ssdbench.stats.percentiles import Percentile


FORMS = (
    "auto", "iolog", "blktrace", "blkparse", "csv", "msr", "alibaba", "tencent", "fiu", "spc",
    "midas",
)  # fmt: skip
COLUMNS = (
    "time", "offset", "size", "op", "device", "read", "write", "time_unit", "offset_unit",
    "size_unit",
)  # fmt: skip


@click.command("trace")
@click.argument("file", type=PATH)
@click.option(
    "--form",
    "--format",
    type=click.Choice(FORMS),
    default="auto",
    help="Format of the file. msr, alibaba, tencent, fiu, spc and midas are published traces.",
)
@click.option(
    "--column",
    "columns",
    metavar="NAME=COLUMN",
    multiple=True,
    help="For a CSV file: the column of time, offset, size, op or device by its name or number, "
    "such as time=Timestamp or time=1; a unit: time_unit (s, ms, us, 100ns, ns), offset_unit or "
    "size_unit (bytes, sectors); or the word for read or write, such as read=0.",
)
@click.option(
    "--device",
    metavar="NAME",
    default="",
    help="In a trace of columns with several devices: count only the requests of this device. By "
    "default it is the device of the first request.",
)
@click.option(
    "--files",
    metavar="NAME",
    multiple=True,
    help="Count only the requests to this file of an iolog with several files. Repeat the option "
    "for more files, in the order in which the files lie on the drive.",
)
@click.option(
    "--processes", is_flag=True, help="Count requests by process; needs a trace of blkparse."
)
@json_option
def trace(
    file: Path,
    form: str,
    columns: tuple[str, ...],
    files: tuple[str, ...],
    device: str,
    *,
    processes: bool,
    as_json: bool,
) -> None:
    """Describe a trace: request sizes, mix, locality, bursts, working set, and ignored lines.

    FILE is an iolog of fio, the output of blktrace or blkparse, a CSV file, or a published trace.
    No drive is needed. A trace of any length is read in constant memory. To replay the trace on a
    drive, use `- replay:` in a profile.
    """
    from ssdbench.cli.documents.stored import Traced
    from ssdbench.generator.trace.forms import Trace
    from ssdbench.generator.trace.summary import summarised
    from ssdbench.model.profile.replay import TraceForm
    from ssdbench.report.view.replays import trace_facts

    trace = Trace(file, TraceForm(form), _columns(columns), processes, files, device)
    summary = summarised(trace)
    if as_json:
        document(Traced(file=str(file), trace=summary))
    else:
        answer(table(("trace", str(file)), trace_facts(summary)))


def _columns(given: tuple[str, ...]) -> "Columns":
    from pydantic import ValidationError

    from ssdbench.model.profile.replay import Columns

    pairs = dict(one.partition("=")[::2] for one in given)
    unknown = [name for name in pairs if name not in COLUMNS]
    if unknown or not all(pairs.values()):
        raise UsageError(
            f"--column takes NAME=COLUMN, not {given[0] if not unknown else unknown[0]!r}",
            hint=f"names: {', '.join(COLUMNS)}",
        )
    try:
        return Columns.model_validate(pairs)
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"--column {first['loc'][0]}: {first['msg']}") from error


@click.command("latencies")
@click.argument("logs", metavar="LOG…", nargs=-1, required=True, type=PATH)
@json_option
def latencies(logs: tuple[Path, ...], as_json: bool) -> int:
    """Compute percentiles from fio's latency logs (write_lat_log), in constant memory.

    All logs are counted together. Percentiles come from fio's bins and are at most 1/64 too high. A
    percentile with fewer than 50 I/Os above it is left out. A log with a damaged line is refused;
    only the last line may be incomplete.
    """
    from ssdbench.cli.documents.stored import DirectionLatencies, Latencies
    from ssdbench.report.latencylog import latencies as read_latencies
    from ssdbench.stats.percentiles import QUANTILES, percentile

    logged = read_latencies(logs)
    judged = {
        one.direction: {name: percentile([one.histogram], q) for name, q in QUANTILES.items()}
        for one in logged
    }
    if as_json:
        told = {
            one.direction: DirectionLatencies(
                n=one.histogram.n,
                percentiles_ns={k: _published(p) for k, p in judged[one.direction].items()},
                status={k: p.status for k, p in judged[one.direction].items() if p},
                max_ns=one.max_ns,
            )
            for one in logged
        }
        document(Latencies(directions=told))
        return 0
    rows = [
        [
            one.direction,
            f"{one.histogram.n:,}",
            *(
                "-" if (ns := _published(p)) is None else format_ns(ns)
                for p in judged[one.direction].values()
            ),
            format_ns(one.max_ns),
        ]
        for one in logged
    ]
    answer(table(["", "I/Os", *QUANTILES, "max"], rows))
    for one in logged:
        for status, words in _FEW.items():
            names = [k for k, p in judged[one.direction].items() if p and p.status == status]
            if names:
                answer(f"{one.direction} {', '.join(names)} {words}")
    return 0


_FEW = {
    "indicative": "uncertain: fewer than 100 I/Os are above this percentile",
    "suppressed": "left out: fewer than 50 I/Os are above this percentile",
}


def _published(found: "Percentile | None") -> float | None:
    """Return a percentile in ns; None if too few I/Os are above that percentile."""
    return None if found is None or found.status == "suppressed" else found.value_ns
