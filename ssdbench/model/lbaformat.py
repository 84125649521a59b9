"""How an NVMe namespace is formatted: bytes of data and metadata per block, and protection."""

from typing import Annotated, Self

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from ssdbench.errors import UsageError
from ssdbench.model.asked.mistakes import Mistake, refuse
from ssdbench.model.base import Model
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
        """As drives are said to offer it: data+metadata in bytes, such as 4096+0."""
        return f"{self.data_bytes}+{self.metadata_bytes}"

    def __str__(self) -> str:
        protected = f", protection type {self.protection}" if self.protection else ""
        return self.sizes + protected


def asked_format(sizes: str, protection: int = 0) -> LbaFormat:
    """From a command line: `4096`, `4KiB` or `512+8`. Raises UsageError for anything else."""
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
    """`4KiB` is a format without metadata."""
    return value if isinstance(value, dict | LbaFormat) or value is None else {"data": value}


AskedLbaFormat = Annotated[
    LbaFormat | None,
    BeforeValidator(_short, json_schema_input_type=LbaFormat | SizeBytes | None),
]
