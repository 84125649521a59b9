"""Describe one reason against overwriting a target, and the option that overrides it (pure)."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from ssdbench.errors import TargetRefused

DESTROY = "--destroy"  # followed by an identity
OVERWRITE = ("--overwrite-signatures",)
DATA = ("--overwrite-data",)
SHARED = ("--accept-shared",)
WEAR = ("--accept-wear",)
ELSEWHERE = "choose another target: `ssdbench drives` lists all of them"


@dataclass(frozen=True, slots=True)
class Objection:
    """One reason; `option` has the words that override it, or is empty if no option does."""

    reason: str
    option: tuple[str, ...] = ()
    remedy: str = ""  # what to do about it, where something can be done

    def __str__(self) -> str:
        return self.reason


def options_of(found: Sequence[Objection]) -> tuple[str, ...]:
    """Return the options that override all objections; empty when one cannot be overridden."""
    if not all(objection.option for objection in found):
        return ()
    distinct = dict.fromkeys(objection.option for objection in found)
    return tuple(word for option in distinct for word in option)


def way_out(found: Sequence[Objection]) -> str:
    """Return the way out: the options if they are enough, else the first steps."""
    options = options_of(found)
    if options:
        return f"if you do not need its data any more, add {shlex.join(options)}"
    remedies = dict.fromkeys(o.remedy for o in found if not o.option)
    return ELSEWHERE if "" in remedies else f"{', '.join(remedies)}; or {ELSEWHERE}"


def refuse(target: str, found: Sequence[Objection], *, hint: str = "") -> None:
    """Raise TargetRefused with every objection; do nothing without any."""
    if not found:
        return
    reasons = [o.reason for o in found]
    raise TargetRefused(target, reasons, hint=hint or way_out(found), options=options_of(found))
