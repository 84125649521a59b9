"""Tables and words of Markdown, as the pages of reference need them."""

import re
from collections.abc import Iterable, Sequence

MARKUP = re.compile(r"([\\`*_{}\[\]<>|$])")
QUOTED = re.compile(r"(`[^`]*`)")


def prose(text: str) -> str:
    """A sentence of the code: text in backticks stays code, the rest stays as it is."""
    parts = QUOTED.split(" ".join(text.split()))
    return "".join(p.replace("|", r"\|") if n % 2 else _plain(p) for n, p in enumerate(parts))


def _plain(text: str) -> str:
    return MARKUP.sub(r"\\\1", text)


def code(text: object) -> str:
    """As it is typed; nothing where there is nothing."""
    return f"`{str(text).replace('|', chr(92) + '|')}`" if str(text) else ""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, with a dash in each empty cell."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell or '–' for cell in line)} |\n" for line in lines)
