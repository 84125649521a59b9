"""Experiments of schema 1, over the host and on file systems, as those of today; pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ssdbench.model.found import ThreadsMedian

Document = dict[str, Any]


def upgraded_file_system(
    summary: Mapping[str, Any], data: Mapping[str, Any], csv: Sequence[str]
) -> Document:
    """One file system by threads."""
    told = {key: summary.get(key, "") for key in ("file_system", "made_with", "measured")}
    return {**told, **_common(summary, data, csv)}


def upgraded_comparison(
    summary: Mapping[str, Any], data: Mapping[str, Any], csv: Sequence[str]
) -> Document:
    """All other experiments; application programs did not store their passes."""
    common = _common(summary, data, csv)
    programs = summary.get("programs", "")
    most = max((median["repeats"] for median in common["medians"]), default=0)
    return {
        "repeats": summary.get("repeats", most),
        "file_system": summary.get("file_system", ""),
        "programs": programs.split(", ") if programs else (),
        **common,
    }


def _common(summary: Mapping[str, Any], data: Mapping[str, Any], csv: Sequence[str]) -> Document:
    notes = (value for key, value in summary.items() if re.fullmatch(r"note[ _]\d+", key))
    return {
        "medians": [_median(record) for record in data.get("medians", ())],
        "notes": [str(note) for note in notes],
        "cells_csv": csv[0] if csv else "",
    }


def _median(record: Mapping[str, Any]) -> Document:
    """What a probe or a program told stood among the others."""
    known = {name: value for name, value in record.items() if name in ThreadsMedian.model_fields}
    more = {name: value for name, value in record.items() if name not in known}
    iops = known.get("iops", 0.0)
    missing = {"repeats": 1, "iops": iops, "iops_least": iops, "iops_most": iops}
    return {**missing, **known, "more": more}
