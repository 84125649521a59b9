"""A search for a drive's parameters that is fast enough for tests."""

from collections.abc import Iterator

import pytest

from ssdbench.sim import amplification as small
from ssdbench.sim import fit as fitting
from ssdbench.sim.amplification import Policy


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Search around the truth only, on a smaller copy, which is ten times as fast."""
    monkeypatch.setattr(fitting, "SPARES", (0.12, 0.18, 0.27))
    monkeypatch.setattr(
        fitting, "POLICIES", (Policy("greedy"), Policy("dchoice", 6), Policy("fifo"))
    )
    monkeypatch.setattr(small, "UNITS", 32768)
    for kept in (small._simulated, small._offsets):
        kept.cache_clear()
    yield
    for kept in (small._simulated, small._offsets):
        kept.cache_clear()
