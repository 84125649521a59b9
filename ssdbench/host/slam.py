"""Start instances of the in-kernel load generator (kmod/slam) and read them, through configfs."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from ssdbench.errors import DeviceError, DeviceLost, HostLacks
from ssdbench.foreign import descriptor_of
from ssdbench.host.sysfs import Sysfs

CONFIGFS = "/sys/kernel/config/ssdb_slam"
PREFIX = "ssdbench-"


@dataclass(frozen=True, slots=True)
class Slammed:
    """The counts of an instance of the load generator since its start."""

    errors: int
    elapsed_ns: int
    read: Mapping[int, int]  # number of I/Os by latency bin, in fio's bins
    write: Mapping[int, int]


def available() -> bool:
    """Return whether the module of the load generator is loaded."""
    return Sysfs().exists(CONFIGFS)


def sweep(sysfs: Sysfs | None = None) -> None:
    """Remove the instances that a killed run left; their requests have already ended."""
    sysfs = sysfs or Sysfs()
    for name in sysfs.names(CONFIGFS):
        if name.startswith(PREFIX):
            sysfs.path(f"{CONFIGFS}/{name}").rmdir()


class Instance:
    """One kernel thread of the load generator. Raises HostLacks if the module is missing."""

    def __init__(self, name: str, sysfs: Sysfs | None = None) -> None:
        self._sysfs = sysfs or Sysfs()
        self._path = f"{CONFIGFS}/{PREFIX}{name}"
        try:
            self._sysfs.path(self._path).mkdir()
        except OSError as error:
            raise HostLacks(f"ssdb_slam cannot create an instance: {error.strerror}") from error

    def set(self, values: Mapping[str, int | str]) -> None:
        """Set attributes of the instance in order. Raises HostLacks when a value is refused."""
        for name, value in values.items():
            try:
                self._write(name, str(value))
            except OSError as error:
                raise HostLacks(
                    f"ssdb_slam refuses {name} {value}: {error.strerror}",
                    hint="if the module has another version, `ssdbench kmod build` makes a new one",
                ) from error

    def start(self) -> None:
        """Start to send requests. Raises DeviceError when the module cannot use the drive."""
        try:
            self._write("running", "1")
        except OSError as error:
            raise DeviceError(f"ssdb_slam cannot start: {error.strerror}") from error

    def stop(self) -> None:
        """Stop sending new requests, and wait until the requests in flight have ended."""
        self._write("running", "0")

    @property
    def running(self) -> bool:
        """Return whether requests are being sent or are in flight."""
        return self._sysfs.read(f"{self._path}/running") == "1"

    def slammed(self) -> Slammed:
        """Return the current counters and histograms. Raises DeviceLost when the module is gone."""
        try:
            bins = _bins(self._sysfs.read(f"{self._path}/histogram"))
            return Slammed(
                errors=int(self._sysfs.read(f"{self._path}/errors")),
                elapsed_ns=int(self._sysfs.read(f"{self._path}/elapsed_ns")),
                read=bins["read"],
                write=bins["write"],
            )
        except OSError as error:
            raise DeviceLost(f"ssdb_slam is gone: {error.strerror}") from error

    def remove(self) -> None:
        """Stop the instance and release the drive."""
        self._sysfs.path(self._path).rmdir()

    def _write(self, name: str, value: str) -> None:
        """Write an attribute and do not read it again: the kernel may print values differently."""
        path = self._sysfs.path(f"{self._path}/{name}")
        with descriptor_of(path, os.O_WRONLY) as descriptor:
            os.write(descriptor, value.encode())


def _bins(text: str) -> dict[str, dict[int, int]]:
    bins: dict[str, dict[int, int]] = {"read": {}, "write": {}}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 3:
            bins[words[0]][int(words[1])] = int(words[2])
    return bins
