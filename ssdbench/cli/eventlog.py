"""Store the events of a run in its directory, and read them for `ssdbench attach`.

events.jsonl     one line per event, with its text; a finding with all its fields
progress.json    the current progress of the run; replaced each time, so that it stays small
"""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from ssdbench.cli.progress import finding_line, headline, said
from ssdbench.engine.events import Event, FindingRaised, Progress, RunFinished, UnitFinished
from ssdbench.foreign import json_object, open_own, read_regular, write_whole
from ssdbench.model.finding import Finding

EVENTS = "events.jsonl"
PROGRESS = "progress.json"


@dataclass(slots=True)
class EventLog:
    """Write the events of a run to files in its directory; disk errors do not end the run."""

    directory: Path
    _findings: set[Finding] = field(default_factory=set)

    def write(self, event: Event) -> None:
        """Store one event."""
        try:
            if isinstance(event, Progress):
                write_whole(self.directory / PROGRESS, json.dumps(asdict(event)).encode())
            elif not isinstance(event, UnitFinished):  # the journal stores these
                self._append(event)
        except OSError:
            return

    def _append(self, event: Event) -> None:
        if isinstance(event, FindingRaised):
            if event.finding in self._findings:
                return
            self._findings.add(event.finding)
        record: dict[str, object] = {
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "event": type(event).__name__,
            "text": text_of(event),
        }
        if isinstance(event, FindingRaised):
            record["finding"] = event.finding.model_dump(mode="json")
        log = open_own(self.directory / EVENTS, os.O_WRONLY | os.O_APPEND)
        with os.fdopen(log, "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


def text_of(event: Event) -> str:
    """Return the line of text that describes an event; empty if the event needs no line."""
    match event:
        case FindingRaised(finding=finding):
            return f"  {finding_line(finding)}"
        case RunFinished(result=result):
            return result.verdict
        case _:
            return headline(event)


@dataclass(slots=True)
class Reader:
    """Read the events of a run in progress; each call returns only events since the last call."""

    directory: Path
    _offset: int = 0
    _last: bytes = b""

    def lines(self) -> Iterator[str]:
        """Yield the texts of new events; a line that is not complete is left for the next call."""
        try:
            data = read_regular(self.directory / EVENTS)[self._offset :]
        except OSError:
            return
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.splitlines():
            try:
                text = str(json_object(line)["text"])
            except (ValueError, KeyError, TypeError):
                continue
            if text:
                yield text

    def progress(self) -> Progress | None:
        """Return the progress of the run if it has changed since the last call, else None."""
        try:
            text = read_regular(self.directory / PROGRESS)
            if text == self._last:
                return None
            self._last = text
            found = Progress(**json_object(text))
            said(found)  # raises TypeError if a field is not a number
            return found
        except (OSError, ValueError, TypeError, OverflowError):
            return None
