"""What takes the place of any answer when a command fails."""

from typing import Literal

from ssdbench.cli.documents import Document, Part


class Diagnostic(Part):
    """What is wrong in a profile, and where."""

    file: str
    line: int
    column: int
    message: str


class Failure(Part):
    """Why, and what to do; what only some failures have is null."""

    kind: str  # UsageError, ProfileError, TargetRefused …
    message: str
    hint: str
    exit_code: int
    diagnostics: list[Diagnostic] | None = None  # of a profile
    target: str | None = None  # that was refused …
    reasons: list[str] | None = None  # … and why
    command: list[str] | None = None  # that would not be refused; empty when none is known


class Failed(Document):
    """An error."""

    document: Literal["error"] = "error"
    schema_version: Literal[1] = 1
    error: Failure
