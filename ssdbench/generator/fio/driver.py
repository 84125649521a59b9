"""Run fio, one process per list of jobs; accept its report only if nothing contradicts it.

All files of a run of fio are below `artifacts`: job.fio, command, stdout, stderr, status, versions,
the report (fio.json) and the logs.
"""

import math
import platform
import shlex
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import chain, product
from pathlib import Path
from typing import Self

from ssdbench.errors import HostLacks
from ssdbench.foreign import plain, write_whole
from ssdbench.generator.base import Job, JobOutcome, LoggedIo, Second
from ssdbench.generator.fio import jobfile, logs
from ssdbench.generator.fio.attachment import Access, Attachment
from ssdbench.generator.fio.jobfile import ENGINE_OPTIONS, engine_of
from ssdbench.generator.fio.layout import sections
from ssdbench.generator.fio.output import Ending, Expected, checked_report, engines_of, version_of
from ssdbench.generator.fio.output import Sections as Sections
from ssdbench.generator.fio.sampling import Feed
from ssdbench.host import command, files, regular
from ssdbench.stats.bounds.measured import StreamSeen
from ssdbench.stats.histogram import Counts, Histogram
from ssdbench.stats.openloop import Requests

OLDEST = (3, 33)
INSTALL = "install fio 3.33 or newer, for example with `apt-get install fio`"
ANSWERS_S = 120.0  # timeout; an emulated guest loads programs slowly
UNREAPED_S = 10.0  # no longer wait for a fio that is stuck in a dead drive


def usable(engine: str) -> str:
    """Return the version of this host's fio as `fio 3.33`.

    Raises HostLacks if fio is missing, too old, or lacks this engine.
    """
    version, engines = installed()
    if version < OLDEST:
        raise HostLacks(f"fio {version[0]}.{version[1]} is too old", hint=INSTALL)
    if engine not in engines:
        raise HostLacks(f"this fio was built without its {engine} engine", hint=INSTALL)
    return f"fio {version[0]}.{version[1]}"


def installed() -> tuple[tuple[int, int], frozenset[str]]:
    """Return version and I/O engines of this host's fio. Raises HostLacks if fio is missing."""
    path = command.which("fio")
    if path is None:
        raise HostLacks("fio is not installed", hint=INSTALL)
    said, engines = _asked(path, Path(path).stat().st_mtime_ns)
    try:
        return version_of(said), engines_of(engines)
    except ValueError as error:
        raise HostLacks(
            f"the program fio on this host is not fio: {error}", hint=INSTALL
        ) from error


@cache
def _asked(path: str, changed_ns: int) -> tuple[str, str]:
    """Return fio's text on its version and engines; cached, as fio starts slowly in a guest."""
    said = command.run(["fio", "--version"], hint=INSTALL, timeout_s=ANSWERS_S).stdout
    return said, command.run(["fio", "--enghelp"], timeout_s=ANSWERS_S).stdout


def complaint(text: str) -> str:
    """Return the first sentence of fio's complaint about a job file, without running the file."""
    path = command.which("fio")
    return "" if path is None else _complaint(text, path, Path(path).stat().st_mtime_ns)


@cache
def _complaint(text: str, path: str, changed_ns: int) -> str:
    """Return fio's complaint about a job file; cached, because a plan asks several times."""
    done = command.run(
        ["fio", "--parse-only", "-"], input=text.encode(), ok=range(256), timeout_s=ANSWERS_S
    )
    if done.status == 0:
        return ""
    lines = [line.strip() for line in f"{done.stderr}\n{done.stdout}".splitlines()]
    told = [line for line in lines if line.startswith(("fio:", "Bad option"))] or lines
    return plain(next(filter(None, told), "it gives no reason"), 200)


