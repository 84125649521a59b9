"""Why a search for the drive's erase block gave no answer."""

from dataclasses import dataclass

from ssdbench.model.finding import Code, Severity
from ssdbench.model.findings.kind import FindingKind
from ssdbench.units import format_ns, format_size, listed


@dataclass(frozen=True)
class BoundaryHiddenByBuffer(FindingKind):
    """Writes were answered by the buffer, so that no flash operation could be seen."""

    code = Code.HIDDEN_BY_BUFFER
    severities = (Severity.NOTES,)
    remedy = (
        "A page-mapped drive has none: its superblocks depend on the amount written, not on "
        "addresses."
    )

    median_ns: float
    also_tried: tuple[str, ...] = ()  # further ways that showed none either

    def message(self) -> str:
        neither = f"; {listed(self.also_tried)} show none either" if self.also_tried else ""
        return (
            f"writes were answered in {format_ns(self.median_ns)}, faster than flash can be "
            f"programmed: if there is a block boundary, the write buffer hides it{neither}"
        )


@dataclass(frozen=True)
class NoBoundary(FindingKind):
    """No period was found in the latencies, and what would have been found."""

    code = Code.NO_BOUNDARY
    severities = (Severity.NOTES,)

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
        """The smallest effect that would have been found, block sizes of equal effect together."""
        what = "reads from" if self.only_reads else "writes into"
        parts = []
        for factor in dict.fromkeys(self.times_slower):
            pairs = zip(self.block_bytes, self.times_slower, strict=True)
            sizes = listed([format_size(size) for size, own in pairs if own == factor])
            parts.append(
                f"blocks of {sizes} if {what} a new block took {factor:g} times as long"
                if factor is not None
                else f"blocks of {sizes} at no effect that was tried"
            )
        return "it would have found " + ", ".join(parts) if parts else "nothing was injected"

    def advice(self) -> str:
        if self.only_reads:
            return (
                "Reads are far weaker evidence than writes: a drive merges when it is written to. "
                "The simulated memoright-gt shows its blocks to writes and not to reads."
            )
        return "Page-mapped drives, loop devices and files have no block boundary to find."
