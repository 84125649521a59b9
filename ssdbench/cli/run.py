"""Start a run (`run`), or continue it (`resume`)."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from ssdbench.cli.attach import tell_followed
from ssdbench.cli.main import Place
from ssdbench.cli.options import (
    DURATION,
    PATH,
    SIZE,
    RunOptions,
    budget_option,
    consent_options,
    consent_options_of_several,
    json_option,
    limits,
    output_option,
    page_option,
    planning_options,
    profile_argument,
    run_argument,
    targets_option,
    wear_options,
)
from ssdbench.cli.output import answer, document, tell
from ssdbench.errors import UsageError
from ssdbench.foreign import write_whole
from ssdbench.host.files import unwritable
from ssdbench.model.rundirectory import LIVE
from ssdbench.units import counted, format_capacity

if TYPE_CHECKING:
    from ssdbench.cli.background import Child, Parent
    from ssdbench.cli.conduct import Audience, Ended
    from ssdbench.model.target import Consent
    from ssdbench.suite.request import RunRequest


@click.command("run")
@profile_argument
@targets_option
@output_option
@consent_options_of_several
@wear_options
@click.option(
    "--plan",
    "plan_file",
    type=PATH,
    metavar="FILE",
    help="File that `plan --output` wrote; the run refuses a target that has changed since then.",
)
@click.option(
    "--detach",
    is_flag=True,
    help="Run in the background, independent of this terminal; see attach and stop.",
)
@click.option(
    "--attach-or-start",
    is_flag=True,
    help="Do the run in --output exactly once, even if this command is called again. If the run "
    "has finished, print its result; if it is in progress, wait for it; if it was interrupted, "
    "continue it; otherwise start it. Exit with the exit code of the run. A directory with a run "
    "of another profile, target or seed is refused.",
)
@click.option(
    "--side-by-side",
    is_flag=True,
    help="With several targets: first try whether they disturb each other (10 rounds of reads, "
    "each alone and all together, with a 95 % interval). If no target loses 1 % of its rate or "
    "more, measure all at the same time. Otherwise measure them one after another, and print how "
    "much the rate fell.",
)
@click.option("--beside", type=PATH, hidden=True, help="Be one run of --side-by-side.")
@click.option("--as-worker", is_flag=True, hidden=True, help="Do the work of --attach-or-start.")
@click.option(
    "--export-jobs",
    type=PATH,
    metavar="DIR",
    help="Measure nothing. Write job files for plain fio into this new directory, with a README "
    "that says which checks plain fio does not make.",
)
@budget_option
@planning_options
@limits
@page_option
@json_option
@click.pass_obj
def run(
    place: Place,
    profile: str,
    named: tuple[str, ...],
    output: Path | None,
    *,
    identities: tuple[str, ...],
    plan_file: Path | None,
    detach: bool,
    attach_or_start: bool,
    side_by_side: bool,
    beside: Path | None,
    as_worker: bool,
    export_jobs: Path | None,
    page: bool,
    as_json: bool,
    **given: Unpack[RunOptions],
) -> int:
    """Prepare a target, measure it, judge the results and write the report.

    PROFILE is a file, or the name of a shipped profile such as demo, quick or pessimistic.
    """
    only = bool(detach or attach_or_start or plan_file or export_jobs)
    identities = tuple(dict.fromkeys(identities))
    place.page = page
    _require_one(named, identities, only=only, side_by_side=side_by_side)
    child = None
    if beside is not None and output is not None:
        return _beside(profile, named[0], output, beside, place)
    if export_jobs is not None and (
        detach or attach_or_start or output is not None or as_json or page
    ):
        raise click.UsageError("--export-jobs measures nothing: leave out the options of a run")
    if detach or attach_or_start:
        from ssdbench.cli.background import Parent

        side = _other_side(
            output, attach_or_start=attach_or_start, as_worker=as_worker, detach=detach
        )
        if isinstance(side, Parent):
            if side.directory is None:
                return side.exit_code
            tell_parent = partial(_tell_detached, page=page) if detach else tell_followed
            return tell_parent(side.directory, side.exit_code, as_json=as_json)
        child = side
    from ssdbench.cli import conduct  # imports numpy and pydantic, so not earlier

    target = named[0] if named else None
    wishes = conduct.asked(profile, target=target, plan_file=plan_file, **given)
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
    if wishes.consent.identity is None and not as_json and child is None and sys.stdin.isatty():
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
    """Carry out the run of one of several targets that are measured at once; return its exit code.

    Other processes carry out the runs on the other targets. The process that started them all reads
    the answer of each, which is JSON.
    """
    from ssdbench.cli import conduct
    from ssdbench.cli.several import ordered

    wishes = ordered(profile, target, order)
    return carry_out(lambda heard: conduct.run(wishes, output, heard), place=place, as_json=True)


def _require_one(
    named: tuple[str, ...], identities: tuple[str, ...], *, only: bool, side_by_side: bool
) -> None:
    """Raise click.UsageError for too many targets, or for more identities than targets."""
    if side_by_side and len(named) < 2:
        raise click.UsageError("--side-by-side needs several --target")
    if only and len(named) > 1:
        raise click.UsageError(
            "--detach, --attach-or-start, --export-jobs and --plan take only one --target: call "
            "the command once for each drive"
        )
    targets = max(1, len(named))
    if len(identities) > targets:
        raise click.UsageError(
            f"--destroy is given {len(identities)} times for {counted(targets, 'target')}"
        )


def _other_side(
    output: Path | None, *, attach_or_start: bool, as_worker: bool, detach: bool
) -> "Parent | Child":
    """Fork for --detach, or attach to the run in `output` or start it; return parent or child."""
    from ssdbench.cli import background
    from ssdbench.cli.attachorstart import call

    if not attach_or_start:
        return background.detach()
    if output is None:
        raise click.UsageError("--attach-or-start needs --output, the same in every call")
    return background.Child() if as_worker else call(output.absolute(), wait=not detach)


def _work(wishes: "RunRequest", directory: Path, place: Place, child: "Child") -> int:
    """Do the remaining work of a run; if another process does the run, end with EXIT_LOST."""
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
                    max_wear_percent=wishes.max_wear_percent
                    or wishes.profile.plan.max_wear_percent,
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

    require_utf8(Path(wishes.profile_name), "the profile's name")  # the README names it
    files = exported(wishes)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise UsageError(f"the directory {directory} is not empty", hint="name a new directory")
        for name, text in files.items():
            write_whole(directory / name, text.encode())
    except (FileExistsError, NotADirectoryError) as error:
        raise UsageError(f"{directory} is not a directory", hint="name a new directory") from error
    except OSError as error:
        raise unwritable(directory, error) from error
    answer(str(directory))
    tell(f"{len(files) - 1} job files; README.md says which checks plain fio does not make")
    return 0


def _typed_consent(wishes: "RunRequest") -> "RunRequest":
    """Show what would be destroyed, and ask the user to type the identity of the drive.

    If the drive needs another option in addition to --destroy, raise TargetRefused without asking.
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
    """Do a run by calling `work`, show its events, print the answer; return the exit code."""
    moving = child is None and not as_json and sys.stderr.isatty()
    return tell_end(show_work(work, place, child=child, moving=moving), as_json=as_json)


