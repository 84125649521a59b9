"""Find the inner structure of a drive (`probe`), or only its block size (`detect-blocksize`)."""

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import click

from ssdbench.cli.main import Place
from ssdbench.cli.options import (
    SIZE,
    RunOptions,
    consent_options,
    json_option,
    limits,
    output_option,
    target_argument,
    wear_options,
)
from ssdbench.cli.output import answer, document, tell
from ssdbench.cli.run import show_work
from ssdbench.errors import ProfileError, SsdbenchError, UsageError
from ssdbench.model import rundirectory
from ssdbench.units import format_capacity, format_duration, format_size

if TYPE_CHECKING:
    from ssdbench.cli.conduct import Ended
    from ssdbench.model.inside import BlockSizeFound
    from ssdbench.model.result import RunResult, StageResult


R = TypeVar("R")


def inside_options(function: Callable[..., R]) -> Callable[..., R]:
    """Add options to a command: --output, --seed, --json, consent, wear and limits."""
    return output_option(consent_options(wear_options(limits(json_option(function)))))


def run_inside(
    place: Place, name: str, text: str, target: str, output: Path | None, given: RunOptions
) -> "Ended":
    """Print how many bytes a built-in profile will write to a target, then run the profile."""
    from ssdbench.cli import conduct
    from ssdbench.model.loading import load_profile
    from ssdbench.suite.plan import plan
    from ssdbench.suite.request import RunRequest

    try:
        profile = load_profile(text, name)
        wishes = RunRequest(profile, name, text, target, argv=tuple(sys.argv), **given)
        planned = plan(wishes)
    except ProfileError as error:  # without line numbers: the user has not seen this profile
        raise UsageError([one.reason for one in error.diagnostics]) from error
    least, most = planned.bytes_written
    longest = format_duration(planned.seconds[1])
    tell(
        f"will write {format_capacity(least)} to {target}, at most {format_capacity(most)}, in at "
        f"most {longest}"
    )
    for note in (note for stage in planned.stages for note in stage.notes):
        tell(f"  {note}")
    directory = output or conduct.new_directory(name, target)
    return show_work(lambda heard: conduct.run(wishes, directory, heard), place, moving=False)


PROBE = "probe"
PROBES = (
    "slc-cache", "stripe", "parallelism", "read-chunk", "remap-unit", "mapping", "flush",
    "write-buffer", "spare", "trim", "wake",
)  # fmt: skip


@click.command(PROBE)
@target_argument
@click.option(
    "--only",
    "only",
    type=click.Choice(PROBES),
    multiple=True,
    help="Run only this probe. May be given several times.",
)
@inside_options
@click.pass_obj
def probe(
    place: Place,
    target: str,
    only: tuple[str, ...],
    output: Path | None,
    *,
    as_json: bool,
    **given: Unpack[RunOptions],
) -> int:
    """Find the inner structure of TARGET: units, buffers, stripes, parallelism, spare area, TRIM.

    TARGET is /dev/…, a file or sim:MODEL. Its data are overwritten. A probe may answer "cannot
    tell".
    """
    text = (
        "title: Inner structure\nprecondition: []\n"
        f"measure:\n  - probe: {{of: [{', '.join(only or PROBES)}]}}\n"
    )
    return _answer_probes(run_inside(place, PROBE, text, target, output, given), as_json=as_json)


def _answer_probes(ended: "Ended", *, as_json: bool) -> int:
    """Print the answers of the probes; return exit code 0 if each probe found an answer."""
    from ssdbench.cli.documents.runs import ProbeAnswer, Probed
    from ssdbench.model.inside import ProbeFound

    probes = ended.result.having(ProbeFound)
    code = 0 if probes and all(stage.complete for stage, _ in probes) else ended.exit_code
    simulated = ended.result.target.modelled
    if as_json:
        document(
            Probed(
                **_run_fields(ended, complete=code == 0),
                probes=tuple(
                    ProbeAnswer(
                        probe=found.probe,
                        answer=found.answer,
                        measured=found.measured,
                        **found.numbers.model_dump(),
                    )
                    for _, found in probes
                ),
            )
        )
        return code
    for _, found in probes:
        answer(f"{found.probe}: {found.answer}{' (simulated)' if simulated else ''}")
    answer(f"report: {ended.files[0]}")
    return code


def _run_fields(ended: "Ended", *, complete: bool) -> dict[str, Any]:
    """Return the values for the fields of the JSON document Inside (in cli.documents.runs)."""
    return {
        "directory": str(ended.directory),
        "report": str(ended.files[0]),
        "simulated": ended.result.target.modelled,
        "complete": complete,
        "bytes_written": ended.result.bytes_written,
    }


