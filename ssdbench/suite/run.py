"""Run a profile on a claimed target into a run directory, and resume such a run.

The caller makes the report afterwards, so an error in the report cannot end a run.
"""

import shlex
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from ssdbench import __version__
from ssdbench.engine.claimedsession import ClaimedSession, signatures_are_ours
from ssdbench.engine.estimates import likely, rate_hint
from ssdbench.engine.hostsettings import (
    applied,
    block_preference,
    planned_host,
    restore_what_is_here,
)
from ssdbench.engine.journal import NAME as JOURNAL
from ssdbench.engine.journal import stored_records, utc_now
from ssdbench.engine.lbaformats import REASON, way_back
from ssdbench.engine.manifest import Manifest, versions
from ssdbench.engine.power import Meter
from ssdbench.engine.preflight import require_engines, require_zones
from ssdbench.engine.resumeconsent import (
    ConsentRecords,
    ContentCheck,
    check_content,
    consent_to_go_on,
)
from ssdbench.engine.runner import Order, Replanned, Runner, World, check_limits, require_same
from ssdbench.engine.session import TargetSession
from ssdbench.engine.stage import Limits, RateHint
from ssdbench.engine.store import RunStore, load
from ssdbench.engine.targets import claimed, require_able, require_generator
from ssdbench.errors import SsdbenchError, TargetRefused
from ssdbench.foreign import real
from ssdbench.host.facts import host_facts
from ssdbench.host.files import make_directory, remove_if_empty, require_utf8
from ssdbench.model.loading import load_profile
from ssdbench.model.profile import Applies, Profile
from ssdbench.model.result import Budget, RunResult
from ssdbench.model.rundirectory import MANIFEST
from ssdbench.model.target import CONTENT, TAKEN, Consent, TargetInfo
from ssdbench.suite.assemble import host_wishes, stages
from ssdbench.suite.budget import Prepared, replanned, said_rates
from ssdbench.suite.plan import destroys, fitted, require_fit, target_of, wear_of
from ssdbench.suite.request import RunRequest
from ssdbench.target.consent import require_consent
from ssdbench.target.evidence import taken_for_a_drive
from ssdbench.target.guard import NO_CONSENT
from ssdbench.target.inspect import found_again
from ssdbench.target.purge import awaited
from ssdbench.tuning.plan import HostPlan


def run(asked_for: RunRequest, output: Path, world: World) -> RunResult:
    """Run a profile into a new run directory, and return the stored result.

    Creates and changes nothing if the target is refused. Raises SsdbenchError; all measurements
    made before the error are stored.
    """
    info = target_of(asked_for)
    require_fit(asked_for, info)
    generator = _generator(asked_for.profile, info)
    wishes = planned_host(host_wishes(asked_for.profile, info), info)
    if (power := _power_file(asked_for.profile, info)) is not None:
        Meter(power).require_running(time.time())
    there = info.formatted(asked_for.profile.lba_format)
    if asked_for.planned is not None:
        asked_for.planned.require_unchanged(info, asked_for.profile_text)
    whole = asked_for
    asked_for, budget = fitted(asked_for, there)
    with asked_for.blamed_on_profile():
        hint = rate_hint(there, asked_for.all_rated)
        plans = [likely(stage, there, hint) for stage in stages(asked_for.profile, there)]
    check_limits(plans, asked_for.all_limits)
    wear = wear_of(asked_for, there, hint)
    require_consent(info, asked_for.consent, wear=wear, destroys=destroys(plans))
    RunStore.require_new(output)
    seed = asked_for.profile.seed if asked_for.seed is None else asked_for.seed
    limits, beside = asked_for.all_limits, asked_for.beside
    kept = Manifest(
        run_id=real(output).name,
        title=asked_for.profile.title or f"{info.model or info.name}",
        created_at=utc_now(),
        ssdbench_version=__version__,
        versions=versions(generator),
        argv=asked_for.argv,
        profile_name=asked_for.profile_name,
        profile_text=asked_for.profile_text,
        profile_sha256=_sha256(asked_for.profile_text),
        whole_profile_text=whole.profile_text if budget else "",
        target=info,
        consent=asked_for.consent,
        endurance_tb=asked_for.rated_endurance_tb,
        rated=asked_for.all_rated,
        counted_on=said_rates(hint),
        seed=seed,
        max_time_s=limits.max_time_s,
        max_writes_bytes=limits.max_writes_bytes,
        budget=budget,
        host=host_facts() | {"generator": generator} | ({"other drives": beside} if beside else {}),
    )
    store = RunStore(output)
    # The locks are taken before anything is created, so a refused run leaves nothing behind.
    agreement = ConsentRecords()
    claim = claimed(
        info,
        output,
        kept.consent.of_run(_key(kept)),
        destroys=destroys(plans),
        before_signatures=agreement.note_signatures,
        fio_cpus=wishes.fio_cpus,
        fio_options=wishes.fio_options,
        applies=asked_for.profile.generator,
    )
    with ExitStack() as held:
        session = held.enter_context(claim)
        settings = held.enter_context(applied(wishes, kept.run_id))
        preference = block_preference(asked_for.profile.host, info, kept.run_id, held)
        make_directory(output)
        try:
            kept = _reformatted(kept, asked_for.profile, session)
        except SsdbenchError:
            remove_if_empty(output)
            raise
        agreement.note(kept)
        store.write_json(MANIFEST, kept.model_dump(mode="json"))
        order = replace(
            order_of(kept, asked_for.profile),
            settings=(*kept.lasting, *settings),
            left=_left(wishes, asked_for.profile, info),
            preference=preference,
        )
        order = _replanning(order, kept, asked_for.profile, session.info, store)
        # The plan gets the endurance of the command line, as a planned load may depend on it.
        planned = asked_for.profile.model_copy(update={"plan": order.plan})
        chosen = stages(planned, session.info)
        return Runner(order, chosen, session, store, world).run()


