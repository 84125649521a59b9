"""How a range is laid out over threads: nothing twice, nothing left out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssdbench.errors import UsageError
from ssdbench.generator.fio.layout import LFSR_FROM_BLOCKS, Section, sections, wants_lfsr, within
from ssdbench.model.workload import Pattern
from tests.unit.generator.jobs import a_job, a_sequential

KIB = 1024


def test_random_threads_share_the_whole_range() -> None:
    (section,) = sections(a_job(numjobs=4, iodepth=8, length_bytes=1024 * KIB))

    assert section == Section(0, 1024 * KIB, 4096, numjobs=4, iodepth=8)


def test_sequential_threads_have_parts_of_their_own() -> None:
    found = sections(a_sequential(numjobs=3, block_bytes=KIB, length_bytes=10 * KIB))

    assert [(s.offset_bytes, s.size_bytes) for s in found] == [
        (0, 4 * KIB), (4 * KIB, 3 * KIB), (7 * KIB, 3 * KIB),
    ]  # fmt: skip


def test_more_threads_than_blocks_become_as_many_as_blocks() -> None:
    assert len(sections(a_sequential(numjobs=8, block_bytes=KIB, length_bytes=3 * KIB))) == 3


def test_strides_are_not_split_between_threads() -> None:
    job = a_job(
        pattern=Pattern.STRIDED, stride_bytes=64 * KIB, numjobs=2, length_bytes=5 * 64 * KIB
    )

    assert [s.offset_bytes % (64 * KIB) for s in sections(job)] == [0, 0]


def test_a_fill_writes_the_tail_that_is_no_whole_block_as_often_as_the_rest() -> None:
    length = 10 * 128 * KIB + 3 * 512

    body, tail = sections(a_sequential(length_bytes=length, total_bytes=2 * length))

    assert (body.size_bytes, body.io_bytes) == (10 * 128 * KIB, 20 * 128 * KIB)
    assert (tail.offset_bytes, tail.block_bytes, tail.io_bytes) == (10 * 128 * KIB, 1536, 3072)


def test_a_workload_that_is_no_fill_leaves_the_tail_alone() -> None:
    assert len(sections(a_sequential(length_bytes=128 * KIB + 512))) == 1


def test_a_total_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="must be positive"):
        sections(a_job(total_bytes=0))


@given(
    blocks=st.integers(1, 500),
    tail=st.integers(0, 7),
    numjobs=st.integers(1, 9),
    passes=st.integers(1, 3),
    offset=st.integers(0, 5),
    pattern=st.sampled_from([Pattern.SEQUENTIAL, Pattern.RANDOM]),
)
def test_the_parts_of_a_fill_cover_the_range_exactly(
    blocks: int, tail: int, numjobs: int, passes: int, offset: int, pattern: Pattern
) -> None:
    length = blocks * 4096 + tail * 512
    job = a_job(
        pattern=pattern,
        cover=pattern is Pattern.RANDOM,
        numjobs=numjobs,
        offset_bytes=offset * 4096,
        length_bytes=length,
        total_bytes=passes * length,
    )

    found = sections(job)

    position = offset * 4096
    for section in found:
        assert section.offset_bytes == position
        assert section.io_bytes == passes * section.size_bytes
        position += section.size_bytes
    assert position == offset * 4096 + length


@given(total_blocks=st.integers(1, 10_000), numjobs=st.integers(1, 16))
def test_threads_together_do_at_least_the_total_and_less_than_a_block_each_beyond(
    total_blocks: int, numjobs: int
) -> None:
    found = sections(a_job(numjobs=numjobs, total_bytes=total_blocks * 4096))

    done = sum((s.io_bytes or 0) * s.numjobs for s in found)
    assert 0 <= done - total_blocks * 4096 < numjobs * 4096


def test_only_a_map_that_would_be_large_becomes_an_lfsr() -> None:
    assert not wants_lfsr(Section(0, LFSR_FROM_BLOCKS * 4096, 4096))
    assert wants_lfsr(Section(0, (LFSR_FROM_BLOCKS + 1) * 4096, 4096))


def test_a_range_beyond_the_end_is_refused_because_fio_would_clip_it() -> None:
    with pytest.raises(UsageError, match="ends at byte 8192, but the target has only 4096 bytes"):
        within(a_job(length_bytes=8192), size_bytes=4096, block_bytes=512)


def test_a_block_that_is_no_multiple_of_the_devices_is_refused() -> None:
    with pytest.raises(
        UsageError, match="512 bytes is not a multiple of the target's block of 4096"
    ):
        within(a_job(block_bytes=512, length_bytes=8192), size_bytes=8192, block_bytes=4096)
