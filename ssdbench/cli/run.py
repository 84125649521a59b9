"""`ssdbench run`."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ssdbench.cli.main import Place
from ssdbench.cli.options import (
    budget_option,
    consent_options,
    json_option,
    limits,
    profile_argument,
    target_option,
    wear_options,
)
from ssdbench.cli.output import answer, document, tell
from ssdbench.units import format_capacity

if TYPE_CHECKING:
    from ssdbench.cli.background import Child
    from ssdbench.cli.conduct import Audience, Ended
    from ssdbench.model.consent import Consent
    from ssdbench.suite.asked import Asked


@click.command("run")
@profile_argument
@target_option
@click.option(
    "--output", type=click.Path(path_type=Path), metavar="DIR", help="Run directory to make."
)
@consent_options
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
@budget_option
@limits
@json_option
@click.pass_obj
def command(
    place: Place,
    profile: str,
    target: str | None,
    output: Path | None,
    *,
    consent: "Consent",
    endurance: float | None,
    plan_file: Path | None,
    detach: bool,
    budget_s: float | None,
    max_time: float | None,
    max_writes: int | None,
    seed: int | None,
    as_json: bool,
) -> int:
    """Prepare a target, measure it, judge the results and write the report.

    PROFILE is a file, or the name of a shipped profile: demo, quick, pessimistic.
    """
    child = None
    if detach:
        from ssdbench.cli.background import Parent
        from ssdbench.cli.background import detach as fork

        side = fork()
        if isinstance(side, Parent):
            return _detached(side.directory, side.exit_code, as_json=as_json)
        child = side
    from ssdbench.cli import conduct  # everything heavy comes with it
    from ssdbench.engine.stage import Limits

    wishes = conduct.asked(
        profile,
        target=target,
        seed=seed,
        limits=Limits(max_time, max_writes),
        consent=consent,
        endurance_tb=endurance,
        budget_s=budget_s,
        plan_file=plan_file,
    )
    if consent.identity is None and not as_json and child is None and sys.stdin.isatty():
        wishes = _typed_consent(wishes)
    directory = output or conduct.new_directory(profile, wishes.target_name)
    return carry_out(
        lambda audience: conduct.run(wishes, directory, audience),
        place=place,
        child=child,
        as_json=as_json,
    )


def _typed_consent(wishes: "Asked") -> "Asked":
    """On a terminal the identity may be typed, once all that it would cost is shown.

    Only consent may be typed: what an option must override is refused before anybody is asked.
    """
    from dataclasses import replace

    from ssdbench.suite.plan import plan as planned_run
    from ssdbench.target.consent import against, lacking, needed
    from ssdbench.target.objection import refuse

    plan = planned_run(wishes)
    info = plan.target
    if not needed(info) or not plan.destroys:
        return wishes
    agreed = wishes.consent.model_copy(update={"identity": info.id})
    if lacking(info, agreed, wear=plan.wear):
        refuse(info.name, lacking(info, wishes.consent, wear=plan.wear))
    tell(f"{info.name}: {info.model or info.kind.value}, {format_capacity(info.size_bytes)}")
    tell(f"its identity: {info.id}")
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
    """Do a run's work, tell its story, print its answer; returns the exit code."""
    from ssdbench.cli.conduct import Audience
    from ssdbench.cli.progress import story
    from ssdbench.cli.summary import run_document, run_lines

    def started(directory: Path) -> None:
        place.run_directory = directory
        if child:
            child.started(directory)

    moving = child is None and not as_json and sys.stderr.isatty()
    with story(moving=moving) as shown:
        ended = work(Audience(shown.show, started))
    if as_json:
        document(run_document(ended))
    else:
        for line in run_lines(ended):
            answer(line)
    return ended.exit_code


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
