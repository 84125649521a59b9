"""What the commands that look into a drive share: options, the plan told, the run."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, TypeVar

import click

from ssdbench.cli.main import Place
from ssdbench.cli.options import consent_options, json_option, wear_options
from ssdbench.cli.output import tell

if TYPE_CHECKING:
    from ssdbench.cli.conduct import Ended
    from ssdbench.model.target import Consent

R = TypeVar("R")


class Agreed(TypedDict):
    """What the user agrees to, and the seed, as the options are called."""

    consent: "Consent"
    endurance: float | None
    seed: int | None


def look_options(function: Callable[..., R]) -> Callable[..., R]:
    """--output, consent, wear, --seed and --json."""
    output = click.option(
        "--output", type=click.Path(path_type=Path), metavar="DIR", help="Run directory to make."
    )
    seed = click.option(
        "--seed", type=click.IntRange(min=0, max=2**63 - 1), help="Seed of the offsets."
    )
    return output(consent_options(wear_options(seed(json_option(function)))))


def look(
    place: Place, name: str, profile_text: str, target: str, output: Path | None, agreed: Agreed
) -> "Ended":
    """Run a profile of our own on a target, after saying what it will write and why so."""
    import sys

    from ssdbench.cli import conduct
    from ssdbench.cli.progress import story
    from ssdbench.errors import ProfileError, UsageError
    from ssdbench.model.loading import load_profile
    from ssdbench.suite.asked import Asked
    from ssdbench.suite.plan import plan
    from ssdbench.units import format_capacity

    try:
        wishes = Asked(
            profile=load_profile(profile_text, name),
            profile_name=name,
            profile_text=profile_text,
            target=target,
            argv=tuple(sys.argv),
            seed=agreed["seed"],
            consent=agreed["consent"],
            endurance_tb=agreed["endurance"],
        )
        planned = plan(wishes)
    except ProfileError as error:  # its places are in a text that the user never saw
        raise UsageError([one.reason for one in error.diagnostics]) from error
    least, most = planned.bytes_written
    tell(f"will write {format_capacity(least)} to {target}, at most {format_capacity(most)}")
    for note in (note for stage in planned.stages for note in stage.notes):
        tell(f"  {note}")
    directory = output or conduct.new_directory(name, target)

    def started(path: Path) -> None:
        place.run_directory = path

    with story(moving=False) as shown:
        return conduct.run(wishes, directory, conduct.Audience(shown.show, started))
