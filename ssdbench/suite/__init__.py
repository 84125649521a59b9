"""From a profile and a target to a run: the one module that knows all stages.

`plan` and `stages` touch nothing; `run` and `resume` claim the target and fill a run directory.
Rendering a report is the caller's, so that a mistake in a page never costs a night of wear.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from ssdbench.engine.applied import applied, restore_what_is_here
from ssdbench.engine.hints import rate_hint
from ssdbench.engine.hosting import planned_host
from ssdbench.engine.journal import NAME as JOURNAL
from ssdbench.engine.journal import stored_records
from ssdbench.engine.lbaformats import REASON, way_back
from ssdbench.engine.manifest import Manifest, manifest
from ssdbench.engine.runner import Order, Runner, World, check_limits, require_same
from ssdbench.engine.session import TargetSession
from ssdbench.engine.stage import Limits, RateHint, StagePlan
from ssdbench.engine.store import MANIFEST, RunStore, load
from ssdbench.engine.targets import (
    ClaimedSession,
    claimed,
    require_able,
    require_generator,
    signatures_are_ours,
)
from ssdbench.errors import SsdbenchError, TargetRefused, UsageError
from ssdbench.host.files import make_directory, remove_if_empty
from ssdbench.model.consent import Consent
from ssdbench.model.fitting import misfits
from ssdbench.model.loading import load_profile, misfit_error
from ssdbench.model.profile import Applies, CapacityPlan, Profile
from ssdbench.model.result import RunResult
from ssdbench.model.target import TargetInfo, TargetKind
from ssdbench.suite.assemble import host_wishes
from ssdbench.suite.assemble import stages as stages
from ssdbench.target.consent import require_consent
from ssdbench.target.inspect import found_again, inspect
from ssdbench.target.objection import ELSEWHERE
from ssdbench.target.planned import Planned
from ssdbench.target.purge import awaited
from ssdbench.target.wear import Wear
from ssdbench.tuning.plan import HostPlan


@dataclass(frozen=True, slots=True)
class Asked:
    """What a user asks for, besides the profile."""

    profile: Profile
    profile_name: str  # for messages, such as profiles/demo.yaml
    profile_text: str
    target: str = ""  # goes before the profile's
    seed: int | None = None  # likewise
    limits: Limits = Limits()  # likewise, each on its own
    consent: Consent = Consent()
    endurance_tb: float | None = None  # goes before the profile's
    planned: Planned | None = None  # what `plan` saw, where the user brings it
    argv: tuple[str, ...] = ()

    @property
    def target_name(self) -> str:
        """The target, from the command line or the profile. Raises UsageError without one."""
        name = self.target or self.profile.target
        if not name:
            raise UsageError(
                f"{self.profile_name} names no target",
                hint="Add --target, such as --target sim:x25m-g2-160; see `ssdbench drives`.",
            )
        return name

    @property
    def all_limits(self) -> Limits:
        """The command line's limits, and the profile's where it sets none."""
        kept = self.profile.limits
        return self.limits.over(Limits(kept.max_time_s, kept.max_writes_bytes))


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What `run` would do, and from the least to the most that it would take."""

    target: TargetInfo
    stages: tuple[StagePlan, ...]
    limits: Limits
    hint: RateHint
    seconds: tuple[float, float]  # on the target's clock
    bytes_written: tuple[int, int]
    fills: tuple[float, float]
    host: HostPlan = HostPlan()
    wear: Wear = Wear(0)
    lba_format: str = ""  # what becomes of the drive's, and that it stays

    @property
    def destroys(self) -> bool:
        """Whether any stage writes."""
        return destroys(self.stages)


def plan(asked_for: Asked) -> RunPlan:
    """Look at the target and say what `run` would do. Raises UsageError, TargetRefused."""
    info = _target(asked_for)
    _require_fit(asked_for, info)
    hint = rate_hint(info)
    there = info.formatted(asked_for.profile.lba_format)
    plans = tuple(stage.plan(there, hint) for stage in stages(asked_for.profile, there))
    limits = asked_for.all_limits
    check_limits(plans, limits)
    return RunPlan(
        target=info,
        stages=plans,
        limits=limits,
        hint=hint,
        seconds=(sum(p.seconds[0] for p in plans), sum(p.seconds[1] for p in plans)),
        bytes_written=(
            sum(p.bytes_written[0] for p in plans),
            sum(p.bytes_written[1] for p in plans),
        ),
        fills=(sum(p.fills[0] for p in plans), sum(p.fills[1] for p in plans)),
        host=planned_host(host_wishes(asked_for.profile, info), info),
        wear=wear_of(asked_for, plans),
        lba_format=_lasting_sentence(asked_for.profile, info),
    )


