"""Something happens just ahead of a certain line of a function."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

MOMENTS = range(1, 40)  # more than there are lines in what is tried so


@contextmanager
def at_line(function: str, moment: int, act: Callable[[], None]) -> Iterator[None]:
    """Act ahead of the so-many-th line that functions of this name run."""
    left = moment

    def looked(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if frame.f_code.co_name != function:
            return None
        if event == "line":
            left -= 1
            if left == 0:
                act()
        return looked

    before = sys.gettrace()
    sys.settrace(looked)
    try:
        yield
    finally:
        sys.settrace(before)
