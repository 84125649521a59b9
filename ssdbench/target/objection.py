"""One reason against overwriting a target, and what the user may say to override it (pure)."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from ssdbench.errors import TargetRefused

OVERWRITE = ("--overwrite-signatures",)
SHARED = ("--accept-shared",)
WEAR = ("--accept-wear",)


@dataclass(frozen=True, slots=True)
class Objection:
    """One reason; `option` are the words that override it, none when nothing does."""

    reason: str
    option: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.reason


def options_of(found: Sequence[Objection]) -> tuple[str, ...]:
    """The words that would let all of them pass; none when there is one without."""
    if not all(objection.option for objection in found):
        return ()
    distinct = dict.fromkeys(objection.option for objection in found)
    return tuple(word for option in distinct for word in option)


def refuse(target: str, found: Sequence[Objection], *, hint: str = "") -> None:
    """Raise TargetRefused with every objection; nothing without one."""
    if not found:
        return
    options = options_of(found)
    way_out = f"if nothing on it is needed any more, add {shlex.join(options)}" if options else ""
    raise TargetRefused(target, [o.reason for o in found], hint=hint or way_out, options=options)
