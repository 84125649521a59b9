"""`run` with several targets: all are checked before the first is touched, then one by one.

One after another, since drives that work at the same time share CPU, bus and heat: each would be a
disturbance of the others. With --side-by-side a trial decides first; then each is a process of its
own, under our lock of the host.
"""

import json
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ssdbench.cli import conduct
from ssdbench.cli.conduct import Audience
from ssdbench.cli.documents.runs import Ran
from ssdbench.cli.main import Place
from ssdbench.cli.output import answer, document, table, tell
from ssdbench.cli.progress import event_display
from ssdbench.cli.signals import Signals
from ssdbench.cli.summary import run_document
from ssdbench.engine.stage import Limits
from ssdbench.engine.store import RunStore
from ssdbench.errors import Interrupted, SsdbenchError, TargetRefused, UsageError
from ssdbench.foreign import json_object, read_regular
from ssdbench.host import command, processes
from ssdbench.host.files import make_directory, write_atomic
from ssdbench.host.lock import host_lock
from ssdbench.host.processes import shielded
from ssdbench.model.target import Consent
from ssdbench.suite import interference
from ssdbench.suite.interference import Tried
from ssdbench.suite.plan import RunPlan, plan
from ssdbench.target.consent import lacking
from ssdbench.target.objection import Objection, options_of, way_out
from ssdbench.units import counted, format_duration

if TYPE_CHECKING:
    from ssdbench.suite.request import RunRequest

INTERRUPTED = 128  # exit codes from here on are those of signals
TRIAL = "side-by-side"  # below --output: the evidence of the trial, and what its runs say
LOOK_EVERY_S = 0.5
PUTTING_BACK_S = 60.0  # for runs that are told to stop at once


@dataclass(frozen=True, slots=True)
class OneOf:
    """The outcome of one target."""

    target: str
    directory: Path
    exit_code: int
    ran: Ran | None = None  # None where an error ended it
    error: str = ""


def run_each(
    wishes: "RunRequest",
    targets: Sequence[str],
    identities: Sequence[str],
    output: Path | None,
    *,
    place: Place,
    side_by_side: bool,
    as_json: bool,
) -> int:
    """Run the same profile on each target, into a directory each; the worst exit code counts.

    `identities` are those that may be destroyed. Raises SsdbenchError before anything is touched;
    an error of one drive later does not keep the others from being measured, a signal does.
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
            done = _at_once(each, output)
        else:
            held.close()
            done = _in_turn(each, output, place, moving=not as_json and sys.stderr.isatty())
    _show(output, done, tried, as_json=as_json)
    return max(one.exit_code for one in done)


def _tried(each: "Sequence[RunRequest]", planned: Sequence[RunPlan], output: Path) -> Tried:
    """Decide whether drives may be measured at once, by a trial if needed; its rates are stored."""
    if why := interference.objection(planned):
        return Tried(side_by_side=False, says=f"one after another: {why}")
    if planned[0].target.simulated:
        return Tried(side_by_side=True, says=interference.SHARE_NOTHING)
    length = format_duration(interference.seconds(len(each)))
    tell(f"trying whether the drives disturb each other: reads only, for at most {length}")
    with Signals() as signals:
        tried = interference.trial(each, planned, output / TRIAL, interrupted=signals.pending)
    interference.store(tried, _evidence(output))
    return tried


def _evidence(output: Path) -> Path:
    return output / TRIAL / "trial.json"


def _in_turn(
    each: "Sequence[RunRequest]", output: Path, place: Place, *, moving: bool
) -> list[OneOf]:
    done: list[OneOf] = []
    for number, one in enumerate(each, start=1):
        tell(f"drive {number} of {len(each)}: {one.target}")
        done.append(_run(one, _directory(output, number, one), place, moving=moving))
        if done[-1].exit_code >= INTERRUPTED:
            left = ", ".join(other.target for other in each[number:])
            tell(f"not begun: {left}" if left else "that was the last one")
            break
    return done


def _directory(output: Path, number: int, one: "RunRequest") -> Path:
    return output / f"{number:02d}-{conduct.slug(one.target)}"


def _at_once(each: "Sequence[RunRequest]", output: Path) -> list[OneOf]:
    """Run a process for each target; a signal ends all of them cleanly."""
    make_directory(output / TRIAL)
    begun: list[tuple[RunRequest, Path, Path, command.Process]] = []
    with Signals() as signals:
        for number, one in enumerate(each, start=1):
            directory, words = _directory(output, number, one), output / TRIAL / f"{number:02d}"
            order = words.with_suffix(".order.json")
            write_atomic(order, json.dumps(_order(one)))
            argv = [
                sys.executable, "-m", "ssdbench", "run", one.profile_name, "--target", one.target,
                "--output", str(directory), "--beside", str(order), "--json",
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
    """Wait for the end of all; a signal that we get is theirs, too. Raises Interrupted.

    At the second they stop at once, and still put back what they set: when we end, the kernel kills
    them.
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
                interrupted.hint = "`ssdbench restore` restores what they left changed"
        raise


