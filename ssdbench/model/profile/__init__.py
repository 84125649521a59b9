"""Define the schema of `profiles/*.yaml`, in which a user says what to measure.

Every setting has a default, and every default is pessimistic: a full drive, incompressible data,
small random writes, no TRIM, and an unchanged host. Consent to destroy data is never part of a
profile. `ssdbench.model.loading` reads a profile from text; `ssdbench.model.profile.spec` says how
to add a new kind of stage.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Self

from pydantic import ConfigDict, Field, model_validator

from ssdbench.model.base import Mistake, ProfileModel, refuse
from ssdbench.model.kind import KINDS
from ssdbench.model.profile.accept import Target
from ssdbench.model.profile.plan import CapacityPlan as CapacityPlan
from ssdbench.model.profile.plan import measured_for, targets_for
from ssdbench.model.profile.spec import (
    AccessOrder,
    FioJobs,
    Measure,
    Mix,
    Processes,
    Settle,
    SpanSweep,
    Sweep,
)
from ssdbench.model.quantity import (
    BytesPerS,
    Count,
    CpuNumber,
    Endurance,
    Iops,
    Jobs,
    Many,
    NumberAsText,
    Positive,
    QueueDepth,
    Repeats,
    Seconds,
    Share,
    SizeBytes,
)
from ssdbench.model.target import AskedLbaFormat
from ssdbench.model.workload import Content, is_map_unit
from ssdbench.units import KIB, MIB, format_rate, format_size

KEEP = "keep"
RANDOM_OVER_SEQUENTIAL = 1.25  # of bytes per second: data sheets round, and use several depths


class Purge(StrEnum):
    """How the drive is brought back to its fresh state before the run."""

    NONE = "none"
    DISCARD = "discard"
    FORMAT = "format"
    SANITIZE = "sanitize"
    ATA_ERASE = "ata_erase"


class RuleName(StrEnum):
    """Steady-state rules. `ssdbench.stats` knows which of the rules may validate a result."""

    PSS = "pss"
    PSS_PARANOID = "pss-paranoid"
    PSS_QUICK = "pss-quick"
    SNIA = "snia"
    SNIA_WSAT = "snia-wsat"
    SEPPANEN = "seppanen"
    HEGER = "heger"


class IrqAffinity(StrEnum):
    """Which CPUs handle the interrupts of the drive, relative to the CPUs that submit."""

    KEEP = "keep"
    LOCAL = "local"
    NEIGHBOUR = "neighbour"
    REMOTE = "remote"
    SPREAD = "spread"


class Switch(StrEnum):
    """On, off, or unchanged."""

    KEEP = "keep"
    ON = "on"
    OFF = "off"


class Idle(StrEnum):
    """How deep the CPUs may sleep."""

    KEEP = "keep"
    SHALLOW = "shallow"


class Detect(StrEnum):
    """Whether the block of the drive is found before the run, for a scheduler that needs it."""

    KEEP = "keep"
    DETECT = "detect"


# Schedulers that prefer requests in one block, by the names in a profile; the first is a module.
BLOCK_SCHEDULERS = {"ssdb_bpref": "bpref-cfq", "bpref-cfq": "bpref-cfq", "bpref-as": "bpref-as"}


class Applies(StrEnum):
    """The program that sends the requests of a run."""

    FIO = "fio"
    SLAM = "slam"


class Preset(StrEnum):
    """A named set of host settings. Single settings in the profile override the named set."""

    KEEP = "keep"
    ISOLATE = "isolate"


_SWITCH = r"^(keep|[01])$"
_THREE = r"^(keep|[012])$"
_COUNT = r"^(keep|[0-9]{1,9})$"
QueueSwitch = Annotated[str, NumberAsText, Field(pattern=_SWITCH)]
QueueLevel = Annotated[str, NumberAsText, Field(pattern=_THREE)]
QueueCount = Annotated[str, NumberAsText, Field(pattern=_COUNT)]
_NODES = r"[0-9]{1,4}(?:-[0-9]{1,4})?(?:,[0-9]{1,4}(?:-[0-9]{1,4})?)*"
_NODE_NAMES = rf"^(keep|drive|{_NODES})$"
_POLICY = rf"^(keep|local|prefer:(drive|[0-9]{{1,4}})|(bind|interleave):(drive|{_NODES}))$"
_MONITOR = r"^(keep|on|[0-9]{1,4}(,[0-9]{1,4}){3})$"
_FEATURE = r"^(keep|[0-9]{1,5})$"
NodeNames = Annotated[str, NumberAsText, Field(pattern=_NODE_NAMES)]
_MODULE = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"  # no path, and nothing that reads as an option
ModuleName = Annotated[str, Field(pattern=_MODULE)]
MemoryPolicy = Annotated[str, Field(pattern=_POLICY)]
MonitorThresholds = Annotated[str, NumberAsText, Field(pattern=_MONITOR)]
FeatureValue = Annotated[str, NumberAsText, Field(pattern=_FEATURE)]
SPELLED = {  # the patterns in words, for messages
    _NODE_NAMES: "keep, drive, or nodes such as 0 or 0-1,3",
    _POLICY: "keep, local, prefer:NODE, bind:NODES or interleave:NODES, with drive for the drive's "
    "own node",
    _MODULE: "the name of a kernel module, not a path or an option",
    _SWITCH: "keep, 0 or 1",
    _THREE: "keep, 0, 1 or 2",
    _COUNT: "keep or a whole number",
    _MONITOR: "keep, on, or four rising multiples of 5 up to 1280, such as 5,20,100,500",
    _FEATURE: "keep or a whole number of at most five digits",
}


QUEUE_SETTINGS = (
    "scheduler",
    "nr_requests",
    "nomerges",
    "rq_affinity",
    "wbt_lat_usec",
    "read_ahead_kb",
    "add_random",
    "io_poll",
)


class Host(ProfileModel):
    """Settings of the host during the run; `keep` leaves a setting as it is."""

    preset: Preset = Preset.KEEP
    """A named set of settings. isolate: fixed CPU frequency without turbo, no deep idle states,
    interrupts on CPUs near those that submit, and separate CPUs for fio and ssdbench."""
    scheduler: str = Field(default=KEEP, min_length=1)
    """I/O scheduler of the drive. `keep` leaves it as it is."""
    block: Detect = Detect.KEEP
    """detect: find the block or mapping unit first, and set it in the scheduler, which must be
    ssdb_bpref (for bpref-cfq), bpref-cfq or bpref-as. Without a sure answer nothing is set."""
    irq_affinity: IrqAffinity = IrqAffinity.KEEP
    """Which CPUs handle the drive's interrupts: local (those that submit), neighbour (share a cache
    with them), remote (share nothing with them) or spread (all). `keep` leaves them as they are."""
    governor: str = Field(default=KEEP, min_length=1)
    """CPU frequency governor. `keep` leaves it as it is."""
    turbo: Switch = Switch.KEEP
    """CPU turbo: on or off. `keep` leaves it as it is."""
    idle: Idle = Idle.KEEP
    """shallow: no deep CPU idle states during the run. `keep` leaves them as they are."""
    fio_cpus: Many[CpuNumber] = ()
    """CPUs that fio may use. Default: all."""
    own_cpus: Many[CpuNumber] = ()
    """CPUs that ssdbench itself may use. Default: all."""
    fio_nodes: NodeNames = KEEP
    """NUMA nodes whose CPUs fio may use, such as 0 or 0,1. `drive` is the node of the drive. `keep`
    sets nothing."""
    fio_memory: MemoryPolicy = KEEP
    """Where fio gets its memory: local, bind:NODES, interleave:NODES or prefer:NODE. The word
    `drive` in place of a number is the node of the drive. `keep` sets nothing."""
    own_nodes: NodeNames = KEEP
    """NUMA nodes whose CPUs ssdbench itself may use; values as for fio_nodes."""
    own_memory: MemoryPolicy = KEEP
    """Where ssdbench gets its memory; values as for fio_memory."""
    nr_requests: QueueCount = KEEP
    """How many requests the scheduler may hold at once. `keep` leaves the setting as it is."""
    nomerges: QueueLevel = KEEP
    """How requests are merged. 0: all merges; 1: only simple merges; 2: none. `keep` leaves the
    setting as it is."""
    rq_affinity: QueueLevel = KEEP
    """CPU that completes a request. 0: any CPU; 1: one near the submitting CPU; 2: the submitting
    CPU. `keep` leaves the setting as it is."""
    wbt_lat_usec: QueueCount = KEEP
    """Target latency of writeback throttling in us; 0 switches the throttling off. `keep` leaves
    the setting as it is."""
    read_ahead_kb: QueueCount = KEEP
    """Read-ahead in KiB. `keep` leaves it as it is."""
    add_random: QueueSwitch = KEEP
    """1: every request adds to the kernel's entropy; 0: no request does. `keep` leaves the setting
    as it is."""
    io_poll: QueueSwitch = KEEP
    """1: completions must be polled; 0: they must come by interrupt. `keep` leaves the setting as
    it is."""
    write_cache: Switch = Switch.KEEP
    """The drive's own write cache: on or off. `keep` leaves it as it is."""
    power_state: FeatureValue = KEEP
    """Power state of an NVMe drive, as a number; state 0 has the highest power. `keep` leaves it as
    it is."""
    irq_coalescing: FeatureValue = KEEP
    """Value of NVMe feature 08h: an interrupt waits for (value & 255) + 1 completions or for
    (value >> 8) x 100 us. 0: no waiting. `keep` leaves it as it is."""
    latency_monitor: MonitorThresholds = KEEP
    """Where the four buckets of the drive's own latency monitor (OCP) begin, in ms: rising
    multiples of 5. `on` means 5,20,100,500. `keep` leaves the monitor as it is."""
    kernel_modules: tuple[ModuleName, ...] = Field(default=(), examples=[["ssdb_bpref"]])
    """Kernel modules to load for the run: modules of ssdbench or of the kernel."""

    def mistakes(self) -> Iterator[Mistake]:
        if self.block is Detect.DETECT and self.scheduler not in BLOCK_SCHEDULERS:
            names = ", ".join(BLOCK_SCHEDULERS)
            yield ("block",), f"`block: detect` needs one of these as scheduler: {names}"

    def changes(self) -> dict[str, str]:
        """Return the host settings that the run changes, by name."""
        values = {**self.model_dump(mode="json", exclude={*QUEUE_SETTINGS}), **self.queue()}
        words = {
            name: ", ".join(map(str, value)) if isinstance(value, list) else value
            for name, value in values.items()
        }
        return {name: value for name, value in words.items() if value not in (KEEP, "")}

    def queue(self) -> dict[str, str]:
        """Return all settings of the drive's queue by name, including those on `keep`."""
        return {name: getattr(self, name) for name in QUEUE_SETTINGS}


