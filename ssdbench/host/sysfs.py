"""Read and write attribute files of the kernel, below a root that tests replace.

Attributes are named by their full path, such as `/sys/block/sda/queue/scheduler`.
"""

import errno
import os
import re
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, TypeVar

from ssdbench.errors import HostLacks
from ssdbench.foreign import descriptor_of

NOTHING = "(null)"  # the kernel's text for a missing string
R = TypeVar("R")


class Sysfs:
    """Read and write attribute files below `root`; `Sysfs(Path("/"))` is the real host."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root

    def path(self, attribute: str) -> Path:
        """Return the path of an attribute on this machine."""
        return self.root / attribute.lstrip("/")

    def once(self, question: Hashable, ask: Callable[[], R]) -> R:
        """Return what `ask` returns; the subclass `OneLook` asks only once for each `question`."""
        return ask()

    def read(self, attribute: str) -> str:
        """Return an attribute's value without its newline. Raises OSError if it is not readable."""
        return self.path(attribute).read_text(errors="replace").rstrip("\n")

    def find(self, attribute: str) -> str | None:
        """Return an attribute's value; None if the attribute is missing, unreadable or `(null)`."""
        try:
            value = self.read(attribute)
        except OSError:
            return None
        return None if value.strip() == NOTHING else value

    def number(self, attribute: str) -> int | None:
        """Return an attribute's value as an integer, or None if the value is not an integer."""
        value = self.find(attribute)
        return int(value) if value is not None and re.fullmatch(r"\s*-?[0-9]+\s*", value) else None

    def names(self, directory: str) -> list[str]:
        """Return the sorted names in a directory; empty when the directory cannot be read."""
        try:
            return self.listed(directory)
        except OSError:
            return []

    def writable(self, directory: str) -> list[str]:
        """Return the sorted names of the files in a directory that have a write permission."""
        paths = ((name, self.path(f"{directory}/{name}")) for name in self.names(directory))
        return [name for name, path in paths if path.exists() and path.stat().st_mode & 0o222]

    def known(self, attribute: str) -> str | None:
        """Return an attribute's value; return None only when the attribute does not exist.

        Raises OSError otherwise. Safety checks use this method, because they must fail when they
        cannot read. Reading an attribute that is being removed fails with ENODEV (fs/kernfs/file.c
        of Linux), so it is read up to three times.
        """
        for again in (True, True, False):
            try:
                return self.read(attribute)
            except FileNotFoundError:
                break
            except OSError as error:
                if error.errno != errno.ENODEV or not again:
                    raise
        return None

    def listed(self, directory: str) -> list[str]:
        """Return the sorted names in a directory; none if it does not exist. Raises OSError."""
        try:
            return sorted(entry.name for entry in self.path(directory).iterdir())
        except FileNotFoundError:
            return []

    def exists(self, attribute: str) -> bool:
        """Return whether the attribute or the directory exists."""
        return self.path(attribute).exists()

    def ask(self, attribute: str, value: str = "1") -> None:
        """Write to an attribute that has no value and only triggers an action. Raises HostLacks."""
        try:
            with descriptor_of(self.path(attribute), os.O_WRONLY) as descriptor:  # never creates it
                os.write(descriptor, value.encode())
        except OSError as error:
            out_of_range = error.errno in (errno.EINVAL, errno.ERANGE)
            raise HostLacks(
                f"{attribute} cannot be set to {value}: {error.strerror}",
                hint="The value is outside the range of this device." if out_of_range else "",
            ) from error

    def write(self, attribute: str, value: str) -> None:
        """Write a value to an attribute. Raises HostLacks if reading returns another value.

        The kernel accepts some values but stores others: rq_affinity=5 reads 2, nomerges=7 reads 1.
        """
        self.ask(attribute, value)
        try:
            kept = chosen(self.read(attribute))
        except OSError as error:
            raise HostLacks(f"{attribute} cannot be set to {value}: {error.strerror}") from error
        if kept != value.strip():
            raise HostLacks(
                f"{attribute} was set to {value}, but the kernel keeps {kept}",
                hint="Choose a value that this kernel and drive support.",
            )


class OneLook(Sysfs):
    """Like Sysfs, but read each attribute only once, for lists of many devices.

    Code that decides whether a drive may be written never uses this class, because its answers may
    be outdated.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        super().__init__(root)
        self._answers: dict[Hashable, tuple[Any, OSError | None]] = {}
        self._values: dict[str, str] = {}  # hundreds of loop devices ask a million times

    def once(self, question: Hashable, ask: Callable[[], R]) -> R:
        """Return the first answer to a question again; if it was an OSError, raise this error."""
        if question not in self._answers:
            try:
                self._answers[question] = (ask(), None)
            except OSError as error:
                self._answers[question] = (None, error)
        answer, failed = self._answers[question]
        if failed is not None:
            raise failed
        found: R = answer
        return found

    def read(self, attribute: str) -> str:
        """Return the value that the first reading returned."""
        value = self._values.get(attribute)
        if value is None:
            value = self.once(("read", attribute), lambda: super(OneLook, self).read(attribute))
            self._values[attribute] = value
        return value

    def listed(self, directory: str) -> list[str]:
        """Return the names that the first listing returned."""
        return self.once(("listed", directory), lambda: super(OneLook, self).listed(directory))

    def exists(self, attribute: str) -> bool:
        """Return whether the attribute existed at the first check."""
        return self.once(("exists", attribute), lambda: super(OneLook, self).exists(attribute))


def node_of(kernel: str) -> str:
    """Return the path of a block device's node; `!` in a kernel name (etherd!e1.0) becomes `/`."""
    return f"/dev/{kernel.replace('!', '/')}"


def chosen(value: str) -> str:
    """Return the selected value of a list such as `mq-deadline [none]`, else the whole value."""
    marked = re.search(r"\[([^]]*)\]", value)
    return marked.group(1) if marked else value.strip()


def queues_of(kernel: str, sysfs: Sysfs) -> list[str]:
    """Return the disks below /sys/block that have this disk's request queues; usually itself.

    An NVMe multipath head nvmeSnN has no request queue; it passes requests to its paths nvmeScCnN.
    """
    subsystem, _, number = kernel.rpartition("n")
    paths = re.compile(rf"{subsystem}c[0-9]+n{number}") if number.isdigit() else None
    return [n for n in sysfs.names("/sys/block") if paths and paths.fullmatch(n)] or [kernel]


def device_of(kernel: str, sysfs: Sysfs) -> str:
    """Return the sysfs directory of the device that a whole disk belongs to.

    For an NVMe multipath head this is the first controller of its subsystem, because a subsystem
    has no place on a bus.
    """
    device = f"/sys/block/{kernel}/device"
    below = [name for name in sysfs.names(device) if re.fullmatch(r"nvme[0-9]+", name)]
    return f"{device}/{below[0]}" if below else device
