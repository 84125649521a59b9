"""`ssdbench latencies`: percentiles of fio's latency logs."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ssdbench.cli.options import json_option
from ssdbench.cli.output import answer, document, table

if TYPE_CHECKING:
    from ssdbench.stats.percentiles import Percentile


@click.command("latencies")
@click.argument("logs", metavar="LOG…", nargs=-1, required=True, type=click.Path(path_type=Path))
@json_option
def command(logs: tuple[Path, ...], as_json: bool) -> int:
    """Percentiles of fio's latency logs (write_lat_log), in constant memory.

    All logs are counted together. Percentiles come from fio's bins and are at most 1/64 too high.
    Those with fewer than 50 I/Os above them are left out. A log with a damaged row is refused; only
    its last line may be incomplete.
    """
    from ssdbench.cli.documents.stored import DirectionLatencies, Latencies
    from ssdbench.report.latencylog import latencies  # DuckDB takes a while to import
    from ssdbench.stats.percentiles import QUANTILES, percentile
    from ssdbench.units import format_ns

    logged = latencies(logs)
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
    "indicative": "only indicative: fewer than 100 I/Os are above",
    "suppressed": "left out: fewer than 50 I/Os are above",
}


def _published(found: "Percentile | None") -> float | None:
    """The value, unless too few I/Os lie beyond it."""
    return None if found is None or found.status == "suppressed" else found.value_ns
