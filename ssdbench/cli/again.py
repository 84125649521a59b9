"""The command line that a refusal lacks words for, once more with them: ready to be pasted."""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

ENDS_OPTIONS = "--"


def again(arguments: Sequence[str], options: Sequence[str]) -> list[str]:
    """The user's own words and the options that were missing."""
    words = list(arguments)
    at = words.index(ENDS_OPTIONS) if ENDS_OPTIONS in words else len(words)
    return [*program(), *words[:at], *options, *words[at:]]


def program() -> list[str]:
    """How ssdbench was called, in the form that a shell understands."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py" and called.parent.name == "ssdbench":
        return [sys.executable, "-m", "ssdbench"]
    if called.name != "ssdbench":
        return ["ssdbench"]
    installed = shutil.which("ssdbench")
    same = installed is not None and os.path.realpath(installed) == os.path.realpath(called)
    return ["ssdbench"] if same else [str(called)]


def as_run(arguments: Sequence[str], options: Sequence[str]) -> list[str]:
    """The `run` of what a `plan` was asked for; what it kept in a file is checked by the run."""
    words, run = list(arguments), ["run"]
    for word in words[words.index("plan") + 1 :]:
        if word == "--json":
            continue
        name, equals, value = word.partition("=")
        run.append(f"--plan{equals}{value}" if name == "--output" else word)
    return again(run, options)
