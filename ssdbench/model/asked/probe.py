"""Probes of a drive's inner structure."""

from enum import StrEnum
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from ssdbench.model.asked.mistakes import refuse, repeated
from ssdbench.model.base import Model
from ssdbench.model.kind import StageKind
from ssdbench.model.quantity import OneOrMany


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


class Probes(Model):
    """Look into the drive: remap unit, buffers, flushes, parallelism, over-provisioning, TRIM."""

    kind: ClassVar[StageKind] = StageKind.PROBE

    of: Annotated[tuple[ProbeName, ...], OneOrMany()] = Field(
        default=tuple(ProbeName), min_length=1, description="Which probes, in order."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        refuse([*repeated("of", self.of)])
        return self

    @property
    def reads(self) -> bool:
        """Whether a point that is judged reads."""
        return False
