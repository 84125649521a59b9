"""Run the user's own fio on a simulated drive: `ssdbench sim fio` and `ssdbench sim exec`."""

import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ssdbench.cli.options import PATH, targets
from ssdbench.cli.output import tell
from ssdbench.errors import HostLacks, UsageError
from ssdbench.generator.fio import userjobs
from ssdbench.host import command
from ssdbench.host.names import behind_env
from ssdbench.sim.library import preloadable

if TYPE_CHECKING:  # it imports numpy and pydantic, which --help does not need
    from ssdbench.sim.drive import SimDrive

DEVICE = "SSDBENCH_SIM_DEVICE"

_target = click.argument("target", shell_complete=targets)
_state = click.option(
    "--state",
    type=PATH,
    help="State file (.ssdb) of the drive, created if it is missing. Without this option, the "
    "drive is new and is deleted at the end.",
)


@click.command("fio", context_settings={"ignore_unknown_options": True})
@_target
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[JOBFILE | -- OPTIONS…]…")
@_state
@click.option(
    "--fio", "program", default="fio", help="The fio program to run. Default: fio in PATH."
)
def fio(target: str, arguments: tuple[str, ...], state: Path | None, program: str) -> None:
    """Run your fio, unmodified, on the simulated drive TARGET (a model or a STATE.ssdb file).

    Hours on the drive's clock pass in seconds. Job files and options have their usual meaning, but
    the drive is the only file, and fio uses its nbd engine for it. Each change to your job is
    listed on stderr. The output and the exit code come from fio.

    \b
    ssdbench sim fio sim:x25m-g2-160,capacity=4GiB job.fio
    ssdbench sim fio --state my.ssdb sim:p4500-4t -- --name=w --rw=randwrite --bs=4k --io_size=8g
    """
    from ssdbench.sim.drive import data_path

    found = _require_fio(program)
    asked = userjobs.command_line(arguments)
    if asked.question or not (asked.files or asked.sections):
        raise SystemExit(_code(command.foreground([found, *arguments])))
    rewritten = _rewritten(asked, found)
    with (
        drive_files(target, state) as path,
        tempfile.TemporaryDirectory(prefix="ssdbench-") as jobs,
    ):
        for change in dict.fromkeys(change for file in rewritten for change in file.changes):
            tell(f"  {change}")
        tell(f"SIMULATED: {target}: fio's numbers describe a model, not hardware")
        files = []
        for number, file in enumerate(rewritten):
            files.append(Path(jobs) / f"{number:02d}.fio")
            files[-1].write_text(file.text)
        keeps = any(file.verifies for file in rewritten) or data_path(path).exists()
        environment = {
            "LD_PRELOAD": preloadable("libssdb_virtualtime.so"),
            "SSDB_VT_STATE": str(path),
            **({"SSDB_VT_DATA": str(data_path(path))} if keeps else {}),
        }
        # env(1) sets the variables, so that LD_PRELOAD affects only fio.
        words = [f"{name}={value}" for name, value in environment.items()]
        program_line = behind_env([found, *asked.general, *map(str, files)])
        status = command.foreground(["env", *words, *program_line])
    raise SystemExit(_code(status))


@click.command("exec", context_settings={"ignore_unknown_options": True})
@_target
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND…")
@_state
def execute(target: str, argv: tuple[str, ...], state: Path | None) -> None:
    """Run COMMAND so that each fio that it starts runs on the simulated drive TARGET.

    Use this to check other benchmarks: `sim truth` prints the true rates of the drive. The word {}
    in COMMAND, and $SSDBENCH_SIM_DEVICE, are replaced by the name of a file with the size of the
    drive, for a COMMAND that wants a device. Nothing is written to this file.

    \b
    ssdbench sim exec sim:p4500-4t,capacity=8GiB -- my-benchmark --device {}
    """
    from ssdbench.sim.drive import SimDrive

    program = _require_fio("fio")
    with (
        drive_files(target, state) as path,
        tempfile.TemporaryDirectory(prefix="ssdbench-") as directory,
    ):
        device = Path(directory) / "drive"
        with SimDrive.open(path) as drive, device.open("wb") as file:
            file.truncate(drive.core.capacity_bytes)
        shim = Path(directory) / "bin" / "fio"
        shim.parent.mkdir()
        words = [sys.executable, "-m", "ssdbench", "sim", "fio", "--fio", program, str(path), "--"]
        shim.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        shim.chmod(0o700)
        tell(f"SIMULATED: {target}: the numbers of {argv[0]} describe a model, not hardware")
        search = os.pathsep.join((str(shim.parent), os.environ.get("PATH", os.defpath)))
        words = [str(device) if word == "{}" else word for word in argv]
        status = command.foreground(
            ["env", f"PATH={search}", f"{DEVICE}={device}", *behind_env(words)],
        )
    raise SystemExit(_code(status))


def _require_fio(program: str) -> str:
    """Return the path of the user's fio program. Raises HostLacks if it is not found."""
    if (found := command.which(program)) is None:
        raise HostLacks(f"{program} is not installed", hint="install fio")
    return found


def _code(status: int) -> int:
    """Return an exit status as a shell reports it: a killed program has 128 + the signal number."""
    return status if status >= 0 else 128 - status


@contextmanager
def drive_files(target: str, state: Path | None) -> Iterator[Path]:
    """Yield the state file of the drive, not locked, so that another program can lock it."""
    from ssdbench.sim.drive import SimDrive

    with tempfile.TemporaryDirectory(prefix="ssdbench-") as directory:
        path = state_file(target, state, Path(directory) / "drive.ssdb")
        with SimDrive.open(path) as drive:  # raises UsageError if the file is damaged
            if state is not None:
                _require_same(drive, target)
        yield path


def state_file(target: str, state: Path | None, default: Path) -> Path:
    """Return the state file of a drive; if `target` is a model without a file, make the drive.

    `state` is the value of --state. Raises UsageError.
    """
    from ssdbench.sim.drive import SimDrive
    from ssdbench.sim.spec import parse

    if target.endswith(".ssdb"):
        if state is not None:
            raise UsageError("TARGET is a state file itself; leave out --state")
        return Path(target)
    path = state or default
    if not path.exists():
        SimDrive.create(parse(target), path).close()
    return path


def _require_same(drive: "SimDrive", target: str) -> None:
    """Raise UsageError if the drive in a state file is not the drive that `target` describes."""
    from ssdbench.sim.spec import parse

    if dict(parse(target).params) != dict(drive.spec.params):
        raise UsageError(
            f"{drive.path} contains {drive.spec.text}, not {target}",
            hint=f"to use that drive, give {drive.path} as TARGET; or name another --state",
        )


def _rewritten(asked: userjobs.CommandLine, program: str) -> list[userjobs.Rewritten]:
    """Return the user's jobs, changed so that they use the simulated drive."""

    @cache
    def engine_options(engine: str) -> frozenset[str]:
        said = command.run([program, f"--enghelp={engine}"], ok=range(256)).stdout
        return frozenset(re.findall(r"^ *(\w+) +:", said, re.MULTILINE))

    jobs = [userjobs.job_file(_text(name), path=name) for name in asked.files]
    if asked.sections:
        jobs.append(asked.sections)
    return [userjobs.for_simulated_drive(job, engine_options=engine_options) for job in jobs]


def _text(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text()
    except OSError as error:
        raise UsageError(f"the job file {name} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not a job file: it is not text") from error
