"""Check what this host lacks (`check`), and restore settings that a run changed (`restore`)."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ssdbench.cli.options import json_option, targets
from ssdbench.cli.output import answer, document
from ssdbench.errors import SsdbenchError
from ssdbench.units import format_capacity

if TYPE_CHECKING:
    from ssdbench.cli.documents.machine import Checked, SettingChange
    from ssdbench.engine.preflight import HostState, Requirement
    from ssdbench.model.target import TargetInfo
    from ssdbench.tuning.journal import Change


PROGRAMS = ("setpriv", "taskset", "wipefs", "lsblk")


@click.command("check")
@click.argument("target", required=False, shell_complete=targets)
@json_option
def check(target: str | None, as_json: bool) -> int:
    """Show what is missing on this host, and what makes it noisy, for TARGET or for any target.

    Without TARGET, also show which programs each command lacks, and how to install them.

    With TARGET, also show everything that the target reports: identity, capacity, formats, link,
    power, write cache, health. The exit code is 4 if something is missing, and 0 if the host is
    only noisy.
    """
    from ssdbench.engine.preflight import Grade, requirements
    from ssdbench.suite.installed import installed
    from ssdbench.target.inspect import inspect

    info = inspect(target) if target else None
    needs = requirements(_state(info), info)
    missing = any(requirement.grade is Grade.MISSING for requirement in needs)
    if as_json:
        document(_document(needs, info))
    else:
        for requirement in needs:
            hint = f"  ({requirement.hint})" if requirement.hint else ""
            answer(f"{requirement.grade.value:<8} {requirement.name}: {requirement.said}{hint}")
        if info:
            answer("")
            for name, value in _target_facts(info).items():
                answer(f"{name}: {value}")
        else:
            answer("")
            for one in installed():
                lacks = f"lacks {', '.join(one.missing)}; to install: {one.install}"
                answer(f"{one.command}: {lacks if one.missing else 'all programs are installed'}")
    return 4 if missing else 0


def _target_facts(info: "TargetInfo") -> dict[str, str]:
    found = {
        "id": info.consent_id,
        "kind": info.kind.value,
        "model": info.model,
        "serial": info.serial,
        "firmware": info.firmware,
        "size": f"{format_capacity(info.size_bytes)} ({info.size_bytes} bytes)",
        "blocks": f"{info.logical_block_bytes} bytes logical, {info.physical_block_bytes} physical",
        **dict(sorted(info.facts.items())),
    }
    return {name: value for name, value in found.items() if value}


def _document(needs: "Sequence[Requirement]", info: "TargetInfo | None") -> "Checked":
    from ssdbench.cli.documents.machine import Checked, CommandPrograms
    from ssdbench.engine.preflight import Grade
    from ssdbench.suite.installed import installed

    return Checked(
        ready=all(one.grade is not Grade.MISSING for one in needs),
        requirements=tuple(needs),
        commands=None if info else tuple(map(CommandPrograms.of, installed())),
        target=info,
    )


def _state(info: "TargetInfo | None") -> "HostState":
    from ssdbench.engine.preflight import HostState, engine_obstacles, zones_lacking
    from ssdbench.generator.fio.driver import OLDEST
    from ssdbench.host import command as programs
    from ssdbench.host.facts import free_bytes, host_facts
    from ssdbench.sim.library import library

    fio, engines, fault = _fio()
    simulation_fault = ""
    try:
        library()
    except SsdbenchError as error:
        simulation_fault = f"{error.message}; {error.hint}"
    try:
        free = free_bytes(Path.cwd())
    except OSError:
        free = None
    return HostState(
        facts=host_facts(),
        root=os.geteuid() == 0,
        free_bytes=free,
        programs={name: programs.which(name) for name in PROGRAMS},
        fio=fio,
        fio_engines=engines,
        fio_oldest=".".join(str(number) for number in OLDEST),
        fio_fault=fault,
        lacks={} if fault else engine_obstacles(info),
        zones_lacking="" if fault else zones_lacking(info),
        simulation_fault=simulation_fault,
    )


def _fio() -> tuple[str | None, frozenset[str], str]:
    """Return fio's version, its I/O engines, and why fio cannot be used ("" if it can)."""
    from ssdbench.generator.fio.driver import OLDEST
    from ssdbench.generator.fio.driver import installed as installed_fio

    try:
        version, engines = installed_fio()
    except SsdbenchError as error:
        return None, frozenset(), str(error)
    text = ".".join(str(number) for number in version)
    fault = f"fio {text} is too old" if version < OLDEST else ""
    return text, engines, fault


NOTHING = "nothing"


@click.command("restore")
@click.option(
    "--forget",
    metavar="ID",
    help="First delete the recorded settings of the drive with identity ID, which was removed for "
    "good.",
)
@json_option
def restore(forget: str | None, as_json: bool) -> None:
    """Restore host and drive settings that a killed run left changed.

    After a reboot, only settings that survive a reboot are restored. Settings of a run in progress
    are not changed. A drive that an interrupted ATA erase left locked with a password is unlocked.
    --forget writes the deleted settings with their old values to forgotten.log, in the directory of
    the journals. If a run changed the LBA format of a drive, the command that changes it back is
    shown; that command erases the drive.
    """
    from ssdbench.cli.documents.machine import Restored
    from ssdbench.engine.hostsettings import give_up
    from ssdbench.engine.hostsettings import restore as restore_settings
    from ssdbench.engine.lbaformats import changed_formats

    given_up = give_up(forget) if forget is not None else []
    if not as_json:  # print these first, as a restore below may fail
        for change in given_up:
            was = change.was or NOTHING
            answer(f"{change.drive} {change.attribute}: forgotten, not restored (it was {was})")
    changes, lasting = restore_settings(), changed_formats()
    if as_json:
        document(
            Restored(
                restored=tuple(map(_as_part, changes)),
                forgotten=tuple(map(_as_part, given_up)),
                lasting=tuple(drive.sentence for drive in lasting),
            )
        )
        return
    for change in changes:
        where = f"{change.drive} " if change.drive else ""
        was, wanted = change.was or NOTHING, change.wanted or NOTHING
        answer(f"{where}{change.attribute}: restored to {was} (was {wanted})")
    for drive in lasting:
        answer(drive.sentence)
    if not changes and not given_up and not lasting:
        answer("nothing to restore: no run left a setting changed")


def _as_part(change: "Change") -> "SettingChange":
    from ssdbench.cli.documents.machine import SettingChange

    return SettingChange.of(change, backend=str(change.backend))
