"""Define findings about the drive: errors, heat, caches, mapping unit, target, block size."""

from ssdbench.model.finding import Code, FindingKind, NoteKind, Severity, WarningKind
from ssdbench.units import counted, format_duration, format_ns, format_size, listed

FAULTY = "The drive is faulty or worn out; see its SMART log."
COOL = "Cool the drive as it will be cooled in use, or accept the lower rate as the drive's own."


class IoErrors(FindingKind):
    """Requests ended with an error. `during` names the phase of the run, such as "the fill"."""

    code = Code.IO_ERRORS
    remedy = FAULTY

    errors: int
    during: str

    def message(self) -> str:
        return f"{counted(self.errors, 'request')} failed during {self.during}"


class NothingCompleted(FindingKind):
    """In some repeats, the drive did not complete any request."""

    code = Code.IO_ERRORS
    remedy = "The drive hangs, or a request takes longer than a window; see its SMART log."

    repeats: tuple[int, ...]

    def message(self) -> str:
        repeats = "repeat" if len(self.repeats) == 1 else "repeats"
        numbers = listed([str(number) for number in self.repeats])
        return f"no request was completed in {repeats} {numbers}"


class LinkErrors(FindingKind):
    """The PCIe link of the drive had errors.

    A corrected error cost time; any other error cost a request.
    """

    code = Code.IO_ERRORS
    severities = (Severity.WARNS, Severity.INVALIDATES)
    remedy = (
        "Look at the kernel log, and at the slot, cable or riser of the drive: data that "
        "the link sends again takes time, which is counted as time of the drive."
    )

    errors: int
    counter: str  # name of the kernel's AER counter: PCIe corrected errors
    corrected: bool

    def severity(self) -> Severity:
        return Severity.WARNS if self.corrected else Severity.INVALIDATES

    def message(self) -> str:
        return f"the drive's link counted {self.errors} {self.counter} during the run"


class TooHot(FindingKind):
    """The drive's sensor was at or above its warning temperature while it was measured."""

    code = Code.THROTTLED
    remedy = COOL

    hot_readings: int
    readings: int
    most_c: float
    warning_c: float | None  # None if the drive reports none and raised an alarm

    def message(self) -> str:
        limit = "" if self.warning_c is None else f"; its warning is at {self.warning_c:g} °C"
        return (
            f"the drive was too hot in {self.hot_readings} of {self.readings} readings "
            f"(up to {self.most_c:g} °C{limit}); it may have slowed itself down"
        )


class ThrottlingCounted(FindingKind):
    """The drive's own counters of throttling increased during a repeat."""

    code = Code.THROTTLED
    remedy = COOL

    events: tuple[int, ...]  # of each counter
    counters: tuple[str, ...]

    def message(self) -> str:
        said = ", ".join(f"{n} {name}" for n, name in zip(self.events, self.counters, strict=True))
        return f"the drive counted {said} between the start and the end of the repeat"


class ErrorsCounted(WarningKind):
    """The drive's own counters of errors (OCP's C0h) increased during a repeat."""

    code = Code.IO_ERRORS
    remedy = FAULTY

    events: tuple[int, ...]  # of each counter
    counters: tuple[str, ...]

    def message(self) -> str:
        said = ", ".join(f"{n} {name}" for n, name in zip(self.events, self.counters, strict=True))
        return f"the drive itself counted errors during the repeat: {said}"


class PowerGap(WarningKind):
    """The power meter gave no reading for too long in the measured window of a repeat."""

    code = Code.POWER_GAP
    remedy = (
        "Let the meter write a line at least every 5 s, and write each line out at once, not in "
        "blocks. The other numbers of the repeat are not affected."
    )

    gap_s: float
    most_s: float

    def message(self) -> str:
        return (
            f"the file of the power meter has no reading for {format_duration(self.gap_s)} of the "
            f"measured window, more than {format_duration(self.most_s)}, so the repeat has no watts"
        )


class SlowRequests(FindingKind):
    """The drive's latency monitor shows which slow requests of a repeat were slow in the drive."""

    code = Code.SLOW_IN_HOST
    severities = (Severity.NOTES, Severity.WARNS)
    remedy = (
        "Slow in the host: look for other work, power saving and interrupts on its CPUs. Slow in "
        "the drive: it is the drive's own tail."
    )

    of_drive: int
    of_host: int
    least_ms: int

    def severity(self) -> Severity:
        return Severity.WARNS if self.of_host > self.of_drive else Severity.NOTES

    def message(self) -> str:
        return (
            f"{counted(self.of_drive + self.of_host, 'request')} took {self.least_ms} ms or more: "
            f"according to the drive's own latency monitor, {self.of_drive} were slow in the "
            f"drive, and {self.of_host} only in the host"
        )


class VolatileCache(WarningKind):
    """The drive acknowledged writes before they were safe from a power cut."""

    code = Code.VOLATILE_CACHE

    buffer_bytes: int  # 0 if it is not known
    flush_us: float | None  # time that a flush after each write adds
    simulated: bool
    some_flushed: bool = False  # whether jobs or mixes sent flushes

    def message(self) -> str:
        held = f" of {format_size(self.buffer_bytes)}" if self.buffer_bytes else ""
        cost = ""
        if self.flush_us is not None:
            cost = f"; a flush after each write adds {format_ns(1000 * self.flush_us)}"
        flushed = "not every write is followed by a flush"
        if not self.some_flushed:
            flushed = "the points send no flushes"
        return f"writes were acknowledged from a volatile cache{held}, and {flushed}{cost}"

    def advice(self) -> str:
        off = "wbuf_bytes=0" if self.simulated else "`host: {write_cache: off}`"
        protected = ": wbuf_volatile=protected" if self.simulated else ""
        return (
            f"If each write must survive a power cut, plan on the numbers of a run with {off}, or "
            f"use a drive with a protected cache{protected}."
        )