class Fill(ProfileModel):
    """One step of preconditioning: write the whole drive once or several times."""

    pattern: AccessOrder = AccessOrder.SEQUENTIAL
    """Order in which the blocks are written."""
    block_bytes: SizeBytes = Field(default=128 * KIB, alias="block")
    """Size of one write."""
    fill: Count = 2
    """How many times this step writes the whole drive."""
    content: Content | None = None
    """Data of this fill. Default: `content` of the profile."""
    iodepth: QueueDepth = 32
    """Writes in flight."""


class SteadyWorkload(ProfileModel):
    """The writes with which the drive must become steady before anything is measured."""

    pattern: AccessOrder = AccessOrder.RANDOM
    """Order of the writes."""
    block_bytes: SizeBytes = Field(default=4 * KIB, alias="block")
    """Size of one request."""
    read_percent: Annotated[int, Field(strict=True, ge=0, le=99)] = Field(default=0, alias="read")
    """Share of reads in percent. 100 is not possible: only writes bring a drive to steady state."""
    iodepth: QueueDepth = 32
    """Requests in flight per job."""
    numjobs: Jobs = 1
    """Jobs at the same time."""


class Steady(ProfileModel):
    """The warm-up: when the drive counts as steady, and how long it may take."""

    rule: RuleName = RuleName.PSS
    """Steady-state rule. Only pss and pss-paranoid can validate a result."""
    workload: SteadyWorkload = SteadyWorkload()
    """The workload that runs until the rule is satisfied. Default: the heaviest writes of the
    profile, which are random writes with the block size nearest to 4 KiB, at the deepest queue (at
    least 32)."""
    max_fills: Positive = 6.0
    """End the warm-up after this many drive fills, and report that the drive was not steady."""
    max_time_s: Seconds | None = Field(default=None, examples=["12h"], alias="max_time")
    """End the warm-up after this time, and report that the drive was not steady. Without this key
    there is no limit of time."""


