"""Read the drive's temperature, and recognize readings that mean "unknown".

Reading a temperature costs time. For NVMe the kernel reads the SMART log at most once a second
(nvme_hwmon_read in drivers/nvme/host/hwmon.c). drivetemp sends a command that waits for all earlier
I/O (drivers/hwmon/drivetemp.c), so it is read only outside of measurements.

Drives, bridges and the kernel mark "unknown" in many ways: 0 K (-273.15 °C), a byte of FFh, all
bits set, 2147483647, a page of zeros or of FFh, and "(null)". The functions here return None for
all of these, so that none becomes a temperature, a threshold or a count.
"""

import re
from dataclasses import dataclass

from ssdbench.host.sysfs import Sysfs, device_of

KELVIN = 273  # kelvin at 0 °C, in the whole numbers of NVMe
# The widest range for flash is -40 °C to 105 °C (JEDEC JESD47, automotive grade 2).
COLDEST_C, HOTTEST_C = -60.0, 150.0
MOST_HOURS = 1_000_000  # 114 years
MOST_PERCENT = 100


def celsius(value: float | None) -> float | None:
    """Return a temperature in °C, or None for a value that no drive or host can have."""
    if value is None or not COLDEST_C < value < HOTTEST_C:
        return None
    return value


def from_kelvin(kelvin: int) -> int | None:
    """Return degrees Celsius from NVMe's whole kelvins; None for 0 K, which means "unknown"."""
    return None if celsius(kelvin - KELVIN) is None else kelvin - KELVIN


def above_freezing(value: float | None) -> float | None:
    """Return a temperature above 0 °C, else None: a limit of 0 °C or less means "not set"."""
    found = celsius(value)
    return found if found is not None and found > 0 else None


def is_blank(page: bytes) -> bool:
    """Return whether a log page is missing, or has only zeros or only FFh."""
    return not page.strip(b"\0") or not page.strip(b"\xff")


def counter(page: bytes, offset: int, size: int) -> int | None:
    """Return a little-endian count of a page; None if all bits are set or bytes are missing."""
    field = page[offset : offset + size]
    if len(field) < size or not field.strip(b"\xff"):
        return None
    return int.from_bytes(field, "little")


def percent(value: int) -> int | None:
    """Return a percentage such as the available spare; None for a value above 100."""
    return value if 0 <= value <= MOST_PERCENT else None


def used(value: int) -> str:
    """Return as text how much of its life a drive has used; this byte can be up to 254 %."""
    return f"{value} %" if value < 0xFF else "more than 254 %, or not reported (FFh)"


def hours(value: int | None) -> int | None:
    """Return the power-on hours; None for a number that is too large for any drive."""
    return value if value is not None and 0 <= value <= MOST_HOURS else None


MILLI = 1000
GENTLE = frozenset({"nvme"})  # drivers whose reading does not delay I/O


@dataclass(frozen=True, slots=True)
class Heat:
    """One reading of a drive's temperature."""

    temperature_c: float
    warning_c: float | None  # above this the drive is too hot; None when not reported
    alarm: bool  # the drive's critical warning for temperature
    gentle: bool  # may be read during a measurement


def drive_heat(kernel: str, sysfs: Sysfs | None = None) -> Heat | None:
    """Read the temperature of a drive by its name below /sys/block; None without a sensor."""
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
    """Return a drive's hwmon directories; NVMe has them below the controller, SCSI in `hwmon`."""
    device = device_of(kernel, sysfs)
    sensors = []
    for base in (device, f"{device}/hwmon"):
        sensors += [f"{base}/{n}" for n in sysfs.names(base) if re.fullmatch(r"hwmon\d+", n)]
    return sensors