def _lasting_sentence(profile: Profile, info: TargetInfo) -> str:
    if profile.lba_format in (None, info.lba_format) or info.lba_format is None:
        return ""
    back = way_back(info.node, info.lba_format)
    return (
        f"{info.lba_format} becomes {profile.lba_format}: {REASON}; it stays after the run, and "
        f"`{back}` brings the old one back"
    )


def _require_fit(asked_for: Asked, info: TargetInfo) -> None:
    mistakes = misfits(asked_for.profile, info)
    if mistakes:
        raise misfit_error(asked_for.profile_text, asked_for.profile_name, mistakes)


def _target(asked_for: Asked) -> TargetInfo:
    """What is asked for. Raises TargetRefused for an empty reader or an unused loop device."""
    info = inspect(asked_for.target_name)
    if info.size_bytes:
        return info
    if info.kind is TargetKind.FILE:
        enlarge = f"enlarge it (`truncate -s 8G {info.name}`), or {ELSEWHERE}"
        raise TargetRefused(info.name, ["it has no room for a single block"], hint=enlarge)
    raise TargetRefused(info.name, ["it has no medium: its size is 0"], hint=ELSEWHERE)


def wear_of(asked_for: Asked, plans: Sequence[StagePlan]) -> Wear:
    """The most that a run may write to its target, within its limits."""
    most = sum(plan.bytes_written[1] for plan in plans)
    limit = asked_for.all_limits.max_writes_bytes
    endurance_tb = asked_for.endurance_tb or asked_for.profile.plan.endurance_tb
    return Wear(most if limit is None else min(most, limit), endurance_tb)


def destroys(plans: Sequence[StagePlan]) -> bool:
    """Whether a run of these stages overwrites anything."""
    return any(plan.destructive for plan in plans)


def run(asked_for: Asked, output: Path, world: World) -> RunResult:
    """The main job, into a new run directory; result.json and all bulk files are there after it.

    Nothing is created or changed when the target is refused. Raises SsdbenchError; what was
    measured until then is stored.
    """
    info = _target(asked_for)
    _require_fit(asked_for, info)
    generator = _generator(asked_for.profile, info)
    wishes = planned_host(host_wishes(asked_for.profile, info), info)
    there = info.formatted(asked_for.profile.lba_format)
    plans = [stage.plan(there, rate_hint(there)) for stage in stages(asked_for.profile, there)]
    check_limits(plans, asked_for.all_limits)
    require_consent(
        info, asked_for.consent, wear=wear_of(asked_for, plans), destroys=destroys(plans)
    )
    if asked_for.planned is not None:
        asked_for.planned.require_unchanged(info, asked_for.profile_text)
    RunStore.require_new(output)
    seed = asked_for.profile.seed if asked_for.seed is None else asked_for.seed
    kept = manifest(
        run_id=output.resolve().name,
        title=asked_for.profile.title or f"{info.model or info.name}",
        argv=asked_for.argv,
        profile_name=asked_for.profile_name,
        profile_text=asked_for.profile_text,
        target=info,
        seed=seed,
        limits=asked_for.all_limits,
        consent=asked_for.consent,
        endurance_tb=asked_for.endurance_tb,
        generator=generator,
    )
    store = RunStore(output)
    # Nothing is made before the locks are ours, so that a refused run leaves nothing behind.
    claim = _claimed(kept, info, store, wishes, asked_for.profile, destroys=destroys(plans))
    with claim as session, applied(wishes, kept.run_id) as settings:
        make_directory(output)
        try:
            kept = _reformatted(kept, asked_for.profile, session)
        except SsdbenchError:
            remove_if_empty(output)
            raise
        store.write_json(MANIFEST, kept.model_dump(mode="json"))
        chosen = stages(asked_for.profile, session.info)
        order = replace(_order(kept, asked_for.profile), settings=(*kept.lasting, *settings))
        return Runner(order, chosen, session, store, world).run()


