"""List the reasons why a target must not be overwritten; an unanswered question is a reason."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from ssdbench.errors import DeviceError, DeviceLost, HostLacks, SsdbenchError
from ssdbench.host import sysfs as attributes
from ssdbench.host import usage
from ssdbench.host.procfs import Mount, OneLookProcfs, Opener, Procfs
from ssdbench.host.sysfs import Sysfs, node_of
from ssdbench.model.target import NOT_READ, ZONES, Consent, TargetInfo, TargetKind
from ssdbench.target import ata, fileguard, nvme, pages, scsi, surroundings
from ssdbench.target.inspect import kernel_name
from ssdbench.target.objection import DATA, DESTROY, OVERWRITE, SHARED, Objection, refuse

ZFS = "zfs_member"  # the name that wipefs uses
# udev reads a device for a moment whenever its last writer closes it.
UDEV = frozenset({"systemd-udevd", "(udev-worker)", "udevd"})
RELEASE = "release it from what uses it"
NO_CONSENT = Consent()
UNLIKE = "its zones are not all alike, writable and sequential"


class HostView(Protocol):
    """Define the guard's questions about how a host uses one block device."""

    def partitions(self) -> Sequence[str]: ...
    def holders(self) -> Sequence[str]: ...
    def beside(self) -> Sequence[str]: ...
    def users(self) -> Sequence[str]: ...
    def mounts(self) -> Sequence[Mount]: ...
    def mounted_writes(self) -> str: ...
    def swap_areas(self) -> Sequence[str]: ...
    def openers(self) -> Sequence[Opener]: ...
    def holds_system(self) -> bool: ...
    def read_only(self) -> Sequence[str]: ...
    def claimed(self) -> bool: ...
    def signatures(self) -> Sequence[str]: ...
    def zoned(self) -> bool: ...
    def fabric(self) -> str: ...
    def other_paths(self) -> Sequence[str]: ...
    def shared(self) -> bool: ...
    def locked(self) -> Sequence[str]: ...


class OneLook:
    """Read the host once for a list of many devices; not for a decision about a write."""

    def __init__(self, kernels: Sequence[str]) -> None:
        self.sysfs = attributes.OneLook()
        self.procfs = OneLookProcfs()
        self._kernels = kernels
        self._signatures: dict[Path, list[str] | OSError | SsdbenchError] | None = None

    def signatures(self, node: Path) -> list[str]:
        """Return a node's signatures; the first call reads all nodes. Raises OSError."""
        if self._signatures is None:
            filled = (k for k in self._kernels if self.sysfs.number(f"/sys/block/{k}/size"))
            self._signatures = usage.signatures_of([Path(node_of(k)) for k in filled])
        found = self._signatures[node] if node in self._signatures else usage.signatures(node)
        if isinstance(found, Exception):
            raise found
        return found


class LiveHost(usage.BlockUsage):
    """Answer the questions of `HostView` from the running host.

    Raises DeviceLost if the device is gone.
    """

    def __init__(
        self,
        info: TargetInfo,
        *,
        root: Path = Path("/"),
        ours: bool = False,
        look: OneLook | None = None,
    ) -> None:
        sysfs = look.sysfs if look else Sysfs(root)
        procfs = look.procfs if look else Procfs(root)
        kernel = kernel_name(info, sysfs=sysfs)
        if not kernel:
            raise DeviceLost(f"{info.name} is gone")
        twins = partial(surroundings.twins, sysfs=sysfs)
        super().__init__(kernel, sysfs=sysfs, procfs=procfs, twins=twins)
        self._node = Path(info.node)
        self._ours = ours  # ssdbench itself holds the claim
        self._find_signatures = look.signatures if look else usage.signatures
        self._pages: Sequence[pages.Pages] | None = None

    def claimed(self) -> bool:
        """Tell whether another program claimed the device, another path or a device below it."""
        others = (Path(node_of(name)) for name in self.same_bytes())
        return any(usage.claimed(node) for node in [*([] if self._ours else [self._node]), *others])

    def mounted_writes(self) -> str:
        """Say whether the kernel itself refuses writes to mounted devices; "" before 6.8."""
        return surroundings.mounted_writes(self._sysfs)

    def signatures(self) -> list[str]:
        """Return the types of all signatures on the device, such as file systems and volumes."""
        return self._find_signatures(self._node)

    def zoned(self) -> bool:
        """Tell whether the device is zoned, that is, accepts only sequential writes."""
        zoned = self._sysfs.known(f"/sys/block/{self._name}/queue/zoned")
        return zoned is not None and zoned.strip() != "none"

    def fabric(self) -> str:
        """Return the network between the host and the device; "" for a local drive."""
        asked = (surroundings.fabric(name, self._sysfs) for name in self._drives())
        return next(filter(None, asked), "")

    def other_paths(self) -> list[str]:
        """Return other live paths by which this host reaches the same drive."""
        below = {self._name, *self.lower()}
        others = (n for name in below for n in surroundings.other_paths(name, self._sysfs))
        return sorted(set(others) - below)

    def shared(self) -> bool:
        """Tell whether other controllers may write to the same NVMe namespace."""
        asked = (found.get(nvme.NAMESPACE) for found in self._asked())
        return any(page is not None and nvme.namespace(page).shared for page in asked)

    def locked(self) -> list[str]:
        """Return the drive's reservations and locks. Raises DeviceError if it does not answer."""
        return list(dict.fromkeys(lock for found in self._asked() for lock in _locks(found)))

    def _drives(self) -> list[str]:
        """Return the kernel names of the device and of the whole disks below the device."""
        below = (name for name in self.lower() if self._sysfs.exists(f"/sys/block/{name}"))
        return [self._name, *below]

    def _asked(self) -> Sequence[pages.Pages]:
        if self._pages is None:
            below = (name for name in self._drives() if name != self._name)
            nodes = {self._name: self._node, **{n: self._sysfs.path(node_of(n)) for n in below}}
            self._pages = [pages.read(n, at, sysfs=self._sysfs) for n, at in nodes.items()]
        return self._pages


