"""Measure one file system on the drive, with several numbers of threads, fresh and aged.

Figures 13 and 14 of Seppanen et al. (2010). The whole drive is filled again first, because
unwritten space would make the drive faster. The partition is known only to the kernel; no partition
table is written. If the partition is smaller than the drive, the space outside the partition was
discarded and serves as spare area.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

from ssdbench.engine.stage import Context, RateHint, StagePlan, Unit
from ssdbench.errors import HostLacks
from ssdbench.generator.fio.jobfile import Options
from ssdbench.host.facts import free_bytes
from ssdbench.host.files import make_directory
from ssdbench.model.found import FileSystemComparison, Median, ThreadsMedian
from ssdbench.model.kind import StageKind
from ssdbench.model.profile.spec import FileSystems
from ssdbench.model.target import TargetInfo
from ssdbench.stages.files.mount import Place, where, write_files
from ssdbench.stages.files.trial import NO_HINT, OnFiles
from ssdbench.stages.host.trial import Step, TrialWorkload, Variant, Work
from ssdbench.units import KIB, MIB

AGE_FILES = 2000  # most files of one round of aging
AGE_SHARE = 0.8  # of the free space: how much one round of aging fills
AGED = ", aged"
FILE: Options = {"filename": "measured"}


@dataclass(frozen=True, kw_only=True)
class FileSystemTrial(OnFiles):
    """Measure random reads and writes on one file system, with several numbers of threads."""

    kind: StageKind = StageKind.FILESYSTEM
    wanted: FileSystems  # the profile's entry for this stage

    @classmethod
    def of(cls, name: str, place: Place, wanted: FileSystems, notes: tuple[str, ...] = ()) -> Self:
        """Make the stage for one file system; `notes` name file systems that are not available."""
        part = place.part_percent
        fresh = place.system.name + ("" if part >= 100 else f" on {part:g} %")
        return cls(
            name=name,
            title=f"Threads on {fresh}{'' if part >= 100 else ' of the drive'}",
            variants=tuple(map(Variant, (fresh, f"{fresh}{AGED}") if wanted.aging else (fresh,))),
            workloads=tuple(
                TrialWorkload(_named(count, word), ({"rw": f"rand{word}", "numjobs": count},))
                for count, word in _directions(wanted.threads)
            ),
            repeats=wanted.repeats,
            window_s=max(1, round(wanted.window_s)),
            notes=notes,
            options={
                **FILE,
                **NO_HINT,
                "bs": 4 * KIB,
                "ioengine": "psync",
                "direct": 0 if wanted.buffered else 1,
            },
            place=place,
            wanted=wanted,
        )

    @property
    def steps(self) -> int:
        """Return the number of units: all cells, the measured file, and the rounds of aging."""
        return self.starts + 1 + self.wanted.aging

    def laid_bytes(self, target: TargetInfo) -> int:
        """Return the bytes that are written for the measured file and for aging."""
        return int(target.size_bytes * self.place.part_percent / 100) * (1 + self.wanted.aging)

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """Plan all cells; the plan has one line of text for all numbers of threads."""
        threads = ", ".join(map(str, self.wanted.threads))
        starts = f"{self.starts} runs of fio with {threads} threads"
        return replace(super().plan(target, hint), jobs=(self.place.planned, starts))

    def units(self, context: Context, done: Sequence[Step]) -> Iterator[Unit[Work]]:
        """Yield the units: write the file, all cells, the rounds of aging, all cells again."""
        yield self.building("lay", "writing its file", self._lay, done)
        size = done[0].file_bytes
        for state in self.variants:
            if state.name.endswith(AGED):
                for turn in range(1, self.wanted.aging + 1):
                    yield self.building(f"age-{turn}", "aging", partial(_age, turn), done)
            turns = self.turns(
                context.seed, span_bytes=size, variants=(state,), about=f"order of {state.name}"
            )
            yield from self.measuring(turns, context, done)

    def _lay(self, context: Context) -> Step | None:
        share = self.wanted.file_percent / 100
        size = int(free_bytes(where(context)) * share) // MIB * MIB
        if size < MIB:
            raise HostLacks(f"{self.place.system.name} leaves no room for a file on this drive")
        return Step(file_bytes=size) if write_files(context, FILE, size_bytes=size) else None

    def found(self, compared: Sequence[Median]) -> FileSystemComparison:
        """Return the medians for each number of threads and direction, before and after aging."""
        return FileSystemComparison(
            medians=tuple(self._by_threads(median) for median in compared),
            file_system=self.place.system.name,
            made_with=self.place.made_with,
            measured="through the page cache" if self.wanted.buffered else "with O_DIRECT",
        )

    def _by_threads(self, median: Median) -> ThreadsMedian:
        known = {
            _named(count, word): (count, word) for count, word in _directions(self.wanted.threads)
        }
        threads, direction = known[median.workload]
        part = self.place.part_percent
        age = "aged" if median.variant.endswith(AGED) else "fresh"
        return ThreadsMedian(
            **dict(median),
            file_system=self.place.system.name,
            state=age + ("" if part >= 100 else f", on {part:g} %"),
            threads=threads,
            direction=direction,
        )


def _directions(threads: Sequence[int]) -> list[tuple[int, str]]:
    return [(count, word) for count in threads for word in ("read", "write")]


def _named(count: int, word: str) -> str:
    return f"4 KiB random {word}, {count} thread{'s' if count > 1 else ''}"


def _age(turn: int, context: Context) -> Step | None:
    """Age the file system: fill its free space with small files, delete every second one.

    Later files then get scattered free space (Heger 2011 asks benchmarks to age a file system).
    """
    room = int(free_bytes(where(context)) * AGE_SHARE)
    mean = max(64 * KIB, room // AGE_FILES)
    place = where(context) / f"round-{turn}"
    make_directory(place)
    options: Options = {
        "nrfiles": max(1, room // mean),
        "filesize": f"{mean // 2}-{mean + mean // 2}",
        "file_service_type": "sequential",
        "openfiles": 16,
        "bs": 16 * KIB,
    }
    if not write_files(replace(context, mounted=place), options):
        return None
    for file in sorted(place.iterdir())[turn % 2 :: 2]:
        file.unlink()
    return Step()
