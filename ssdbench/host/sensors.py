"""Read the drive's temperature, and tell readings of sensors and health pages from "unknown".

Asking a drive costs something: for NVMe the kernel reads the SMART log by an admin command, at most
once a second (drivers/nvme/host/hwmon.c: nvme_hwmon_read); drivetemp sends a command that waits for
all I/O before it (drivers/hwmon/drivetemp.c), so it is asked only outside of what is measured.

Drives, bridges and the kernel have many words for "unknown": 0 K (-273.15 °C), a byte of FFh, a
number with all bits set, 2147483647, a page of zeros or of FFh, and "(null)". None of them may
become a temperature, a threshold or a count.
"""

import re
from dataclasses import dataclass

from ssdbench.host.sysfs import Sysfs, device_of

KELVIN = 273  # of 0 °C, as NVMe counts
# Flash is specified from -40 °C to 105 °C at most (JEDEC JESD47, automotive grade 2).
COLDEST_C, HOTTEST_C = -60.0, 150.0
MOST_HOURS = 1_000_000  # 114 years of power
MOST_PERCENT = 100


def celsius(value: float | None) -> float | None:
    """A temperature, or None for what no drive and no host can have."""
    if value is None or not COLDEST_C < value < HOTTEST_C:
        return None
    return value


def from_kelvin(kelvin: int) -> int | None:
    """Degrees Celsius of NVMe's whole kelvins, where 0 is no reading."""
    return None if celsius(kelvin - KELVIN) is None else kelvin - KELVIN


def above_freezing(value: float | None) -> float | None:
    """A temperature as hosts and warnings have them; a warning at or below 0 °C was never set."""
    found = celsius(value)
    return found if found is not None and found > 0 else None


def is_blank(page: bytes) -> bool:
    """Whether a page says nothing: there is none, or all its bytes are 0, or all are FFh."""
    return not page.strip(b"\0") or not page.strip(b"\xff")


def counter(page: bytes, offset: int, size: int) -> int | None:
    """A little-endian count of a page, None where all its bits are set or the page is too short."""
    field = page[offset : offset + size]
    if len(field) < size or not field.strip(b"\xff"):
        return None
    return int.from_bytes(field, "little")


def percent(value: int) -> int | None:
    """A share of a whole, such as the available spare; None above 100."""
    return value if 0 <= value <= MOST_PERCENT else None


def used(value: int) -> str:
    """The percentage of a drive's life that is used, which a byte holds up to 254."""
    return f"{value} %" if value < 0xFF else "more than 254 %, or not told (FFh)"


def hours(value: int | None) -> int | None:
    """Hours of power; None for more than any drive can have had."""
    return value if value is not None and 0 <= value <= MOST_HOURS else None


MILLI = 1000
GENTLE = frozenset({"nvme"})  # drivers whose reading does not hold up I/O


@dataclass(frozen=True, slots=True)
class Heat:
    """One reading."""

    temperature_c: float
    warning_c: float | None  # above it the drive calls itself too hot; None where it does not tell
    alarm: bool  # the drive's critical warning for temperature
    gentle: bool  # whether it may be asked while something is measured


def drive_heat(kernel: str, sysfs: Sysfs | None = None) -> Heat | None:
    """The reading of a drive by its name below /sys/block, None where there is no sensor."""
    sysfs = sysfs or Sysfs()
    for place in _sensors(kernel, sysfs):
        now_c = celsius(_celsius(sysfs, f"{place}/temp1_input"))
        if now_c is None:
            continue
        return Heat(
            temperature_c=now_c,
            warning_c=above_freezing(_celsius(sysfs, f"{place}/temp1_max")),
            alarm=bool(sysfs.number(f"{place}/temp1_alarm")),
            gentle=(sysfs.find(f"{place}/name") or "").strip() in GENTLE,
        )
    return None


def _celsius(sysfs: Sysfs, attribute: str) -> float | None:
    milli_c = sysfs.number(attribute)
    return None if milli_c is None else milli_c / MILLI


def _sensors(kernel: str, sysfs: Sysfs) -> list[str]:
    """hwmon directories of a drive: below its controller (NVMe), or in `hwmon` (SCSI)."""
    device = device_of(kernel, sysfs)
    sensors = []
    for base in (device, f"{device}/hwmon"):
        sensors += [f"{base}/{n}" for n in sysfs.names(base) if re.fullmatch(r"hwmon\d+", n)]
    return sensors
