"""`ssdbench latencies`: percentiles of fio's latency logs."""

from pathlib import Path

import click

from ssdbench.cli.options import json_option
from ssdbench.cli.output import answer, document, table


@click.command("latencies")
@click.argument("logs", metavar="LOG…", nargs=-1, required=True, type=click.Path(path_type=Path))
@json_option
def command(logs: tuple[Path, ...], as_json: bool) -> int:
    """Percentiles of fio's latency logs (write_lat_log), in constant memory.

    All logs count as one. Percentiles come from fio's bins and are at most 1/64 too high.
    """
    from ssdbench.report.latencylog import latencies  # DuckDB takes a while to import
    from ssdbench.stats.percentiles import QUANTILES
    from ssdbench.units import format_ns

    found = latencies(logs)
    if as_json:
        document(
            {
                one.direction: {
                    "n": one.histogram.n,
                    **{f"{k}_ns": one.histogram.percentile_ns(q) for k, q in QUANTILES.items()},
                    "max_ns": one.max_ns,
                }
                for one in found
            }
        )
        return 0
    rows = [
        [
            one.direction,
            f"{one.histogram.n:,}",
            *(format_ns(one.histogram.percentile_ns(q)) for q in QUANTILES.values()),
            format_ns(one.max_ns),
        ]
        for one in found
    ]
    answer(table(["", "I/Os", *QUANTILES, "max"], rows))
    return 0
