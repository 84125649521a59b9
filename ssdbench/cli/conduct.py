"""Puts a run together from its parts, for `run`, `resume` and `plan`, and sees it to its end."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ssdbench import __version__, suite
from ssdbench.cli import background
from ssdbench.cli.eventlog import EventLog
from ssdbench.cli.inputs import read_profile
from ssdbench.cli.signals import Signals
from ssdbench.engine.events import Event, RunStarted
from ssdbench.engine.runner import Order, Runner, World, check_limits
from ssdbench.engine.stage import Limits, RateHint, Stage, StagePlan
from ssdbench.engine.store import MANIFEST, RunStore, load
from ssdbench.engine.targets import claimed, require_leave
from ssdbench.errors import SsdbenchError, UsageError
from ssdbench.host.facts import host_facts
from ssdbench.model.loading import load_profile
from ssdbench.model.manifest import Manifest
from ssdbench.model.profile import Profile
from ssdbench.model.result import RunResult
from ssdbench.model.target import TargetInfo
from ssdbench.report import render
from ssdbench.target.inspect import inspect

RUNS = Path("reports")
HINT = RateHint()


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a command line asks for, besides the profile."""

    target: str | None = None
    output: Path | None = None
    destroy_id: str | None = None
    overwrite_signatures: bool = False
    max_time_s: float | None = None
    max_writes_bytes: int | None = None
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that could begin."""

    manifest: Manifest
    profile: Profile
    stages: tuple[Stage, ...]
    plans: tuple[StagePlan, ...]
    directory: Path

    @property
    def info(self) -> TargetInfo:
        """The target as it was found."""
        return self.manifest.target

    @property
    def limits(self) -> Limits:
        """Where the run ends early."""
        return Limits(self.manifest.max_time_s, self.manifest.max_writes_bytes)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended."""

    directory: Path
    result: RunResult
    files: tuple[Path, ...]  # of the report, report.html first
    exit_code: int


def prepare(profile_name: str, wishes: Wishes) -> Prepared:
    """Everything that is decided before anything is touched.

    Raises UsageError, ProfileError, TargetRefused or HostLacks.
    """
    profile, text = read_profile(profile_name)
    target = wishes.target or profile.target
    if target is None:
        raise UsageError(
            f"{profile_name} names no target", hint="Add --target; `ssdbench drives` lists some."
        )
    _require_kept_host(profile)
    info = inspect(target)
    now = datetime.now(UTC)
    title = profile.title or Path(profile_name).stem
    directory = (wishes.output or RUNS / _run_name(now, profile_name, info)).absolute()
    limits = profile.limits
    manifest = Manifest(
        run_id=directory.name,
        title=title,
        ssdbench_version=__version__,
        created_at=now.isoformat(timespec="seconds"),
        profile_name=profile_name,
        profile_text=text,
        profile_sha256=hashlib.sha256(text.encode()).hexdigest(),
        target=info,
        seed=profile.seed if wishes.seed is None else wishes.seed,
        max_time_s=wishes.max_time_s or limits.max_time_s,
        max_writes_bytes=wishes.max_writes_bytes or limits.max_writes_bytes,
        destroy_id=wishes.destroy_id,
        overwrite_signatures=wishes.overwrite_signatures,
        host=host_facts(),
    )
    return _prepared(manifest, profile, directory)


def reopen(directory: Path, wishes: Wishes) -> Prepared:
    """The run of a directory, with its own profile; limits of the command line go first."""
    store = RunStore.open(directory)
    stored = load(store.path / MANIFEST, Manifest)
    profile = load_profile(stored.profile_text, stored.profile_name)
    manifest = stored.model_copy(
        update={
            "target": inspect(stored.target.name),
            "max_time_s": wishes.max_time_s or stored.max_time_s,
            "max_writes_bytes": wishes.max_writes_bytes or stored.max_writes_bytes,
            "destroy_id": wishes.destroy_id or stored.destroy_id,
        }
    )
    return _prepared(manifest, profile, directory.absolute())


