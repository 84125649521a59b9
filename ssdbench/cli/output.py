"""Writes answers to stdout and messages to stderr."""

import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from shutil import get_terminal_size
from typing import TYPE_CHECKING

import click

from ssdbench.foreign import lines, plain

if TYPE_CHECKING:  # pydantic costs 100 ms
    from ssdbench.cli.documents import Document

_NUMBER = re.compile(r"[0-9][0-9.,e+]*( [A-Za-zµ/%]+)?")


def answer(text: str, *, bad: bool = False) -> None:
    """Print a line of the answer; red on a terminal if `bad`."""
    shown = lines(text)
    click.echo(click.style(shown, fg="red") if bad else shown)


def tell(text: str) -> None:
    """Print a message to stderr; a closed terminal does not end a run."""
    try:
        click.echo(lines(text), err=True)
    except OSError:
        return


def document(value: "Document | Mapping[str, object]") -> None:
    """Print the answer as one JSON document; infinity and NaN become null."""
    plain = value if isinstance(value, Mapping) else value.model_dump(mode="json")
    click.echo(json.dumps(_finite(plain), indent=1, allow_nan=False))


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return aligned columns, numbers to the right; on a narrow terminal a paragraph per row."""
    rows = [[plain(cell) for cell in row] for row in rows]
    columns = list(zip(header, *rows, strict=True))
    widths = [max(len(cell) for cell in column) for column in columns]
    right = [bool(rows) and all(_numeric(cell) for cell in column[1:]) for column in columns]
    if sys.stdout.isatty() and sum(widths) + 2 * len(widths) - 2 > get_terminal_size().columns:
        return "\n".join(_paragraph(header, row) for row in rows)
    lines = [_line(header, widths, right), _line(["-" * width for width in widths], widths, right)]
    return "\n".join([*lines, *(_line(row, widths, right) for row in rows)])


def _paragraph(header: Sequence[str], row: Sequence[str]) -> str:
    """Return the first cell of a row, and below it each other cell after its column's name."""
    return "\n  ".join([row[0], *(f"{h}: {c}" for h, c in zip(header[1:], row[1:], strict=True))])


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    parts = (
        cell.rjust(width) if to_right else cell.ljust(width)
        for cell, width, to_right in zip(cells, widths, right, strict=True)
    )
    return "  ".join(parts).rstrip()


def _numeric(cell: str) -> bool:
    return cell in ("", "-") or bool(_NUMBER.fullmatch(cell))


def _finite(value: object) -> object:
    if isinstance(value, str):  # checked first: most values are strings, and Mapping is slow
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
