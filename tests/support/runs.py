"""Runs as tests tell them: built, interrupted, killed, resumed, and what happened in order.

a_run().precondition().steady().sweep().interrupted_in("03-sweep").expect("01-precondition", …)
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from ssdbench.engine.events import Event, StageFinished
from ssdbench.engine.journal import NAME, Journal, Kind
from ssdbench.engine.runner import Order, Runner, World
from ssdbench.engine.stage import AnyStage, Limits
from ssdbench.engine.store import RunStore
from ssdbench.generator.base import Second
from ssdbench.host.activity import Activity
from ssdbench.model.kind import StageKind
from ssdbench.model.profile import Fill
from ssdbench.model.result import RunResult, StageResult
from ssdbench.model.workload import ActiveRange, Pattern, Point, Workload
from ssdbench.stages.layouts import ascending
from ssdbench.stages.measuring import Measuring
from ssdbench.stages.points import PointStage
from ssdbench.stages.precondition import Precondition
from ssdbench.stages.steady import Steady
from tests.support.fakes import Killed, WearyDrive


def quiet_host() -> Activity:
    """A host that does nothing but our work."""
    return Activity(
        at_s=0.0, cpus=2, stolen_s=0.0, others_s={}, context_switches=0, interrupts=0, running=1
    )


QUICK = Measuring(measure_s=60, write_window_s=60, flat_s=60)


def a_workload(
    drive: WearyDrive, *, read: int = 0, block: int = 4096, share: float = 1
) -> Workload:
    """Random I/O on a share of the drive."""
    length = int(drive.size_bytes * share) // block * block
    return Workload(
        pattern=Pattern.RANDOM,
        block_bytes=block,
        read_percent=read,
        iodepth=4,
        range=ActiveRange(offset_bytes=0, length_bytes=length),
    )


def a_point(drive: WearyDrive, name: str, *, read: int = 0, block: int = 4096) -> Point:
    """A point of a sweep."""
    return Point(id=name, sweep="sweep", workload=a_workload(drive, read=read, block=block))


@dataclass
class ARun:
    """A run in the making; `go` and `resume` return its result."""

    path: Path
    drive: WearyDrive = field(default_factory=WearyDrive)
    stages: list[AnyStage] = field(default_factory=list)
    limits: Limits = Limits()
    seed: int = 1
    events: list[Event] = field(default_factory=list)
    signal: int | None = None
    host: dict[str, str] = field(default_factory=dict)  # its facts
    activity: Callable[[], Activity] = quiet_host

    def precondition(
        self, *fills: Fill, level_percent: float = 100.0, for_experiment: bool = False
    ) -> Self:
        """Add fills: one sequential one unless told."""
        wanted = fills or (Fill(fill=1),)
        name = self._name("precondition")
        self.stages.append(Precondition(name, wanted, level_percent, for_experiment=for_experiment))
        return self

    def steady(self, rule: str = "pss", *, max_fills: float = 6.0) -> Self:
        """Add a warm-up."""
        workload = a_workload(self.drive)
        self.stages.append(Steady(self._name("steady"), workload, rule, max_fills))
        return self

    def sweep(self, *points: Point, repeats: int = 3, returning: bool = False) -> Self:
        """Add a sweep: one write point and one read point unless told."""
        wanted = points or (a_point(self.drive, "write"), a_point(self.drive, "read", read=100))
        back = a_workload(self.drive) if returning else None
        self.stages.append(
            PointStage(self._name("sweep"), (wanted,), repeats, QUICK, returns_to=back)
        )
        return self

    def span(self, *shares: float, repeats: int = 2) -> Self:
        """Add a span sweep."""
        points = tuple(
            Point(id=f"span-{share:g}", sweep="span", workload=a_workload(self.drive, share=share))
            for share in shares
        )
        groups = ascending(points)
        self.stages.append(
            PointStage(self._name("span"), groups, repeats, QUICK, kind=StageKind.SPAN)
        )
        return self

    def interrupted_in(self, stage: str, *, after_s: float = 5) -> Self:
        """A signal comes while a stage is at work."""
        self._strike(stage, after_s, self._signal)
        return self

    def killed_in(self, stage: str, *, after_s: float = 5) -> Self:
        """The process dies while a stage is at work."""
        self._strike(stage, after_s, self._kill)
        return self

    def go(self) -> RunResult:
        """Run it."""
        RunStore.require_new(self.path)
        self.path.mkdir(parents=True, exist_ok=True)
        return self._runner(RunStore(self.path)).run()

    def resume(self, *, stopped_by: int | None = None, killed_in: str = "") -> RunResult:
        """Go on in a new process: nothing but the disk and the drive is left.

        With `stopped_by` that signal has come already; `killed_in` is a stage.
        """
        self.signal = stopped_by
        self.events.clear()
        self.drive.starts.clear()
        self.drive.on_second = lambda drive, second: None
        self.drive.on_save = lambda drive: None
        if killed_in:
            self.killed_in(killed_in)
        return self._runner(RunStore.open(self.path)).resume()

    def finished(self) -> list[str]:
        """The stages that ended completely, in order."""
        return [e.result.name for e in self._ends() if e.result.complete and not e.reused]

    def reused(self) -> list[str]:
        """The stages that stood from before."""
        return [e.result.name for e in self._ends() if e.reused]

    def units(self, kind: Kind) -> list[str]:
        """The units of all records of a kind, in order."""
        journal = Journal.open(self.path / NAME)
        journal.close()
        return [record.unit for record in journal.records if record.kind is kind and record.unit]

    def _ends(self) -> list[StageFinished]:
        return [event for event in self.events if isinstance(event, StageFinished)]

    def _name(self, kind: str) -> str:
        return f"{len(self.stages) + 1:02d}-{kind}"

    def _runner(self, store: RunStore) -> Runner:
        (store.path / "manifest.json").write_text("{}")
        order = Order("run-1", "a test", "", self.seed, self.limits)
        world = World(
            emit=self.events.append,
            interrupted=lambda: self.signal,
            activity=self.activity,
            facts=lambda info: self.host,
        )
        return Runner(order, self.stages, self.drive, store, world)

    def _strike(self, stage: str, after_s: float, blow: Callable[[], None]) -> None:
        def on_second(drive: WearyDrive, second: Second) -> None:
            at_work = (self.path / "stages" / stage).exists()
            if at_work and second.t_s >= after_s:
                blow()

        self.drive.on_second = on_second

    def _signal(self) -> None:
        self.signal = 2

    def _kill(self) -> None:
        raise Killed


def result_of(result: RunResult, stage: str) -> StageResult:
    """One stage of a result."""
    return next(found for found in result.stages if found.name == stage)
