"""How a fleet stands, as a table and as a page, from the records; no host is asked."""

import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from jinja2 import Environment, PackageLoader, StrictUndefined

from ssdbench.fleet.drive import Stage, State
from ssdbench.fleet.records import Kept
from ssdbench.foreign import page as fit_for_a_page
from ssdbench.units import counted, format_count, format_duration

JUST_NOW_S = 2.0
_ORDER = (
    Stage.FAILED, Stage.REFUSED, Stage.GIVEN_UP, Stage.SILENT, Stage.STOPPED, Stage.RUNNING,
    Stage.STARTING, Stage.WAITING, Stage.MEASURED,
)  # fmt: skip
HEADER = ("drive", "host", "stage", "done", "left", "IOPS", "heard", "what")


def rows(kept: Sequence[Kept], *, now: datetime | None = None) -> list[tuple[str, ...]]:
    """A row for each drive, those that need somebody first."""
    now = now or datetime.now(UTC)
    return [_row(one, now) for one in sorted(kept, key=_rank)]


def summary(kept: Sequence[Kept]) -> str:
    """How many drives stand how."""
    count = Counter(one.state.stage for one in kept)
    told = ", ".join(f"{count[stage]} {stage}" for stage in reversed(_ORDER) if count[stage])
    return f"{counted(len(kept), 'drive')}: {told}" if kept else "no drive was begun"


def page(kept: Sequence[Kept], title: str, *, now: datetime | None = None) -> str:
    """The same as one HTML file without scripts or requests."""
    now = now or datetime.now(UTC)
    environment = Environment(
        loader=PackageLoader("ssdbench.fleet"), autoescape=True, undefined=StrictUndefined
    )
    shown = [
        {
            "cells": list(zip(HEADER, (*_row(one, now)[:-1], _said(one.state)), strict=True)),
            "stage": one.state.stage.value,
            "findings": one.state.findings,
        }
        for one in sorted(kept, key=_rank)
    ]
    made = environment.get_template("fleet.html.j2").render(
        title=title, header=HEADER, rows=shown, summary=summary(kept),
        at=f"{now.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC",
    )  # fmt: skip
    return fit_for_a_page(made) + "\n"


def _rank(one: Kept) -> tuple[int, list[str | int], list[str | int]]:
    where = (_counted(str(one.job.get(name))) for name in ("host", "target"))
    return _ORDER.index(one.state.stage), next(where), next(where)


def _counted(name: str) -> list[str | int]:
    """A name as people sort it: n2 before n10."""
    parts = re.split(r"([0-9]+)", name)
    return [int(part) if number % 2 else part for number, part in enumerate(parts)]


def _row(one: Kept, now: datetime) -> tuple[str, ...]:
    state = one.state
    ago_s = max(0.0, (now - one.at).total_seconds())
    what = _said(state)
    if state.findings and not state.said:
        what = f"{what}; {counted(len(state.findings), 'finding')}: {state.findings[-1]}"
    drive = " ".join(str(one.job.get(name) or "") for name in ("model", "serial")).strip()
    running = state.stage is Stage.RUNNING
    return (
        drive or str(one.job.get("identity")),
        f"{one.job.get('host')} {one.job.get('target')}",
        state.stage.value,
        "" if state.fraction is None or not running else f"{100 * state.fraction:.0f} %",
        "" if state.left_s is None or not running else format_duration(state.left_s),
        "" if not state.rate_iops or not running else format_count(state.rate_iops),
        "just now" if ago_s < JUST_NOW_S else f"{format_duration(round(ago_s))} ago",
        what,
    )


def _said(state: State) -> str:
    return state.said or state.text
