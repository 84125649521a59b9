"""Stored results of schema 1 as those of today, before they are validated; pure.

Schema 1 kept what a stage found in `summary`, `steady`, `points`, `figures` and `data`, for every
kind alike.
"""

from collections.abc import Mapping
from typing import Any

from ssdbench.model.kind import StageKind
from ssdbench.model.rundirectory import seconds_of
from ssdbench.model.upgradepts import upgraded_pts
from ssdbench.model.upgradetrials import upgraded_comparison, upgraded_file_system

Document = dict[str, Any]

_BAGS = ("kind", "summary", "steady", "other_rules", "points", "figures", "data")


def upgraded_run(document: Document, schema: int) -> Document:
    """A run of schema 1 says that it is one of today; its stages follow by themselves."""
    if document.get("schema_version") != 1:
        return document
    return {**document, "schema_version": schema}


def upgraded_stage(document: Document) -> Document:
    """A stage of schema 1; what is none is left to the validator."""
    old = {name: document[name] for name in _BAGS if name in document}
    head = {name: value for name, value in document.items() if name not in _BAGS}
    try:
        kind = StageKind(old.get("kind", ""))
    except ValueError:
        return document
    return {**head, "found": {"kind": kind, **_found(kind, old, str(document.get("name", "")))}}


def _found(  # noqa: C901 - a case for each kind
    kind: StageKind, old: Mapping[str, Any], name: str
) -> Document:
    summary, data = dict(old.get("summary", {})), dict(old.get("data", {}))
    csv = [f["csv"] for f in old.get("figures", ()) if "csv" in f]
    match kind:
        case StageKind.PURGE:
            return {
                "done": summary.get("done", ""),
                "before": _after(summary, "before: "),
                "after": _after(summary, "after: "),
            }
        case StageKind.PRECONDITION:
            known = ("planned_bytes", "counted_bytes", "counter", "smart_written_bytes",
                     "level_percent", "filled_bytes", "fills")  # fmt: skip
            return {
                **{key: summary[key] for key in known if key in summary},
                "seconds_csv": csv or [seconds_of(name)],
            }
        case StageKind.STEADY:
            verdicts = old.get("steady", ())
            return {
                "workload": data.get("workload"),
                "label": summary.get("workload", ""),
                "verdict": verdicts[0] if verdicts else None,
                "says": summary.get("says", ""),
                "unit": data.get("unit", "B/s"),
                "other_rules": old.get("other_rules", ()),
                "seconds_csv": csv[0] if csv else seconds_of(name),
            }
        case StageKind.SWEEP | StageKind.SPAN | StageKind.PROCESSES | StageKind.FIO | StageKind.MIX:
            declared = data.get("declared") or [None]
            return {
                "points": old.get("points", ()),
                "repeats": summary.get("repeats", 0),
                "order": data.get("order", ()),
                "declared": declared[0],
                "host_ceiling_iops": data.get("host_ceiling_iops", {}),
            }
        case StageKind.RATE:
            return _rate(summary, data)
        case StageKind.REPLAY | StageKind.LOAD:  # none was stored in schema 1
            return {}
        case StageKind.BLOCKSIZE:
            figures = [f for f in old.get("figures", ()) if "csv" in f]
            return {
                **{k: v for k, v in summary.items() if v is not None},
                **data,
                "figures": figures,
            }
        case StageKind.PROBE:
            return {
                "probe": summary.pop("probe", ""),
                "answer": summary.pop("answer", ""),
                "numbers": summary,
                "measured": data.get("measured", ()),
            }
        case StageKind.PTS:
            return upgraded_pts(summary, data)
        case StageKind.FILESYSTEM:
            return upgraded_file_system(summary, data, csv)
        case (
            StageKind.SCHEDULERS
            | StageKind.QUEUE
            | StageKind.ENGINES
            | StageKind.DEPTH
            | StageKind.INTERRUPTS
            | StageKind.LATENCY_PATH
            | StageKind.CPU_COST
            | StageKind.SURFACE
            | StageKind.FILE_WRITERS
            | StageKind.FILE_MIX
            | StageKind.APPLICATIONS
        ):
            return upgraded_comparison(summary, data, csv)


def _rate(summary: Mapping[str, Any], data: Mapping[str, Any]) -> Document:
    slo = dict(data.get("slo", {}))
    renamed = {"rate_iops": slo.pop("rate_at_slo_iops", None)}
    return {
        **slo,
        **renamed,
        "workload": summary.get("workload", ""),
        "highest_iops": summary.get("highest_of_all_searches_iops"),
        "knee_iops": summary.get("knee_iops"),
        "steps": data.get("steps", ()),
        "csv": data.get("csv", ""),
    }


def _after(summary: Mapping[str, Any], prefix: str) -> dict[str, str]:
    return {k.removeprefix(prefix): str(v) for k, v in summary.items() if k.startswith(prefix)}
