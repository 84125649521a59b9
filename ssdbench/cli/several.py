"""`run` with several targets: all are checked before the first is touched, then one by one.

One after another, since drives that work at the same time share CPU, bus and heat: each would be a
disturbance of the others.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ssdbench.cli import conduct
from ssdbench.cli.conduct import Audience, Ended
from ssdbench.cli.main import Place
from ssdbench.cli.output import answer, document, table, tell
from ssdbench.cli.progress import story
from ssdbench.cli.summary import run_document
from ssdbench.engine.store import RunStore
from ssdbench.errors import SsdbenchError, TargetRefused, UsageError
from ssdbench.suite.plan import plan
from ssdbench.target.consent import lacking
from ssdbench.target.objection import Objection, options_of, way_out
from ssdbench.units import counted

if TYPE_CHECKING:
    from ssdbench.suite.asked import Asked

INTERRUPTED = 128  # exit codes from here on are those of signals


@dataclass(frozen=True, slots=True)
class OneOf:
    """What became of one target."""

    target: str
    directory: Path
    exit_code: int
    ended: Ended | None = None  # None where an error ended it
    error: str = ""


def run_each(
    wishes: "Asked",
    targets: Sequence[str],
    identities: Sequence[str],
    output: Path | None,
    *,
    place: Place,
    as_json: bool,
) -> int:
    """Run the same profile on each target, into a directory each; the worst exit code counts.

    `identities` are those that may be destroyed. Raises SsdbenchError before anything is touched;
    an error of one drive later does not keep the others from being measured, a signal does.
    """
    each = _allowed([replace(wishes, target=target) for target in targets], identities)
    output = output or conduct.new_directory(wishes.profile_name, counted(len(each), "drive"))
    RunStore.require_new(output)
    done: list[OneOf] = []
    for number, one in enumerate(each, start=1):
        tell(f"drive {number} of {len(each)}: {one.target}")
        directory = output / f"{number:02d}-{conduct.slug(one.target)}"
        done.append(_run(one, directory, place, moving=not as_json and sys.stderr.isatty()))
        if done[-1].exit_code >= INTERRUPTED:
            left = ", ".join(other.target for other in each[number:])
            tell(f"not begun: {left}" if left else "that was the last one")
            break
    _show(output, done, as_json=as_json)
    return max(one.exit_code for one in done)


def _allowed(each: "Sequence[Asked]", identities: Sequence[str]) -> "list[Asked]":
    """Each with the consent for its own drive. Raises what speaks against any of them."""
    allowed: list[Asked] = []
    seen: dict[str, str] = {}
    found: list[tuple[str, Objection]] = []
    for one in each:
        planned = plan(one)
        info = planned.target
        if info.id in seen:
            raise UsageError(
                f"{seen[info.id]} and {one.target} are one drive, {info.id}",
                hint="Name each drive once.",
            )
        seen[info.id] = one.target
        own = info.id if info.id in identities else None
        consent = one.consent.model_copy(update={"identity": own})
        lacks = lacking(info, consent, wear=planned.wear, destroys=planned.destroys)
        found += [(info.name, objection) for objection in lacks]
        allowed.append(replace(one, consent=consent))
    if others := [identity for identity in identities if identity not in seen]:
        raise UsageError(
            f"--destroy {others[0]} names none of these targets",
            hint="`ssdbench drives` shows the identity of each drive.",
        )
    if found:
        objections = [objection for _, objection in found]
        raise TargetRefused(
            f"{len({name for name, _ in found})} of {counted(len(each), 'target')}",
            [f"{name}: {objection.reason}" for name, objection in found],
            hint=way_out(objections),
            options=options_of(objections),
        )
    return allowed


def _run(one: "Asked", directory: Path, place: Place, *, moving: bool) -> OneOf:
    def started(begun: Path) -> None:
        place.run_directory = begun

    try:
        with story(moving=moving) as shown:
            ended = conduct.run(one, directory, Audience(shown.show, started))
    except SsdbenchError as error:
        tell(f"error: {one.target}: {error.message}")
        return OneOf(one.target, directory, error.exit_code, error=error.message)
    return OneOf(one.target, directory, ended.exit_code, ended)


def _show(output: Path, done: Sequence[OneOf], *, as_json: bool) -> None:
    if as_json:
        from ssdbench.cli.documents.runs import RanOne, RanSeveral

        runs = tuple(
            RanOne(
                target=one.target,
                directory=str(one.directory),
                exit_code=one.exit_code,
                error=one.error or None,
                ran=run_document(one.ended) if one.ended else None,
            )
            for one in done
        )
        document(RanSeveral(directory=str(output), runs=runs))
        return
    rows = [
        (one.target, one.ended.result.verdict if one.ended else one.error, str(one.directory))
        for one in done
    ]
    answer(table(("target", "verdict", "run"), rows))
    tell(f"what they say together: ssdbench merge {output}")
