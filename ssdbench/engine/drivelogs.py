"""Read the drive's own logs: the bytes written to flash, and its raw log pages.

The OCP log counts the bytes written to flash (Physical Media Units Written), but drives update it
slowly: a P5520 once a minute, in steps of 95 GiB. So each reading may be wrong by as much as one
step of the counter. The size of the step is found from all readings of a run. The run's first and
last readings wait until the drive has updated the log.
"""

import csv
import io
import json
import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from ssdbench.errors import SsdbenchError
from ssdbench.foreign import cell
from ssdbench.host.files import make_directory, write_atomic
from ssdbench.host.sysfs import Sysfs
from ssdbench.model.result import FlashWritten
from ssdbench.model.target import TargetInfo
from ssdbench.target import pages
from ssdbench.target.inspect import kernel_name, page_facts

STILL_S = 65.0  # without a change; the slowest drive seen updates once a minute
LONGEST_S = 200.0  # then stop waiting: background work may change the counter forever
LOOK_S = 5.0
LEAST_VALUES = 4  # different readings needed to find the step


@dataclass
class FlashCounter:
    """Collect all readings of one drive's flash counter, to find the size of its steps."""

    seen: list[int] = field(default_factory=list)  # bytes written to flash, by each reading
    sleep: Callable[[float], None] = time.sleep

    def note(self, reading: FlashWritten | None) -> FlashWritten | None:
        """Add a reading of the flash counter to the collection, and return the reading."""
        if reading is not None:
            self.seen.append(reading.media_bytes)
        return reading

    def still(
        self,
        read: Callable[[], FlashWritten | None],
        hurried: Callable[[], bool] = lambda: False,
    ) -> FlashWritten | None:
        """Wait until the flash counter stops changing; return the reading, and its step if known.

        The step is the number of bytes by which the counter grows at a time.

        A counter that still changes after LONGEST_S is read as it is; its step is then assumed to
        be at least the last change. If `hurried` returns True, the newest reading is returned at
        once, without the step of the counter.
        """
        reading = self.note(read())
        since_s = passed_s = 0.0
        moved = 0
        while reading is not None and since_s < STILL_S and passed_s < LONGEST_S:
            if hurried():
                return reading
            self.sleep(LOOK_S)
            passed_s += LOOK_S
            again = self.note(read())
            if again is None or again.media_bytes == reading.media_bytes:
                since_s += LOOK_S
                continue
            moved, since_s = abs(again.media_bytes - reading.media_bytes), 0.0
            reading = again
        if reading is None:
            return None
        step = learned_step(self.seen)
        if step is not None and since_s < STILL_S:
            step = max(step, moved)
        return reading.model_copy(update={"media_step_bytes": step})


def learned_step(values: Sequence[int]) -> int | None:
    """Return the counter's step: the common divisor of all differences; None for too few."""
    distinct = sorted(set(values))
    if len(distinct) < LEAST_VALUES:
        return None
    return math.gcd(*(b - a for a, b in zip(distinct, distinct[1:], strict=False)))


INDEX, FACTS = "index.json", "facts.csv"


def store_pages(info: TargetInfo, directory: Path) -> None:
    """Store each log page of a drive in a file, and the files' names and checksums in `index.json`.

    For a target without log pages, nothing is stored. If the drive does not answer, `index.json`
    has the error. Raises HostLacks when the directory cannot be written.
    """
    kernel = kernel_name(info)
    if info.simulated or not kernel:
        return
    sysfs, fault, read = Sysfs(), "", pages.Pages()
    try:
        read = pages.read(kernel, Path(info.node), sysfs=sysfs)
    except SsdbenchError as error:
        fault = error.message
    if not read and not fault:
        return
    make_directory(directory)
    listed = []
    for name, page in read.items():
        file = re.sub(r"[^a-z0-9]+", "-", name.lower()) + ".bin"
        write_atomic(directory / file, page)
        digest = sha256(page).hexdigest()
        listed.append({"name": name, "file": file, "size_bytes": len(page), "sha256": digest})
    index = {"drive": info.id, "pages": listed, "fault": fault}
    facts = io.StringIO()
    rows = [("fact", "said"), *page_facts(read).items()]
    csv.writer(facts, lineterminator="\n").writerows([cell(text) for text in row] for row in rows)
    write_atomic(directory / FACTS, facts.getvalue())
    write_atomic(directory / INDEX, json.dumps(index, indent=1) + "\n")
