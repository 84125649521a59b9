"""`--debug`: each command started, its exit and time, and each setting written.

It goes to stderr at once, and to debug.log in the run directory, where there is one: from the start
of the program, not only from the start of the run.
"""

import logging
import os
import sys
import time
from logging.handlers import MemoryHandler
from pathlib import Path

from ssdbench.foreign import lines, open_own

NAME = "debug.log"
FORMAT = "%(asctime)s.%(msecs)03dZ %(message)s"


def start() -> None:
    """Log from now on; again is the same as once."""
    logger = logging.getLogger("ssdbench")
    if logger.handlers:
        return
    logging.raiseExceptions = False  # a full disk or a closed terminal never ends a run
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    stderr = logging.StreamHandler(sys.stderr)
    stderr.setFormatter(_formatter(f"debug: {FORMAT}"))
    # It keeps what is logged until there is a run directory, and hands on at once after that.
    logger.addHandler(MemoryHandler(capacity=1))
    logger.addHandler(stderr)


def keep_in(directory: Path) -> None:
    """Also keep in this run directory what was logged and what will be; nothing without --debug."""
    for handler in logging.getLogger("ssdbench").handlers:
        if isinstance(handler, MemoryHandler) and handler.target is None:
            try:
                log = open_own(directory / NAME, os.O_WRONLY | os.O_APPEND)
            except OSError:  # the run goes on; stderr still has it
                return
            file = logging.FileHandler(directory / NAME, encoding="utf-8", delay=True)
            file.setStream(os.fdopen(log, "a", encoding="utf-8"))
            file.setFormatter(_formatter(FORMAT))
            handler.setTarget(file)
            handler.flush()


def stop() -> None:
    """Log no more, and close the file."""
    logger = logging.getLogger("ssdbench")
    for handler in tuple(logger.handlers):
        logger.removeHandler(handler)
        if isinstance(handler, MemoryHandler) and handler.target is not None:
            handler.target.close()
        handler.close()
    logger.setLevel(logging.NOTSET)
    logger.propagate = True


class _Formatter(logging.Formatter):
    """Names of files and drives are logged too; they may hold anything."""

    def format(self, record: logging.LogRecord) -> str:
        return lines(super().format(record))


def _formatter(form: str) -> logging.Formatter:
    formatter = _Formatter(form, datefmt="%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    return formatter