class CacheContradiction(WarningKind):
    """The drive's report about its cache contradicts the time of its flushes."""

    code = Code.VOLATILE_CACHE
    remedy = (
        "Believe the flush times, not what the drive says: a power cut may destroy writes that the "
        "drive acknowledged."
    )

    contradiction: str

    def message(self) -> str:
        return self.contradiction


class BelowMappingUnit(NoteKind):
    """Writes do not fill whole mapping units of the drive."""

    code = Code.BELOW_REMAP_UNIT

    block_bytes: tuple[int, ...]
    unit_bytes: int

    def message(self) -> str:
        sizes = listed([format_size(block) for block in sorted(set(self.block_bytes))])
        unit = format_size(self.unit_bytes)
        if max(self.block_bytes) < self.unit_bytes:
            said = f"writes of {sizes} are smaller than the mapping unit of {unit}"
        else:
            said = f"writes of {sizes} do not fill whole mapping units of {unit}"
        return (
            f"{said}, so each costs a read-modify-write, unless the write buffer joins it with "
            "other writes"
        )


class NotPlannable(FindingKind):
    """The target is not a whole drive, or does not prove that it is a whole drive."""

    code = Code.NOT_PLANNABLE
    severities = (Severity.INVALIDATES, Severity.WARNS)
    remedy = "Measure the whole drive, by its /dev/disk/by-id name."

    target: str
    kind: str | None = None  # file, loop, partition, ...; None if it is not known
    lacks: str | None = None  # the missing proof that the disk is one drive
    accepted: bool = False  # whether the command line has --accept-unproven

    def severity(self) -> Severity:
        return Severity.WARNS if self.accepted else Severity.INVALIDATES

    def advice(self) -> str:
        if self.lacks is None or self.accepted:
            return self.remedy
        return "If you know that it is a single drive, start the run with --accept-unproven."

    def message(self) -> str:
        if self.lacks is not None:
            taken = " (--accept-unproven: accepted as a drive)" if self.accepted else ""
            return f"it is not proven that {self.target} is a single drive{taken}: {self.lacks}"
        kind = f" ({self.kind})" if self.kind else ""
        return (
            f"{self.target} is not a whole drive{kind}: other programs may use the same hardware, "
            "and there may be caches in between"
        )


class Simulated(NoteKind):
    """The results come from a simulated drive."""

    code = Code.SIMULATED

    target: str
    by: str = ""  # what simulates it, if it is a block device

    def message(self) -> str:
        by = f" of {self.by}" if self.by else ""
        return f"{self.target} is a simulated drive{by}: its numbers describe a model, not hardware"


class BoundaryHiddenByBuffer(NoteKind):
    """The buffer answered the writes, so no flash operation could be seen."""

    code = Code.HIDDEN_BY_BUFFER
    remedy = (
        "A page-mapped drive has no boundary: its superblocks depend on the amount written, not on "
        "addresses."
    )

    median_ns: float
    also_tried: tuple[str, ...] = ()  # other methods that showed no boundary either

    def message(self) -> str:
        neither = f"; {listed(self.also_tried)} show no boundary either" if self.also_tried else ""
        return (
            f"writes were answered in {format_ns(self.median_ns)}, faster than flash can be "
            f"programmed: if there is a block boundary, the write buffer hides it{neither}"
        )


class NoBoundary(NoteKind):
    """No period was found in the latencies; the finding says which blocks would have been found."""

    code = Code.NO_BOUNDARY

    smallest_bytes: int
    largest_bytes: int
    only_reads: bool
    also_tried: tuple[str, ...]
    block_bytes: tuple[int, ...]  # sizes that were planted into the measured latencies ...
    times_slower: tuple[float | None, ...]  # ... and the smallest effect that was found again

    def message(self) -> str:
        also = f", nor with {listed(self.also_tried)}" if self.also_tried else ""
        return (
            f"no boundary found between {format_size(self.smallest_bytes)} and "
            f"{format_size(self.largest_bytes)}{also}; {self._detectable()}"
        )

    def _detectable(self) -> str:
        """List the smallest effects that the search would have found, by block size."""
        what = "read from" if self.only_reads else "write to"
        found, missed = [], []
        for factor in dict.fromkeys(self.times_slower):
            pairs = zip(self.block_bytes, self.times_slower, strict=True)
            sizes = listed([format_size(size) for size, own in pairs if own == factor])
            if factor is None:
                missed.append(
                    f"the search would not find blocks of {sizes}, even at the largest slowdown "
                    "that was tried"
                )
            else:
                found.append(
                    f"blocks of {sizes} if the first {what} each block took {factor:g} times as "
                    "long as others"
                )
        if found:
            found = ["the search would have found " + ", ".join(found)]
        return "; ".join((*found, *missed)) or "no test showed which blocks the search would find"

    def advice(self) -> str:
        if self.only_reads:
            return (
                "Reads are far weaker evidence than writes: a drive merges when it is written to. "
                "The simulated memoright-gt shows its blocks in writes, but not in reads."
            )
        return "Page-mapped drives, loop devices and files have no block boundary to find."
