"""Define options that several sub-commands share, and the types of their values."""

import math
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

import click

from ssdbench.units import NS_PER_S, parse_duration_ns, parse_percent, parse_size

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from ssdbench.engine.stage import Limits
    from ssdbench.model.profile import Rated
    from ssdbench.model.target import Consent

    FloatParameter = click.ParamType[float]
else:  # click has the generic class only since 8.4
    FloatParameter = click.ParamType

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")
RATED = "random_write_iops=200k,sequential_write=3.5GB/s,tbw=7008TB"
PATH = click.Path(path_type=Path)


class RunOptions(TypedDict, total=False):
    """The values of options of a run, by the names that `RunRequest` has for them."""

    consent: "Consent"
    seed: int | None
    limits: "Limits"
    endurance_tb: float | None
    rated: "Rated"
    max_wear_percent: float | None
    budget_s: float | None


class Quantity(FloatParameter):
    """A number with a unit; `parse` raises ValueError with a sentence for the user."""

    def __init__(self, name: str, parse: Callable[[str], float]) -> None:
        self.name, self._parse = name, parse

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the value as its Python type, or fail with a sentence."""
        try:
            return self._parse(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _size_bytes(text: str) -> int:
    if not (size := parse_size(text)):
        raise ValueError("a size must be larger than 0 bytes")
    return size


def _percent(text: str) -> float:
    if not 0 < (percent := parse_percent(text)) <= 100:
        raise ValueError(f"a share is above 0% and at most 100%, got {text!r}")
    return percent


def _duration_s(text: str) -> float:
    if not (duration_ns := parse_duration_ns(text)):
        raise ValueError("a duration must be longer than 0 s")
    return duration_ns / NS_PER_S


SIZE = Quantity("size", _size_bytes)  # such as 4KiB or 1.5TiB
PERCENT = Quantity("percent", _percent)  # such as 1% or 0.5%
DURATION = Quantity("duration", _duration_s)  # such as 90s or 2h


class Number(click.FloatRange):
    """A number above 0 (or at least 0, with `zero`) up to `most`."""

    def __init__(self, *, zero: bool = False, most: float = 1e12) -> None:
        super().__init__(min=0, min_open=not zero, max=most)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the value as a number; fail for NaN and numbers out of range."""
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


