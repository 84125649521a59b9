"""Start or resume a run: handle signals, prevent suspend, store events, write the report."""

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Unpack

from ssdbench.cli import background, debuglog
from ssdbench.cli.eventlog import EventLog
from ssdbench.cli.inputs import read_profile
from ssdbench.cli.livepage import LivePage
from ssdbench.cli.options import RunOptions
from ssdbench.cli.signals import Signals
from ssdbench.engine.drivelogs import store_pages
from ssdbench.engine.events import Event, RunStarted
from ssdbench.engine.hostsettings import current_facts
from ssdbench.engine.journal import is_unended
from ssdbench.engine.manifest import Manifest
from ssdbench.engine.runner import World
from ssdbench.engine.stage import Limits
from ssdbench.engine.store import RunStore, load
from ssdbench.errors import HostLacks, Interrupted, SsdbenchError, UsageError
from ssdbench.foreign import real
from ssdbench.host.files import require_own_files, write_atomic
from ssdbench.model import rundirectory
from ssdbench.model.result import RunResult
from ssdbench.model.target import Consent, TargetInfo
from ssdbench.report import render
from ssdbench.report.read import StoredRun
from ssdbench.stats.planning.acceptance import whole
from ssdbench.suite import run as runs
from ssdbench.suite.request import RunRequest
from ssdbench.target.guard import NO_CONSENT
from ssdbench.target.planned import Planned

RUNS = Path("reports")
EXIT_BUG = 70


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a run: its directory, its result, its report, its exit code."""

    directory: Path
    result: RunResult
    files: tuple[Path, ...]  # files of the report; report.html is first
    exit_code: int


@dataclass(frozen=True, slots=True)
class Audience:
    """The callbacks of a run.

    `show` is called with each event. `started` is called with the directory of the run, as soon as
    this run has claimed the target.
    """

    show: Callable[[Event], None]
    started: Callable[[Path], None] = lambda directory: None
    page: bool = False  # also write a page that follows the run


def asked(
    profile_name: str,
    *,
    target: str | None = None,
    plan_file: Path | None = None,
    **given: Unpack[RunOptions],
) -> RunRequest:
    """Return the request for a run, made from the options. Raises UsageError, ProfileError."""
    profile, text = read_profile(profile_name)
    planned = load(real(plan_file), Planned) if plan_file else None
    wishes = RunRequest(
        profile, profile_name, text, target or "", planned=planned, argv=tuple(sys.argv), **given
    )
    tbw, endurance_tb = wishes.rated.endurance_bytes, wishes.endurance_tb
    if tbw and endurance_tb and abs(tbw / 1e12 - endurance_tb) > 1e-6 * endurance_tb:
        raise UsageError(
            f"--endurance says {endurance_tb:g} TB and --rated tbw={tbw / 1e12:g}TB",
            hint="Give one of them.",
        )
    return wishes


def new_directory(profile_name: str, target: str) -> Path:
    """Return the default directory of a run: reports/TIME-PROFILE-TARGET."""
    words = f"{slug(Path(profile_name).stem)}-{slug(target)}"
    return RUNS / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{words}"


def slug(target: str) -> str:
    """Return a short directory name for a target: lower-case letters, digits and dashes."""
    words = Path(target.split(",")[0]).name
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")[:60]


def run(wishes: RunRequest, output: Path, audience: Audience) -> Ended:
    """Run a profile into a new directory and write its report. Raises SsdbenchError."""
    output = output.absolute()
    return _conducted(output, audience, lambda world: runs.run(wishes, output, world))


def resume(
    directory: Path,
    limits: Limits | None,
    audience: Audience,
    given: Consent = NO_CONSENT,
    *,
    kept: Manifest | None = None,
    repeated: bool = False,
) -> Ended:
    """Continue a run and write its report. Raises SsdbenchError.

    `kept` is the manifest of the run if the caller has already read and checked it. `repeated` is
    an argument of `ssdbench.suite.run.resume`.
    """
    directory = directory.absolute()
    require_own_files(RunStore.open(directory).path)
    return _conducted(
        directory,
        audience,
        lambda world: runs.resume(
            directory, world, limits=limits, given=given, kept=kept, repeated=repeated
        ),
    )


def finished(directory: Path) -> Ended | None:
    """Return the end of a run that is finished; None if some work remains.

    Work remains if the run was killed, stopped, ended by a limit or by an error, or if its report
    is missing. The function changes nothing. Raises SsdbenchError for a directory without a run.
    """
    directory = directory.absolute()
    require_own_files(RunStore.open(directory).path)
    report = directory / rundirectory.REPORT
    if is_unended(directory) or not report.exists():
        return None
    try:
        result = StoredRun.open(directory).result
    except UsageError:
        return None
    if result.finished_at is None or background.ended(directory) not in background.RESULT_CODES:
        return None
    return Ended(directory, result, (report,), exit_code_of(result))


def _conducted(directory: Path, audience: Audience, work: Callable[[World], RunResult]) -> Ended:
    begun: list[Path] = []

    def emit(event: Event) -> None:
        if isinstance(event, RunStarted):
            background.begin(directory)
            if not event.resumed:
                _store_facts(directory / rundirectory.HOST_BEFORE, event.target)
                store_pages(event.target, directory / "drive-before")
            begun.append(directory)
            debuglog.keep_in(directory)
            audience.started(directory)
        log.write(event)
        live.see(event)
        audience.show(event)

    log, live = EventLog(directory), LivePage(directory, wanted=audience.page)
    try:
        with Signals() as signals, background.inhibit_suspend():
            result = _reported(directory, lambda: work(World(emit, signals.pending)))
            code = exit_code_of(result, signals.pending())
        files = tuple(render(directory))
    except BaseException as error:
        if begun:
            background.end(directory, getattr(error, "exit_code", EXIT_BUG))
        live.end(f"The run ended: {error}. To continue it: ssdbench resume {directory}")
        failed = isinstance(error, Exception) and not isinstance(error, Interrupted)
        if begun and failed and not (directory / rundirectory.MANIFEST).exists():
            raise HostLacks(
                f"{directory} was removed or renamed while the run went on",
                hint="If it was renamed, rename it back; then `ssdbench resume` continues the run. "
                "If it was removed, the run cannot be continued.",
            ) from error
        raise
    live.end()
    background.end(directory, code)
    return Ended(directory, result, files, code)


def _reported(directory: Path, work: Callable[[], RunResult]) -> RunResult:
    """Call `work`, which does a run; if an error ends the run, still write the report."""
    try:
        result = work()
    except SsdbenchError:
        if (directory / rundirectory.RESULT).exists():
            render(directory)
        raise
    _store_facts(directory / rundirectory.HOST_AFTER, result.target)
    store_pages(result.target, directory / "drive-after")
    return result


def _store_facts(path: Path, target: TargetInfo) -> None:
    write_atomic(path, json.dumps(current_facts(target), indent=1) + "\n")


def exit_code_of(result: RunResult, signal_number: int | None = None) -> int:
    """Return the exit code for a result; if a signal ended the run, 128 + `signal_number`."""
    if result.interrupted and signal_number is not None:
        return 128 + signal_number
    accepted = whole(result.accepted)
    if accepted == "fail":
        return background.EXIT_TARGET_MISSED
    return 0 if result.verdict == "VALIDATED" and accepted in (None, "pass") else 1