class Fio:
    """Run fio against one target.

    Raises HostLacks when fio is missing, too old or lacks the engine.
    """

    def __init__(
        self,
        attachment: Attachment,
        *,
        cpus: Collection[int] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self._attachment = attachment
        self._options = dict(options or {})
        self._cpus = cpus

    @cached_property
    def name(self) -> str:
        return usable(self._attachment.engine)

    def start(self, jobs: Sequence[Job], *, artifacts: Path) -> "FioRunning":
        """Start one fio process, which runs the jobs one after another.

        Raises DeviceLost if the target has changed, UsageError for jobs that fio or the target
        cannot serve, ValueError without jobs.
        """
        if not jobs:
            raise ValueError("nothing to start: the list of jobs is empty")
        engine = ENGINE_OPTIONS[engine_of(jobs)]
        usable(str(engine.get("ioengine", self._attachment.engine)))
        self._attachment.check()
        self._attachment.require(jobs)
        options = {**self._attachment.options(), **engine, **self._options}
        text = jobfile.jobfile(jobs, options=options)
        process = started_fio(self._attachment, text, artifacts, cpus=self._cpus)
        try:
            feed = self._attachment.watch(process, jobs)
        except BaseException:
            process.kill()
            raise
        return FioRunning(self._attachment, process, feed, jobs, artifacts)


def started_fio(
    way: Access, text: str, artifacts: Path, *, cpus: Collection[int] | None = None
) -> command.Process:
    """Start fio with this job file, and store fio's inputs in `artifacts`. Raises HostLacks."""
    version = usable(way.engine)
    files.make_directory(artifacts)
    for old in (artifacts / "status", artifacts / "fio.json", *_logs(artifacts)):
        old.unlink(missing_ok=True)  # left by an earlier start
    argv = ["fio", "--eta=never", "--output-format=json+", "--output=fio.json", "job.fio"]
    environment = way.environment(artifacts)
    shown = [f"{variable}={value}" for variable, value in environment.items()]
    _keep(artifacts / "job.fio", text)
    _keep(artifacts / "command", shlex.join([*(["env"] if shown else []), *shown, *argv]) + "\n")
    _keep(artifacts / "versions", f"{version}\nkernel {platform.release()}\n")
    return command.spawn(
        argv,
        stdout=artifacts / "stdout",
        stderr=artifacts / "stderr",
        env=environment,
        pass_fds=way.pass_fds(),
        cwd=artifacts,
        cpus=cpus,
    )


def finished_report(
    way: Access,
    process: command.Process,
    artifacts: Path,
    asked: Sequence[Expected],
    *,
    stopped: bool = False,
    hung_s: float | None = None,
    late_s: float | None = None,
) -> tuple[JobOutcome, ...]:
    """Return the results of a fio that ended or was killed, unless an error contradicts them.

    Raises DeviceError, DeviceLost, HostLacks or CommandFailed.
    """
    status = process.wait(None if late_s is None else UNREAPED_S)
    _keep(artifacts / "status", f"{status}\n")
    ending = Ending(
        argv=process.argv,
        status=status or 0,
        output=_text(artifacts / "fio.json"),
        stderr=_text(artifacts / "stdout") + _text(artifacts / "stderr"),
        stopped=stopped,
        target=way.name,
        hung_s=hung_s,
        late_s=late_s,
    )
    files.require_room(artifacts)
    try:
        return checked_report(ending, asked)
    finally:
        way.check()  # first report a lost target, which explains any error of fio


class FioRunning:
    """Yield the seconds of a running fio; fio is ended at the end of the `with` block."""

    def __init__(
        self,
        attachment: Attachment,
        process: command.Process,
        feed: Feed,
        jobs: Sequence[Job],
        artifacts: Path,
    ) -> None:
        self._attachment = attachment
        self._process = process
        self._feed = feed
        self._jobs = tuple(jobs)
        self._artifacts = artifacts
        self._iterator = self._kept_seconds()
        self._seconds: list[Second] = []
        self._stopped = False
        self._outcome: FioOutcome | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *exc: object) -> None:
        if kind is None and self._stopped:
            self._drain()
        if not self._process.ended(0.0):
            self._feed.abandon()
        if self._process.wait(UNREAPED_S) is not None:
            regular.pack_logs(
                path for path in _logs(self._artifacts) if path.suffix != regular.PACKED_SUFFIX
            )

    def __iter__(self) -> Iterator[Second]:
        return self._iterator

    def stop(self) -> None:
        self._stopped = True
        self._feed.stop()

    def outcome(self) -> "FioOutcome":
        if self._outcome is None:
            self._drain()
            outcomes = finished_report(
                self._attachment,
                self._process,
                self._artifacts,
                # Streams end together, so it is not known how many bytes they move in total.
                [replace(j, total_bytes=None) if j.workload.streams else j for j in self._jobs],
                stopped=self._stopped,
                hung_s=self._feed.hung_s,
            )
            self._outcome = FioOutcome(
                jobs=outcomes,
                seconds=self._closed(outcomes),
                artifacts=tuple(sorted(self._artifacts.iterdir())),
                directory=self._artifacts,
                planned=self._jobs,
                origin_s=self._feed.origin_s,
            )
        return self._outcome

    def logged(self, job: str) -> LoggedIo:
        return _logged(self._artifacts, self._jobs, job, self._feed.origin_s)

    def _kept_seconds(self) -> Iterator[Second]:
        for second in self._feed.seconds():
            self._seconds.append(second)
            yield second

    def _drain(self) -> None:
        for _ in self._iterator:
            pass

    def _closed(self, outcomes: Sequence[JobOutcome]) -> tuple[Second, ...]:
        """Return the seconds; subtract fio's writes to its own logs from the last second."""
        if self._attachment.exact or not self._seconds:
            return tuple(self._seconds)
        *others, last = self._seconds
        left: dict[str, int] = {}
        for side, unit in product(("read", "write"), ("ios", "bytes")):
            name = f"{side}_{unit}"
            total = sum(getattr(getattr(job, side), unit) for job in outcomes)
            done = sum(getattr(second, name) for second in others)
            left[name] = max(0, min(getattr(last, name), total - done))
        return (*others, replace(last, **left))


