"""Read fio's report (`json+`) and decide whether it can be trusted; no I/O.

fio may end with status 0 although a device is gone, read 0 bytes without an error, or report error
0 but end with status 1. So all signs of an error are checked, and no single sign is trusted.
"""

import errno
import os
import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any

from ssdbench.errors import (
    CommandFailed,
    DeviceError,
    DeviceLost,
    HostLacks,
    SsdbenchError,
    UsageError,
)
from ssdbench.foreign import json_object, plain
from ssdbench.generator.base import Direction, Job, JobOutcome, VerifyHeader, WrongData
from ssdbench.generator.fio.jobfile import Options
from ssdbench.stats.histogram import Histogram

Json = Mapping[str, Any]

MOST_COUNTED = 2**62  # the sum of two still fits into 64 bits
_DOCUMENT = re.compile(r"^\{", re.MULTILINE)


class CutShort(ValueError):
    """Report that fio's report has no complete JSON document, or ends inside one."""


@dataclass(frozen=True, slots=True)
class Group:
    """Hold the results of one of our jobs, from one reporting group or one group per stream."""

    outcome: JobOutcome
    error: int  # errno of the first thread that failed; else 0
    short_ios: int  # I/Os that moved too few bytes
    dropped_ios: int


def parse(text: str, names: Sequence[str], *, groups_of: Sequence[int] = ()) -> tuple[Group, ...]:
    """Parse the last report in `text`; `names` has the jobs, `groups_of` their numbers of groups.

    fio writes messages before the JSON document. With --status-interval fio writes several JSON
    documents one after another. Raises CutShort.
    """
    sizes = groups_of or [1] * len(names)
    starts = [found.start() for found in _DOCUMENT.finditer(text)]
    if not starts:
        raise CutShort("fio wrote no report")
    try:
        groups = _groups(json_object(text[starts[-1] :].strip())["jobs"])
        each = iter(groups)
        told = tuple(_job(n, list(islice(each, k))) for n, k in zip(names, sizes, strict=True))
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        said = plain(f"{type(error).__name__}: {error}", 200)
        raise CutShort(f"fio's report cannot be read: {said}") from error
    if len(groups) != sum(sizes):
        raise CutShort(f"fio reported {len(groups)} jobs of {sum(sizes)}")
    return told


def version_of(text: str) -> tuple[int, int]:
    """Return the version from `fio --version`, as (3, 33). Raises ValueError for other text."""
    match = re.search(r"fio-([0-9]+)\.([0-9]+)", text)
    if not match:
        raise ValueError(f"not a version of fio: {text.strip()!r}")
    return int(match.group(1)), int(match.group(2))


def engines_of(text: str) -> frozenset[str]:
    """Return the names of the I/O engines in the output of `fio --enghelp`."""
    return frozenset(re.findall(r"^\t(\S+)$", text, re.MULTILINE))


def _count(value: object) -> int:
    """Return a count of fio's report. Raises ValueError for text, fractions, impossible numbers."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < MOST_COUNTED:
        raise ValueError(f"{value!r} is not a count")  # ValueError, because fio's text is wrong
    return value


def _measure(value: object) -> float:
    """Return a time or share of fio's report. Raises ValueError for an impossible number."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 0:
        raise ValueError(f"{value!r} is not a measurement")
    return float(value)


def _number_of(error: object) -> int:
    """Return the errno of a job; some versions of fio write it with a minus sign."""
    if not isinstance(error, int) or isinstance(error, bool):
        raise ValueError(f"{error!r} is not an errno")
    return _count(abs(error))


def _groups(jobs: Sequence[Json]) -> list[list[Json]]:
    by_group: dict[int, list[Json]] = {}
    for job in jobs:
        by_group.setdefault(_count(job["groupid"]), []).append(job)
    return [by_group[group] for group in sorted(by_group)]


