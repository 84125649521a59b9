"""Read the drive's own logs: how many bytes went to flash, and its raw log pages.

OCP's Physical Media Units Written is a number of bytes, but drives update it slowly: a P5520 once a
minute, in steps of 95 GiB, so two readings may be wrong by a step each. The step is learned from
all readings of a run, and both ends wait, on an idle drive, until a due update has passed.
"""

import json
import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from ssdbench.errors import SsdbenchError
from ssdbench.host.files import make_directory, write_atomic
from ssdbench.host.sysfs import Sysfs
from ssdbench.model.result import FlashWritten
from ssdbench.model.target import TargetInfo
from ssdbench.target import pages
from ssdbench.target.inspect import kernel_name

STILL_S = 65.0  # longer than a minute, the slowest update seen
LONGEST_S = 200.0  # background work may move it forever
LOOK_S = 5.0
LEAST_VALUES = 4  # different values, before a step is believed


@dataclass
class FlashCounter:
    """Collect readings of one drive's counters in the order of a run."""

    seen: list[int] = field(default_factory=list)  # bytes to flash
    sleep: Callable[[float], None] = time.sleep

    def note(self, reading: FlashWritten | None) -> FlashWritten | None:
        """Keep a reading, from which the step is learned, and return it."""
        if reading is not None:
            self.seen.append(reading.media_bytes)
        return reading

    def still(
        self,
        read: Callable[[], FlashWritten | None],
        hurried: Callable[[], bool] = lambda: False,
    ) -> FlashWritten | None:
        """Wait until the counter stands still, and return the reading with its step if known.

        Waits at most LONGEST_S; a counter that still moves is as coarse as its last move. A
        `hurried` reading has no step.
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
    """Return the common divisor of all differences; None before enough values were seen."""
    distinct = sorted(set(values))
    if len(distinct) < LEAST_VALUES:
        return None
    return math.gcd(*(b - a for a, b in zip(distinct, distinct[1:], strict=False)))


INDEX = "index.json"


def store_pages(info: TargetInfo, directory: Path) -> None:
    """Store every log page of a drive as bytes, with an index; nothing for a target without pages.

    One file per page; `index.json` has names, sizes and checksums. A drive that no longer answers
    is stored as a fault in the index. Raises HostLacks when the directory cannot be written.
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
    listed = [_stored(name, page, directory) for name, page in read.items()]
    index = {"drive": info.id, "pages": listed, "fault": fault}
    write_atomic(directory / INDEX, json.dumps(index, indent=1) + "\n")


def _stored(name: str, page: bytes, directory: Path) -> dict[str, object]:
    file = re.sub(r"[^a-z0-9]+", "-", name.lower()) + ".bin"
    write_atomic(directory / file, page)
    return {
        "name": name,
        "file": file,
        "size_bytes": len(page),
        "sha256": sha256(page).hexdigest(),
    }
