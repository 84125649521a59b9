"""Define the documents about this host, its drives and a fleet, and the error document."""

from typing import Literal

from ssdbench.cli.documents import Document, ModelPart, Part
from ssdbench.engine.preflight import Requirement
from ssdbench.model.result import METHOD
from ssdbench.model.target import TargetInfo


class Device(Part):
    """A block device; a value that cannot be read is null."""

    target: str
    description: str
    id: str
    kind: str | None = None
    size_bytes: int | None = None
    logical_block_bytes: int | None = None
    model: str | None = None
    serial: str | None = None
    plannable: bool | None = None
    unplannable: str = ""  # why no plan may use its numbers, and which option overrides this
    reasons: tuple[str, ...]  # why ssdbench refuses to write to the device
    overridable: bool = False  # options exist that override all reasons


class ListedModel(ModelPart):
    """A simulated drive that can be a target."""

    published: dict[str, float]


class Drives(Document):
    """All targets of this host: block devices and simulated models."""

    document: Literal["drives"] = "drives"
    devices: tuple[Device, ...]
    models: tuple[ListedModel, ...]
    method: int = METHOD


class CommandPrograms(Part):
    """The missing programs of a command, and the shell command that installs them."""

    command: str
    missing: tuple[str, ...]
    install: str


class Checked(Document):
    """Whether this host can measure, with facts of the target or the programs of each command."""

    document: Literal["check"] = "check"
    ready: bool
    requirements: tuple[Requirement, ...]
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
    """Settings that were restored, settings that were forgotten, and changes that remain."""

    document: Literal["restore"] = "restore"
    restored: tuple[SettingChange, ...]
    forgotten: tuple[SettingChange, ...]
    lasting: tuple[str, ...]


class Retired(Document):
    """A purged drive, its answers before and after the purge, and its health."""

    document: Literal["retire"] = "retire"
    target: TargetInfo
    done: str
    seconds: float
    before: dict[str, str]
    after: dict[str, str]
    health: dict[str, str] | None


class Completion(Document):
    """The text of a completion script."""

    document: Literal["completion"] = "completion"
    shell: str
    script: str


class Module(Part):
    """A kernel module; a value that the sub-command does not look up is null."""

    name: str
    built: str | None = None  # path
    loaded: bool | None = None
    users: int | None = None
    lacking: str | None = None  # why the module was not built
    note: str | None = None  # a warning to read before loading the module


class Modules(Document):
    """The answer of every sub-command of `kmod`; fields that it does not use are null or empty."""

    document: Literal["kmod"] = "kmod"
    modules: tuple[Module, ...] = ()
    obstacles: tuple[str, ...] = ()  # why this host cannot load a module
    sources: str | None = None  # the directory of the sources for DKMS
    packages: tuple[str, ...] = ()  # directories below `sources`, one per module
    next: str | None = None  # the commands that build the packages


class RanInGuest(Document):
    """The output and exit status of the command in a guest."""

    document: Literal["lab-run"] = "lab-run"
    status: int
    stdout: str
    stderr: str
    console: str
    boot_s: float
    wall_s: float
    failed_boots: tuple[str, ...]


class FleetDrive(Part):
    """A drive of a fleet; `stage` is empty while its run has not started."""

    name: str  # of the run directory
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
    """The chosen drives, the limits by name, and the mistakes that prevent `fleet run`.

    `said` is the reason why a drive cannot be measured.
    """

    document: Literal["fleet-plan"] = "fleet-plan"
    drives: tuple[FleetDrive, ...]
    silent: dict[str, str]
    notes: tuple[str, ...]
    mistakes: tuple[str, ...] = ()
    limits: dict[str, float]


class FleetRan(Document):
    """How the run of each drive ended; the results are in the directory `runs`."""

    document: Literal["fleet-run"] = "fleet-run"
    directory: str
    runs: str
    drives: tuple[FleetDrive, ...]
    silent: dict[str, str]


class FleetStatus(Document):
    """The status of each drive of the last `fleet run`, and the hosts that did not answer it."""

    document: Literal["fleet-status"] = "fleet-status"
    drives: tuple[FleetDrive, ...]
    silent: dict[str, str] = {}
    notes: tuple[str, ...] = ()


class FleetInstalled(Document):
    """The action on each host, and the hosts where the installation failed, with the reason."""

    document: Literal["fleet-install"] = "fleet-install"
    version: str
    hosts: dict[str, str]
    failed: dict[str, str]


class FleetStopped(Document):
    """Runs that were stopped, and runs that could not be stopped, with the reason."""

    document: Literal["fleet-stop"] = "fleet-stop"
    stopped: tuple[str, ...]
    failed: dict[str, str]


class Diagnostic(Part):
    """One mistake in a profile, with its place."""

    file: str
    line: int
    column: int
    message: str


class Failure(Part):
    """An error: its message and what to do; fields that only some errors have are null."""

    kind: str  # UsageError, ProfileError, TargetRefused …
    message: str
    hint: str
    exit_code: int
    diagnostics: list[Diagnostic] | None = None  # the mistakes in a profile
    target: str | None = None  # the target that was refused
    reasons: list[str] | None = None  # why the target was refused
    command: list[str] | None = None  # a command line that is not refused; empty if unknown


class Failed(Document):
    """The JSON output of a command that failed."""

    document: Literal["error"] = "error"
    error: Failure
