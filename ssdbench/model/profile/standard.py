"""Define `pts`: standard tests in the style of SNIA's PTS."""

from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from ssdbench.model.base import ProfileModel
from ssdbench.model.kind import StageKind
from ssdbench.model.quantity import Count, Many, Positive


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
        """Return the full name of the test for reports."""
        return _FULL_NAMES.get(self, self.value)

    @property
    def in_rounds(self) -> bool:
        """Tell whether the test consists of rounds; other tests consist of phases over time."""
        return self not in (PtsTest.SATURATION, PtsTest.IDLE, PtsTest.CROSSED)

    @property
    def over_demand(self) -> bool:
        """Tell whether each cell of the test is a number of threads with a queue depth."""
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
    """The form of the specification: enterprise or client.

    Forms differ in active range, queue depth and threads.
    """

    ENTERPRISE = "enterprise"
    CLIENT = "client"


class Saturation(StrEnum):
    """Workloads of the write saturation test. All but the first are optional in the standard."""

    WRITES_4K = "writes-4k"
    MIXED_8K = "mixed-8k"
    SEQUENTIAL_128K = "sequential-128k"
    SEQUENTIAL_512 = "sequential-512"
    COMPOSITE = "composite"


class Pts(ProfileModel):
    """Run standard tests in the style of SNIA's PTS. Each test purges and fills the drive."""

    kind: ClassVar[StageKind] = StageKind.PTS
    reads: ClassVar[bool] = False

    tests: Many[PtsTest] = Field(default=(PtsTest.IOPS,), min_length=1)
    """The tests to run, in this order."""
    form: PtsForm = PtsForm.ENTERPRISE
    """Form of the tests: enterprise or client."""
    max_rounds: Count = 25
    """End the test after this many rounds, and report that it was not steady."""
    saturation: Many[Saturation] = Field(default=(Saturation.WRITES_4K,), min_length=1)
    """Workloads of the saturation test; each is a test of its own that begins with a purge. The
    standard requires 4 KiB writes. Optional are 8 KiB 65/35, sequential 128 KiB 90/10 and 0.5 KiB
    50/50 (reads/writes), and the composite mix."""
    operator: str = Field(default="", examples=["A. Tester"])
    """Name of the person who runs the tests, for the header of the report."""
    scale: Positive = 1.0
    """Factor by which all durations are multiplied. Values other than 1 are for demonstrations
    only."""
