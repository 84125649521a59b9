"""Why a target must not be overwritten: every reason at once, and closed when in doubt."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ssdbench.errors import HostLacks, TargetRefused
from ssdbench.host import usage
from ssdbench.host.procfs import Mount, Opener, Procfs
from ssdbench.host.sysfs import Sysfs
from ssdbench.model.target import TargetInfo, TargetKind
from ssdbench.target import fileguard
from ssdbench.target.inspect import kernel_name

# udev reads a device for a moment whenever its last writer closes it.
UDEV = frozenset({"systemd-udevd", "(udev-worker)", "udevd"})


@dataclass(frozen=True, slots=True)
class Objection:
    """One reason, and whether the user may override it."""

    reason: str
    soft: bool = False

    def __str__(self) -> str:
        return self.reason


class HostView(Protocol):
    """What the host knows of the use of one block device."""

    def partitions(self) -> Sequence[str]: ...
    def holders(self) -> Sequence[str]: ...
    def mounts(self) -> Sequence[Mount]: ...
    def swap_areas(self) -> Sequence[str]: ...
    def openers(self) -> Sequence[Opener]: ...
    def holds_system(self) -> bool: ...
    def read_only(self) -> bool: ...
    def claimed(self) -> bool: ...
    def signatures(self) -> Sequence[str]: ...


class LiveHost(usage.BlockUsage):
    """The view of the running host. Raises OSError when the device is gone."""

    def __init__(self, info: TargetInfo, *, root: Path = Path("/"), ours: bool = False) -> None:
        sysfs = Sysfs(root)
        super().__init__(kernel_name(info, sysfs=sysfs), sysfs=sysfs, procfs=Procfs(root))
        self._node = Path(info.node)
        self._ours = ours  # we hold the claim ourselves

    def read_only(self) -> bool:
        """Whether the kernel refuses writes to it."""
        return self._sysfs.read(f"/sys/block/{self._name}/ro").strip() != "0"

    def claimed(self) -> bool:
        """Whether anyone but us has claimed it."""
        return not self._ours and usage.claimed(self._node)

    def signatures(self) -> list[str]:
        """Partition tables, file systems and volumes on it."""
        return usage.signatures(self._node)


def objections(info: TargetInfo, host: HostView) -> list[Objection]:
    """Why a block device must not be overwritten; empty means it may.

    A question that the host cannot answer is an objection too.
    """
    return [
        *_not_yet(info),
        *([] if info.size_bytes else [Objection("it has no medium: its size is 0")]),
        *_asked("whether it is read-only", lambda: _read_only(host)),
        *_asked("whether the system lies on it", lambda: _system(host)),
        *_asked("what is mounted from it", lambda: _mounted(host)),
        *_asked("whether it is swapped to", lambda: _swap(host)),
        *_asked("what is built on it", lambda: _held(host)),
        *_asked("who has it open", lambda: _open(host)),
        *_asked("whether it is claimed", lambda: _claimed(host)),
        *_asked("what partitions it has", lambda: _partitions(host)),
        *_asked("what it holds", lambda: _signatures(host)),
    ]


def refuse(info: TargetInfo, found: Sequence[Objection], *, overwrite_signatures: bool) -> None:
    """Raise TargetRefused with every objection that stands."""
    standing = [o for o in found if not (o.soft and overwrite_signatures)]
    if not standing:
        return
    soft = all(o.soft for o in standing)
    raise TargetRefused(
        info.name,
        [o.reason for o in standing],
        hint="if nothing on it is needed any more, add --overwrite-signatures" if soft else "",
    )


def check(
    info: TargetInfo,
    *,
    overwrite_signatures: bool = False,
    ours: bool = False,
    root: Path = Path("/"),
) -> None:
    """Raise TargetRefused with every reason why a target must not be overwritten now.

    `ours` says that we hold its claim already, and then only others count.
    """
    match info.kind:
        case TargetKind.SIMULATED:
            return
        case TargetKind.FILE:
            found = [Objection(reason) for reason in fileguard.objections(info, root=root)]
        case _:
            try:
                found = objections(info, LiveHost(info, root=root, ours=ours))
            except OSError as error:
                found = [Objection(f"it cannot be examined: {error.strerror}")]
    refuse(info, found, overwrite_signatures=overwrite_signatures)


def _asked(question: str, answer: Callable[[], Iterator[Objection]]) -> list[Objection]:
    try:
        return list(answer())
    except (OSError, ValueError) as error:
        return [Objection(f"{question} cannot be known: {error}")]
    except HostLacks as error:
        return [Objection(f"{question} cannot be known: {error.message}")]


def _not_yet(info: TargetInfo) -> list[Objection]:
    if info.kind in (TargetKind.LOOP, TargetKind.FILE, TargetKind.SIMULATED):
        return []
    return [Objection("this version writes to loop devices, files and simulated drives only")]


def _read_only(host: HostView) -> Iterator[Objection]:
    if host.read_only():
        yield Objection("it is read-only")


def _system(host: HostView) -> Iterator[Objection]:
    if host.holds_system():
        yield Objection("it holds the running system")


def _mounted(host: HostView) -> Iterator[Objection]:
    for mount in host.mounts():
        yield Objection(f"{mount.source} on it is mounted on {mount.mount_point}")


def _swap(host: HostView) -> Iterator[Objection]:
    for area in host.swap_areas():
        yield Objection(f"the kernel swaps to {area}")


def _held(host: HostView) -> Iterator[Objection]:
    for holder in host.holders():
        yield Objection(f"it is in use by /dev/{holder}")


def _open(host: HostView) -> Iterator[Objection]:
    for opener in host.openers():
        if opener.command in UDEV:
            continue
        yield Objection(f"{opener} has it open")


def _claimed(host: HostView) -> Iterator[Objection]:
    if host.claimed():
        yield Objection("the kernel or a process has claimed it for itself")


def _partitions(host: HostView) -> Iterator[Objection]:
    names = host.partitions()
    if names:
        yield Objection(f"it has partitions: {', '.join(names)}", soft=True)


def _signatures(host: HostView) -> Iterator[Objection]:
    for signature in host.signatures():
        yield Objection(f"it holds the signature of {signature}", soft=True)
