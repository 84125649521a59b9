"""A settings journal may name only what ssdbench sets, wherever it came from."""

import json
from pathlib import Path

import pytest

from ssdbench.errors import HostLacks
from ssdbench.host.sysfs import Sysfs
from ssdbench.host.topology import Interrupt
from ssdbench.model.profile import Host, Switch
from ssdbench.tuning.backends import backends_of
from ssdbench.tuning.confined import OURS, require_ours, require_undoing
from ssdbench.tuning.journal import NotRestored, restore_all
from ssdbench.tuning.plan import drive_settings
from ssdbench.tuning.setting import QUEUE_SETTINGS, Backend

FORGED = {
    "n": 1,
    "kind": "changing",
    "backend": "sysfs",
    "drive": "",
    "wanted": "x",
    "reason": "r",
    "boot_id": "b",
    "host_id": "h",
}
PRECIOUS = (
    "etc/passwd",
    "proc/sys/kernel/core_pattern",
    "proc/sys/kernel/modprobe",
    "sys/kernel/uevent_helper",
    "sys/devices/system/cpu/cpufreq/boost",
)


@pytest.mark.parametrize(
    ("backend", "attribute", "was"),
    [
        ("sysfs", "/etc/passwd", "root::0:0::/:/bin/sh"),
        ("sysfs", "/proc/sys/kernel/core_pattern", "|/tmp/evil"),
        ("sysfs", "/sys/devices/system/cpu/cpufreq/../../../../kernel/uevent_helper", "/tmp/evil"),
        ("sysfs", "/sys/devices/system/cpu/cpufreq/boost", "1\n1"),
        ("irq", "/proc/irq/1/../../sys/kernel/modprobe", "1"),
        ("block", "../../../etc/passwd", "1"),
        ("block", "queue/../../../etc/passwd", "1"),
        ("block", "queue/iosched/../../../../etc/passwd", "1"),
        ("nvme-feature", "0x84", "1"),
        ("service", "sshd", "inactive"),
        ("module", "/tmp/evil.ko", "there"),
        ("module", "--show-depends", "absent"),
        ("module", "brd", "there"),
        ("mount", "/home", ""),
        ("mount", "/tmp/mounted", ""),
        ("mount", "/run/ssdbench/a", "ext4 /dev/sdb suid"),
        ("directory", "/root", ""),
        ("directory", "/run/ssdbench/../../root", ""),
        ("directory", "/run/ssdbench/x", "present"),
        ("partition", "1; reboot", ""),
        ("tracer", "/sys/kernel/tracing/instances/other", ""),
    ],
)
def test_a_forged_journal_sets_nothing_that_no_run_sets(
    tmp_path: Path, backend: str, attribute: str, was: str
) -> None:
    settings, root = tmp_path / "settings", tmp_path / "root"
    settings.mkdir(mode=0o700)
    for name in PRECIOUS:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("before")
    (root / "proc/irq/1").mkdir(parents=True)
    record = {**FORGED, "backend": backend, "attribute": attribute, "was": was}
    (settings / "run.jsonl").write_text(json.dumps(record) + "\n")
    backends = backends_of(Sysfs(root), lambda drive: "sda")
    unserved = {kind: backends[Backend.SYSFS] for kind in Backend if kind not in backends}

    with pytest.raises(NotRestored):
        restore_all(settings, {**backends, **unserved}, boot_id="b", host_id="h")

    assert {(root / name).read_text() for name in PRECIOUS} == {"before"}
    assert (settings / "run.jsonl").exists()


def test_every_setting_that_a_profile_can_ask_for_is_ours() -> None:
    for attribute, _ in QUEUE_SETTINGS.values():
        require_ours(Backend.BLOCK, attribute, "0")
    require_ours(Backend.BLOCK, "queue/scheduler", "mq-deadline")
    require_ours(Backend.IRQ, Interrupt(12, "", (), ()).attribute, "0-3,5")
    wishes = Host(write_cache=Switch.OFF, power_state="0", irq_coalescing="0")
    for bus in ("nvme", "ata", "virtio"):
        asked = wishes if bus == "nvme" else Host(write_cache=Switch.OFF)
        for setting in drive_settings(asked, bus, "d"):
            require_ours(setting.backend, setting.attribute, setting.value)
    for kind, attribute in (
        (Backend.MOUNT, "/run/ssdbench/0123456789ab"),
        (Backend.MOUNT, "/sys/kernel/tracing"),
        (Backend.DIRECTORY, "/run/ssdbench/socket-0123456789ab"),
        (Backend.TRACER, "/sys/kernel/tracing/instances/ssdbench"),
        (Backend.SERVICE, "irqbalance"),
        (Backend.MODULE, "/var/lib/ssdbench/kmod/6.1.0-1-amd64/ssdb_slam.ko"),
        (Backend.SYSFS, "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor"),
    ):
        require_ours(kind, attribute)
    assert set(OURS) == set(Backend)


def test_what_is_made_for_a_run_is_only_ever_taken_away() -> None:
    require_undoing(Backend.MODULE, "brd", "absent")
    with pytest.raises(HostLacks, match="which is not possible"):
        require_undoing(Backend.MODULE, "brd", "there")
