"""Define the kinds of stage, and the preparation that each kind needs.

Other modules do not compare kinds of stage by name.

A new kind of stage needs a member here with its row in `KINDS`, a result in `ssdbench.model.found`,
a stage, and a page in `ssdbench.report.view`. The type checker reports the missing parts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal


class StageKind(StrEnum):
    """List every kind of stage, with the word that is stored in results."""

    PURGE = "purge"
    PRECONDITION = "precondition"
    STEADY = "steady"
    SWEEP = "sweep"
    SPAN = "span"
    PROCESSES = "processes"
    FIO = "fio"
    MIX = "mix"
    INTERFERENCE = "interference"
    RATE = "rate"
    LOAD = "load"
    REPLAY = "replay"
    BLOCKSIZE = "blocksize"
    PROBE = "probe"
    PTS = "pts"
    SCHEDULERS = "schedulers"
    QUEUE = "queue"
    ENGINES = "engines"
    DEPTH = "depth"
    INTERRUPTS = "interrupts"
    LATENCY_PATH = "latency_path"
    CPU_COST = "cpu_cost"
    SURFACE = "surface"
    FILESYSTEM = "filesystem"
    FILE_WRITERS = "file_writers"
    FILE_MIX = "file_mix"
    APPLICATIONS = "applications"


PointsKind = Literal[
    StageKind.SWEEP,
    StageKind.SPAN,
    StageKind.PROCESSES,
    StageKind.FIO,
    StageKind.MIX,
    StageKind.INTERFERENCE,
]  # points in repeats


class About(StrEnum):
    """Name the subject of a kind of stage, such as the drive or the host.

    The subject of a kind decides what a report says about the whole run.
    """

    PREPARATION = "preparation"  # its findings also apply to later measurements
    RATES = "rates"  # numbers that a user may plan on
    INSIDE = "inside"  # the inner structure of the drive
    SETTINGS = "settings"  # a comparison of settings


@dataclass(frozen=True, slots=True)
class KindFacts:
    """Hold the facts about one kind of stage, and the preparation that the kind needs."""

    title: str  # for reports; a stage may have a more exact one
    about: About = About.SETTINGS
    needs_fill: bool = True  # the profile's `precondition` must run before
    needs_warm_up: bool = True  # the profile's `steady` must run before
    is_fill: bool = False  # writes the whole drive, whatever the limits of the run are
    erases: bool = False  # after it, nothing that earlier stages did to the drive is left
    plannable: bool = False  # its numbers may be used for a plan
    ascending: bool = False  # its points are measured in order instead of shuffled
    page_order: int = 9  # position of its section on the page, lowest first

    @property
    def prepares(self) -> bool:
        """Tell whether findings of this stage also apply to the measurements after this stage."""
        return self.about is About.PREPARATION


KINDS: Mapping[StageKind, KindFacts] = {
    StageKind.PURGE: KindFacts("Purge the drive", About.PREPARATION, erases=True),
    StageKind.PRECONDITION: KindFacts("Fill the drive", About.PREPARATION, is_fill=True),
    StageKind.STEADY: KindFacts("Warm up to steady state", About.PREPARATION),
    StageKind.SWEEP: KindFacts("Measure the points", About.RATES, plannable=True, page_order=2),
    StageKind.SPAN: KindFacts(
        "Measure growing spans of the drive",
        About.RATES,
        plannable=True,
        ascending=True,
        page_order=3,
    ),
    StageKind.PROCESSES: KindFacts(
        "Measure several writers at once, and writers that pause", About.RATES, plannable=True
    ),
    StageKind.FIO: KindFacts(
        "Measure the jobs of a fio job file", About.RATES, plannable=True, page_order=2
    ),
    StageKind.MIX: KindFacts(
        "Measure several streams at once", About.RATES, plannable=True, page_order=2
    ),
    StageKind.INTERFERENCE: KindFacts(
        "Measure reads beside growing write loads", About.RATES, page_order=1
    ),
    StageKind.RATE: KindFacts(
        "Find the rate that keeps the limit of latency", About.RATES, plannable=True, page_order=1
    ),
    StageKind.LOAD: KindFacts(
        "Measure the latency at a load", About.RATES, plannable=True, page_order=1
    ),
    StageKind.REPLAY: KindFacts("Replay a trace", About.RATES, page_order=1),
    StageKind.BLOCKSIZE: KindFacts(
        "Find the block size from strided writes", About.INSIDE, needs_warm_up=False, page_order=4
    ),
    StageKind.PROBE: KindFacts("Probe the drive", About.INSIDE, needs_warm_up=False),
    StageKind.PTS: KindFacts("PTS-style test", About.RATES, needs_fill=False, needs_warm_up=False),
    StageKind.SCHEDULERS: KindFacts("Compare I/O schedulers"),
    StageKind.QUEUE: KindFacts("Compare settings of the queue"),
    StageKind.ENGINES: KindFacts("Compare ways to submit I/O"),
    StageKind.DEPTH: KindFacts("Compare queue depths, merging and occupancy"),
    StageKind.INTERRUPTS: KindFacts("Compare where interrupts are handled"),
    StageKind.LATENCY_PATH: KindFacts("Where the time of a request goes"),
    StageKind.CPU_COST: KindFacts("What an I/O costs the host"),
    StageKind.SURFACE: KindFacts("Throughput over file size and record size"),
    StageKind.FILESYSTEM: KindFacts("Threads on a file system"),
    StageKind.FILE_WRITERS: KindFacts("Several writers, with and without pauses"),
    StageKind.FILE_MIX: KindFacts("Random reads and writes of one file"),
    StageKind.APPLICATIONS: KindFacts("Application programs on a file system"),
}
