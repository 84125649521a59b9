"""What every kind of finding has: a code, fields that are its numbers, and one wording.

A kind is a small frozen dataclass. Its fields have their unit in their name and are stored with
the finding, so that no program needs to read numbers out of a sentence; the sentence is formatted
from them here and nowhere else. A new kind goes into the module of its family, and its code into
the table of docs/findings.md; a test holds the two together.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from enum import Enum
from typing import ClassVar

from ssdbench.model.finding import Code, Finding, Number, Scalar, Severity


@dataclass(frozen=True)
class FindingKind(ABC):
    """One kind of finding, with the numbers of one case."""

    code: ClassVar[Code]
    severities: ClassVar[tuple[Severity, ...]]  # the usual one first
    remedy: ClassVar[str] = ""  # what the user can do, in full sentences

    @abstractmethod
    def message(self) -> str:
        """One sentence with the numbers in it, without capital letter and full stop."""

    def advice(self) -> str:
        """The remedy; overridden where it depends on the case."""
        return self.remedy

    def severity(self) -> Severity:
        """The usual severity; overridden where it depends on the case."""
        return self.severities[0]

    def numbers(self) -> dict[str, Number]:
        """Every field by its name; what is not finite is left open."""
        return {field.name: _stored(getattr(self, field.name)) for field in fields(self)}

    def finding(
        self, *, stage: str | None = None, point: str | None = None, repeat: int | None = None
    ) -> Finding:
        """As it is stored, with the place where it was seen."""
        return Finding(
            code=self.code,
            severity=self.severity(),
            message=self.message(),
            advice=self.advice(),
            point=point,
            repeat=repeat,
            stage=stage,
            numbers=self.numbers(),
        )


def _stored(value: Number) -> Number:
    return tuple(map(_scalar, value)) if isinstance(value, tuple) else _scalar(value)


def _scalar(value: Scalar) -> Scalar:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, bool):
        return int(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value
