"""Defines `pts`: standard tests in the style of SNIA's PTS."""

from enum import StrEnum
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from ssdbench.model.base import ProfileModel, refuse, repeated
from ssdbench.model.kind import StageKind
from ssdbench.model.quantity import (
    Count,
    OneOrMany,
    Positive,
)


class PtsTest(StrEnum):
    """Tests in the style of SNIA's Performance Test Specification."""

    IOPS = "iops"
    THROUGHPUT = "throughput"
    LATENCY = "latency"
    SATURATION = "saturation"  # WSAT
    IDLE = "idle"  # host idle recovery
    CROSSED = "crossed"  # cross-stimulus recovery
    COMPOSITE = "composite"
    DEMAND = "demand"

    @property
    def full_name(self) -> str:
        """Return its name in reports."""
        return _FULL_NAMES.get(self, self.value)

    @property
    def in_rounds(self) -> bool:
        """Tell whether it is made of rounds, and not a history of phases."""
        return self not in (PtsTest.SATURATION, PtsTest.IDLE, PtsTest.CROSSED)

    @property
    def over_demand(self) -> bool:
        """Tell whether its cells are threads by outstanding requests."""
        return self in (PtsTest.COMPOSITE, PtsTest.DEMAND)


_FULL_NAMES = {
    PtsTest.IOPS: "IOPS",
    PtsTest.SATURATION: "write saturation",
    PtsTest.IDLE: "host idle recovery",
    PtsTest.CROSSED: "cross-stimulus recovery",
    PtsTest.COMPOSITE: "composite block workload",
    PtsTest.DEMAND: "demand intensity",
}


class PtsForm(StrEnum):
    """Which form of the specification: they differ in active range, queue and threads."""

    ENTERPRISE = "enterprise"
    CLIENT = "client"


class Saturation(StrEnum):
    """Workloads of the write saturation test; all but the first are optional in the standard."""

    WRITES_4K = "writes-4k"
    MIXED_8K = "mixed-8k"
    SEQUENTIAL_128K = "sequential-128k"
    SEQUENTIAL_512 = "sequential-512"
    COMPOSITE = "composite"


class Pts(ProfileModel):
    """Standard tests in the style of SNIA's PTS; each purges and fills the drive for itself."""

    kind: ClassVar[StageKind] = StageKind.PTS

    tests: Annotated[tuple[PtsTest, ...], OneOrMany()] = Field(
        default=(PtsTest.IOPS,), min_length=1
    )
    """Which tests, in order."""
    form: PtsForm = PtsForm.ENTERPRISE
    """Enterprise or client form."""
    max_rounds: Count = 25
    """Give up after this many rounds, and report it."""
    saturation: Annotated[tuple[Saturation, ...], OneOrMany()] = Field(
        default=(Saturation.WRITES_4K,), min_length=1
    )
    """Workloads of the saturation test, a test from its own purge for each: 4 KiB writes; and,
    optional, 8 KiB 65/35, sequential 128 KiB 90/10 and 0.5 KiB 50/50 (reads/writes), and the
    composite mix."""
    operator: str = Field(default="", examples=["A. Tester"])
    """Who runs the tests, for the report's header."""
    scale: Positive = 1.0
    """Scales all durations; anything but 1 is for demonstrations only."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        refuse([*repeated("tests", self.tests), *repeated("saturation", self.saturation)])
        return self

    @property
    def reads(self) -> bool:
        """Tell whether it reads what others wrote: no, each test brings its own fill."""
        return False