def _reformatted(kept: Manifest, profile: Profile, session: TargetSession) -> Manifest:
    """Give the drive the LBA format that the profile asks for, before anything is planned on it.

    The manifest is of the drive as it is then: its size and blocks, and its place and size where
    it has no better name.
    """
    was = kept.target.lba_format
    if profile.lba_format in (None, was) or was is None or not isinstance(session, ClaimedSession):
        return kept
    session.reformat(profile.lba_format)
    lasting = {
        "setting": "LBA format",
        "value": str(profile.lba_format),
        "was": str(was),
        "drive": session.info.id,
        "reason": f"{REASON}; it stays: `{way_back(session.info.node, was)}`",
    }
    consent = kept.consent.model_copy(update={"identity": session.info.id})
    return kept.model_copy(
        update={"target": session.info, "consent": consent, "lasting": (lasting,)}
    )


def resume(run_path: Path, world: World, *, limits: Limits | None = None) -> RunResult:
    """Go on with a run after a crash, a signal or a limit. Raises SsdbenchError."""
    store = RunStore.open(run_path)
    kept = load(run_path / MANIFEST, Manifest)
    profile = load_profile(kept.profile_text, kept.profile_name)
    if not kept.target.simulated:
        restore_what_is_here()  # else what the dead run mounted would be a reason to refuse it
    if signatures_are_ours(stored_records(run_path / JOURNAL)):
        kept = kept.model_copy(update={"consent": kept.consent.overwriting()})
    info = found_again(kept.target)
    require_same(info, kept.target.id, kept.target.size_bytes)
    was = kept.target.lba_format
    if was is not None and was != info.lba_format:
        raise TargetRefused(
            info.name,
            [f"it has LBA format {info.lba_format}, but the run was begun on {was}"],
            hint=f"`{way_back(info.node, was)}` brings it back; or start a new run",
        )
    _generator(profile, info)
    awaited(info)  # a sanitize that a reboot interrupted goes on by itself
    order = _order(kept, profile)
    if limits is not None:
        order = replace(order, limits=limits.over(order.limits))
    wishes = planned_host(host_wishes(profile, info), info)
    chosen = stages(profile, info)
    plans = [stage.plan(info, order.hint) for stage in chosen]
    claim = _claimed(kept, info, store, wishes, profile, destroys=destroys(plans))
    with claim as session, applied(wishes, kept.run_id) as settings:
        order = replace(order, settings=(*kept.lasting, *settings))
        return Runner(order, chosen, session, store, world).resume()


def _generator(profile: Profile, info: TargetInfo) -> str:
    """What applies the workloads here. Raises HostLacks or UsageError when it cannot."""
    fio = require_able(info)
    require_generator(profile.generator, info, profile.host.kernel_modules)
    return fio if profile.generator is Applies.FIO else f"ssdb_slam, random fills by {fio}"


def _claimed(
    kept: Manifest,
    info: TargetInfo,
    store: RunStore,
    wishes: HostPlan,
    profile: Profile,
    *,
    destroys: bool,
) -> AbstractContextManager[TargetSession]:
    return claimed(
        info,
        store.path,
        kept.consent,
        destroys=destroys,
        fio_cpus=wishes.fio_cpus,
        fio_options=wishes.fio_options,
        applies=profile.generator,
    )


def _order(kept: Manifest, profile: Profile) -> Order:
    return Order(
        run_id=kept.run_id,
        title=kept.title,
        profile_text=kept.profile_text,
        seed=kept.seed,
        limits=kept.limits,
        plan=_capacity_plan(kept, profile),
        hint=rate_hint(kept.target),
        host={**kept.host, **{f"{name} version": v for name, v in kept.versions.items()}},
    )


def _capacity_plan(kept: Manifest, profile: Profile) -> CapacityPlan:
    """The profile's, with the rated endurance that was given on the command line."""
    if kept.endurance_tb is None:
        return profile.plan
    return profile.plan.model_copy(update={"endurance_tb": kept.endurance_tb})
