"""The result of a stored run, also of one that has no result.json because it was killed."""

from pathlib import Path

from ssdbench.cli.background import worker
from ssdbench.engine.journal import is_unended
from ssdbench.errors import UsageError
from ssdbench.model.result import RunResult


def unended_result(directory: Path) -> RunResult | None:
    """What a run holds that ended in mid-run or is still at work; None for one that ended.

    Raises UsageError when its directory cannot be read.
    """
    if not is_unended(directory):
        return None
    from ssdbench.suite.unended import KILLED, unended  # most of a second of CPU

    return unended(directory, why="it is still at work" if _at_work(directory) else KILLED)


def _at_work(directory: Path) -> bool:
    try:
        return worker(directory).alive()
    except UsageError:  # not known, or damaged: then nothing can be said of it
        return False
