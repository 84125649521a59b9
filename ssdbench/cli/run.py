"""`ssdbench run` and `ssdbench resume`."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ssdbench.cli.main import Place
from ssdbench.cli.options import (
    Duration,
    Size,
    budget_option,
    consent_options,
    consent_options_of_several,
    json_option,
    limits,
    profile_argument,
    run_argument,
    targets_option,
    wear_options,
)
from ssdbench.cli.output import answer, document, tell
from ssdbench.errors import UsageError
from ssdbench.foreign import write_whole
from ssdbench.host.files import unwritable
from ssdbench.units import counted, format_capacity

if TYPE_CHECKING:
    from ssdbench.cli.background import Child, Parent
    from ssdbench.cli.conduct import Audience, Ended
    from ssdbench.model.target import Consent
    from ssdbench.suite.request import RunRequest


@click.command("run")
@profile_argument
@targets_option
@click.option(
    "--output", type=click.Path(path_type=Path), metavar="DIR", help="Run directory to make."
)
@consent_options_of_several
@wear_options
@click.option(
    "--plan",
    "plan_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A file from `plan --output`: refuse a target that has changed since then.",
)
@click.option(
    "--detach",
    is_flag=True,
    help="Run in the background, without this terminal; see attach and stop.",
)
@click.option(
    "--attach-or-start",
    is_flag=True,
    help="Make sure that the run in --output is done once, however often this command is called: "
    "return a finished run, wait for a run at work, continue a run that was cut off, otherwise "
    "start it. The exit code is the run's. A run of another profile, target or seed is refused.",
)
@click.option(
    "--side-by-side",
    is_flag=True,
    help="With several targets: first try whether they disturb each other (10 rounds of reads, "
    "each alone and all together, with a 95 % interval). If none loses 1 % of its rate or more, "
    "measure them at the same time; otherwise measure one after another, and say how much the "
    "rate fell.",
)
@click.option("--beside", type=click.Path(path_type=Path), hidden=True, help="One of those.")
@click.option("--as-worker", is_flag=True, hidden=True, help="Do the work of --attach-or-start.")
@click.option(
    "--export-jobs",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Run nothing: write the job files of the run for plain fio into this new directory, with "
    "a README that says what is lost without ssdbench.",
)
@budget_option
@limits
@json_option
@click.pass_obj
def run(
    place: Place,
    profile: str,
    named: tuple[str, ...],
    output: Path | None,
    *,
    consent: "Consent",
    identities: tuple[str, ...],
    endurance: float | None,
    plan_file: Path | None,
    detach: bool,
    attach_or_start: bool,
    side_by_side: bool,
    beside: Path | None,
    as_worker: bool,
    export_jobs: Path | None,
    budget_s: float | None,
    max_time: float | None,
    max_writes: int | None,
    seed: int | None,
    as_json: bool,
) -> int:
    """Prepare a target, measure it, judge the results and write the report.

    PROFILE is a file, or the name of a shipped profile: demo, quick, pessimistic.
    """
    only = bool(detach or attach_or_start or plan_file or export_jobs)
    identities = tuple(dict.fromkeys(identities))
    _require_one(named, identities, only=only, side_by_side=side_by_side)
    child = None
    if beside is not None and output is not None:
        return _beside(profile, named[0], output, beside, place)
    if export_jobs is not None and (detach or attach_or_start or output is not None or as_json):
        raise click.UsageError("--export-jobs runs nothing: leave out the options of a run")
    _require_output(output, attach_or_start=attach_or_start)
    if detach or attach_or_start:
        from ssdbench.cli.background import Parent

        side = _other_side(output if attach_or_start else None, as_worker=as_worker, detach=detach)
        if isinstance(side, Parent) and detach:
            return _detached(side.directory, side.exit_code, as_json=as_json)
        if isinstance(side, Parent):
            return _attached(side.directory, side.exit_code, as_json=as_json)
        child = side
    from ssdbench.cli import conduct  # everything heavy comes with it
    from ssdbench.engine.stage import Limits

    wishes = conduct.asked(
        profile,
        target=named[0] if named else None,
        seed=seed,
        limits=Limits(max_time, max_writes),
        consent=consent,
        endurance_tb=endurance,
        budget_s=budget_s,
        plan_file=plan_file,
    )
    if export_jobs is not None:
        return _export_jobs(wishes, export_jobs)
    if len(named) > 1:
        from ssdbench.cli.several import run_each

        return run_each(
            wishes,
            named,
            identities,
            output,
            place=place,
            side_by_side=side_by_side,
            as_json=as_json,
        )
    if consent.identity is None and not as_json and child is None and sys.stdin.isatty():
        wishes = _typed_consent(wishes)
    directory = output or conduct.new_directory(profile, wishes.target_name)
    if attach_or_start and child is not None:
        return _work(wishes, directory, place, child)
    return carry_out(
        lambda audience: conduct.run(wishes, directory, audience),
        place=place,
        child=child,
        as_json=as_json,
    )


def _beside(profile: str, target: str, output: Path, order: Path, place: Place) -> int:
    """Do one of several runs side by side, for the process that leads them."""
    from ssdbench.cli import conduct
    from ssdbench.cli.several import ordered

    wishes = ordered(profile, target, order)
    return carry_out(lambda heard: conduct.run(wishes, output, heard), place=place, as_json=True)


def _require_one(
    named: tuple[str, ...], identities: tuple[str, ...], *, only: bool, side_by_side: bool
) -> None:
    """Raise click.UsageError for several targets where there can be one, and likewise consents."""
    if side_by_side and len(named) < 2:
        raise click.UsageError("--side-by-side needs several --target")
    if only and len(named) > 1:
        raise click.UsageError(
            "--detach, --attach-or-start, --export-jobs and --plan take one --target: call once "
            "for each drive"
        )
    targets = max(1, len(named))
    if len(identities) > targets:
        raise click.UsageError(
            f"--destroy is given {len(identities)} times for {counted(targets, 'target')}"
        )


def _require_output(output: Path | None, *, attach_or_start: bool) -> None:
    if attach_or_start and output is None:
        raise click.UsageError("--attach-or-start needs --output, which every call must name")


def _other_side(output: Path | None, *, as_worker: bool, detach: bool) -> "Parent | Child":
    """Fork or attach; `output` is given for --attach-or-start only."""
    from ssdbench.cli import background
    from ssdbench.cli.attachorstart import call

    if output is None:
        return background.detach()
    return background.Child() if as_worker else call(output.absolute(), wait=not detach)


def _work(wishes: "RunRequest", directory: Path, place: Place, child: "Child") -> int:
    """Do what the run in a directory still needs, unless another process does."""
    from ssdbench.cli import attachorstart, conduct
    from ssdbench.engine.stage import Limits
    from ssdbench.suite.run import is_target

    directory = directory.absolute()
    try:
        with attachorstart.turn(directory):
            kept = None
            if attachorstart.begun_before(directory):
                kept = attachorstart.require_same_work(
                    directory,
                    profile_text=wishes.profile_text,
                    seed=wishes.seed,
                    budget_s=wishes.budget_s,
                    is_target=lambda name, identity: is_target(wishes, name, identity),
                )
                if attachorstart.is_over(directory):
                    code = attachorstart.end_of(directory)
                    child.let_go(directory)
                    return code
                attachorstart.require_known(directory, kept)
            attachorstart.forget_the_end(directory)
            limits = wishes.limits if wishes.limits != Limits() else None
            return carry_out(
                lambda audience: (
                    conduct.run(wishes, directory, audience)
                    if kept is None
                    else conduct.resume(
                        directory, limits, audience, wishes.consent, kept=kept, repeated=True
                    )
                ),
                place=place,
                child=child,
                as_json=False,
            )
    except attachorstart.Lost as lost:
        return lost.exit_code


def _export_jobs(wishes: "RunRequest", directory: Path) -> int:
    from ssdbench.host.files import require_utf8
    from ssdbench.suite.export import exported

    require_utf8(Path(wishes.profile_name), "the profile's name")  # the README tells it
    files = exported(wishes)
    _store_jobs(files, directory)
    answer(str(directory))
    tell(f"{len(files) - 1} job files; README.md says what is lost without ssdbench")
    return 0


def _typed_consent(wishes: "RunRequest") -> "RunRequest":
    """Ask for the identity on a terminal, after showing what would be destroyed.

    Refusals that need an option are raised before.
    """
    from dataclasses import replace

    from ssdbench.suite.plan import plan as planned_run
    from ssdbench.target.consent import NAMELESS, against, lacking, needed
    from ssdbench.target.objection import refuse

    plan = planned_run(wishes)
    info = plan.target
    if not needed(info) or not plan.destroys:
        return wishes
    agreed = wishes.consent.model_copy(update={"identity": info.consent_id})
    if lacking(info, agreed, wear=plan.wear):
        refuse(info.name, lacking(info, wishes.consent, wear=plan.wear))
    tell(f"{info.name}: {info.model or info.kind.value}, {format_capacity(info.size_bytes)}")
    tell(f"its identity: {info.consent_id}")
    if info.content:
        tell(NAMELESS)
    for overridden in against(info):
        tell(f"overridden: {overridden.reason}")
    tell("everything on it would be destroyed")
    tell(plan.wear.sentence)
    typed = click.prompt("type its identity to go on", err=True, default="", show_default=False)
    return replace(wishes, consent=agreed.model_copy(update={"identity": typed}))


def carry_out(
    work: "Callable[[Audience], Ended]",
    *,
    place: Place,
    child: "Child | None" = None,
    as_json: bool,
) -> int:
    """Do a run's work, show its events, print its answer; return the exit code."""
    from ssdbench.cli.conduct import Audience
    from ssdbench.cli.progress import event_display

    def started(directory: Path) -> None:
        place.run_directory = directory
        if child:
            child.started(directory)

    moving = child is None and not as_json and sys.stderr.isatty()
    with event_display(moving=moving) as shown:
        ended = work(Audience(shown.show, started))
    return tell_end(ended, as_json=as_json)


