"""Make a file system on the drive, mount it during one stage, and write files there.

During the stage the run's claim on the drive is released, because the kernel uses the drive. The
partition begins and ends on whole MiB and is known only to the kernel. After a crash, `restore`
removes the partition and the mount. A resumed run mounts the file system again if no other program
wrote to the drive.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from math import gcd
from pathlib import Path

from ssdbench.engine.claimedsession import ClaimedSession
from ssdbench.engine.fiorun import run_sections
from ssdbench.engine.hostsettings import applied
from ssdbench.engine.stage import Context, derived_seed
from ssdbench.errors import HostLacks, UsageError
from ssdbench.generator.fio.driver import Sections
from ssdbench.generator.fio.jobfile import Options
from ssdbench.host.filesystems import FileSystem
from ssdbench.host.sysfs import node_of
from ssdbench.stages.host.trial import lease
from ssdbench.tuning.mounting import PRESENT, partition_name
from ssdbench.tuning.plan import HostPlan
from ssdbench.tuning.setting import Backend, Setting
from ssdbench.units import KIB, MIB

# A database's user can enter this directory (not a run directory), but only root can change it.
REACHABLE = Path("/run/ssdbench")
SECTOR_BYTES = 512  # unit of partition offsets in the kernel
START_BYTES = MIB  # alignment that fits erase blocks and RAID stripes
LAY_BLOCK_BYTES = 256 * KIB
LONGEST_LAY_S = 24 * 3600.0  # time limit, enough for the largest drives
_REASON = "needed to put the file system under test there"


@dataclass(frozen=True, slots=True)
class Place:
    """Describe a file system that will be made: its kind, drive, and share of the drive."""

    system: FileSystem
    kernel_name: str
    part_percent: float = 100.0

    @property
    def made_with(self) -> str:
        """Return the command that makes the file system, without the device node."""
        return " ".join((self.system.program, *self.system.options))

    @property
    def planned(self) -> str:
        """Return the line of a plan that describes the file system."""
        return f"{self.made_with} without a discard; the claim is released meanwhile"


@contextmanager
def mounted(context: Context, place: Place, stage: str) -> Iterator[Context]:
    """Mount the file system of finished units, or make a new one, during a `with` block.

    If the device cannot have partitions, the result gets a note about it. Raises UsageError for a
    target that is not a block device, HostLacks if mkfs or mount fails.
    """
    if not isinstance(context.session, ClaimedSession):
        raise UsageError(
            f"no file system can be made on {context.target.name}",
            hint="Name a whole drive or a loop device, or leave the stage out.",
        )
    own = lease(context, stage)
    directory = REACHABLE / own
    made = Setting(Backend.DIRECTORY, str(directory), PRESENT, _REASON)
    step = context.session.released(
        f"make and measure {place.system.name}", context.journal, leaves_signatures=True
    )
    end = int(context.target.size_bytes * place.part_percent / 100) // MIB * MIB
    sectors = f"{START_BYTES // SECTOR_BYTES} {(end - START_BYTES) // SECTOR_BYTES}"
    part = Setting(Backend.PARTITION, "1", sectors, _REASON, context.target.here)
    with step, ExitStack() as held:
        node = context.target.node
        try:
            held.enter_context(applied(HostPlan(settings=(part,)), f"{own}-partition"))
            node = node_of(partition_name(place.kernel_name, "1"))
        except HostLacks as lacking:
            if place.part_percent < 100:
                raise
            context.notes.append(f"{lacking.message}: the file system uses the whole device")
        value = f"{place.system.name} {node} {place.system.mount}".strip()
        mount = Setting(Backend.MOUNT, str(directory), value, _REASON)
        plan, intact = HostPlan(settings=(made, mount)), context.intact
        if intact:
            try:
                held.enter_context(applied(plan, f"{own}-mount"))
            except HostLacks:  # the earlier file system is damaged
                intact = False
        if not intact:
            place.system.make(node)
            held.enter_context(applied(plan, f"{own}-mount"))
        yield replace(context, mounted=directory, intact=intact)


def where(context: Context) -> Path:
    """Return the directory on which the file system under test is mounted."""
    if context.mounted is None:
        raise RuntimeError("no file system is mounted")
    return context.mounted


def write_files(
    context: Context, options: Options, *, size_bytes: int | None = None, files: int = 1
) -> bool:
    """Write each file once, from start to end, and flush all files to the drive.

    `size_bytes` is the size of each file, if all have the same size. The result is False if the run
    must end.
    """
    block = LAY_BLOCK_BYTES if size_bytes is None else gcd(size_bytes, LAY_BLOCK_BYTES)
    sized: Options = {} if size_bytes is None else {"size": size_bytes}
    seed = derived_seed(context.seed, context.store.name, context.unit.name)
    everywhere: Options = {
        "ioengine": "psync",
        "direct": 0,
        "bs": block,
        "refill_buffers": 1,
        "randseed": seed % (1 << 31) + 1,
        **options,
        **sized,
    }
    total_bytes = None if size_bytes is None else files * size_bytes
    section: Options = {"rw": "write", "end_fsync": 1, "numjobs": files}
    work = Sections(
        (section,), LONGEST_LAY_S, everywhere, total_bytes=total_bytes, name="its files"
    )
    return run_sections(context, work) is not None