DETECT_BLOCKSIZE = "detect-blocksize"
EVIDENCE = {"searched", "candidates", "strides", "smallest_effects"}


@click.command(DETECT_BLOCKSIZE)
@target_argument
@click.option(
    "--stride",
    "strides",
    type=SIZE,
    multiple=True,
    metavar="SIZE",
    help="Distance between two writes. Give it at least three times; these distances replace the "
    "default distances.",
)
@click.option(
    "--block", type=SIZE, default=4096, metavar="SIZE", help="Size of one write. Default: 4KiB."
)
@click.option(
    "--writes",
    type=click.IntRange(min=16),
    metavar="N",
    help="Writes per region and distance between writes. Fewer writes take less time, but the "
    "answer is less certain.",
)
@click.option(
    "--read-only",
    is_flag=True,
    help="Only read, for a drive whose data you need. The answer is much less certain.",
)
@inside_options
@click.pass_obj
def detect_blocksize(
    place: Place,
    target: str,
    strides: tuple[int, ...],
    block: int,
    writes: int | None,
    output: Path | None,
    *,
    read_only: bool,
    as_json: bool,
    **given: Unpack[RunOptions],
) -> int:
    """Find how large and aligned to write to TARGET: its block, or else its mapping unit.

    Writes at regular distances show the block and the write buffer. Without a block, the mapping
    unit and the stripe are measured, and compared with what the drive reports. TARGET is /dev/…, a
    file or sim:MODEL. Its data are overwritten, except with --read-only.
    """
    wanted = "auto" if not strides else f"[{', '.join(str(s) for s in strides)}]"
    text = (
        f"title: Block size\nprecondition: []\nmeasure:\n  - blocksize: {{strides: {wanted}, "
        f"block: {block}, writes: {'null' if writes is None else writes}, "
        f"read_only: {str(read_only).lower()}}}\n"
    )
    try:
        ended = run_inside(place, DETECT_BLOCKSIZE, text, target, output, given)
    except SsdbenchError:
        if not as_json:
            _print_kept(place.run_directory)
        raise
    return _answer_block_size(ended, as_json=as_json)


def _answer_block_size(ended: "Ended", *, as_json: bool) -> int:
    """Print the block size and the buffer size; return exit code 0 if the stage was completed."""
    from ssdbench.cli.documents.runs import BlockSizeAnswered, BlockSizeEvidence
    from ssdbench.model.inside import BlockSizeFound

    stage, found = next(iter(ended.result.having(BlockSizeFound)), (None, BlockSizeFound()))
    code = 0 if stage is not None and stage.complete else ended.exit_code
    if as_json:
        document(
            BlockSizeAnswered(
                **_run_fields(ended, complete=bool(stage and stage.complete)),
                **found.model_dump(exclude={"kind", "figures", "evidence", *EVIDENCE}),
                evidence_from=found.evidence or None,
                evidence=BlockSizeEvidence(**found.model_dump(include=EVIDENCE)),
                findings=stage.findings if stage else (),
            )
        )
        return code
    if stage is not None:
        _lines(ended.result, stage, found)
    answer(f"report: {ended.files[0]}")
    return code


def _print_kept(directory: Path | None) -> None:
    """Print the results that the run had stored before the drive failed."""
    from ssdbench.engine.store import load
    from ssdbench.model.inside import BlockSizeFound
    from ssdbench.model.result import RunResult

    if directory is None:
        return
    with contextlib.suppress(SsdbenchError):
        result = load(directory / rundirectory.RESULT, RunResult)
        for stage, found in result.having(BlockSizeFound):
            _lines(result, stage, found)


def _lines(result: "RunResult", stage: "StageResult", found: "BlockSizeFound") -> None:
    from ssdbench.report.view.inside import buffer

    answer(f"{found.answer}{' (simulated drive)' if result.target.modelled else ''}")
    for part in found.parts:
        sure = "" if part.confidence is None else f", confidence {100 * part.confidence:.1f} %"
        cost = f", {part.minutes:g} min, {format_capacity(part.bytes_written)} written"
        answer(f"  {part.part}: {part.answer}{sure}{cost if part.minutes else ''}")
        answer(f"    looked for: {part.limits}")
    if found.block_bytes:
        answer(f"  p <= {found.p_value}, {found.strides_agreeing} strides agree")
        if found.phase_bytes is not None:
            answer(
                f"  boundaries are at multiples of the block, plus {format_size(found.phase_bytes)}"
            )
    if found.buffer:
        answer(f"  buffer: {buffer(result, found)}")
    for finding in stage.findings:
        answer(f"  {finding.message}")
