"""The target while it is ours: what a run may ask of it, whatever stands behind it."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

from ssdbench.generator.base import Generator, JobOutcome
from ssdbench.generator.fio.sections import Together
from ssdbench.host.command import Process
from ssdbench.model.base import Model
from ssdbench.model.result import FlashWritten
from ssdbench.model.target import TargetInfo
from ssdbench.model.workload import Workload

SIMULATED = "simulated drive"
KERNEL = "kernel"


class Counters(Model):
    """What was ever written to a target, by a counter that is not the generator's own.

    Two readings compare only within one `epoch`: the boot and disk of a kernel counter, the state
    file of a simulated drive. Without an epoch (a regular file) nothing is proven.
    """

    written_bytes: int = 0
    discarded_bytes: int = 0
    epoch: str = ""
    source: str = "none"  # KERNEL | SIMULATED | "none"
    # On the monotonic clock of that boot, which nobody can set; 0 where it is not known.
    read_at_s: float = 0.0
    # By the drive's own health log, of all that writes to its controller; asked for at rest only.
    log_bytes: int | None = None


class TargetSession(Protocol):
    """A target that is claimed: exclusively ours until `close`."""

    @property
    def info(self) -> TargetInfo:
        """Identity and geometry."""
        ...

    @property
    def spare_bytes(self) -> int | None:
        """The over-provisioned area, where it is known."""
        ...

    def generator(self, *, step_s: int = 1) -> Generator:
        """A generator on this target.

        `step_s`: how many seconds of the target's clock may pass between two looks of the judge.
        A drive that keeps its own time ignores it.
        """
        ...

    def recheck(self) -> None:
        """Make sure that it is still the drive that consent was given for.

        Raises TargetRefused or DeviceLost; called before every destructive stage.
        """
        ...

    def counters(self) -> Counters:
        """The counters as they are now."""
        ...

    def health_written_bytes(self) -> int | None:
        """What was ever written by the drive's own health log; None where there is none."""
        ...

    def flash_written(self, *, hurried: Callable[[], bool] = lambda: False) -> FlashWritten | None:
        """What host and drive ever wrote by the drive's own logs; None where it tells not both.

        Waits for a counter that lags, a minute or more, unless it is `hurried`: such a reading is
        worth nothing. Admin commands: never within a window.
        """
        ...

    def throttle_counters(self) -> Mapping[str, int]:
        """How often and how long the drive ever was too hot, by its logs; empty where untold.

        Admin commands: never within a window.
        """
        ...

    def ceiling_iops(self, workload: Workload) -> float | None:
        """What this host reaches with a workload and no drive; None where it is not known.

        Takes about half a second, so never within a window.
        """
        ...

    def discard(self, offset_bytes: int, length_bytes: int) -> None:
        """Tell the target that a range holds nothing any more.

        Raises HostLacks when it takes no discards, DeviceError when it refuses this one.
        """
        ...

    def save(self) -> None:
        """Make everything about the target durable at a checkpoint (simulated drives)."""
        ...

    def close(self) -> None:
        """Release the target."""
        ...


@runtime_checkable
class StartsTogether(Protocol):
    """A session that also starts fio in its own options: what trials of the host compare."""

    def together(
        self,
        work: Together,
        *,
        artifacts: Path,
        cpus: Collection[int],
        below: Path | None,
        meanwhile: Callable[[Process], None],
    ) -> JobOutcome:
        """Run it to its end on the target, or `below` a directory of a file system that lies on it.

        On the run's CPUs, unless `cpus` names others. Raises what `run_together` does.
        """
        ...
