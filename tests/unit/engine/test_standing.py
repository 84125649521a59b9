import pytest

from ssdbench.engine.journal import Kind, Record
from ssdbench.engine.session import KERNEL, SIMULATED, Counters
from ssdbench.engine.standing import standing

GB = 10**9


def a_record(n: int, kind: Kind, written: int, *, second: int, epoch: str = "boot a") -> Record:
    counters = Counters(written_bytes=written, epoch=epoch, source=KERNEL)
    return Record(
        n, f"2026-01-01T00:00:{second:02d}+00:00", kind, "s", "u", {"counters": dict(counters)}
    )


AT_REST = [a_record(0, Kind.BEGUN, 0, second=0), a_record(1, Kind.FINISHED, 10 * GB, second=10)]
AT_WORK = [*AT_REST, a_record(2, Kind.BEGUN, 10 * GB, second=11)]


@pytest.mark.parametrize(
    ("records", "written", "stands"),
    [
        pytest.param(AT_REST, 10 * GB, True, id="nothing-moved"),
        pytest.param(AT_REST, 10 * GB + 512, False, id="one-sector-from-elsewhere"),
        pytest.param(AT_REST, 9 * GB, False, id="counter-went-back"),
        pytest.param(AT_WORK, 15 * GB, True, id="our-own-last-seconds"),
        pytest.param(AT_WORK, 50 * GB, False, id="more-than-we-can-have-written"),
        pytest.param([], 0, False, id="no-counters-at-all"),
    ],
)
def test_only_our_own_writes_leave_a_fill_standing(
    records: list[Record], written: int, stands: bool
) -> None:
    now = Counters(written_bytes=written, epoch="boot a", source=KERNEL)

    assert standing(records, now).stands is stands


def test_a_restart_of_the_host_proves_nothing() -> None:
    now = Counters(written_bytes=10 * GB, epoch="boot b", source=KERNEL)

    assert "restarted" in standing(AT_REST, now).reason


def test_a_simulated_drive_at_work_may_have_moved_by_any_amount() -> None:
    now = Counters(written_bytes=5000 * GB, epoch="boot a", source=SIMULATED)

    assert standing(AT_WORK, now).stands
    assert not standing(AT_REST, now).stands