def show_work(
    work: "Callable[[Audience], Ended]",
    place: Place,
    *,
    child: "Child | None" = None,
    moving: bool,
) -> "Ended":
    """Carry out a run by calling `work`, and show its events; with a progress bar if `moving`."""
    from ssdbench.cli.conduct import Audience
    from ssdbench.cli.progress import event_display

    def started(directory: Path) -> None:
        place.run_directory = directory
        if child:
            child.started(directory)

    with event_display(moving=moving) as shown:
        return work(Audience(shown.show, started, place.page))


def tell_end(ended: "Ended", *, as_json: bool) -> int:
    """Print the answer of a run that ended; return its exit code."""
    from ssdbench.cli.summary import run_document, run_lines

    if as_json:
        document(run_document(ended))
    else:
        for line in run_lines(ended):
            answer(line)
    return ended.exit_code


def _tell_detached(directory: Path, exit_code: int, *, page: bool, as_json: bool) -> int:
    """Print the directory of a run in the background, and the commands to follow and to stop it."""
    attach, stop = (["ssdbench", word, str(directory)] for word in ("attach", "stop"))
    if as_json:
        from ssdbench.cli.documents.runs import Detached

        document(Detached(directory=str(directory), attach=attach, stop=stop))
    else:
        answer(str(directory))
        if page:
            tell(f"live page: {directory / LIVE}")
        tell(f"to follow the run: {' '.join(attach)}")
        tell(f"to stop the run:   {' '.join(stop)}")
    return exit_code


@click.command("resume")
@run_argument
@click.option(
    "--max-time",
    type=DURATION,
    metavar="D",
    help="End when the run has taken this time in total.",
)
@click.option(
    "--max-writes",
    type=SIZE,
    metavar="SIZE",
    help="End when the run has written this many bytes in total.",
)
@consent_options
@page_option
@json_option
@click.pass_obj
def resume(
    place: Place,
    directory: Path,
    *,
    max_time: float | None,
    max_writes: int | None,
    consent: "Consent",
    page: bool,
    as_json: bool,
) -> int:
    """Continue a run after a crash, a signal or a limit; no finished measurement is repeated.

    If the run has already finished, nothing changes: its result is shown, with its exit code.

    If root started the run on this host, --destroy is not needed again, unless another program has
    changed the data on the drive since then. Any other run on a drive or a file needs --destroy
    again when root continues it, because a run directory does not prove consent.
    """
    from ssdbench.cli import conduct
    from ssdbench.cli.background import PROCESS, worker
    from ssdbench.engine.stage import Limits
    from ssdbench.errors import UsageError

    if (directory / PROCESS).exists() and worker(directory).alive():
        raise UsageError(
            f"process {worker(directory).pid} is still doing the run in {directory}",
            hint=f"To follow the run: ssdbench attach {directory}",
        )
    if (over := conduct.finished(directory)) is not None:
        tell(f"the run in {directory} is finished: nothing is left to measure")
        return tell_end(over, as_json=as_json)
    place.page = page
    given = max_time is not None or max_writes is not None
    limits = Limits(max_time, max_writes) if given else None
    return carry_out(
        lambda audience: conduct.resume(directory, limits, audience, consent),
        place=place,
        as_json=as_json,
    )
