"""Read the runs of a lot of drives, and refuse runs that must not be merged.

Files from other hosts are not trusted, so each file is checked when it is read, and each result is
compared with the hashes in its journal.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

from ssdbench.engine.journal import RESULT_SHA256, Kind, Record, believed_records, is_unended
from ssdbench.engine.store import checksum_of
from ssdbench.errors import UsageError
from ssdbench.foreign import read_regular, real
from ssdbench.model.loading import profile_hash
from ssdbench.model.result import METHOD, RunResult
from ssdbench.model.rundirectory import JOURNAL, MANIFEST, RESULT, STAGES, UNIT_RECORD
from ssdbench.report.read import StoredRun
from ssdbench.units import counted, parse_moment

MOST_RUNS = 100_000  # of one lot
MOST_DEPTH = 6  # of directories below a named directory
CLOCK_OFF = timedelta(days=1)  # by which the clocks of two hosts may differ
SAME_TIME = timedelta(days=7)  # within which the conditions of a lot are assumed to be the same


@dataclass(frozen=True, slots=True)
class Gathered:
    """Hold the runs of one lot, in the order in which they were found."""

    runs: tuple[StoredRun, ...]
    notes: tuple[str, ...]  # for the reader of the merged result

    @property
    def results(self) -> tuple[RunResult, ...]:
        """Return the result of each run of the lot."""
        return tuple(run.result for run in self.runs)


def gathered(places: Sequence[Path]) -> Gathered:
    """Read the named run directories, and all runs below other named directories.

    Raises UsageError if one of the runs must not be merged with the others.
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
    """Raise UsageError if two lots share a drive or were measured by different methods."""
    _require_drives([*first.runs, *second.runs])
    _require_one_method([first.runs[0], second.runs[0]])


def run_directories(places: Sequence[Path]) -> Iterator[Path]:
    """Yield named runs, and runs below named directories. Raises UsageError if no run is found."""
    seen: dict[Path, Path] = {}
    for place in places:
        found = [place] if _is_run(place) else list(_below(place, MOST_DEPTH))
        if not found:
            raise UsageError(
                f"{place} has no run", hint="Name run directories, or a directory above them."
            )
        for directory in found:
            if (known := real(directory)) in seen:
                raise UsageError(
                    f"{directory} is named twice, also as {seen[known]}", hint="Name each run once."
                )
            seen[known] = directory
            yield directory


def _is_run(directory: Path) -> bool:
    return any((directory / name).is_file() for name in (MANIFEST, JOURNAL, RESULT))


def _below(directory: Path, depth: int) -> Iterator[Path]:
    """Yield the runs below a directory, sorted by name; symbolic links are not followed."""
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
    """Read a finished run; also return whether a hash in its journal proves the result.

    Raises UsageError for a run that is not complete, is damaged, or has impossible times.
    """
    if not (directory / JOURNAL).is_file():
        raise UsageError(
            f"{directory} is not a complete run directory: it has no {JOURNAL}",
            hint="Copy the whole directory of the run.",
        )
    if is_unended(directory):
        raise _unended(directory)
    records, damaged = believed_records(directory)
    if damaged is not None or not records:
        raise UsageError(
            f"{directory / JOURNAL}:{damaged or 1}:1: the journal is damaged, so nothing proves "
            "the result",
            hint="Copy the run again, or leave it out and report that.",
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
    """Return whether a journal hash proves the result. Raises UsageError for a wrong hash."""
    begun, stored = records[0].data, run.directory / RESULT
    if begun.get("target") != run.result.target.id or begun.get("run_id") != run.result.run_id:
        raise _damaged(stored, "it belongs to another run than the journal beside it")
    finished = {(r.stage, r.unit): r for r in records if r.kind is Kind.FINISHED and r.unit}
    for record in finished.values():
        noted = record.data.get("crc32")
        relative = f"{STAGES}/{record.stage}/{record.unit}/{UNIT_RECORD}"
        path = run.path(relative)
        if noted is not None and (path is None or checksum_of(path) != noted):
            raise _damaged(run.directory / relative, "its checksum is not the one in the journal")
    last = next(record for record in reversed(records) if record.kind is Kind.ENDED)
    proof = last.data.get(RESULT_SHA256)
    if proof is not None and sha256(read_regular(stored)).hexdigest() != proof:
        raise _damaged(stored, "its SHA-256 is not the one in the journal")
    return proof is not None


def _unended(directory: Path) -> UsageError:
    return UsageError(
        f"{directory} did not end, so it has no complete result",
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
    """Raise UsageError for impossible times, which a wrong or changed clock of the host causes."""
    times = [_moment(record.at) for record in records]
    began = _moment(result.started_at)
    known = [time for time in times if time is not None]
    if began is None or len(known) < len(times):
        raise _damaged(directory / RESULT, "a time in it or in the journal is not a time")
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
            hint="Set the clock that is wrong; if the other host's is wrong, measure again.",
        )


def _moment(text: str) -> datetime | None:
    try:
        return parse_moment(text)
    except ValueError:
        return None


def _require_drives(runs: Sequence[StoredRun]) -> None:
    """Raise UsageError if two runs measured the same drive, even under two names."""
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
    """Return the identity of a simulated drive without its seed.

    A seed decides when random events happen in a simulated drive, but not how fast its flash is. So
    two simulated drives that differ only in their seed are taken as one drive.
    """
    return re.sub(r"(?<=,)seed=[0-9]+,|,seed=[0-9]+$", "", identity)


def _one_drive(first: StoredRun, second: StoredRun) -> UsageError:
    one, two = first.result, second.result
    same = (one.run_id, one.started_at, one.seed) == (two.run_id, two.started_at, two.seed)
    if same and one.target.id == two.target.id:
        what, hint = "hold the same run", "Leave one out."
    elif one.target.id == two.target.id:
        what = f"are of one drive, {one.target.id}"
        hint = "Each drive counts once: name only one of its runs, and report the other one."
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
    ours = runs[0].result.target
    for run in runs:
        drive = run.result.target
        if (drive.model, drive.size_bytes) != (ours.model, ours.size_bytes):
            raise UsageError(
                f"{runs[0].directory} and {run.directory} are of different models or sizes: "
                f"{ours.model}, {ours.size_bytes:,} bytes and {drive.model}, "
                f"{drive.size_bytes:,} bytes",
                hint="Merge drives of one model and size; `ssdbench compare` takes any two drives.",
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
                f"{both} are of a simulated drive and a real drive, which must not be mixed",
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
            f"{unproven} of {len(runs)} results have no hash in the journal, so nothing proves "
            "that they are unchanged"
        )
    began = sorted(time for run in runs if (time := _moment(run.result.started_at)))
    if began and (apart := began[-1] - began[0]) > SAME_TIME:
        yield (
            f"the runs began up to {apart.days} days apart by the clocks of their hosts: "
            "conditions may have changed, or a clock is wrong"
        )
    versions = sorted({run.result.ssdbench_version for run in runs})
    if len(versions) > 1:
        yield f"measured by ssdbench {', '.join(versions)}, which have the same method"