class Rated(ProfileModel):
    """Figures of the drive's data sheet.

    The figures narrow the plan's time and bytes, and are never a result. --rated on the command
    line overrides single figures.
    """

    model_config = ConfigDict(populate_by_name=True)

    random_write_iops: Iops | None = None
    """Random writes of 4 KiB per second, on a full drive in steady state."""
    random_read_iops: Iops | None = None
    """Random reads of 4 KiB per second."""
    sequential_write_bytes_per_s: BytesPerS | None = Field(default=None, alias="sequential_write")
    """Sequential writes, in decimal units: `3.5GB/s`."""
    endurance_bytes: Endurance | None = Field(default=None, alias="tbw")
    """Rated endurance (TBW) in decimal units: `7008TB`."""

    def over(self, others: "Rated") -> "Rated":
        """Return these figures; a figure that is not set is taken from `others`.

        Raises pydantic's ValidationError if the figures contradict each other.
        """
        own, kept = (one.model_dump(mode="json", exclude_none=True) for one in (self, others))
        return Rated.model_validate({**kept, **own})

    def mistakes(self) -> Iterator[Mistake]:
        """Yield a mistake if random writes would move more bytes than sequential writes."""
        iops, in_order = self.random_write_iops, self.sequential_write_bytes_per_s
        if iops and in_order and iops * 4 * KIB > RANDOM_OVER_SEQUENTIAL * in_order:
            yield (
                ("random_write_iops",),
                f"{iops:,.0f} writes of 4 KiB per second are {format_rate(iops * 4 * KIB)}, more "
                f"than the sequential {format_rate(in_order)}; check both figures",
            )


