from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssdbench import units


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("4k", 4096), ("4KiB", 4096), ("4 kib", 4096), ("512", 512), (512, 512), ("512B", 512),
        ("1.5GiB", 3 * 512 * 1024**2), ("0.5k", 512), ("2T", 2 * 1024**4),
    ],
)  # fmt: skip
def test_sizes_are_binary(text: str | int, size_bytes: int) -> None:
    assert units.parse_size(text) == size_bytes


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("4KB", "ambiguous"), ("1mb", "ambiguous"), ("4X", "unknown unit"), ("", "looks like"),
        ("-4k", "looks like"), ("25%", "unknown unit"), (True, "looks like"), (-1, "negative"),
        ("0.3k", "whole number"),
    ],
)  # fmt: skip
def test_a_size_that_readers_could_misread_is_refused(text: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        units.parse_size(text)


@given(st.integers(min_value=0, max_value=2**60), st.sampled_from(["", "KiB", "MiB", "g", "T"]))
def test_whole_sizes_survive_being_written_and_read(number: int, unit: str) -> None:
    factor = {"": 1, "KiB": 1024, "MiB": 1024**2, "g": 1024**3, "T": 1024**4}[unit]

    if number * factor > units.LARGEST_BYTES:
        with pytest.raises(ValueError, match="below 8,192 PiB"):
            units.parse_size(f"{number}{unit}")
    else:
        assert units.parse_size(f"{number}{unit}") == number * factor


def test_a_duration_needs_its_unit() -> None:
    assert units.parse_duration_ns("10ms") == 10_000_000
    assert units.parse_duration_ns("1.5h") == 5400 * units.NS_PER_S
    with pytest.raises(ValueError, match="looks like 10ms"):
        units.parse_duration_ns(60)


def test_a_percentage_needs_its_sign() -> None:
    assert units.parse_percent("25%") == 25.0
    with pytest.raises(ValueError, match="looks like 25%"):
        units.parse_percent(25)


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (units.format_size(4096), "4 KiB"),
        (units.format_size(1536), "1.5 KiB"),
        (units.format_capacity(160 * 10**9), "160 GB"),
        (units.format_capacity(935_120), "935.1 kB"),
        (units.format_capacity(999), "999 B"),
        (units.format_rate(212_400_000), "212.4 MB/s"),
        (units.format_ns(81_234), "81.23 us"),
        (units.format_figure(2.136), "2.14"),
        (units.format_figure(7142.8), "7,140"),  # not 7.14e+03
        (units.format_figure(7008, 4), "7,008"),
        (units.format_figure(0.0000214), "0.0000214"),
        (units.format_figure(178.7, 2), "180"),
        (units.format_duration(320), "5 min 20 s"),
        (units.format_duration(7500), "2 h 05 min"),
    ],
)
def test_numbers_are_shown_in_the_unit_that_people_read(shown: str, expected: str) -> None:
    assert shown == expected


@pytest.mark.parametrize(
    ("bound", "text"),
    [(354.97, "354"), (12_990.9, "12,990"), (90.99, "90.9"), (0.9876, "0.987"), (99.95, "99.9"),
     (0.0, "0"), (100.0, "100"), (1.0, "1"), (0.3, "0.3")],
)  # fmt: skip
def test_a_lower_bound_is_never_rounded_up(bound: float, text: str) -> None:
    assert units.format_bound(bound) == text


@pytest.mark.parametrize(
    ("percent", "text"),
    [(-0.0004, "0 %"), (0.0, "0 %"), (0.004, "0 %"), (-0.034, "-0.034 %"), (5.21, "+5.2 %"),
     (-75.04, "-75.0 %"), (241.7, "+242 %")],
)  # fmt: skip
def test_a_change_is_never_minus_or_plus_nothing(percent: float, text: str) -> None:
    assert units.format_change(percent) == text


def test_a_length_that_was_scaled_down_says_so() -> None:
    assert [units.format_minutes(1200 * scale) for scale in (1, 0.01)] == ["20 min", "12 s"]


FORMATTERS = sorted(name for name in vars(units) if name.startswith("format_"))


@pytest.mark.parametrize("name", FORMATTERS)
@given(number=st.floats())
def test_any_number_of_a_stored_result_can_be_shown(name: str, number: float) -> None:
    """Results may hold NaN and infinity where there is no answer, and anything where changed."""
    assert getattr(units, name)(number)