def _profiles(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    from ssdbench.cli.inputs import installed_profiles

    return _beginning(incomplete, installed_profiles())


def targets(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """Return the shell completions of a target: simulated models, drives of this host, files."""
    from ssdbench.host.sysfs import Sysfs, node_of
    from ssdbench.sim.modelfile import embedded_models

    drives = [node_of(name) for name in Sysfs().names("/sys/block")]
    return _beginning(incomplete, [*(f"sim:{name}" for name in embedded_models()), *drives])


def _beginning(incomplete: str, names: Iterable[str]) -> "list[CompletionItem]":
    from click.shell_completion import CompletionItem

    known = [CompletionItem(name) for name in names if name.startswith(incomplete)]
    # The file type comes first, because click's bash script drops the items before it.
    return [CompletionItem(incomplete, type="file"), *known]


json_option = click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one JSON document on stdout, and messages on stderr.",
)
page_option = click.option(
    "--page",
    is_flag=True,
    help="Keep a page that follows the run: live.html in the run directory. The browser loads it "
    "again by itself. It shows stage, rate so far, time left, findings and results so far. Making "
    "the page takes at most 0.1 % of the time of one CPU.",
)
output_option = click.option("--output", type=PATH, metavar="DIR", help="Run directory to make.")
html_option = click.option("--html", type=PATH, help="Also write an HTML page to this file.")


def csv_option(of: str) -> Callable[[F], F]:
    """Return the option --csv for a table; `of` is a noun for the content of a row."""
    said = f"Also write a CSV file with a row for each {of}."
    return click.option("--csv", "csv_file", type=PATH, help=said)


target_option = click.option(
    "--target",
    metavar="T",
    shell_complete=targets,
    help="/dev/…, a file or sim:MODEL; overrides the profile's target.",
)
targets_option = click.option(
    "--target",
    "named",
    metavar="T",
    multiple=True,
    shell_complete=targets,
    help="/dev/…, a file or sim:MODEL; overrides the profile's target. May be given several "
    "times: the targets are then measured one after another, each into its own directory, unless "
    "--side-by-side finds that they do not disturb each other.",
)


def _rated(ctx: click.Context, param: click.Parameter, value: str | None) -> "Rated":
    """Return the numbers of a data sheet in `--rated NAME=FIGURE,…`. Raises click.BadParameter."""
    from pydantic import ValidationError

    from ssdbench.model.loading import mistake_in_words
    from ssdbench.model.profile import Rated  # imports pydantic, which --help does not need

    figures: dict[str, str] = {}
    for word in (value or "").split(",") if value is not None else ():
        name, equals, figure = (part.strip() for part in word.partition("="))
        if not equals:
            raise click.BadParameter(f"{word!r} is not NAME=FIGURE, such as {RATED}", ctx, param)
        if name in figures:
            raise click.BadParameter(f"{name} is given twice", ctx, param)
        figures[name] = figure
    known = [field.alias or name for name, field in Rated.model_fields.items()]
    if unknown := [name for name in figures if name not in known]:
        message = f"a data sheet has no {unknown[0]!r} here; known are {', '.join(known)}"
        raise click.BadParameter(message, ctx, param)
    try:
        return Rated.model_validate(figures)
    except ValidationError as error:
        said = mistake_in_words(error.errors(include_url=False)[0])
        raise click.BadParameter(said, ctx, param) from error


def planning_options(function: F) -> F:
    """Add the options --rated and --max-wear to a command."""
    for option in (
        click.option(
            "--max-wear",
            "max_wear_percent",
            type=PERCENT,
            metavar="SHARE",
            help="Make the best plan that likely writes at most this share of the rated endurance, "
            "such as 1%. The run ends before it writes more. It needs `--rated tbw=…` or "
            "--endurance, unless the drive itself counts its wear.",
        ),
        click.option(
            "--rated",
            callback=_rated,
            metavar="NAME=FIGURE,…",
            help="Figures of the data sheet, for the plan and never for a result: "
            "random_write_iops=200k, random_read_iops=1M, sequential_write=3.5GB/s, tbw=7008TB. "
            "They override the figures of the profile.",
        ),
    ):
        function = option(function)
    return function


budget_option = click.option(
    "--budget",
    "budget_s",
    type=DURATION,
    metavar="TIME",
    help="Time for the whole run (12h): make the best plan that likely fits into it, and end "
    "the run before the time is over.",
)
target_argument = click.argument("target", metavar="TARGET", shell_complete=targets)
run_argument = click.argument("directory", metavar="RUN", type=PATH)
profile_argument = click.argument("profile", metavar="PROFILE", shell_complete=_profiles)


def consent_options(function: Callable[..., R]) -> Callable[..., R]:
    """Add --destroy and the options that override a refusal; the command gets them as `consent`.

    `consent` also contains --accept-wear; `wear_options` adds this option to the command.
    """
    return _consented(function, several=False)


def consent_options_of_several(function: Callable[..., R]) -> Callable[..., R]:
    """Add the same options for several drives; the command gets all --destroy as `identities`."""
    return _consented(function, several=True)


def _consented(function: Callable[..., R], *, several: bool) -> Callable[..., R]:
    @wraps(function)
    def agreed(
        *args: Any,
        destroy: str | tuple[str, ...] | None,
        overwrite_signatures: bool,
        overwrite_data: bool,
        accept_shared: bool,
        accept_unproven: bool,
        accept_wear: bool = False,
        **others: Any,
    ) -> R:
        from ssdbench.model.target import Consent  # imports pydantic, which --help does not need

        if isinstance(destroy, tuple):
            others["identities"] = destroy
            destroy = destroy[0] if destroy else None
        consent = Consent(
            identity=destroy,
            overwrite=overwrite_signatures,
            data=overwrite_data,
            shared=accept_shared,
            unproven=accept_unproven,
            wear=accept_wear,
        )
        return function(*args, consent=consent, **others)

    for option in (
        click.option(
            "--accept-unproven",
            is_flag=True,
            help="Treat a disk as a single drive although nothing proves it, so that its numbers "
            "can be validated. This does not work for volumes.",
        ),
        click.option(
            "--accept-shared",
            is_flag=True,
            help="Allow a drive that other paths or hosts can reach. First make sure that no other "
            "host uses the drive.",
        ),
        click.option(
            "--overwrite-data",
            is_flag=True,
            help="Overwrite data that has no known signature and that ssdbench did not write.",
        ),
        click.option(
            "--overwrite-signatures",
            is_flag=True,
            help="Overwrite partition tables and file systems that are not in use.",
        ),
        click.option(
            "--destroy",
            metavar="ID",
            multiple=several,
            help="Allow ssdbench to erase the drive with identity ID."
            + " Give it once for each target." * several,
        ),
    ):
        agreed = option(agreed)
    return agreed


seed_option = click.option(
    "--seed",
    type=click.IntRange(min=0, max=2**63 - 1),
    help="Seed of the random numbers, to repeat a run with the same offsets and order.",
)
_endurance_option = click.option(
    "--endurance",
    "endurance_tb",
    type=Number(),
    metavar="TBW",
    help="Rated endurance of the drive in TB written; overrides the value in the profile.",
)
_wear_option = click.option(
    "--accept-wear",
    is_flag=True,
    help="Allow the run to write more than 1 % of the rated endurance, or to write at all if the "
    "endurance is unknown.",
)
_writes_option = click.option(
    "--max-writes",
    type=SIZE,
    metavar="SIZE",
    help="End the run after it has written this much.",
)
_time_option = click.option(
    "--max-time", type=DURATION, metavar="D", help="End the run after this time (2h)."
)


def wear_options(function: F) -> F:
    """Add the options --accept-wear and --endurance to a command."""
    return _wear_option(_endurance_option(function))


def limits(function: Callable[..., R]) -> Callable[..., R]:
    """Add --seed, --max-time and --max-writes; the command gets the last two as `limits`."""

    @wraps(function)
    def limited(*args: Any, max_time: float | None, max_writes: int | None, **others: Any) -> R:
        from ssdbench.engine.stage import Limits  # also imports pydantic

        return function(*args, limits=Limits(max_time, max_writes), **others)

    return _time_option(_writes_option(seed_option(limited)))
