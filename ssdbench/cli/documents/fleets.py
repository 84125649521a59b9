"""Documents of `fleet`."""

from typing import Literal

from ssdbench.cli.documents import Document, Part


class FleetDrive(Part):
    """A drive of a fleet; without a stage it was not begun."""

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
    """How each drive that was begun stands."""

    document: Literal["fleet-status"] = "fleet-status"
    schema_version: Literal[1] = 1
    drives: tuple[FleetDrive, ...]


class FleetStopped(Document):
    """Runs that were stopped, and those that could not be."""

    document: Literal["fleet-stop"] = "fleet-stop"
    schema_version: Literal[1] = 1
    stopped: tuple[str, ...]
    failed: dict[str, str]
