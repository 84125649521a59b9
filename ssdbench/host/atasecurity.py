"""The ATA security commands (ACS-4, 4.18 and 7.37 to 7.42): a password, an erase, an unlock.

The password is one and the same, and no secret: it exists only because an erase needs one, and
whoever finds a drive that a crash left locked must be able to open it, with or without ssdbench.
"""

from ssdbench.host.scsi import AtaCommand, Scsi

PASSWORD = "ssdbench"  # see above
SECURITY_WORD = 128  # of IDENTIFY DEVICE
ENABLED, LOCKED, FROZEN = 1 << 1, 1 << 2, 1 << 3
_SET_PASSWORD, _UNLOCK, _ERASE_PREPARE = 0xF1, 0xF2, 0xF3
_ERASE_UNIT, _DISABLE_PASSWORD = 0xF4, 0xF6
_USER, _ENHANCED = 0, 1 << 1  # word 0: which password, which erase
LEAST_TIMEOUT_MS = 600_000
UNKNOWN_TIMEOUT_MS = 12 * 3_600_000  # a drive that does not say how long it takes


def security_word(disk: Scsi) -> int:
    """What the drive says of its security now. Raises DeviceError."""
    page = disk.ata(AtaCommand(0xEC, reads_sectors=1)).data
    return int.from_bytes(page[2 * SECURITY_WORD : 2 * SECURITY_WORD + 2], "little")


def set_password(disk: Scsi) -> None:
    """Set the user password; the master password keeps its power to unlock."""
    disk.ata(AtaCommand(_SET_PASSWORD, data=_with_password(_USER)))


def erase(disk: Scsi, *, enhanced: bool, minutes: int) -> None:
    """Erase everything; the drive forgets the password with it. `minutes` is the drive's guess."""
    timeout_ms = max(LEAST_TIMEOUT_MS, 2 * 60_000 * minutes) if minutes else UNKNOWN_TIMEOUT_MS
    control = _USER | (_ENHANCED if enhanced else 0)
    disk.ata(AtaCommand(_ERASE_PREPARE))
    disk.ata(AtaCommand(_ERASE_UNIT, data=_with_password(control), timeout_ms=timeout_ms))


def open_again(disk: Scsi) -> None:
    """Unlock the drive where it is locked, and take the password off it. Raises DeviceError."""
    if security_word(disk) & LOCKED:
        disk.ata(AtaCommand(_UNLOCK, data=_with_password(_USER)))
    if security_word(disk) & ENABLED:
        disk.ata(AtaCommand(_DISABLE_PASSWORD, data=_with_password(_USER)))


def _with_password(control: int) -> bytes:
    return (control.to_bytes(2, "little") + PASSWORD.encode().ljust(32, b"\0")).ljust(512, b"\0")