def _locks(found: pages.Pages) -> Iterator[str]:
    """Yield, as sentences, the reservations and locks in a drive's pages; no I/O."""
    if nvme.NAMESPACE in found and nvme.namespace(found[nvme.NAMESPACE]).write_protected:
        yield "its namespace is write-protected"
    if holder := nvme.reserved_by(found.get(nvme.RESERVATION, b"")):
        yield f"another host holds {holder}"
    if scsi.reserved(found.get(scsi.RESERVATION, b"")):
        yield "a persistent reservation is held on it"
    if scsi.CONFLICT in found:
        yield "another host has reserved it: it answers with a reservation conflict"
    if nvme.opal_locked(found.get(nvme.SECURITY, b"")):
        yield "it is locked (TCG Opal)"
    if ata.IDENTIFY in found:
        said = ata.identify(found[ata.IDENTIFY])
        if said.security_locked:
            yield "it is locked (ATA security)"
        elif said.security_enabled:
            yield "an ATA password is set on it"


def objections(info: TargetInfo, host: HostView) -> list[Objection]:
    """Return why a block device must not be overwritten; empty if it may be overwritten.

    A question that the host cannot answer is also an objection.
    """
    return [
        *([] if info.size_bytes else [Objection("it has no medium: its size is 0")]),
        *_asked("whether it is read-only", lambda: _read_only(info, host)),
        *_asked("whether it holds the running system", lambda: _system(host)),
        *_asked("what is mounted from it", lambda: _mounted(info, host)),
        *_asked("whether it is swapped to", lambda: _swap(host)),
        *_asked("what is built on it", lambda: _held(host)),
        *_asked("what else uses its bytes", lambda: _beside(host)),
        *_asked("who has it open", lambda: _open(host)),
        *_asked("whether it is zoned", lambda: _zoned(info, host)),
        *_asked("whether it is local", lambda: _fabric(host)),
        *_asked("who else can reach it", lambda: _shared(host)),
        *_asked("whether it is locked", lambda: _locked(host)),
        *_asked("whether it is claimed", lambda: _claimed(host)),
        *_asked("what partitions it has", lambda: _partitions(host)),
        *_asked("what it holds", lambda: _signatures(host)),
    ]


def standing(
    info: TargetInfo,
    consent: Consent = NO_CONSENT,
    *,
    held: int | None = None,
    root: Path = Path("/"),
) -> list[Objection]:
    """Return the current objections to overwriting a target that the consent does not override.

    `held` is the descriptor of our own claim, if there is one; then our claim is not an objection.
    """
    match info.kind:
        case TargetKind.SIMULATED:
            return []
        case TargetKind.FILE:
            against = fileguard.objections(info, root=root, held=held, run=consent.run)
        case _:
            try:
                against = objections(info, LiveHost(info, root=root, ours=held is not None))
            except DeviceLost:
                against = [Objection("it is gone")]
            except OSError as error:
                against = [Objection(f"it cannot be examined: {error.strerror}")]
    return remaining(against, consent)


