"""What the control host keeps of a fleet: one small file for each drive, and the results fetched.

    drives/NAME.json    its job (without the profile) and its last state
    runs/NAME/          manifest.json, journal.jsonl, result.json … as the host sent them
    stop                asks `fleet run` to begin nothing more

Nothing here decides whether a step is done again: the run directory on the host does.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ssdbench.errors import HostLacks
from ssdbench.fleet.contract import Job
from ssdbench.fleet.drive import Stage, State
from ssdbench.foreign import json_object, read_regular, write_whole
from ssdbench.host.files import make_directory, write_atomic
from ssdbench.host.lock import Lock

TOLD = ("name", "host", "rack", "target", "identity", "model", "serial", "firmware", "simulated")


@dataclass(frozen=True, slots=True)
class Kept:
    """A drive as its record has it."""

    job: dict[str, Any]
    state: State
    at: datetime


@dataclass(frozen=True, slots=True)
class Records:
    """The directory of one fleet on the control host."""

    directory: Path

    @classmethod
    def of(cls, file: Path) -> "Records":
        """Beside FLEET.yaml: FLEET.fleet."""
        return cls(file.absolute().with_suffix(".fleet"))

    def make(self) -> None:
        """Create it. Raises HostLacks."""
        for part in ("drives", "runs"):
            make_directory(self.directory / part)

    def lock(self) -> Lock:
        """One `fleet run` at a time here; another control host is kept apart by the contract."""
        return Lock(
            self.directory.with_name(f".{self.directory.name}.lock"),
            lambda holder: HostLacks(
                f"another `fleet run` ({holder}) is at work on {self.directory}",
                hint="See `ssdbench fleet status`; `ssdbench fleet stop` ends it.",
            ),
        )

    def note(self, job: Job, state: State) -> None:
        """Store how a drive stands; an end survives a power cut."""
        told = {name: getattr(job, name) for name in TOLD}
        record = {"at": datetime.now(UTC).isoformat(), "job": told, "state": asdict(state)}
        path = self.directory / "drives" / f"{job.name}.json"
        if state.stage.is_end:
            write_atomic(path, json.dumps(record))
        else:
            write_whole(path, json.dumps(record).encode())

    def store(self, job: Job, files: dict[str, bytes]) -> Path:
        """Keep the files of a run; result.json comes last, so that it stands for all of them."""
        directory = self.directory / "runs" / job.name
        make_directory(directory)
        for name in sorted(files, key=lambda name: name == "result.json"):
            make_directory((directory / name).parent)
            write_atomic(directory / name, files[name])
        return directory

    def all(self) -> Iterator[Kept]:
        """Every drive that has a record; one that is damaged is left out."""
        for path in sorted((self.directory / "drives").glob("*.json")):
            if (kept := _read(path)) is not None:
                yield kept

    def measured(self) -> frozenset[str]:
        """Names of runs that came to their end and whose result is here: never begun again."""
        return frozenset(
            str(kept.job.get("name"))
            for kept in self.all()
            if kept.state.stage is Stage.MEASURED
            and (self.directory / "runs" / str(kept.job.get("name")) / "result.json").exists()
        )

    def asked_to_stop(self) -> bool:
        """Whether `fleet stop` was called since `fleet run` began."""
        return (self.directory / "stop").exists()

    def ask_to_stop(self) -> None:
        """Begin nothing more."""
        write_atomic(self.directory / "stop", "")

    def forget_to_stop(self) -> None:
        """A new `fleet run` goes on."""
        (self.directory / "stop").unlink(missing_ok=True)


def _read(path: Path) -> Kept | None:
    try:
        record = json_object(read_regular(path))
        state = State.of(record["state"])
        job = {name: record["job"][name] for name in TOLD}
        return Kept(job, state, datetime.fromisoformat(record["at"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
