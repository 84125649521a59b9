"""Pages of real drives: serial numbers blanked, checksums mended; each file names its source."""

import json
from pathlib import Path
from typing import Any

import pytest

from ssdbench.target import ata, scsi
from ssdbench.target.identity import of_a_company
from ssdbench.target.inspect import page_facts

PAGES = Path(__file__).parents[2] / "data" / "pages"
REAL = sorted(path.stem for path in PAGES.glob("real-*.json"))
ATA = [name for name in REAL if name != "real-seagate-sas"]

# From the drives' data sheets: sectors, and whether they know TRIM.
SHEETS = {
    "real-biwintech-sx500": (1_000_215_216, True, "6 Gb/s"),
    "real-gigabyte-gstfs31": (2_000_409_264, True, "6 Gb/s"),
    "real-intel-320": (234_441_648, True, "3 Gb/s"),
    "real-intel-x25m-g1": (156_301_488, False, "3 Gb/s"),
    "real-kingston-a400-240": (468_862_128, True, "6 Gb/s"),
    "real-kingston-a400-480": (937_703_088, True, "6 Gb/s"),
    "real-patriot-burst": (468_862_128, True, "6 Gb/s"),
    "real-samsung-870-evo": (3_907_029_168, True, "6 Gb/s"),
    "real-samsung-mccoe64": (117_231_408, False, "unknown"),
    "real-samsung-mmcqe28g": (250_069_680, False, "3 Gb/s"),
    "real-samsung-mmcre28g": (250_069_680, True, "3 Gb/s"),
    "real-spcc": (500_118_192, True, "6 Gb/s"),
    "real-toshiba-thnsnh128": (250_069_680, True, "6 Gb/s"),
}


def stored(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((PAGES / f"{name}.json").read_text())
    return found


def pages_of(name: str) -> dict[str, bytes]:
    pages = stored(name)["pages"]
    return {k: bytes.fromhex(p["hex"]).ljust(p["size"], b"\0") for k, p in pages.items()}


def test_all_real_pages_are_tested() -> None:
    assert set(ATA) == set(SHEETS)


@pytest.mark.parametrize("name", REAL)
def test_source_and_licence_are_named_and_no_serial_number_is_left(name: str) -> None:
    told = stored(name)

    assert told["source"].startswith("https://github.com/")
    assert told["licence"] in ("LGPL-2.1", "LGPL-2.1-or-later", "BSD-2-Clause")
    pages = pages_of(name)
    if ata.IDENTIFY in pages:
        said = ata.identify(pages[ata.IDENTIFY])
        assert said.serial == "REAL-DRIVE-BLANKED"
        assert said.wwn[-8:] in ("", "00000001", "00000000")


@pytest.mark.parametrize("name", ATA)
def test_identify_of_a_real_drive_is_read_as_its_data_sheet_has_it(name: str) -> None:
    page = pages_of(name)[ata.IDENTIFY]

    said, (sectors, trim, speed) = ata.identify(page), SHEETS[name]

    assert ata.whole(page)
    assert (said.sectors, said.trim) == (sectors, trim)
    assert (said.speed_most or "unknown") == speed
    assert said.logical_bytes == 512
    assert said.model.isprintable()
    assert said.model
    assert said.firmware


@pytest.mark.parametrize("name", [n for n in ATA if n != "real-samsung-870-evo"])
def test_smart_data_of_a_real_drive_are_whole_and_its_temperature_is_one(name: str) -> None:
    pages = pages_of(name)

    values = ata.smart_values(pages[ata.SMART])
    celsius = ata.temperature(values)

    assert sum(pages[ata.SMART]) % 256 == 0
    assert 9 in values  # power-on hours, which every drive of these counts
    assert 12 in values
    assert celsius is None or 10 <= celsius <= 70


def test_smart_data_are_read_as_smartctl_reads_them() -> None:
    """The same drive, by smartctl 7.3 at another time: counters may have grown."""
    name = "real-toshiba-thnsnh128"
    theirs, pages = stored(name)["smartctl says"], pages_of(name)
    said, values = ata.identify(pages[ata.IDENTIFY]), ata.smart_values(pages[ata.SMART])

    assert (said.model, said.firmware) == (theirs["model"], theirs["firmware"])
    assert (said.sectors, said.trim) == (theirs["blocks"], theirs["trim"])
    assert said.logical_bytes == theirs["logical"]
    assert theirs["speed most"] == "6.0 Gb/s"
    assert {str(number) for number in values} == set(theirs["attributes"])
    assert all(values[int(n)] >= raw for n, raw in theirs["attributes"].items())
    assert ata.temperature({194: theirs["attributes"]["194"]}) == theirs["temperature"]


def test_a_temperature_that_is_not_kept_is_not_told() -> None:
    """A Samsung MCCOE64 has attribute 190, and never fills it."""
    pages = pages_of("real-samsung-mccoe64")

    assert ata.smart_values(pages[ata.SMART])[190] == 0
    assert "temperature" not in page_facts(pages)
    assert ata.temperature({190: 0x2D1E002A}) == 42  # as an 870 EVO, which has no 194, tells it


@pytest.mark.parametrize("name", ["real-gigabyte-gstfs31", "real-biwintech-sx500"])
def test_a_world_wide_name_without_a_company_names_no_unit(name: str) -> None:
    """Both drives tell one, and every other drive of their models tells the same."""
    wwn = ata.identify(pages_of(name)[ata.IDENTIFY]).wwn
    designator = bytes([1, 3, 0, 8]) + bytes.fromhex(wwn)
    page = b"\x00\x83" + len(designator).to_bytes(2, "big") + designator

    assert wwn
    assert not of_a_company(wwn)
    assert scsi.world_wide_name(page) == ""
    assert of_a_company(ata.identify(pages_of("real-intel-320")[ata.IDENTIFY]).wwn)


def test_the_name_of_the_unit_is_found_between_those_of_its_ports() -> None:
    page = pages_of("real-seagate-sas")[scsi.DEVICE_ID]

    assert scsi.world_wide_name(page) == "naa.5000c50000000001"
