"""The host while the starts of a trial are measured: one series for the whole stage.

Starts may be short or last an hour, and what runs them waits for their end, so a thread looks at
the host meanwhile. It reads at both ends of each start, and every 10 s in a long one.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ssdbench.engine.hostseries import EVERY_S, MEASURED, HostSeries
from ssdbench.host.activity import Activity

BETWEEN = "between"
_SHORT_S = 1.0  # a pause between two starts that is not worth a reading of its own


class TrialHost:
    """Collects readings from the beginning of a stage on; the other I/O is not told apart."""

    def __init__(self, path: Path, read: Callable[[], Activity]) -> None:
        self._path = path
        self._began = time.monotonic()
        self._last_s = 0.0
        self._series = HostSeries(simulated=False, read=read, counts_foreign=False)

    @contextmanager
    def start(self) -> Iterator[None]:
        """One start, from before its program to after its end; the series so far is stored."""
        if time.monotonic() - self._began - self._last_s > _SHORT_S:
            self._mark(BETWEEN)
        over = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(over,), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()
        self._mark(MEASURED)
        self._series.write(self._path)

    def _watch(self, over: threading.Event) -> None:
        while not over.wait(EVERY_S):
            self._mark(MEASURED)

    def _mark(self, phase: str) -> None:
        self._last_s = time.monotonic() - self._began
        self._series.mark(self._last_s, phase)
