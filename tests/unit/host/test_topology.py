"""CPUs and interrupts of a made-up host."""

from pathlib import Path

from ssdbench.host.sysfs import Sysfs
from ssdbench.host.topology import topology

CPU = "sys/devices/system/cpu"
PCI = "sys/devices/pci0000:00/0000:00:02.0"
FILES = {
    f"{CPU}/online": "0-1\n",
    f"{CPU}/cpu0/cache/index0/level": "1\n",
    f"{CPU}/cpu0/cache/index0/shared_cpu_list": "0\n",
    f"{CPU}/cpu0/cache/index3/level": "3\n",
    f"{CPU}/cpu0/cache/index3/shared_cpu_list": "0-1\n",
    f"{CPU}/cpufreq/policy0/scaling_available_governors": "performance powersave\n",
    f"{CPU}/cpufreq/boost": "1\n",
    "sys/devices/system/node/node0/cpulist": "0\n",
    "sys/devices/system/node/node1/cpulist": "1\n",
    f"{PCI}/msi_irqs/31": "msix\n",
    f"{PCI}/msi_irqs/30": "msix\n",
    f"{PCI}/nvme/nvme0/nvme0n1/queue/scheduler": "[none] kyber\n",
    f"{PCI}/nvme/nvme0/nvme0n1/queue/nomerges": "0\n",
    f"{PCI}/nvme/nvme0/nvme0n1/mq/0/cpu_list": "0, 1\n",
    "proc/irq/30/smp_affinity_list": "0\n",
    "proc/irq/30/nvme0q0/.keep": "",
    "proc/irq/31/smp_affinity_list": "0-1\n",
    "proc/irq/31/effective_affinity_list": "1\n",
    "proc/irq/31/nvme0q1/.keep": "",
    "proc/77/comm": "irqbalance\n",
}


def test_cpus_caches_interrupts_and_queues_of_a_drive_are_found(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    drive = tmp_path / PCI / "nvme/nvme0/nvme0n1"
    (tmp_path / "sys/block").mkdir()
    (tmp_path / "sys/block/nvme0n1").symlink_to(drive)
    (drive / "device").symlink_to(drive.parent)

    found = topology("nvme0n1", Sysfs(tmp_path))

    assert found.shares_cache[0] == {0, 1}
    assert found.node_of == {0: 0, 1: 1}
    assert found.governors == ("performance", "powersave")
    assert found.turbo.endswith("boost")
    assert found.irqbalance
    assert [(i.number, i.name, i.managed, i.effective) for i in found.interrupts] == [
        (30, "nvme0q0", False, (0,)),
        (31, "nvme0q1", True, (1,)),
    ]
    assert found.schedulers == ("none", "kyber")
    assert found.queue == {"scheduler", "nomerges"}


def test_a_host_that_tells_nothing_offers_nothing(tmp_path: Path) -> None:
    found = topology("loop0", Sysfs(tmp_path))

    assert found.cpus == (0,)
    assert (found.governors, found.turbo, found.idle, found.interrupts) == ((), "", False, ())
