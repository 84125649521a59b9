"""Define findings: facts that the user must know about a result, with numbers and advice.

Each kind of finding is a frozen dataclass in `ssdbench.model.findings`. The fields of a kind have
their unit in the name and are stored with the finding, so no program has to read numbers out of a
sentence. Only the `message` method of the kind writes the sentence. docs/findings.md lists every
code.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields
from enum import Enum, StrEnum
from typing import Any, ClassVar, dataclass_transform

from ssdbench.model.base import Model


class Severity(StrEnum):
    """Say how much a finding matters. INVALIDATES keeps a point or a run from being VALIDATED."""

    INVALIDATES = "invalidates"
    WARNS = "warns"
    NOTES = "notes"


class Code(StrEnum):
    """List all codes of findings. `ssdbench.model.findings` defines the kinds of each code."""

    NOT_STEADY = "not-steady"  # the steady-state rule did not hold before the budget ended
    NOT_STEADY_POINT = "not-steady-point"  # a repeat's settle phase did not become steady
    CV_TOO_HIGH = "cv-too-high"  # repeats differ by more than the gate (Heger: 4 %)
    TOO_FEW_REPEATS = "too-few-repeats"
    TREND = "trend"  # the repeats drift with their order
    DRIFT_IN_WINDOW = "drift-in-window"
    FEW_SAMPLES = "few-samples"  # too few I/Os for this percentile
    LITTLE_MISMATCH = "little-mismatch"  # IOPS x latency is not the queue depth
    QUEUE_FULL = "queue-full"  # requests waited for the kernel to take them
    HOST_BOUND = "host-bound"  # the host, not the drive, is the limit
    DISTURBED = "disturbed"  # other work on the host or the drive during a repeat
    BIMODAL = "bimodal"
    NOT_PLANNABLE = "not-plannable"  # a file, loop, dm or cloud volume
    SIMULATED = "simulated"
    PARTIAL_FILL = "partial-fill"  # fill level below 100 %
    COMPRESSIBLE = "compressible"  # zeros were written
    FILL_UNPROVEN = "fill-unproven"  # counters do not show the bytes of the fill
    CAPACITY_UNPROVEN = "capacity-unproven"  # the fill was not read back, or with other data
    QUICK_RULE = "quick-rule"  # a rule that never validates (pss-quick, seppanen, snia early)
    NOT_APPLICABLE = "not-applicable"  # such as a 512 B point on a drive with 4 KiB blocks
    CUT_SHORT = "cut-short"  # --max-time, --max-writes or Ctrl-C
    PLANNED_AGAIN = "planned-again"  # --budget, by the rates of the warm-up
    RESUMED = "resumed"
    IO_ERRORS = "io-errors"
    THROTTLED = "throttled"
    HIDDEN_BY_BUFFER = "hidden-by-buffer"
    NO_BOUNDARY = "no-boundary"
    HOST_CHANGED = "host-changed"
    UNSAFE_OPTION = "unsafe-option"
    COORDINATED_OMISSION = "coordinated-omission"
    BELOW_REMAP_UNIT = "below-remap-unit"
    BISTABLE = "bistable"
    CHANGED = "changed"  # the same workload ran at another rate later in the run
    PLAN = "plan"  # the points that the plan uses, and questions without an answer
    EXTRA_REPEATS = "extra-repeats"  # more than planned, as declared before the start
    WIDE_INTERVAL = "wide-interval"  # wider than declared after all extra repeats
    VOLATILE_CACHE = "volatile-cache"  # acknowledged writes may be lost with the power
    SLO_MISSED = "slo-missed"  # no offered rate kept the limit of latency
    BLOCK_LAYER = "block-layer"  # its cost, and bytes that were written past it
    NOT_SUSTAINED = "not-sustained"  # the load never ran long enough to show that the rate lasts
    SHARED_CHANGE = "shared-change"  # another point of the same hours saw the drive change
    WAVE = "wave"  # the rate rises and falls over hours
    POWER_GAP = "power-gap"  # the power meter was silent for too long while a repeat was measured
    SLOW_IN_HOST = "slow-in-host"  # requests that were slow, but not by the drive's own monitor
    UNDELIVERED = "undelivered"  # the drive delivered less than the offered rate


Scalar = int | float | str | None
Number = Scalar | tuple[Scalar, ...]


class Finding(Model):
    """Store a finding, which a kind in `ssdbench.model.findings` made."""

    code: Code
    severity: Severity
    message: str  # one sentence with the numbers in it
    advice: str = ""  # actions for the user
    point: str | None = None  # Point.id
    repeat: int | None = None
    stage: str | None = None
    numbers: dict[str, Number] = {}  # numbers of the message by name with unit; {} in old results

    def __hash__(self) -> int:
        """Hash all fields except the numbers: the message repeats them, and a dict has no hash."""
        return hash((self.code, self.severity, self.message, self.point, self.repeat, self.stage))


def with_codes(verdict: str, findings: Iterable[Finding]) -> str:
    """Add to a verdict the codes of findings against it: `NOT VALIDATED (changed, trend)`."""
    codes = [f.code.value for f in findings if f.severity is Severity.INVALIDATES]
    return f"{verdict} ({', '.join(dict.fromkeys(codes))})" if codes else verdict


@dataclass_transform(frozen_default=True)
@dataclass(frozen=True)
class FindingKind(ABC):
    """Define a kind of finding and the numbers of one case. Each subclass is a frozen dataclass."""

    code: ClassVar[Code]
    severities: ClassVar[tuple[Severity, ...]] = (Severity.INVALIDATES,)  # the usual one first
    remedy: ClassVar[str] = ""  # actions for the user, in full sentences

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclass(frozen=True)(cls)

    @abstractmethod
    def message(self) -> str:
        """Return one sentence with its numbers; it begins in lower case and has no full stop."""

    def advice(self) -> str:
        """Return the advice for the user: the remedy of the kind, unless a kind adapts it."""
        return self.remedy

    def severity(self) -> Severity:
        """Return the severity: the first of `severities`, unless a kind adapts it to the case."""
        return self.severities[0]

    def numbers(self) -> dict[str, Number]:
        """Return the value of every field by its name; None for a number that is not finite."""
        return {field.name: _stored(getattr(self, field.name)) for field in fields(self)}

    def finding(
        self, *, stage: str | None = None, point: str | None = None, repeat: int | None = None
    ) -> Finding:
        """Return the finding to store, with the stage, point and repeat where it was seen."""
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


class WarningKind(FindingKind):
    """Define a kind of finding that is always a warning."""

    severities = (Severity.WARNS,)


class NoteKind(FindingKind):
    """Define a kind of finding that is always a note."""

    severities = (Severity.NOTES,)


def _stored(value: Number) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_stored, value))
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, bool):
        return int(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value
