"""Facts of a host, from the files of one that we made up."""

from pathlib import Path

from ssdbench.host.facts import drive_facts, host_facts
from ssdbench.host.sensors import drive_heat
from ssdbench.host.sysfs import Sysfs
from ssdbench.host.topology import topology

FILES = {
    "proc/cpuinfo": "model name\t: Tired CPU 3000\nflags\t\t: fpu hypervisor sse\n",
    "proc/meminfo": "MemTotal:  2097152 kB\nSwapTotal:  1048576 kB\nSwapFree:  524288 kB\n",
    "proc/loadavg": "1.50 1.00 0.50 2/100 4711\n",
    "proc/stat": "cpu  70 0 10 10 0 0 0 10 0 0\n",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "performance\n",
}


def test_what_the_host_tells_is_there_and_nothing_else(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    facts = host_facts(Sysfs(tmp_path))

    assert facts["CPU"] == "Tired CPU 3000"
    assert facts["virtualization"] == "a hypervisor runs this host"
    assert facts["governor"] == "performance, powersave"
    assert facts["clock source"] == "tsc"
    assert facts["memory"] == "2048 MiB"
    assert facts["swap used"] == "512 MiB of 1024 MiB"
    assert facts["load"] == "1.50"
    assert facts["stolen time"] == "10.00 % since boot"
    assert "lockdown" not in facts


def test_boot_parameters_that_may_be_secret_lose_their_values(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cmdline").write_text("quiet mitigations=off nfsroot=10.0.0.1:/x pw=hunter2\n")

    assert host_facts(Sysfs(tmp_path))["command line"] == "quiet mitigations=off nfsroot=… pw=…"


def test_what_follows_for_the_first_process_is_not_told(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cmdline").write_text("quiet -- --token hunter2\n")

    assert host_facts(Sysfs(tmp_path))["command line"] == "quiet"


def test_mitigations_and_caches_are_told(tmp_path: Path) -> None:
    files = {
        "vulnerabilities/meltdown": "Mitigation: PTI\n",
        "vulnerabilities/mds": "Not affected\n",
        "cpu0/cache/index2/level": "2\n",
        "cpu0/cache/index2/type": "Unified\n",
        "cpu0/cache/index2/size": "512K\n",
        "cpu0/cache/index2/shared_cpu_list": "0-1\n",
    }
    for name, text in files.items():
        path = tmp_path / "sys/devices/system/cpu" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    facts = host_facts(Sysfs(tmp_path))

    assert facts["mitigations"] == "meltdown: Mitigation: PTI"
    assert facts["caches of CPU 0"] == "L2 unified 512K, CPUs 0-1"


def test_a_drive_tells_its_link_and_queue(tmp_path: Path) -> None:
    block = tmp_path / "sys/block/nvme0n1"
    (block / "queue").mkdir(parents=True)
    (block / "queue/scheduler").write_text("[none] kyber\n")
    (block / "device/device").mkdir(parents=True)
    (block / "device/device/current_link_width").write_text("4\n")

    assert drive_facts("nvme0n1", Sysfs(tmp_path)) == {
        "drive: scheduler": "[none] kyber",
        "drive: PCIe lanes": "4",
    }


def test_a_drive_behind_a_multipath_head_tells_the_link_node_and_heat_of_its_controller(
    tmp_path: Path,
) -> None:
    controller = tmp_path / "sys/block/nvme0n1/device/nvme3"
    for name, text in {
        "device/current_link_width": "4", "numa_node": "1",
        "hwmon2/temp1_input": "41000", "hwmon2/name": "nvme",
    }.items():  # fmt: skip
        (controller / name).parent.mkdir(parents=True, exist_ok=True)
        (controller / name).write_text(text + "\n")
    sysfs = Sysfs(tmp_path)

    assert drive_facts("nvme0n1", sysfs) == {"drive: PCIe lanes": "4", "drive: NUMA node": "1"}
    assert topology("nvme0n1", sysfs).drive_node == 1
    heat = drive_heat("nvme0n1", sysfs)
    assert heat is not None
    assert heat.temperature_c == 41