def _prepared(manifest: Manifest, profile: Profile, directory: Path) -> Prepared:
    stages = tuple(suite.stages(profile, manifest.target))
    plans = tuple(stage.plan(manifest.target, HINT) for stage in stages)
    prepared = Prepared(manifest, profile, stages, plans, directory)
    check_limits(plans, prepared.limits)
    return prepared


def conduct(
    prepared: Prepared,
    *,
    show: Callable[[Event], None],
    started: Callable[[Path], None] = lambda directory: None,
    resuming: bool = False,
) -> Ended:
    """Claim the target, run or resume the stages, and write the report.

    `started` is called once the target is ours and the run directory exists. Errors of drive and
    host are raised after a partial report was written.
    """
    directory = prepared.directory
    manifest = prepared.manifest
    require_leave(
        prepared.info,
        destroy_id=manifest.destroy_id,
        overwrite_signatures=manifest.overwrite_signatures,
    )
    store = RunStore.open(directory) if resuming else RunStore.create(directory)
    try:
        with (
            Signals() as signals,
            claimed(
                prepared.info,
                directory,
                destroy_id=manifest.destroy_id,
                overwrite_signatures=manifest.overwrite_signatures,
            ) as session,
            background.awake(),
        ):
            if not resuming:
                store.write_json(MANIFEST, manifest.model_dump(mode="json"))
                store.write_json("host-before.json", dict(manifest.host))
            background.begin(directory)
            world = World(
                emit=_emitter(directory, show, started),
                interrupted=signals.pending,
            )
            runner = Runner(_order(prepared), prepared.stages, session, store, world)
            result = _kept(store, runner.resume if resuming else runner.run)
            code = _exit_code(result, signals.pending())
    except BaseException as error:
        _remove_unused(directory)
        if (directory / background.PROCESS).exists():
            background.end(directory, getattr(error, "exit_code", 70))
        raise
    files = tuple(render(directory))
    background.end(directory, code)
    return Ended(directory, result, files, code)


def _kept(store: RunStore, run: Callable[[], RunResult]) -> RunResult:
    """Run; what was measured before an error gets its report all the same."""
    try:
        return run()
    except SsdbenchError:
        if (store.path / "result.json").exists():
            render(store.path)
        raise
    finally:
        store.write_json("host-after.json", dict(host_facts()))


def _emitter(
    directory: Path, show: Callable[[Event], None], started: Callable[[Path], None]
) -> Callable[[Event], None]:
    log = EventLog(directory)

    def emit(event: Event) -> None:
        if isinstance(event, RunStarted):
            started(directory)
        log.write(event)
        show(event)

    return emit


def _order(prepared: Prepared) -> Order:
    manifest = prepared.manifest
    return Order(
        run_id=manifest.run_id,
        title=manifest.title,
        profile_text=manifest.profile_text,
        seed=manifest.seed,
        limits=prepared.limits,
        hint=HINT,
        host=manifest.host,
    )


def _exit_code(result: RunResult, signal_number: int | None) -> int:
    if result.interrupted and signal_number is not None:
        return 128 + signal_number
    return 0 if result.verdict == "VALIDATED" else 1


def _remove_unused(directory: Path) -> None:
    """A run that never began leaves no directory."""
    if (directory / MANIFEST).exists():
        return
    try:
        directory.rmdir()
    except OSError:
        return


def _run_name(now: datetime, profile_name: str, info: TargetInfo) -> str:
    words = f"{Path(profile_name).stem}-{Path(info.name.split(',')[0]).name}"
    slug = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")
    return f"{now:%Y%m%d-%H%M%S}-{slug[:60]}"


def _require_kept_host(profile: Profile) -> None:
    changes = profile.host.changes()
    if changes:
        wanted = ", ".join(f"{name}: {value}" for name, value in changes.items())
        raise UsageError(
            f"this version changes no host settings, and the profile asks for {wanted}",
            hint="Set them yourself before the run, and write `keep` into the profile.",
        )
