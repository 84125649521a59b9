"""Run a profile on several targets (`run --target … --target …`).

All targets are checked before the first one is touched. The targets are then measured one after
another, because drives that are measured at the same time share CPU, bus and heat. With
--side-by-side, a trial first measures whether the drives disturb each other. If the drives do not
disturb each other, they are measured at the same time, each by its own process.
"""

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from pathlib import Path

from pydantic import TypeAdapter

from ssdbench.cli import conduct
from ssdbench.cli.documents.runs import Ran
from ssdbench.cli.main import Place
from ssdbench.cli.options import RunOptions
from ssdbench.cli.output import answer, document, table, tell
from ssdbench.cli.run import show_work
from ssdbench.cli.signals import Signals
from ssdbench.cli.summary import run_document
from ssdbench.engine.store import RunStore
from ssdbench.errors import Interrupted, SsdbenchError, TargetRefused, UsageError
from ssdbench.foreign import json_object, read_regular
from ssdbench.host import command, processes
from ssdbench.host.files import make_directory, write_atomic
from ssdbench.host.lock import host_lock
from ssdbench.host.processes import shielded
from ssdbench.suite import interference
from ssdbench.suite.interference import Tried
from ssdbench.suite.plan import RunPlan, plan
from ssdbench.suite.request import RunRequest
from ssdbench.target.consent import lacking
from ssdbench.target.objection import Objection, options_of, way_out
from ssdbench.units import counted, format_duration

INTERRUPTED = 128  # an exit code above this is 128 + a signal
TRIAL = "side-by-side"  # directory in --output with the trial's rates and the logs of runs
LOOK_EVERY_S = 0.5
PUTTING_BACK_S = 60.0  # time that runs get to restore settings after a second signal


@dataclass(frozen=True, slots=True)
class OneOf:
    """The outcome of the run on one target."""

    target: str
    directory: Path
    exit_code: int
    ran: Ran | None = None  # None if an error ended the run
    error: str = ""


def run_each(
    wishes: RunRequest,
    targets: Sequence[str],
    identities: Sequence[str],
    output: Path | None,
    *,
    place: Place,
    side_by_side: bool,
    as_json: bool,
) -> int:
    """Run the same profile on each target; return the worst exit code.

    Only drives in `identities` may be erased. Raises SsdbenchError before any drive is touched.
    Later, an error of one drive does not stop the runs of the other drives, but a signal does.
    """
    wanted = [replace(wishes, target=target) for target in targets]
    each, planned = _allowed(wanted, identities)
    output = output or conduct.new_directory(wishes.profile_name, counted(len(each), "drive"))
    RunStore.require_new(output)
    tried: Tried | None = None
    with ExitStack() as held:
        if side_by_side:
            if not planned[0].target.simulated:
                held.enter_context(host_lock())
            tried = _tried(each, planned, output)
            tell(tried.says)
            each = [replace(one, beside=tried.says) for one in each]
        if tried and tried.side_by_side:
            done = _at_once(each, output, page=place.page)
        else:
            held.close()
            done = _in_turn(each, output, place, moving=not as_json and sys.stderr.isatty())
    _show(output, done, tried, as_json=as_json)
    return max(one.exit_code for one in done)


def _tried(each: Sequence[RunRequest], planned: Sequence[RunPlan], output: Path) -> Tried:
    """Decide, with a trial if needed, whether to measure the drives together; store the trial."""
    if why := interference.objection(planned):
        return Tried(side_by_side=False, says=f"one after another: {why}")
    if planned[0].target.simulated:
        return Tried(side_by_side=True, says=interference.SHARE_NOTHING)
    length = format_duration(interference.seconds(len(each)))
    tell(f"testing whether the drives disturb each other: only reads, for at most {length}")
    with Signals() as signals:
        tried = interference.trial(each, planned, output / TRIAL, interrupted=signals.pending)
    interference.store(tried, _evidence(output))
    return tried


def _evidence(output: Path) -> Path:
    return output / TRIAL / "trial.json"


def _in_turn(
    each: Sequence[RunRequest], output: Path, place: Place, *, moving: bool
) -> list[OneOf]:
    done: list[OneOf] = []
    for number, one in enumerate(each, start=1):
        tell(f"drive {number} of {len(each)}: {one.target}")
        done.append(_run(one, _directory(output, number, one), place, moving=moving))
        if done[-1].exit_code >= INTERRUPTED:
            left = ", ".join(other.target for other in each[number:])
            tell(f"not started: {left}" if left else "all targets were started")
            break
    return done


def _directory(output: Path, number: int, one: RunRequest) -> Path:
    return output / f"{number:02d}-{conduct.slug(one.target)}"


def _at_once(each: Sequence[RunRequest], output: Path, *, page: bool) -> list[OneOf]:
    """Start a process for each target and wait for all; a signal ends all runs cleanly."""
    make_directory(output / TRIAL)
    begun: list[tuple[RunRequest, Path, Path, command.Process]] = []
    with Signals() as signals:
        for number, one in enumerate(each, start=1):
            directory, words = _directory(output, number, one), output / TRIAL / f"{number:02d}"
            order = words.with_suffix(".order.json")
            write_atomic(order, TypeAdapter(RunRequest).dump_json(one, include=ORDERED))
            argv = [
                sys.executable, "-m", "ssdbench", "run", one.profile_name, "--target", one.target,
                "--output", str(directory), "--beside", str(order), "--json",
                *(["--page"] if page else []),
            ]  # fmt: skip
            said, log = words.with_suffix(".json"), words.with_suffix(".log")
            process = command.spawn(argv, stdout=said, stderr=log, env=processes.child_env())
            begun.append((one, directory, said, process))
            tell(f"drive {number} of {len(each)}: {one.target}; ssdbench attach {directory}")
        _lead([process for *_, process in begun], signals)
    return [
        _one_of(one, directory, said, process.wait() or 0)
        for one, directory, said, process in begun
    ]


