"""Define the documents of the `sim` commands."""

from typing import Literal

from ssdbench.cli.documents import Document, ModelPart, Part
from ssdbench.sim.library import ParamDesc
from ssdbench.sim.truth import DriveTruth, Load


class Model(ModelPart):
    """An embedded model."""

    name: str
    figures: dict[str, float]


class Models(Document):
    """All embedded models."""

    document: Literal["sim-models"] = "sim-models"
    models: tuple[Model, ...]


class Parameters(Document):
    """All parameters of a simulated drive."""

    document: Literal["sim-parameters"] = "sim-parameters"
    parameters: tuple[ParamDesc, ...]


class SimulatedDrive(Document):
    """The description of a simulated drive, and the time of its clock."""

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
    """A simulated drive that was created."""

    document: Literal["sim-create"] = "sim-create"


class Inspected(SimulatedDrive):
    """The state of a simulated drive: its counters, and whether its maps agree with each other."""

    document: Literal["sim-inspect"] = "sim-inspect"
    sound: bool
    counters: dict[str, int]


class Snapshot(Document):
    """A simulated drive that was copied, and the copy."""

    document: Literal["sim-snapshot"] = "sim-snapshot"
    state: str
    snapshot: str


class BroughtBack(Document):
    """A simulated drive that was restored from a copy."""

    document: Literal["sim-restore"] = "sim-restore"
    state: str
    source: str


class Served(Document):
    """The address where a drive is served; printed when the server starts."""

    document: Literal["sim-serve"] = "sim-serve"
    uri: str
    state: str
    simulated: bool


class Attached(Document):
    """A simulated drive that was attached as a block device; state is null for a temporary one."""

    document: Literal["sim-attach"] = "sim-attach"
    device: str
    state: str | None
    simulated: bool


class Detached(Document):
    """A block device that was removed, and how late its requests were answered, if counted."""

    document: Literal["sim-detach"] = "sim-detach"
    device: str
    answered: int
    late_median_ns: int | None = None
    late_p99_ns: int | None = None
    late_most_ns: int | None = None


class TrueValues(Document):
    """The true values of a simulated drive under a load."""

    document: Literal["sim-truth"] = "sim-truth"
    target: str
    drive: DriveTruth
    load: Load
    method: str
    write_amplification: float | None
    iops: float
    bytes_per_s: float
    limits_iops: dict[str, float]  # by resource; null when the resource does not limit
    limited_by: str
    notes: tuple[str, ...]
    from_fills: float | None
    to_fills: float | None
    simulated: bool
    seed: int
    spec_notes: tuple[str, ...]


class Fitted(Document):
    """A model fitted to series of a real drive.

    Each range covers several fits: the fit to all workloads, and for each workload the fit to all
    others.
    """

    document: Literal["sim-fit"] = "sim-fit"
    model: str
    runs: int
    physical_bytes: float
    physical_bytes_range: tuple[float, float]
    gc_policy: str
    gc_policies: tuple[str, ...]
    gc_streams: int  # of collected data
    gc_streams_range: tuple[int, int]
    superblock_bytes: float | None  # null: no run rewrites zones
    flash_bytes_per_s: float
    flash_bytes_per_s_range: tuple[float, float]
    copy_cost: float
    most_bytes_per_s: dict[int, float]  # by block size
    loss: float  # mean |log ratio| of measured and fitted rate over all fills
    error_without: dict[str, float]  # by workload: log of real / predicted by the fit without it


class PredictedPoint(Part):
    """One workload: its predicted rate in steady state with the 90 % interval, or why none."""

    point: str
    workload: str
    bytes_per_s: float  # null: not predicted, as `reason` says
    low_bytes_per_s: float
    high_bytes_per_s: float
    iops: float
    measured_bytes_per_s: float  # null for another profile's workload
    reason: str


class Predictions(Document):
    """What a simulated drive, fitted to one run, predicts for another profile; not measured."""

    document: Literal["sim-predict"] = "sim-predict"
    label: Literal["PREDICTION"] = "PREDICTION"
    run: str
    profile: str
    drive: str
    simulated: bool  # whether the run was on a simulated drive
    warm_up: str
    warm_up_fills: float
    fitted: str
    errors_on_real_drives: str
    points: tuple[PredictedPoint, ...]
    held_out: tuple[PredictedPoint, ...]  # the run's own points, which the fit did not see
