"""What says that there is no reading never becomes one: sensors, thresholds, health pages."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from ssdbench.engine.unitwatch import HeatWatch
from ssdbench.host.activity import activity
from ssdbench.host.sensors import Heat, drive_heat
from ssdbench.host.sysfs import Sysfs
from ssdbench.target import ata, nvme, scsi

SENSOR = "sys/block/nvme0n1/device/hwmon0"
ONES = b"\xff" * 512


def host(tmp_path: Path, files: Mapping[str, str]) -> Sysfs:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Sysfs(tmp_path)


def heat(tmp_path: Path, now: str, most: str) -> Heat | None:
    files = {"name": "nvme\n", "temp1_input": now, "temp1_max": most, "temp1_alarm": "0\n"}
    return drive_heat("nvme0n1", host(tmp_path, {f"{SENSOR}/{n}": t for n, t in files.items()}))


NONE = ["-273150\n", "-273000\n", "0\n", "2147483647\n", "255000\n", "65262000\n", "(null)\n", "\n"]


@pytest.mark.parametrize("most", NONE)
def test_a_threshold_that_is_none_makes_no_repeat_too_hot(most: str, tmp_path: Path) -> None:
    watch = HeatWatch(lambda: heat(tmp_path, "35850\n", most))
    watch.end(30.0)

    found = heat(tmp_path, "35850\n", most)
    assert found is not None and (found.temperature_c, found.warning_c) == (35.85, None)
    assert watch.findings() == []


@pytest.mark.parametrize("now", [one for one in NONE if one != "0\n"])
def test_a_temperature_that_is_none_is_no_reading(now: str, tmp_path: Path) -> None:
    assert heat(tmp_path, now, "84850\n") is None


def test_a_drive_above_its_own_threshold_is_still_too_hot(tmp_path: Path) -> None:
    watch = HeatWatch(lambda: heat(tmp_path, "85850\n", "84850\n"))
    watch.end(30.0)

    assert [finding.severity.value for finding in watch.findings()] == ["invalidates"]


def test_the_hottest_zone_of_a_host_is_one_that_can_be(tmp_path: Path) -> None:
    zones = {
        f"sys/class/thermal/thermal_zone{number}/temp": text
        for number, text in enumerate(["41000\n", "-274000\n", "2147483647\n", "255000\n"])
    }

    assert activity(host(tmp_path, {"proc/stat": "cpu0 1\n", **zones})).temperature_c == 41.0


@pytest.mark.parametrize("page", [ONES, bytes(512), b""], ids=["ones", "zeros", "none"])
def test_an_nvme_page_that_says_nothing_has_no_facts_and_no_counts(page: bytes) -> None:
    ocp = bytearray(ONES)
    ocp[496:512] = nvme.OCP_GUID

    assert nvme.smart_facts(page) == {}
    assert nvme.data_written_bytes(page) is None
    assert nvme.flash_written(page, bytes(ocp)) is None
    assert nvme.ocp_facts(bytes(ocp)).keys() == {"OCP log version"}
    assert not any(nvme.throttle_counters(page).values())


def test_fields_of_a_health_page_that_are_none_are_left_out_one_by_one() -> None:
    page = bytearray(512)
    page[1:3] = bytes(2)  # 0 K
    page[3:6] = b"\xff\xff\xff"
    page[48:64] = (2_000_000).to_bytes(16, "little")
    page[128:144] = b"\xff" * 8 + bytes(8)  # more hours than there can be

    told = nvme.smart_facts(bytes(page))

    assert not {"temperature", "available spare", "power-on hours"} & told.keys()
    assert told["data written"] == "1.024 TB"
    assert told["percentage used"] == "more than 254 %, or not reported (FFh)"
    page[1:3] = (273 + 41).to_bytes(2, "little")
    page[3:6] = b"\x62\x0a\x07"
    told = nvme.smart_facts(bytes(page))
    assert (told["temperature"], told["available spare"]) == ("41 °C", "98 %, threshold 10 %")


def test_ata_attributes_of_all_ones_and_a_scsi_temperature_of_ffh_are_none() -> None:
    smart = bytearray(512)
    for place, (number, raw) in enumerate([(9, b"\xff" * 6), (194, b"\x80" + bytes(5)),
                                           (241, b"\x07" + bytes(5))]):  # fmt: skip
        at = 2 + 12 * place
        smart[at], smart[at + 5 : at + 11] = number, raw
    unknown = bytes([0x0D, 0, 0, 6, 0, 0, 3, 2, 0, 0xFF])
    warm = unknown[:9] + b"\x2a"

    told = ata.facts({ata.SMART: bytes(smart)})

    assert told == {"SMART 194": "128", "SMART 241": "7"}
    assert "temperature" not in scsi.facts({scsi.TEMPERATURE: unknown})
    assert scsi.facts({scsi.TEMPERATURE: warm})["temperature"] == "42 °C"
