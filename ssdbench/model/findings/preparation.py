"""Define findings about the preparation of the drive: its purge, its fill and its write cache."""

from ssdbench.model.finding import Code, FindingKind, NoteKind, Severity, WarningKind
from ssdbench.units import format_capacity


class PartialFill(FindingKind):
    """Only a part of the drive was filled before the measurement.

    An experiment may use a partly filled drive, but a plan must not use its results.
    """

    code = Code.PARTIAL_FILL
    severities = (Severity.INVALIDATES, Severity.NOTES, Severity.WARNS)
    remedy = "Fill the whole drive for a number to plan on (fill level 100 %)."

    level_percent: float
    filled_bytes: int
    for_experiment: bool = False

    def severity(self) -> Severity:
        return Severity.NOTES if self.for_experiment else Severity.INVALIDATES

    def message(self) -> str:
        return (
            f"only {self.level_percent:g} % of the drive was filled "
            f"({format_capacity(self.filled_bytes)}); the rest works as spare area"
        )


class FilledWithZeros(WarningKind):
    """The drive was filled with zeros, which it may not have stored."""

    code = Code.COMPRESSIBLE
    remedy = "Use random content, unless the drive is known not to compress."

    def message(self) -> str:
        return "the drive was filled with zeros, which a drive that compresses does not store"


class FillNotCounted(FindingKind):
    """The counters show fewer written bytes than the fill planned to write."""

    code = Code.FILL_UNPROVEN
    remedy = "Check the drive and its cabling; the kernel log may name the reason."

    planned_bytes: int
    counted_bytes: int
    source: str  # whose counters

    def message(self) -> str:
        return (
            f"the fill planned {self.planned_bytes:,} bytes, but the counters ({self.source}) show "
            f"only {self.counted_bytes:,}"
        )


class FillMissingInLog(FindingKind):
    """The drive's health log shows fewer bytes than the kernel wrote."""

    code = Code.FILL_UNPROVEN
    remedy = (
        "Read the log again later (`nvme smart-log`); if bytes are still missing, a layer between "
        "kernel and drive kept them."
    )

    kernel_bytes: int
    log_bytes: int

    def message(self) -> str:
        both = _both_counts(self.kernel_bytes, self.log_bytes)
        return f"{both}: not all of it reached the drive, or its log lags behind"


class OthersWrote(WarningKind):
    """The drive's health log shows more bytes than the kernel wrote."""

    code = Code.FILL_UNPROVEN
    remedy = "Look for other users of its other namespaces or paths."

    kernel_bytes: int
    log_bytes: int

    def message(self) -> str:
        both = _both_counts(self.kernel_bytes, self.log_bytes)
        return f"{both}: something else wrote to the drive as well"


class WrongDataRead(FindingKind):
    """Reads after the fill returned other data than the fill wrote."""

    code = Code.CAPACITY_UNPROVEN
    remedy = (
        "Do not trust data to this drive. To rule out the host, read it in another slot with "
        "another cable; then return it to the seller."
    )

    reads: int
    wrong_reads: int
    misplaced_reads: int
    absent_reads: int
    damaged_reads: int
    first_byte: int

    def message(self) -> str:
        kinds = (
            (self.misplaced_reads, "had the data of another place"),
            (self.absent_reads, "had no data of this fill"),
            (self.damaged_reads, "had damaged data"),
        )
        what = ", ".join(f"{count:,} {said}" for count, said in kinds if count)
        few = self.misplaced_reads + self.absent_reads
        why = "the drive has less capacity than it claims" if few else "the drive changes data"
        return (
            f"{self.wrong_reads:,} of {self.reads:,} reads after the fill did not return what was "
            f"written, the first at byte {self.first_byte:,}: {what}; {why}"
        )


class NotReadBack(FindingKind):
    """The fill was not read back, so the drive may have less capacity than it claims."""

    code = Code.CAPACITY_UNPROVEN
    severities = (Severity.INVALIDATES, Severity.WARNS)
    remedy = "Fill with random content. On a zoned drive, compare the data with another program."

    why: str  # a clause
    zoned: bool = False

    def severity(self) -> Severity:
        return Severity.WARNS if self.zoned else Severity.INVALIDATES

    def message(self) -> str:
        return f"the capacity of the drive is not proven: {self.why}"


def _both_counts(kernel_bytes: int, log_bytes: int) -> str:
    return (
        f"the kernel wrote {format_capacity(kernel_bytes)} in the fill, the drive's health log "
        f"counts {format_capacity(max(0, log_bytes))}"
    )


class PurgedByDiscard(NoteKind):
    """The purge used discards, which the drive may ignore."""

    code = Code.UNSAFE_OPTION
    remedy = "Use `purge: format` or `sanitize` if the drive supports it."

    def message(self) -> str:
        return "the purge used discards only, which a drive is free to ignore"


class PurgeChangedDrive(NoteKind):
    """The purge changed the format of the drive."""

    code = Code.UNSAFE_OPTION
    remedy = (
        "`ssdbench restore` names the command that brings the old format back; that command erases "
        "the drive."
    )

    change: str  # a clause with the old and the new format

    def message(self) -> str:
        return self.change


class NotPurged(FindingKind):
    """A standard test ran on a drive that was not purged.

    Some tests of the standard need a fresh drive.
    """

    code = Code.UNSAFE_OPTION
    severities = (Severity.WARNS, Severity.INVALIDATES)
    remedy = "Set `purge: format` or `sanitize` if you may erase the drive."

    needs_fresh: bool

    def severity(self) -> Severity:
        return Severity.INVALIDATES if self.needs_fresh else Severity.WARNS

    def message(self) -> str:
        return "the drive was not purged before the test, although the standard asks for it"


class WriteCacheOfForm(WarningKind):
    """The write cache is not in the state that the PTS form needs (enterprise: off, client: on)."""

    code = Code.UNSAFE_OPTION

    enabled: bool
    form: str

    def message(self) -> str:
        state, wanted = self._state_and_wanted()
        return f"the write cache is {state}, but the {self.form} form asks for it to be {wanted}"

    def advice(self) -> str:
        _, wanted = self._state_and_wanted()
        return (
            f"Leave `host: {{write_cache: keep}}`, which sets the cache as standard tests need it, "
            f"or set `{wanted}`; for a simulated drive, set `wbuf_volatile`."
        )

    def _state_and_wanted(self) -> tuple[str, str]:
        return ("on", "off") if self.enabled else ("off", "on")