def remaining(found: Sequence[Objection], consent: Consent) -> list[Objection]:
    """Return the objections in `found` that the consent does not override."""
    given = (
        OVERWRITE if consent.overwrite else (),
        SHARED if consent.shared else (),
        (DESTROY, consent.identity),
        DATA if consent.data else (),
    )
    return [o for o in found if not o.option or o.option not in given]


def check(
    info: TargetInfo,
    consent: Consent = NO_CONSENT,
    *,
    held: int | None = None,
) -> None:
    """Raise TargetRefused with all reasons if a target must not be overwritten now."""
    refuse(info.name, standing(info, consent, held=held))


def _asked(question: str, answer: Callable[[], Iterator[Objection]]) -> list[Objection]:
    try:
        return list(answer())
    except OSError as error:
        return [Objection(f"cannot tell {question}: {error.strerror or error}")]
    except ValueError as error:
        return [Objection(f"cannot tell {question}: {error}")]
    except (HostLacks, DeviceError) as error:
        return [Objection(f"cannot tell {question}: {error.message}")]


def _read_only(info: TargetInfo, host: HostView) -> Iterator[Objection]:
    for name in host.read_only():
        own = (info.facts.get("kernel name"), Path(info.node).name)
        what = "it" if name in own else node_of(name)
        yield Objection(f"{what} is read-only")


def _system(host: HostView) -> Iterator[Objection]:
    if host.holds_system():
        yield Objection("it holds the running system")


def _mounted(info: TargetInfo, host: HostView) -> Iterator[Objection]:
    own = ""
    for mount in host.mounts():
        own = own or host.mounted_writes()
        what = "it" if mount.source in (info.name, info.node) else f"it, as {mount.source},"
        where = f" (as process {mount.seen_by} sees it)" if mount.seen_by else ""
        remedy = f"unmount it ({own})" if own else "unmount it"
        yield Objection(f"{what} is mounted on {mount.mount_point}{where}", remedy=remedy)


def _swap(host: HostView) -> Iterator[Objection]:
    for area in host.swap_areas():
        yield Objection(f"the kernel swaps to {area}", remedy="end swapping to it (`swapoff`)")


def _held(host: HostView) -> Iterator[Objection]:
    for holder in host.holders():
        yield Objection(f"it is in use by {node_of(holder)}", remedy=RELEASE)
    for user in host.users():
        yield Objection(user, remedy=RELEASE)


def _beside(host: HostView) -> Iterator[Objection]:
    for other in host.beside():
        reason = f"it is in use by {node_of(other)}, which shares bytes or space with it"
        yield Objection(reason, remedy=RELEASE)


def _open(host: HostView) -> Iterator[Objection]:
    for opener in host.openers():
        if opener.command in UDEV:
            continue
        what = "the file behind it" if opener.of_file else "it"
        yield Objection(f"{opener} has {what} open", remedy="wait for that process or end it")


def _claimed(host: HostView) -> Iterator[Objection]:
    if host.claimed():
        yield Objection("the kernel or a process has claimed it (O_EXCL)", remedy=RELEASE)
        if ZFS in host.signatures():  # /sys does not show what ZFS uses
            yield Objection("a ZFS pool has it in use", remedy="export the pool")


def _partitions(host: HostView) -> Iterator[Objection]:
    names = host.partitions()
    if names:
        yield Objection(f"it has partitions: {', '.join(names)}", option=OVERWRITE)


def _signatures(host: HostView) -> Iterator[Objection]:
    for signature in host.signatures():
        yield Objection(f"it holds the signature of {signature}", option=OVERWRITE)


def _zoned(info: TargetInfo, host: HostView) -> Iterator[Objection]:
    if host.zoned() and not info.zone_bytes:
        told = info.facts.get(ZONES, "")
        why = f"its zones were {told}" if told.startswith(NOT_READ) else UNLIKE
        yield Objection(
            f"it is zoned, and {why}",
            remedy="take another drive; `ssdbench check` shows its zones",
        )


def _fabric(host: HostView) -> Iterator[Objection]:
    if network := host.fabric():
        yield Objection(f"it is reached over a network ({network}), so other hosts may use it")


def _shared(host: HostView) -> Iterator[Objection]:
    if paths := host.other_paths():
        yield Objection(f"other live paths lead to it: {', '.join(paths)}", option=SHARED)
    if host.shared():
        yield Objection("its namespace may be attached to other controllers", option=SHARED)


def _locked(host: HostView) -> Iterator[Objection]:
    for lock in host.locked():
        yield Objection(lock)
