"""Every finding: when it is raised, how much it weighs, and the advice, from its declaration."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import fields

from docs.siteparts.markdown import code, prose, table
from ssdbench.model import findings
from ssdbench.model.finding import Code, FindingKind


def kinds() -> Iterator[type[FindingKind]]:
    """Every declared kind, in the order of the files."""
    for found in pkgutil.iter_modules(findings.__path__):
        module = importlib.import_module(f"{findings.__name__}.{found.name}")
        for thing in vars(module).values():
            own = getattr(thing, "__module__", "") == module.__name__ and isinstance(thing, type)
            if own and issubclass(thing, FindingKind) and not inspect.isabstract(thing):
                yield thing


def page() -> str:
    """A section for each code, a row for each kind that has it."""
    declared = list(kinds())
    return "\n\n".join(
        f"## {one.value}\n\n"
        + table(
            ("what was seen", "severity", "what to do", "numbers that are stored"),
            (_row(kind) for kind in declared if kind.code is one),
        )
        for one in Code
    )


def _row(kind: type[FindingKind]) -> tuple[str, ...]:
    numbers = ", ".join(code(field.name) for field in fields(kind))
    severities = ", ".join(severity.value for severity in kind.severities)
    return prose(kind.__doc__ or ""), severities, remedy(kind), numbers


def remedy(kind: type[FindingKind]) -> str:
    """What to do, or that the message of the case says it."""
    if kind.remedy:
        return prose(kind.remedy)
    own = kind.advice is not FindingKind.advice
    return "it depends on the case, and the finding says it" if own else ""
