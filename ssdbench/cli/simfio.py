"""`ssdbench sim fio` and `ssdbench sim exec`: the user's own fio on a simulated drive."""

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

from ssdbench.cli.options import targets
from ssdbench.cli.output import tell
from ssdbench.errors import HostLacks, UsageError
from ssdbench.host import command
from ssdbench.host.names import behind_env

if TYPE_CHECKING:  # numpy and pydantic, which --help and the manual page do without
    from ssdbench.generator.fio import userjobs
    from ssdbench.sim.drive import SimDrive

DEVICE = "SSDBENCH_SIM_DEVICE"

_target = click.argument("target", shell_complete=targets)
_state = click.option(
    "--state",
    type=click.Path(path_type=Path),
    help="Keep the drive in this .ssdb file, which is made if missing. Without this option, the "
    "drive is new and is deleted at the end.",
)


@click.command("fio", context_settings={"ignore_unknown_options": True})
@_target
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[JOBFILE | -- OPTIONS…]…")
@_state
@click.option(
    "--fio", "program", default="fio", help="The fio to run; without it, the one in PATH."
)
def fio(target: str, arguments: tuple[str, ...], state: Path | None, program: str) -> None:
    """Run your fio, unmodified, on the simulated drive TARGET (a model or a STATE.ssdb file).

    Hours of the drive's clock pass in seconds. Job files and options mean what they mean to fio,
    except that the drive is the only file and is reached by fio's nbd engine; each change to your
    job is listed on stderr. The output and the exit code are fio's own.

    \b
    ssdbench sim fio sim:x25m-g2-160,capacity=4GiB job.fio
    ssdbench sim fio --state my.ssdb sim:p4500-4t -- --name=w --rw=randwrite --bs=4k --io_size=8g
    """
    from ssdbench.generator.fio import userjobs
    from ssdbench.sim.drive import data_path
    from ssdbench.sim.library import preloadable

    found = command.which(program)
    if found is None:
        raise HostLacks(f"{program} is not installed", hint="install fio")
    asked = userjobs.command_line(arguments)
    if asked.question or not (asked.files or asked.sections):
        raise SystemExit(_code(command.foreground([found, *arguments])))
    rewritten = _rewritten(asked, found)
    with _drive(target, state) as path, tempfile.TemporaryDirectory(prefix="ssdbench-") as jobs:
        for change in dict.fromkeys(change for file in rewritten for change in file.changes):
            tell(f"  {change}")
        tell(f"SIMULATED: {target}: what fio reports describes a model, not hardware")
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
        # Set by env(1), so that the library meets fio alone.
        words = [f"{name}={value}" for name, value in environment.items()]
        program_line = behind_env([found, *asked.general, *map(str, files)])
        status = command.foreground(["env", *words, *program_line])
    raise SystemExit(_code(status))


@click.command("exec", context_settings={"ignore_unknown_options": True})
@_target
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND…")
@_state
def execute(target: str, argv: tuple[str, ...], state: Path | None) -> None:
    """Run COMMAND so that each fio it starts runs on the simulated drive TARGET.

    Other benchmarks can be judged with it: the drive's true rates are known (`sim truth`). The
    word {} in COMMAND, and $SSDBENCH_SIM_DEVICE, are a file of the drive's size that stands for
    the drive where COMMAND wants to see one; nothing is written to it.

    \b
    ssdbench sim exec sim:p4500-4t,capacity=8GiB -- my-benchmark --device {}
    """
    from ssdbench.sim.drive import SimDrive

    program = command.which("fio")
    if program is None:
        raise HostLacks("fio is not installed", hint="install fio")
    with (
        _drive(target, state) as path,
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
        tell(f"SIMULATED: {target}: what {argv[0]} reports describes a model, not hardware")
        search = os.pathsep.join((str(shim.parent), os.environ.get("PATH", os.defpath)))
        words = [str(device) if word == "{}" else word for word in argv]
        status = command.foreground(
            ["env", f"PATH={search}", f"{DEVICE}={device}", *behind_env(words)],
        )
    raise SystemExit(_code(status))


def _code(status: int) -> int:
    """As a shell says it: 128 and the signal."""
    return status if status >= 0 else 128 - status


@contextmanager
def _drive(target: str, state: Path | None) -> Iterator[Path]:
    """The state file of the drive, which nobody holds."""
    from ssdbench.sim.drive import SimDrive
    from ssdbench.sim.spec import parse

    if target.endswith(".ssdb"):
        if state is not None:
            raise UsageError("TARGET is a state file already; leave out --state")
        SimDrive.open(Path(target)).close()  # says what is wrong with it
        yield Path(target)
        return
    with tempfile.TemporaryDirectory(prefix="ssdbench-") as directory:
        path = state or Path(directory) / "drive.ssdb"
        if not path.exists():
            SimDrive.create(parse(target), path).close()
        else:
            with SimDrive.open(path) as drive:
                _same(drive, target)
        yield path


def _same(drive: "SimDrive", target: str) -> None:
    from ssdbench.sim.spec import parse

    asked = parse(target)
    if dict(asked.params) != dict(drive.spec.params):
        raise UsageError(
            f"{drive.path} holds {drive.spec.text}, not {target}",
            hint=f"to use that drive, give {drive.path} as TARGET; or name another --state",
        )


def _rewritten(asked: "userjobs.CommandLine", program: str) -> "list[userjobs.Rewritten]":
    from ssdbench.generator.fio import userjobs

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
