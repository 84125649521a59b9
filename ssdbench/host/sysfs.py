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

NOTHING = "(null)"  # the kernel's printk for a string that is not there
R = TypeVar("R")


class Sysfs:
    """Attribute files below `root`; the real host is `Sysfs(Path("/"))`."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root

    def path(self, attribute: str) -> Path:
        """Where an attribute lies on this machine."""
        return self.root / attribute.lstrip("/")

    def once(self, question: Hashable, ask: Callable[[], R]) -> R:
        """The answer to a question about the host: asked each time here, once by `OneLook`."""
        return ask()

    def read(self, attribute: str) -> str:
        """The value, without its newline. Raises OSError when it cannot be read."""
        return self.path(attribute).read_text(errors="replace").rstrip("\n")

    def find(self, attribute: str) -> str | None:
        """The value, or None when there is no such attribute or it cannot be read now.

        A string that the kernel does not have is `(null)` in its words, and none.
        """
        try:
            value = self.read(attribute)
        except OSError:
            return None
        return None if value.strip() == NOTHING else value

    def number(self, attribute: str) -> int | None:
        """The value as an integer, or None when there is none."""
        value = self.find(attribute)
        return int(value) if value is not None and re.fullmatch(r"\s*-?[0-9]+\s*", value) else None

    def names(self, directory: str) -> list[str]:
        """What a directory holds, sorted; empty when there is no such directory."""
        try:
            return self.listed(directory)
        except OSError:
            return []

    def known(self, attribute: str) -> str | None:
        """The value, or None when there is no such attribute.

        Raises OSError when there is one that cannot be read: what must fail closed asks here. An
        attribute that goes while it is read is ENODEV (the kernel's fs/kernfs/file.c), so that is
        asked again: it has gone then, or been made anew, or its device does fail.
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
        """What a directory holds, sorted; empty when there is none.

        Raises OSError when there is one that cannot be read.
        """
        try:
            return sorted(entry.name for entry in self.path(directory).iterdir())
        except FileNotFoundError:
            return []

    def exists(self, attribute: str) -> bool:
        """Whether there is such an attribute or directory."""
        return self.path(attribute).exists()

    def ask(self, attribute: str, value: str = "1") -> None:
        """Write what only asks for something, and has no value to be read. Raises HostLacks."""
        try:
            descriptor = os.open(self.path(attribute), os.O_WRONLY)  # never creates a file
            try:
                os.write(descriptor, value.encode())
            finally:
                os.close(descriptor)
        except OSError as error:
            out_of_range = error.errno in (errno.EINVAL, errno.ERANGE)
            raise HostLacks(
                f"{attribute} cannot be set to {value}: {error.strerror}",
                hint="The value is outside the range of this device." if out_of_range else "",
            ) from error

    def write(self, attribute: str, value: str) -> None:
        """Write a value and require that it reads back.

        The kernel takes some values, and quietly keeps others: rq_affinity=5 reads 2, nomerges=7
        reads 1. Raises HostLacks with both values when that happens, or when it is refused.
        """
        self.ask(attribute, value)
        try:
            kept = chosen(self.read(attribute))
        except OSError as error:
            raise HostLacks(f"{attribute} cannot be set to {value}: {error.strerror}") from error
        if kept != value.strip():
            raise HostLacks(f"{attribute} was set to {value}, but the kernel keeps {kept}")


class OneLook(Sysfs):
    """Attribute files as they were when each was first read: for lists of many devices.

    What decides about a write never asks here, as answers grow old.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        super().__init__(root)
        self._answers: dict[Hashable, tuple[Any, OSError | None]] = {}
        self._values: dict[str, str] = {}  # hundreds of devices over one file ask a million times

    def once(self, question: Hashable, ask: Callable[[], R]) -> R:
        """The first answer; an OSError is one, too, and is raised again."""
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
        """As it was at first."""
        value = self._values.get(attribute)
        if value is None:
            value = self.once(("read", attribute), lambda: super(OneLook, self).read(attribute))
            self._values[attribute] = value
        return value

    def listed(self, directory: str) -> list[str]:
        """As it was at first."""
        return self.once(("listed", directory), lambda: super(OneLook, self).listed(directory))

    def exists(self, attribute: str) -> bool:
        """As it was at first."""
        return self.once(("exists", attribute), lambda: super(OneLook, self).exists(attribute))


def node_of(kernel: str) -> str:
    """The node of a block device: what its directory writes as `!` is a `/` (etherd!e1.0)."""
    return f"/dev/{kernel.replace('!', '/')}"


def chosen(value: str) -> str:
    """The value in force, of a list such as `mq-deadline [none]`; otherwise the value itself."""
    marked = re.search(r"\[([^]]*)\]", value)
    return marked.group(1) if marked else value.strip()


def queues_of(kernel: str, sysfs: Sysfs) -> list[str]:
    """Names below /sys/block of the disks whose queues serve a whole disk: mostly itself.

    An NVMe multipath head nvmeSnN passes each request on to one of its paths nvmeScCnN, and has no
    queue of requests of its own.
    """
    subsystem, _, number = kernel.rpartition("n")
    paths = re.compile(rf"{subsystem}c[0-9]+n{number}") if number.isdigit() else None
    return [n for n in sysfs.names("/sys/block") if paths and paths.fullmatch(n)] or [kernel]


def device_of(kernel: str, sysfs: Sysfs) -> str:
    """The directory of what a whole disk hangs on.

    The device of an NVMe multipath head is its subsystem, which has no place on a bus: there it is
    the subsystem's first controller.
    """
    device = f"/sys/block/{kernel}/device"
    below = [name for name in sysfs.names(device) if re.fullmatch(r"nvme[0-9]+", name)]
    return f"{device}/{below[0]}" if below else device
