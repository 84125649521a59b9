"""What this host and drive lack for an engine of a point, each as one sentence."""

from dataclasses import dataclass

from ssdbench.engine.preflight import reset_hint
from ssdbench.errors import HostLacks
from ssdbench.generator.fio.driver import installed
from ssdbench.generator.fio.ioengines import OPTIONS
from ssdbench.host import iouring
from ssdbench.host.nvme import generic_node
from ssdbench.host.sysfs import Sysfs
from ssdbench.host.topology import topology
from ssdbench.model import asked
from ssdbench.model.fitting import engine_obstacle
from ssdbench.model.profile import Profile
from ssdbench.model.target import USED_UP, ZONES, TargetInfo
from ssdbench.model.workload import IoEngine
from ssdbench.target.inspect import kernel_name
from ssdbench.units import KIB, format_size

COUNTS_ZONES = (3, 36)  # the first fio that keeps to how many zones may be begun
PAGE_BYTES = 4 * KIB  # of a buffer, at least: each may lie apart


@dataclass(frozen=True, slots=True)
class WaysIn:
    """What fio, the kernel and the drive have; nothing of a drive where none is named."""

    fio_engines: frozenset[str]
    refused: str = ""  # why io_uring is, if it is
    commands: bool = True  # io_uring carries those of a driver
    polls: bool = True  # the drive has poll queues
    generic: bool = True  # the namespace has a generic node
    most_command_bytes: int | None = None  # of one NVMe command; None where it is not known


def ways_in(info: TargetInfo | None = None) -> WaysIn:
    """What is here, and on a drive. Raises HostLacks without fio."""
    _, engines = installed()
    found = WaysIn(engines, iouring.unusable(), iouring.takes_commands())
    if info is None:
        return found
    kernel = kernel_name(info)
    return WaysIn(
        engines,
        found.refused,
        found.commands,
        polls=bool(kernel) and topology(kernel).polls,
        generic=bool(kernel) and generic_node(kernel) is not None,
        most_command_bytes=_most_command_bytes(kernel) if kernel else None,
    )


def lacking(
    engine: IoEngine, info: TargetInfo | None, found: WaysIn, *, block_bytes: int = 0
) -> str:
    """Why an engine cannot be used with requests of a size; empty if it can."""
    if engine is IoEngine.LIBAIO:
        return ""
    if info is not None and (why := engine_obstacle(engine, info)):
        return why
    fio = str(OPTIONS[engine]["ioengine"])
    if fio not in found.fio_engines:
        return f"this fio was built without its {fio} engine"
    if found.refused:
        return found.refused
    name = "the drive" if info is None else info.name
    if engine is IoEngine.IO_URING_POLLED and not found.polls:
        return f"{name} has no poll queues; an NVMe drive gets them by nvme.poll_queues=N at boot"
    if engine is not IoEngine.IO_URING_CMD:
        return ""
    if not found.commands:
        return "the io_uring of this kernel carries no NVMe commands (Linux 5.19 and newer do)"
    if not found.generic:
        return f"{name} has no generic node: there is no /dev/ng… for it"
    most = found.most_command_bytes
    if most is not None and block_bytes > most:
        return (
            f"{name} takes {format_size(most)} with one command at most, and nothing splits a "
            f"request of {format_size(block_bytes)} past the block layer"
        )
    return ""


def require_engines(profile: Profile, info: TargetInfo) -> None:
    """Raise HostLacks unless all points can be measured here, on the drive as it will be."""
    info = info.formatted(profile.lba_format)
    wanted = {
        (engine, max(measure.stage.block_bytes))
        for measure in profile.measure
        if isinstance(measure.stage, asked.Sweep)
        for engine in measure.stage.engine
        if engine is not IoEngine.LIBAIO
    }
    if not wanted:
        return
    found = ways_in(info)
    for engine, block_bytes in sorted(wanted):
        if why := lacking(engine, info, found, block_bytes=block_bytes):
            raise HostLacks(
                f"`engine: {engine}` cannot be used: {why}",
                hint="Leave it out of the profile; `ssdbench check TARGET` tells of all engines.",
            )


def zones_lacking(info: TargetInfo | None) -> str:
    """Why the first fill of a drive in zones would fail; empty if it would not."""
    if info is None or not info.facts.get(ZONES, "").endswith(USED_UP):
        return ""
    (major, minor), _ = installed()
    if (major, minor) >= COUNTS_ZONES:
        return ""
    return f"fio {major}.{minor} does not count them, so the first fill would fail"


def require_zones(info: TargetInfo) -> None:
    """Raise HostLacks for a drive whose first zone cannot be begun, where fio sees to nothing."""
    if why := zones_lacking(info):
        said = f"{info.name} has {info.facts[ZONES]}; {why}"
        raise HostLacks(said, hint=reset_hint(info.name))


def told(info: TargetInfo | None) -> dict[str, str]:
    """Of each engine that no run needs, why it cannot be used; empty text where it can."""
    try:
        found = ways_in(info)
    except HostLacks:  # there is no fio, which is told by itself
        return {}
    return {
        engine.value: lacking(engine, info, found)
        for engine in IoEngine
        if engine is not IoEngine.LIBAIO
    }


def _most_command_bytes(kernel: str) -> int | None:
    """What one request of a drive may carry, each of its pages in a segment of its own."""
    queue, sysfs = f"/sys/block/{kernel}/queue", Sysfs()
    limits = [
        sysfs.number(f"{queue}/{attribute}") for attribute in ("max_hw_sectors_kb", "max_segments")
    ]
    sizes = [limit * unit for limit, unit in zip(limits, (KIB, PAGE_BYTES), strict=True) if limit]
    return min(sizes, default=None)
