"""Kills at every place where something is written: before it, in the middle of it, after it.

A child process counts each call of the operating system that changes a file, and ends at one of
them, as SIGKILL ends it: no handler of Python runs.
"""

import os
import traceback
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

CHANGING = ("fsync", "ftruncate", "mkdir", "rename", "replace", "rmdir", "unlink")
KILLED, FAILED = 137, 70
Write = Callable[[int, bytes], int]


def killed_at(point: int, work: Callable[[], object], *, write: Write | None = None) -> bool:
    """Do some work in a child that dies at its `point`-th place; False when it ended before that.

    `write` stands for `os.write`, for what the kernel would do besides.
    """
    child = os.fork()
    if child == 0:
        code = FAILED
        try:
            _arm(point, write or os.write)
            work()
            code = 0
        except BaseException as error:  # noqa: BLE001 - told, and the child ends
            traceback.print_exception(error)
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    ended = os.waitstatus_to_exitcode(status)
    assert ended in (0, KILLED), f"kill {point}: the work itself failed ({ended})"
    return ended == KILLED


def points(work: Callable[[], object], *, write: Write | None = None) -> Iterator[int]:
    """Kill some work at each of its places in turn, until it ends unharmed; yields after each."""
    for point in count(1):
        killed = killed_at(point, work, write=write)
        yield point
        if not killed:
            return


def _arm(point: int, write: Write) -> None:
    at = count(1)

    def place() -> None:
        if next(at) == point:
            os._exit(KILLED)

    def around(call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **named: Any) -> Any:
            place()
            found = call(*args, **named)
            place()
            return found

        return counted

    def torn(descriptor: int, data: bytes) -> int:
        place()
        done = 0
        if "/sys/" not in str(
            Path(f"/proc/self/fd/{descriptor}").readlink()
        ):  # the kernel cuts no value
            done = write(descriptor, bytes(data)[: len(data) // 2])
            place()
        done += write(descriptor, bytes(data)[done:])
        place()
        return done

    os.write = torn  # type: ignore[assignment]
    for name in CHANGING:
        setattr(os, name, around(getattr(os, name)))
