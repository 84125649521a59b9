"""The user's own fio job files."""

from typing import Annotated, ClassVar, Self

from pydantic import BeforeValidator, Field, model_validator

from ssdbench.foreign import plain
from ssdbench.model.asked.mistakes import refuse
from ssdbench.model.asked.repeated import Extendable
from ssdbench.model.base import Model
from ssdbench.model.kind import PointsKind, StageKind

MOST_NAME = 40  # characters of a job's name


def title(path: str) -> str:
    """What reports and `accept` call a job file."""
    return plain(path.rsplit("/", 1)[-1], MOST_NAME)


class JobFile(Model):
    """A job file that was read: its name, and its text."""

    name: str = Field(min_length=1, max_length=4096, description="Its name, for messages.")
    text: str = Field(min_length=1, description="What stands in it.")


def job_text(body: object) -> object:
    """`- fio: jobs/db.fio` and `- fio: |` with lines below are short for `file` and `job`."""
    if body is None:
        return {}
    if isinstance(body, dict) and body.keys() == {"name", "text"}:  # as a stored profile has it
        return {"file": body}
    if not isinstance(body, str):
        return body
    return {"job": body} if "\n" in body else {"file": body}


class FioJobs(Extendable):
    """A fio job file; what lies between two stonewalls is one point."""

    kind: ClassVar[PointsKind] = StageKind.FIO

    file: Annotated[str, Field(min_length=1, max_length=4096)] | JobFile | None = Field(
        default=None,
        examples=["jobs/mysql.fio"],
        description="The job file, in the directory of the profile or below it. A stored profile "
        "has its name and its text here.",
    )
    job: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="The text of a job file, in place of `file`.",
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.file is None) == (self.job is None):
            refuse([((), "give either `file`, the name of a job file, or `job`, its text")])
        return self

    @property
    def reads(self) -> bool:
        """Whether it may read; the drive is filled before it in any case."""
        return True

    @property
    def called(self) -> str:
        """Its name in reports."""
        return title(self.file if isinstance(self.file, str) else self.source.name)

    @property
    def source(self) -> JobFile:
        """The name and the text. Raises ValueError for a file that was not read."""
        if isinstance(self.file, JobFile):
            return self.file
        if self.job is None:
            raise ValueError(f"{self.file} was not read")
        return JobFile(name="job", text=self.job)


JobBody = BeforeValidator(job_text)
