"""Test the kind of write cache by what the drive reports, by flushes, and by both."""

import pytest

from ssdbench.model.finding import Code
from ssdbench.model.inside import CacheKind
from ssdbench.model.result import StageResult
from ssdbench.model.target import TargetInfo, TargetKind
from ssdbench.stats.inside.writecache import buffer_bytes, cache_findings, write_cache
from tests.support.builders import stage_result

NVME_VOLATILE = {"volatile write cache": "present", "write cache": "on"}
NVME_OFF = {"volatile write cache": "present", "write cache": "off"}
NVME_SAFE = {"volatile write cache": "absent"}
ATA_ON, ATA_OFF = {"write cache": "on"}, {"write cache": "off"}
ATA_NONE = {"write cache": "not supported"}
SILENT: dict[str, str] = {}
KERNEL = "drive: write cache"


def a_drive(facts: dict[str, str], *, buffer: int = 0) -> TargetInfo:
    return TargetInfo(
        kind=TargetKind.DRIVE, name="/dev/x", node="/dev/x", id="x", size_bytes=1 << 40,
        facts=facts, write_buffer_bytes=buffer,
    )  # fmt: skip


def a_stage(kind: str, **found: str | float | None) -> StageResult:
    return stage_result(kind, {"numbers": found} if kind == "probe" else found)


def flushes(
    waits: str | None, write_us: float = 60.0, one: float = 9.0, many: float = 9.0
) -> StageResult:
    return a_stage(
        "probe",
        flush_waits_for=waits,
        write_us=write_us,
        flush_us_after_1=one,
        flush_us_after_64=many,
    )


WAITS = flushes("buffer", one=900.0, many=20_000.0)
NOTHING = flushes("nothing")
SLOW_WRITES = flushes(None, write_us=2_000.0)


@pytest.mark.parametrize(
    ("facts", "stages", "kind"),
    [
        (NVME_VOLATILE, [], CacheKind.VOLATILE),
        (NVME_VOLATILE, [WAITS], CacheKind.VOLATILE),
        (NVME_VOLATILE, [NOTHING], CacheKind.PROTECTED),
        (NVME_OFF, [], CacheKind.NOT_VOLATILE),
        (NVME_OFF, [SLOW_WRITES], CacheKind.NONE),
        (NVME_OFF, [NOTHING], CacheKind.PROTECTED),
        (NVME_SAFE, [], CacheKind.NOT_VOLATILE),
        (NVME_SAFE, [NOTHING], CacheKind.PROTECTED),
        (NVME_SAFE, [SLOW_WRITES], CacheKind.NONE),
        (NVME_SAFE, [a_stage("probe", buffer_bytes=1 << 20)], CacheKind.PROTECTED),
        (NVME_SAFE, [WAITS], CacheKind.VOLATILE),
        (ATA_ON, [], CacheKind.VOLATILE),
        (ATA_ON, [WAITS], CacheKind.VOLATILE),
        (ATA_OFF, [], CacheKind.NOT_VOLATILE),
        (ATA_NONE, [SLOW_WRITES], CacheKind.NONE),
        (SILENT, [], CacheKind.UNKNOWN),
        (SILENT, [WAITS], CacheKind.VOLATILE),
        (SILENT, [NOTHING], CacheKind.PROTECTED),
        (SILENT, [SLOW_WRITES], CacheKind.UNKNOWN),
    ],
)
def test_the_cache_is_judged_by_the_drives_word_and_by_its_flushes(
    facts: dict[str, str], stages: list[StageResult], kind: CacheKind
) -> None:
    judged = write_cache(a_drive(facts), stages)

    assert judged.kind is kind
    assert judged.evidence


def test_a_drive_that_denies_its_volatile_cache_is_contradicted_by_its_flushes() -> None:
    judged = write_cache(a_drive(NVME_SAFE), [WAITS])

    assert "flushes wait" in judged.contradiction
    assert [finding.code for finding in cache_findings(judged)] == [Code.VOLATILE_CACHE] * 2


@pytest.mark.parametrize(
    ("facts", "setting", "kind"),
    [
        (NVME_VOLATILE, {"setting": "0x06", "value": "0"}, CacheKind.NOT_VOLATILE),
        (NVME_OFF, {"setting": "0x06", "value": "1"}, CacheKind.VOLATILE),
        (ATA_ON, {"setting": "cache_type", "value": "write through"}, CacheKind.NOT_VOLATILE),
        (ATA_OFF, {"setting": "cache_type", "value": "write back"}, CacheKind.VOLATILE),
        (NVME_VOLATILE, {"setting": "0x02", "value": "0"}, CacheKind.VOLATILE),
    ],
)
def test_what_the_run_set_goes_before_what_the_drive_said_before(
    facts: dict[str, str], setting: dict[str, str], kind: CacheKind
) -> None:
    assert write_cache(a_drive(facts), [], settings=[setting]).kind is kind


def test_flushes_that_the_kernel_never_sends_prove_nothing() -> None:
    judged = write_cache(a_drive(NVME_VOLATILE), [NOTHING], host={KERNEL: "write through"})

    assert judged.kind is CacheKind.VOLATILE
    assert any("no flushes" in said for said in judged.evidence)


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [("write back", CacheKind.VOLATILE), ("write through", CacheKind.NOT_VOLATILE)],
)
def test_a_disk_without_pages_is_what_the_kernel_takes_it_for(kernel: str, kind: CacheKind) -> None:
    assert write_cache(a_drive(SILENT), [], host={KERNEL: kernel}).kind is kind


def test_only_a_volatile_cache_warns_and_says_what_a_flush_adds() -> None:
    safe = write_cache(a_drive(NVME_SAFE), [NOTHING])
    lossy = write_cache(a_drive(NVME_VOLATILE), [WAITS])

    assert cache_findings(safe) == ()
    (finding,) = cache_findings(lossy)
    assert finding.severity == "warns"
    assert "900 us" in finding.message
    assert "write_cache: off" in finding.advice
    (finding,) = cache_findings(lossy, simulated=True)
    assert "wbuf_volatile=protected" in finding.advice


def test_the_largest_buffer_that_is_known_counts() -> None:
    found = [
        a_stage("blocksize", buffer_bytes=1 << 20),
        a_stage("probe", buffer_bytes=4 << 20),
        a_stage("blocksize", buffer_bytes=None),
        a_stage("sweep"),
    ]

    assert buffer_bytes(a_drive(SILENT), found) == 4 << 20
    assert buffer_bytes(a_drive(SILENT, buffer=8 << 20), found) == 8 << 20
    assert buffer_bytes(a_drive(SILENT), []) == 0


def test_where_jobs_flush_it_is_not_said_that_nothing_does() -> None:
    judged = write_cache(a_drive(NVME_VOLATILE), [])

    (plain,) = cache_findings(judged)
    (flushed,) = cache_findings(judged, some_flushed=True)

    assert "the points send no flushes" in plain.message
    assert "not every write is followed by a flush" in flushed.message
