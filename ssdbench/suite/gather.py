"""Finds the runs of a lot and refuses those that do not belong together.

Results of other hosts are foreign input: each file is read by the readers that trust nothing, and
what the journal proves is checked against what the result says.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from zlib import crc32

from ssdbench.engine.journal import (
    RESULT_SHA256,
    Kind,
    Record,
    believed_records,
    is_unended,
)
from ssdbench.errors import UsageError
from ssdbench.foreign import read_regular, real
from ssdbench.model.loading import profile_hash
from ssdbench.model.result import METHOD, RunResult
from ssdbench.model.rundirectory import JOURNAL, MANIFEST, RESULT, STAGES, UNIT_RECORD
from ssdbench.report.read import StoredRun
from ssdbench.units import counted, parse_moment

MOST_RUNS = 100_000  # of one lot
MOST_DEPTH = 6  # of directories below the one that is named
CLOCK_OFF = timedelta(days=1)  # that no two clocks differ by
SAME_TIME = timedelta(days=7)  # conditions of a lot that was measured for longer may have changed


@dataclass(frozen=True, slots=True)
class Gathered:
    """The runs of one lot, in the order in which they were found."""

    runs: tuple[StoredRun, ...]
    notes: tuple[str, ...]  # what a reader should know of them

    @property
    def results(self) -> tuple[RunResult, ...]:
        """Say what each run found."""
        return tuple(run.result for run in self.runs)


def gathered(places: Sequence[Path]) -> Gathered:
    """Return the runs that are named, and those below each directory that is no run itself.

    Raises UsageError, with what to do, where one of them must not be merged with the others.
    """
    directories = list(run_directories(places))
    if len(directories) > MOST_RUNS:
        raise UsageError(f"there are more than {MOST_RUNS:,} runs", hint="Name fewer.")
    now = datetime.now(UTC)
    runs, unproven = [], 0
    for directory in directories:
        run, proven = whole_run(directory, now)
        runs.append(run)
        unproven += not proven
    _require_drives(runs)
    _require_alike(runs)
    return Gathered(tuple(runs), tuple(_notes(runs, unproven)))


def require_comparable(first: Gathered, second: Gathered) -> None:
    """Return two lots of different drives, measured alike; models may differ. Raises UsageError."""
    _require_drives([*first.runs, *second.runs])
    _require_one_method([first.runs[0], second.runs[0]])


def run_directories(places: Sequence[Path]) -> Iterator[Path]:
    """List the named runs, and those below a directory that is none. Raises UsageError."""
    seen: dict[Path, Path] = {}
    for place in places:
        found = [place] if _is_run(place) else list(_below(place, MOST_DEPTH))
        if not found:
            raise UsageError(
                f"{place} holds no run", hint="Name run directories, or a directory of them."
            )
        for directory in found:
            if (known := real(directory)) in seen:
                raise UsageError(
                    f"{directory} is named twice: as {seen[known]} too", hint="Name each run once."
                )
            seen[known] = directory
            yield directory


def _is_run(directory: Path) -> bool:
    return any((directory / name).is_file() for name in (MANIFEST, JOURNAL, RESULT))


def _below(directory: Path, depth: int) -> Iterator[Path]:
    """Runs below a directory, by name; no link is followed."""
    try:
        inside = sorted(p for p in directory.iterdir() if p.is_dir() and not p.is_symlink())
    except OSError as error:
        raise UsageError(f"{directory} cannot be read: {error.strerror}") from error
    for path in inside:
        if _is_run(path):
            yield path
        elif depth > 1:
            yield from _below(path, depth - 1)


def whole_run(directory: Path, now: datetime) -> tuple[StoredRun, bool]:
    """Return a run that ended, and whether its journal proves the result.

    Raises UsageError for one that is not whole, is damaged, or has impossible times.
    """
    if not (directory / JOURNAL).is_file():
        raise UsageError(
            f"{directory} is no whole run directory: it has no {JOURNAL}",
            hint="Copy the whole directory of the run.",
        )
    if is_unended(directory):
        raise _unended(directory)
    records, damaged = believed_records(directory)
    if damaged is not None or not records:
        raise UsageError(
            f"{directory / JOURNAL}:{damaged or 1}:1: the journal is damaged, so nothing proves "
            "the result",
            hint="Copy the run again, or leave it out and say so.",
        )
    if all(record.kind is not Kind.ENDED for record in records):
        raise _unended(directory)
    run = StoredRun.open(directory)
    if run.result.interrupted:
        raise UsageError(
            f"{directory} was interrupted before its end",
            hint="Finish it with `ssdbench resume`, or leave it out.",
        )
    proven = _proven(run, records)
    _require_clock(directory, run.result, records, now)
    return run, proven


def _proven(run: StoredRun, records: Sequence[Record]) -> bool:
    """Check that the journal has the hash of the result. Raises UsageError if not."""
    begun, stored = records[0].data, run.directory / RESULT
    if begun.get("target") != run.result.target.id or begun.get("run_id") != run.result.run_id:
        raise _damaged(stored, "it is of another run than the journal beside it")
    finished = {(r.stage, r.unit): r for r in records if r.kind is Kind.FINISHED and r.unit}
    for record in finished.values():
        noted = record.data.get("crc32")
        relative = f"{STAGES}/{record.stage}/{record.unit}/{UNIT_RECORD}"
        if noted is not None and _crc32(run.path(relative)) != noted:
            raise _damaged(run.directory / relative, "its checksum is not the one in the journal")
    last = next(record for record in reversed(records) if record.kind is Kind.ENDED)
    proof = last.data.get(RESULT_SHA256)
    if proof is not None and sha256(read_regular(stored)).hexdigest() != proof:
        raise _damaged(stored, "its SHA-256 is not the one in the journal")
    return proof is not None


def _crc32(path: Path | None) -> int | None:
    try:
        return None if path is None else crc32(read_regular(path))
    except OSError:
        return None


def _unended(directory: Path) -> UsageError:
    return UsageError(
        f"{directory} did not end: no result of all of it is stored",
        hint="Finish it with `ssdbench resume`, or leave it out.",
    )


def _damaged(path: Path, why: str) -> UsageError:
    return UsageError(
        f"{path} is damaged or was altered: {why}",
        hint="Copy the run again from the host that measured it.",
    )


def _require_clock(
    directory: Path, result: RunResult, records: Sequence[Record], now: datetime
) -> None:
    """Refuse a run whose times cannot be: its host's clock was wrong, or was set meanwhile."""
    times = [_moment(record.at) for record in records]
    began = _moment(result.started_at)
    known = [time for time in times if time is not None]
    if began is None or len(known) < len(times):
        raise _damaged(directory / RESULT, "a time in it or in the journal is none")
    back = max((a - b for a, b in zip(known, known[1:], strict=False)), default=timedelta())
    if back > CLOCK_OFF:
        raise UsageError(
            f"{directory}: the clock of its host went back by {counted(back.days, 'day')} "
            "during the run",
            hint="Set the clock, and measure this drive again.",
        )
    if (ahead := max([began, *known]) - now) > CLOCK_OFF:
        raise UsageError(
            f"{directory} says that it was measured {counted(ahead.days, 'day')} from now",
            hint="Set the clock of that host or of this one; measure again if it was that one's.",
        )


