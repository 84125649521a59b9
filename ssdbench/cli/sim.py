"""List, create, copy, serve and attach simulated drives, and print their true values."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ssdbench.cli import simfio
from ssdbench.cli.options import PATH, SIZE, csv_option, json_option, run_argument, targets
from ssdbench.cli.output import answer, document, table, tell, write_file
from ssdbench.errors import UsageError
from ssdbench.units import (
    format_capacity,
    format_count,
    format_ns,
    format_rate,
    format_size,
    parse_percent,
    parse_size,
)

if TYPE_CHECKING:  # they import numpy and pydantic, which --help does not need
    from ssdbench.cli.documents import Document
    from ssdbench.cli.documents.simulated import Predictions
    from ssdbench.report.tables import Tidy
    from ssdbench.sim.spec import ModelCard, SimSpec
    from ssdbench.sim.truth import Truth

RESTS = ("static", "ordered", "empty")  # the values of ssdbench.sim.truth.Rest; a test compares


def _print(made: "Document", as_json: bool, lines: list[str]) -> None:
    if as_json:
        document(made)
    else:
        answer("\n".join(lines))


@click.group("sim")
def command() -> None:
    """Simulated flash drives: list, create, copy, serve, attach, and print their true values."""


command.add_command(simfio.fio)
command.add_command(simfio.execute)


@command.command()
@click.option(
    "--parameters",
    "show_parameters",
    is_flag=True,
    help="List the parameters that a target can set, instead of the models.",
)
@json_option
def models(show_parameters: bool, as_json: bool) -> None:
    """List the embedded models, or all parameters of a simulated drive."""
    from ssdbench.cli.documents.simulated import Model, Models, Parameters
    from ssdbench.sim.library import parameters
    from ssdbench.sim.spec import catalogue

    if show_parameters:
        descriptions = list(parameters().values())
        _print(
            Parameters(parameters=tuple(descriptions)),
            as_json,
            [_parameter_line(d) for d in descriptions],
        )
        return
    cards = catalogue()
    lines = [line for card in cards for line in _card_lines(card)]
    made = tuple(Model.of(card, target=f"sim:{card.name}") for card in cards)
    _print(Models(models=made), as_json, lines)


@command.command()
@click.argument("target", shell_complete=targets)
@click.argument("state", type=PATH)
@json_option
def create(target: str, state: Path, as_json: bool) -> None:
    """Create the new drive TARGET (such as sim:p4500-4t,capacity=8GiB) in the file STATE."""
    from ssdbench.cli.documents.simulated import Created
    from ssdbench.sim.drive import SimDrive
    from ssdbench.sim.spec import parse

    with SimDrive.create(parse(target), state) as drive:
        info = drive.info()
    _print(Created(**info), as_json, _info_lines(info))


@command.command()
@click.argument("state", type=PATH)
@click.option(
    "--repair",
    is_flag=True,
    help="Repair a state file whose program was killed in the middle of a request.",
)
@json_option
def inspect(state: Path, repair: bool, as_json: bool) -> None:
    """Describe the drive in STATE, print its counters, and check that its maps agree."""
    from ssdbench.cli.documents.simulated import Inspected
    from ssdbench.sim.drive import SimDrive

    with SimDrive.open(state, repair=repair) as drive:
        info = {
            **drive.info(),
            "sound": drive.core.broken_invariant() == 0,
            "counters": drive.counters(),
        }
    counters = [f"  {name}: {value}" for name, value in info["counters"].items()]
    sound = "all maps agree" if info["sound"] else "DAMAGED: the maps of the drive disagree"
    _print(Inspected(**info), as_json, [*_info_lines(info), sound, "counters:", *counters])


@command.command()
@click.argument("state", type=PATH)
@click.argument("to", type=PATH)
@json_option
def snapshot(state: Path, to: Path, as_json: bool) -> None:
    """Copy the drive in STATE, with its history, to the file TO."""
    from ssdbench.cli.documents.simulated import Snapshot
    from ssdbench.sim.drive import SimDrive

    with SimDrive.open(state) as drive:
        drive.snapshot(to)
    made = Snapshot(state=str(state), snapshot=str(to))
    _print(made, as_json, [f"{state} was copied to {to}"])


@command.command()
@click.argument("state", type=PATH)
@click.argument("source", type=PATH)
@json_option
def restore(state: Path, source: Path, as_json: bool) -> None:
    """Restore the drive in STATE from SOURCE, an earlier snapshot of it."""
    from ssdbench.cli.documents.simulated import BroughtBack
    from ssdbench.sim.drive import SimDrive

    with SimDrive.open(state) as drive:
        drive.restore(source)
    made = BroughtBack(state=str(state), source=str(source))
    _print(made, as_json, [f"{state} was restored from {source}"])


@command.command()
@click.argument("target", shell_complete=targets)
@click.option("--socket", "socket_path", type=PATH, required=True, help="Unix socket to listen on.")
@click.option(
    "--state",
    type=PATH,
    help="State file of the drive, created if it is missing. Default: a file beside the socket.",
)
@click.option("--no-data", is_flag=True, help="Do not store written data: reads return zeros.")
@click.option(
    "--overhead-ns",
    type=click.IntRange(min=0),
    help="Time in ns that the socket adds to each request. The server answers "
    "earlier by this time, so that clients see the latency of the model. "
    "Default: the server measures it.",
)
@json_option
def serve(
    target: str,
    socket_path: Path,
    state: Path | None,
    no_data: bool,
    overhead_ns: int | None,
    as_json: bool,
) -> None:
    """Serve TARGET (a model or a STATE file) over NBD in real time, until SIGTERM or Ctrl-C."""
    from ssdbench.cli.documents.simulated import Served
    from ssdbench.sim import drive
    from ssdbench.sim.drive import data_path

    path = simfio.state_file(target, state, socket_path.with_suffix(".ssdb"))
    uri = drive.nbd_uri(socket_path)
    made = Served(uri=uri, state=str(path), simulated=True)
    _print(made, as_json, [f"{uri} (simulated)"])
    drive.become_nbd_server(
        path,
        socket_path,
        data=None if no_data else data_path(path),
        overhead_ns=overhead_ns,
    )


@command.command()
@click.argument("target", shell_complete=targets)
@click.option(
    "--state",
    type=PATH,
    help="State file of the drive, created if it is missing. Without this option, the drive is new "
    "and is deleted when it is detached.",
)
@click.option("--no-data", is_flag=True, help="Do not store written data: reads return zeros.")
@click.option(
    "--overhead-ns",
    type=click.IntRange(min=0),
    help="Time in ns that the kernel adds to each request. The server answers "
    "earlier by this time, so that clients see the latency of the model. "
    "Default: the server measures it.",
)
@json_option
def attach(
    target: str, state: Path | None, no_data: bool, overhead_ns: int | None, as_json: bool
) -> None:
    """Make TARGET (a model or a STATE file) the block device /dev/ublkbN, and print its name.

    The device works in real time until `sim detach`. It needs the kernel's ublk driver (Linux 6.4
    or newer): no module is built, and if the server is killed, requests fail and nothing hangs.
    """
    from ssdbench.cli.documents.simulated import Attached
    from ssdbench.sim import ublk
    from ssdbench.sim.drive import SimDrive, data_path

    ublk.require_driver()
    with simfio.drive_files(target, state) as path:
        SimDrive.open(path).close(saves=False)  # the server changes it
        data = None if no_data else data_path(path)
        device = ublk.attach(path, data=data, overhead_ns=overhead_ns)
    kept = str(path) if state or target.endswith(".ssdb") else None
    tell(f"SIMULATED: {target} is {device} until `ssdbench sim detach {device}`")
    _print(Attached(device=device, state=kept, simulated=True), as_json, [device])


@command.command()
@click.argument("device")
@json_option
def detach(device: str, as_json: bool) -> None:
    """Remove DEVICE (such as /dev/ublkb0), print how late it answered, and keep its state.

    A device that is mounted is refused. A device whose server was killed is removed, too.
    """
    from ssdbench.cli.documents.simulated import Detached
    from ssdbench.sim import ublk

    lateness = ublk.detach(device)
    answered = lateness.answered if lateness else 0
    made = Detached(device=device, answered=answered)
    lines = [f"{device} was detached"]
    if lateness and answered:
        median, p99 = (ublk.at_most_ns(lateness.late, share) for share in (0.5, 0.99))
        late = {"late_median_ns": median, "late_p99_ns": p99, "late_most_ns": lateness.most_ns}
        made = made.model_copy(update=late)
        lines.append(
            f"{format_count(answered)} requests, answered late by {format_ns(median)} (median), "
            f"{format_ns(p99)} (p99), {format_ns(lateness.most_ns)} (most)"
        )
    _print(made, as_json, lines)


@command.command()
@click.argument("target", shell_complete=targets)
@click.option("--block", default="4KiB", show_default=True, type=SIZE, help="Size of one request.")
@click.option(
    "--read",
    default=0,
    show_default=True,
    type=click.IntRange(0, 100),
    help="Share of reads in percent.",
)
@click.option(
    "--iodepth",
    default=32,
    show_default=True,
    type=click.IntRange(1, 1024),
    help="Requests in flight.",
)
@click.option(
    "--span",
    default="100%",
    show_default=True,
    help="Part of the drive that the load uses: a percentage or a size.",
)
@click.option("--sequential", is_flag=True, help="Sequential requests instead of random ones.")
@click.option(
    "--rest",
    default="ordered",
    show_default=True,
    type=click.Choice(RESTS),
    help="State of the drive outside the span: written at random, written in order, or empty.",
)
@click.option(
    "--at",
    "at_fills",
    type=click.FloatRange(0, min_open=True),
    help="How many drive writes come before the true values are taken. Default: until the drive is "
    "worn in, and past the step if the model has one.",
)
@click.option(
    "--hours",
    type=click.FloatRange(0, min_open=True),
    help="Hours on the drive's clock over which the true values are averaged. Default: until the "
    "values no longer change.",
)
@click.option(
    "--simulate", "by_simulation", is_flag=True, help="Simulate, even if a formula is known."
)
@json_option
def truth(
    target: str,
    block: int,
    read: int,
    iodepth: int,
    span: str,
    sequential: bool,
    rest: str,
    at_fills: float | None,
    hours: float | None,
    by_simulation: bool,
    as_json: bool,
) -> None:
    """Print the true values of TARGET: write amplification, sustained IOPS, block size, cache."""
    from ssdbench.cli.documents.simulated import TrueValues
    from ssdbench.model.workload import Pattern
    from ssdbench.sim.simulation import simulate
    from ssdbench.sim.truth import Load, Rest, closed_form

    spec = _spec_of(target)
    load = Load(
        block_bytes=block,
        read_percent=read,
        iodepth=iodepth,
        span_bytes=_span_bytes(span, spec, block),
        pattern=Pattern.SEQUENTIAL if sequential else Pattern.RANDOM,
        rest=Rest(rest),
        at_fills=at_fills,
        horizon_s=None if hours is None else hours * 3600,
    )
    answer = None if by_simulation else closed_form(spec.text, spec.params, load)
    answer = answer or simulate(spec.text, spec.params, load)
    made = TrueValues.of(answer, simulated=True, seed=spec.seed, spec_notes=spec.notes)
    _print(made, as_json, _truth_lines(spec, answer))


@command.command()
@click.argument("series", nargs=-1, required=True, metavar="SERIES...")
@click.option("--model", "to", type=PATH, required=True, help="Model file to write; a new one.")
@click.option("--title", default="", help="Name of the drive. Default: the name of the file.")
@click.option(
    "--capacity", type=SIZE, help="Size of the drive. Default: the largest range of the series."
)
@click.option(
    "--drive",
    default="",
    metavar="NAME",
    help="Model string of the real drive, as `ssdbench drives` shows it. If the model file is in "
    "~/.config/ssdbench/models or /etc/ssdbench/models, `plan` takes the rates of such drives "
    "from it.",
)
@json_option
def fit(
    series: tuple[str, ...],
    to: Path,
    title: str,
    capacity: int | None,
    drive: str,
    as_json: bool,
) -> None:
    """Fit a simulated drive to SERIES of a real one: rates of writes from fresh to steady.

    A SERIES is FILE,pattern=P,span=SIZE[,block=SIZE][,iodepth=N][,before=STATE]. The file is CSV
    with the columns end_s and bytes_per_s. P is random, zipf:0.8, zoned:90/10:10/90 (share of
    writes/share of range) or rewrite:8GiB/4 (zones of 8 GiB, 4 at once); STATE is sequential,
    shuffled or nothing.
    """
    from ssdbench.cli.documents.simulated import Fitted
    from ssdbench.host.files import write_atomic
    from ssdbench.sim import fitted
    from ssdbench.sim.fit import fit as fit_runs
    from ssdbench.sim.modelfile import read_model
    from ssdbench.sim.spec import of_model

    if to.suffix not in (".yaml", ".yml"):
        raise UsageError(f"{to}: the name of a model file ends in .yaml")
    if to.exists():
        raise UsageError(f"{to} exists", hint="give the name of a new file")
    runs = [fitted.measured(one) for one in series]
    found = fit_runs(runs)
    largest = max(run.writes.span_bytes for run in runs)
    capacity = capacity or largest
    if not largest <= capacity < found.parameters.physical_bytes:
        raise UsageError(
            f"--capacity {format_size(capacity)} is not between the largest range of the series, "
            f"{format_size(largest)}, and the fitted flash, "
            f"{format_size(int(found.parameters.physical_bytes))}"
        )
    text = fitted.model_text(found, capacity, title or to.stem, len(runs), drive)
    of_model(read_model(text, file=str(to), name=to.stem, reference=str(to)), {}, None)
    write_atomic(to, text)
    made = Fitted(model=str(to), runs=len(runs), **fitted.told(found))
    notes = fitted.notes(found, capacity)
    _print(made, as_json, [f"sim:{to}  fitted to {len(runs)} series", *notes])


@command.command()
@run_argument
@click.option(
    "--profile",
    "other",
    required=True,
    metavar="PROFILE",
    help="Profile whose workloads are predicted: a file, or the name of a shipped profile.",
)
@csv_option("workload")
@json_option
def predict(directory: Path, other: str, csv_file: Path | None, as_json: bool) -> None:
    """Predict what PROFILE would measure on the drive of RUN, without writing to the drive.

    A simulated drive is fitted to the warm-up of RUN. Random writes are predicted (uniform, zipf or
    hot) at any fill level, with an interval from the errors of such predictions of real drives.
    Each answer is a PREDICTION: it is never VALIDATED.
    """
    from ssdbench.cli.documents.simulated import PredictedPoint, Predictions
    from ssdbench.cli.inputs import read_profile
    from ssdbench.report.read import StoredRun
    from ssdbench.report.tables import csv_bytes
    from ssdbench.suite.prediction import errors_on_real_drives, prediction

    run = StoredRun.open(directory)
    profile, text = read_profile(other)
    found = prediction(run, profile, text, other)
    target = run.result.target
    made = Predictions(
        run=str(directory),
        profile=other,
        drive=target.model or target.name,
        simulated=target.modelled,
        warm_up=found.warm_up,
        warm_up_fills=found.fills,
        fitted=found.said(),
        errors_on_real_drives=errors_on_real_drives(),
        points=tuple(PredictedPoint.of(one) for one in found.points),
        held_out=tuple(PredictedPoint.of(one) for one in found.held_out),
    )
    write_file(csv_file, "table", lambda: csv_bytes(_prediction_table(made)))
    _print(made, as_json, _prediction_lines(made))


def _prediction_table(made: "Predictions") -> "Tidy":
    """Return a row for each predicted workload and each point of the run that was not fitted."""
    from ssdbench.report.tables import Tidy

    both = [("no", one) for one in made.points] + [("yes", one) for one in made.held_out]
    rows = [{"label": made.label, "held_out": own, **one.model_dump()} for own, one in both]
    texts = ("label", "held_out", "point", "workload", "reason")
    return Tidy(rows, {name: "str" if name in texts else "Float64" for name in rows[0]})


def _prediction_lines(made: "Predictions") -> list[str]:
    """Return the lines of a prediction, and how far such predictions were from real rates."""
    said = [one for one in made.points if not one.reason]
    simulated = ", a simulated drive" if made.simulated else ""
    lines = [
        f"PREDICTION, not measured: {made.profile} on {made.drive}{simulated}",
        f"fitted to {made.warm_up}, {made.warm_up_fills:.2f} fills: {made.fitted}",
    ]
    if said:
        rows = [
            (
                one.workload,
                format_count(one.iops),
                format_rate(one.bytes_per_s),
                f"{format_rate(one.low_bytes_per_s)} to {format_rate(one.high_bytes_per_s)}",
            )
            for one in said
        ]
        lines.append(table(("PREDICTION, steady state", "IOPS", "rate", "90 % interval"), rows))
    lines += [f"not predicted: {one.workload}: {one.reason}" for one in made.points if one.reason]
    for one in made.held_out:
        error = one.bytes_per_s / one.measured_bytes_per_s - 1
        lines.append(
            f"error within this run: {one.workload}: predicted {format_rate(one.bytes_per_s)}, "
            f"measured {format_rate(one.measured_bytes_per_s)} ({error:+.0%})"
        )
    return [
        *lines,
        made.errors_on_real_drives,
        "A prediction is never VALIDATED; run the profile on the drive for numbers to plan on.",
    ]


def _spec_of(target: str) -> "SimSpec":
    from ssdbench.sim.drive import SimDrive
    from ssdbench.sim.spec import parse

    if target.endswith(".ssdb"):
        with SimDrive.open(Path(target)) as drive:
            return drive.spec
    return parse(target)


def _span_bytes(span: str, spec: "SimSpec", block_bytes: int) -> int:
    try:
        size = (
            round(spec.capacity_bytes * parse_percent(span) / 100)
            if span.strip().endswith("%")
            else parse_size(span)
        )
    except ValueError as error:
        raise UsageError(f"--span: {error}") from error
    return size // block_bytes * block_bytes


def _parameter_line(desc: Any) -> str:
    if desc.choices:
        said, unit = desc.choices[desc.default], "|".join(desc.choices)
    else:
        said, unit = str(desc.default), desc.unit
    return f"{desc.name}={said}  ({unit or 'number'})  {desc.doc}"


def _card_lines(card: "ModelCard") -> list[str]:
    figures = ", ".join(
        f"{name} {format_count(value)} (model: {format_count(card.simulated[name])})"
        for name, value in card.figures.items()
        if name in card.simulated
    )
    smaller = (
        f"; simulates {format_capacity(card.simulated_bytes)}"
        if card.simulated_bytes < card.capacity_bytes
        else ""
    )
    size = format_capacity(card.capacity_bytes)
    return [f"sim:{card.name}  {card.title}, {size}{smaller}", f"    {figures}"]


def _info_lines(info: Mapping[str, Any]) -> list[str]:
    return [
        f"{info['target']}  SIMULATED: {info['title']}, seed {info['seed']}",
        f"{format_capacity(info['capacity_bytes'])} in {info['path']} "
        f"({format_size(info['state_bytes'])} of state)",
        f"device time {format_ns(info['device_time_ns'])}",
        *(f"note: {note}" for note in info["notes"]),
    ]


def _truth_lines(spec: "SimSpec", found: "Truth") -> list[str]:
    amplification = found.write_amplification
    return [
        f"{spec.text}  SIMULATED: {spec.title}, seed {spec.seed}",
        *(f"note: {note}" for note in spec.notes),
        f"method: {found.method}"
        + (
            f", measured from drive write {found.from_fills:.2f} to {found.to_fills:.2f}"
            if found.from_fills is not None and found.to_fills is not None
            else ""
        ),
        f"sustained: {format_count(found.iops)} IOPS, {format_rate(found.bytes_per_s)}"
        + (f", limited by {found.limited_by}" if found.limited_by else ""),
        *([f"write amplification: {amplification:.4g}"] if amplification else []),
        *(f"note: {note}" for note in found.notes),
        "block boundary: "
        + (
            format_size(found.drive.boundary_bytes)
            if found.drive.boundary_bytes
            else "none, writes show no boundary"
        ),
        f"remap unit: {format_size(found.drive.remap_unit_bytes)}",
        f"cache: {format_size(found.drive.cache_bytes) if found.drive.cache_bytes else 'none'}",
        f"over-provisioning: {found.drive.over_provisioning:.2%}, of which "
        f"{max(found.drive.spare_usable, 0):.2%} can be used",
    ]