def _job(name: str, groups: Sequence[Sequence[Json]]) -> Group:
    """Make a job's result from its reporting groups; several groups are the job's streams."""
    whole = _group(name, list(chain.from_iterable(groups)))
    if len(groups) < 2:
        return whole
    streams = tuple(_group(name, parts).outcome for parts in groups)
    return replace(whole, outcome=replace(whole.outcome, streams=streams))


def _group(name: str, parts: Sequence[Json]) -> Group:
    # With group_reporting fio writes one entry per group, but after an error perhaps several.
    runtime_ms = sum(_measure(part.get("job_runtime", 0)) for part in parts) or 1.0

    def cpu(field: str) -> float:
        busy = sum(_measure(part[field]) * _measure(part.get("job_runtime", 0)) for part in parts)
        return busy / runtime_ms

    resets = [_count(part["zone_resets"]) for part in parts if "zone_resets" in part]
    outcome = JobOutcome(
        name=name,
        read=_direction([part["read"] for part in parts]),
        write=_direction([part["write"] for part in parts]),
        flushes=_direction([part.get("sync", {}) for part in parts]),
        trim=_direction([part.get("trim", {}) for part in parts]),
        io_errors=sum(_count(part.get("total_err", 0)) for part in parts),
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
        bytes=sum(_count(side.get("io_bytes", 0)) for side in sides),  # not for flushes
        runtime_s=max(_measure(side.get("runtime", 0)) for side in sides) / 1000,
        latency=Histogram.merged(_histogram(side) for side in sides).ended(longest_ns),
        lat_mean_ns=mean(latencies),
        lat_max_ns=longest_ns,
        submit_mean_ns=mean([side.get("slat_ns", {}) for side in sides]),
    )


def _histogram(side: Json) -> Histogram:
    bins = side["lat_ns"].get("bins", {})
    return Histogram.from_bins({_count(int(ns)): _count(count) for ns, count in bins.items()})


STATUS_AFTER_SIGINT = 128
EARLY_S = 1.0  # a timed job that ends earlier by more was cut short

