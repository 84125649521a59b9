"""Test distinct blocks on streams that can be counted exactly."""

import numpy as np
import pytest

from ssdbench.stats.workingset import Blocks


def touched(number: "np.ndarray", kept: int) -> Blocks:
    blocks = Blocks(kept)
    for part in np.array_split(np.arange(len(number)), 7):
        blocks.touch(number[part], part * 1_000_000)
    return blocks


def test_few_blocks_are_counted_exactly() -> None:
    number = np.random.default_rng(1).integers(0, 500, 10_000)

    blocks = touched(number, kept=1000)

    assert blocks.number == len(np.unique(number))
    assert blocks.hottest_share(100) == 1
    assert blocks.reused_share == pytest.approx(1 - 500 / 10_000)
    again = blocks.median_reuse_s()
    assert again is not None and 0.1 < again < 1  # 500 blocks in turn, a millisecond apart: 0.35 s


def test_many_blocks_are_estimated_and_memory_stays_bounded() -> None:
    number = np.random.default_rng(2).integers(0, 400_000, 300_000)
    truth = len(np.unique(number))

    blocks = touched(number, kept=1 << 13)

    assert blocks.number == pytest.approx(truth, rel=0.05)
    assert len(blocks._number) <= 1 << 13
    assert blocks.reused_share == pytest.approx(1 - truth / 300_000, abs=0.04)
