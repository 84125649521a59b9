"""A long latency log to percentiles, beside its peers: `python -m benchmarks.latency_log`.

A synthetic log of fio (time, latency, direction, block, offset) of `--rows` rows is read by
ssdbench and, in the usual way of each, by pandas, polars and DuckDB, in turns, each in a process of
its own; wall and CPU times and peak memory are theirs. Beside each peer stands how many times its
time ssdbench took: of the best rounds, of each round, and of CPU time, which waiting does not
change. The limit holds for the best rounds against the best peer. polars is no dependency of
ssdbench: `nox -s bench` installs it, and where it is not installed the table says so. The peers'
percentiles are exact, ours come from fio's bins; all must agree within 1/64.

The second table is the cost of judging: one-second samples of a day, judged every minute.
"""

import argparse
import importlib.util
import json
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ssdbench.host.command import run
from ssdbench.report.latencylog import latencies
from ssdbench.stats.steady.rules import rule
from ssdbench.stats.steady.watch import Watch

LIMIT_RATIO = 1.5
LIMIT_MB = 300
LIMIT_CPU = 0.01
DAY_S = 86_400
QUANTILES = (0.5, 0.99, 0.999, 0.9999)
COLUMNS = ("time_ms", "latency", "direction", "block", "offset")
CHUNK = 500_000
UNIQUE = 20  # chunks; longer logs repeat them, which no reader profits from

Found = dict[str, list[float]]