_GONE = {errno.ENODEV, errno.ENXIO, errno.ESHUTDOWN, errno.ENOENT, errno.ENOMEDIUM}
_OURS = {errno.EPERM, errno.EACCES, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN}
_TOO_MANY_ZONES = {errno.EOVERFLOW, errno.ETOOMANYREFS}  # too many zones active; open
_IO_ERROR = re.compile(
    r"io_u error on file (?P<file>.+?): (?P<text>Too many references: cannot splice|[^:]+): "
    r"(?P<direction>\w+) offset=(?P<offset>\d+)"
)
# fio's message about a block with wrong data; a read may have several blocks.
_WRONG = re.compile(
    r"(?P<what>bad header offset|bad [a-z ]+|[a-z0-9-]+: verify failed)[^\n]* at file .+? offset "
    r"(?P<place>\d+), length \d+(?: \(requested block: offset=(?P<read>\d+))?"
)
# The message that the virtual-time library writes before it ends fio (native/vt.h: VT_EXIT_…).
_REFUSAL = re.compile(r"^ssdbench: (?P<text>.+)$", re.MULTILINE)
_LIBRARY: dict[int, type[SsdbenchError]] = {
    95: UsageError,  # an option that is not possible in virtual time
    96: DeviceError,  # each job waits for something that will not happen
    97: HostLacks,  # state file, clock page and library do not match
    98: HostLacks,  # the process that controlled fio is gone
    99: HostLacks,  # the disk under the drive's files is full or fails
}
_DISK = 99
_DISK_HINT = (
    "free some space on the disk of that file, or repair it, then go on with `ssdbench resume`"
)
_LIBRARY_HINT = (
    "if ssdbench was updated or its native parts were rebuilt during the run, go on with "
    "`ssdbench resume`"
)
_MESSAGE = re.compile(r"^(?:fio: |.*\berror=|.*failed)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Sections:
    """Describe fio sections that start at the same time and are reported as one job.

    A section ends after `runtime_s`, or when its work is finished. `total_bytes` is the sum over
    all sections, if known.
    """

    sections: Sequence[Options]
    longest_s: float  # fio is killed if it runs longer
    options: Options = field(default_factory=dict)  # options of all sections
    runtime_s: float | None = None
    total_bytes: int | None = None
    name: str = "the job"  # for messages
    groups: int = 1  # groups in fio's report
    verify: VerifyHeader | None = None


Expected = Job | Sections  # what a result is compared with


@dataclass(frozen=True, slots=True)
class Ending:
    """Hold how a run of fio ended."""

    argv: tuple[str, ...]
    status: int
    output: str  # fio's report and other text around it
    stderr: str
    stopped: bool  # ssdbench asked fio to end
    target: str  # the target's name in messages
    hung_s: float | None = None  # fio was killed after so long without a finished I/O
    late_s: float | None = None  # fio was killed because it ran for longer

    @property
    def badly(self) -> bool:
        """Tell whether fio's exit status means a failure."""
        return self.status not in ({0, STATUS_AFTER_SIGINT} if self.stopped else {0})


def checked_report(ending: Ending, jobs: Sequence[Expected]) -> tuple[JobOutcome, ...]:
    """Return the results of a run of fio if no sign of an error contradicts them.

    Raises DeviceError, DeviceLost, HostLacks or CommandFailed (fio crashed, or cut its report).
    """
    killed = ""
    if ending.hung_s is not None:
        killed = f"no I/O finished for {ending.hung_s:.0f} s, so fio was killed"
    elif ending.late_s is not None:
        killed = f"fio had not ended after {ending.late_s:.0f} s and was killed"
    if killed:
        raise DeviceError(
            f"{ending.target}: {killed}",
            hint="look at the kernel's log (`dmesg`) for errors of the drive",
        )
    if (refusal := _REFUSAL.search(ending.stderr)) and ending.status in _LIBRARY:
        raise _LIBRARY[ending.status](
            f"{ending.target}: the simulated drive ended fio: {refusal['text']}",
            hint=_DISK_HINT if ending.status == _DISK else _LIBRARY_HINT,
        )
    try:
        told = parse(ending.output, [job.name for job in jobs], groups_of=[j.groups for j in jobs])
    except CutShort as error:
        raise _without_report(ending, error) from error
    groups = tuple(_compared(ending, *both) for both in zip(jobs, told, strict=True))
    _check_errors(ending, groups)
    if ending.badly and not any(group.outcome.wrong for group in groups):
        raise _failed(ending)
    for job, group in zip(jobs, groups, strict=True):
        _check_work(ending, job, group.outcome)
    return tuple(group.outcome for group in groups)


def _compared(ending: Ending, job: Expected, group: Group) -> Group:
    """Count reads that returned wrong data as wrong data, not as I/O errors.

    fio reports each such read as EILSEQ, and writes a message about the read's first wrong block.
    """
    errors = group.outcome.io_errors
    if job.verify is None or group.error not in (0, errno.EILSEQ) or not errors:
        return group
    told = ending.stderr + ending.output
    # fio may write several lines about one read: the first line counts.
    kinds = {found["read"] or found["place"]: found for found in reversed([*_WRONG.finditer(told)])}
    absent = len(kinds) or errors  # another version of fio may use other words
    misplaced = sum(found["what"] == "bad header offset" for found in kinds.values())
    damaged = sum("verify failed" in found["what"] for found in kinds.values())
    wrong = WrongData(
        misplaced=misplaced,
        absent=absent - misplaced - damaged,
        damaged=damaged,
        first_byte=min((int(found["place"]) for found in kinds.values()), default=0),
    )
    outcome = replace(group.outcome, io_errors=0, wrong=wrong)
    return replace(group, outcome=outcome, error=0)


def _without_report(ending: Ending, error: CutShort) -> SsdbenchError:
    seen = _io_error(ending)
    if seen is not None:
        return seen
    if ending.badly:
        return _failed(ending)
    return CommandFailed(
        ending.argv,
        ending.status,
        str(error),
        hint="look whether the disk of the run directory is full, then go on with "
        "`ssdbench resume`",
    )


def _failed(ending: Ending) -> SsdbenchError:
    said = _last_message(ending)
    if ending.status == -signal.SIGKILL:
        hint = "look in the kernel's log (`dmesg`) whether memory ran out and fio was killed for it"
        return CommandFailed(ending.argv, ending.status, said, hint=hint)
    for number in (*_GONE, *_OURS):
        if os.strerror(number) in said:
            return _named(ending, number, said)
    return CommandFailed(ending.argv, ending.status, said)


def _check_errors(ending: Ending, groups: Sequence[Group]) -> None:
    number = next((group.error for group in groups if group.error), 0)
    if number:
        raise _io_error(ending) or _named(ending, number, _last_message(ending))
    if any(group.short_ios or group.dropped_ios for group in groups):
        raise DeviceLost(
            f"{ending.target}: an I/O moved fewer bytes than asked, as on a drive that shrank",
            hint="check that the drive is still there, then start again",
        )
    if any(group.outcome.io_errors for group in groups):
        raise _io_error(ending) or DeviceError(f"{ending.target}: fio counted I/O errors")


def _check_work(ending: Ending, job: Expected, done: JobOutcome) -> None:
    if ending.stopped:
        return
    moved = done.read.bytes + done.write.bytes
    ran_s = max(done.read.runtime_s, done.write.runtime_s)
    if not done.read.ios + done.write.ios:
        why = f"fio did no I/O in {job.name} and gave no reason"
    elif job.runtime_s is None and job.total_bytes is not None and moved < job.total_bytes:
        why = f"fio ended {job.name} after {moved} of {job.total_bytes} bytes"
    elif job.total_bytes is None and job.runtime_s is not None and ran_s < job.runtime_s - EARLY_S:
        why = f"fio ended {job.name} after {ran_s:.1f} of {job.runtime_s:g} s"
    else:
        return
    raise DeviceLost(
        f"{ending.target}: {why}",
        hint="check that the drive is still there and as large as it was",
    )


def _io_error(ending: Ending) -> DeviceError | None:
    match = _IO_ERROR.search(ending.stderr) or _IO_ERROR.search(ending.output)
    if not match:
        return None
    text = match["text"].strip()
    number = next((number for number in errno.errorcode if os.strerror(number) == text), 0)
    kind = DeviceLost if number in _GONE else DeviceError
    name = errno.errorcode.get(number, "unknown error")
    hint = "look at the kernel's log (`dmesg`) and the drive's SMART data"
    if number in _TOO_MANY_ZONES:
        hint = (
            "more zones are open or active than the drive allows: "
            f"`blkzone reset {ending.target}` resets all zones, and erases the whole drive"
        )
    return kind(
        f"{ending.target}: a {match['direction']} at byte {match['offset']} failed with {name} "
        f"({match['text'].strip()})",
        hint=hint,
    )


def _named(ending: Ending, number: int, said: str) -> SsdbenchError:
    name = f"{errno.errorcode.get(number, number)} ({os.strerror(number)})"
    if number in _GONE:
        return DeviceLost(f"{ending.target} is gone: fio got {name}: {said}")
    if number == errno.EAGAIN:
        return HostLacks(
            f"fio got {name}: {said}",
            hint="the kernel may be out of asynchronous I/O contexts: raise fs.aio-max-nr",
        )
    if number in _OURS:
        return HostLacks(
            f"fio got {name}: {said}", hint="give ssdbench the rights or memory it lacks"
        )
    return DeviceError(f"{ending.target}: fio got {name}: {said}")


def _last_message(ending: Ending) -> str:
    before_report = re.split(r"^\{", ending.output, maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line.strip() for line in (before_report + "\n" + ending.stderr).splitlines()]
    lines = [line for line in lines if line]
    telling = [line for line in lines if _MESSAGE.match(line)]
    return (telling or lines or ["fio printed nothing"])[-1]