class Limits(ProfileModel):
    """Limits that end a run early, with a partial report.

    Options of the command line set the same limits of time and bytes.
    """

    max_time_s: Seconds | None = Field(default=None, examples=["12h"], alias="max_time")
    """End the run after this time, on the target's clock."""
    max_writes_bytes: SizeBytes | None = Field(default=None, examples=["20TiB"], alias="max_writes")
    """End the run when it has written this many bytes to the target."""


class Profile(ProfileModel):
    """A run as a user asks for it."""

    title: str = Field(default="", examples=["PM9A3, firmware GDC5602Q, as bought"])
    """One line for the head of the report."""
    target: str | None = Field(default=None, min_length=1, examples=["sim:p4500-4t"])
    """Device, file or sim:MODEL; --target on the command line overrides it."""
    generator: Applies = Applies.FIO
    """The program that sends the requests: fio, or slam. slam is the kernel module ssdb_slam; the
    host must have it loaded, and the target must be a block device."""
    host: Host = Host()
    power: str | None = Field(default=None, min_length=1, examples=["power.csv"])
    """CSV file of a power meter that runs during the run: each line has a time (seconds since 1970,
    or ISO 8601) and the watts of the drive. Without it, the power that an NVMe drive reports itself
    is used."""
    purge: Purge = Purge.NONE
    """How the drive is purged before the run."""
    lba_format: AskedLbaFormat = None
    """The LBA format that `purge: format` gives an NVMe drive, such as 4KiB, or {data: 512,
    metadata: 8, protection: 1}. Without it the format stays as it is."""
    precondition: tuple[Fill, ...] = Field(
        default=(
            Fill(),
            Fill(pattern=AccessOrder.RANDOM, block=4 * KIB, fill=1),
        ),
        max_length=100,
    )
    """Fills before the warm-up, in order."""
    fill_levels_percent: Many[Share] = Field(
        default=(100.0,), alias="fill_level", min_length=1, max_length=10
    )
    """Share of the drive that the run uses; the other part is never written. If it is below 100%,
    the drive has additional spare area, and the report says so. With a list, such as [20%, 60%,
    100%], the drive is purged, filled, warmed up and measured for each share, from the smallest to
    the largest."""
    content: Content = Content.RANDOM
    """Written data: random (incompressible), or zeros."""
    unit_bytes: SizeBytes | None = Field(default=None, examples=["16KiB"], alias="unit")
    """Mapping unit of the drive, if the drive does not report it. A random write that is smaller
    then counts as one whole unit when the run counts drive fills, but only if the rates of the
    drive prove the unit."""
    steady: Steady = Steady()
    repeats: Repeats = 10
    """Repeats per point; each pass has a new random order. Points that only read come after all
    passes of the others."""
    window_s: Seconds = Field(default=60.0, alias="window")
    """How long each repeat is measured, after it has settled."""
    settle: Settle = Settle()
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**63)] = 1
    """Seed of offsets, data and order; the report shows it."""
    measure: tuple[Measure, ...] = Field(
        default=(Measure(sweep=Sweep()), Measure(span=SpanSweep())), min_length=1, max_length=200
    )
    """What is measured, in order. Without this key: if `plan` gives a demand and `vms`, `read`,
    `block` or `p99`, what that plan needs; otherwise random writes of 4 KiB, and the same writes
    over growing parts of the drive."""
    limits: Limits = Limits()
    plan: CapacityPlan = CapacityPlan()
    rated: Rated = Rated()
    accept: tuple[Target, ...] = Field(default=(), max_length=200)
    """Targets for the drive. The outcome of each is pass, fail or cannot tell."""

    @property
    def fill_level_percent(self) -> float:
        """Return the largest share of the drive that the run fills."""
        return max(self.fill_levels_percent)

    def at_each_level(self) -> list[Self]:
        """Return this profile for each of its fill levels, from the lowest to the highest."""
        levels = sorted(self.fill_levels_percent)
        return [self.model_copy(update={"fill_levels_percent": (level,)}) for level in levels]

    @property
    def needs_fill(self) -> bool:
        """Tell whether any stage or `accept` target needs a filled drive."""
        return self._loaded or any(KINDS[m.stage.kind].needs_fill for m in self.measure)

    @property
    def needs_warm_up(self) -> bool:
        """Tell whether any stage or `accept` target needs the drive in steady state."""
        return self._loaded or any(KINDS[m.stage.kind].needs_warm_up for m in self.measure)

    @property
    def _loaded(self) -> bool:
        """Tell whether an `accept` target names a load; a stage then measures this load."""
        return any(target.at is not None for target in self.accept)

    @model_validator(mode="after")
    def _measures_what_is_asked(self) -> Self:
        """If the profile has no `measure`, measure what the question of the plan needs."""
        if self.plan.decides_measuring and "measure" not in self.model_fields_set:
            asked = self.plan.with_workload()
            object.__setattr__(self, "plan", asked)
            object.__setattr__(self, "measure", measured_for(asked))
            object.__setattr__(self, "accept", (*self.accept, *targets_for(asked)))
        return self

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        mistakes = [*self._oversized_fills(), *self._unwritten_reads(), *self._idle_fills()]
        mistakes += [*self._two_endurances(), *self._odd_unit(), *self._unlevelled()]
        if self.lba_format is not None and self.purge is not Purge.FORMAT:
            why = "only `purge: format` changes the LBA format; add it to the profile"
            mistakes.append((("lba_format",), why))
        refuse(mistakes)
        return self

    def _oversized_fills(self) -> Iterator[Mistake]:
        for index, step in enumerate(self.precondition):
            if step.block_bytes > 64 * MIB:
                size = format_size(step.block_bytes)
                yield ("precondition", index, "block"), f"a write of {size} is above 64 MiB"

    def _unlevelled(self) -> Iterator[Mistake]:
        """Yield mistakes for what cannot be measured at several fill levels."""
        if len(self.fill_levels_percent) < 2:
            return
        if self.purge is Purge.NONE:
            yield ("purge",), "several fill levels need a purge before each; set `purge: discard`"
        if not self.precondition:
            yield (
                ("precondition",),
                "several fill levels need a fill; add one, or leave the key out",
            )
        for index, measure in enumerate(self.measure):
            if not isinstance(measure.stage, Sweep | Processes | FioJobs | Mix):
                only = "several fill levels go only with `sweep`, `processes`, `fio` and `mix`"
                yield ("measure", index, measure.key), only
        for index, target in enumerate(self.accept):
            if target.at is not None:
                yield ("accept", index), "a load is not offered at several fill levels"

    def _two_endurances(self) -> Iterator[Mistake]:
        tbw, planned = self.rated.endurance_bytes, self.plan.endurance_tb
        if tbw and planned and abs(tbw / 1e12 - planned) > 1e-6 * planned:
            why = f"`plan` says {planned:g} TB (`endurance_tb`); give one of them"
            yield ("rated", "tbw"), why

    def _odd_unit(self) -> Iterator[Mistake]:
        if self.unit_bytes is not None and not is_map_unit(self.unit_bytes):
            size = format_size(self.unit_bytes)
            yield ("unit",), f"a mapping unit of {size} is no power of two from 4 KiB to 64 KiB"

    def _idle_fills(self) -> Iterator[Mistake]:
        """Yield a mistake for fills that no stage needs: standard tests fill the drive."""
        if not self.needs_fill and self.precondition and "precondition" in self.model_fields_set:
            yield ("precondition",), "standard tests fill the drive themselves; leave it out"

    def _unwritten_reads(self) -> Iterator[Mistake]:
        """Yield mistakes for reads without a fill: reads may only use data that this run wrote."""
        if self.precondition:
            return
        for index, measure in enumerate(self.measure):
            if measure.stage.reads:
                known = {one.alias for one in type(measure.stage).model_fields.values()}
                key = ("read",) if "read" in known else ()
                yield (
                    ("measure", index, measure.key, *key),
                    "reads need data that this run wrote; give `precondition` at least one step",
                )
