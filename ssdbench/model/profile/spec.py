"""Gather what a profile may ask for under `measure`. Each family of stages has its own module.

A new kind of stage is a model in one of these modules and a field of `Measure`; the loader, the
JSON Schema and the completion of editors follow from that.
"""

from math import prod
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from ssdbench.model.base import ProfileModel, refuse
from ssdbench.model.profile.inside import BlockSize, ProbeName, Probes
from ssdbench.model.profile.rates import Load, Offered, OfferedLoad, RateSweep
from ssdbench.model.profile.repeated import Extendable, ExtraRepeats, Repeated, Settle
from ssdbench.model.profile.replay import Replay
from ssdbench.model.profile.standard import Pts, PtsForm, PtsTest
from ssdbench.model.profile.streams import (
    FioJobs,
    JobBody,
    JobFile,
    Locality,
    Mix,
    MixStream,
    Priority,
)
from ssdbench.model.profile.sweeps import AccessOrder, Processes, Rest, SpanSweep, Sweep
from ssdbench.model.profile.trials import (
    Applications,
    CpuCost,
    Depth,
    Engines,
    FileMix,
    FileSystemName,
    FileSystems,
    FileWriters,
    HostTrial,
    Interrupts,
    LatencyPath,
    OnDrive,
    OnFiles,
    ProgramName,
    QueueSettings,
    Schedulers,
    Surface,
)

MeasuredStage = (
    Sweep
    | SpanSweep
    | BlockSize
    | Schedulers
    | QueueSettings
    | Depth
    | Interrupts
    | Engines
    | FileWriters
    | FileMix
    | LatencyPath
    | CpuCost
    | FileSystems
    | Applications
    | Surface
    | Pts
    | RateSweep
    | Load
    | Replay
    | Probes
    | Processes
    | FioJobs
    | Mix
)


MOST_POINTS = 10_000  # of one stage: more would take months


def _empty(body: object) -> object:
    """Accept `- sweep:` with nothing below it as the defaults."""
    return {} if body is None else body


_Body = BeforeValidator(_empty)


class Measure(ProfileModel):
    """One stage of measuring: exactly one of the keys below."""

    model_config = {"json_schema_extra": {"minProperties": 1, "maxProperties": 1}}

    sweep: Annotated[Sweep | None, _Body] = None
    """Points over block size, read share, depth and jobs."""
    span: Annotated[SpanSweep | None, _Body] = None
    """One workload over growing parts of the drive."""
    blocksize: Annotated[BlockSize | None, _Body] = None
    """Block size and write buffer, from strided writes."""
    rate: Annotated[RateSweep | None, _Body] = None
    """Highest offered rate that keeps a limit of latency."""
    load: Annotated[Load | None, _Body] = None
    """Latencies at one offered load."""
    replay: Annotated[Replay | None, _Body] = None
    """A trace, sent again at the times of the trace."""
    processes: Annotated[Processes | None, _Body] = None
    """Several writers at the same time, and writers that pause."""
    fio: Annotated[FioJobs | None, JobBody] = None
    """Your own fio job file, or its text."""
    mix: Annotated[Mix | None, _Body] = None
    """Several streams of requests at the same time."""
    pts: Annotated[Pts | None, _Body] = None
    """Standard tests in the style of SNIA's PTS."""

    probe: Annotated[Probes | None, _Body] = None
    """The drive's inner structure: units, buffers, spare area."""
    schedulers: Annotated[Schedulers | None, _Body] = None
    """I/O schedulers compared over several workloads."""
    queue: Annotated[QueueSettings | None, _Body] = None
    """Settings of the drive's queue compared."""
    engines: Annotated[Engines | None, _Body] = None
    """I/O engines and the page cache compared."""
    depth: Annotated[Depth | None, _Body] = None
    """Queue depths, merging and occupancy of the queue."""
    interrupts: Annotated[Interrupts | None, _Body] = None
    """Interrupts on the submitting CPU, near it, far from it and spread; coalescing."""
    latency_path: Annotated[LatencyPath | None, _Body] = None
    """Time of a request in queue, scheduler, driver and device."""
    cpu_cost: Annotated[CpuCost | None, _Body] = None
    """CPU time and energy per I/O at several CPU frequencies."""
    surface: Annotated[Surface | None, _Body] = None
    """Throughput over file size and record size."""
    filesystems: Annotated[FileSystems | None, _Body] = None
    """File systems by threads, fresh and aged."""
    file_writers: Annotated[FileWriters | None, _Body] = None
    """Several writers with one file each, with and without pauses."""
    file_mix: Annotated[FileMix | None, _Body] = None
    """Threads that read and write one file at random."""
    applications: Annotated[Applications | None, _Body] = None
    """Postmark, dbench and sysbench on a file system."""

    @model_validator(mode="after")
    def _one_key(self) -> Self:
        kinds = [name for name in type(self).model_fields if name in self.model_fields_set]
        if not kinds:
            known = ", ".join(type(self).model_fields)
            refuse([((), f"a stage needs one of the keys {known}")])
        refuse(
            [
                ((extra,), f"'{extra}' is a second stage; start a new list item with a dash")
                for extra in kinds[1:]
            ]
        )
        return self

    @model_validator(mode="after")
    def _countable(self) -> Self:
        lists = [value for _, value in self.stage if isinstance(value, tuple)]
        if (points := prod(len(values) for values in lists)) > MOST_POINTS:
            why = f"the lists have {points:,} combinations; at most {MOST_POINTS:,} are allowed"
            refuse([((self.key,), why)])
        return self

    @property
    def key(self) -> str:
        """Return the key in the profile: sweep, span, blocksize."""
        return next(name for name in type(self).model_fields if name in self.model_fields_set)

    @property
    def stage(self) -> MeasuredStage:
        """Return the stage below the key."""
        found: MeasuredStage = getattr(self, self.key)
        return found
