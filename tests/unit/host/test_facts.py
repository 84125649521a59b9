"""Facts of a host, from the files of one that we made up."""

from pathlib import Path

from ssdbench.host.facts import host_facts
from ssdbench.host.sysfs import Sysfs

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
