"""Latencies within a repeat, from fio's histogram log of it: a row for every second and thread."""

import re
import zlib
from collections.abc import Iterator

import numpy as np

from ssdbench.model.rundirectory import FIO
from ssdbench.report.read import Seconds, StoredRun
from ssdbench.stats.histogram import Histogram

MOST_BYTES = 1 << 26  # of a log: an hour of four threads
ROW_MS = 1000  # what a row covers
_LOG = re.compile(r"_clat_hist(\.\d+)?\.log(\.gz)?$")
_GZIP = 31  # how zlib calls it


def within(
    run: StoredRun, artifacts: str, sides: tuple[str, ...], most: int
) -> dict[str, list[tuple[float, Histogram]]]:
    """The counted part of a repeat in at most so many parts of equal length, for each direction.

    A part is told by its end, in seconds since the counted part began. Empty where no log was kept,
    or none that is whole: a figure of half of the threads would be wrong.
    """
    from ssdbench.generator.fio.logs import DamagedLog, histogram_rows  # not without need

    seconds = run.seconds(f"{artifacts}/seconds.csv")
    if seconds is None or not seconds.measured.any():
        return {}
    try:
        threads = list(_logs(run, f"{artifacts}/{FIO}"))
        began_ms = min((int(lines[0].partition(",")[0]) for lines in threads), default=0) - ROW_MS
        first, last = _ends(seconds)
        step = max(1.0, np.ceil((last - first) / most))
        found: dict[str, list[tuple[float, Histogram]]] = {}
        for side in sides:
            parts: dict[int, list[Histogram]] = {}
            for lines in threads:
                from_ms, to_ms = (began_ms + 1000 * at for at in (first, last))
                for row in histogram_rows(lines, side, from_ms=from_ms, to_ms=to_ms):
                    place = int((row.t_ms - from_ms - 1) / 1000 / step)
                    parts.setdefault(place, []).append(Histogram(row.counts))
            found[side] = [
                (step * (n + 1), Histogram.merged(rows)) for n, rows in sorted(parts.items())
            ]
    except (DamagedLog, ValueError):
        run.missing.append(f"{artifacts}/{FIO} (a histogram log is damaged or too long)")
        return {}
    return found


def _ends(seconds: Seconds) -> tuple[float, float]:
    """The counted part, on the clock of the seconds."""
    t, length = (column[seconds.measured] for column in (seconds.t_s, seconds.duration_s))
    return float(t[0] - length[0]), float(t[-1])


def _logs(run: StoredRun, directory: str) -> Iterator[list[str]]:
    """The lines of each thread's log. Raises ValueError for one that is too long or torn."""
    names = [name for name in run.files(directory) if _LOG.search(name)]
    for name in names:
        if name.removesuffix(".gz") in names and name.endswith(".gz"):
            continue  # beside the plain one it may not be whole
        data = run.data(name) or b""
        if name.endswith(".gz"):
            data = _unpacked(data)
        if not data:
            raise ValueError("a log of nothing")
        yield data.decode("ascii", "replace").splitlines(keepends=True)


def _unpacked(data: bytes) -> bytes:
    """What a packed log holds; nothing of one that is too long or torn."""
    unpacker = zlib.decompressobj(_GZIP)
    try:
        plain = unpacker.decompress(data, MOST_BYTES)
    except zlib.error:
        return b""
    return plain if unpacker.eof else b""
