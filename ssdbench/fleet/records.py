"""Store the state of each drive of a fleet on the control host, and make the status table and page.

    drives/NAME.json    the job of a drive (without the profile), and its last state
    silent.json         the hosts that did not answer the last `fleet run`, and why
    runs/NAME/          manifest.json, journal.jsonl, result.json … as the host sent them
    stop                exists when `fleet run` must start no more runs

These records do not decide which steps of an interrupted run are repeated. The run directory on the
measured host decides this.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from ssdbench.errors import HostLacks
from ssdbench.fleet.drive import Stage, State
from ssdbench.fleet.hostscripts import Job
from ssdbench.foreign import json_object, read_regular, write_whole
from ssdbench.foreign import page as fit_for_a_page
from ssdbench.host.files import make_directory, write_atomic
from ssdbench.host.lock import Lock
from ssdbench.units import counted, format_count, format_duration

SILENT = "silent.json"
TOLD = ("name", "host", "rack", "target", "identity", "model", "serial", "firmware", "simulated",
        "version")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Kept:
    """The stored record of a drive: its job without the profile, its last state, the time."""

    job: dict[str, Any]
    state: State
    at: datetime


@dataclass(frozen=True, slots=True)
class Records:
    """The directory on the control host with the records of one fleet."""

    directory: Path

    @classmethod
    def of(cls, file: Path) -> "Records":
        """Return the records of FLEET.yaml: the directory FLEET.fleet in the same directory."""
        return cls(file.absolute().with_suffix(".fleet"))

    def make(self) -> None:
        """Create the directory of the records. Raises HostLacks."""
        for part in ("drives", "runs"):
            make_directory(self.directory / part)

    def lock(self) -> Lock:
        """Return the lock that prevents a second `fleet run` of this fleet on this control host."""
        return Lock(
            self.directory.with_name(f".{self.directory.name}.lock"),
            lambda holder: HostLacks(
                f"another `fleet run` ({holder}) uses {self.directory}",
                hint="`ssdbench fleet status` shows its progress; `ssdbench fleet stop` stops it.",
            ),
        )

    def note(self, job: Job, state: State) -> None:
        """Store the state of a drive; a final state is synced to disk."""
        self._write({name: getattr(job, name) for name in TOLD}, state, datetime.now(UTC))

    def _write(self, job: Mapping[str, object], state: State, heard: datetime) -> None:
        record = {"at": heard.isoformat(), "job": job, "state": asdict(state)}
        path = self.directory / "drives" / f"{job['name']}.json"
        if state.stage.is_end:
            write_atomic(path, json.dumps(record))
        else:
            write_whole(path, json.dumps(record).encode())

    def note_silent(self, silent: Mapping[str, str]) -> None:
        """Store which hosts did not answer, and why; mark their unfinished drives as silent."""
        write_whole(self.directory / SILENT, json.dumps(silent).encode())
        for kept in self.all():
            host = str(kept.job["host"])
            if host in silent and not kept.state.stage.is_end:
                state = replace(kept.state, stage=Stage.SILENT, said=silent[host])
                self._write(kept.job, state, kept.at)

    def silent(self) -> dict[str, str]:
        """Return the hosts that did not answer the last `fleet run`, and why."""
        try:
            told = json_object(read_regular(self.directory / SILENT))
        except (OSError, ValueError):
            return {}
        return {host: str(why) for host, why in told.items()}

    def store(self, job: Job, files: dict[str, bytes]) -> Path:
        """Store the files of a run, result.json last: if it exists, all other files exist."""
        directory = self.directory / "runs" / job.name
        make_directory(directory)
        for name in sorted(files, key=lambda name: name == "result.json"):
            make_directory((directory / name).parent)
            write_atomic(directory / name, files[name])
        return directory

    def all(self) -> Iterator[Kept]:
        """Yield the record of every drive; skip records that cannot be read."""
        for path in sorted((self.directory / "drives").glob("*.json")):
            if (kept := _read(path)) is not None:
                yield kept

    def measured(self) -> frozenset[str]:
        """Return the names of the runs whose result is stored; they are not started again."""
        return frozenset(
            str(kept.job.get("name"))
            for kept in self.all()
            if kept.state.stage is Stage.MEASURED
            and (self.directory / "runs" / str(kept.job.get("name")) / "result.json").exists()
        )

    def at_work(self) -> dict[str, dict[str, Any]]:
        """Return the jobs of the runs that may still be in progress on their hosts, by run name."""
        return {str(kept.job.get("name")): kept.job for kept in self.all() if kept.state.may_run}

    def is_stop_requested(self) -> bool:
        """Return whether `fleet stop` has requested a stop since the current `fleet run` began."""
        return (self.directory / "stop").exists()

    def request_stop(self) -> None:
        """Request that `fleet run` starts no more runs."""
        write_atomic(self.directory / "stop", "")

    def clear_stop_request(self) -> None:
        """Remove an old stop request; a new `fleet run` does this first."""
        (self.directory / "stop").unlink(missing_ok=True)


def _read(path: Path) -> Kept | None:
    try:
        record = json_object(read_regular(path))
        state = State.of(record["state"])
        job = {name: ({"version": ""} | record["job"])[name] for name in TOLD}
        return Kept(job, state, datetime.fromisoformat(record["at"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


JUST_NOW_S = 2.0
_ORDER = (
    Stage.FAILED, Stage.REFUSED, Stage.GIVEN_UP, Stage.SILENT, Stage.STOPPED, Stage.RUNNING,
    Stage.STARTING, Stage.WAITING, Stage.MEASURED,
)  # fmt: skip
STATUS_HEADER = ("drive", "host", "stage", "done", "left", "IOPS", "heard", "what")


def status_rows(kept: Sequence[Kept], *, now: datetime | None = None) -> list[tuple[str, ...]]:
    """Return one table row for each drive: drives with problems first, measured ones last."""
    now = now or datetime.now(UTC)
    return [_status_row(one, now) for one in sorted(kept, key=_rank)]


def status_summary(kept: Sequence[Kept]) -> str:
    """Return a sentence with the number of drives in each status."""
    count = Counter(one.state.stage for one in kept)
    stages = ", ".join(f"{count[stage]} {stage}" for stage in reversed(_ORDER) if count[stage])
    return f"{counted(len(kept), 'drive')}: {stages}" if kept else "no run was started"


def status_page(
    kept: Sequence[Kept], title: str, notes: Sequence[str] = (), *, now: datetime | None = None
) -> str:
    """Render the status table as one HTML file that has no scripts and loads nothing else."""
    now = now or datetime.now(UTC)
    environment = Environment(
        loader=PackageLoader("ssdbench.fleet"), autoescape=True, undefined=StrictUndefined
    )
    shown = [
        {
            "cells": list(
                zip(STATUS_HEADER, (*_status_row(one, now)[:-1], _said(one.state)), strict=True)
            ),
            "stage": one.state.stage.value,
            "findings": one.state.findings,
        }
        for one in sorted(kept, key=_rank)
    ]
    made = environment.get_template("fleet.html.j2").render(
        title=title, notes=notes, header=STATUS_HEADER, rows=shown, summary=status_summary(kept),
        at=f"{now.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC",
    )  # fmt: skip
    return fit_for_a_page(made) + "\n"


def _rank(one: Kept) -> tuple[int, list[str | int], list[str | int]]:
    where = (_natural_order(str(one.job.get(name))) for name in ("host", "target"))
    return _ORDER.index(one.state.stage), next(where), next(where)


def _natural_order(name: str) -> list[str | int]:
    """Return a key that sorts the numbers in names by value, so that n2 comes before n10."""
    parts = re.split(r"([0-9]+)", name)
    return [int(part) if number % 2 else part for number, part in enumerate(parts)]


def _status_row(one: Kept, now: datetime) -> tuple[str, ...]:
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
