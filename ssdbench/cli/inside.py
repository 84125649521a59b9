"""`ssdbench probe` and `ssdbench detect-blocksize`: the inner structure of a drive."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, TypeVar, Unpack

import click

from ssdbench.cli.main import Place
from ssdbench.cli.options import Size, consent_options, json_option, target_argument, wear_options
from ssdbench.cli.output import answer, document, tell
from ssdbench.errors import SsdbenchError
from ssdbench.model import rundirectory

if TYPE_CHECKING:
    from ssdbench.cli.conduct import Ended
    from ssdbench.model.inside import BlockSizeFound
    from ssdbench.model.result import RunResult, StageResult
    from ssdbench.model.target import Consent


R = TypeVar("R")


class Agreed(TypedDict):
    """The consent, the endurance and the seed, by the names of the options."""

    consent: "Consent"
    endurance: float | None
    seed: int | None


def inside_options(function: Callable[..., R]) -> Callable[..., R]:
    """--output, consent, wear, --seed and --json."""
    output = click.option(
        "--output", type=click.Path(path_type=Path), metavar="DIR", help="Run directory to make."
    )
    seed = click.option(
        "--seed", type=click.IntRange(min=0, max=2**63 - 1), help="Seed of the offsets."
    )
    return output(consent_options(wear_options(seed(json_option(function)))))


def run_inside(
    place: Place, name: str, profile_text: str, target: str, output: Path | None, agreed: Agreed
) -> "Ended":
    """Run a built-in profile on a target, after printing what it will write."""
    import sys

    from ssdbench.cli import conduct
    from ssdbench.cli.progress import event_display
    from ssdbench.errors import ProfileError, UsageError
    from ssdbench.model.loading import load_profile
    from ssdbench.suite.plan import plan
    from ssdbench.suite.request import RunRequest
    from ssdbench.units import format_capacity

    try:
        wishes = RunRequest(
            profile=load_profile(profile_text, name),
            profile_name=name,
            profile_text=profile_text,
            target=target,
            argv=tuple(sys.argv),
            seed=agreed["seed"],
            consent=agreed["consent"],
            endurance_tb=agreed["endurance"],
        )
        planned = plan(wishes)
    except ProfileError as error:  # its places are in a text that the user never saw
        raise UsageError([one.reason for one in error.diagnostics]) from error
    least, most = planned.bytes_written
    tell(f"will write {format_capacity(least)} to {target}, at most {format_capacity(most)}")
    for note in (note for stage in planned.stages for note in stage.notes):
        tell(f"  {note}")
    directory = output or conduct.new_directory(name, target)

    def started(path: Path) -> None:
        place.run_directory = path

    with event_display(moving=False) as shown:
        return conduct.run(wishes, directory, conduct.Audience(shown.show, started))


PROBE = "probe"
PROBES = (
    "slc-cache", "stripe", "parallelism", "read-chunk", "remap-unit", "mapping", "flush",
    "write-buffer", "spare", "trim",
)  # fmt: skip


@click.command(PROBE)
@target_argument
@click.option(
    "--only",
    "only",
    type=click.Choice(PROBES),
    multiple=True,
    help="Run only this probe; may be given several times.",
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
    **agreed: Unpack[Agreed],
) -> int:
    """Find the inner structure of TARGET: units, buffers, stripes, parallelism, spare area, TRIM.

    TARGET is /dev/…, a file or sim:MODEL. It is overwritten. A probe may answer "cannot tell".
    """
    text = (
        "title: Inner structure\nprecondition: []\n"
        f"measure:\n  - probe: {{of: [{', '.join(only or PROBES)}]}}\n"
    )
    return _answer_probes(run_inside(place, PROBE, text, target, output, agreed), as_json=as_json)


def _answer_probes(ended: "Ended", *, as_json: bool) -> int:
    """Print the answers; 0 when there are all, whatever they are."""
    from ssdbench.cli.documents.runs import ProbeAnswer, Probed
    from ssdbench.model.inside import ProbeFound

    probes = ended.result.having(ProbeFound)
    code = 0 if probes and all(stage.complete for stage, _ in probes) else ended.exit_code
    simulated = ended.result.target.simulated
    if as_json:
        document(
            Probed(
                directory=str(ended.directory),
                report=str(ended.files[0]),
                simulated=simulated,
                complete=code == 0,
                bytes_written=ended.result.bytes_written,
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


DETECT_BLOCKSIZE = "detect-blocksize"
EVIDENCE = {"searched", "candidates", "strides", "smallest_effects"}


@click.command(DETECT_BLOCKSIZE)
@target_argument
@click.option(
    "--stride",
    "strides",
    type=Size(),
    multiple=True,
    metavar="SIZE",
    help="Distance between two writes. Give it three times or more; these distances replace the "
    "default ones.",
)
@click.option("--block", type=Size(), default=4096, metavar="SIZE", help="Size of one write: 4KiB.")
@click.option(
    "--writes",
    type=click.IntRange(min=16),
    metavar="N",
    help="Writes per stride and region; fewer writes are quicker and less certain.",
)
@click.option(
    "--read-only", is_flag=True, help="Only read, for drives that hold data; much less certain."
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
    **agreed: Unpack[Agreed],
) -> int:
    """Find the block size and the write buffer of TARGET from strided writes.

    TARGET is /dev/…, a file or sim:MODEL. Parts of it are overwritten, except with --read-only.
    """
    wanted = "auto" if not strides else f"[{', '.join(str(s) for s in strides)}]"
    text = (
        f"title: Block size\nprecondition: []\nmeasure:\n  - blocksize: {{strides: {wanted}, "
        f"block: {block}, writes: {'null' if writes is None else writes}, "
        f"read_only: {str(read_only).lower()}}}\n"
    )
    try:
        ended = run_inside(place, DETECT_BLOCKSIZE, text, target, output, agreed)
    except SsdbenchError:
        if not as_json:
            _kept(place.run_directory)
        raise
    return _answer_block_size(ended, as_json=as_json)


def _answer_block_size(ended: "Ended", *, as_json: bool) -> int:
    """Print the answer; 0 when there is one, whatever it is."""
    from ssdbench.cli.documents.runs import BlockSizeAnswered, BlockSizeEvidence
    from ssdbench.model.inside import BlockSizeFound

    stage, found = next(iter(ended.result.having(BlockSizeFound)), (None, BlockSizeFound()))
    code = 0 if stage is not None and stage.complete else ended.exit_code
    if as_json:
        document(
            BlockSizeAnswered(
                directory=str(ended.directory),
                report=str(ended.files[0]),
                simulated=ended.result.target.simulated,
                complete=bool(stage and stage.complete),
                bytes_written=ended.result.bytes_written,
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


def _kept(directory: Path | None) -> None:
    """What was found before the drive failed."""
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
    from ssdbench.units import format_size

    answer(f"{found.answer}{' (simulated drive)' if result.target.simulated else ''}")
    if found.block_bytes:
        sure = "" if found.confidence is None else f", confidence {100 * found.confidence:.1f} %"
        answer(f"  p <= {found.p_value}{sure}, {found.strides_agreeing} strides agree")
        if found.phase_bytes is not None:
            answer(
                f"  boundaries are at multiples of the block, plus {format_size(found.phase_bytes)}"
            )
    if found.buffer:
        answer(f"  buffer: {buffer(result, found)}")
    for finding in stage.findings:
        answer(f"  {finding.message}")
