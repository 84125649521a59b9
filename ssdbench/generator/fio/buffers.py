"""Data that fio wrote, known by itself: no record is needed of where it was written.

With `refill_buffers` fio fills each buffer anew from one random number: in four rows of 64-bit
words, side by side, each word is the one before it in its row times a constant (fio 3.33,
lib/rand.c `__fill_random_buf`, hash.h `GOLDEN_RATIO_64`). Other data follows that rule in a sector
of 512 bytes by chance once in 2 ** 3840. What compresses by a share ends with zeros.
"""

import struct
from collections.abc import Sequence

GOLDEN_RATIO = 0x61C8864680B583EB
SECTOR_BYTES = 512
_WORDS = struct.Struct(f"={SECTOR_BYTES // 8}Q")
_MASK = (1 << 64) - 1
# Rows side by side: 1 before fio 3.15 and for what is shorter than a row.
_ROWS = (4, 1, 2, 8, 16)
_LEAST_STEPS = 8  # words that must follow the rule, where zeros end a sector


def written_by_fio(data: bytes) -> bool:
    """Whether each sector of some data is what fio writes, or nothing but zeros or ones.

    One sector at least must be fio's. Data whose length is no multiple of a sector is not.
    """
    if not data or len(data) % SECTOR_BYTES:
        return False
    sectors = [data[at : at + SECTOR_BYTES] for at in range(0, len(data), SECTOR_BYTES)]
    filled = [s for s in sectors if s.strip(b"\0") and s.strip(b"\xff")]
    return bool(filled) and all(_follows(_WORDS.unpack(sector)) for sector in filled)


def _follows(words: Sequence[int]) -> bool:
    end = len(words)
    while end and not words[end - 1]:
        end -= 1
    return any(
        end - rows >= _LEAST_STEPS
        and all(words[n] * GOLDEN_RATIO & _MASK == words[n + rows] for n in range(end - rows))
        for rows in _ROWS
    )