def is_target(asked_for: RunRequest, name: str, identity: str) -> bool:
    """Tell whether a request is for the target with this identity.

    The identity in the request's consent is compared; without consent, the target's identity. If
    the target cannot be found, its name is compared with `name` instead.
    """
    if asked_for.consent.identity is not None:
        return asked_for.consent.identity.partition(CONTENT)[0] == identity
    try:
        return target_of(asked_for).id == identity
    except SsdbenchError:
        return asked_for.target_name == name


def _reformatted(kept: Manifest, profile: Profile, session: TargetSession) -> Manifest:
    """Give the drive the LBA format of the profile, before the stages are made.

    Returns the manifest with the changed drive, because a new format may change the drive's size
    and identity.
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
    consent = kept.consent.model_copy(update={"identity": session.info.consent_id})
    return kept.model_copy(
        update={"target": session.info, "consent": consent, "lasting": (lasting,)}
    )


def resume(
    run_path: Path,
    world: World,
    *,
    limits: Limits | None = None,
    given: Consent = NO_CONSENT,
    kept: Manifest | None = None,
    repeated: bool = False,
) -> RunResult:
    """Continue a run after a crash, a signal or a limit.

    `given` is the consent on the command line, which most runs do not need. `kept` is the run's
    manifest, if the caller has already read and checked it. `repeated` means that the user repeated
    the command line that began the run; the consent in this command line does not apply to later
    changes of the target. Raises SsdbenchError.
    """
    store = RunStore.open(run_path)
    require_utf8(run_path, "the run directory's name")
    kept = kept or load(run_path / MANIFEST, Manifest)
    profile = load_profile(kept.profile_text, kept.profile_name)
    if not kept.target.simulated:
        restore_what_is_here()  # a file system that a killed run mounted would be refused
    info = found_again(kept.target)
    info = taken_for_a_drive(info) if TAKEN in kept.target.facts else info
    require_same(info, kept.target.id, kept.target.size_bytes, known=kept.target)
    was = kept.target.lba_format
    if was is not None and was != info.lba_format:
        raise TargetRefused(
            info.name,
            [f"it has LBA format {info.lba_format}, but the run was begun on {was}"],
            hint=f"`{way_back(info.node, was)}` brings it back; or start a new run",
        )
    _generator(profile, info)
    awaited(info)  # a sanitize that a reboot interrupted goes on by itself
    order = order_of(kept, profile)
    if limits is not None:
        order = replace(order, limits=limits.over(order.limits))
    wishes = planned_host(host_wishes(profile, info), info)
    if order.power is not None:
        Meter(order.power).require_running(time.time())
    chosen = stages(profile.model_copy(update={"plan": order.plan}), info)
    plans = [stage.plan(info, order.hint) for stage in chosen]
    agreement, left, consent = ConsentRecords(), ContentCheck(), kept.consent
    if destroys(plans):
        records = stored_records(run_path / JOURNAL)
        ours = signatures_are_ours(records)
        left = check_content(info, _key(kept), records, ours=ours)
        consent = consent_to_go_on(
            kept,
            info,
            given,
            agreement,
            ours=ours,
            left=left,
            again=shlex.join(["ssdbench", "resume", str(run_path)]) if repeated else "",
        )
    claim = claimed(
        info,
        run_path,
        consent.of_run(_key(kept)),
        destroys=destroys(plans),
        seen=left.seen,
        before_signatures=agreement.note_signatures,
        fio_cpus=wishes.fio_cpus,
        fio_options=wishes.fio_options,
        applies=profile.generator,
    )
    with ExitStack() as held:
        session = held.enter_context(claim)
        settings = held.enter_context(applied(wishes, kept.run_id))
        if given.identity is not None:
            agreement.note(kept)
        order = replace(
            order,
            settings=(*kept.lasting, *settings),
            left=_left(wishes, profile, info),
            preference=block_preference(profile.host, info, kept.run_id, held),
        )
        order = _replanning(order, kept, profile, session.info, store)
        return Runner(order, chosen, session, store, world).resume()


def _generator(profile: Profile, info: TargetInfo) -> str:
    """Return the load generator with its version.

    Raises HostLacks or UsageError if the generator does not work here.
    """
    fio = require_able(info)
    require_generator(profile.generator, info, profile.host.kernel_modules)
    require_engines(profile, info)
    require_zones(info)
    return fio if profile.generator is Applies.FIO else f"ssdb_slam, random fills by {fio}"


def _key(kept: Manifest) -> str:
    """Return the name that records about a target's content have for a run."""
    return f"{kept.run_id} {kept.created_at}"


