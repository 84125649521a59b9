"""The drive's temperature from hwmon, with its own warning threshold.

Asking is not free: for NVMe the kernel reads the SMART log by an admin command, at most once a
second (drivers/nvme/host/hwmon.c: nvme_hwmon_read); drivetemp sends a command that waits for all
I/O before it (drivers/hwmon/drivetemp.c), so it is for moments outside of what is measured.
"""

import re
from dataclasses import dataclass

from ssdbench.host import readings
from ssdbench.host.sysfs import Sysfs, device_of

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
        now_c = readings.celsius(_celsius(sysfs, f"{place}/temp1_input"))
        if now_c is None:
            continue
        return Heat(
            temperature_c=now_c,
            warning_c=readings.above_freezing(_celsius(sysfs, f"{place}/temp1_max")),
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
