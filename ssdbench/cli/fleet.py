"""Measure many drives on many hosts (`ssdbench fleet`)."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ssdbench.cli.inputs import read_profile
from ssdbench.cli.options import PATH, json_option
from ssdbench.cli.output import answer, document, table, tell
from ssdbench.errors import UsageError, telling
from ssdbench.foreign import plain, write_whole
from ssdbench.units import counted

if TYPE_CHECKING:
    from ssdbench.cli.documents.machine import FleetDrive
    from ssdbench.fleet.drive import State
    from ssdbench.fleet.hostscripts import Job
    from ssdbench.fleet.inventory import Fleet
    from ssdbench.fleet.plan import Plan
    from ssdbench.fleet.records import Kept, Records
    from ssdbench.fleet.transport import Transport


file_argument = click.argument("file", metavar="FLEET.yaml", type=PATH)
LOCAL_PROFILE = "quick"
METRIC_LABELS = ("host", "rack", "target", "model", "serial", "firmware")


@click.group("fleet")
def fleet() -> None:
    """Measure many drives on many hosts, over SSH.

    Limits keep the number of drives per host, rack and power feed. The first drive is a canary: if
    its run fails, no other run starts.
    """


@fleet.command("plan")
@file_argument
@click.option(
    "--draft-consent",
    "draft",
    type=PATH,
    metavar="FILE",
    help="Also write the identities of these drives to FILE, a new consent file in which every "
    "line is commented out.",
)
@json_option
def plan_command(file: Path, draft: Path | None, as_json: bool) -> int:
    """Ask every host for its drives, and show which drives would be measured.

    Changes nothing on the hosts.
    """
    from ssdbench.cli.documents.machine import FleetPlanned
    from ssdbench.fleet.scheduler import limit_resources

    wanted, made = _planned(file)
    against = made.against or ("",) * len(made.jobs)
    if draft is not None:
        _draft_consent(draft, made)
    offered = limit_resources(made.jobs, wanted.limits)
    if as_json:
        document(
            FleetPlanned(
                drives=tuple(
                    _drive(job).model_copy(update={"said": why})
                    for job, why in zip(made.jobs, against, strict=True)
                ),
                silent=dict(made.silent),
                notes=made.notes,
                mistakes=made.mistakes,
                limits=offered,
            )
        )
        for mistake in made.mistakes:
            tell(f"error: {mistake}")
        return 2 if made.mistakes else 0
    rows = [
        (job.host, job.rack, job.target, job.model, job.serial, job.identity, why or "ready")
        for job, why in zip(made.jobs, against, strict=True)
    ]
    drives = counted(len(made.jobs), "drive")
    answer(table(("host", "rack", "drive", "model", "serial", "identity", "state"), rows))
    for line in _asides(dict(made.silent), made.notes):
        answer(line)
    made.require_no_mistake()
    answer("")
    erased = "measured" if wanted.targets else "erased and measured"
    answer(f"{drives} would be {erased}, {wanted.limits.at_once} at the same time")
    if wanted.engine.scheduler:
        answer(f"by the workers of {wanted.engine.scheduler}, one drive per thread of a worker")
    return 0


def _draft_consent(path: Path, made: "Plan") -> None:
    from ssdbench.fleet.inventory import consent_draft

    drives = [
        (job.identity, " ".join(filter(None, (job.host, job.target, job.model, job.serial))))
        for job in made.jobs
        if job.identity and not job.simulated
    ]
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(consent_draft(drives))
    except FileExistsError as error:
        raise UsageError(
            f"{path} exists, and is not overwritten", hint="Give the name of a new file."
        ) from error
    tell(f"{path}: {counted(len(drives), 'drive')}, each commented out")


@fleet.command("run")
@click.argument("file", metavar="[FLEET.yaml]", required=False, type=PATH)
@click.option(
    "--local",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="Without FLEET.yaml: measure N simulated drives on this machine.",
)
@click.option(
    "--profile", metavar="PROFILE", help="With --local: profile to run.", default=LOCAL_PROFILE,
    show_default=True,
)  # fmt: skip
@click.option("--output", type=PATH, metavar="DIR", help="With --local: directory for the results.")
@json_option
def run_command(
    file: Path | None, local: int | None, profile: str, output: Path | None, as_json: bool
) -> int:
    """Measure every drive of FLEET.yaml once. You can repeat the command at any time.

    Drives that were measured are skipped, runs in progress are followed, and the other runs are
    started, beginning with a canary.
    """
    from ssdbench.fleet.records import Records
    from ssdbench.fleet.scheduler import require_engine
    from ssdbench.fleet.transport import LocalTransport, transport_of

    require_engine()
    if (file is None) == (local is None):
        raise UsageError("give either FLEET.yaml or --local N")
    if file is not None:
        wanted, made = _planned(file)
        made.require_no_mistake()
        return _run(wanted, made, transport_of(wanted), Records.of(file), as_json=as_json)
    wanted, made, records = _locally(local or 1, profile, output or Path("reports/fleet-local"))
    return _run(wanted, made, LocalTransport(), records, as_json=as_json)


@fleet.command("status")
@file_argument
@click.option(
    "--page", type=PATH, metavar="FILE", help="Also write the status as an HTML page to FILE."
)
@click.option(
    "--metrics", type=PATH, metavar="FILE",
    help="Also write the status as OpenMetrics to FILE, for the textfile collector of Prometheus' "
    "node exporter.",
)  # fmt: skip
@json_option
def status_command(file: Path, page: Path | None, metrics: Path | None, as_json: bool) -> None:
    """Show the status of each drive: stage, rate, time left, findings.

    The status comes from the records of `fleet run`; no host is asked.
    """
    from ssdbench.cli.documents.machine import FleetStatus
    from ssdbench.fleet.plan import version_notes
    from ssdbench.fleet.records import STATUS_HEADER, status_page, status_rows, status_summary

    records = _records(file)
    kept, silent = list(records.all()), records.silent()
    notes = tuple(version_notes({one.job["host"]: one.job["version"] for one in kept}))
    asides = _asides(silent, notes)
    if page is not None:
        write_whole(page, status_page(kept, file.stem, asides).encode())
    if metrics is not None:
        _write_metrics(metrics, file.stem, kept)
    if as_json:
        drives = tuple(_stored_drive(one.job, one.state) for one in kept)
        document(FleetStatus(drives=drives, silent=silent, notes=notes))
        return
    if kept:
        answer(table(STATUS_HEADER, status_rows(kept)))
    for line in asides:
        answer(line)
    if kept or asides:
        answer("")
    answer(status_summary(kept))


def _write_metrics(path: Path, fleet_name: str, kept: "Sequence[Kept]") -> None:
    from ssdbench.export.openmetrics import FleetDrive, export_fleet
    from ssdbench.fleet.drive import Stage
    from ssdbench.host.files import write_atomic

    drives = []
    for one in kept:
        told = {name: plain(str(one.job.get(name) or "")) for name in METRIC_LABELS}
        told["run_id"] = str(one.job.get("name"))
        told["simulated"] = "yes" if one.job.get("simulated") else "no"
        running = one.state.stage is Stage.RUNNING
        values = {
            "fraction": one.state.fraction if running else None,
            "left_s": one.state.left_s if running else None,
            "rate_iops": one.state.rate_iops if running else None,
            "findings": len(one.state.findings),
            "exit_code": one.state.exit_code,
            "heard": one.at.timestamp(),
        }
        drives.append(FleetDrive({"fleet": fleet_name, **told}, one.state.stage, values))
    write_atomic(path, export_fleet(drives, list(Stage)))


@fleet.command("stop")
@file_argument
@json_option
def stop_command(file: Path, as_json: bool) -> int:
    """Start no more runs, and stop every run cleanly; the next `fleet run` continues them."""
    from ssdbench.cli.documents.machine import FleetStopped
    from ssdbench.fleet import hostscripts
    from ssdbench.fleet.drive import Stage
    from ssdbench.fleet.hostscripts import Job
    from ssdbench.fleet.inventory import read_fleet
    from ssdbench.fleet.transport import Silent, transport_of

    wanted, records = read_fleet(file), _records(file)
    records.request_stop()
    reach = transport_of(wanted)
    addresses = {host.name: host.ssh for host in wanted.every_host}
    stopped, failed = [], {}
    for one in records.all():
        if one.state.stage not in (Stage.RUNNING, Stage.SILENT, Stage.STARTING):
            continue
        job = Job(
            **one.job, address=addresses.get(one.job["host"], ""), profile_text="",
            runs=f"{wanted.runs}/{wanted.title}", ssdbench=wanted.ssdbench,
        )  # fmt: skip
        try:
            said = hostscripts.stop(job, reach)
            why = "" if said.status == 0 else telling(said.stderr)
        except Silent as error:
            why = error.message
        if why:
            failed[f"{job.host} {job.target}"] = why
        else:
            stopped.append(job.name)
    if as_json:
        document(FleetStopped(stopped=tuple(stopped), failed=failed))
    else:
        answer(f"{counted(len(stopped), 'run')} stopped; `fleet run` starts no more runs")
        for where, why in failed.items():
            answer(f"  {where}: {why}")
    return 1 if failed else 0


@fleet.command("install")
@file_argument
@click.option(
    "--wheels", type=PATH, required=True, metavar="DIR",
    help="Directory with the wheels of ssdbench, of pip, and of all packages that they need.",
)  # fmt: skip
@click.option(
    "--prefix", default="/usr/local", show_default=True, metavar="DIR",
    help="Directory on the hosts for bin/ssdbench and lib/ssdbench/VERSION.",
)  # fmt: skip
@json_option
def install_command(file: Path, wheels: Path, prefix: str, as_json: bool) -> int:
    """Install this version of ssdbench on every host, from wheels. You can repeat the command.

    No host needs a registry, pip or a compiler; each needs Python 3.11 or newer. A host that has
    this version is not changed, and other versions stay there for runs that are at work.
    """
    from ssdbench import __version__
    from ssdbench.cli.documents.machine import FleetInstalled
    from ssdbench.fleet.install import install
    from ssdbench.fleet.inventory import read_fleet
    from ssdbench.fleet.transport import transport_of

    if not prefix.startswith("/"):
        raise UsageError(f"--prefix {prefix} is not an absolute path")
    wanted = read_fleet(file)
    done, failed = install(wanted, transport_of(wanted), wheels, prefix.rstrip("/"))
    if as_json:
        document(FleetInstalled(version=__version__, hosts=done, failed=failed))
    else:
        for name, what in done.items():
            answer(f"{name}: ssdbench {__version__} {what}")
        for name, why in failed.items():
            answer(f"{name}: failed: {why}")
    return 1 if failed else 0


def _planned(file: Path) -> "tuple[Fleet, Plan]":
    from ssdbench.fleet.inventory import read_consent, read_fleet
    from ssdbench.fleet.plan import plan
    from ssdbench.fleet.scheduler import require_safe
    from ssdbench.fleet.transport import transport_of
    from ssdbench.host.files import require_utf8

    require_utf8(file, "the name of the fleet file")  # record and run paths begin with this name
    wanted = read_fleet(file)
    require_safe(wanted.engine)
    beside = file.parent / wanted.profile
    _, text = read_profile(str(beside) if beside.is_file() else wanted.profile)
    return wanted, plan(wanted, read_consent(wanted, file), text, transport_of(wanted), file)


def _locally(count: int, profile: str, output: Path) -> "tuple[Fleet, Plan, Records]":
    from ssdbench.fleet.inventory import Fleet, Limits
    from ssdbench.fleet.plan import local_plan
    from ssdbench.fleet.records import Records
    from ssdbench.host.files import require_utf8

    require_utf8(Path(profile), "the profile's name")
    require_utf8(output, "the name of the fleet's directory")
    _, text = read_profile(profile)
    cores = len(os.sched_getaffinity(0))
    output = output.absolute()
    wanted = Fleet.model_validate(
        {
            "title": "local", "profile": profile, "hosts": [{"name": "here"}],
            "drives": [{"model": "sim*"}], "look_every": "1s", "canary": 1,
            "limits": Limits(at_once=cores, per_host=cores).model_dump(),
        }
    )  # fmt: skip
    records = Records(output / "fleet")
    words = (sys.executable, "-m", "ssdbench")
    return wanted, local_plan(count, text, output / "hosts", words), records


def _records(file: Path) -> "Records":
    """Return the records of FLEET.yaml, or of a directory made with --local. Raises UsageError."""
    from ssdbench.fleet.records import Records

    records = Records(file / "fleet") if file.is_dir() else Records.of(file)
    if not records.directory.is_dir():
        raise UsageError(
            f"{file}: no run was started yet", hint="To start: ssdbench fleet run FLEET.yaml"
        )
    return records


def _run(
    wanted: "Fleet", made: "Plan", reach: "Transport", records: "Records", *, as_json: bool
) -> int:
    from ssdbench.cli.documents.machine import FleetRan
    from ssdbench.fleet.drive import Patience, Stage
    from ssdbench.fleet.scheduler import run_fleet

    patience = Patience(wanted.look_every_s, wanted.give_up_after_s)
    for line in _asides(dict(made.silent), made.notes):
        tell(line)
    records.make()
    with records.lock():
        records.note_silent(dict(made.silent))
        records.clear_stop_request()
        ends = run_fleet(wanted, made, reach, records, patience, tell)
    count = {stage: sum(s.stage is stage for s in ends.values()) for stage in Stage}
    if as_json:
        document(
            FleetRan(
                directory=str(records.directory),
                runs=str(records.directory / "runs"),
                drives=tuple(_drive(job, ends.get(job.name)) for job in made.jobs),
                silent=dict(made.silent),
            )
        )
    else:
        told = ", ".join(f"{n} {stage}" for stage, n in count.items() if n)
        answer(f"{counted(len(ends), 'drive')}: {told}")
        answer(f"results: {records.directory / 'runs'}")
    whole = count[Stage.MEASURED] == len(made.jobs) and not made.silent
    return 0 if whole else 1


def _asides(silent: Mapping[str, str], notes: Sequence[str]) -> list[str]:
    return [
        *(f"no answer: {name}: {why}" for name, why in silent.items()),
        *(f"note: {note}" for note in notes),
    ]


def _drive(job: "Job", state: "State | None" = None) -> "FleetDrive":
    return _stored_drive(asdict(job), state)


def _stored_drive(job: dict[str, object], state: "State | None") -> "FleetDrive":
    from ssdbench.cli.documents.machine import FleetDrive

    names = ("name", "host", "rack", "target", "identity", "model", "serial")
    about: dict[str, object] = {name: str(job.get(name) or "") for name in names}
    return FleetDrive.model_validate(about | ({} if state is None else asdict(state)))
