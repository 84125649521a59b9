"""Combine all facts about a drive's inside into one answer: the size and alignment of writes.

The answer is the block, if strided writes show a block; else the mapping unit; else that no size
matters. The drive's own reports never replace a measurement; the reports are compared with the
measurement.
"""

from collections.abc import Iterator, Mapping

from ssdbench.model.inside import BlockSizeFound, ProbeFound, WriteSize
from ssdbench.model.target import TargetInfo
from ssdbench.units import KIB, format_size

LEAST_FREQUENCY = 0.9  # an answer that is less often right is worse than "cannot tell"
USUAL_BYTES = 4 * KIB  # the page of a host, its smallest write
# Per part: the number of hidden drives that got an answer, and the number of right answers. `python
# -m benchmarks.judge_the_answers --only sizes`
UNIT_TOLD, NONE_TOLD, STRIPE_TOLD = (388, 388), (118, 117), (161, 161)
BLOCK, UNIT, STRIPE, REPORTS = "erase block", "mapping unit", "stripe", "the drive's own reports"
LIMITS = {
    BLOCK: "60 KiB to 64 MiB; not behind a buffer that never fills",
    UNIT: "8 to 128 KiB; not where the link or commands limit random writes",
    STRIPE: "16 KiB to 32 MiB, of data that were written in order",
    REPORTS: "a recommendation of the drive, which nothing proves",
}


def share_right(told: tuple[int, int]) -> float:
    """Return the share of right answers; `told` has the counts of all and of right answers.

    The method is Laplace's rule of succession, which never gives 100 %.
    """
    answered, right = told
    return (right + 1) / (answered + 2)


def write_size(part: str, answer: str, *, seconds: float, written: int) -> WriteSize:
    """Return one part of the answer with the cost to find it; the size is not set yet."""
    return WriteSize(
        part=part,
        answer=answer,
        minutes=round(seconds / 60, 2),
        bytes_written=written,
        limits=LIMITS[part],
    )


def of_probe(found: ProbeFound, *, seconds: float, written: int) -> WriteSize:
    """Return the mapping unit probe's or stripe probe's result, as one part of the answer."""
    said, numbers = found.answer, found.numbers
    if found.probe == "stripe":
        one = write_size(STRIPE, said, seconds=seconds, written=written)
        size, told = numbers.stripe_bytes, STRIPE_TOLD
    else:
        one = write_size(UNIT, said.removeprefix("remap unit "), seconds=seconds, written=written)
        size, told = numbers.remap_unit_bytes, NONE_TOLD if numbers.at_most else UNIT_TOLD
    if size is None:
        return one
    return one.model_copy(update={"size_bytes": size, "confidence": share_right(told)})


def one_answer(
    strides: BlockSizeFound, parts: Mapping[str, WriteSize], target: TargetInfo
) -> BlockSizeFound:
    """Return the result of the strided writes with the answer that follows from all parts."""
    unit, stripe = parts.get(UNIT), parts.get(STRIPE)
    size, sure = strides.block_bytes, strides.confidence
    answer, mapped = strides.answer, None
    if size is None and unit is not None:
        size, sure = unit.size_bytes, unit.confidence
        if size is None:
            answer = f"cannot tell: {answer.removeprefix('cannot tell: ')}; mapping unit: "
            answer += unit.answer.removeprefix("cannot tell: ")
        elif size > USUAL_BYTES:
            mapped, text = size, format_size(size)
            answer = f"mapping unit {text}: write at least {text}, aligned"
        elif answer.startswith("cannot tell"):
            sure = None
        else:
            size = USUAL_BYTES
            answer = "none that matters to you: write at least 4 KiB, aligned"
    measured = None if answer.startswith("cannot tell") else size
    told = (*parts.values(), *_reports(target, measured))
    return strides.model_copy(
        update={
            "answer": answer,
            "confidence": sure,
            "write_bytes": measured,
            "remap_unit_bytes": mapped,
            "stripe_bytes": stripe.size_bytes if stripe else None,
            "parts": told,
        }
    )


def _reports(target: TargetInfo, measured: int | None) -> Iterator[WriteSize]:
    """Yield the write sizes that the drive reports, and whether each fits the measurement."""
    if not target.write_sizes:
        said = "a simulated drive has none" if target.simulated else "it reports no size"
        yield write_size(REPORTS, said, seconds=0, written=0)
        return
    told = []
    for name, size in target.write_sizes.items():
        fits = "not compared"
        if measured is not None:
            fits = "agrees" if size % measured == 0 else "does not agree with what was measured"
        told.append(f"{name} {format_size(size)} ({fits})")
    yield write_size(REPORTS, ", ".join(told), seconds=0, written=0)
