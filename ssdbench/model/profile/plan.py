"""Define `plan`, the demand that drives must carry, and derive from it what a run measures.

A plan is a capacity planner's question, for example: how many drives carry 3,000 VMs of 40 IOPS
each, with a p99 of reads of at most 10 ms? A profile without `measure` measures exactly what the
question of its plan needs.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Self

from pydantic import Field, WithJsonSchema, model_validator

from ssdbench.model.base import Mistake, ProfileModel, refuse
from ssdbench.model.profile.accept import WHOLE_PERCENT, Target
from ssdbench.model.profile.spec import (
    AccessOrder,
    FioJobs,
    Load,
    Measure,
    MeasuredStage,
    Mix,
    Offered,
    RateSweep,
    SpanSweep,
    Sweep,
)
from ssdbench.model.quantity import (
    DURATION_SCHEMA,
    WHOLE,
    Count,
    Percent,
    Positive,
    ReadPercent,
    RequestCount,
    Seconds,
    Share,
    SizeBytes,
    parse_seconds,
)
from ssdbench.model.workload import Direction
from ssdbench.units import KIB, NS_PER_S, format_count, format_ns, format_size

DEPTHS = (8, 32)  # requests in flight at which a question's workload is measured
DEEPEST = 1024  # requests in flight of the point that `outstanding` asks for
USUAL_BLOCK_BYTES = 4 * KIB
MOST_IOPS = 1e15
DIRECTIONS: tuple[Direction, ...] = ("read", "write")
_OF_DIRECTIONS = {
    "type": "object",
    "properties": {direction: DURATION_SCHEMA for direction in DIRECTIONS},
    "additionalProperties": False,
    "minProperties": 1,
}
_P99_SCHEMA = WithJsonSchema({"anyOf": [DURATION_SCHEMA, _OF_DIRECTIONS, {"type": "null"}]})
Drives = Annotated[int, Field(strict=True, ge=0, le=1_000_000)]


class CapacityPlan(ProfileModel):
    """The demand for which drives are planned. Every key is optional."""

    demand_iops: Positive | None = Field(default=None, examples=[40_000])
    """Rate that the drives must carry together, in IOPS; or give `vms` and `iops_each`."""
    vms: Count | None = Field(default=None, examples=[3_000])
    """Number of virtual machines, or of other equal clients. With `iops_each` they are the
    demand."""
    iops_each: Positive | None = Field(default=None, examples=[40])
    """Rate of one virtual machine, in IOPS, as a mean over a long time."""
    peak: Annotated[Positive, Field(ge=1)] = 1.0
    """Factor of bursts: in the highest burst, all clients together need this many times the
    demand."""
    growth_percent: Percent = Field(default=0.0, alias="growth")
    """Growth of the demand in each year."""
    years: Annotated[Positive, Field(le=100)] = 1.0
    """Years of growth to plan for; the plan is for the demand at the end of these years."""
    p99_s: Annotated[Seconds | None, _P99_SCHEMA] = Field(
        default=None, examples=["10ms", {"read": "10ms"}], alias="p99"
    )
    """Highest allowed 99th percentile of latency, for reads and writes, such as 10ms, or for one of
    them: {read: 10ms}, {write: 5ms}."""
    p99_read_s: Seconds | None = Field(default=None, examples=["10ms"], alias="p99_read")
    """Highest allowed 99th percentile of latency of reads; the same as p99: {read: 10ms}."""
    p99_write_s: Seconds | None = Field(default=None, examples=["5ms"], alias="p99_write")
    """Highest allowed 99th percentile of latency of writes; the same as p99: {write: 5ms}."""
    outstanding: RequestCount | None = Field(default=None, examples=[8])
    """Requests that the application keeps in flight on each drive. The plan uses the deepest
    measured queue that these requests fill. Without this key and p99 it uses the lowest bound of
    all depths."""
    utilisation_percent: Share = Field(default=70.0, alias="utilisation")
    """Share of a drive's lower bound that the plan may use."""
    failure_reserve: Drives = 1
    """Number of drives that may fail while the others still carry the demand."""
    spares: Drives | None = Field(default=None, examples=[2])
    """Another name for `failure_reserve`."""
    rebuild_iops: Positive | None = Field(default=None, examples=[5_000])
    """Additional load while a failed drive is rebuilt, in IOPS; the remaining drives must carry it
    together with the demand."""
    capacity_tb: Positive | None = Field(default=None, examples=[100], alias="capacity")
    """Data that the drives must hold together, in TB (10^12 bytes), even after as many drives have
    failed as `failure_reserve` allows."""
    rebuild_time_s: Seconds | None = Field(default=None, examples=["12h"], alias="rebuild_time")
    """Time until a failed drive is replaced and rebuilt."""
    failure_rate_percent: Share | None = Field(default=None, examples=["1%"], alias="failure_rate")
    """Share of drives that fail within a year (AFR)."""
    power_w: Positive | None = Field(default=None, examples=[12])
    """Power that one drive needs under load, in W."""
    price: Positive | None = Field(default=None, examples=[450])
    """Price of one drive."""
    endurance_tb: Positive | None = Field(default=None, examples=[7_000])
    """Rated endurance of one drive in TB written (10^12 bytes)."""
    warranty_years: Positive = 5.0
    """Years in which the maker allows the rated endurance to be written (the warranty)."""
    max_wear_percent: Share | None = Field(default=None, examples=["1%"], alias="max_wear")
    """Share of the rated endurance that the run may use. The run is shortened to this share, and
    ends before it writes more; --max-wear on the command line overrides it."""
    waf_rating: Positive | None = Field(default=None, examples=[2.5])
    """Write amplification of the workload for which the endurance is rated."""
    waf: Positive | None = Field(default=None, examples=[3.2])
    """Write amplification of the planned workload, if known."""
    block_bytes: SizeBytes | None = Field(default=None, alias="block")
    """The plan uses the points of this block size. Without this key, it uses all points."""
    read_percent: ReadPercent | None = Field(default=None, examples=[70], alias="read")
    """The plan uses the points of this read share. Without this key, it uses all points."""

    @model_validator(mode="before")
    @classmethod
    def _limits_by_direction(cls, given: Any) -> Any:
        """Read `p99: {read: 10ms, write: 5ms}` as the two keys `p99_read` and `p99_write`."""
        if not isinstance(given, Mapping) or not isinstance(given.get("p99"), Mapping):
            return given
        limits = given["p99"]
        refuse([(("p99", *path), why) for path, why in _misstated(limits, given)])
        own = {f"p99_{direction}": limit for direction, limit in limits.items()}
        return {key: value for key, value in given.items() if key != "p99"} | own

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        return self._completed()

    def with_given(self, given: Mapping[str, Any]) -> Self:
        """Return the plan with other values for the fields that are named in `given`.

        A given demand or p99 limit replaces a demand or p99 limit that the plan states with other
        keys. Raises ValueError for values that contradict each other.
        """
        update = dict(given)
        if "demand_iops" in given:
            update = {"vms": None, "iops_each": None, **update}
        elif {"vms", "iops_each"} & given.keys():
            update["demand_iops"] = None
        if "failure_reserve" in given:
            update.setdefault("spares", None)
        elif "spares" in given:
            update["failure_reserve"] = given["spares"]
        limits = {f"p99_{way}_s": limit_s for way, limit_s in self.limits_s.items()}
        if "p99_s" in given:
            update = {"p99_read_s": None, "p99_write_s": None, **update}
        elif {"p99_read_s", "p99_write_s"} & given.keys():
            # The new question may have no requests of one direction; its limit does not remain.
            gone = {0: "p99_read_s", WHOLE_PERCENT: "p99_write_s"}.get(
                given.get("read_percent", -1)
            )
            kept = {name: limit_s for name, limit_s in limits.items() if name != gone}
            update = {"p99_s": None, **({gone: None} if gone else {}), **kept, **update}
        changed = self.model_copy(update=update)
        for path, why in changed.mistakes():
            raise ValueError(f"{path[0]}: {why}")
        return changed._completed()

    def _completed(self) -> Self:
        """Compute the total demand and the reserve of drives from the keys that the user gave."""
        if self.vms is not None and self.iops_each is not None:
            object.__setattr__(self, "demand_iops", self.vms * self.iops_each)
        if self.spares is not None:
            object.__setattr__(self, "failure_reserve", self.spares)
        return self

    def mistakes(self) -> Iterator[Mistake]:
        yield from self._two_demands()
        if self.spares not in (None, self.failure_reserve) and (
            "failure_reserve" in self.model_fields_set
        ):
            yield ("spares",), "`failure_reserve` means the same; leave out one of them"
        for direction, without in zip(DIRECTIONS, (0, WHOLE_PERCENT), strict=True):
            if getattr(self, f"p99_{direction}_s") is None:
                continue
            if self.read_percent is None and direction == "read":  # without it, only writes
                yield ("p99",), f"a limit for {direction}s needs `read`, the share of reads"
            elif self.read_percent == without:
                other = "write" if direction == "read" else "read"
                none = f"a workload with {without} % reads has no {direction}s"
                yield ("p99",), f"{none}; give a limit for {other}s instead"

    def _two_demands(self) -> Iterator[Mistake]:
        total = (self.vms or 0) * (self.iops_each or 0.0)
        if self.vms is not None and self.iops_each is None:
            yield ("vms",), "add `iops_each`, the IOPS of one of them"
        elif self.iops_each is not None and self.vms is None:
            yield ("iops_each",), "add `vms`, the number of virtual machines"
        elif self.vms is not None and self.demand_iops not in (None, total):
            yield ("vms",), "`demand_iops` gives the demand, too; leave out one of them"
        try:
            load = max(total, self.demand_iops or 0.0) * self.peak * self.growth_factor
        except OverflowError:
            load = float("inf")
        if load > MOST_IOPS:
            yield ("growth",), "no drives carry this demand: check `peak`, `growth` and `years`"

    @property
    def growth_factor(self) -> float:
        """Return the demand after the years of growth, as a multiple of today's demand."""
        return float((1 + self.growth_percent / 100) ** self.years)

    @property
    def load_iops(self) -> float | None:
        """Return the rate that the drives must carry: the demand with bursts and growth."""
        if self.demand_iops is None:
            return None
        return self.demand_iops * self.peak * self.growth_factor

    @property
    def limits_s(self) -> dict[Direction, float]:
        """Return the p99 limit of each direction (read, write) that has a limit."""
        own: dict[Direction, float | None] = {"read": self.p99_read_s, "write": self.p99_write_s}
        given = {way: [one for one in (self.p99_s, limit) if one] for way, limit in own.items()}
        return {way: min(limits) for way, limits in given.items() if limits}

    @property
    def decides_measuring(self) -> bool:
        """Tell whether this plan decides what a profile without `measure` measures."""
        named = self.vms, self.read_percent, self.block_bytes, *self.limits_s
        return self.demand_iops is not None and any(one is not None for one in named)

    def with_workload(self) -> Self:
        """Return the plan with a workload; a plan without a workload gets writes of 4 KiB."""
        meant = _workload(self)
        return self.model_copy(
            update={"block_bytes": meant["block"], "read_percent": meant["read"]}
        )

    def asked(self) -> str:
        """Return the question in words, including every default value that it uses."""
        total = f"{format_count(self.demand_iops or 0.0)} IOPS"
        if self.vms is not None:
            total = f"{self.vms:,} VMs x {format_count(self.iops_each or 0.0)} IOPS = {total}"
        limits = [f"p99 of {way}s at most {format_ns(s * 1e9)}" for way, s in self.limits_s.items()]
        if self.limits_s and self.p99_s and {*self.limits_s.values()} == {self.p99_s}:
            limits = [f"p99 at most {format_ns(self.p99_s * 1e9)}"]
        size = "any measured block size" if self.block_bytes is None else _size(self.block_bytes)
        fewest = "the smallest measured share of reads"
        reads = fewest if self.read_percent is None else f"{self.read_percent} % reads"
        years = "a year" if self.years == 1 else f"a year for {self.years:g} years"
        grown = f"growth {self.growth_percent:g} % {years}"
        return ", ".join(
            [
                f"{total} of {size} with {reads}",
                *limits,
                f"peak x {self.peak:g}",
                grown if self.growth_percent else "no growth",
                f"spares {self.failure_reserve}",
                f"utilisation {self.utilisation_percent:g} %",
            ]
        )


