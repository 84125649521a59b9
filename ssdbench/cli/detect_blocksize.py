"""`ssdbench detect-blocksize`."""

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ssdbench.cli.main import Place
from ssdbench.cli.options import Size, json_option, leave, worn
from ssdbench.cli.output import answer, document, tell
from ssdbench.errors import SsdbenchError

if TYPE_CHECKING:
    from ssdbench.cli.conduct import Ended
    from ssdbench.model.result import StageResult
    from ssdbench.suite import Asked

NAME = "detect-blocksize"


@click.command(NAME)
@click.argument("target", metavar="TARGET")
@click.option(
    "--stride",
    "strides",
    type=Size(),
    multiple=True,
    metavar="SIZE",
    help="Distance between writes; at least three times, instead of those that are chosen.",
)
@click.option("--block", type=Size(), default=4096, metavar="SIZE", help="Size of one write: 4KiB.")
@click.option(
    "--writes",
    type=click.IntRange(min=16),
    metavar="N",
    help="Writes per stride and region; fewer are quicker and see less.",
)
@click.option("--read-only", is_flag=True, help="Only read: for drives that hold data; weak.")
@click.option(
    "--output", type=click.Path(path_type=Path), metavar="DIR", help="Run directory to make."
)
@leave
@worn
@click.option("--seed", type=click.IntRange(min=0, max=2**63 - 1), help="Seed of the offsets.")
@json_option
@click.pass_obj
def command(
    place: Place,
    target: str,
    strides: tuple[int, ...],
    block: int,
    writes: int | None,
    output: Path | None,
    destroy: str | None,
    *,
    read_only: bool,
    overwrite_signatures: bool,
    accept_shared: bool,
    accept_wear: bool,
    endurance: float | None,
    seed: int | None,
    as_json: bool,
) -> int:
    """Find the block size and the write buffer of TARGET from strided writes.

    TARGET is /dev/…, a file or sim:MODEL. Parts of it are overwritten, unless with --read-only.
    """
    from ssdbench import suite
    from ssdbench.cli import conduct
    from ssdbench.cli.progress import story
    from ssdbench.units import format_capacity

    wishes = replace(
        _asked(target, strides, block, writes, read_only=read_only),
        seed=seed,
        destroy_id=destroy,
        overwrite_signatures=overwrite_signatures,
        accept_shared=accept_shared,
        accept_wear=accept_wear,
        endurance_tb=endurance,
    )
    planned = suite.plan(wishes)
    least, most = planned.bytes_written
    tell(f"will write {format_capacity(least)} to {target}, at most {format_capacity(most)}")
    for stage in planned.stages:
        for note in stage.notes:
            tell(f"  {note}")
    directory = output or conduct.new_directory(NAME, target)

    def started(path: Path) -> None:
        place.run_directory = path

    try:
        with story(moving=False) as shown:
            ended = conduct.run(wishes, directory, conduct.Audience(shown.show, started))
    except SsdbenchError:
        if not as_json:
            _kept(place.run_directory)
        raise
    return _answered(ended, as_json=as_json)


def _asked(
    target: str,
    strides: tuple[int, ...],
    block: int,
    writes: int | None,
    *,
    read_only: bool,
) -> "Asked":
    import sys

    from ssdbench.model.loading import load_profile
    from ssdbench.suite import Asked

    wanted = "auto" if not strides else f"[{', '.join(str(s) for s in strides)}]"
    text = (
        f"title: Block size\nprecondition: []\nmeasure:\n  - blocksize: {{strides: {wanted}, "
        f"block: {block}, writes: {'null' if writes is None else writes}, "
        f"read_only: {str(read_only).lower()}}}\n"
    )
    return Asked(
        profile=load_profile(text, NAME),
        profile_name=NAME,
        profile_text=text,
        target=target,
        argv=tuple(sys.argv),
    )


def _answered(ended: "Ended", *, as_json: bool) -> int:
    """Print the answer; 0 when there is one, whatever it is."""
    stage = next((s for s in ended.result.stages if s.kind == "blocksize"), None)
    code = 0 if stage is not None and stage.complete else ended.exit_code
    if as_json:
        document(
            {
                "directory": str(ended.directory),
                "report": str(ended.files[0]),
                "simulated": ended.result.target.simulated,
                "complete": bool(stage and stage.complete),
                "bytes_written": ended.result.bytes_written,
                **(stage.summary if stage else {}),
                "evidence_from": stage.summary.get("evidence") if stage else None,
                "evidence": stage.data if stage else {},
                "findings": [f.model_dump(mode="json") for f in stage.findings] if stage else [],
            }
        )
        return code
    if stage is not None:
        _lines(stage, simulated=ended.result.target.simulated)
    answer(f"report: {ended.files[0]}")
    return code


def _kept(directory: Path | None) -> None:
    """What was found before the drive failed."""
    from ssdbench.engine.store import load
    from ssdbench.model.result import RunResult

    if directory is None:
        return
    with contextlib.suppress(SsdbenchError):
        result = load(directory / "result.json", RunResult)
        for stage in result.stages:
            if stage.kind == "blocksize":
                _lines(stage, simulated=result.target.simulated)


def _lines(stage: "StageResult", *, simulated: bool) -> None:
    from ssdbench.units import format_size

    said = stage.summary
    answer(f"{said.get('answer')}{' (simulated drive)' if simulated else ''}")
    if said.get("block_bytes"):
        confidence = said.get("confidence")
        phase = said.get("phase_bytes")
        sure = f", confidence {100 * confidence:.0f} %" if isinstance(confidence, float) else ""
        answer(f"  p <= {said.get('p_value')}{sure}, {said.get('strides_agreeing')} strides agree")
        if isinstance(phase, int):
            answer(f"  boundaries at multiples of the block, plus {format_size(phase)}")
    answer(f"  buffer: {said.get('buffer')}")
    for finding in stage.findings:
        answer(f"  {finding.message}")
