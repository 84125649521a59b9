"""Record the kernel's block tracepoints of one drive while fio runs.

Each traced event takes 1 to 2 microseconds of CPU time, which lowers rates. So the rates of a
traced run of fio can be compared only with those of other traced runs. Limits: a bio that the
kernel splits is not followed, and the time before a request reaches the block layer is not seen.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from ssdbench.engine.hostsettings import applied, restore
from ssdbench.errors import HostLacks
from ssdbench.host import blktrace, tracefs
from ssdbench.host.sysfs import Sysfs
from ssdbench.host.topology import Interrupt
from ssdbench.host.tracefs import TraceEvent
from ssdbench.model.target import TargetInfo
from ssdbench.stats.blocklayer import LAYERS, Seen, Step, medians_ns, traced_requests
from ssdbench.tuning.mounting import PRESENT
from ssdbench.tuning.plan import HostPlan
from ssdbench.tuning.setting import Backend, Setting

_MINOR_BITS = 20  # bits of the minor number in the kernel's dev_t
_REASON = "needed for the block tracepoints, which show where the time of a request goes"
_LEAST = 20  # fewest requests for a median

STEPS = {
    "block/block_bio_queue": Step.QUEUED,
    "block/block_getrq": Step.PLACED,
    "block/block_rq_insert": Step.INSERTED,
    "block/block_rq_issue": Step.ISSUED,
    "block/block_rq_complete": Step.COMPLETED,
    "block/block_bio_backmerge": Step.MERGED_BACK,
    "block/block_bio_frontmerge": Step.MERGED_FRONT,
    "block/block_rq_merge": Step.ABSORBED,
    "block/block_rq_requeue": Step.REQUEUED,
}
OF_DRIVERS = {
    "nvme/nvme_setup_cmd": Step.PREPARED,
    "scsi/scsi_dispatch_cmd_start": Step.DISPATCHED,
    "irq/irq_handler_entry": Step.INTERRUPT,
}
_STEP_OF = {event.partition("/")[2]: step for event, step in (STEPS | OF_DRIVERS).items()}


@dataclass(slots=True)
class BlockTrace:
    """Record a drive's tracepoints from `start` to `stop`, inside a `running` block."""

    target: TargetInfo
    kernel_name: str
    interrupts: Sequence[Interrupt] = ()
    btt: bool = False  # also run blktrace and btt
    # Figures of the last window: median nanoseconds by layer, number of requests, merges per
    # request.
    figures: dict[str, float] = field(default_factory=dict)
    lacking: list[str] = field(default_factory=list)  # why blktrace and btt did not run
    _second: blktrace.BlkTrace | None = None
    _tracing: tracefs.Tracing | None = None

    @contextmanager
    def running(self, lease: str) -> Iterator[None]:
        """Use the kernel's tracer during a `with` block; after a crash, `restore` removes it.

        Raises HostLacks if this kernel has no tracefs or another program uses the tracer.
        """
        sysfs = Sysfs()
        if not tracefs.offered(sysfs):
            raise HostLacks(
                "this kernel has no tracefs, so nothing shows where the time of a request goes",
                hint="Leave `latency_path` out, or use a kernel with CONFIG_FTRACE.",
            )
        restore()  # removes the tracer of a killed run
        with ExitStack() as held:
            if not tracefs.mounted(sysfs):
                mount = Setting(Backend.MOUNT, tracefs.ROOT, tracefs.FILE_SYSTEM, _REASON)
                held.enter_context(applied(HostPlan(settings=(mount,)), f"{lease}-tracefs"))
            if holder := tracefs.in_use(self.kernel_name, sysfs):
                raise HostLacks(
                    f"the tracer is already in use: {holder}",
                    hint="End the other program, or run `ssdbench restore` after a crash.",
                )
            instance = Setting(Backend.TRACER, tracefs.INSTANCE, PRESENT, _REASON)
            held.enter_context(applied(HostPlan(settings=(instance,)), f"{lease}-tracer"))
            if self.btt:
                self._open_debugfs(held, lease, sysfs)
            self._tracing = tracefs.Tracing(self._filters())
            try:
                yield
            finally:
                self._tracing.close()
                self._tracing = None

    def start(self) -> None:
        """Begin to record the tracepoint events of a window."""
        if self._tracing is not None:
            self._second = blktrace.BlkTrace(self.target.node) if self.btt else None
            self._tracing.start()

    def stop(self) -> None:
        """End the window, and compute the median time of requests in each layer."""
        if self._tracing is not None:
            self.figures = medians(self._tracing.stop())
            if self._second is not None:
                self.figures |= self._second.means()
                self._second = None

    def _open_debugfs(self, held: ExitStack, lease: str, sysfs: Sysfs) -> None:
        """Mount debugfs for btt; if that fails, only the tracepoints are recorded."""
        if not blktrace.mounted(sysfs):
            mount = Setting(Backend.MOUNT, blktrace.DEBUGFS, blktrace.FILE_SYSTEM, _REASON)
            held.enter_context(applied(HostPlan(settings=(mount,)), f"{lease}-debugfs"))
        if reason := blktrace.closed(self.kernel_name, sysfs):
            self.btt = False
            self.lacking.append(f"{reason}; the tracepoints were read without it")

    def _filters(self) -> dict[str, str]:
        major, minor = (int(part) for part in self.target.major_minor.split(":"))
        ours = f"dev == {major << _MINOR_BITS | minor}"
        filters = dict.fromkeys(STEPS, ours)
        if self.kernel_name.startswith("nvme"):
            filters["nvme/nvme_setup_cmd"] = f'disk == "{self.kernel_name}"'
        address = Sysfs().path(f"/sys/block/{self.kernel_name}/device").resolve().name
        if address.count(":") == 3:  # its first part is the number of the host adapter
            host = address.split(":")[0]
            filters["scsi/scsi_dispatch_cmd_start"] = f"host_no == {host}"
        if self.interrupts:
            numbers = " || ".join(f"irq == {irq.number}" for irq in self.interrupts)
            filters["irq/irq_handler_entry"] = numbers
        return filters


def medians(events: Sequence[TraceEvent]) -> dict[str, float]:
    """Return the median time of requests in each layer; empty for too few requests."""
    traced = traced_requests(seen(event) for event in events)
    count = len(traced.requests)
    if count < _LEAST:
        return {}
    by_step = medians_ns(traced.requests)
    return {
        "requests": float(count),
        "merges_per_request": traced.merged / count,
        **{layer: by_step[layer] for layer in LAYERS if layer in by_step},
    }


def seen(event: TraceEvent) -> Seen:
    """Turn a tracepoint event into one step on a request's way through the layers."""
    return Seen(
        at_ns=event.at_ns,
        step=_STEP_OF[event.name],
        cpu=event.cpu,
        sector=event.fields.get("sector", 0),
        sectors=event.fields.get("nr_sector", 0),
    )
