"""Define what a run may ask of a claimed target, whatever kind it is."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

from ssdbench.generator.base import Generator, JobOutcome
from ssdbench.generator.fio.sections import Sections
from ssdbench.host.command import Process
from ssdbench.model.base import Model
from ssdbench.model.result import FlashWritten
from ssdbench.model.target import TargetInfo
from ssdbench.model.workload import Workload

SIMULATED = "simulated drive"
KERNEL = "kernel"


class Counters(Model):
    """Hold what was written to a target, by a counter that is not the generator's.

    Two readings compare only within one `epoch`: the boot and disk of a kernel counter, the state
    file of a simulated drive. A regular file has no epoch, so nothing is proven.
    """

    written_bytes: int = 0
    discarded_bytes: int = 0
    epoch: str = ""
    source: str = "none"  # KERNEL | SIMULATED | "none"
    # On the monotonic clock of that boot, which cannot be set; 0 if unknown.
    read_at_s: float = 0.0
    # By the drive's health log, for the whole controller; read at rest only.
    log_bytes: int | None = None


class TargetSession(Protocol):
    """Hold a target exclusively until `close`."""

    @property
    def info(self) -> TargetInfo:
        """Return identity and geometry."""
        ...

    @property
    def spare_bytes(self) -> int | None:
        """Return the over-provisioned bytes, where known."""
        ...

    def generator(self, *, step_s: int = 1) -> Generator:
        """Return a generator for this target.

        `step_s`: seconds of the target's clock between two looks of the judge; only a simulated
        drive uses it.
        """
        ...

    def recheck(self) -> None:
        """Check that it is still the drive that consent was given for.

        Called before every destructive stage. Raises TargetRefused or DeviceLost.
        """
        ...

    def counters(self) -> Counters:
        """Read the current counters."""
        ...

    def health_written_bytes(self) -> int | None:
        """Read the bytes written by the drive's health log; None without one."""
        ...

    def flash_written(self, *, hurried: Callable[[], bool] = lambda: False) -> FlashWritten | None:
        """Read the bytes that host and drive wrote by the drive's logs; None unless it has both.

        Waits a minute or more for a slow counter, unless `hurried`: such a reading is useless.
        Sends admin commands, so never within a window.
        """
        ...

    def throttle_counters(self) -> Mapping[str, int]:
        """Read how often and how long the drive was too hot, by its logs; empty without them.

        Sends admin commands, so never within a window.
        """
        ...

    def ceiling_iops(self, workload: Workload) -> float | None:
        """Measure what this host reaches with a workload and no drive; None if unknown.

        Takes about half a second, so never within a window.
        """
        ...

    def discard(self, offset_bytes: int, length_bytes: int) -> None:
        """Discard a range. Raises HostLacks if not supported, DeviceError if refused."""
        ...

    def save(self) -> None:
        """Store everything about the target at a checkpoint."""
        ...

    def close(self) -> None:
        """Release the target."""
        ...


@runtime_checkable
class RunsSections(Protocol):
    """Run fio sections in options of their own, for trials of the host."""

    def run_sections(
        self,
        work: Sections,
        *,
        artifacts: Path,
        cpus: Collection[int],
        below: Path | None,
        meanwhile: Callable[[Process], None],
    ) -> JobOutcome:
        """Run them on the target, or `below` a directory of a file system that lies on it.

        On the run's CPUs, unless `cpus` names others. Raises what `run_together` does.
        """
        ...