def replanning(
    order: Order,
    whole: RunRequest,
    running: Profile,
    info: TargetInfo,
    keep: Callable[[str, Budget], None],
) -> Order:
    """Let a run with a budget cut its full profile again after the warm-up.

    `running` is the profile that was cut before the run started. `keep` stores the text of the new
    profile and its budget, so a resumed run uses them.
    """
    before = order.budget
    if before is None:
        return order

    def replan(hint: RateHint, spent_s: float, spent_bytes: int) -> Replanned | None:
        done = Prepared(running, before, spent_s, spent_bytes)
        again = replanned(whole, info, hint, order.limits, done)
        if again is None:
            return None
        cut, budget = again
        keep(cut.profile_text, budget)
        planned = cut.profile.model_copy(update={"plan": order.plan})
        return Replanned(stages(planned, info), cut.profile_text, budget)

    return replace(order, replan=replan)


def _replanning(
    order: Order, kept: Manifest, running: Profile, info: TargetInfo, store: RunStore
) -> Order:
    """Let the run plan again from its manifest's profile; store the new profile in the manifest."""
    if not kept.whole_profile_text:
        return order
    whole = RunRequest(
        load_profile(kept.whole_profile_text, kept.profile_name),
        kept.profile_name,
        kept.whole_profile_text,
        endurance_tb=kept.endurance_tb,
        rated=kept.rated,
    )

    def keep(text: str, budget: Budget) -> None:
        changes = {"profile_text": text, "profile_sha256": _sha256(text), "budget": budget}
        changed = kept.model_copy(update=changes)
        store.write_json(MANIFEST, changed.model_dump(mode="json"))

    return replanning(order, whole, running, info, keep)


def _sha256(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _power_file(profile: Profile, info: TargetInfo) -> Path | None:
    """Return the file of the power meter; None without a meter or on a simulated drive."""
    return None if profile.power is None or info.simulated else Path(profile.power).absolute()


def _left(wishes: HostPlan, profile: Profile, info: TargetInfo) -> tuple[str, ...]:
    """Return the settings of the profile that have no meaning for this target."""
    metered = (f"power {profile.power}",) if profile.power and info.simulated else ()
    return (*wishes.left, *metered)


def order_of(kept: Manifest, profile: Profile) -> Order:
    """Make the runner's order, which says what to run, from the manifest and profile of a run."""
    plan = profile.plan
    if kept.endurance_tb is not None:  # given on the command line
        plan = plan.model_copy(update={"endurance_tb": kept.endurance_tb})
    return Order(
        run_id=kept.run_id,
        title=kept.title,
        profile_text=kept.profile_text,
        seed=kept.seed,
        limits=kept.limits,
        plan=plan,
        accept=profile.accept,
        power=_power_file(profile, kept.target),
        hint=rate_hint(kept.target, kept.rated),
        budget=kept.budget,
        host={**kept.host, **{f"{name} version": v for name, v in kept.versions.items()}},
    )
