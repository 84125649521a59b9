"""Test parts of a drive, and the patterns with which editors check sizes."""

import inspect
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import PlainSerializer

from ssdbench.model import quantity
from ssdbench.model.loading import profile_schema
from ssdbench.model.quantity import Extent
from ssdbench.units import parse_size


@given(st.integers(1, 2**50), st.floats(0.001, 100), st.sampled_from([512, 4096]))
def test_a_share_is_aligned_and_never_beyond_the_drive(
    whole: int, percent: float, align: int
) -> None:
    length = Extent(percent=percent).bytes_of(whole, align_bytes=align)

    assert length % align == 0
    assert 0 <= length <= whole
    assert abs(length - whole * percent / 100) <= align


@pytest.mark.parametrize("serializer", [quantity._AS_DURATION, quantity._AS_PERCENT])
def test_a_serializer_tells_its_one_parameter_on_each_python(serializer: PlainSerializer) -> None:
    assert len(inspect.signature(serializer.func).parameters) == 1


def test_a_size_is_cut_to_the_drive() -> None:
    assert Extent(size_bytes=10_000).bytes_of(4096, align_bytes=512) == 4096


@pytest.mark.parametrize("text", ["4KiB", "4k", "512", "1.5GiB", "2 TiB", "64M"])
def test_the_schema_takes_the_sizes_that_the_loader_takes(text: str) -> None:
    assert parse_size(text) > 0
    assert re.search(_size_pattern(), text)


@pytest.mark.parametrize("text", ["4KB", "4 GB", "-4KiB", "4KiBs", "many", ""])
def test_the_schema_refuses_the_sizes_that_the_loader_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="size|unit|ambiguous"):
        parse_size(text)
    assert not re.search(_size_pattern(), text)


def _size_pattern() -> str:
    block = profile_schema()["$defs"]["Fill"]["properties"]["block"]
    return next(str(form["pattern"]) for form in block["anyOf"] if "pattern" in form)
