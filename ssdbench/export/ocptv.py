"""Export a run as OCP Test & Validation output 2.0: one JSON artifact on each line.

https://github.com/opencomputeproject/ocp-diag-core has the specification and its JSON schema. A
stage becomes a test step, a number a measurement, and the verdict of a point a diagnosis.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from ssdbench.model.finding import Severity
from ssdbench.model.point import Verdict
from ssdbench.model.rates import RateFound
from ssdbench.model.result import RunResult, StageResult
from ssdbench.report.metrics import published_bound
from ssdbench.report.read import StoredRun
from ssdbench.report.tables import reasons
from ssdbench.units import parse_moment

DRIVE = "drive"  # ID of the drive, the only hardware in the output
SCHEMA_VERSION = {"major": 2, "minor": 0}
_TYPES: dict[Verdict, str] = {
    "VALIDATED": "PASS",
    "NOT VALIDATED": "FAIL",
    "MEASURED, NOT PLANNABLE": "UNKNOWN",
}
_RESULTS: dict[Verdict, str] = {**_TYPES, "MEASURED, NOT PLANNABLE": "NOT_APPLICABLE"}
_SEVERITIES = {Severity.INVALIDATES: "ERROR", Severity.WARNS: "WARNING", Severity.NOTES: "INFO"}

Artifact = dict[str, Any]


def export(run: StoredRun) -> bytes:
    """Return the run as lines of OCP JSON."""
    result = run.result
    newest = datetime.min.replace(tzinfo=UTC)
    lines = []
    for number, (at, artifact) in enumerate(_artifacts(result)):
        newest = max(newest, at)  # time stamps never go back, even if the clock did
        line = {**artifact, "sequenceNumber": number, "timestamp": newest.isoformat()}
        lines.append(json.dumps(line, allow_nan=False, ensure_ascii=False))
    return ("\n".join(lines) + "\n").encode()


def _artifacts(result: RunResult) -> Iterator[tuple[datetime, Artifact]]:
    began = parse_moment(result.started_at)
    yield began, {"schemaVersion": SCHEMA_VERSION}
    yield began, _run({"testRunStart": _start(result)})
    ended = began
    for stage in result.stages:
        start = parse_moment(stage.started_at)
        ended = start + timedelta(seconds=stage.wall_s)
        yield start, _step(stage, {"testStepStart": {"name": stage.title}})
        for artifact in _of_stage(stage):
            yield ended, _step(stage, artifact)
        status = "COMPLETE" if stage.complete else "ERROR"
        yield ended, _step(stage, {"testStepEnd": {"status": status}})
    ended = parse_moment(result.finished_at) if result.finished_at else ended
    for finding in result.findings:
        told = {"severity": _SEVERITIES[finding.severity], "message": finding.message}
        yield ended, _run({"log": told})
    whole = not result.interrupted and result.finished_at is not None
    end = {
        "status": "COMPLETE" if whole else "ERROR",
        "result": _RESULTS[result.verdict] if whole else "NOT_APPLICABLE",
    }
    yield ended, _run({"testRunEnd": end})


def _run(artifact: Artifact) -> Artifact:
    return {"testRunArtifact": artifact}


def _step(stage: StageResult, artifact: Artifact) -> Artifact:
    return {"testStepArtifact": {"testStepId": stage.name, **artifact}}


def _start(result: RunResult) -> Artifact:
    target = result.target
    hardware = {
        "hardwareInfoId": DRIVE,
        "name": target.model or target.name,
        "serialNumber": target.serial,
        "partType": target.kind.value,
        "location": target.name,
    }
    firmware = {"softwareInfoId": "firmware", "name": "firmware", "softwareType": "FIRMWARE"}
    software = [{**firmware, "version": target.firmware}] if target.firmware else []
    return {
        "name": "ssdbench",
        "version": result.ssdbench_version,
        "commandLine": "ssdbench",
        "parameters": {"title": result.title, "seed": result.seed, "profile": result.profile_text},
        "dutInfo": {
            "dutInfoId": target.id or target.name,
            "name": target.name,
            "hardwareInfos": [{name: value for name, value in hardware.items() if value}],
            "softwareInfos": software,
        },
        "metadata": {"run_id": result.run_id, "simulated": target.modelled},
    }


def _of_stage(stage: StageResult) -> Iterator[Artifact]:
    for point in stage.points:
        name = point.point.id
        if (bound := published_bound(point)) is not None:
            yield _measured(f"{name}.iops_lower_bound", bound, "1/s")
        for one in point.estimates:
            if one.status != "suppressed":
                side = "" if one.direction == "total" else f".{one.direction}"
                yield _measured(f"{name}{side}.{one.metric}", one.value, one.unit)
        yield _diagnosed(name, point.verdict, point.point.label(), reasons(point.findings))
    if isinstance(stage.found, RateFound) and stage.found.rate_iops is not None:
        yield _measured("rate_within_limit", stage.found.rate_iops, "1/s")
        word: Verdict = "NOT VALIDATED" if stage.why_not else "VALIDATED"
        yield _diagnosed("rate_within_limit", word, stage.found.limit, reasons(stage.findings))
    for finding in stage.findings:
        told = f"{finding.code}: {finding.message}"
        yield {"log": {"severity": _SEVERITIES[finding.severity], "message": told}}


def _diagnosed(name: str, verdict: Verdict, label: str, why: str) -> Artifact:
    return {
        "diagnosis": {
            "verdict": f"{name}: {verdict.lower()}",
            "type": _TYPES[verdict],
            "message": f"{label}{': ' if why else ''}{why}",
            "hardwareInfoId": DRIVE,
        }
    }


def _measured(name: str, value: float, unit: str) -> Artifact:
    return {"measurement": {"name": name, "value": value, "unit": unit, "hardwareInfoId": DRIVE}}
