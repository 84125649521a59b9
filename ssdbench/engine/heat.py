"""Whether a repeat was too hot to count: temperature every 10 s, own counters at both ends."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from ssdbench.host.files import write_atomic
from ssdbench.host.heat import Heat
from ssdbench.model.finding import Finding
from ssdbench.model.findings.drive import ThrottlingCounted, TooHot

EVERY_S = 10.0  # of wall time
HEADER = "t_s,temperature_c,warning_c,phase\n"


class HeatWatch:
    """Reads the temperature now and then; a drive without a sensor is never asked again.

    A sensor that holds up I/O is read before and after only.
    """

    def __init__(
        self, read: Callable[[], Heat | None], *, wall: Callable[[], float] = time.monotonic
    ) -> None:
        self._read, self._wall = read, wall
        self._rows: list[tuple[float, Heat, str]] = []
        self._next_s = 0.0
        self._ask(0.0, "before")

    def look(self, t_s: float, phase: str) -> None:
        """Read if it is time, at `t_s` on the target's clock."""
        if self._rows and self._rows[-1][1].gentle and self._wall() >= self._next_s:
            self._ask(t_s, phase)

    def end(self, t_s: float) -> None:
        """Read once more, after the last request."""
        if self._rows:
            self._ask(t_s, "measure")

    def write(self, path: Path) -> None:
        """Store the series; nothing for a drive without a sensor."""
        if not self._rows:
            return
        lines = [
            f"{t_s:.0f},{heat.temperature_c:g},"
            f"{'' if heat.warning_c is None else f'{heat.warning_c:g}'},{phase}\n"
            for t_s, heat, phase in self._rows
        ]
        write_atomic(path, HEADER + "".join(lines))

    def findings(self) -> list[Finding]:
        """At most one: the drive was at or above its warning temperature while it was measured."""
        counted = [heat for _, heat, phase in self._rows if phase == "measure"]
        hot = [h for h in counted if h.alarm or (h.warning_c and h.temperature_c >= h.warning_c)]
        if not hot:
            return []
        worst = max(hot, key=lambda heat: heat.temperature_c)
        return [TooHot(len(hot), len(counted), worst.temperature_c, worst.warning_c).finding()]

    def _ask(self, t_s: float, phase: str) -> None:
        self._next_s = self._wall() + EVERY_S
        if (heat := self._read()) is not None:
            self._rows.append((t_s, heat, phase))


class ThrottleWatch:
    """The drive's own counters of being too hot, before a repeat and after it, never within."""

    def __init__(self, read: Callable[[], Mapping[str, int]]) -> None:
        self._read = read
        self._before = read()

    def findings(self) -> list[Finding]:
        """At most one; to be asked for when the last request is done."""
        after = self._read() if self._before else {}
        more = {
            name: after[name] - count
            for name, count in self._before.items()
            if after.get(name, 0) > count
        }
        if not more:
            return []
        return [ThrottlingCounted(tuple(more.values()), tuple(more)).finding()]
