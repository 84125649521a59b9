"""Write tables in Markdown, alone or between two marks of a document."""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path


def markdown(
    head: Sequence[str], rows: Iterable[Sequence[object]], right: Collection[int] = ()
) -> str:
    """Return a table; the columns with the numbers of `right` are aligned to the right."""
    rule = "|".join("--:" if place in right else "---" for place in range(len(head)))
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in (head, *rows)]
    return "\n".join([lines[0], f"|{rule}|", *lines[1:]])


def put(document: Path, begin: str, end: str, text: str) -> None:
    """Replace what stands between two marks of a document."""
    before, _, rest = document.read_text().partition(begin)
    document.write_text(f"{before}{begin}\n{text}\n{end}{rest.partition(end)[2]}")
