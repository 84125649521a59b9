"""What fio reports (`json+`) as outcomes; pure: text in, values out."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ssdbench.generator.base import Direction, JobOutcome
from ssdbench.stats.histogram import Histogram

Json = Mapping[str, Any]

_DOCUMENT = re.compile(r"^\{", re.MULTILINE)


class CutShort(ValueError):
    """The report holds no complete document, or ends within one."""


@dataclass(frozen=True, slots=True)
class Group:
    """One reporting group, which is one of our jobs with all its threads."""

    outcome: JobOutcome
    error: int  # errno of the first thread that failed, 0 if none
    short_ios: int  # I/Os that moved fewer bytes than asked
    dropped_ios: int
    errors_seen: int  # with continue_on_error only


@dataclass(frozen=True, slots=True)
class Report:
    """One run of fio."""

    version: str
    groups: tuple[Group, ...]  # in the order in which they ran
    preamble: str  # what fio wrote before the document


def parse(text: str, names: Sequence[str]) -> Report:
    """The last report in `text`, its groups named by `names`.

    fio puts messages before the document, and with --status-interval several documents one after
    another. Raises CutShort.
    """
    starts = [found.start() for found in _DOCUMENT.finditer(text)]
    if not starts:
        raise CutShort("fio wrote no report")
    try:
        document = json.loads(text[starts[-1] :].strip())
        groups = _groups(document["jobs"])
        version = str(document["fio version"]).removeprefix("fio-")
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise CutShort(f"fio's report cannot be read: {error}") from error
    if len(groups) != len(names):
        raise CutShort(f"fio reported {len(groups)} jobs of {len(names)}")
    return Report(
        version=version,
        groups=tuple(_group(name, parts) for name, parts in zip(names, groups, strict=True)),
        preamble=text[: starts[0]],
    )


def version_of(text: str) -> tuple[int, int]:
    """(3, 33) of what `fio --version` prints. Raises ValueError for anything else."""
    match = re.search(r"fio-([0-9]+)\.([0-9]+)", text)
    if not match:
        raise ValueError(f"not a version of fio: {text.strip()!r}")
    return int(match.group(1)), int(match.group(2))


def engines_of(text: str) -> frozenset[str]:
    """The names of the I/O engines that `fio --enghelp` lists."""
    return frozenset(re.findall(r"^\t(\S+)$", text, re.MULTILINE))


def _groups(jobs: Sequence[Json]) -> list[list[Json]]:
    by_group: dict[int, list[Json]] = {}
    for job in jobs:
        by_group.setdefault(int(job["groupid"]), []).append(job)
    return [by_group[group] for group in sorted(by_group)]


def _group(name: str, parts: Sequence[Json]) -> Group:
    # group_reporting leaves one entry a group; an error may split it, so all are looked at.
    runtime_ms = sum(float(part.get("job_runtime", 0)) for part in parts) or 1.0

    def cpu(field: str) -> float:
        busy = sum(float(part[field]) * float(part.get("job_runtime", 0)) for part in parts)
        return busy / runtime_ms

    errors_seen = sum(int(part.get("total_err", 0)) for part in parts)
    outcome = JobOutcome(
        name=name,
        read=_direction([part["read"] for part in parts]),
        write=_direction([part["write"] for part in parts]),
        flushes=_direction([part.get("sync", {}) for part in parts]),
        io_errors=errors_seen,
        cpu_user_percent=cpu("usr_cpu"),
        cpu_system_percent=cpu("sys_cpu"),
    )
    both = [part[side] for part in parts for side in ("read", "write")]
    return Group(
        outcome=outcome,
        error=next((abs(int(part["error"])) for part in parts if int(part["error"])), 0),
        short_ios=sum(int(side.get("short_ios", 0)) for side in both),
        dropped_ios=sum(int(side.get("drop_ios", 0)) for side in both),
        errors_seen=errors_seen,
    )


def _direction(sides: Sequence[Json]) -> Direction:
    sides = [side for side in sides if int(side.get("total_ios", 0))]
    if not sides:
        return Direction()
    ios = [int(side["total_ios"]) for side in sides]
    latencies = [side["lat_ns"] for side in sides]
    means = [float(latency["mean"]) for latency in latencies]
    return Direction(
        ios=sum(ios),
        bytes=sum(int(side.get("io_bytes", 0)) for side in sides),  # flushes have none
        runtime_s=max(float(side.get("runtime", 0)) for side in sides) / 1000,
        latency=Histogram.merged(_histogram(side) for side in sides),
        lat_mean_ns=sum(n * mean for n, mean in zip(ios, means, strict=True)) / sum(ios),
        lat_max_ns=max(float(latency["max"]) for latency in latencies),
    )


def _histogram(side: Json) -> Histogram:
    return Histogram.from_bins(side["lat_ns"].get("bins", {}))