def _lead(processes: Sequence[command.Process], signals: Signals) -> None:
    """Wait until the processes of all runs have ended; forward signals. Raises Interrupted.

    After a second signal the runs stop at once, but still restore host settings. The kernel kills
    the processes of the runs when this process ends, so this process waits for them.
    """
    told = 0
    try:
        while any(not process.ended(LOOK_EVERY_S) for process in processes):
            if (number := signals.pending()) is not None and not told:
                told = 1
                for process in processes:
                    process.send(number)
    except Interrupted as interrupted:
        with shielded():
            for _ in range(told, 2):
                for process in processes:
                    process.send(interrupted.signal_number)
                time.sleep(LOOK_EVERY_S)
            if not all(process.ended(PUTTING_BACK_S) for process in processes):
                interrupted.hint = "`ssdbench restore` restores the settings that they changed"
        raise


def _one_of(one: RunRequest, directory: Path, said: Path, status: int) -> OneOf:
    """Return the outcome of one drive, read from the output of its process."""
    code = status if status >= 0 else INTERRUPTED - status
    text = read_regular(said)
    try:
        return OneOf(one.target, directory, code, Ran.model_validate_json(text))
    except ValueError:
        pass
    try:
        error = str(json_object(text)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        error = f"its process ended with status {status}; see {said.with_suffix('.log')}"
    tell(f"error: {one.target}: {error}")
    return OneOf(one.target, directory, code, error=error)


# The parts of a request that the process of one target reads from a file, not from options.
ORDERED = {*RunOptions.__annotations__, "argv", "beside"}


def ordered(profile: str, target: str, order: Path) -> RunRequest:
    """Return the options that `run --side-by-side` stored in file `order`. Raises UsageError."""
    if processes.side_by_side_leader() is None:
        raise UsageError("--beside is for the processes of `run --side-by-side` only")
    wishes = conduct.asked(profile, target=target)
    own = {field.name: getattr(wishes, field.name) for field in fields(wishes)}
    return TypeAdapter(RunRequest).validate_python(own | json_object(read_regular(order)))


def _allowed(
    each: Sequence[RunRequest], identities: Sequence[str]
) -> tuple[list[RunRequest], list[RunPlan]]:
    """Return each request with the consent for its drive. Raises TargetRefused, UsageError."""
    allowed: list[RunRequest] = []
    every: list[RunPlan] = []
    seen: dict[str, str] = {}
    found: list[tuple[str, Objection]] = []
    for one in each:
        planned = plan(one)
        every.append(planned)
        info = planned.target
        if info.id in seen:
            raise UsageError(
                f"{seen[info.id]} and {one.target} are the same drive, {info.id}",
                hint="Name each drive once.",
            )
        seen[info.id] = one.target
        own = info.consent_id if info.consent_id in identities else None
        consent = one.consent.model_copy(update={"identity": own})
        lacks = lacking(info, consent, wear=planned.wear, destroys=planned.destroys)
        found += [(info.name, objection) for objection in lacks]
        allowed.append(replace(one, consent=consent))
    named = {planned.target.consent_id for planned in every}
    if others := [identity for identity in identities if identity not in named]:
        raise UsageError(
            f"--destroy {others[0]} is not the identity of any of these targets",
            hint="`ssdbench drives` shows the identity of each drive.",
        )
    if found:
        objections = [objection for _, objection in found]
        raise TargetRefused(
            f"{len({name for name, _ in found})} of {counted(len(each), 'target')}",
            [f"{name}: {objection.reason}" for name, objection in found],
            hint=way_out(objections),
            options=options_of(objections),
        )
    return allowed, every


def _run(one: RunRequest, directory: Path, place: Place, *, moving: bool) -> OneOf:
    try:
        ended = show_work(lambda heard: conduct.run(one, directory, heard), place, moving=moving)
    except SsdbenchError as error:
        tell(f"error: {one.target}: {error.message}")
        return OneOf(one.target, directory, error.exit_code, error=error.message)
    return OneOf(one.target, directory, ended.exit_code, run_document(ended))


def _show(output: Path, done: Sequence[OneOf], tried: Tried | None, *, as_json: bool) -> None:
    if as_json:
        from ssdbench.cli.documents.runs import RanOne, RanSeveral, SideBySide

        runs = tuple(
            RanOne.of(one, directory=str(one.directory), error=one.error or None) for one in done
        )
        evidence = str(_evidence(output)) if tried and tried.turns else None
        trial = SideBySide.of(tried, evidence=evidence) if tried else None
        document(RanSeveral(directory=str(output), runs=runs, trial=trial))
        return
    rows = [
        (one.target, one.ran.verdict if one.ran else one.error, str(one.directory)) for one in done
    ]
    answer(table(("target", "verdict", "run"), rows))
    tell(f"to evaluate the runs together: ssdbench merge {output}")
