"""A file system made and mounted on the drive under test, for one step of a stage.

The claim is given up meanwhile. The partition begins and ends on whole MiB and only the kernel is
told of it. Partition and mount are journalled, so that `restore` takes them back after a crash.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from ssdbench.engine.applied import applied
from ssdbench.engine.journal import StageJournal
from ssdbench.engine.stage import Context
from ssdbench.errors import HostLacks, UsageError
from ssdbench.host.files import make_directory
from ssdbench.host.filesystems import FileSystem
from ssdbench.stages.onestart import Options, job_file, started
from ssdbench.tuning.mounting import PRESENT, partition_name
from ssdbench.tuning.plan import HostPlan
from ssdbench.tuning.setting import Backend, Setting
from ssdbench.units import KIB, MIB

SECTOR_BYTES = 512  # of partitions, whatever the drive's block is
START_BYTES = MIB  # an offset that every erase block and every RAID stripe divides
_REASON = "the file system under test lies there"


@runtime_checkable
class Releasing(Protocol):
    """A session whose claim can be given up for one step."""

    def released(
        self, reason: str, journal: StageJournal, *, leaves_signatures: bool = False
    ) -> AbstractContextManager[None]:
        """See `Claim.released`."""
        ...


@dataclass(frozen=True, slots=True)
class Place:
    """Which file system, and on how much of which drive."""

    system: FileSystem
    kernel_name: str
    part_percent: float = 100.0
    below: Path | None = None  # directory that it is mounted below; None: that of the stage


@contextmanager
def mounted(context: Context, place: Place, stage: str, notes: list[str]) -> Iterator[Path]:
    """The file system, fresh and mounted; a device without partitions is a note.

    Raises UsageError for a target that cannot hold one, HostLacks when mkfs or mount refuses.
    """
    if not isinstance(context.session, Releasing):
        raise UsageError(
            f"{context.target.name} cannot hold a file system",
            hint="Name a whole drive or a loop device, or leave the stage out.",
        )
    lease = f"{context.run_path.resolve().name}-{stage}"
    directory = (context.store.path / "mounted").resolve()
    outside: tuple[Setting, ...] = ()
    if place.below is not None:
        directory = place.below / lease
        outside = (Setting(Backend.DIRECTORY, str(directory), PRESENT, _REASON),)
    else:
        make_directory(directory)
    step = context.session.released(
        f"make and measure {place.system.name}", context.journal, leaves_signatures=True
    )
    partition = _setting(context, place)
    with step, _partition(place, partition, f"{lease}-partition", notes) as is_made:
        node = f"/dev/{partition_name(place.kernel_name, '1')}" if is_made else context.target.node
        place.system.make(node)
        value = f"{place.system.name} {node} {place.system.mount}".strip()
        mount = Setting(Backend.MOUNT, str(directory), value, _REASON)
        with applied(HostPlan(settings=(*outside, mount)), f"{lease}-mount"):
            yield directory


def lay(context: Context, unit: str, options: Options) -> None:
    """Write files once, from start to end, and wait until they are on the drive."""
    directory = context.store.fresh_directory(unit)
    section: Options = {"rw": "write", "end_fsync": 1}
    everywhere: Options = {
        "ioengine": "psync",
        "thread": 1,
        "fallocate": "none",
        "bs": 256 * KIB,
        **options,
    }
    group = started(
        directory, job_file({**everywhere, "group_reporting": 1}, [section]), seconds=3600
    )
    moved = group.outcome.write.bytes
    context.meter.add(seconds=group.outcome.write.runtime_s, bytes_read=0, bytes_written=moved)


def _setting(context: Context, place: Place) -> Setting:
    end = int(context.target.size_bytes * place.part_percent / 100) // MIB * MIB
    value = f"{START_BYTES // SECTOR_BYTES} {(end - START_BYTES) // SECTOR_BYTES}"
    return Setting(Backend.PARTITION, "1", value, _REASON, context.target.here)


@contextmanager
def _partition(place: Place, wanted: Setting, lease: str, notes: list[str]) -> Iterator[bool]:
    held = applied(HostPlan(settings=(wanted,)), lease)
    try:
        held.__enter__()
    except HostLacks as lacking:
        if place.part_percent < 100:
            raise
        notes.append(f"{lacking.message}: the file system has the whole device, from byte 0")
        yield False
        return
    try:
        yield True
    finally:
        held.__exit__(None, None, None)