def _misstated(limits: Mapping[Any, Any], given: Mapping[str, Any]) -> Iterator[Mistake]:
    """List the mistakes in `p99: {…}`."""
    if not limits:
        yield (), "give a limit, such as {read: 10ms}"
    for direction, limit in limits.items():
        if direction not in DIRECTIONS:
            yield (direction,), f"a limit of p99 is for {' or '.join(DIRECTIONS)}"
            continue
        if f"p99_{direction}" in given:
            yield (direction,), f"`p99_{direction}` means the same; leave out one of them"
        try:
            parse_seconds(limit)
        except ValueError as error:
            yield (direction,), str(error)


def measured_for(plan: CapacityPlan) -> tuple[Measure, ...]:
    """Return the stages that answer the question of a plan: points of the plan's workload.

    With a p99 limit the points have two queue depths, because the plan uses the deepest queue that
    keeps the limit; with `outstanding`, the points have that depth. `targets_for` adds the
    measurement of p99 at the load of one drive.
    """
    depths = DEPTHS if plan.limits_s else DEPTHS[-1:]
    if plan.outstanding is not None:
        depths = (min(plan.outstanding, DEEPEST),)
    sweep = Sweep.model_validate({**_workload(plan), "iodepth": list(depths)})
    return (Measure(sweep=sweep),)