def _one_of(one: "RunRequest", directory: Path, said: Path, status: int) -> OneOf:
    """What became of a drive, from what its process said."""
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


def _order(one: "RunRequest") -> dict[str, object]:
    """Return what a process needs besides the profile and its target."""
    return {
        "consent": one.consent.model_dump(),
        "limits": asdict(one.limits),
        "seed": one.seed,
        "endurance_tb": one.endurance_tb,
        "budget_s": one.budget_s,
        "argv": one.argv,
        "beside": one.beside,
    }


def ordered(profile: str, target: str, order: Path) -> "RunRequest":
    """Return the request that the leading process stored. Raises UsageError without one."""
    if processes.side_by_side_leader() is None:
        raise UsageError("--beside is for the processes of `run --side-by-side` only")
    told = json_object(read_regular(order))
    wishes = conduct.asked(
        profile,
        target=target,
        seed=told["seed"],
        limits=Limits(**told["limits"]),
        consent=Consent.model_validate(told["consent"]),
        endurance_tb=told["endurance_tb"],
        budget_s=told["budget_s"],
    )
    return replace(wishes, argv=tuple(told["argv"]), beside=told["beside"])


def _allowed(
    each: "Sequence[RunRequest]", identities: Sequence[str]
) -> "tuple[list[RunRequest], list[RunPlan]]":
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
                f"{seen[info.id]} and {one.target} are one drive, {info.id}",
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
            f"--destroy {others[0]} names none of these targets",
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


def _run(one: "RunRequest", directory: Path, place: Place, *, moving: bool) -> OneOf:
    def started(begun: Path) -> None:
        place.run_directory = begun

    try:
        with event_display(moving=moving) as shown:
            ended = conduct.run(one, directory, Audience(shown.show, started))
    except SsdbenchError as error:
        tell(f"error: {one.target}: {error.message}")
        return OneOf(one.target, directory, error.exit_code, error=error.message)
    return OneOf(one.target, directory, ended.exit_code, run_document(ended))


def _show(output: Path, done: Sequence[OneOf], tried: Tried | None, *, as_json: bool) -> None:
    if as_json:
        from ssdbench.cli.documents.runs import RanOne, RanSeveral, SideBySide

        runs = tuple(
            RanOne(
                target=one.target,
                directory=str(one.directory),
                exit_code=one.exit_code,
                error=one.error or None,
                ran=one.ran,
            )
            for one in done
        )
        trial = (
            None
            if tried is None
            else SideBySide(
                side_by_side=tried.side_by_side,
                says=tried.says,
                evidence=str(_evidence(output)) if tried.turns else None,
            )
        )
        document(RanSeveral(directory=str(output), runs=runs, trial=trial))
        return
    rows = [
        (one.target, one.ran.verdict if one.ran else one.error, str(one.directory)) for one in done
    ]
    answer(table(("target", "verdict", "run"), rows))
    tell(f"to see what the runs say together: ssdbench merge {output}")
