"""Defines searches of a drive's inner structure: `probe` and `blocksize`."""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from ssdbench.model.base import ProfileModel, refuse, repeated
from ssdbench.model.kind import StageKind
from ssdbench.model.quantity import Count, OneOrMany, SizeBytes
from ssdbench.units import KIB, format_size


class ProbeName(StrEnum):
    """What can be asked, in the order in which it is best asked."""

    SLC_CACHE = "slc-cache"
    STRIPE = "stripe"
    PARALLELISM = "parallelism"
    READ_CHUNK = "read-chunk"
    REMAP_UNIT = "remap-unit"
    MAPPING = "mapping"
    FLUSH = "flush"
    WRITE_BUFFER = "write-buffer"
    SPARE = "spare"
    TRIM = "trim"


class Probes(ProfileModel):
    """Look into the drive: remap unit, buffers, flushes, parallelism, over-provisioning, TRIM."""

    kind: ClassVar[StageKind] = StageKind.PROBE

    of: Annotated[tuple[ProbeName, ...], OneOrMany()] = Field(
        default=tuple(ProbeName), min_length=1
    )
    """Which probes, in order."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        refuse([*repeated("of", self.of)])
        return self

    @property
    def reads(self) -> bool:
        """Tell whether a point that is judged reads."""
        return False


class BlockSize(ProfileModel):
    """Find the drive's block size and internal buffer by strided writes."""

    kind: ClassVar[StageKind] = StageKind.BLOCKSIZE

    strides: Literal["auto"] | tuple[SizeBytes, ...] = "auto"
    """Distances between writes, or auto to choose them."""
    block_bytes: SizeBytes = Field(default=4 * KIB, alias="block")
    """Size of one write."""
    writes: Count | None = None
    """Writes per stride and region; fewer are quicker and less certain."""
    read_only: bool = False
    """Read instead of write, for drives that hold data; much less certain."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        strides = () if self.strides == "auto" else self.strides
        refuse(
            [
                *repeated("strides", strides),
                *(
                    (
                        ("strides", index),
                        f"a stride of {format_size(stride)} must be larger than "
                        f"the block of {format_size(self.block_bytes)}",
                    )
                    for index, stride in enumerate(strides)
                    if stride <= self.block_bytes
                ),
            ]
        )
        return self

    @property
    def reads(self) -> bool:
        """Tell whether it reads."""
        return False
