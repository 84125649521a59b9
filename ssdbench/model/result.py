"""Define the stored results of a run, which reports read.

Schema history, newest first:

    2  each kind of stage has its own type of result, below `found`; findings have `numbers`
    1  the first: every stage with `summary`, `steady`, `points`, `figures` and `data`; refused
"""

from typing import Any, TypeVar

from pydantic import model_validator

from ssdbench.errors import UsageError
from ssdbench.model.base import Model
from ssdbench.model.finding import Finding, Severity
from ssdbench.model.found import Found, Points, WarmUp
from ssdbench.model.inside import WriteCache
from ssdbench.model.kind import StageKind
from ssdbench.model.point import Estimate, PointResult, SteadyVerdict, Verdict
from ssdbench.model.profile.accept import Accepted
from ssdbench.model.rates import LoadFound, RateFound
from ssdbench.model.target import TargetInfo
from ssdbench.units import format_capacity, format_duration


class Budget(Model):
    """Store how a profile was shortened to a time or wear; without cuts the whole profile fits."""

    seconds: float | None = None  # as given
    max_wear_percent: float | None = None  # of the rated endurance, as given
    most_bytes: int | None = None  # that this share allows to write
    wear: str = ""  # likely bytes of the shortened run, and their share of the rated endurance
    likely_s: float  # likely length of the shortened run, on the target's clock
    counted_on: str  # the rates that this estimate uses
    cuts: tuple[str, ...] = ()  # in the order in which they were made
    lacks: tuple[str, ...] = ()  # why it can never be VALIDATED; empty if it can
    validated_from_s: float | None = None  # least likely time; None if no time is enough
    validated_from_bytes: int | None = None  # the most that such a run likely writes
    risk: str = ""  # how often such evidence was wrong, on drives whose true rate is known
    whole_sha256: str = ""  # of the profile before it was shortened; "" in older runs
    planned_again: bool = False  # after the warm-up, by the measured rates

    @property
    def limits(self) -> list[str]:
        """Return the limits that the user gave, for comparison with other runs."""
        return [
            *([] if self.seconds is None else [f"{self.seconds:g}"]),
            *([] if self.most_bytes is None else [f"{self.most_bytes} B"]),
        ]

    @property
    def given(self) -> str:
        """Format the given limits, such as `12 h 00 min`, `1 % of the rated endurance (70 TB)`."""
        time = [] if self.seconds is None else [format_duration(self.seconds)]
        wear = []
        if self.max_wear_percent is not None and self.most_bytes is not None:
            share = f"{self.max_wear_percent:g} % of the rated endurance"
            wear = [f"{share} ({format_capacity(self.most_bytes)})"]
        return " and ".join([*time, *wear])

    @property
    def validates(self) -> bool:
        """Tell whether the shortened run can be VALIDATED."""
        return not self.lacks

    @property
    def proves(self) -> str:
        """Say in words whether the shortened run can be VALIDATED."""
        if self.lacks:
            return f"cannot be VALIDATED: {'; '.join(self.lacks)}"
        return "can be VALIDATED, if the drive is steady and the time is enough"


SCHEMA = 2
READ_BY = {1: "1.0.0"}  # of each older schema: the last version of ssdbench that reads it
# METHOD is increased if a drive would get another number, as such results must not be mixed.
METHOD = 1


def require_schema(stored: Any, what: str) -> Any:
    """Return `stored`. Raises UsageError, with the version to use, if its schema is too old."""
    schema = stored.get("schema_version") if isinstance(stored, dict) else None
    if isinstance(schema, int) and schema in READ_BY:
        raise UsageError(
            f"{what} has schema {schema}, and this ssdbench reads schema {SCHEMA} only",
            hint=f"Use ssdbench {READ_BY[schema]} for it, in an environment of its own.",
        )
    return stored


F = TypeVar("F", bound=Model)


