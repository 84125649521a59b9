"""What fio reports (`json+`) as outcomes; pure: text in, values out."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

from ssdbench.foreign import json_object, plain
from ssdbench.generator.base import Direction, JobOutcome
from ssdbench.stats.histogram import Histogram

Json = Mapping[str, Any]

MOST_COUNTED = 2**62  # two of them are still a number of the kernel
_DOCUMENT = re.compile(r"^\{", re.MULTILINE)


class CutShort(ValueError):
    """The report holds no complete document, or ends within one."""


@dataclass(frozen=True, slots=True)
class Group:
    """One of our jobs with all its threads: a reporting group, or one for each of its streams."""

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


def parse(text: str, names: Sequence[str], *, groups_of: Sequence[int] = ()) -> Report:
    """The last report in `text`, its jobs named by `names`, each one group or as many as told.

    fio puts messages before the document, and with --status-interval several documents one after
    another. Raises CutShort.
    """
    sizes = groups_of or [1] * len(names)
    starts = [found.start() for found in _DOCUMENT.finditer(text)]
    if not starts:
        raise CutShort("fio wrote no report")
    try:
        document = json_object(text[starts[-1] :].strip())
        groups = _groups(document["jobs"])
        version = plain(str(document["fio version"]).removeprefix("fio-"), 40)
        each = iter(groups)
        told = tuple(_job(n, list(islice(each, k))) for n, k in zip(names, sizes, strict=True))
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        said = plain(f"{type(error).__name__}: {error}", 200)
        raise CutShort(f"fio's report cannot be read: {said}") from error
    if len(groups) != sum(sizes):
        raise CutShort(f"fio reported {len(groups)} jobs of {sum(sizes)}")
    return Report(version=version, groups=told, preamble=text[: starts[0]])


def version_of(text: str) -> tuple[int, int]:
    """(3, 33) of what `fio --version` prints. Raises ValueError for anything else."""
    match = re.search(r"fio-([0-9]+)\.([0-9]+)", text)
    if not match:
        raise ValueError(f"not a version of fio: {text.strip()!r}")
    return int(match.group(1)), int(match.group(2))


def engines_of(text: str) -> frozenset[str]:
    """The names of the I/O engines that `fio --enghelp` lists."""
    return frozenset(re.findall(r"^\t(\S+)$", text, re.MULTILINE))


def _count(value: object) -> int:
    """A count as fio writes it; text, fractions and what no counter holds are none."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < MOST_COUNTED:
        raise ValueError(f"{value!r} is no count")  # what fio wrote is wrong, not a type of ours
    return value


def _measure(value: object) -> float:
    """A time or a share as fio writes it."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 0:
        raise ValueError(f"{value!r} is no measure")
    return float(value)


def _number_of(error: object) -> int:
    """An errno, which some versions of fio write with a minus sign."""
    if not isinstance(error, int) or isinstance(error, bool):
        raise ValueError(f"{error!r} is no errno")
    return _count(abs(error))


def _groups(jobs: Sequence[Json]) -> list[list[Json]]:
    by_group: dict[int, list[Json]] = {}
    for job in jobs:
        by_group.setdefault(_count(job["groupid"]), []).append(job)
    return [by_group[group] for group in sorted(by_group)]


def _job(name: str, groups: Sequence[Sequence[Json]]) -> Group:
    """A job as one, and each of its streams where it has several."""
    whole = _group(name, list(chain.from_iterable(groups)))
    if len(groups) < 2:
        return whole
    streams = tuple(_group(name, parts).outcome for parts in groups)
    return replace(whole, outcome=replace(whole.outcome, streams=streams))


def _group(name: str, parts: Sequence[Json]) -> Group:
    # group_reporting leaves one entry a group; an error may split it, so all are looked at.
    runtime_ms = sum(_measure(part.get("job_runtime", 0)) for part in parts) or 1.0

    def cpu(field: str) -> float:
        busy = sum(_measure(part[field]) * _measure(part.get("job_runtime", 0)) for part in parts)
        return busy / runtime_ms

    resets = [_count(part["zone_resets"]) for part in parts if "zone_resets" in part]
    errors_seen = sum(_count(part.get("total_err", 0)) for part in parts)
    outcome = JobOutcome(
        name=name,
        read=_direction([part["read"] for part in parts]),
        write=_direction([part["write"] for part in parts]),
        flushes=_direction([part.get("sync", {}) for part in parts]),
        trim=_direction([part.get("trim", {}) for part in parts]),
        io_errors=errors_seen,
        cpu_user_percent=cpu("usr_cpu"),
        cpu_system_percent=cpu("sys_cpu"),
        zone_resets=sum(resets) if resets else None,
    )
    both = [part[side] for part in parts for side in ("read", "write")]
    return Group(
        outcome=outcome,
        error=next(filter(None, [_number_of(part["error"]) for part in parts]), 0),
        short_ios=sum(_count(side.get("short_ios", 0)) for side in both),
        dropped_ios=sum(_count(side.get("drop_ios", 0)) for side in both),
        errors_seen=errors_seen,
    )


def _direction(sides: Sequence[Json]) -> Direction:
    sides = [side for side in sides if _count(side.get("total_ios", 0))]
    if not sides:
        return Direction()
    ios = [_count(side["total_ios"]) for side in sides]
    latencies = [side["lat_ns"] for side in sides]

    def mean(of: Sequence[Json]) -> float:
        each = [_measure(one.get("mean", 0.0)) for one in of]
        return sum(n * one for n, one in zip(ios, each, strict=True)) / sum(ios)

    longest_ns = max(_measure(latency["max"]) for latency in latencies)
    return Direction(
        ios=sum(ios),
        bytes=sum(_count(side.get("io_bytes", 0)) for side in sides),  # flushes have none
        runtime_s=max(_measure(side.get("runtime", 0)) for side in sides) / 1000,
        latency=Histogram.merged(_histogram(side) for side in sides).ended(longest_ns),
        lat_mean_ns=mean(latencies),
        lat_max_ns=longest_ns,
        submit_mean_ns=mean([side.get("slat_ns", {}) for side in sides]),
    )


def _histogram(side: Json) -> Histogram:
    bins = side["lat_ns"].get("bins", {})
    return Histogram.from_bins({_count(int(ns)): _count(count) for ns, count in bins.items()})
