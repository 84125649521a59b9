"""List the stages that a profile may have under `measure`, one module for each family.

A new kind of stage is a model in one of the modules listed here and a field of `Measure`; the
loader, the JSON Schema and the completion of editors use these automatically.
"""

from collections.abc import Iterator
from math import prod
from typing import Annotated

from pydantic import BeforeValidator, Field

from ssdbench.model.base import Mistake, ProfileModel
from ssdbench.model.profile.inside import BlockSize, ProbeName, Probes
from ssdbench.model.profile.rates import Load, Offered, OfferedLoad, RateSweep
from ssdbench.model.profile.replay import Replay
from ssdbench.model.profile.standard import Pts, PtsForm, PtsTest
from ssdbench.model.profile.streams import (
    FioJobs,
    Interference,
    JobBody,
    JobFile,
    Locality,
    Mix,
    MixStream,
    Priority,
)
from ssdbench.model.profile.sweeps import (
    AccessOrder,
    Extendable,
    ExtraRepeats,
    Processes,
    Repeated,
    Rest,
    Settle,
    SpanSweep,
    Sweep,
)
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
    | Interference
)


MOST_POINTS = 10_000  # of one stage: more would take months


def _empty(body: object) -> object:
    """Read a key without a value, such as `- sweep:`, as a stage with default values."""
    return {} if body is None else body


_Body = BeforeValidator(_empty)


class Measure(ProfileModel):
    """One stage of measuring: exactly one of the keys below. The model of a key describes it."""

    model_config = {"json_schema_extra": {"minProperties": 1, "maxProperties": 1}}

    sweep: Annotated[Sweep | None, _Body] = None
    span: Annotated[SpanSweep | None, _Body] = None
    blocksize: Annotated[BlockSize | None, _Body] = None
    rate: Annotated[RateSweep | None, _Body] = None
    load: Annotated[Load | None, _Body] = None
    replay: Annotated[Replay | None, _Body] = None
    processes: Annotated[Processes | None, _Body] = None
    fio: Annotated[FioJobs | None, JobBody] = None
    mix: Annotated[Mix | None, _Body] = None
    interference: Annotated[Interference | None, _Body] = None
    pts: Annotated[Pts | None, _Body] = None
    probe: Annotated[Probes | None, _Body] = None
    schedulers: Annotated[Schedulers | None, _Body] = None
    queue: Annotated[QueueSettings | None, _Body] = None
    engines: Annotated[Engines | None, _Body] = None
    depth: Annotated[Depth | None, _Body] = None
    interrupts: Annotated[Interrupts | None, _Body] = None
    latency_path: Annotated[LatencyPath | None, _Body] = None
    cpu_cost: Annotated[CpuCost | None, _Body] = None
    surface: Annotated[Surface | None, _Body] = None
    filesystems: Annotated[FileSystems | None, _Body] = None
    file_writers: Annotated[FileWriters | None, _Body] = None
    file_mix: Annotated[FileMix | None, _Body] = None
    applications: Annotated[Applications | None, _Body] = None

    def mistakes(self) -> Iterator[Mistake]:
        kinds = [name for name in type(self).model_fields if name in self.model_fields_set]
        if not kinds:
            yield (), f"a stage needs one of the keys {', '.join(type(self).model_fields)}"
            return
        for extra in kinds[1:]:
            yield (extra,), f"'{extra}' is a second stage; start a new list item with a dash"
        lists = [value for _, value in self.stage if isinstance(value, tuple)]
        points = prod(len(values) for values in lists)
        if len(kinds) == 1 and points > MOST_POINTS:
            why = f"the lists have {points:,} combinations; at most {MOST_POINTS:,} are allowed"
            yield (self.key,), why

    @property
    def key(self) -> str:
        """Return the key of this stage in the profile, such as `sweep` or `span`."""
        return next(name for name in type(self).model_fields if name in self.model_fields_set)

    @property
    def stage(self) -> MeasuredStage:
        """Return the stage that stands below the key."""
        found: MeasuredStage = getattr(self, self.key)
        return found
