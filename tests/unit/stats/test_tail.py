"""Slow requests, planted in the drive and in the host, and assigned by two witnesses."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from ssdbench.engine import claimedsession
from ssdbench.engine.claimedsession import ClaimedSession
from ssdbench.engine.stage import Context
from ssdbench.engine.unitwatch import UnitWatch
from ssdbench.errors import DeviceError, HostLacks, UsageError
from ssdbench.host import nvme as bus
from ssdbench.host.sysfs import Sysfs
from ssdbench.model.finding import Code, Severity
from ssdbench.model.findings.drive import SlowRequests
from ssdbench.model.point import SlowDuring
from ssdbench.model.profile import Host
from ssdbench.report.tables import results_table
from ssdbench.stats.histogram import Histogram
from ssdbench.stats.tail import slow_requests
from ssdbench.target.nvme import LatencyMonitor, latency_monitor
from ssdbench.tuning.backends import LatencyMonitorBackend, backends_of
from ssdbench.tuning.confined import require_ours
from ssdbench.tuning.journal import SettingsJournal
from ssdbench.tuning.plan import drive_settings
from ssdbench.tuning.setting import Backend, Setting
from tests.support.builders import a_small_run
from tests.support.fakes import WearyDrive
from tests.unit.engine.test_hostseries import QUIET
from tests.unit.stats.test_point import a_repeat, judged, steady_windows

BEGINS_MS = (5, 20, 100, 500)
MS = 1e6


class Stalls:
    """One repeat: usual latencies, and stalls whose maker is known."""

    def __init__(self, seed: int, *, drive: int, host: int, usual_ms: float = 0.4) -> None:
        rng = np.random.default_rng(seed)

        def drawn(count: int) -> np.ndarray:
            return np.exp(rng.uniform(np.log(6), np.log(900), count)) * MS

        usual = np.minimum(rng.gamma(8, usual_ms * MS / 8, 5_000), 4.7 * MS)
        in_drive = np.concatenate([usual, drawn(drive)])
        late = rng.lognormal(np.log(0.03 * MS), 0.5, len(in_drive))  # of kernel and fio
        slow_in_host = rng.gamma(8, usual_ms * MS / 8, host) + drawn(host)
        self.host = Histogram.of(np.concatenate([in_drive + late, slow_in_host]))
        edges = [*(ms * MS for ms in BEGINS_MS), np.inf]
        self.counts = tuple(int(n) for n in np.histogram(in_drive, edges)[0])


def test_planted_stalls_are_assigned_to_their_maker() -> None:
    rng = np.random.default_rng(3)
    right = planted = 0
    for seed in range(300):
        drive, host = (int(n) for n in rng.poisson(4, 2))
        repeat = Stalls(seed, drive=drive, host=host)
        found = slow_requests(repeat.host, repeat.counts, BEGINS_MS)
        planted += drive + host
        if found is not None:
            assert min(*found.of_drive, *found.of_host) >= 0
            right += min(drive, sum(found.of_drive)) + min(host, sum(found.of_host))

    assert planted > 2_000
    assert right / planted >= 0.95


def test_no_quiet_repeat_of_a_thousand_is_blamed() -> None:
    blamed = [
        seed
        for seed in range(1_000)
        if slow_requests((quiet := Stalls(seed, drive=0, host=0)).host, quiet.counts, BEGINS_MS)
    ]

    assert blamed == []


def test_a_drive_that_is_slow_as_usual_is_not_blamed() -> None:
    usual = Histogram.of(np.full(10_000, 30 * MS))

    assert slow_requests(usual, (0, 10_000, 0, 0), BEGINS_MS) is None
    assert slow_requests(Histogram.empty(), (1, 1, 1, 1), BEGINS_MS) is None


def test_a_request_just_above_a_threshold_is_matched_with_the_bucket_below() -> None:
    host = Histogram.of(np.concatenate([np.full(1000, MS / 2), [20.3 * MS, 300 * MS]]))

    found = slow_requests(host, (1, 0, 0, 0), BEGINS_MS)

    assert found is not None
    assert found.of_drive == (0, 1, 0, 0)
    assert found.of_host == (0, 0, 1, 0)
    lowest = Histogram.of(np.concatenate([np.full(1000, MS / 2), [5.1 * MS]]))
    assert slow_requests(lowest, (0, 0, 0, 0), BEGINS_MS) is None


def a_page(**changes: object) -> bytes:
    """Log C3h by the offsets of nvme-cli: counters of 4 buckets, each trims, writes and reads."""
    page = bytearray(512)
    page[0] = 1
    page[2:4] = (7).to_bytes(2, "little")
    page[4:6] = (0x7E0).to_bytes(2, "little")
    page[6:10] = bytes([0, 3, 19, 99])
    page[10:12] = (0xFFF).to_bytes(2, "little")
    page[12] = 10
    for bucket in range(4):
        for column, count in enumerate((1000, 100 + bucket, 10 + bucket)):  # trim, write, read
            at = 0x20 + 16 * bucket + 4 * (column + 1)
            page[at : at + 4] = count.to_bytes(4, "little")
            page[at + 0xD0 : at + 0xD4] = (count + 5).to_bytes(4, "little")
    page[0x1EE:0x1F0] = (4).to_bytes(2, "little")
    page[496:512] = bytes.fromhex("927ac08cd0846c9c7043e6d4585ed485")
    return bytes(page)


def test_the_monitor_of_a_drive_is_decoded_and_differences_are_safe() -> None:
    told = latency_monitor(a_page())

    assert told == LatencyMonitor(
        on=True, timer=7, thresholds_ms=BEGINS_MS,
        active=(110, 112, 114, 116), static=(120, 122, 124, 126),
    )  # fmt: skip
    assert latency_monitor(bytes(512)) is None
    assert told is not None
    later = replace(told, active=(111, 112, 120, 116))
    assert later.since(told) == (1, 0, 6, 0)
    began_again = replace(told, timer=0, active=(2, 0, 0, 1), static=(113, 112, 114, 116))
    assert began_again.since(told) == (5, 0, 0, 1)
    for useless in (
        replace(later, on=False),
        replace(later, thresholds_ms=(5, 10, 15, 20)),
        replace(later, active=(0, 0, 0, 0)),
        replace(later, active=(0xFFFFFFFF, 112, 120, 116)),
        replace(later, static=(113, 112, 114, 116)),  # the timer ended, and ran up to 7 again
        replace(told, timer=0, active=(2, 0, 0, 1)),  # the counters were set to 0, not copied
    ):
        assert useless.since(told) is None


class Drive:
    """An OCP drive that keeps feature C5h in its log C3h."""

    def __init__(self) -> None:
        self.page = bytearray(a_page())
        self.page[0] = 0
        self.refuses = False

    def log_page(self, log: int, size: int) -> bytes:
        assert (log, size) == (0xC3, 512)
        if self.refuses:
            raise DeviceError("no such log")
        return bytes(self.page)

    def set_feature(self, feature: int, value: int, *, data: bytes) -> None:
        assert (feature, value, len(data)) == (0xC5, 0, 4096)
        self.page[4:13] = data[0:9]  # the same fields in the same order
        self.page[0x1C0:0x1C2] = data[9:11]
        assert data[11] == 0  # the debug log is not discarded
        self.page[0] = data[12]


@pytest.fixture
def drive(monkeypatch: pytest.MonkeyPatch) -> Drive:
    found = Drive()

    @contextmanager
    def opened(node: Path) -> Iterator[Drive]:
        yield found

    monkeypatch.setattr(bus, "opened", opened)
    return found


def test_thresholds_are_set_through_the_journal_and_put_back(drive: Drive, tmp_path: Path) -> None:
    before = bytes(drive.page)
    (setting,) = drive_settings(Host(latency_monitor="10,50,200,1280"), "nvme", "eui.1")
    require_ours(setting.backend, setting.attribute, setting.value)
    kinds = backends_of(Sysfs(tmp_path), lambda drive: "nvme0n1")
    place = tmp_path / "settings" / "run.jsonl"

    with SettingsJournal(place, kinds, boot_id="b", host_id="h") as journal:
        (change,) = journal.apply([setting])
        told = latency_monitor(bytes(drive.page))
        assert told is not None and told.on
        assert told.thresholds_ms == (10, 50, 200, 1280)
        assert change.was == "2016,0,3,19,99,4095,10,0,0"

    assert bytes(drive.page) == before


def test_wrong_thresholds_and_drives_without_a_monitor_are_refused(drive: Drive) -> None:
    assert drive_settings(Host(), "nvme", "d") == []
    (on,) = drive_settings(Host(latency_monitor="on"), "nvme", "d")
    assert on.value == "2016,0,3,19,99,4095,10,0,1"
    for wrong in ("5,4,10,20", "5,5,10,20", "7,10,15,20", "5,10,15,1285", "0,5,10,15"):
        with pytest.raises(UsageError, match="rising multiples of 5|cannot count"):
            drive_settings(Host(latency_monitor=wrong), "nvme", "d")
    with pytest.raises(HostLacks, match="only NVMe"):
        drive_settings(Host(latency_monitor="on"), "ata", "d")
    drive.page[496] = 0
    backend = LatencyMonitorBackend(lambda drive: "nvme0n1")
    with pytest.raises(HostLacks, match="has no latency monitor"):
        backend.read("latency monitor", "d")
    drive.refuses = True
    with pytest.raises(HostLacks, match="cannot be read"):
        backend.read("latency monitor", "d")
    with pytest.raises(HostLacks, match="never sets"):
        require_ours(Backend.LATENCY_MONITOR, "latency monitor", "1,2,3")
    assert isinstance(on, Setting)


def test_a_unit_reads_the_monitor_before_and_after_it(tmp_path: Path) -> None:
    told = latency_monitor(a_page())
    assert told is not None
    readings = [told, replace(told, active=(110, 113, 114, 116))]
    drive = WearyDrive(monitor=lambda drive: readings.pop(0))
    context = SimpleNamespace(
        session=drive, target=drive.info, directory=lambda: tmp_path, power=None,
        activity=lambda: QUIET, wall=lambda: 0.0, heat=lambda info: None,
    )  # fmt: skip
    watch = UnitWatch(cast(Context, context))
    host = Histogram.of(np.concatenate([np.full(1000, MS / 2), [30 * MS, 50 * MS]]))

    slow = watch.slow_during(host)

    assert readings == []
    assert slow == SlowDuring(begins_ms=BEGINS_MS, of_drive=(0, 1, 0, 0), of_host=(0, 1, 0, 0))
    repeat = a_repeat(1, steady_windows(1)[0]).model_copy(update={"slow": slow})
    result = judged(steady_windows(2)).model_copy(update={"repeats": (repeat,)})
    run = a_small_run(tmp_path)
    stage = next(stage for stage in run.stages if stage.points)
    found = stage.found.model_copy(update={"points": (result,)})
    shown = run.model_copy(update={"stages": (stage.model_copy(update={"found": found}),)})
    rows = {row["metric"]: row for row in results_table(shown).rows if row.get("repeat_number")}
    assert rows["slow_requests_of_drive"]["metric_value"] == 1
    assert rows["slow_requests_of_host"]["metric_value"] == 1


def test_the_monitor_is_not_read_where_c0h_is_of_another_maker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []

    class Foreign:
        def log_page(self, log: int, size: int) -> bytes:
            asked.append(log)
            return bytes(size)

    @contextmanager
    def opened(node: Path) -> Iterator[Foreign]:
        yield Foreign()

    monkeypatch.setattr(claimedsession, "opened", opened)
    info = WearyDrive().info.model_copy(update={"node": "/dev/nvme7n1"})
    session = ClaimedSession(info, None)  # type: ignore[arg-type]

    session.throttle_counters()

    assert session.latency_monitor() is None
    assert 0xC0 in asked
    assert 0xC3 not in asked


def test_the_finding_warns_only_if_the_host_was_slow_more_often() -> None:
    both = [SlowRequests(*counts, 20).finding() for counts in ((40, 2), (1, 5))]

    assert [one.severity for one in both] == [Severity.NOTES, Severity.WARNS]
    assert {one.code for one in both} == {Code.SLOW_IN_HOST}
    assert (
        "42 requests took 20 ms or more: according to the drive's own latency monitor, 40 were slow"
        in both[0].message
    )
