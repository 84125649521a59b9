"""Write the log of --debug: each command started, its exit code and time, each setting written.

The log is written to stderr, and to debug.log in the run directory if there is a run. debug.log
also gets the lines that were logged before the run directory existed.
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
    """Start the log; if it has been started, do nothing."""
    logger = logging.getLogger("ssdbench")
    if logger.handlers:
        return
    logging.raiseExceptions = False  # a full disk or a closed terminal must not end a run
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    stderr = logging.StreamHandler(sys.stderr)
    stderr.setFormatter(_Formatter(f"debug: {FORMAT}"))
    # This handler stores lines until the run directory exists, then passes each line on at once.
    logger.addHandler(MemoryHandler(capacity=1))
    logger.addHandler(stderr)


def keep_in(directory: Path) -> None:
    """With --debug, write all lines of the log to this run directory, including earlier lines."""
    for handler in logging.getLogger("ssdbench").handlers:
        if isinstance(handler, MemoryHandler) and handler.target is None:
            try:
                log = open_own(directory / NAME, os.O_WRONLY | os.O_APPEND)
            except OSError:  # stderr has the log anyway
                return
            file = logging.FileHandler(directory / NAME, encoding="utf-8", delay=True)
            file.setStream(os.fdopen(log, "a", encoding="utf-8"))
            file.setFormatter(_Formatter(FORMAT))
            handler.setTarget(file)
            handler.flush()


def stop() -> None:
    """Stop the log, and close its file."""
    logger = logging.getLogger("ssdbench")
    for handler in tuple(logger.handlers):
        logger.removeHandler(handler)
        if isinstance(handler, MemoryHandler) and handler.target is not None:
            handler.target.close()
        handler.close()
    logger.setLevel(logging.NOTSET)
    logger.propagate = True


class _Formatter(logging.Formatter):
    """Make control characters visible in the log, because file names may contain them."""

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = None

    def format(self, record: logging.LogRecord) -> str:
        return lines(super().format(record))
