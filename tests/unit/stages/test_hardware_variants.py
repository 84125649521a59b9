"""What this project's own machines lack, on a made-up host: frequency steps, polling, a meter."""

from collections.abc import Mapping
from pathlib import Path

from ssdbench.host.activity import activity
from ssdbench.host.sysfs import Sysfs
from ssdbench.host.topology import topology
from ssdbench.stages.host.variants import engine_variants, frequency_variants
from ssdbench.units import MIB

CPU = "sys/devices/system/cpu"
POWER = "sys/class/powercap"
SCALING = {
    f"{CPU}/online": "0-1\n",
    f"{CPU}/cpufreq/policy0/scaling_available_frequencies": "3000000 1800000 800000\n",
    f"{CPU}/cpufreq/policy1/scaling_available_frequencies": "3000000 1800000 800000 400000\n",
}
ENDS = {
    f"{CPU}/online": "0\n",
    f"{CPU}/cpufreq/policy0/cpuinfo_min_freq": "800000\n",
    f"{CPU}/cpufreq/policy0/cpuinfo_max_freq": "4700000\n",
}
METERS = {
    f"{POWER}/intel-rapl:0/energy_uj": "1500000\n",
    f"{POWER}/intel-rapl:1/energy_uj": "2500000\n",
    f"{POWER}/intel-rapl:0:0/energy_uj": "900000\n",  # the cores, which the package holds already
    "proc/stat": "cpu 1 0 1 1 0 0 0 0 0 0\ncpu0 1 0 1 1 0 0 0 0 0 0\n",
}
ENGINES = ("psync", "libaio", "io_uring", "posixaio")


def made(root: Path, files: Mapping[str, str]) -> Sysfs:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return Sysfs(root)


def test_slow_middle_and_fast_steps_are_tried_that_every_cpu_can_have(tmp_path: Path) -> None:
    variants, _ = frequency_variants(topology("", made(tmp_path, SCALING)), "d")

    limits = [
        {(s.attribute.rsplit("/", 2)[-2], int(s.value)) for s in variant.settings}
        for variant in variants
        if any("scaling_max_freq" in s.attribute for s in variant.settings)
    ]
    assert limits == [
        {("policy0", khz), ("policy1", khz)} for khz in (800_000, 1_800_000, 3_000_000)
    ]


def test_a_driver_without_steps_is_tried_at_its_ends(tmp_path: Path) -> None:
    found = topology("", made(tmp_path, ENDS))

    assert found.frequencies_khz == (800_000, 4_700_000)


def test_polling_is_tried_only_where_the_drive_has_queues_for_it() -> None:
    with_queues = engine_variants(ENGINES, MIB, polls=True)
    without = engine_variants(ENGINES, MIB, polls=False)

    polled = [variant.name for variant in with_queues if "hipri" in variant.options]
    assert polled
    assert {v.name for v in with_queues} - {v.name for v in without} == set(polled)


def test_all_packages_are_metered_and_their_parts_are_not_counted_twice(tmp_path: Path) -> None:
    assert activity(made(tmp_path, METERS)).energy_j == 4.0


def test_a_machine_without_a_meter_tells_no_power(tmp_path: Path) -> None:
    bare = {name: text for name, text in METERS.items() if POWER not in name}

    assert activity(made(tmp_path, bare)).energy_j is None