@dataclass(frozen=True, slots=True)
class FioOutcome:
    """Hold the results of one run of fio; its logs are read only when they are needed."""

    jobs: tuple[JobOutcome, ...]
    seconds: tuple[Second, ...]
    artifacts: tuple[Path, ...]
    directory: Path
    planned: tuple[Job, ...]
    origin_s: float

    def latency(self, direction: str, *, from_s: float, to_s: float) -> Histogram:
        """Return completion latencies of "read" or "write" between two times of the run.

        The times are on the clock of `seconds`. A row of fio's log covers an interval; the row is
        used if the middle of its interval is between the times. The longest latency is that of
        fio's whole run. Raises ValueError when no job kept a histogram log.
        """
        if not any(job.histogram_log for job in self.planned):
            raise ValueError("no job of this run of fio kept a histogram log")
        parts = [Histogram.empty()]
        for index, _, rows in self._rows(direction, from_s, to_s):
            found = Histogram.merged(Histogram(counts) for _, counts in rows)
            parts.append(found.ended(self.jobs[index].longest_ns(direction)))
        return Histogram.merged(parts)

    def _rows(
        self, direction: str, from_s: float = -math.inf, to_s: float = math.inf
    ) -> Iterator[tuple[int, float, Iterator[tuple[int, Counts]]]]:
        """Yield, for each histogram log, the job's number, the start of the clock, and the rows."""
        for index, job in enumerate(self.planned):
            shift_s = self.origin_s + job.histogram_s / 2
            window = {"from_ms": (from_s + shift_s) * 1000, "to_ms": (to_s + shift_s) * 1000}
            for path in jobfile.histogram_logs(self.directory, index, job):
                with regular.open_log(path) as lines:
                    yield index, shift_s, logs.histogram_rows(lines, direction, **window)

    def streams(self, *, from_s: float, to_s: float) -> tuple[StreamSeen, ...]:
        """Return the results of each stream of the only job, on the clock of `seconds`.

        A rate is I/Os divided by the time that the rows of fio's log cover, because rows of a slow
        stream are longer than a second.
        """
        if len(self.planned) != 1:
            raise ValueError("a run of fio with several jobs has no streams of its own")
        (job,), (done,) = self.planned, self.jobs
        shift_s = self.origin_s + job.histogram_s / 2
        seen = []
        for number in range(len(job.workload.streams)):
            threads = []
            for path in jobfile.histogram_logs(self.directory, 0, job, number):
                with regular.open_log(path) as lines:
                    threads.append(
                        logs.counted(
                            lines,
                            from_ms=(from_s + shift_s) * 1000,
                            to_ms=(to_s + shift_s) * 1000,
                            origin_ms=self.origin_s * 1000,
                        )
                    )
            stream = done.streams[number] if done.streams else done
            seen.append(StreamSeen.joined(threads).ended(stream.longest_ns))
        return tuple(seen)

    def latencies(self, *, every_s: float) -> dict[int, Histogram]:
        """Return the latencies of reads and writes together, for each interval of `every_s`.

        A row of fio's log belongs to the interval that contains the middle of the row.
        """
        by_second: dict[int, Histogram] = {}
        for direction in ("read", "write"):
            for index, shift_s, rows in self._rows(direction):
                longest_ns = self.jobs[index].longest_ns(direction)
                for t_ms, counts in rows:
                    place = max(0, int((t_ms / 1000 - shift_s) // every_s))
                    part = Histogram(counts).ended(longest_ns)
                    parts = [by_second.get(place, Histogram.empty()), part]
                    by_second[place] = Histogram.merged(parts)
        return by_second

    def logged(self, job: str) -> LoggedIo:
        """Return all I/Os of a job with `latency_log`. Raises ValueError if the job has no log."""
        return _logged(self.directory, self.planned, job, self.origin_s)

    def requests(self, job: str, *, end_s: float) -> Requests:
        """Return all requests that were due until `end_s`, on the clock of `seconds`.

        Raises ValueError if the job has no log or is not the run's only job; HostLacks if this fio
        sends requests by a schedule that is not known.
        """
        if [one.name for one in self.planned if one.latency_log] != [job] or len(self.planned) > 1:
            raise ValueError(
                f"only a start of {job} alone, with a log, shows when requests were due"
            )
        (planned,) = self.planned
        return logs.due_requests(
            planned,
            sections(planned),
            (
                logs.of_thread(path.name, _lines(path))
                for path in jobfile.latency_logs(self.directory, 0, planned)
            ),
            origin_ms=self.origin_s * 1000,
            end_s=end_s,
        )


def _logged(directory: Path, planned: Sequence[Job], job: str, origin_s: float) -> LoggedIo:
    kept = [(i, j) for i, j in enumerate(planned) if j.name == job and j.latency_log]
    if not kept:
        raise ValueError(f"no job named {job} kept a log of its I/Os")
    paths = chain.from_iterable(
        jobfile.latency_logs(directory, index, found) for index, found in kept
    )
    return logs.logged_io((_lines(path) for path in paths), origin_ms=origin_s * 1000)


def _logs(directory: Path) -> list[Path]:
    """List the logs that fio has written, compressed or not."""
    names = ("*_clat_hist.*.log*", "*_lat.*.log*")
    return [path for name in names for path in directory.glob(name)]


def _lines(path: Path) -> list[str]:
    with regular.open_log(path) as lines:
        return lines.readlines()


def _keep(path: Path, text: str) -> None:
    try:
        write_whole(path, text.encode())
    except OSError as error:
        raise files.unwritable(path, error) from error


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except FileNotFoundError:
        return ""


def run_fio_sections(
    way: Access,
    work: Sections,
    *,
    artifacts: Path,
    cpus: Collection[int] = (),
    placed: Mapping[str, str],
    meanwhile: Callable[[command.Process], None] = lambda process: None,
) -> JobOutcome:
    """Run fio sections until they end. `placed` has the run's NUMA options for fio.

    `meanwhile` is called while the sections run, and should return before they end; if it raises an
    error, fio is ended. Raises HostLacks, DeviceLost, DeviceError and CommandFailed.
    """
    way.check()
    options = {**way.options(), **work.options, **placed}
    process = started_fio(
        way, jobfile.sections_jobfile(work.sections, options=options), artifacts, cpus=cpus
    )
    began = time.monotonic()
    try:
        meanwhile(process)
        is_late = not process.ended(began + work.longest_s - time.monotonic())
    except BaseException:
        process.kill()
        raise
    if is_late:
        process.kill()
    late_s = work.longest_s if is_late else None
    return finished_report(way, process, artifacts, [work], late_s=late_s)[0]
