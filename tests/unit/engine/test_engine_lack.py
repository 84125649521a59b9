"""What an engine of a point needs, and the sentence where it is not there."""

from contextlib import nullcontext
from dataclasses import replace

import pytest

from ssdbench.engine.preflight import EngineSupport, engine_lack, require_engines, require_zones
from ssdbench.errors import HostLacks
from ssdbench.model.fitting import misfits
from ssdbench.model.loading import load_profile
from ssdbench.model.target import USED_UP, LbaFormat, TargetInfo, TargetKind
from ssdbench.model.workload import IoEngine
from ssdbench.units import KIB
from tests.support.builders import a_target

ALL = EngineSupport(frozenset({"io_uring", "io_uring_cmd"}), most_command_bytes=512 * KIB)
FIXED, POLLED, PAST = IoEngine.IO_URING_FIXED, IoEngine.IO_URING_POLLED, IoEngine.IO_URING_CMD


def a_namespace(**changes: object) -> TargetInfo:
    return a_target(TargetKind.DRIVE, node="/dev/nvme0n1", name="/dev/nvme0n1", **changes)


@pytest.mark.parametrize(
    ("engine", "here", "said"),
    [
        (FIXED, replace(ALL, refused="this kernel has no io_uring"), "this kernel has no io_uring"),
        (FIXED, replace(ALL, fio_engines=frozenset({"libaio"})), "without its io_uring engine"),
        (PAST, replace(ALL, fio_engines=frozenset({"io_uring"})), "without its io_uring_cmd"),
        (POLLED, replace(ALL, polls=False), "no poll queues; an NVMe drive gets them by nvme.poll"),
        (PAST, replace(ALL, generic=False), "no generic node"),
        (PAST, replace(ALL, commands=False), "cannot send NVMe commands"),
        (PAST, replace(ALL, most_command_bytes=64 * KIB), "at most 64 KiB per command"),
    ],
)
def test_what_is_lacking_is_a_sentence(engine: IoEngine, here: EngineSupport, said: str) -> None:
    assert engine_lack(engine, a_namespace(), ALL, block_bytes=128 * KIB) == ""
    assert said in engine_lack(engine, a_namespace(), here, block_bytes=128 * KIB)
    assert engine_lack(IoEngine.LIBAIO, a_namespace(), here) == ""


@pytest.mark.parametrize(
    ("target", "refused"),
    [
        (
            a_target(TargetKind.DRIVE, node="/dev/sda", name="/dev/sda"),
            {"io_uring_cmd": "/dev/sda is not an NVMe"},
        ),
        (
            a_target(TargetKind.LOOP, node="/dev/loop0", name="/dev/loop0"),
            {"io_uring_cmd": "/dev/loop0 is not an NVMe namespace"},
        ),
        (
            a_target(TargetKind.FILE, node="/tmp/nvme0n1.img", name="f"),
            {"io_uring_cmd": "f is not an NVMe", "io_uring_polled": "f is a file"},
        ),
        (
            a_target(TargetKind.SIMULATED, name="sim:x"),
            {e.value: "sim:x is simulated" for e in IoEngine if e is not IoEngine.LIBAIO},
        ),
        (
            a_namespace(lba_format=LbaFormat(data=4096, metadata=8)),
            {"io_uring_cmd": "has metadata"},
        ),
        (a_namespace(), {}),
    ],
    ids=["scsi", "loop", "file", "simulated", "metadata", "nvme"],
)
def test_targets_that_an_engine_cannot_reach_are_refused_by_name(
    target: TargetInfo, refused: dict[str, str]
) -> None:
    engines = [engine.value for engine in IoEngine]
    profile = load_profile(f"measure: [{{sweep: {{engine: {engines}}}}}]\n".replace("'", ""), "p")

    found = {engines[int(path[-1])]: said for path, said in misfits(profile, target)}

    assert set(found) == set(refused)
    assert all(refused[name] in said for name, said in found.items())


def test_a_drive_in_zones_is_told_of_as_its_profile_is_refused() -> None:
    zoned = a_namespace(zone_bytes=1 << 20)

    assert engine_lack(IoEngine.LIBAIO, zoned, ALL) == ""
    for engine in (IoEngine.IO_URING, FIXED, POLLED, PAST):
        profile = load_profile(f"measure: [{{sweep: {{read: 100, engine: {engine}}}}}]\n", "p")
        refused = dict(misfits(profile, zoned))["measure", 0, "sweep", "engine", 0]

        assert engine_lack(engine, zoned, ALL) == refused


@pytest.mark.parametrize(
    "told", ["64 of 4 MiB, 2 of them conventional", "not read: Permission denied"]
)
def test_a_drive_that_is_refused_for_its_zones_is_no_drive_that_an_engine_can_be_used_on(
    told: str,
) -> None:
    refused = a_namespace(facts={"zones": told})

    for engine in (IoEngine.IO_URING, FIXED, POLLED, PAST):
        said = engine_lack(engine, refused, ALL)

        assert said == "ssdbench cannot measure /dev/nvme0n1 with any engine, because of its zones"


def test_an_engine_is_looked_at_on_the_drive_as_its_format_will_make_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drive = a_namespace(lba_format=LbaFormat(data=512, metadata=8), lba_formats=("512+8", "4096+0"))
    text = "measure: [{sweep: {read: 100, engine: io_uring_cmd}}]\n"
    text += "purge: format\nlba_format: 4KiB\n"
    profile = load_profile(text, "p")
    monkeypatch.setattr("ssdbench.engine.preflight.engine_support", lambda _: ALL)

    assert not misfits(profile, drive)
    require_engines(profile, drive)


def test_a_mix_past_the_block_layer_is_refused_where_it_stands() -> None:
    from ssdbench.errors import UsageError

    with pytest.raises(UsageError, match=r"io_uring_cmd with 70% reads cannot be counted"):
        load_profile("measure: [{sweep: {read: [100, 70], engine: io_uring_cmd}}]\n", "p.yaml")


@pytest.mark.parametrize(
    ("told", "version", "fails"),
    [
        ("64 of 1 MiB, at most 3 open or closed, 61 empty, 3 closed, " + USED_UP, (3, 35), True),
        ("64 of 1 MiB, at most 3 open or closed, 61 empty, 3 closed, " + USED_UP, (3, 36), False),
        ("64 of 1 MiB, at most 3 open or closed, 64 empty", (3, 33), False),
    ],
)
def test_a_drive_whose_first_zone_cannot_be_begun_is_refused_where_fio_does_not_count_them(
    monkeypatch: pytest.MonkeyPatch, told: str, version: tuple[int, int], fails: bool
) -> None:
    monkeypatch.setattr("ssdbench.engine.preflight.installed", lambda: (version, frozenset()))
    drive = a_namespace(zone_bytes=1 << 20, facts={"zones": told})

    with pytest.raises(HostLacks, match="first fill would fail") if fails else nullcontext():
        require_zones(drive)