def tell_end(ended: "Ended", *, as_json: bool) -> int:
    """Print the answer of a run that ended; returns its exit code."""
    from ssdbench.cli.summary import run_document, run_lines

    if as_json:
        document(run_document(ended))
    else:
        for line in run_lines(ended):
            answer(line)
    return ended.exit_code


def _attached(directory: Path | None, exit_code: int, *, as_json: bool) -> int:
    if directory is None:
        return exit_code
    from ssdbench.model import rundirectory

    report = directory / rundirectory.REPORT
    if as_json:
        from ssdbench.cli.documents.runs import Attached

        document(Attached(directory=str(directory), exit_code=exit_code, report=str(report)))
    elif report.exists():
        answer(f"report: {report}")
    return exit_code


def _detached(directory: Path | None, exit_code: int, *, as_json: bool) -> int:
    if directory is None:
        return exit_code
    if as_json:
        from ssdbench.cli.documents.runs import Detached

        document(
            Detached(
                directory=str(directory),
                attach=["ssdbench", "attach", str(directory)],
                stop=["ssdbench", "stop", str(directory)],
            )
        )
        return 0
    answer(str(directory))
    tell(f"follow it: ssdbench attach {directory}")
    tell(f"end it:    ssdbench stop {directory}")
    return 0


@click.command("resume")
@run_argument
@click.option(
    "--max-time",
    type=Duration(),
    metavar="D",
    help="End when the run has taken this time in total.",
)
@click.option(
    "--max-writes",
    type=Size(),
    metavar="SIZE",
    help="End when the run has written this many bytes in total.",
)
@consent_options
@json_option
@click.pass_obj
def resume(
    place: Place,
    directory: Path,
    *,
    max_time: float | None,
    max_writes: int | None,
    consent: "Consent",
    as_json: bool,
) -> int:
    """Continue a run after a crash, a signal or a limit; no finished measurement is repeated.

    A finished run is not changed: its result is shown, with its exit code.

    A run that root started on this host needs no second consent, unless something other than the
    run has changed the data on the drive since then. Any other run on a drive or a file needs
    --destroy again when root continues it: a run directory alone is no consent.
    """
    from ssdbench.cli import conduct
    from ssdbench.cli.background import PROCESS, worker
    from ssdbench.engine.stage import Limits
    from ssdbench.errors import UsageError

    if (directory / PROCESS).exists() and worker(directory).alive():
        raise UsageError(
            f"process {worker(directory).pid} is still at work on {directory}",
            hint=f"Follow it: ssdbench attach {directory}",
        )
    if (over := conduct.finished(directory)) is not None:
        tell(f"{directory} is finished: nothing is left to measure, and nothing was changed")
        return tell_end(over, as_json=as_json)
    given = max_time is not None or max_writes is not None
    limits = Limits(max_time, max_writes) if given else None
    return carry_out(
        lambda audience: conduct.resume(directory, limits, audience, consent),
        place=place,
        as_json=as_json,
    )


def _store_jobs(files: Mapping[str, str], directory: Path) -> None:
    """Write the files into a directory that is made, or is empty. Raises UsageError, HostLacks."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise UsageError(f"{directory} is not empty", hint="name a new directory")
        for name, text in files.items():
            write_whole(directory / name, text.encode())
    except (FileExistsError, NotADirectoryError) as error:
        raise UsageError(f"{directory} is no directory", hint="name a new directory") from error
    except OSError as error:
        raise unwritable(directory, error) from error