class StageResult(Model):
    """Store the result of one stage. Large data are stored in files of the stage's directory."""

    name: str  # "02-steady"
    title: str
    started_at: str  # ISO 8601, UTC
    duration_s: float  # on the target's clock
    wall_s: float
    bytes_read: int = 0
    bytes_written: int = 0
    findings: tuple[Finding, ...] = ()
    complete: bool = True
    found: Found

    @property
    def kind(self) -> StageKind:
        """Return the kind of stage."""
        return self.found.kind

    @property
    def points(self) -> tuple[PointResult, ...]:
        """Return the points that the stage measured; empty if the stage measures no points."""
        return self.found.points if isinstance(self.found, Points) else ()

    @property
    def verdict(self) -> SteadyVerdict | None:
        """Return the steady-state verdict of a warm-up; None for other kinds of stage."""
        return self.found.verdict if isinstance(self.found, WarmUp) else None

    @property
    def why_not(self) -> str:
        """Return why the stage is not VALIDATED, such as codes of findings; "" if it is."""
        against = [f.code.value for f in self.findings if f.severity is Severity.INVALIDATES]
        if against:
            return ", ".join(dict.fromkeys(against))
        if not self.complete:
            return "not finished"
        answer = self.found.verdict if isinstance(self.found, RateFound | LoadFound) else None
        return "" if answer in (None, "VALIDATED") else answer.lower()


HOST_UNIT_BYTES = 512_000  # unit of the health log, which rounds up


class FlashWritten(Model):
    """Store the bytes that the drive's own logs count: writes of the host and writes to flash.

    The log fields are Data Units Written (NVMe) and Physical Media Units Written (OCP).
    """

    host_bytes: int
    media_bytes: int
    media_step_bytes: int | None = None  # step of the media counter; None if not known

    @property
    def amplification(self) -> float:
        """Return the write amplification: bytes to flash divided by bytes from the host."""
        return self.media_bytes / self.host_bytes

    @property
    def amplification_range(self) -> tuple[float, float]:
        """Return the lowest and highest write amplification that the counters' steps allow."""
        step = self.media_step_bytes or 0
        least = max(0, self.media_bytes - step) / (self.host_bytes + HOST_UNIT_BYTES)
        return least, (self.media_bytes + step) / max(1, self.host_bytes - HOST_UNIT_BYTES)


class RunResult(Model):
    """Store a whole run: everything that a report needs except the large files."""

    schema_version: int = SCHEMA
    run_id: str
    title: str
    ssdbench_version: str
    method: int = 1  # METHOD of the ssdbench that measured; 1 in older results
    started_at: str
    finished_at: str | None
    target: TargetInfo
    profile_text: str
    seed: int
    verdict: Verdict
    findings: tuple[Finding, ...]
    stages: tuple[StageResult, ...]
    host: dict[str, str] = {}
    settings: tuple[dict[str, str], ...] = ()  # host settings that were changed, with reasons
    bytes_written: int = 0
    endurance_tb: float | None = None  # rated, from the command line or the profile
    budget: Budget | None = None  # the time to which the profile was shortened
    flash_written: FlashWritten | None = None  # over the run, if the drive's logs have both
    idle_watts: Estimate | None = None  # of the drive before its first request, if anything told it
    write_cache: WriteCache | None = None  # None in older results
    accepted: tuple[Accepted, ...] = ()  # outcomes of the profile's targets
    interrupted: bool = False

    @model_validator(mode="before")
    @classmethod
    def _of_this_schema(cls, value: Any) -> Any:
        """Refuse a run of an older schema. Raises UsageError with a version that reads it."""
        return require_schema(value, "the run")

    @property
    def points(self) -> tuple[PointResult, ...]:
        """Return the points of all stages, in order."""
        return tuple(point for stage in self.stages for point in stage.points)

    @property
    def steady(self) -> SteadyVerdict | None:
        """Return the newest verdict on steady state; None if no stage has a verdict."""
        return next((stage.verdict for stage in reversed(self.stages) if stage.verdict), None)

    def having(self, kind: type[F]) -> list[tuple[StageResult, F]]:
        """Return the stages whose result has the type `kind`, together with their results."""
        return [(stage, stage.found) for stage in self.stages if isinstance(stage.found, kind)]
