"""Define the operations on a claimed target that a run uses, for every kind of target."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

from ssdbench.generator.base import Generator, JobOutcome
from ssdbench.generator.fio.driver import Sections
from ssdbench.host.command import Process
from ssdbench.model.base import Model
from ssdbench.model.profile import Purge
from ssdbench.model.result import FlashWritten
from ssdbench.model.target import TargetInfo
from ssdbench.model.workload import Workload
from ssdbench.target.nvme import LatencyMonitor
from ssdbench.target.purge import Purged

SIMULATED = "simulated drive"
KERNEL = "kernel"


class Counters(Model):
    """Hold the bytes written to a target, from counters that the generator cannot change.

    Two readings can be compared only if their `epoch` is the same. The epoch of kernel counters
    names the boot and the disk. The epoch of a simulated drive names its state file. For a regular
    file, `epoch` is empty and there are no counters.
    """

    written_bytes: int = 0
    discarded_bytes: int = 0
    epoch: str = ""
    source: str = "none"  # KERNEL | SIMULATED | "none"
    read_at_s: float = 0.0  # on the monotonic clock of that boot; 0 if unknown
    log_bytes: int | None = None  # bytes written, from the controller's health log


class TargetSession(Protocol):
    """Hold a target exclusively until `close` is called.

    A target without drive logs needs no methods of its own where this class has a default.
    """

    @property
    def info(self) -> TargetInfo:
        """Return the identity, size and other properties of the target."""
        ...

    @property
    def spare_bytes(self) -> int | None:
        """Return the bytes of over-provisioning; None if unknown."""
        ...

    def generator(self, *, step_s: int = 1) -> Generator:
        """Return a generator for this target.

        A simulated drive advances its clock in steps of `step_s` seconds.
        """
        ...

    def recheck(self) -> None:
        """Check again, before each destructive stage, that the consent is for this drive.

        Raises TargetRefused or DeviceLost.
        """
        ...

    def counters(self) -> Counters:
        """Read the counters of written bytes."""
        ...

    def health_written_bytes(self) -> int | None:
        """Read the bytes written, as the drive's health log counts them; None without a log."""
        return None

    def flash_written(self, *, hurried: Callable[[], bool] = lambda: False) -> FlashWritten | None:
        """Read the bytes written by the host and to flash from the drive's logs; None if unknown.

        This call waits a minute or more for a counter that the drive updates slowly. If `hurried`
        returns True, the call returns at once; its reading is then too inexact to use. The method
        sends admin commands, so do not call it during a measurement.
        """
        return None

    def throttle_counters(self) -> Mapping[str, int]:
        """Read from the drive's logs how often the drive throttled, and its errors (OCP log).

        The result is empty without logs. The method sends admin commands to the drive, so do not
        call it during a measurement.
        """
        return {}

    def latency_monitor(self) -> LatencyMonitor | None:
        """Read the drive's own counts of slow requests (OCP); None if it keeps no counts.

        The method sends admin commands, so do not call it during a measurement.
        """
        return None

    def drive_watts(self) -> float | None:
        """Read the mean power that the drive reports for the last second, in W, or None."""
        return None

    def ceiling_iops(self, workload: Workload) -> float | None:
        """Measure how many IOPS this host can send if no drive limits them; None if unknown.

        The method loads the host for half a second, so do not call it during a measurement.
        """
        return None

    def purge(self, method: Purge, share: Callable[[float], None]) -> Purged:
        """Purge the target; the callback `share` gets the finished part, 0 to 1."""
        ...

    def discard(self, offset_bytes: int, length_bytes: int) -> None:
        """Discard a range of bytes of the target. Raises HostLacks, DeviceError."""
        ...

    def save(self) -> None:
        """Store, after each unit, the state of the target that a resumed run needs."""
        ...

    def close(self) -> None:
        """Release the target."""
        ...


@runtime_checkable
class RunsSections(Protocol):
    """Define a session that can run fio job sections with any options, for trials of the host."""

    def run_sections(
        self,
        work: Sections,
        *,
        artifacts: Path,
        cpus: Collection[int],
        below: Path | None,
        meanwhile: Callable[[Process], None],
    ) -> JobOutcome:
        """Run the sections on the target, or on files in the directory `below`, and wait.

        The sections run on the CPUs of the run unless `cpus` names other CPUs. `meanwhile` is
        called with the running fio. Raises the errors of `run_fio_sections`.
        """
        ...
