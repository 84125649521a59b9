"""Zones as the kernel reports them, byte by byte, and the line that people read."""

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from ssdbench.host.blockdev import decode_zones, describe_zones, equal_zone_sizes, report_zones

MIB = 2048  # sectors


def reported(zones: list[tuple[int, int, int, int]], *, flags: int = 1) -> bytes:
    """What BLKREPORTZONE answers: (start, capacity, type, condition), 4 MiB each."""
    answer = struct.pack("=QII", 0, len(zones), flags)
    for start, capacity, kind, condition in zones:
        answer += struct.pack(
            "=QQQBBBB4xQ24x", start, 4 * MIB, start, kind, condition, 0, 0, capacity
        )
    return answer


def test_a_zone_is_what_the_kernel_says() -> None:
    first, second = decode_zones(reported([(0, 4 * MIB, 1, 0), (4 * MIB, 3 * MIB, 2, 14)]))

    assert (first.conventional, first.condition) == (True, "without a pointer")
    assert (second.start_bytes, second.length_bytes) == (4 << 20, 4 << 20)
    assert (second.capacity_bytes, second.condition) == (3 << 20, "full")


def test_a_kernel_that_knows_no_capacity_means_the_whole_zone() -> None:
    (zone,) = decode_zones(reported([(0, 0, 2, 1)], flags=0))

    assert zone.capacity_bytes == 4 << 20


def test_the_line_counts_zones_by_what_they_are() -> None:
    zones = [(0, 4 * MIB, 1, 0)] + [
        (n * 4 * MIB, 3 * MIB, 2, c) for n, c in ((1, 1), (2, 1), (3, 2))
    ]

    assert describe_zones(list(decode_zones(reported(zones))), 3, 0) == (
        "4 of 4 MiB, 1 of them conventional, 3 MiB of a sequential zone can be written, "
        "at most 3 open, 2 empty, 1 open"
    )


@pytest.mark.parametrize(
    ("most", "conditions", "used_up"),
    [
        (0, (1, 2, 3, 4, 14), False),
        (4, (1, 2, 3, 4, 14), False),
        (3, (1, 2, 3, 4, 14), True),
        (3, (14, 2, 3, 4, 1), True),  # a full one is reset, and then begun
        (3, (2, 1, 3, 4, 14), False),  # a fill ends the first, and has room for the next
    ],
)
def test_a_drive_whose_first_zone_cannot_be_begun_says_so(
    most: int, conditions: tuple[int, ...], used_up: bool
) -> None:
    zones = [(n * 4 * MIB, 4 * MIB, 2, condition) for n, condition in enumerate(conditions)]

    said = describe_zones(list(decode_zones(reported(zones))), 0, most)

    assert ("the first cannot be begun before another is full or reset" in said) is used_up


@pytest.mark.parametrize(
    ("last", "shape"),
    [
        ((4 * MIB, 3 * MIB, 2, 14), (3 << 20, 4 << 20)),
        ((4 * MIB, 4 * MIB, 2, 1), (0, 0)),
        ((4 * MIB, 3 * MIB, 1, 0), (0, 0)),
        ((4 * MIB, 3 * MIB, 2, 13), (0, 0)),
        ((4 * MIB, 3 * MIB, 2, 15), (0, 0)),
    ],
)
def test_zones_are_alike_if_each_holds_as_much_and_is_written_in_order(
    last: tuple[int, int, int, int], shape: tuple[int, int]
) -> None:
    zones = list(decode_zones(reported([(0, 3 * MIB, 2, 1), last])))

    assert equal_zone_sizes(zones) == shape


def test_a_shorter_last_zone_is_not_like_the_others() -> None:
    first, last = decode_zones(reported([(0, 4 * MIB, 2, 1), (4 * MIB, 4 * MIB, 2, 1)]))

    assert equal_zone_sizes([first, replace(last, length_bytes=4096, capacity_bytes=4096)]) == (
        0,
        0,
    )
    assert equal_zone_sizes([]) == (0, 0)


def test_what_has_no_zones_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(4096))

    with pytest.raises(OSError, match="Inappropriate ioctl"):
        report_zones(tmp_path / "file")
