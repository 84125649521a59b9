"""Settings that live in a drive, and kernel modules: what a profile wishes, and how it is done."""

import platform
from pathlib import Path

import pytest

from ssdbench.engine.hostsettings import our_clock, planned_host
from ssdbench.errors import HostLacks
from ssdbench.host.sysfs import Sysfs
from ssdbench.model.profile import Host, Switch
from ssdbench.model.target import TargetInfo, TargetKind
from ssdbench.tuning.backends import ABSENT, THERE, ModuleBackend, WriteCacheBackend
from ssdbench.tuning.confined import require_ours
from ssdbench.tuning.plan import drive_settings
from ssdbench.tuning.setting import RESETS, Backend, Setting

DRIVE = "naa.5000c500a1b2c3d4"
CACHE_OFF = Host(write_cache=Switch.OFF)


@pytest.mark.parametrize(
    ("bus", "expected"),
    [
        ("nvme", (Backend.NVME_FEATURE, "0x06", "0")),
        ("ata", (Backend.WRITE_CACHE, "cache_type", "write through")),
        ("scsi", (Backend.WRITE_CACHE, "cache_type", "write through")),
        ("virtio", (Backend.BLOCK, "cache_type", "write through")),
    ],
)
def test_a_write_cache_is_switched_the_way_of_its_bus(
    bus: str, expected: tuple[Backend, str, str]
) -> None:
    (setting,) = drive_settings(CACHE_OFF, bus, DRIVE)

    assert (setting.backend, setting.attribute, setting.value) == expected
    assert setting.drive == DRIVE
    assert setting.reason


def test_features_of_nvme_are_refused_elsewhere_with_what_to_set() -> None:
    wishes = Host(power_state="0", irq_coalescing="0")

    assert [s.attribute for s in drive_settings(wishes, "nvme", DRIVE)] == ["0x02", "0x08"]
    with pytest.raises(HostLacks, match="power_state is a setting of NVMe drives"):
        drive_settings(wishes, "ata", DRIVE)
    with pytest.raises(HostLacks, match="no write cache"):
        drive_settings(CACHE_OFF, "none", DRIVE)


def test_what_a_drive_keeps_after_a_reboot_is_known() -> None:
    kept = {backend for backend in Backend if backend.outlives_reboot}

    assert kept == {
        Backend.NVME_FEATURE, Backend.LATENCY_MONITOR, Backend.WRITE_CACHE, Backend.ATA_PASSWORD,
    }  # fmt: skip


def test_the_cache_of_a_disk_is_found_wherever_the_disk_is_now(tmp_path: Path) -> None:
    attribute = tmp_path / "sys/block/sdc/device/scsi_disk/4:0:0:0/cache_type"
    attribute.parent.mkdir(parents=True)
    attribute.write_text("write back\n")
    backend = WriteCacheBackend(Sysfs(tmp_path), {DRIVE: "sdc"}.get)

    before = backend.read("cache_type", DRIVE)
    backend.write("cache_type", "write through", DRIVE)

    assert (before, backend.read("cache_type", DRIVE)) == ("write back", "write through")
    with pytest.raises(HostLacks, match="not on this host"):
        backend.read("cache_type", "naa.gone")


def test_a_module_is_known_by_its_name_or_its_file(tmp_path: Path) -> None:
    (tmp_path / "sys/module/ssdb_slam").mkdir(parents=True)
    backend = ModuleBackend(Sysfs(tmp_path))

    assert backend.read("/var/lib/ssdb_slam.ko", "") == THERE
    assert backend.read("ssdb-slam", "") == THERE
    assert backend.read("brd", "") == ABSENT


def test_modules_of_a_profile_are_settings_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSDBENCH_KMOD_DIR", str(tmp_path / "built"))
    file = TargetInfo(kind=TargetKind.FILE, name="f", node="/f", id="file:/f:1", size_bytes=1 << 20)
    sysfs = Sysfs(tmp_path)
    index = tmp_path / "lib/modules" / platform.release() / "modules.dep"
    index.parent.mkdir(parents=True)
    index.write_text("kernel/drivers/block/brd.ko.xz: kernel/lib/x.ko.xz\n")

    planned = planned_host(Host(kernel_modules=("brd",)), file, sysfs)

    assert [(s.backend, s.attribute, s.value) for s in planned.settings] == [
        (Backend.MODULE, "brd", THERE)
    ]
    with pytest.raises(HostLacks, match="the running kernel has no module evil"):
        planned_host(Host(kernel_modules=("evil",)), file, sysfs)
    with pytest.raises(HostLacks, match="ssdb_slam is not built"):
        planned_host(Host(kernel_modules=("ssdb_slam",)), file, sysfs)


def test_the_options_of_a_mount_are_not_read_back() -> None:
    wanted = Setting(Backend.MOUNT, "/mnt", "ext4 /dev/sdb noatime,discard", "a file system")

    assert wanted.holds("ext4 /dev/sdb")
    assert not wanted.holds("xfs /dev/sdb")
    assert not wanted.holds("")


@pytest.mark.parametrize(
    ("now", "set_to"),
    [
        ({"iostats": "1", "iostats_passthrough": "0"}, {}),
        ({"iostats": "1"}, {}),  # before Linux 6.14
        ({"iostats": "0"}, {"queue/iostats": "1"}),
        ({"iostats": "1", "iostats_passthrough": "1"}, {"queue/iostats_passthrough": "0"}),
    ],
)
def test_the_kernel_counts_what_goes_through_the_block_layer_and_nothing_past_it(
    tmp_path: Path, now: dict[str, str], set_to: dict[str, str]
) -> None:
    queue = tmp_path / "sys/block/nvme0n1/queue"
    queue.mkdir(parents=True)
    for name, value in now.items():
        (queue / name).write_text(f"{value}\n")

    settings = our_clock("nvme0n1", DRIVE, Sysfs(tmp_path))

    assert {setting.attribute: setting.value for setting in settings} == set_to
    for setting in settings:
        require_ours(setting.backend, setting.attribute, setting.value)
        assert "queue/read_ahead_kb" in RESETS[setting.attribute]
