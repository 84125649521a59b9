"""Make and mount a file system on the drive under test for one stage.

The claim is released meanwhile. The partition begins and ends on whole MiB and is only known to the
kernel. Partition and mount are journalled, so that `restore` removes them after a crash; a resumed
run mounts the file system again, if nobody else wrote to the drive.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from math import gcd
from pathlib import Path
from typing import Protocol, runtime_checkable

from ssdbench.engine.fiorun import run_sections
from ssdbench.engine.hostsettings import applied
from ssdbench.engine.journal import StageJournal
from ssdbench.engine.stage import Context, derived_seed
from ssdbench.errors import HostLacks, UsageError
from ssdbench.generator.fio.jobfile import Options
from ssdbench.generator.fio.sections import Sections
from ssdbench.host.filesystems import FileSystem
from ssdbench.host.sysfs import node_of
from ssdbench.stages.host.trial import lease
from ssdbench.tuning.mounting import PRESENT, partition_name
from ssdbench.tuning.plan import HostPlan
from ssdbench.tuning.setting import Backend, Setting
from ssdbench.units import KIB, MIB

# Only root may change it, and a database's user can reach it, unlike a run directory.
REACHABLE = Path("/run/ssdbench")
SECTOR_BYTES = 512  # unit of partitions, for any block size
START_BYTES = MIB  # a multiple of every erase block and RAID stripe
LAY_BLOCK_BYTES = 256 * KIB
LONGEST_LAY_S = 24 * 3600.0  # the largest drives, file by file
_REASON = "the file system under test lies there"


@runtime_checkable
class ReleasableSession(Protocol):
    """Hold a session whose claim can be released for one step."""

    def released(
        self, reason: str, journal: StageJournal, *, leaves_signatures: bool = False
    ) -> AbstractContextManager[None]:
        """Release the claim: see `Claim.released`."""
        ...


@dataclass(frozen=True, slots=True)
class Place:
    """Name the file system, and the drive and size it gets."""

    system: FileSystem
    kernel_name: str
    part_percent: float = 100.0

    @property
    def made_with(self) -> str:
        """Return the command that makes it, without the node."""
        return " ".join((self.system.program, *self.system.options))

    @property
    def planned(self) -> str:
        """Say what making it does, for a plan."""
        return f"{self.made_with} without a discard; the claim is given up meanwhile"


@contextmanager
def mounted(context: Context, place: Place, stage: str) -> Iterator[Context]:
    """Mount the file system as finished units left it, or a new one.

    A device without partitions is a note. Raises UsageError for a target that cannot hold one,
    HostLacks when mkfs or mount fails.
    """
    if not isinstance(context.session, ReleasableSession):
        raise UsageError(
            f"{context.target.name} cannot hold a file system",
            hint="Name a whole drive or a loop device, or leave the stage out.",
        )
    own = lease(context, stage)
    directory = REACHABLE / own
    made = Setting(Backend.DIRECTORY, str(directory), PRESENT, _REASON)
    step = context.session.released(
        f"make and measure {place.system.name}", context.journal, leaves_signatures=True
    )
    partition = _setting(context, place)
    with step, _partition(place, partition, f"{own}-partition", context.notes) as is_made:
        node = node_of(partition_name(place.kernel_name, "1")) if is_made else context.target.node
        value = f"{place.system.name} {node} {place.system.mount}".strip()
        mount = Setting(Backend.MOUNT, str(directory), value, _REASON)
        plan = HostPlan(settings=(made, mount))
        with ExitStack() as held:
            intact = context.intact and _holds(held, plan, f"{own}-mount")
            if not intact:
                place.system.make(node)
                held.enter_context(applied(plan, f"{own}-mount"))
            yield replace(context, mounted=directory, intact=intact)


def _holds(held: ExitStack, plan: HostPlan, own: str) -> bool:
    """Mount an existing file system; one that cannot be mounted is lost."""
    try:
        held.enter_context(applied(plan, own))
    except HostLacks:
        return False
    return True


def where(context: Context) -> Path:
    """Return where the file system is mounted."""
    if context.mounted is None:
        raise RuntimeError("no file system is mounted")
    return context.mounted


def write_files(
    context: Context, options: Options, *, size_bytes: int | None = None, files: int = 1
) -> bool:
    """Write files once, from start to end, and wait until they are on the drive.

    `size_bytes`: of each file, where all have one size. Returns False when the run must end before.
    """
    block = LAY_BLOCK_BYTES if size_bytes is None else gcd(size_bytes, LAY_BLOCK_BYTES)
    sized: Options = {} if size_bytes is None else {"size": size_bytes}
    everywhere: Options = {
        "ioengine": "psync",
        "direct": 0,
        "bs": block,
        "refill_buffers": 1,
        "randseed": derived_seed(context.seed, context.store.name, context.unit.name) % (1 << 31)
        + 1,
        **options,
        **sized,
    }
    total_bytes = None if size_bytes is None else files * size_bytes
    section: Options = {"rw": "write", "end_fsync": 1, "numjobs": files}
    work = Sections(
        (section,), LONGEST_LAY_S, everywhere, total_bytes=total_bytes, name="its files"
    )
    return run_sections(context, work) is not None


def _setting(context: Context, place: Place) -> Setting:
    end = int(context.target.size_bytes * place.part_percent / 100) // MIB * MIB
    value = f"{START_BYTES // SECTOR_BYTES} {(end - START_BYTES) // SECTOR_BYTES}"
    return Setting(Backend.PARTITION, "1", value, _REASON, context.target.here)


@contextmanager
def _partition(place: Place, wanted: Setting, own: str, notes: list[str]) -> Iterator[bool]:
    held = applied(HostPlan(settings=(wanted,)), own)
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
