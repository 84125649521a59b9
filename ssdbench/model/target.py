"""Define the device under test, its format, and the consent of the user."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Self

from pydantic import BeforeValidator, ConfigDict, Field

from ssdbench.errors import UsageError
from ssdbench.model.base import Mistake, Model, ProfileModel
from ssdbench.model.quantity import SizeBytes
from ssdbench.units import parse_size

LEAST_PROTECTED_BYTES = 8  # metadata bytes that protection information needs (NVM Express, 8.3)


class LbaFormat(ProfileModel):
    """Hold an LBA format that a purge gives to the drive."""

    model_config = ConfigDict(populate_by_name=True)  # results use the names of the fields

    data_bytes: SizeBytes = Field(alias="data")
    """Size of a logical block."""
    metadata_bytes: Annotated[int, Field(strict=True, ge=0, le=0xFFFF)] = Field(
        default=0, alias="metadata"
    )
    """Bytes of metadata per block, transferred separately from the block."""
    protection: Annotated[int, Field(strict=True, ge=0, le=3)] = 0
    """Type of protection information; 0 for none."""

    def mistakes(self) -> Iterator[Mistake]:
        if self.protection and self.metadata_bytes < LEAST_PROTECTED_BYTES:
            yield ("protection",), "protection information needs 8 bytes of metadata"

    @property
    def sizes(self) -> str:
        """Return the bytes of data and of metadata per block, such as `4096+0`."""
        return f"{self.data_bytes}+{self.metadata_bytes}"

    def __str__(self) -> str:
        protected = f", protection type {self.protection}" if self.protection else ""
        return self.sizes + protected


def asked_format(sizes: str, protection: int = 0) -> LbaFormat:
    """Parse an LBA format such as `4096`, `4KiB` or `512+8`. Raises UsageError for other text."""
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
    """Read a size such as `4KiB` as an LBA format without metadata."""
    return value if isinstance(value, dict | LbaFormat) or value is None else {"data": value}


AskedLbaFormat = Annotated[
    LbaFormat | None,
    BeforeValidator(_short, json_schema_input_type=LbaFormat | SizeBytes | None),
]


CONTENT = "+content."  # between identity and digest of the content in a consent
LACKS, TAKEN = "no proof of one drive", "taken for one drive"  # names of facts
VIA = " via "  # between an identity and the place of a path
RESIZED = "capacity is "  # start of a fact: a simulated drive has another size than its model
ZONES = "zones"  # name of the fact that a drive is zoned
NOT_READ = "not read"  # start of a fact that the drive did not report
USED_UP = "so that the first cannot be begun before another is full or reset"  # end of `ZONES`


class TargetKind(StrEnum):
    """Name the kind of a target; a plan may use numbers of DRIVE and SIMULATED only."""

    DRIVE = "drive"
    SIMULATED = "simulated"
    FILE = "file"
    LOOP = "loop"
    MAPPED = "mapped"  # dm, md, bcache, zvol, drbd
    VIRTUAL = "virtual"  # a volume of a cloud, a hypervisor or a RAID controller
    UNPROVEN = "unproven"  # it may be one drive or a volume

    @property
    def plannable(self) -> bool:
        """Tell whether a plan may use numbers that were measured on such a target."""
        return self in (TargetKind.DRIVE, TargetKind.SIMULATED)


class TargetInfo(Model):
    """Hold identity and geometry of a target at the time when ssdbench read them."""

    kind: TargetKind
    name: str  # as the user named it: /dev/nvme0n1, sim:x25m-g2-160, a path
    node: str  # the opened path: device node, file, or state file of a simulated drive
    id: str  # identity for consent, such as eui.0025385b91b0a4d2
    via: str = ""  # place of the chosen path, if several paths lead to the drive
    content: str = ""  # digest of samples, if only place and size identify the drive
    size_bytes: int
    logical_block_bytes: int = 512
    physical_block_bytes: int = 512
    discards: bool = False  # whether the drive reports support for discards
    zone_bytes: int = 0  # capacity of each zone, if all are equal and sequential; 0: not zoned
    zone_length_bytes: int = 0  # from the start of one zone to the next; at least `zone_bytes`
    model: str = ""
    serial: str = ""
    firmware: str = ""
    major_minor: str = ""  # "259:0"; empty for files and simulated drives
    facts: dict[str, str] = {}  # all other facts for the report, by name
    write_buffer_bytes: int = 0  # if known without measuring: for simulated drives
    remap_unit_bytes: int = 0  # the same
    preferred_write_bytes: int = 0  # smallest write that the drive recommends; 0: a block
    write_sizes: dict[str, int] = {}  # that the drive or the kernel recommends, in bytes, by name
    simulated: bool = False  # by this program, with a clock of its own: a sim: target
    simulated_by: str = ""  # what simulates a block device, such as `ssdbench sim attach`
    sim_model: str = ""  # name of the model and its parameters, for sim: targets
    sim_seed: int | None = None
    full_size_bytes: int = 0  # of the model that a smaller drive simulates; 0: not stored
    lba_format: LbaFormat | None = None  # of an NVMe namespace
    lba_formats: tuple[str, ...] = ()  # all available formats, such as 512+0: data and metadata

    @property
    def consent_id(self) -> str:
        """Return the name that the option --destroy expects.

        The expected name is the identity of the drive. If this identity is only a place, such as a
        path, a digest of the content follows the identity.
        """
        return f"{self.id}{CONTENT}{self.content}" if self.content else self.id

    @property
    def modelled(self) -> bool:
        """Tell whether the drive is known to be a simulated one, whatever clock it has."""
        return self.simulated or bool(self.simulated_by)

    @property
    def here(self) -> str:
        """Return the name in settings records: the identity, and the path if it has several."""
        return f"{self.id}{VIA}{self.via}" if self.via else self.id

    @property
    def end_bytes(self) -> int:
        """Return where the device ends, in bytes, including the gaps at the ends of zones."""
        if not self.zone_length_bytes:
            return self.size_bytes
        return self.size_bytes // self.zone_bytes * self.zone_length_bytes

    @property
    def sold_bytes(self) -> int | None:
        """Return the drive's capacity as sold, even if only a smaller copy is simulated.

        The result is None for a smaller simulated drive of an older result, which does not store
        this capacity.
        """
        if not self.simulated:
            return self.size_bytes
        resized = any(fact.startswith(RESIZED) for fact in self.facts.values())
        return self.full_size_bytes or (None if resized else self.size_bytes)

    def formatted(self, wanted: LbaFormat | None) -> "TargetInfo":
        """Return the target as a format would change it; its size is then an estimate."""
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
    """Hold the consent of the command line, or no consent. Consent is never in a profile."""

    identity: str | None = None  # --destroy: the data of this drive may be destroyed
    overwrite: bool = False  # --overwrite-signatures: partition tables, file systems not in use
    data: bool = False  # --overwrite-data: data without a signature
    shared: bool = False  # --accept-shared: other paths and hosts have access to the drive
    unproven: bool = False  # --accept-unproven: it is one drive, although nothing shows it
    wear: bool = False  # --accept-wear: more than FREE_SHARE of its rated endurance

    run: str = ""  # the run that uses the target; data that this run left in a file are its own

    def overwriting(self) -> Self:
        """Return a consent that also permits to overwrite signatures."""
        return self.model_copy(update={"overwrite": True})

    def of_run(self, run: str) -> Self:
        """Return the same consent, limited to the work of one run."""
        return self.model_copy(update={"run": run})
