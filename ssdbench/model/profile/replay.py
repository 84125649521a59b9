"""Defines `replay`: a trace of block I/O that is sent again."""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from ssdbench.model.base import ProfileModel, refuse
from ssdbench.model.kind import StageKind
from ssdbench.model.quantity import Jobs, Positive, Repeats, SizeBytes

ColumnName = Annotated[str, Field(min_length=1, max_length=100)]


class TraceForm(StrEnum):
    """How a trace is written."""

    AUTO = "auto"
    IOLOG = "iolog"  # of fio, versions 2 and 3
    BLKTRACE = "blktrace"  # binary
    BLKPARSE = "blkparse"  # text
    CSV = "csv"


class Placing(StrEnum):
    """Where on the drive the requests of a trace go."""

    KEEP = "keep"  # where they were; a trace beyond the drive is refused
    SCALE = "scale"  # extents of 2 MiB, spread or folded over the drive
    WRAP = "wrap"  # modulo the drive


class Columns(ProfileModel):
    """Names and units of the columns of a CSV file."""

    time: ColumnName = "time"
    """When a request arrived."""
    offset: ColumnName = "offset"
    """Where it begins."""
    size: ColumnName = "size"
    """How much it moves."""
    op: ColumnName = "op"
    """r, read, w, write, trim, discard or flush."""
    time_unit: Literal["s", "ms", "us", "ns"] = "s"
    """Of `time`."""
    offset_unit: Literal["bytes", "sectors"] = "bytes"
    """Of `offset`; a sector is 512 bytes."""
    size_unit: Literal["bytes", "sectors"] = "bytes"
    """Of `size`."""

    @model_validator(mode="after")
    def _apart(self) -> Self:
        names = {"time": self.time, "offset": self.offset, "size": self.size, "op": self.op}
        refuse(
            [
                ((key,), f"'{name}' is a column for another key, too; each needs its own")
                for key, name in names.items()
                if key in self.model_fields_set and [*names.values()].count(name) > 1
            ]
        )
        return self


class Replay(ProfileModel):
    """Requests of a trace, sent at the times of the trace whether the drive keeps up or not."""

    kind: ClassVar[StageKind] = StageKind.REPLAY
    reads: ClassVar[bool] = True

    file: Annotated[str, Field(min_length=1, max_length=4096)]
    """The trace, seen from the directory of the profile."""
    name: Annotated[str, Field(max_length=100)] = ""
    """What reports and `accept` call it; the file's name unless set."""
    form: TraceForm = TraceForm.AUTO
    """How it is written; told from its begin unless set."""
    columns: Columns = Columns()
    """Of a CSV file."""
    files: tuple[Annotated[str, Field(min_length=1, max_length=4096)], ...] = ()
    """Of an iolog of several files: those whose requests count, in the order in which they are laid
    on the drive, one behind another."""
    speed: Positive = 1.0
    """2 sends twice as fast as the trace, 0.5 half as fast."""
    placing: Placing = Placing.KEEP
    """keep: the offsets of the trace; scale: extents of 2 MiB spread or folded over the drive;
    wrap: modulo the drive."""
    traced_bytes: SizeBytes | None = Field(default=None, alias="traced_size")
    """With `placing: scale`, the size of the traced drive; without it, where the last request of
    the trace ends."""
    clients: Jobs = 64
    """Threads that send, each with one request in flight: so many are in flight at most. A trace
    without arrival times is sent by as many in turn; set 1 for its order."""
    passes: Annotated[int, Field(strict=True, ge=0, le=1000)] = 1
    """Replays before the first that counts."""
    repeats: Repeats = 5
    """Replays that count. Fewer than 5 do not validate."""
    processes: bool = False
    """Keep the names of processes that a blkparse trace holds."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if twice := [name for name in self.files if self.files.count(name) > 1]:
            refuse([(("files",), f"'{twice[0]}' stands there twice")])
        if self.files and self.form not in (TraceForm.AUTO, TraceForm.IOLOG):
            refuse([(("files",), f"only of an iolog, and `form` is {self.form}")])
        if self.traced_bytes is not None and self.placing is not Placing.SCALE:
            refuse([(("traced_size",), "only with `placing: scale`")])
        return self

    @property
    def called(self) -> str:
        """Return its name in reports."""
        return self.name or self.file.rsplit("/", 1)[-1]
