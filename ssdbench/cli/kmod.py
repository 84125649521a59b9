"""Build, load and unload the bundled kernel modules on this host."""

import platform
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ssdbench import __version__
from ssdbench.cli.options import json_option
from ssdbench.cli.output import answer, document, tell
from ssdbench.errors import HostLacks, UsageError
from ssdbench.host import kmod as modules
from ssdbench.host.kernel_source import release_of
from ssdbench.host.kmod import ModuleState
from ssdbench.host.sysfs import Sysfs

SOURCES = "/usr/src"  # here dkms searches for sources


@click.group()
def kmod() -> None:
    """Build, load and unload the bundled kernel modules.

    Every sub-command takes --json.
    """


@kmod.command()
@click.option(
    "--kernel",
    default="",
    help="Kernel release to build for. Default: the release of the kernel headers.",
)
@click.option(
    "--headers",
    default="",
    help="Kernel build directory (KDIR). Default: the headers of --kernel or of the running "
    "kernel.",
)
@click.option(
    "--block-source", default="",
    help="Kernel source directory with block/ (KSRC). Without it, the I/O schedulers are not "
    "built.",
)  # fmt: skip
@json_option
def build(kernel: str, headers: str, block_source: str, *, as_json: bool) -> None:
    """Build the modules for a kernel, and say why a module cannot be built."""
    from ssdbench.cli.lab import Steps

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
        {"name": path.stem, "built": str(path), "note": modules.note(path.stem, into) or None}
        for path in built.files
    ]
    rows += [{"name": name, "lacking": why} for name, why in built.lacking.items()]
    _print_modules(rows, as_json=as_json)


@kmod.command()
@click.option("--to", "into", default=SOURCES, help="Directory for the sources.")
@json_option
def dkms(into: str, *, as_json: bool) -> None:
    """Write the sources for DKMS, one package per module. Installs nothing.

    DKMS then builds and signs the modules.
    """
    at = Path(into or SOURCES).absolute()  # dkms runs in another directory
    trees = modules.dkms_trees(modules.source_directory(), at, __version__)
    where = "" if at == Path(SOURCES) else f" --sourcetree {shlex.quote(str(at))}"
    then = [f"dkms install {package}/{__version__}{where}" for package in trees]
    if as_json:
        from ssdbench.cli.documents.machine import Modules

        sources = [str(tree) for tree in trees.values()]
        document(Modules(sources=str(at), packages=tuple(sources), next="; ".join(then)))
    else:
        for tree, command in zip(trees.values(), then, strict=True):
            answer(f"sources: {tree}  next: {command}")


@kmod.command()
@click.argument("names", nargs=-1)
@json_option
def load(names: tuple[str, ...], *, as_json: bool) -> None:
    """Load modules and the modules that they need. Default: all modules that were built."""
    chosen = _chosen(tuple(modules.with_needs(_known(names))))
    reasons = modules.obstacles(Sysfs())
    if reasons:
        raise HostLacks(
            ["this host cannot load kernel modules:", *reasons],
            hint="`ssdbench lab run -- COMMAND` runs COMMAND in a guest that has the modules.",
        )
    if not any(state.loaded or state.built or names for state in chosen):
        raise modules.unbuilt()
    for state in chosen:
        if not state.loaded and (state.built is not None or names):
            modules.load(state)
    loaded = [state for state in _states() if state.loaded]
    _print_modules([{"name": state.name, "loaded": True} for state in loaded], as_json=as_json)


@kmod.command()
@click.argument("names", nargs=-1)
@json_option
def unload(names: tuple[str, ...], *, as_json: bool) -> None:
    """Unload modules. Default: all modules of ssdbench."""
    gone, chosen = [], _chosen(_known(names))
    modules.require_unused([state for state in chosen if state.loaded], Sysfs())
    for state in reversed(chosen):
        if state.loaded:
            modules.unload(state, Sysfs())
        if state.loaded or names:
            gone.append({"name": state.name, "loaded": False})
    if not gone:
        tell("no module of ssdbench is loaded")
    _print_modules(gone, as_json=as_json)


@kmod.command()
@json_option
def status(*, as_json: bool) -> None:
    """Show which modules are built, loaded and in use, and why this host cannot load modules."""
    rows = [
        {
            "name": state.name,
            "built": str(state.built) if state.built else None,
            "loaded": state.loaded,
            "users": state.users,
            "note": (modules.note(state.name, modules.built_directory()) or None)
            if state.built
            else None,
        }
        for state in _states()
    ]
    _print_modules(rows, modules.obstacles(Sysfs()), as_json=as_json, whole=True)


def _known(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names. Raises UsageError for a name that is not a module of ssdbench."""
    unknown = set(names) - set(modules.MODULES)
    if unknown:
        raise UsageError(
            f"there is no module {', '.join(sorted(unknown))}",
            hint=f"The modules are {', '.join(modules.MODULES)}.",
        )
    return names


def _states() -> list[ModuleState]:
    return modules.states(Sysfs(), modules.built_directory())


def _chosen(names: tuple[str, ...]) -> list[ModuleState]:
    """Return the states of the named modules; if no module is named, of all modules."""
    return [state for state in _states() if not names or state.name in names]


def _print_modules(
    rows: Sequence[dict[str, Any]],
    obstacles: Sequence[str] = (),
    *,
    as_json: bool,
    whole: bool = False,
) -> None:
    """Print a line per module; with `whole`, a module that is not built has `built: no`."""
    if as_json:
        from ssdbench.cli.documents.machine import Module, Modules

        made = tuple(Module(**row) for row in rows)
        document(Modules(modules=made, obstacles=tuple(obstacles)))
        return
    for row in rows:
        if "lacking" in row:
            answer(f"not built: {row['name']}: {row['lacking']}")
            continue
        parts = [f"name: {row['name']}"]
        if whole or row.get("built"):
            parts.append(f"built: {row['built'] or 'no'}")
        if "loaded" in row:
            parts.append(f"loaded: {'yes' if row['loaded'] else 'no'}")
        if row.get("users") is not None:
            parts.append(f"users: {row['users']}")
        answer("  ".join(parts))
        if row.get("note"):
            answer(f"note: {row['name']}: {row['note']}")
    for reason in obstacles:
        answer(f"obstacle: {reason}")
