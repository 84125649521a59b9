"""Options that several sub-commands share, and the types of their values."""

import math
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ssdbench.units import NS_PER_S, parse_duration_ns, parse_size

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    IntParameter = click.ParamType[int]
    FloatParameter = click.ParamType[float]
else:  # generic only since click 8.4
    IntParameter = FloatParameter = click.ParamType

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")


class Size(IntParameter):
    """Bytes, written as 4KiB or 1.5TiB."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Bytes of what was typed."""
        try:
            size = parse_size(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if size == 0:
            self.fail("a size must be larger than 0 bytes", param, ctx)
        return size


class Number(click.FloatRange):
    """A number above 0 (or from 0 on) and below a limit."""

    def __init__(self, *, zero: bool = False, most: float = 1e12) -> None:
        super().__init__(min=0, min_open=not zero, max=most)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number that was typed; `nan` is none."""
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


class Duration(FloatParameter):
    """Seconds, written as 90s or 2h."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Seconds of what was typed."""
        if isinstance(value, float):
            return value
        try:
            duration_ns = parse_duration_ns(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if duration_ns == 0:
            self.fail("a duration must be longer than 0 s", param, ctx)
        return duration_ns / NS_PER_S


def _profiles(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """Installed profiles by name, and files."""
    from ssdbench.cli.inputs import installed_profiles

    return _beginning(incomplete, installed_profiles())


def targets(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """Simulated drives, this host's whole drives, and files."""
    from ssdbench.host.sysfs import Sysfs, node_of
    from ssdbench.sim.modelfile import embedded_models

    drives = [node_of(name) for name in Sysfs().names("/sys/block")]
    return _beginning(incomplete, [*(f"sim:{name}" for name in embedded_models()), *drives])


def _beginning(incomplete: str, names: Iterable[str]) -> "list[CompletionItem]":
    from click.shell_completion import CompletionItem

    known = [CompletionItem(name) for name in names if name.startswith(incomplete)]
    return [CompletionItem(incomplete, type="file"), *known]  # click's bash forgets what was before


json_option = click.option(
    "--json", "as_json", is_flag=True, help="One JSON document on stdout, messages on stderr."
)
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
    help="/dev/…, a file or sim:MODEL; overrides the profile's target. Several targets are "
    "measured one after another, each into its own directory, unless --side-by-side finds that "
    "they do not disturb each other.",
)
budget_option = click.option(
    "--budget",
    "budget_s",
    type=Duration(),
    metavar="TIME",
    help="Make the best plan that likely fits into this time (12h), and end before it is over.",
)
target_argument = click.argument("target", metavar="TARGET", shell_complete=targets)
run_argument = click.argument("directory", metavar="RUN", type=click.Path(path_type=Path))
profile_argument = click.argument("profile", metavar="PROFILE", shell_complete=_profiles)


def consent_options(function: Callable[..., R]) -> Callable[..., R]:
    """--destroy and the options that override a refusal: given to `function` as one `consent`.

    --accept-wear, of `wear_options`, is part of it.
    """
    return _consented(function, several=False)


def consent_options_of_several(function: Callable[..., R]) -> Callable[..., R]:
    """The same where --destroy may name several drives: all are given as `identities`."""
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
        from ssdbench.model.target import Consent  # with pydantic, which --help can do without

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
            help="Treat a disk as one drive although it does not show that it is one, so that its "
            "numbers may be validated. A volume is never treated so.",
        ),
        click.option(
            "--accept-shared",
            is_flag=True,
            help="Allow a drive that other paths or hosts can reach; make sure that none of them "
            "uses it.",
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
            + " Once for each target." * several,
        ),
    ):
        agreed = option(agreed)
    return agreed


def wear_options(function: F) -> F:
    """--accept-wear and --endurance."""
    for option in (
        click.option(
            "--endurance",
            type=Number(),
            metavar="TBW",
            help="Rated endurance of the drive in TB written; overrides that of the profile.",
        ),
        click.option(
            "--accept-wear",
            is_flag=True,
            help="Allow writes of more than 1 % of the rated endurance, or any if it is unknown.",
        ),
    ):
        function = option(function)
    return function


def limits(function: F) -> F:
    """--max-time, --max-writes and --seed."""
    for option in (
        click.option("--seed", type=click.IntRange(min=0, max=2**63 - 1), help="Seed of the run."),
        click.option(
            "--max-writes", type=Size(), metavar="SIZE", help="End after writing this much."
        ),
        click.option(
            "--max-time", type=Duration(), metavar="D", help="End after this time (90s, 2h)."
        ),
    ):
        function = option(function)
    return function
