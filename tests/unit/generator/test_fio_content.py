"""What fio writes is known by itself, and nothing else is taken for it."""

import os
import random
import struct
from pathlib import Path

import pytest

from ssdbench.generator.base import VerifyHeader
from ssdbench.generator.fio.jobfile import GOLDEN_RATIO, written_by_fio
from ssdbench.host.command import run

SIZE = 1 << 18


def by_fio(directory: Path, *options: str) -> bytes:
    """A file that plain fio filled."""
    path = directory / "written"
    argv = ["fio", "--name=a", f"--filename={path}", f"--size={SIZE}", "--ioengine=psync"]
    run([*argv, "--refill_buffers=1", *options])
    return path.read_bytes()


@pytest.mark.parametrize("order", ["write", "randwrite"])
@pytest.mark.parametrize("block", ["512", "4k", "4608", "128k"])
def test_what_fio_writes_is_known_in_every_block(tmp_path: Path, order: str, block: str) -> None:
    data = by_fio(tmp_path, f"--rw={order}", f"--bs={block}", "--randseed=7")
    data = data[: len(data) // 4096 * 4096]

    blocks = [data[at : at + 4096] for at in range(0, len(data), 4096)]
    assert all(written_by_fio(block) for block in blocks if any(block))


def test_what_compresses_is_known_as_well(tmp_path: Path) -> None:
    data = by_fio(tmp_path, "--rw=write", "--bs=4k", "--buffer_compress_percentage=50")

    assert all(written_by_fio(data[at : at + 4096]) for at in range(0, SIZE, 4096))


def verified(directory: Path, block_bytes: int, seed: int) -> bytes:
    """Return what fio writes with headers, as a fill does."""
    offset = VerifyHeader(seed, block_bytes).offset_bytes(block_bytes)
    return by_fio(
        directory, "--rw=write", f"--bs={block_bytes}", "--verify=crc32c", "--refill_buffers=0",
        f"--verify_interval={block_bytes}", f"--verify_offset={offset}", "--do_verify=0",
        "--verify_state_save=0",
    )  # fmt: skip


@pytest.mark.parametrize("block_bytes", [512, 4096, 131072])
@pytest.mark.parametrize("seed", [0, 7, 39, 47, 50, 12345])
def test_verified_data_are_known_and_a_word_of_somebody_else_in_them_is_seen(
    tmp_path: Path, block_bytes: int, seed: int
) -> None:
    data = verified(tmp_path, block_bytes, seed)
    places = range(0, SIZE, 4096)

    assert all(written_by_fio(data[at : at + 4096]) for at in places)

    for byte in range(0, 4096, 8):
        block = bytearray(data[:4096])
        block[byte : byte + 8] = os.urandom(8)
        offset = VerifyHeader(seed, block_bytes).offset_bytes(block_bytes)
        # The words beside a header may have no other word of their row left to be compared with.
        near = any((byte - place + 32) % block_bytes < 44 + 2 * 32 for place in (0, offset))
        assert near or not written_by_fio(bytes(block)), byte


def anybodys() -> dict[str, bytes]:
    chance = random.Random(3)
    words = [chance.getrandbits(64)]
    while len(words) < 512:
        words.append(words[-1] * (GOLDEN_RATIO + 2) % 2**64)
    return {
        "noise": chance.randbytes(4096),
        "text": (b"precious things, " * 300)[:4096],
        "one value": struct.pack("=Q", 0x0123456789ABCDEF) * 512,
        "another row": struct.pack("=512Q", *words),
        "superblock": bytes(1024) + chance.randbytes(1024) + bytes(2048),
        "few words": (struct.pack("=Q", 77) + bytes(504)) * 8,
        "zeros": bytes(4096),
        "ones": b"\xff" * 4096,
        "nothing": b"",
        "no sectors": chance.randbytes(100),
    }


@pytest.mark.parametrize("name", anybodys())
def test_other_data_is_not_taken_for_fios(name: str) -> None:
    assert not written_by_fio(anybodys()[name])


@pytest.mark.parametrize("at", [0, 1000, 2048, 4088])
def test_one_word_of_somebody_else_in_a_block_is_seen(tmp_path: Path, at: int) -> None:
    block = bytearray(by_fio(tmp_path, "--rw=write", "--bs=4k")[:4096])
    assert written_by_fio(bytes(block))

    block[at : at + 8] = os.urandom(8)

    assert not written_by_fio(bytes(block))
