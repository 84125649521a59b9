"""Documents of commands about this host, its drives and a fleet, and the one of an error."""

from typing import Literal

from ssdbench.cli.documents import Document, Part
from ssdbench.model.target import TargetInfo


class Device(Part):
    """A block device; what cannot be read of it is null."""

    target: str
    description: str
    id: str
    kind: str | None = None
    size_bytes: int | None = None
    logical_block_bytes: int | None = None
    model: str | None = None
    serial: str | None = None
    plannable: bool | None = None
    unplannable: str = ""  # why numbers of it are nothing to plan on, and what may be said to that
    reasons: tuple[str, ...]  # why it may not be written
    overridable: bool = False  # whether options exist that override all of them


class ListedModel(Part):
    """A simulated drive as a target."""

    target: str
    title: str
    capacity_bytes: int
    simulated_bytes: int
    published: dict[str, float]
    simulated: dict[str, float]
    differences: tuple[str, ...]
    sources: tuple[str, ...]


class Drives(Document):
    """Every target there is."""

    document: Literal["drives"] = "drives"
    schema_version: Literal[1] = 1
    devices: tuple[Device, ...]
    models: tuple[ListedModel, ...]


class Required(Part):
    """One thing that a run needs or wants of the host."""

    name: str
    grade: Literal["fine", "absent", "noisy", "missing"]
    said: str
    hint: str


class CommandPrograms(Part):
    """Programs that a command lacks, and what installs them."""

    command: str
    missing: tuple[str, ...]
    install: str


class Checked(Document):
    """Whether this host can measure; of a target what it tells of itself, else of all commands."""

    document: Literal["check"] = "check"
    schema_version: Literal[1] = 1
    ready: bool
    requirements: tuple[Required, ...]
    commands: tuple[CommandPrograms, ...] | None = None
    target: TargetInfo | None = None


class SettingChange(Part):
    """A setting that a killed run left changed."""

    backend: str
    attribute: str
    drive: str
    was: str
    wanted: str
    reason: str


class Restored(Document):
    """What was put back, what was given up, and what stays changed."""

    document: Literal["restore"] = "restore"
    schema_version: Literal[1] = 1
    restored: tuple[SettingChange, ...]
    forgotten: tuple[SettingChange, ...]
    lasting: tuple[str, ...]


class Retired(Document):
    """A purged drive, its evidence from before and after, and its health."""

    document: Literal["retire"] = "retire"
    schema_version: Literal[1] = 1
    target: TargetInfo
    done: str
    seconds: float
    before: dict[str, str]
    after: dict[str, str]
    health: dict[str, str] | None


class Completion(Document):
    """A completion script."""

    document: Literal["completion"] = "completion"
    schema_version: Literal[1] = 1
    shell: str
    script: str


class Module(Part):
    """A kernel module; what the sub-command did not ask is null."""

    name: str
    built: str | None = None  # path
    loaded: bool | None = None
    users: int | None = None
    lacking: str | None = None  # why it was not built
    note: str | None = None  # what whoever loads it should know


class Modules(Document):
    """The answer of every sub-command of `kmod`; what it did not ask is null or empty."""

    document: Literal["kmod"] = "kmod"
    schema_version: Literal[1] = 1
    modules: tuple[Module, ...] = ()
    obstacles: tuple[str, ...] = ()  # to loading a module here
    sources: str | None = None  # the directory in which sources were written for DKMS …
    packages: tuple[str, ...] = ()  # … in these, one for each module …
    next: str | None = None  # … and the commands that build them


class RanInGuest(Document):
    """What the command in a guest said."""

    document: Literal["lab-run"] = "lab-run"
    schema_version: Literal[1] = 1
    status: int
    stdout: str
    stderr: str
    console: str
    boot_s: float
    wall_s: float
    failed_boots: tuple[str, ...]


class FleetDrive(Part):
    """A drive of a fleet; without a stage its run was not started."""

    name: str  # of its run directory
    host: str
    rack: str
    target: str
    identity: str
    model: str
    serial: str
    stage: str = ""
    said: str = ""
    exit_code: int | None = None
    fraction: float | None = None
    left_s: float | None = None
    rate_iops: float | None = None
    text: str = ""
    findings: tuple[str, ...] = ()
    starts: int = 0
    clock_off_s: float | None = None
    free_bytes: int | None = None


class FleetPlanned(Document):
    """What `fleet run` would measure, and the limits as resources of the engine."""

    document: Literal["fleet-plan"] = "fleet-plan"
    schema_version: Literal[1] = 1
    drives: tuple[FleetDrive, ...]
    silent: dict[str, str]
    notes: tuple[str, ...]
    limits: dict[str, float]


class FleetRan(Document):
    """How each drive ended; the results are below `runs`."""

    document: Literal["fleet-run"] = "fleet-run"
    schema_version: Literal[1] = 1
    directory: str
    runs: str
    drives: tuple[FleetDrive, ...]
    silent: dict[str, str]


class FleetStatus(Document):
    """The status of each drive whose run was started."""

    document: Literal["fleet-status"] = "fleet-status"
    schema_version: Literal[1] = 1
    drives: tuple[FleetDrive, ...]


class FleetStopped(Document):
    """Runs that were stopped, and those that could not be."""

    document: Literal["fleet-stop"] = "fleet-stop"
    schema_version: Literal[1] = 1
    stopped: tuple[str, ...]
    failed: dict[str, str]


class Diagnostic(Part):
    """What is wrong in a profile, and where."""

    file: str
    line: int
    column: int
    message: str


class Failure(Part):
    """Why, and what to do; what only some failures have is null."""

    kind: str  # UsageError, ProfileError, TargetRefused …
    message: str
    hint: str
    exit_code: int
    diagnostics: list[Diagnostic] | None = None  # of a profile
    target: str | None = None  # that was refused …
    reasons: list[str] | None = None  # … and why
    command: list[str] | None = None  # that would not be refused; empty when none is known


class Failed(Document):
    """An error."""

    document: Literal["error"] = "error"
    schema_version: Literal[1] = 1
    error: Failure
