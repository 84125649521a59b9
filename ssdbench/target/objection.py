"""Define objections: reasons not to overwrite a target, and options that override them; no I/O."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from ssdbench.errors import TargetRefused

DESTROY = "--destroy"  # an identity follows
OVERWRITE = ("--overwrite-signatures",)
DATA = ("--overwrite-data",)
SHARED = ("--accept-shared",)
WEAR = ("--accept-wear",)
ELSEWHERE = "choose another target: `ssdbench drives` lists all of them"


@dataclass(frozen=True, slots=True)
class Objection:
    """Describe one reason; `option` has the command line's words that override it, or is empty."""

    reason: str
    option: tuple[str, ...] = ()
    remedy: str = ""  # how to remove the reason, if possible

    def __str__(self) -> str:
        return self.reason


def options_of(found: Sequence[Objection]) -> tuple[str, ...]:
    """Return the options that override all objections; empty if any has no such option."""
    if not all(objection.option for objection in found):
        return ()
    distinct = dict.fromkeys(objection.option for objection in found)
    return tuple(word for option in distinct for word in option)


def way_out(found: Sequence[Objection]) -> str:
    """Return a hint: the options if they override all objections, else remedies."""
    options = options_of(found)
    if options:
        return f"if you do not need its data any more, add {shlex.join(options)}"
    remedies = dict.fromkeys(o.remedy for o in found if not o.option)
    return ELSEWHERE if "" in remedies else f"{', '.join(remedies)}; or {ELSEWHERE}"


def refuse(target: str, found: Sequence[Objection], *, hint: str = "") -> None:
    """Raise TargetRefused with all objections; do nothing if there are no objections."""
    if not found:
        return
    reasons = [o.reason for o in found]
    raise TargetRefused(target, reasons, hint=hint or way_out(found), options=options_of(found))