def _moment(text: str) -> datetime | None:
    try:
        return parse_moment(text)
    except ValueError:
        return None


def _require_drives(runs: Sequence[StoredRun]) -> None:
    """Require that each run is of another drive, whatever name it has."""
    seen: dict[tuple[str, ...], StoredRun] = {}
    for run in runs:
        target = run.result.target
        names: list[tuple[str, ...]] = [("id", _unseeded(target.id))]
        if target.serial:
            names.append(("serial", target.model, target.serial))
        for name in names:
            if name in seen:
                raise _one_drive(seen[name], run)
            seen[name] = run


def _unseeded(identity: str) -> str:
    """Return an identity without the seed of a simulated drive.

    A seed picks when chance strikes within a drive, not how fast its flash is: two that differ in
    nothing else are one drive, measured twice.
    """
    return re.sub(r"(?<=,)seed=[0-9]+,|,seed=[0-9]+$", "", identity)


def _one_drive(first: StoredRun, second: StoredRun) -> UsageError:
    one, two = first.result, second.result
    same = (one.run_id, one.started_at, one.seed) == (two.run_id, two.started_at, two.seed)
    if same and one.target.id == two.target.id:
        what, hint = "hold the same run", "Leave one out."
    elif one.target.id == two.target.id:
        what = f"are of one drive, {one.target.id}"
        hint = "A drive counts once: name the run that is to count, and say which one you left out."
    elif _unseeded(one.target.id) == _unseeded(two.target.id):
        what = f"are of one drive under two seeds, {one.target.id} and {two.target.id}"
        hint = "Simulate drives that differ: set t_prog, op or another parameter of each."
    else:
        what = (
            f"are of one drive under two names, {one.target.id} and {two.target.id}: model "
            f"{one.target.model} with serial {one.target.serial}"
        )
        hint = "Find out which drive it is: one of two drives may report the other's serial."
    return UsageError(f"{first.directory} and {second.directory} {what}", hint=hint)


def _require_alike(runs: Sequence[StoredRun]) -> None:
    """Require one method, one profile and one model of drive."""
    ours = runs[0].result.target
    for run in runs:
        drive = run.result.target
        if (drive.model, drive.size_bytes) != (ours.model, ours.size_bytes):
            raise UsageError(
                f"{runs[0].directory} and {run.directory} are of different models or sizes: "
                f"{ours.model}, {ours.size_bytes:,} bytes and {drive.model}, "
                f"{drive.size_bytes:,} bytes",
                hint="A lot has one model of one size; `ssdbench compare` takes any two drives.",
            )
    _require_one_method(runs)


def _require_one_method(runs: Sequence[StoredRun]) -> None:
    first = runs[0]
    asked = profile_hash(first.result)
    for run in runs:
        ours, own = first.result, run.result
        both = f"{first.directory} and {run.directory}"
        if own.method != ours.method or own.method > METHOD:
            raise UsageError(
                f"{both} were measured by methods {ours.method} and {own.method}; this ssdbench "
                f"has method {METHOD}",
                hint="Merge runs of one method version; measure the others again.",
            )
        if own.target.simulated != ours.target.simulated:
            raise UsageError(
                f"{both} are of a simulated and a real drive: a model's numbers are no hardware's",
                hint="Leave one kind out.",
            )
        if profile_hash(own) != asked:
            raise UsageError(
                f"{both} are the results of different profiles",
                hint="Measure each drive with the same profile; only its title, target, seed, plan "
                "and accept may differ.",
            )


def _notes(runs: Sequence[StoredRun], unproven: int) -> Iterator[str]:
    if unproven:
        yield (
            f"{unproven} of {len(runs)} results are older than the hash in the journal: that they "
            "are as they were written is not proven"
        )
    began = sorted(time for run in runs if (time := _moment(run.result.started_at)))
    if began and (apart := began[-1] - began[0]) > SAME_TIME:
        yield (
            f"the runs began up to {apart.days} days apart by the clocks of their hosts: "
            "conditions may have changed meanwhile, or a clock is wrong"
        )
    versions = sorted({run.result.ssdbench_version for run in runs})
    if len(versions) > 1:
        yield f"measured by ssdbench {', '.join(versions)}, which have one method"
