"""`ssdbench detect-blocksize`."""

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from ssdbench.cli.looking import Agreed, look, look_options
from ssdbench.cli.main import Place
from ssdbench.cli.options import Size, target_argument
from ssdbench.cli.output import answer, document
from ssdbench.errors import SsdbenchError
from ssdbench.model import rundirectory

if TYPE_CHECKING:
    from ssdbench.cli.conduct import Ended
    from ssdbench.model.inside import BlockSizeFound
    from ssdbench.model.result import RunResult, StageResult

NAME = "detect-blocksize"
EVIDENCE = {"searched", "candidates", "strides", "smallest_effects"}


@click.command(NAME)
@target_argument
@click.option(
    "--stride",
    "strides",
    type=Size(),
    multiple=True,
    metavar="SIZE",
    help="Distance between two writes; give it three times or more, to replace the chosen ones.",
)
@click.option("--block", type=Size(), default=4096, metavar="SIZE", help="Size of one write: 4KiB.")
@click.option(
    "--writes",
    type=click.IntRange(min=16),
    metavar="N",
    help="Writes per stride and region; fewer are quicker and less certain.",
)
@click.option(
    "--read-only", is_flag=True, help="Only read, for drives that hold data; much less certain."
)
@look_options
@click.pass_obj
def command(
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
        ended = look(place, NAME, text, target, output, agreed)
    except SsdbenchError:
        if not as_json:
            _kept(place.run_directory)
        raise
    return _answered(ended, as_json=as_json)


def _answered(ended: "Ended", *, as_json: bool) -> int:
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
    from ssdbench.report.view.blocksize import buffer
    from ssdbench.units import format_size

    answer(f"{found.answer}{' (simulated drive)' if result.target.simulated else ''}")
    if found.block_bytes:
        sure = "" if found.confidence is None else f", confidence {100 * found.confidence:.1f} %"
        answer(f"  p <= {found.p_value}{sure}, {found.strides_agreeing} strides agree")
        if found.phase_bytes is not None:
            answer(f"  boundaries at multiples of the block, plus {format_size(found.phase_bytes)}")
    if found.buffer:
        answer(f"  buffer: {buffer(result, found)}")
    for finding in stage.findings:
        answer(f"  {finding.message}")