def search_limits(plan: CapacityPlan) -> dict[Direction | None, float]:
    """Return the p99 limits to search for, by direction.

    With the key None, the slower of both directions must keep the limit.
    """
    limits = plan.limits_s
    read_percent = _workload(plan)["read"]
    if read_percent in (0, WHOLE_PERCENT):
        own: Direction = "write" if read_percent == 0 else "read"
        return {None: limits[own]} if own in limits else {}
    if len(limits) > 1 and len({*limits.values()}) == 1:
        return {None: limits["read"]}
    return {way: limit_s for way, limit_s in limits.items()}


def targets_for(plan: CapacityPlan) -> tuple[Target, ...]:
    """Return the `accept` target of a plan: its p99 limits at the planned load of one drive."""
    latency = {
        f"{way} p99" if way else "p99": f"{limit_s * NS_PER_S:.0f}ns"
        for way, limit_s in search_limits(plan).items()
    }
    if not latency:
        return ()
    of = {**_workload(plan), "pattern": "random"}
    target = {"name": "the question", "of": of, "at": {"planned": True}, "latency": latency}
    return (Target.model_validate(target),)


def unanswered(plan: CapacityPlan, stages: Sequence[MeasuredStage]) -> tuple[str, ...]:
    """Return sentences on what stages lack to answer a plan's question; () if they lack nothing.

    `stages` must include the load stages that ssdbench adds for `accept` targets.
    """
    if plan.demand_iops is None:
        return ()
    points = [stage for stage in stages if _has_points(stage, plan)]
    lacks = [] if points else [no_point(plan)]
    planned = any(isinstance(s, Load) and s.planned and _offers(s, plan) for s in stages)
    for way, limit_s in search_limits(plan).items():
        if not planned and not any(_searches(stage, plan, way, limit_s) for stage in stages):
            limit = f"p99 of {way or 'request'}s at most {format_ns(limit_s * NS_PER_S)}"
            lacks.append(
                f"nothing measures {limit} under an offered load: add "
                f"`- load: {{{_keys(plan)}, planned: true}}`"
            )
    return tuple(dict.fromkeys(lacks))


