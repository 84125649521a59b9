"""What keeps a run from starting, and what only makes its numbers worse."""

from dataclasses import replace

import pytest

from ssdbench.engine.preflight import Grade, HostState, requirements
from ssdbench.model.target import TargetInfo, TargetKind

QUIET = HostState(
    facts={"clock source": "tsc", "governor": "performance", "load": "0.10", "CPUs": "2"},
    root=True,
    free_bytes=100 << 30,
    programs={"setpriv": "/usr/bin/setpriv"},
    fio="3.33",
    fio_engines=frozenset({"libaio", "nbd"}),
    fio_oldest="3.33",
)


def grades(state: HostState, kind: TargetKind | None = None) -> dict[str, Grade]:
    target = None
    if kind is not None:
        target = TargetInfo(
            kind=kind, name="t", node="", id="t", size_bytes=1, simulated=kind.value == "simulated"
        )
    return {found.name: found.grade for found in requirements(state, target)}


def test_nothing_is_wrong_with_a_quiet_host() -> None:
    assert set(grades(QUIET).values()) == {Grade.FINE}


@pytest.mark.parametrize(
    ("state", "name", "grade"),
    [
        (replace(QUIET, fio=None, fio_fault="fio is not installed"), "fio", Grade.MISSING),
        (replace(QUIET, programs={"setpriv": None}), "setpriv", Grade.MISSING),
        (replace(QUIET, fio_engines=frozenset({"nbd"})), "fio engine libaio", Grade.MISSING),
        (replace(QUIET, free_bytes=1 << 20), "free space", Grade.MISSING),
        (replace(QUIET, simulation_fault="not built"), "simulated drive", Grade.MISSING),
        (replace(QUIET, facts={"governor": "powersave"}), "governor", Grade.NOISY),
        (replace(QUIET, facts={"clock source": "hpet"}), "clock source", Grade.NOISY),
        (replace(QUIET, facts={"load": "3.0", "CPUs": "2"}), "other work", Grade.NOISY),
        (replace(QUIET, facts={"swap used": "5 MiB of 9 MiB"}), "swap", Grade.NOISY),
        (replace(QUIET, root=False), "root", Grade.NOISY),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_trouble_has_its_grade(state: HostState, name: str, grade: Grade) -> None:
    assert grades(state)[name] is grade


def test_a_device_needs_root_and_a_simulated_drive_does_not() -> None:
    nobody = replace(QUIET, root=False)

    assert grades(nobody, TargetKind.DRIVE)["root"] is Grade.MISSING
    assert grades(nobody, TargetKind.SIMULATED)["root"] is Grade.FINE


@pytest.mark.parametrize(("zone_bytes", "grade"), [(0, Grade.MISSING), (1 << 20, Grade.FINE)])
def test_a_drive_is_told_which_zones_it_has_and_whether_they_are_measured(
    zone_bytes: int, grade: Grade
) -> None:
    target = TargetInfo(
        kind=TargetKind.DRIVE, name="t", node="", id="t", size_bytes=1, zone_bytes=zone_bytes,
        facts={"zones": "64 of 1 MiB, at most 3 open"},
    )  # fmt: skip

    (zones,) = [found for found in requirements(QUIET, target) if found.name == "zones"]
    assert zones.grade is grade
    assert zones.said.startswith("64 of 1 MiB, at most 3 open; ")
    assert "zones" not in grades(QUIET, TargetKind.DRIVE)


def test_a_drive_in_zones_whose_first_fill_would_fail_is_not_fit() -> None:
    target = TargetInfo(
        kind=TargetKind.DRIVE, name="/dev/nvme1n1", node="", id="t", size_bytes=1,
        zone_bytes=1 << 20, facts={"zones": "64 of 1 MiB, 3 open"},
    )  # fmt: skip
    state = replace(QUIET, zones_lacking="the first fill would fail")

    (zones,) = [found for found in requirements(state, target) if found.name == "zones"]
    assert (zones.grade, zones.said) == (
        Grade.MISSING,
        "64 of 1 MiB, 3 open; the first fill would fail",
    )
    assert "blkzone reset /dev/nvme1n1" in zones.hint


def test_zones_that_could_not_be_read_are_not_told_to_be_unlike() -> None:
    target = TargetInfo(
        kind=TargetKind.DRIVE, name="t", node="", id="t", size_bytes=1,
        facts={"zones": "not read: Permission denied"},
    )  # fmt: skip

    (zones,) = [found for found in requirements(QUIET, target) if found.name == "zones"]
    assert (zones.grade, zones.said) == (Grade.MISSING, "not read: Permission denied")
    assert "root" in zones.hint


def test_noise_does_not_disturb_a_drive_whose_clock_waits() -> None:
    noisy = replace(QUIET, facts={"load": "9", "CPUs": "2", "governor": "powersave"})

    assert set(grades(noisy, TargetKind.SIMULATED).values()) == {Grade.FINE}
