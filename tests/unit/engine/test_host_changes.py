from pathlib import Path

import pytest

from ssdbench.engine.changes import flash_written_between, host_changes, link_errors
from ssdbench.engine.drivelogs import learned_step
from ssdbench.model.finding import Code, Severity
from ssdbench.model.result import FlashWritten
from ssdbench.units import GIB
from tests.support.fakes import Killed, WearyDrive
from tests.support.runs import ARun

BEFORE = FlashWritten(host_bytes=10**12, media_bytes=3 * 10**12).model_dump()


@pytest.fixture
def run(tmp_path: Path) -> ARun:
    return ARun(tmp_path / "run")


def later(host_bytes: int, media_bytes: int, step: int | None = 1) -> FlashWritten:
    return FlashWritten(
        host_bytes=10**12 + host_bytes,
        media_bytes=3 * 10**12 + media_bytes,
        media_step_bytes=step,
    )


def test_the_amplification_of_a_run_is_that_of_its_own_bytes() -> None:
    found = flash_written_between(BEFORE, later(200 * 10**9, 500 * 10**9))

    assert found is not None
    assert (found.host_bytes, found.amplification) == (200 * 10**9, 2.5)


def test_an_interval_allows_for_a_step_of_the_counter() -> None:
    found = flash_written_between(BEFORE, later(4 * 10**12, 100 * 95 * GIB, 95 * GIB))

    assert found is not None
    least, most = found.amplification_range
    assert least == pytest.approx(99 * 95 * GIB / 4e12, rel=1e-5)
    assert most == pytest.approx(101 * 95 * GIB / 4e12, rel=1e-5)


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ([0, 950, 2850, 3800, 3800], 950),
        ([7, 1007, 3007], None),  # two differences would prove nothing
        ([1000, 1000, 1000, 1000, 1000], None),  # it never moved
        ([10**12 + n * n for n in range(9)], 1),
    ],
)
def test_the_step_is_learned_from_what_was_read(values: list[int], step: int | None) -> None:
    assert learned_step(values) == step


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(None, later(10**12, 10**12), id="no-log-before"),
        pytest.param(BEFORE, None, id="no-log-after"),
        pytest.param(BEFORE, later(10**8, 10**9), id="hardly-anything-written"),
        pytest.param(BEFORE, later(10**12, -1), id="counter-went-back"),
        pytest.param(BEFORE, later(10**12, 10**12, None), id="step-not-known"),
        pytest.param(BEFORE, later(2 * 10**9, 95 * GIB, 95 * GIB), id="one-step-of-a-P5520"),
        pytest.param(BEFORE, later(10**12, 7 * 95 * GIB, 95 * GIB), id="seven-steps"),
    ],
)
def test_what_the_logs_do_not_show_is_not_told(before: object, after: FlashWritten | None) -> None:
    assert flash_written_between(before, after) is None


def test_load_and_error_counters_are_no_change_of_the_host() -> None:
    before = {"governor": "performance", "load": "0.1", "drive: PCIe corrected errors": "0"}
    after = {"governor": "performance", "load": "9.0", "drive: PCIe corrected errors": "7"}

    assert host_changes(before, after) == ()


@pytest.mark.parametrize(
    ("then", "now", "told"),
    [
        ({"time suspended": "0 s"}, "7 s", ("time suspended: 0 s, now 7 s",)),
        ({"time suspended": "7 s"}, "0 s", ()),  # after a reboot
        ({}, "7 s", ()),  # a run of an older version
    ],
    ids=["slept", "booted", "older"],
)
def test_a_host_that_slept_meanwhile_is_changed(
    then: dict[str, str], now: str, told: tuple[str, ...]
) -> None:
    assert host_changes({**then, "SMT": "on"}, {"time suspended": now, "SMT": "on"}) == told


LINK = "RxErr {0} BadTLP 1 BadDLLP 0 TOTAL_ERR_{1} {0}"


@pytest.mark.parametrize(
    ("name", "total", "severity"),
    [
        ("corrected", "COR", Severity.WARNS),
        ("non-fatal", "NONFATAL", Severity.INVALIDATES),
        ("fatal", "FATAL", Severity.INVALIDATES),
    ],
)
def test_errors_that_the_link_counted_meanwhile_are_a_finding(
    run: ARun, name: str, total: str, severity: Severity
) -> None:
    fact = f"drive: PCIe {name} errors"
    run.host = {"governor": "performance", fact: LINK.format(5, total)}
    run.precondition().steady().sweep(repeats=10)
    run.drive.on_save = lambda drive: run.host.update({fact: LINK.format(12, total)})

    found = [f for f in run.go().findings if f.code is Code.IO_ERRORS]

    assert [(f.message, f.severity) for f in found] == [
        (f"the drive's link counted 7 PCIe {name} errors during the run", severity)
    ]


@pytest.mark.parametrize("after", [LINK.format(5, "COR"), LINK.format(2, "COR"), None])
def test_a_link_whose_counter_did_not_grow_had_no_errors(after: str | None) -> None:
    fact = "drive: PCIe corrected errors"

    assert link_errors({fact: LINK.format(5, "COR")}, {fact: after} if after else {}) == ()


def test_errors_from_before_a_run_whose_start_was_not_read_are_not_counted() -> None:
    assert link_errors({}, {"drive: PCIe fatal errors": LINK.format(5, "FATAL")}) == ()


def test_a_setting_that_others_changed_is_named_with_both_values() -> None:
    before = {"drive: scheduler": "[none] bfq", "drive: APST": "0"}
    after = {"drive: scheduler": "none [bfq]"}

    assert host_changes(before, after) == (
        "drive: scheduler: [none] bfq, now none [bfq]",
        "drive: APST: 0, now unknown",
    )


def test_a_run_on_a_host_that_was_changed_meanwhile_is_not_valid(run: ARun) -> None:
    run.host = {"governor": "performance"}
    run.precondition().steady().sweep(repeats=10)
    run.drive.on_save = lambda drive: run.host.update(governor="powersave")

    result = run.go()

    (changed,) = [f for f in result.findings if f.code is Code.HOST_CHANGED]
    assert "governor: performance, now powersave" in changed.message
    assert changed.severity is Severity.INVALIDATES
    assert result.verdict == "NOT VALIDATED"


def test_a_run_resumed_on_another_kernel_says_so_once(run: ARun) -> None:
    run.host = {"kernel": "6.1", "CPUs": "8"}
    run.precondition().steady().sweep().killed_in("03-sweep", after_s=100)
    with pytest.raises(Killed):
        run.go()
    run.host["kernel"] = "6.12"

    result = run.resume()

    changed = [f.message for f in result.findings if f.code is Code.HOST_CHANGED]
    assert len(changed) == 1
    assert "kernel: 6.1, now 6.12" in changed[0]


def test_a_run_tells_its_write_amplification_across_a_crash(run: ARun) -> None:
    run.drive = WearyDrive(size_bytes=2 * GIB, amplification=2.5, floor_iops=50_000.0,
                           fresh_iops=500_000.0)  # fmt: skip
    run.precondition().steady().killed_in("02-steady", after_s=100)
    with pytest.raises(Killed):
        run.go()

    result = run.resume()

    assert result.flash_written is not None
    assert result.flash_written.amplification == pytest.approx(2.5)
    assert result.flash_written.host_bytes == run.drive.written_bytes
