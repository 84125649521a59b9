"""What stands between a write's acknowledgement and the flash."""

from enum import StrEnum

from ssdbench.model.base import Model


class CacheKind(StrEnum):
    """Whether an acknowledged write survives a power cut."""

    VOLATILE = "volatile"  # it may not: it waits in memory until a flush
    PROTECTED = "protected"  # it does: memory that a capacitor empties, or flushes that do nothing
    NONE = "none"  # it does: it is on the medium
    NOT_VOLATILE = "not volatile"  # it does, by the drive's word; from memory or not is not known
    UNKNOWN = "unknown"


class WriteCache(Model):
    """The judged fact of a run, with what it was judged by."""

    kind: CacheKind
    evidence: tuple[str, ...] = ()  # sentences: what the drive says, what flushes cost
    contradiction: str = ""  # where the drive says one thing and does another
    present: bool | None = None  # by the drive's own pages; None where it does not tell
    enabled: bool | None = None  # the same, and what the run set
    write_us: float | None = None  # one 32 KiB write
    flush_us_after_1: float | None = None  # a flush behind one write
    flush_us_after_many: float | None = None  # behind 64
    buffer_bytes: int = 0  # the largest that is known; 0 where none is
