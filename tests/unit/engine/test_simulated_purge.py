"""A simulated drive is purged by being made anew, or by discards of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ssdbench.engine.session import TargetSession
from ssdbench.engine.simulatedsession import SimulatedSession
from ssdbench.engine.targets import claimed
from ssdbench.errors import TargetRefused
from ssdbench.model.profile import Purge
from ssdbench.model.target import Consent
from ssdbench.sim.simulation import fill
from ssdbench.target.inspect import inspect

NAME = "sim:x25m-g2-160,capacity=256MiB"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[SimulatedSession]:
    with claimed(inspect(NAME), tmp_path, Consent()) as held:
        assert isinstance(held, SimulatedSession)
        fill(held._drive.core)
        yield held


def test_a_format_makes_it_anew_with_counters_of_their_own(session: SimulatedSession) -> None:
    before = session.counters()

    done = session.purge(Purge.FORMAT)

    after = session.counters()
    assert before.written_bytes == 256 << 20 and after.written_bytes == 0
    assert after.epoch != before.epoch  # so that no resume takes one for the other
    assert "created again" in done.said and not done.fallback


def test_discards_keep_its_counters_and_free_what_it_holds(session: SimulatedSession) -> None:
    before = session.counters()

    session.purge(Purge.DISCARD)

    assert session.counters() == before
    assert session._drive.core.counters()["mapped_units"] == 0


def test_it_has_no_ata_security(session: TargetSession) -> None:
    assert isinstance(session, SimulatedSession)
    with pytest.raises(TargetRefused, match="ATA"):
        session.purge(Purge.ATA_ERASE)
