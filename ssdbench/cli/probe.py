"""`ssdbench probe`."""

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from ssdbench.cli.looking import Agreed, look, look_options
from ssdbench.cli.main import Place
from ssdbench.cli.options import target_argument
from ssdbench.cli.output import answer, document

if TYPE_CHECKING:
    from ssdbench.cli.conduct import Ended

NAME = "probe"
PROBES = (
    "slc-cache", "stripe", "parallelism", "read-chunk", "remap-unit", "mapping", "flush",
    "write-buffer", "spare", "trim",
)  # fmt: skip


@click.command(NAME)
@target_argument
@click.option(
    "--only",
    "only",
    type=click.Choice(PROBES),
    multiple=True,
    help="Run only this probe; may be given several times.",
)
@look_options
@click.pass_obj
def command(
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
    return _answered(look(place, NAME, text, target, output, agreed), as_json=as_json)


def _answered(ended: "Ended", *, as_json: bool) -> int:
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
