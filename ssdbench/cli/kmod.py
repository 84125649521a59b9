"""`ssdbench kmod`: the bundled kernel modules on this host; never touched at install time."""

import platform
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ssdbench.cli.output import answer, document, tell

if TYPE_CHECKING:  # the command line imports late
    from ssdbench.cli.documents.machine import Module
    from ssdbench.host.kmod import ModuleState

SOURCES = "/usr/src"  # where dkms looks


@click.group()
def kmod() -> None:
    """Build, load and unload the bundled kernel modules.

    Every sub-command takes --json.
    """


def _built() -> Path:
    from ssdbench.host import kmod as modules

    return modules.built_directory()


@kmod.command()
@click.option(
    "--kernel", default="", help="Kernel release to build for; default: the release of the headers."
)
@click.option(
    "--headers",
    default="",
    help="Kernel build directory (KDIR); default: that for --kernel, or for the running kernel.",
)
@click.option(
    "--block-source", default="",
    help="Kernel source directory with block/ (KSRC): without it the schedulers are left out.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def build(kernel: str, headers: str, block_source: str, *, as_json: bool) -> None:
    """Build the modules for a kernel, and say why a module cannot be built."""
    from ssdbench.cli.documents.machine import Module
    from ssdbench.cli.lab import Steps
    from ssdbench.errors import UsageError
    from ssdbench.host import kmod as modules
    from ssdbench.host.kernel_source import release_of

    at = Path(headers or f"/lib/modules/{kernel or platform.release()}/build").absolute()
    of_headers = release_of(at)
    release = kernel or of_headers or platform.release()
    if of_headers not in (None, release):
        raise UsageError(f"the headers in {at} are for Linux {of_headers}, not for {release}")
    into = modules.directory_of(release)
    with Steps("kmod"):
        built = modules.build(
            modules.source_directory(),
            into,
            headers=at,
            block_source=Path(block_source).absolute() if block_source else None,
            release=kernel if headers else release,
        )
    rows = [
        Module(name=path.stem, built=str(path), note=modules.note(path.stem, into) or None)
        for path in built.files
    ]
    rows += [Module(name=name, lacking=why) for name, why in built.lacking.items()]
    _say(rows, as_json=as_json)


@kmod.command()
@click.option("--to", "into", default=SOURCES, help="Directory for the sources.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def dkms(into: str, *, as_json: bool) -> None:
    """Write the sources for DKMS, which builds and signs them; this command installs nothing.

    Each module is a package of its own.
    """
    from ssdbench import __version__
    from ssdbench.cli.documents.machine import Modules
    from ssdbench.host import kmod as modules

    at = Path(into or SOURCES).absolute()  # dkms looks from elsewhere
    trees = modules.dkms_trees(modules.source_directory(), at, __version__)
    where = "" if at == Path(SOURCES) else f" --sourcetree {shlex.quote(str(at))}"
    then = [f"dkms install {package}/{__version__}{where}" for package in trees]
    if as_json:
        sources = [str(tree) for tree in trees.values()]
        document(Modules(sources=str(at), packages=tuple(sources), next="; ".join(then)))
    else:
        for tree, command in zip(trees.values(), then, strict=True):
            answer(f"sources: {tree}  next: {command}")


@kmod.command()
@click.argument("names", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def load(names: tuple[str, ...], *, as_json: bool) -> None:
    """Load modules, and the modules that they need (default: all that were built)."""
    from ssdbench.cli.documents.machine import Module
    from ssdbench.errors import HostLacks
    from ssdbench.host import kmod as modules
    from ssdbench.host.sysfs import Sysfs

    chosen = _chosen(tuple(modules.with_needs(_known(names))))
    reasons = modules.obstacles(Sysfs())
    if reasons:
        raise HostLacks(
            ["no module can be loaded here:", *reasons],
            hint="`ssdbench lab run -- COMMAND` runs COMMAND in a guest that has the modules.",
        )
    if not any(state.loaded or state.built or names for state in chosen):
        raise modules.unbuilt()
    for state in chosen:
        if not state.loaded and (state.built is not None or names):
            modules.load(state)
    status_of = [state for state in modules.states(Sysfs(), _built()) if state.loaded]
    _say([Module(name=state.name, loaded=True) for state in status_of], as_json=as_json)


@kmod.command()
@click.argument("names", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def unload(names: tuple[str, ...], *, as_json: bool) -> None:
    """Unload modules (default: all modules of ssdbench)."""
    from ssdbench.cli.documents.machine import Module
    from ssdbench.host import kmod as modules
    from ssdbench.host.sysfs import Sysfs

    gone, chosen = [], _chosen(_known(names))
    modules.require_unused([state for state in chosen if state.loaded], Sysfs())
    for state in reversed(chosen):
        if state.loaded:
            modules.unload(state, Sysfs())
        if state.loaded or names:
            gone.append(Module(name=state.name, loaded=False))
    if not gone:
        tell("none of the modules is loaded")
    _say(gone, as_json=as_json)


@kmod.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def status(*, as_json: bool) -> None:
    """Show what is built, loaded and in use, and why this host could not load a module."""
    from ssdbench.cli.documents.machine import Module
    from ssdbench.host import kmod as modules
    from ssdbench.host.sysfs import Sysfs

    rows = [
        Module(
            name=state.name,
            built=str(state.built) if state.built else None,
            loaded=state.loaded,
            users=state.users,
            note=(modules.note(state.name, _built()) or None) if state.built else None,
        )
        for state in modules.states(Sysfs(), _built())
    ]
    _say(rows, modules.obstacles(Sysfs()), as_json=as_json, whole=True)


def _known(names: tuple[str, ...]) -> tuple[str, ...]:
    from ssdbench.errors import UsageError
    from ssdbench.host import kmod as modules

    unknown = set(names) - set(modules.MODULES)
    if unknown:
        raise UsageError(
            f"there is no module {', '.join(sorted(unknown))}",
            hint=f"There are {', '.join(modules.MODULES)}.",
        )
    return names


def _chosen(names: tuple[str, ...]) -> "list[ModuleState]":
    from ssdbench.host import kmod as modules
    from ssdbench.host.sysfs import Sysfs

    states = modules.states(Sysfs(), _built())
    return [state for state in states if not names or state.name in names]


def _say(
    rows: "Sequence[Module]",
    obstacles: Sequence[str] = (),
    *,
    as_json: bool,
    whole: bool = False,
) -> None:
    """The modules; `whole` says of each also what it is not."""
    from ssdbench.cli.documents.machine import Modules

    if as_json:
        document(Modules(modules=tuple(rows), obstacles=tuple(obstacles)))
        return
    for row in rows:
        built = row.built or "no"
        if row.lacking is not None:
            answer(f"not built: {row.name}: {row.lacking}")
            continue
        parts = [f"name: {row.name}"]
        parts += [f"built: {built}"] if whole or row.built else []
        parts += [] if row.loaded is None else [f"loaded: {'yes' if row.loaded else 'no'}"]
        parts += [] if row.users is None else [f"users: {row.users}"]
        answer("  ".join(parts))
        if row.note:
            answer(f"note: {row.name}: {row.note}")
    for reason in obstacles:
        answer(f"obstacle: {reason}")
