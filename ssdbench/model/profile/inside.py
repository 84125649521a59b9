"""Define the stages `probe` and `blocksize`, which search a drive's inner structure."""

from collections.abc import Iterator
from enum import StrEnum
from typing import ClassVar, Literal

from pydantic import Field

from ssdbench.model.base import Mistake, ProfileModel
from ssdbench.model.kind import StageKind
from ssdbench.model.quantity import Count, Many, Seconds, SizeBytes, repeated
from ssdbench.units import KIB, format_size


class ProbeName(StrEnum):
    """The probes, in the recommended order."""

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
    WAKE = "wake"


RESTING = (ProbeName.SLC_CACHE, ProbeName.WAKE)


class Probes(ProfileModel):
    """Probe the drive: remap unit, buffers, flushes, parallelism, over-provisioning, TRIM."""

    kind: ClassVar[StageKind] = StageKind.PROBE
    reads: ClassVar[bool] = False

    of: Many[ProbeName] = Field(default=tuple(ProbeName), min_length=1)
    """The probes to run, in this order."""
    rests_s: Many[Seconds] = Field(default=(), alias="rests", examples=[["30s", "2m"]])
    """Probe slc-cache: pauses of the fill, the first when half of the drive is written. After each
    pause the probe finds how much of the full cache is free again. Probe wake: idle times before a
    read; by default 100 ms, 1 s, 10 s and a minute."""

    def mistakes(self) -> Iterator[Mistake]:
        if self.rests_s and not set(RESTING) & set(self.of):
            why = "only the probes slc-cache and wake use `rests`; add one of them to `of`"
            yield ("rests",), why


class BlockSize(ProfileModel):
    """Find the drive's block size and write buffer by strided writes."""

    kind: ClassVar[StageKind] = StageKind.BLOCKSIZE
    reads: ClassVar[bool] = False

    strides: Literal["auto"] | tuple[SizeBytes, ...] = "auto"
    """Distances between writes, or auto to choose them."""
    block_bytes: SizeBytes = Field(default=4 * KIB, alias="block")
    """Size of one write."""
    writes: Count | None = None
    """Writes per stride and region. Fewer writes take less time, but the answer is less certain."""
    read_only: bool = False
    """true: only read, for a drive whose data you need. The answer is much less certain."""

    def mistakes(self) -> Iterator[Mistake]:
        strides = () if self.strides == "auto" else self.strides
        for place, message in repeated(strides, format_size):
            yield ("strides", *place), message
        wanted = f"must be larger than the block of {format_size(self.block_bytes)}"
        for index, stride in enumerate(strides):
            if stride <= self.block_bytes:
                yield ("strides", index), f"a stride of {format_size(stride)} {wanted}"
