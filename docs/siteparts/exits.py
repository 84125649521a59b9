"""The exit codes: the manual page's words for each, and the errors that carry it."""

import inspect
import re

from docs.siteparts.manual import SOURCE
from docs.siteparts.markdown import code, prose, table
from ssdbench import errors


def page() -> str:
    """One table."""
    carried = _errors()
    return table(
        ("exit code", "meaning", "errors that end with it (`kind` with `--json`)"),
        (
            (", ".join(map(code, numbers)), text, " ".join(carried.get(numbers[0], [])))
            for numbers, text in told()
        ),
    )


def told() -> list[tuple[list[str], str]]:
    """Codes and their meaning, from the manual page."""
    section = SOURCE.read_text().split("# EXIT STATUS\n")[1].split("\n# ")[0]
    entries = re.findall(r"^(\*\*\d.*)\n:   ((?:.+\n)+)", section + "\n", re.MULTILINE)
    return [(re.findall(r"\d+", head), " ".join(text.split())) for head, text in entries]


def _errors() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, kind in vars(errors).items():
        if inspect.isclass(kind) and issubclass(kind, errors.SsdbenchError):
            said = prose((kind.__doc__ or "").split("\n\n")[0])
            if kind not in (errors.SsdbenchError, errors.Interrupted):
                found.setdefault(str(kind.exit_code), []).append(f"`{name}`: {said}")
    return found
