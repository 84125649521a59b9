"""One short start of fio, as trials of the host do many: its job file, its end, its figures."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ssdbench.errors import CommandFailed
from ssdbench.generator.fio.jobfile import filename
from ssdbench.generator.fio.output import Group, parse
from ssdbench.host.command import Process, spawn

Options = Mapping[str, str | int]
RAMP_S = 1  # of each start, not counted
GRACE_S = 60.0


def common(*, span_bytes: int, window_s: int, seed: int) -> dict[str, str | int]:
    """What all sections of a start share, whatever they work on."""
    return {
        "ioengine": "libaio",
        "direct": 1,
        "thread": 1,
        "group_reporting": 1,
        "randrepeat": 0,
        "randseed": seed % (1 << 31) + 1,
        "norandommap": 1,
        "refill_buffers": 1,
        "lat_percentiles": 1,
        "exitall_on_error": 1,
        "disk_util": 0,
        "size": span_bytes,
        "time_based": 1,
        "ramp_time": f"{RAMP_S}s",
        "runtime": f"{window_s}s",
    }


def on_drive(node: str) -> Options:
    """Where a start on the bare drive works."""
    return {"filename": filename(node), "allow_file_create": 0, "offset": 0}


def job_file(everywhere: Options, sections: Sequence[Options]) -> str:
    """fio's job file: all sections at the same time, reported together."""
    lines = ["[global]", *(f"{name}={value}" for name, value in everywhere.items())]
    for number, section in enumerate(sections):
        lines += [f"[part{number}]"]
        lines += [f"{name}={value}" for name, value in section.items()]
    return "\n".join(lines) + "\n"


def started(
    directory: Path,
    text: str,
    *,
    seconds: float,
    cpus: Sequence[int] = (),
    meanwhile: Callable[[Process], None] | None = None,
) -> Group:
    """Run fio to its end, in its own directory; `meanwhile` looks on and returns before that.

    Raises CommandFailed with fio's last words.
    """
    (directory / "job.fio").write_text(text)
    argv = ["fio", "--eta=never", "--output-format=json+", "--output=fio.json", "job.fio"]
    (directory / "command").write_text(" ".join(argv) + "\n")
    process = spawn(
        argv, stdout=directory / "stdout", stderr=directory / "stderr", cwd=directory, cpus=cpus
    )
    try:
        if meanwhile is not None:
            meanwhile(process)
    except BaseException:
        process.kill()
        raise
    status = process.wait(seconds + GRACE_S)
    if status is None:
        status = process.kill()
    (directory / "status").write_text(f"{status}\n")
    said = (directory / "stdout").read_text() + (directory / "stderr").read_text()
    try:
        group = parse((directory / "fio.json").read_text(), ["cell"]).groups[0]
    except (OSError, ValueError) as error:
        raise CommandFailed(argv, status, said or str(error)) from error
    if status != 0 or group.error:
        raise CommandFailed(argv, status, said)
    return group