def no_point(plan: CapacityPlan) -> str:
    """Say in a sentence that no point measures the plan's workload, and which stage would."""
    size = "any block size" if plan.block_bytes is None else _size(plan.block_bytes)
    reads = "any share of reads" if plan.read_percent is None else f"{plan.read_percent} % reads"
    return (
        f"no point measures {size} with {reads} at random over the whole drive, and ssdbench does "
        f"not compute it from other sizes or mixes: add `{sweep_for(plan)}`"
    )


def sweep_for(plan: CapacityPlan) -> str:
    """Return the stage that measures the workload of a plan, as a line of a profile."""
    depth = f", iodepth: {min(plan.outstanding, DEEPEST)}" if plan.outstanding else ""
    return f"- sweep: {{{_keys(plan)}{depth}}}"


def _has_points(stage: MeasuredStage, plan: CapacityPlan) -> bool:
    """Tell whether a stage measures the plan's workload, at random over the whole drive."""
    kind = plan.block_bytes is None and plan.read_percent is None
    if isinstance(stage, FioJobs | Mix):
        return kind
    if isinstance(stage, Sweep):
        blocks, reads, depths = stage.block_bytes, stage.read_percent, stage.iodepth
        whole = stage.span == WHOLE and AccessOrder.RANDOM in stage.pattern
        jobs = min(stage.numjobs)
    elif isinstance(stage, SpanSweep):
        blocks, reads, depths = (stage.block_bytes,), (stage.read_percent,), (stage.iodepth,)
        whole = WHOLE in stage.spans and stage.pattern is AccessOrder.RANDOM
        jobs = stage.numjobs
    else:
        return False
    deepest = plan.outstanding or math.inf
    return (
        whole
        and plan.block_bytes in (None, *blocks)
        and plan.read_percent in (None, *reads)
        and min(depths) * jobs <= deepest
    )


def _offers(stage: Offered, plan: CapacityPlan) -> bool:
    """Tell whether a stage offers random requests with the plan's block size and read share."""
    return (
        stage.pattern is AccessOrder.RANDOM
        and plan.block_bytes in (None, stage.block_bytes)
        and plan.read_percent in (None, stage.read_percent)
    )


def _searches(stage: MeasuredStage, plan: CapacityPlan, way: str | None, limit_s: float) -> bool:
    """Tell whether a stage searches for the highest rate that keeps this p99 limit."""
    return (
        isinstance(stage, RateSweep)
        and stage.percentile == "p99"
        and _offers(stage, plan)
        and stage.direction in (None, way)
        and (stage.limit_s is None or stage.limit_s <= limit_s * (1 + 1e-9))
    )


def _keys(plan: CapacityPlan) -> str:
    workload = _workload(plan)
    return f"block: {_size(workload['block']).replace(' ', '')}, read: {workload['read']}"


def _size(size_bytes: int) -> str:
    """Format a block size with all its bytes, such as `4 KiB`, `4000 B`."""
    return format_size(size_bytes) if size_bytes % (KIB // 2) == 0 else f"{size_bytes} B"


def _workload(plan: CapacityPlan) -> dict[str, Any]:
    block = USUAL_BLOCK_BYTES if plan.block_bytes is None else plan.block_bytes
    return {"block": block, "read": plan.read_percent or 0}
