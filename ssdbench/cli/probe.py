"""`ssdbench probe`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ssdbench.cli.main import Place
from ssdbench.cli.options import json_option, leave, worn
from ssdbench.cli.output import answer, document, tell

if TYPE_CHECKING:
    from ssdbench.cli.conduct import Ended
    from ssdbench.suite import Asked

NAME = "probe"
PROBES = (
    "slc-cache", "stripe", "parallelism", "write-buffer", "flush", "remap-unit", "mapping", "spare",
    "trim",
)  # fmt: skip


@click.command(NAME)
@click.argument("target", metavar="TARGET")
@click.option(
    "--only", "only", type=click.Choice(PROBES), multiple=True, help="Ask only this; repeatable."
)
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
    only: tuple[str, ...],
    output: Path | None,
    destroy: str | None,
    *,
    overwrite_signatures: bool,
    accept_shared: bool,
    accept_wear: bool,
    endurance: float | None,
    seed: int | None,
    as_json: bool,
) -> int:
    """Look into TARGET: remap unit, buffers, flushes, stripes, parallelism, spare area, TRIM.

    TARGET is /dev/…, a file or sim:MODEL. It is overwritten. "Cannot tell" is an answer.
    """
    from dataclasses import replace

    from ssdbench import suite
    from ssdbench.cli import conduct
    from ssdbench.cli.progress import story
    from ssdbench.units import format_capacity

    wishes = replace(
        _asked(target, only or PROBES),
        seed=seed,
        destroy_id=destroy,
        overwrite_signatures=overwrite_signatures,
        accept_shared=accept_shared,
        accept_wear=accept_wear,
        endurance_tb=endurance,
    )
    least, most = suite.plan(wishes).bytes_written
    tell(f"will write {format_capacity(least)} to {target}, at most {format_capacity(most)}")
    directory = output or conduct.new_directory(NAME, target)

    def started(path: Path) -> None:
        place.run_directory = path

    with story(moving=False) as shown:
        ended = conduct.run(wishes, directory, conduct.Audience(shown.show, started))
    return _answered(ended, as_json=as_json)


def _asked(target: str, wanted: tuple[str, ...]) -> "Asked":
    import sys

    from ssdbench.model.loading import load_profile
    from ssdbench.suite import Asked

    text = (
        "title: Inner structure\nprecondition: []\n"
        f"measure:\n  - probe: {{of: [{', '.join(wanted)}]}}\n"
    )
    return Asked(
        profile=load_profile(text, NAME),
        profile_name=NAME,
        profile_text=text,
        target=target,
        argv=tuple(sys.argv),
    )


def _answered(ended: "Ended", *, as_json: bool) -> int:
    """Print the answers; 0 when there are all, whatever they are."""
    stages = [stage for stage in ended.result.stages if stage.kind == "probe"]
    code = 0 if stages and all(stage.complete for stage in stages) else ended.exit_code
    simulated = ended.result.target.simulated
    if as_json:
        document(
            {
                "directory": str(ended.directory),
                "report": str(ended.files[0]),
                "simulated": simulated,
                "complete": code == 0,
                "bytes_written": ended.result.bytes_written,
                "probes": [{**stage.summary, **stage.data} for stage in stages],
            }
        )
        return code
    for stage in stages:
        said = stage.summary
        answer(f"{said.get('probe')}: {said.get('answer')}{' (simulated)' if simulated else ''}")
    answer(f"report: {ended.files[0]}")
    return code
