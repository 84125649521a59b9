"""Where the drive of a setting is now, and what is said where there is none."""

from collections.abc import Callable

from ssdbench.errors import HostLacks


class DriveAbsent(HostLacks):
    """The drive that a setting belongs to is not here, or two claim to be it."""

    def __init__(self, drive: str) -> None:
        super().__init__(
            f"the drive {drive} is not on this host, or several drives have this identity",
            hint="Plug it in again.",
        )
        self.drive = drive


class NoSetting(HostLacks):
    """There is no such attribute here."""


def located(locate: Callable[[str], str | None], drive: str) -> str:
    """The kernel name of a drive, wherever it is now. Raises DriveAbsent when it is not here."""
    name = locate(drive)
    if name is None:
        raise DriveAbsent(drive)
    return name