def write_log(path: Path, rows: int) -> None:
    """A log as fio writes it: lognormal latencies, 30 % writes, offsets over a terabyte."""
    rng = np.random.default_rng(1)
    written: list[bytes] = []
    with path.open("wb") as out:
        for start in range(0, rows, CHUNK):
            n = min(CHUNK, rows - start)
            if len(written) == UNIQUE and n == CHUNK:
                out.write(written[start // CHUNK % UNIQUE])
                continue
            times = 1_700_000_000_000 + np.arange(start, start + n) // 200
            latency = np.rint(rng.lognormal(12, 0.8, n)).astype(np.int64)
            direction = (rng.random(n) < 0.3).astype(np.int64)
            offset = rng.integers(0, 1 << 28, n) * 4096
            parts = zip(*(a.tolist() for a in (times, latency, direction, offset)), strict=True)
            written.append(b"".join(b"%d, %d, %d, 4096, %d\n" % part for part in parts))
            out.write(written[-1])


def by_ssdbench(path: Path) -> Found:
    """Ours: fio's bins, added up by DuckDB, in constant memory."""
    return {
        one.direction: [one.histogram.percentile_ns(q) for q in QUANTILES]
        for one in latencies([path])
    }


def by_pandas(path: Path) -> Found:
    """pandas: the two columns that are needed, whole."""
    import pandas as pd

    frame = pd.read_csv(path, header=None, names=list(COLUMNS), usecols=["latency", "direction"])
    return {
        name: frame.latency[frame.direction == code].quantile(list(QUANTILES)).tolist()
        for code, name in enumerate(("read", "write"))
    }


def by_polars(path: Path) -> Found:
    """polars: a lazy scan on its streaming engine."""
    import polars as pl  # type: ignore[import-not-found, unused-ignore]

    # a field with a space before it is no integer to polars' reader
    scan = pl.scan_csv(path, has_header=False, new_columns=list(COLUMNS), infer_schema=False)
    number = pl.col("latency").str.strip_chars().cast(pl.Int64)
    wanted = [number.quantile(q, interpolation="nearest").alias(str(q)) for q in QUANTILES]
    found = (
        scan.group_by(pl.col("direction").str.strip_chars().alias("d"))
        .agg(wanted)
        .collect(engine="streaming")
    )
    names = {"0": "read", "1": "write"}
    return {names[row[0]]: list(row[1:]) for row in found.iter_rows()}


def by_duckdb(path: Path) -> Found:
    """DuckDB: exact quantiles by group."""
    import duckdb

    kinds = "{" + ", ".join(f"'{name}': 'BIGINT'" for name in COLUMNS) + "}"
    query = (
        f"SELECT direction, quantile_disc(latency, {list(QUANTILES)}) FROM "
        f"read_csv('{path}', header = false, auto_detect = false, columns = {kinds}) GROUP BY 1"
    )
    with duckdb.connect() as database:
        rows = database.execute(query).fetchall()
    return {("read", "write")[row[0]]: list(row[1]) for row in rows}


READERS: dict[str, Callable[[Path], Found]] = {
    "ssdbench": by_ssdbench,
    "pandas": by_pandas,
    "polars": by_polars,
    "duckdb": by_duckdb,
}


def child(name: str, path: Path) -> None:
    """Read once, and say how long it took, how much memory, and what was found."""
    started, used = time.perf_counter(), time.process_time()
    found = READERS[name](path)
    seconds, cpu_s = time.perf_counter() - started, time.process_time() - used
    # Not getrusage: its peak is inherited from the process that started this one.
    status = Path("/proc/self/status").read_text()
    peak_mb = int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6
    print(json.dumps({"seconds": seconds, "cpu_s": cpu_s, "peak_mb": peak_mb, "found": found}))


def side_by_side(path: Path, rounds: int) -> dict[str, list[dict[str, object]]]:
    """Every reader in every round, in turns."""
    names = [n for n in READERS if n in ("ssdbench",) or importlib.util.find_spec(n)]
    found: dict[str, list[dict[str, object]]] = {name: [] for name in names}
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            argv = [sys.executable, "-m", "benchmarks.latency_log", "--child", name, str(path)]
            found[name].append(json.loads(run(argv, timeout_s=1800).stdout))
    return found


def judging_share() -> float:
    """Wall time over a day's length of judging its one-second samples every minute."""
    rng = np.random.default_rng(1)
    # A rate that never becomes steady is judged to the end: the dearest case.
    rates = 1000 * (1 + 0.5 * np.sin(np.arange(DAY_S) / 9000) + rng.normal(0, 0.02, DAY_S))
    watch = Watch(rule("pss"))
    started = time.perf_counter()
    for second, rate in enumerate(rates.tolist(), start=1):
        watch.push(float(second), rate, second / 3600)
    return (time.perf_counter() - started) / DAY_S


def _of(runs: Sequence[Mapping[str, object]], name: str) -> list[float]:
    return [float(str(one[name])) for one in runs]


def lines(found: Mapping[str, Sequence[Mapping[str, object]]]) -> Iterator[str]:
    """Each reader with its rounds, and what ssdbench took beside it."""
    own, own_cpu = (_of(found["ssdbench"], name) for name in ("seconds", "cpu_s"))
    rounds = "".join(f"{f'round {n}':>9}" for n in range(1, len(own) + 1))
    yield f"{'reader':10}{rounds}{'CPU s':>8}{'peak MB':>9}   ssdbench took x its time"
    for name, runs in found.items():
        wall, cpu = _of(runs, "seconds"), _of(runs, "cpu_s")
        told = "".join(f"{seconds:9.2f}" for seconds in wall)
        line = f"{name:10}{told}{min(cpu):8.2f}{max(_of(runs, 'peak_mb')):9.0f}"
        if name != "ssdbench":
            each = ", ".join(f"{a / b:.2f}" for a, b in zip(own, wall, strict=True))
            line += f"   best {min(own) / min(wall):.2f}, rounds {each}"
            line += f", CPU {min(own_cpu) / min(cpu):.2f}"
        yield line


def main() -> int:
    """Print both tables; status 1 when a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=10e6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child[0], Path(args.child[1]))
        return 0
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "lat.log"
        write_log(path, int(args.rows))
        size_mb = path.stat().st_size / 1e6
        found = side_by_side(path, args.rounds)
    print(f"{args.rows:.3g} rows, {size_mb:.0f} MB, Python {platform.python_version()}")
    best = {name: min(_of(runs, "seconds")) for name, runs in found.items()}
    peak_mb = max(_of(found["ssdbench"], "peak_mb"))
    for line in lines(found):
        print(line)
    for name in READERS.keys() - found.keys():
        print(f"{name:10} not installed")
    ratio = best["ssdbench"] / min(seconds for name, seconds in best.items() if name != "ssdbench")
    off = disagreement({name: runs[0]["found"] for name, runs in found.items()})
    print(f"ssdbench against the best peer: {ratio:.2f} x (limit {LIMIT_RATIO:g})")
    print(f"peak memory: {peak_mb:.0f} MB (limit {LIMIT_MB})")
    print(f"percentiles differ by {100 * off:.2f} % at most (bins allow {100 / 64:.2f} %)")
    share = judging_share()
    print(f"judging a day of seconds: {100 * share:.4f} % of a core (limit {100 * LIMIT_CPU:g} %)")
    kept = ratio <= LIMIT_RATIO and peak_mb <= LIMIT_MB and off <= 1 / 63 and share < LIMIT_CPU
    return 0 if kept else 1


def disagreement(found: dict[str, Any]) -> float:
    """The largest difference of any percentile of ours from any peer's, as a share."""
    ours = found["ssdbench"]
    worst = 0.0
    for peer in found.values():
        for name, values in peer.items():
            for own, other in zip(ours[name], values, strict=True):
                worst = max(worst, abs(own / other - 1))
    return worst


if __name__ == "__main__":
    sys.exit(main())
