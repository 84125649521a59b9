"""The tables of a store: what a row of each has, made from a stored run (docs/store.md)."""

from dataclasses import dataclass
from hashlib import sha256

from ssdbench.errors import UsageError
from ssdbench.foreign import read_regular
from ssdbench.model.result import RunResult
from ssdbench.model.rundirectory import MANIFEST, RESULT
from ssdbench.report.csv import (
    RESULT_TYPES,
    SUMMARY_TYPES,
    Row,
    point_findings,
    results_table,
    summary_table,
)
from ssdbench.report.read import StoredRun

# Every row of every table: from which result it came, and what it may be grouped by.
ORIGIN_TYPES = {
    "run_id": "str",
    "result_sha256": "str",
    "method": "Int64",
    "model": "str",
    "serial": "str",
    "firmware": "str",
    "identity": "str",
    "is_simulated": "boolean",
}
DRIVE_TYPES = ORIGIN_TYPES | {
    "size_bytes": "Int64",
    "kind": "str",
    "title": "str",
    "started_at": "str",
    "finished_at": "str",
    "profile_sha256": "str",
    "seed": "Int64",
    "ssdbench_version": "str",
    "verdict": "str",
    "bytes_written": "Int64",
    "endurance_tb": "Float64",
    "signed_by": "str",
}
FINDING_TYPES = ORIGIN_TYPES | {
    "code": "str",
    "severity": "str",
    "message": "str",
    "advice": "str",
    "stage": "str",
    "point": "str",
    "repeat_number": "Int64",
}
POINT_TYPES = ORIGIN_TYPES | {k: v for k, v in SUMMARY_TYPES.items() if k != "run_id"}
REPEAT_TYPES = ORIGIN_TYPES | {k: v for k, v in RESULT_TYPES.items() if k != "run_id"}
TABLES = {
    "drives": DRIVE_TYPES,
    "points": POINT_TYPES,
    "repeats": REPEAT_TYPES,
    "findings": FINDING_TYPES,
}


@dataclass(frozen=True, slots=True)
class Added:
    """A run as it goes into a store."""

    run: StoredRun
    result_sha256: str
    manifest_sha256: str
    signed_by: str = ""

    @property
    def model(self) -> str:
        """The drive's."""
        target = self.run.result.target
        return target.model or target.sim_model or target.kind.value

    @property
    def month(self) -> str:
        """When it was measured: 2026-11."""
        return self.run.result.started_at[:7]


def added(run: StoredRun, *, signed_by: str = "") -> Added:
    """A run with the hashes of its files. Raises UsageError when one is missing."""
    try:
        files = [read_regular(run.directory / name) for name in (RESULT, MANIFEST)]
    except OSError as error:
        raise UsageError(
            f"{error.filename} cannot be read: {error.strerror}",
            hint="Copy the whole directory of the run.",
        ) from error
    hashes = [sha256(data).hexdigest() for data in files]
    return Added(run, hashes[0], hashes[1], signed_by)


def rows_of(one: Added) -> dict[str, list[Row]]:
    """The rows of a run in each table."""
    result, origin = one.run.result, _origin(one)
    repeats = [row for row in results_table(result).rows if row.get("repeat_number") is not None]
    return {
        "drives": [_drive(one)],
        "points": [row | origin for row in summary_table(result).rows],
        "repeats": [row | origin for row in repeats],
        "findings": _findings(one),
    }


def _origin(one: Added) -> Row:
    target = one.run.result.target
    return {
        "run_id": one.run.result.run_id,
        "result_sha256": one.result_sha256,
        "method": one.run.result.method,
        "model": one.model,
        "serial": target.serial,
        "firmware": target.firmware,
        "identity": target.id,
        "is_simulated": target.simulated,
    }


def _drive(one: Added) -> Row:
    result: RunResult = one.run.result
    return _origin(one) | {
        "size_bytes": result.target.size_bytes,
        "kind": result.target.kind.value,
        "title": result.title,
        "started_at": result.started_at,
        "finished_at": result.finished_at,
        "profile_sha256": sha256(result.profile_text.encode()).hexdigest(),
        "seed": result.seed,
        "ssdbench_version": result.ssdbench_version,
        "verdict": str(result.verdict),
        "bytes_written": result.bytes_written,
        "endurance_tb": result.endurance_tb,
        "signed_by": one.signed_by or None,
    }


def _findings(one: Added) -> list[Row]:
    result = one.run.result
    found = [
        *((finding, finding.stage) for finding in result.findings),
        *((finding, stage.name) for stage in result.stages for finding in stage.findings),
        *(
            (finding, stage.name)
            for stage in result.stages
            for point in stage.points
            for finding in point_findings(point)
        ),
    ]
    return [
        _origin(one)
        | {
            "code": str(finding.code),
            "severity": str(finding.severity),
            "message": finding.message,
            "advice": finding.advice,
            "stage": stage,
            "point": finding.point,
            "repeat_number": finding.repeat,
        }
        for finding, stage in dict.fromkeys(found)
    ]
