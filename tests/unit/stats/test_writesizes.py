"""Test the one answer that follows from strides, mapping unit, stripe and the drive's reports."""

import pytest

from ssdbench.model.inside import BlockSizeFound, ProbeFound, ProbeNumbers
from ssdbench.stats.inside.writesizes import (
    BLOCK,
    NONE_TOLD,
    REPORTS,
    STRIPE,
    UNIT,
    of_probe,
    one_answer,
    share_right,
)
from ssdbench.stats.inside.writesizes import write_size as part_of
from ssdbench.units import KIB, MIB
from tests.support.builders import a_target

NOTHING = BlockSizeFound(answer="no boundary found")


def answered(
    strides: BlockSizeFound, unit: int | None = None, *, at_most: bool = False, **reports: int
) -> BlockSizeFound:
    """Return the answer for a drive whose probe says this unit (0: cannot tell)."""
    parts = {BLOCK: part_of(BLOCK, strides.answer, seconds=90, written=5)}
    if unit is not None:
        numbers = ProbeNumbers(remap_unit_bytes=unit or None, at_most=at_most)
        said = ProbeFound(probe="remap-unit", answer="cannot tell: a cache", numbers=numbers)
        parts[UNIT] = of_probe(said, seconds=30, written=7)
    return one_answer(strides, parts, a_target(write_sizes=reports))


def test_a_block_that_strides_show_is_the_answer() -> None:
    said = answered(BlockSizeFound(answer="block size 1 MiB", block_bytes=MIB, confidence=0.9))

    assert (said.answer, said.write_bytes, said.confidence) == ("block size 1 MiB", MIB, 0.9)


@pytest.mark.parametrize(
    "strides", ["no boundary found", "hidden by the buffer", "cannot tell: peaks every 64 KiB"]
)
def test_without_a_block_the_mapping_unit_is_the_answer(strides: str) -> None:
    said = answered(BlockSizeFound(answer=strides), 16 * KIB)

    assert said.answer == "mapping unit 16 KiB: write at least 16 KiB, aligned"
    assert said.write_bytes == said.remap_unit_bytes == 16 * KIB
    assert said.confidence is not None and 0.9 < said.confidence < 1


def test_a_drive_without_block_and_with_a_small_unit_has_none_that_matters() -> None:
    said = answered(NOTHING, 4 * KIB, at_most=True)

    assert said.answer == "none that matters to you: write at least 4 KiB, aligned"
    assert (said.write_bytes, said.remap_unit_bytes) == (4 * KIB, None)
    assert said.confidence == share_right(NONE_TOLD)


def test_peaks_without_a_reason_are_not_called_nothing() -> None:
    doubt = BlockSizeFound(answer="cannot tell: peaks every 320 KiB, but it may be more")
    said = answered(doubt, 4 * KIB, at_most=True, NPWG=16 * KIB)

    assert said.answer.startswith("cannot tell: peaks every 320 KiB")
    assert (said.write_bytes, said.confidence) == (None, None)
    assert said.parts[-1].answer == "NPWG 16 KiB (not compared)"


def test_what_neither_strides_nor_probes_tell_is_not_told() -> None:
    said = answered(NOTHING, 0)

    assert said.answer == "cannot tell: no boundary found; mapping unit: a cache"
    assert said.write_bytes is None


def test_reports_of_the_drive_are_compared_with_the_measurement() -> None:
    said = answered(NOTHING, 16 * KIB, NPWG=64 * KIB, NPWA=4 * KIB, NOWS=24 * KIB)

    reports = said.parts[-1]
    assert reports.part == REPORTS
    assert reports.answer == (
        "NPWG 64 KiB (agrees), NPWA 4 KiB (does not agree with what was measured), "
        "NOWS 24 KiB (does not agree with what was measured)"
    )


def test_each_part_has_its_time_and_bytes() -> None:
    said = answered(NOTHING, 16 * KIB)

    assert [(p.part, p.minutes, p.bytes_written) for p in said.parts[:2]] == [
        (BLOCK, 1.5, 5),
        (UNIT, 0.5, 7),
    ]
    assert all(part.limits for part in said.parts)


def test_the_stripe_is_a_part_and_never_the_answer() -> None:
    probe = ProbeFound(
        probe="stripe", answer="stripe of 3 MiB", numbers=ProbeNumbers(stripe_bytes=3 * MIB)
    )
    stripe = of_probe(probe, seconds=1, written=1)

    said = one_answer(NOTHING, {STRIPE: stripe}, a_target())

    assert (said.stripe_bytes, said.write_bytes, said.answer) == (3 * MIB, None, NOTHING.answer)
