"""How long a store of 100,000 drives takes to answer: `python -m benchmarks.store_query`.

The rows are made by DuckDB in the form of a store, 52 for each drive. The question is the one of a
planner: mean, worst and 5th percentile of each model and firmware. Two threads, 900 MB at most.
"""

import argparse
import resource
import tempfile
import time
from functools import partial
from pathlib import Path

from ssdbench.export.query import ask
from ssdbench.export.store import SQL_TYPES, TABLES, Origin, Store
from ssdbench.report.database import connection, quoted

DRIVES, ROWS, MODELS, FIRMWARES = 100_000, 52, 10, 4
QUERY = """
SELECT model, firmware, count(DISTINCT run_id) AS drives, avg(metric_value) AS mean,
       min(metric_value) AS worst, quantile_cont(metric_value, 0.05) AS p5
FROM repeats WHERE metric = 'iops' GROUP BY ALL ORDER BY ALL
"""
VALUES = {
    "run_id": "'run-' || drive", "result_sha256": "md5(drive::VARCHAR) || md5(drive::VARCHAR)",
    "method": "1", "model": "'MODEL ' || (drive % {models})", "serial": "'S' || drive",
    "firmware": "'FW' || (drive % {firmwares})", "identity": "'eui.' || drive",
    "is_simulated": "false", "metric": "'iops'", "repeat_number": "row_number",
    "metric_value": "100000 + 10000 * random()", "unit": "'1/s'", "block_bytes": "4096",
    "read_percent": "row_number % 5 * 25", "verdict": "'VALIDATED'",
}  # fmt: skip


def build(directory: Path, drives: int) -> Store:
    """A store of so many drives, a part for each model."""
    store = Store.made(directory)
    for model in range(MODELS):
        runs = [Origin(f"run-{n}", "", "", 1, "") for n in range(model, drives, MODELS)]
        store.write(f"MODEL {model}", "2026-11", runs, partial(_fill, model=model, drives=drives))
    return store


def _fill(path: Path, *, model: int, drives: int) -> None:
    with connection(threads=1) as database:
        for name, types in TABLES.items():
            columns = ", ".join(
                f"CAST({VALUES.get(column, 'NULL')} AS {SQL_TYPES[kind]}) AS {column}"
                for column, kind in types.items()
            ).format(models=MODELS, firmwares=FIRMWARES)
            rows = ROWS if name == "repeats" else 1
            database.execute(
                f"COPY (SELECT {columns} FROM range({model}, {drives}, {MODELS}) d(drive), "
                f"range({rows}) r(row_number)) TO {quoted(str(path / name))}.parquet".replace(
                    "'.parquet", ".parquet'"
                )
                + " (FORMAT parquet, COMPRESSION zstd)"
            )


def main() -> None:
    """Print one line: rows, bytes, seconds, memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("drives", type=int, nargs="?", default=DRIVES)
    drives = parser.parse_args().drives
    with tempfile.TemporaryDirectory(prefix="ssdbench-store-") as place:
        store = build(Path(place) / "store", drives)
        size = sum(path.stat().st_size for path in Path(place).rglob("*.parquet"))
        times: list[tuple[float, float, int]] = []
        for _ in range(3):
            began, cpu = time.monotonic(), time.process_time()
            groups = len(ask(store, QUERY).rows)
            times.append((time.monotonic() - began, time.process_time() - cpu, groups))
    seconds, cpu_s, groups = min(times)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{drives:,} drives, {drives * ROWS:,} repeats, {size / 1e6:.0f} MB: "
        f"{groups} groups in {seconds:.2f} s ({cpu_s:.2f} s of CPU), "
        f"{most:.0f} MB at most, building included"
    )


if __name__ == "__main__":
    main()
