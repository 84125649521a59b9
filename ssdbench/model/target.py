"""Defines what is known about the device under test, its format, and what the user agreed to."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from ssdbench.errors import UsageError
from ssdbench.model.base import Mistake, Model, refuse
from ssdbench.model.quantity import SizeBytes
from ssdbench.units import parse_size

LEAST_PROTECTED_BYTES = 8  # of metadata: what protection information takes (NVM Express, 8.3)


class LbaFormat(Model):
    """An LBA format that a purge gives to the drive; what is not told is none."""

    model_config = ConfigDict(populate_by_name=True)  # results hold it by its fields' names

    data_bytes: SizeBytes = Field(alias="data", description="Size of a logical block.")
    metadata_bytes: Annotated[int, Field(strict=True, ge=0, le=0xFFFF)] = Field(
        default=0, alias="metadata", description="Bytes of metadata per block, kept apart from it."
    )
    protection: Annotated[int, Field(strict=True, ge=0, le=3)] = Field(
        default=0, description="Type of protection information; 0 is none."
    )

    @model_validator(mode="after")
    def _room_for_protection(self) -> Self:
        mistakes: list[Mistake] = []
        if self.protection and self.metadata_bytes < LEAST_PROTECTED_BYTES:
            mistakes.append((("protection",), "protection information needs 8 bytes of metadata"))
        refuse(mistakes)
        return self

    @property
    def sizes(self) -> str:
        """Return data+metadata in bytes, such as 4096+0."""
        return f"{self.data_bytes}+{self.metadata_bytes}"

    def __str__(self) -> str:
        protected = f", protection type {self.protection}" if self.protection else ""
        return self.sizes + protected


def asked_format(sizes: str, protection: int = 0) -> LbaFormat:
    """Parse `4096`, `4KiB` or `512+8`. Raises UsageError for anything else."""
    data, _, metadata = sizes.partition("+")
    try:
        return LbaFormat(
            data=parse_size(data),
            metadata=int(metadata or 0),
            protection=protection,
        )
    except ValueError as error:
        raise UsageError(
            f"{sizes!r} with protection type {protection} is not an LBA format",
            hint="Give bytes of data and metadata, such as 4096 or 512+8; protection needs 8.",
        ) from error


def _short(value: object) -> object:
    """Take `4KiB` as a format without metadata."""
    return value if isinstance(value, dict | LbaFormat) or value is None else {"data": value}


AskedLbaFormat = Annotated[
    LbaFormat | None,
    BeforeValidator(_short, json_schema_input_type=LbaFormat | SizeBytes | None),
]


CONTENT = "+content."  # before what a drive holds, in what consent is given for
LACKS, TAKEN = "no proof of one drive", "taken for one drive"  # names of facts
VIA = " via "  # between an identity and the place of a path
ZONES = "zones"  # the fact that a drive is written in zones has
NOT_READ = "not read"  # how it begins where the drive did not tell
USED_UP = "so that the first cannot be begun before another is full or reset"  # how it may end


class TargetKind(StrEnum):
    """What stands behind a target; only DRIVE and SIMULATED can be validated for planning."""

    DRIVE = "drive"
    SIMULATED = "simulated"
    FILE = "file"
    LOOP = "loop"
    MAPPED = "mapped"  # dm, md, bcache, zvol, drbd
    VIRTUAL = "virtual"  # a volume of a cloud, a hypervisor or a RAID controller
    UNPROVEN = "unproven"  # it shows neither that it is one drive nor that it is a volume

    @property
    def plannable(self) -> bool:
        """Tell whether a number from such a target may be used for planning."""
        return self in (TargetKind.DRIVE, TargetKind.SIMULATED)


class TargetInfo(Model):
    """Identity and geometry of a target, as they were when they were read."""

    kind: TargetKind
    name: str  # as the user named it: /dev/nvme0n1, sim:x25m-g2-160, a path
    node: str  # what is opened: resolved device node, file, or simulated state file
    id: str  # identity that consent is given for, such as eui.0025385b91b0a4d2
    via: str = ""  # where the chosen path is plugged in, when several nodes lead to the drive
    content: str = ""  # a digest of samples, where it is known by its place and size alone
    size_bytes: int
    logical_block_bytes: int = 512
    physical_block_bytes: int = 512
    discards: bool = False  # it says that it takes them
    zone_bytes: int = (
        0  # that each zone holds, where all are alike and written in order; 0: no such
    )
    zone_length_bytes: int = 0  # from the start of one to that of the next: it may hold less
    model: str = ""
    serial: str = ""
    firmware: str = ""
    major_minor: str = ""  # "259:0"; empty for files and simulated drives
    facts: dict[str, str] = {}  # everything else, for the report: name -> value
    write_buffer_bytes: int = 0  # where it is known without measuring: simulated drives
    remap_unit_bytes: int = 0  # likewise
    simulated: bool = False
    sim_model: str = ""  # model name and the parameters set, for sim: targets
    sim_seed: int | None = None
    lba_format: LbaFormat | None = None  # of an NVMe namespace
    lba_formats: tuple[str, ...] = ()  # all that it offers, as 512+0: data and metadata in bytes

    @property
    def consent_id(self) -> str:
        """Say what --destroy names: its identity, and what it holds where that is but a place."""
        return f"{self.id}{CONTENT}{self.content}" if self.content else self.id

    @property
    def here(self) -> str:
        """Return what its settings are noted for: identity, and path if it has several."""
        return f"{self.id}{VIA}{self.via}" if self.via else self.id

    @property
    def end_bytes(self) -> int:
        """Say where the device ends: behind its size, where zones hold less than their length."""
        if not self.zone_length_bytes:
            return self.size_bytes
        return self.size_bytes // self.zone_bytes * self.zone_length_bytes

    def formatted(self, wanted: LbaFormat | None) -> "TargetInfo":
        """Say what a format would make of it, for plans: the drive alone knows its size then."""
        if wanted is None or wanted == self.lba_format or self.lba_format is None:
            return self
        was, now = self.lba_format, wanted
        taken = now.data_bytes + now.metadata_bytes
        raw = self.size_bytes // was.data_bytes * (was.data_bytes + was.metadata_bytes)
        return self.model_copy(
            update={
                "size_bytes": raw // taken * now.data_bytes,
                "logical_block_bytes": now.data_bytes,
                "physical_block_bytes": max(self.physical_block_bytes, now.data_bytes),
                "lba_format": now,
            }
        )


class Consent(Model):
    """What the command line agreed to; never part of a profile, and nothing of it by default."""

    identity: str | None = None  # --destroy: what this drive holds may be destroyed
    overwrite: bool = False  # --overwrite-signatures: partition tables, file systems not in use
    data: bool = False  # --overwrite-data: what it holds without a signature
    shared: bool = False  # --accept-shared: other paths and hosts lead to it
    unproven: bool = False  # --accept-unproven: it is one drive, though it does not show that
    wear: bool = False  # --accept-wear: more than FREE_SHARE of its rated endurance

    run: str = ""  # that works on it: what this very run left in a file is its own

    def overwriting(self) -> Self:
        """Ignore signatures: they are our own, or nothing is written."""
        return self.model_copy(update={"overwrite": True})

    def of_run(self, run: str) -> Self:
        """Return the same for the work of one run."""
        return self.model_copy(update={"run": run})
