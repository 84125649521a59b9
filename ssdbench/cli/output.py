"""Write answers to stdout and messages to stderr."""

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING

import click

from ssdbench.foreign import lines, plain

if TYPE_CHECKING:  # importing pydantic takes 100 ms
    from ssdbench.cli.documents import Document

_NUMBER = re.compile(r"[0-9][0-9.,e+]*( [A-Za-zµ/%]+)?")


def answer(text: str, *, bad: bool = False) -> None:
    """Print a line of the answer to stdout; with `bad`, a terminal shows it in red."""
    shown = lines(text)
    if sys.stdout.isatty() and "\n" not in shown:  # lines of a table stay as they are
        shown = folded(shown, get_terminal_size().columns)
    click.echo(click.style(shown, fg="red") if bad else shown)


def folded(text: str, columns: int) -> str:
    """Break a line between words where a terminal of this width ends."""
    if len(text) <= columns:
        return text
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    folded = wrap(
        text, columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(folded)


def tell(text: str) -> None:
    """Print a message to stderr; if the terminal is closed, the command continues."""
    try:
        click.echo(lines(text), err=True)
    except OSError:
        return


def document(value: "Document | Mapping[str, object]") -> None:
    """Print the answer as one JSON document; infinity and NaN become null."""
    text = json.dumps(value) if isinstance(value, Mapping) else value.model_dump_json()
    plain = json.loads(text, parse_constant=lambda _: None)
    click.echo(json.dumps(plain, indent=1, allow_nan=False))


def write_file(path: Path | None, what: str, made: Callable[[], bytes]) -> None:
    """If an option names a file, write the content `made` to it, and print where `what` is."""
    if path is not None:
        from ssdbench.host.files import write_atomic

        write_atomic(path, made())
        tell(f"{what}: {path}")


LEAST_WIDTH = 8  # narrowest width of a text column


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return lines of aligned columns, numbers to the right; wrap cells on a narrow terminal."""
    rows = [[plain(cell) for cell in row] for row in rows]
    columns = list(zip(header, *rows, strict=True))
    widths = [max(len(cell) for cell in column) for column in columns]
    right = [bool(rows) and all(_numeric(cell) for cell in column[1:]) for column in columns]
    if sys.stdout.isatty():
        words = [max(map(len, " ".join(column).split()), default=0) for column in columns]
        _narrow(widths, words, get_terminal_size().columns - 2 * (len(widths) - 1))
    head = [_row(header, widths, right), "  ".join("-" * width for width in widths)]
    return "\n".join([*head, *(_row(row, widths, right) for row in rows)])


def _narrow(widths: list[int], words: Sequence[int], room: int) -> None:
    """Make columns narrower, the widest first, until all fit; break words only if needed."""
    for least in (words, [LEAST_WIDTH] * len(widths)):
        while sum(widths) > room and (wide := [n for n, w in enumerate(widths) if w > least[n]]):
            widths[max(wide, key=widths.__getitem__)] -= 1


def _row(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    """Return the lines of one table row; more than one line if a cell is wider than its column."""
    wrapped = [
        [cell] if len(cell) <= width else wrap(cell, width, break_on_hyphens=False)
        for cell, width in zip(cells, widths, strict=True)
    ]
    return "\n".join(
        "  ".join(
            part.rjust(width) if to_right else part.ljust(width)
            for part, width, to_right in zip(parts, widths, right, strict=True)
        ).rstrip()
        for parts in zip_longest(*wrapped, fillvalue="")
    )


def _numeric(cell: str) -> bool:
    return cell in ("", "-") or bool(_NUMBER.fullmatch(cell))
