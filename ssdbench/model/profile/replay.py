"""Define `replay`: send the requests of a block I/O trace again."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from ssdbench.model.base import Mistake, ProfileModel
from ssdbench.model.kind import StageKind
from ssdbench.model.quantity import Jobs, NumberAsText, Positive, Repeats, SizeBytes

ColumnName = Annotated[str, NumberAsText, Field(min_length=1, max_length=100)]
ColumnText = Annotated[str, NumberAsText, Field(max_length=100)]


class TraceForm(StrEnum):
    """The format of a trace."""

    AUTO = "auto"
    IOLOG = "iolog"  # of fio, versions 2 and 3
    BLKTRACE = "blktrace"  # binary
    BLKPARSE = "blkparse"  # text
    CSV = "csv"
    MSR = "msr"  # and the next: published traces
    ALIBABA = "alibaba"
    TENCENT = "tencent"
    FIU = "fiu"
    SPC = "spc"
    MIDAS = "midas"


class Placing(StrEnum):
    """Where on the drive the requests of a trace go."""

    KEEP = "keep"  # at the same offsets; a trace that exceeds the drive is refused
    SCALE = "scale"  # extents of 2 MiB, spread or folded over the drive
    WRAP = "wrap"  # offsets modulo the size of the drive


class Columns(ProfileModel):
    """Columns of a CSV file, by name or by number from 1, and their units."""

    time: ColumnName = "time"
    """Column of the arrival time of a request."""
    offset: ColumnName = "offset"
    """Column of the offset at which a request begins."""
    size: ColumnName = "size"
    """Column of the size of a request."""
    op: ColumnName = "op"
    """Column of the operation: r, read, w, write, trim, discard or flush."""
    device: ColumnText = ""
    """Column of the device; only the requests of one device are used (`device` of the replay)."""
    read: ColumnText = ""
    """The word of this trace for a read, such as 0, if it is not one of the words above."""
    write: ColumnText = ""
    """The word of this trace for a write, such as 1, if it is not one of the words above."""
    time_unit: Literal["auto", "s", "ms", "us", "100ns", "ns"] = "auto"
    """Unit of `time`. auto: the unit in which the first time is a date from 1990 to 2100; if there
    is none, s."""
    offset_unit: Literal["bytes", "sectors"] = "bytes"
    """Unit of `offset`; a sector is 512 bytes."""
    size_unit: Literal["bytes", "sectors"] = "bytes"
    """Unit of `size`."""

    def mistakes(self) -> Iterator[Mistake]:
        names = {"time": self.time, "offset": self.offset, "size": self.size, "op": self.op}
        twice = [
            key
            for key, name in names.items()
            if key in self.model_fields_set and [*names.values()].count(name) > 1
        ]
        for key in twice:
            why = f"another key also has the column '{names[key]}'; each key needs its own column"
            yield (key,), why
        if not twice and self.read and self.read.lower() == self.write.lower():
            yield ("write",), f"'{self.write}' is also the word for a read"


class Replay(ProfileModel):
    """Send the requests of a trace at the times of the trace, whether the drive keeps up or not."""

    kind: ClassVar[StageKind] = StageKind.REPLAY
    reads: ClassVar[bool] = True

    file: Annotated[str, Field(min_length=1, max_length=4096)]
    """The trace; the path is relative to the directory of the profile."""
    name: Annotated[str, Field(max_length=100)] = ""
    """Name in reports and in `accept`. Default: the name of the file."""
    form: TraceForm = TraceForm.AUTO
    """Format of the trace; auto recognises it by its first bytes."""
    columns: Columns = Columns()
    device: ColumnText = ""
    """In a trace of columns with several devices: the device whose requests are sent. Default:
    the device of the first request. Names in several columns are joined with a comma."""
    files: tuple[Annotated[str, Field(min_length=1, max_length=4096)], ...] = ()
    """For an iolog of several files: the files whose requests are sent. They are placed on the
    drive in this order, one after another."""
    speed: Positive = 1.0
    """Speed of the replay: 2 sends twice as fast as the trace, 0.5 half as fast."""
    placing: Placing = Placing.KEEP
    """Where requests go on the drive. keep: to the offsets of the trace; scale: extents of 2 MiB of
    the trace are spread over a larger drive, or several share a place on a smaller drive; wrap:
    offsets modulo the size of the drive."""
    traced_bytes: SizeBytes | None = Field(default=None, alias="traced_size")
    """With `placing: scale`: the size of the traced drive. Without it, the end of the last request
    of the trace."""
    clients: Jobs = 64
    """Threads that send requests, each with one in flight. The requests of a trace without arrival
    times are given to these threads one after another; set 1 to keep their order."""
    passes: Annotated[int, Field(strict=True, ge=0, le=1000)] = 1
    """Replays that are not counted, before the first one that is."""
    repeats: Repeats = 5
    """Replays that are counted. With fewer than 5 the result is not VALIDATED."""
    processes: bool = False
    """Keep the names of processes that a blkparse trace holds."""

    def mistakes(self) -> Iterator[Mistake]:
        if twice := [name for name in self.files if self.files.count(name) > 1]:
            yield ("files",), f"'{twice[0]}' is given twice"
        elif self.files and self.form not in (TraceForm.AUTO, TraceForm.IOLOG):
            yield ("files",), f"only an iolog has `files`, and `form` is {self.form}"
        elif self.traced_bytes is not None and self.placing is not Placing.SCALE:
            yield ("traced_size",), "only with `placing: scale`"

    @property
    def called(self) -> str:
        """Return the name of the trace in reports."""
        return self.name or self.file.rsplit("/", 1)[-1]
