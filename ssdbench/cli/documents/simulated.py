"""Documents of `sim`."""

from typing import Literal

from ssdbench.cli.documents import Document, Part
from ssdbench.sim.library import ParamDesc
from ssdbench.sim.truth import DriveTruth, Load


class Model(Part):
    """An embedded model."""

    target: str
    name: str
    title: str
    capacity_bytes: int
    simulated_bytes: int
    figures: dict[str, float]
    simulated: dict[str, float]
    differences: tuple[str, ...]
    sources: tuple[str, ...]


class Models(Document):
    """All embedded models."""

    document: Literal["sim-models"] = "sim-models"
    schema_version: Literal[1] = 1
    models: tuple[Model, ...]


class Parameters(Document):
    """Everything that can be set of a simulated drive."""

    document: Literal["sim-parameters"] = "sim-parameters"
    schema_version: Literal[1] = 1
    parameters: tuple[ParamDesc, ...]


class SimulatedDrive(Document):
    """What a simulated drive is and where its clock stands."""

    path: str
    target: str
    model: str
    title: str
    simulated: bool
    seed: int
    capacity_bytes: int
    logical_block_bytes: int
    device_time_ns: int
    state_bytes: int
    notes: tuple[str, ...]


class Created(SimulatedDrive):
    """A drive that was made."""

    document: Literal["sim-create"] = "sim-create"
    schema_version: Literal[1] = 1


class Inspected(SimulatedDrive):
    """A drive, what it has done, and whether its maps agree."""

    document: Literal["sim-inspect"] = "sim-inspect"
    schema_version: Literal[1] = 1
    sound: bool
    counters: dict[str, int]


class Snapshot(Document):
    """A drive that was copied."""

    document: Literal["sim-snapshot"] = "sim-snapshot"
    schema_version: Literal[1] = 1
    state: str
    snapshot: str


class BroughtBack(Document):
    """A drive that is again what its copy was."""

    document: Literal["sim-restore"] = "sim-restore"
    schema_version: Literal[1] = 1
    state: str
    source: str


class Served(Document):
    """Where a drive is served, as soon as it is; the command goes on."""

    document: Literal["sim-serve"] = "sim-serve"
    schema_version: Literal[1] = 1
    uri: str
    state: str
    simulated: bool


class TrueValues(Document):
    """What is true of a drive under a load."""

    document: Literal["sim-truth"] = "sim-truth"
    schema_version: Literal[1] = 1
    target: str
    drive: DriveTruth
    load: Load
    method: str
    write_amplification: float | None
    iops: float
    bytes_per_s: float
    limits_iops: dict[str, float]  # null: it does not limit
    limited_by: str
    notes: tuple[str, ...]
    from_fills: float | None
    to_fills: float | None
    simulated: bool
    seed: int
    spec_notes: tuple[str, ...]
