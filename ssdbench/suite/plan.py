"""Plan what `run` would do on a target, with time and bytes; change nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ssdbench.engine.estimates import host_wait, likely, rate_hint, shown_plan
from ssdbench.engine.hostsettings import planned_host
from ssdbench.engine.lbaformats import REASON, way_back
from ssdbench.engine.preflight import require_engines, require_zones
from ssdbench.engine.runner import check_limits
from ssdbench.engine.stage import AnyStage, Limits, RateHint, StagePlan
from ssdbench.errors import TargetRefused, UsageError
from ssdbench.model.fitting import loads, misfits
from ssdbench.model.loading import misfit_error
from ssdbench.model.profile import Profile
from ssdbench.model.profile.plan import unanswered
from ssdbench.model.profile.sweeps import ALL_READS
from ssdbench.model.result import Budget
from ssdbench.model.target import TargetInfo, TargetKind
from ssdbench.stages.points import PointStage
from ssdbench.stages.steady import Steady
from ssdbench.suite.assemble import host_wishes, stages
from ssdbench.suite.budget import Allowed, never_validated, within
from ssdbench.suite.request import RunRequest
from ssdbench.target.consent import Wear, reported_endurance_tb
from ssdbench.target.evidence import taken_for_a_drive
from ssdbench.target.inspect import inspect
from ssdbench.target.objection import ELSEWHERE
from ssdbench.tuning.plan import HostPlan

NO_ENDURANCE = (
    "the rated endurance of the drive, without which no answer counts wear: give "
    "`plan: {endurance_tb: …}`, --endurance or --rated tbw=…"
)


@dataclass(frozen=True, slots=True)
class Question:
    """Hold the question of a profile's `plan`, and the reasons why a run cannot answer it."""

    asked: str  # with every default that it uses
    load_iops: float  # that the drives must carry, with bursts and growth
    missing: tuple[str, ...]  # points that the profile does not measure; empty if it can answer
    unknown: tuple[str, ...]  # facts that the answer needs but the user did not give


@dataclass(frozen=True, slots=True)
class RunPlan:
    """Hold the plan of `run`; each pair is the lowest and the highest likely value."""

    target: TargetInfo
    stages: tuple[StagePlan, ...]
    limits: Limits
    hint: RateHint
    seconds: tuple[float, float]  # on the target's clock
    bytes_written: tuple[int, int]
    fills: tuple[float, float]
    wait_s: tuple[float, float] | None = None  # host's time, of a run on a simulated drive
    longest_s: float = 0.0  # as a run tells it: each repeat settles as late as it may
    host: HostPlan = HostPlan()
    wear: Wear = Wear(0)
    lba_format: str = ""  # sentence on a new LBA format, which stays after the run
    budget: Budget | None = None  # if a time was given
    question: Question | None = None  # if the profile's `plan` has a demand

    @property
    def destroys(self) -> bool:
        """Tell whether a stage of this plan writes to the target."""
        return destroys(self.stages)


def plan(asked_for: RunRequest) -> RunPlan:
    """Inspect the target and plan the stages of `run` on it.

    Raises UsageError, TargetRefused, and HostLacks if something that the run needs is missing here.
    """
    info = target_of(asked_for)
    require_fit(asked_for, info)
    require_engines(asked_for.profile, info)
    require_zones(info)
    hint = rate_hint(info, asked_for.all_rated)
    there = info.formatted(asked_for.profile.lba_format)
    asked_for, budget = fitted(asked_for, there)
    with asked_for.blamed_on_profile():
        chosen = stages(asked_for.profile, there)
        plans = tuple(likely(stage, there, hint) for stage in chosen)
        most = tuple(shown_plan(stage, there, hint) for stage in chosen)
    limits = asked_for.all_limits
    check_limits(plans, limits)
    return RunPlan(
        target=info,
        stages=plans,
        limits=limits,
        hint=hint,
        seconds=(sum(p.seconds[0] for p in plans), sum(p.seconds[1] for p in plans)),
        wait_s=host_wait(plans, hint) if info.simulated else None,
        longest_s=sum(p.seconds[1] for p in most),
        bytes_written=(
            sum(p.bytes_written[0] for p in plans),
            sum(p.bytes_written[1] for p in plans),
        ),
        fills=(sum(p.fills[0] for p in plans), sum(p.fills[1] for p in plans)),
        host=planned_host(host_wishes(asked_for.profile, info), info),
        wear=wear_of(asked_for, there, hint),
        lba_format=_lasting_sentence(asked_for.profile, info),
        budget=budget,
        question=question(asked_for),
    )


def question(asked_for: RunRequest) -> Question | None:
    """Return the plan's question, and why a run cannot answer it; None without a demand."""
    profile = asked_for.profile
    wanted = profile.plan
    if wanted.load_iops is None:
        return None
    never = [f"nothing can be VALIDATED: {why}" for why in never_validated(profile)]
    lacks = unanswered(wanted, [*(one.stage for one in profile.measure), *loads(profile)])
    writes = wanted.read_percent is None or wanted.read_percent < ALL_READS
    unrated = writes and asked_for.rated_endurance_tb is None
    return Question(
        wanted.asked(), wanted.load_iops, (*lacks, *never), (NO_ENDURANCE,) if unrated else ()
    )


def fitted(asked_for: RunRequest, there: TargetInfo) -> tuple[RunRequest, Budget | None]:
    """Shorten a request to the time or wear that the user gave, if any. Raises UsageError."""
    share = asked_for.max_wear_percent or asked_for.profile.plan.max_wear_percent
    if asked_for.budget_s is None and share is None:
        return asked_for, None
    allowed = None if share is None else Allowed(share, _known_endurance_tb(asked_for, there))
    hint = rate_hint(there, asked_for.all_rated)
    return within(asked_for, there, hint, asked_for.budget_s, allowed)


def _known_endurance_tb(asked_for: RunRequest, there: TargetInfo) -> float:
    """Return the given endurance, or else the drive's own figure. Raises UsageError."""
    endurance_tb = asked_for.rated_endurance_tb or reported_endurance_tb(there.facts)
    if endurance_tb is None:
        raise UsageError(
            f"--max-wear needs the rated endurance of {there.name}, which the drive does not tell",
            hint="Give it from the data sheet: --rated tbw=7008TB, --endurance 7008, or "
            "`rated: {tbw: 7008TB}` in the profile.",
        )
    return endurance_tb


def _lasting_sentence(profile: Profile, info: TargetInfo) -> str:
    if profile.lba_format in (None, info.lba_format) or info.lba_format is None:
        return ""
    back = way_back(info.node, info.lba_format)
    return (
        f"{info.lba_format} becomes {profile.lba_format}: {REASON}; it stays after the run, and "
        f"`{back}` brings the old one back"
    )


def require_fit(asked_for: RunRequest, info: TargetInfo) -> None:
    """Raise ProfileError with each place where the profile does not fit the target."""
    mistakes = misfits(asked_for.profile, info)
    if mistakes:
        raise misfit_error(asked_for.profile_text, asked_for.profile_name, mistakes)


def target_of(asked_for: RunRequest) -> TargetInfo:
    """Inspect the target that a request names. Raises TargetRefused if the target's size is 0."""
    with asked_for.blamed_on_target():
        info = inspect(asked_for.target_name)
        if not info.size_bytes and info.kind is TargetKind.FILE:
            enlarge = f"enlarge it (`truncate -s 8G {info.name}`), or {ELSEWHERE}"
            raise TargetRefused(info.name, ["it has no room for a single block"], hint=enlarge)
        if not info.size_bytes:
            raise TargetRefused(info.name, ["it has no medium: its size is 0"], hint=ELSEWHERE)
    return taken_for_a_drive(info) if asked_for.consent.unproven else info


def wear_of(asked_for: RunRequest, there: TargetInfo, hint: RateHint) -> Wear:
    """Return the bytes that a run likely writes and may write, and the endurance of the target."""
    with asked_for.blamed_on_profile():
        chosen = stages(asked_for.profile, there)
    limit = asked_for.all_limits.max_writes_bytes
    plans = [likely(stage, there, hint).bytes_written for stage in chosen]
    most = sum(_most_written(stage, there, hint) for stage in chosen)
    ends = [sum(plan[end] for plan in plans) for end in (0, 1)]
    least, expected, most = (min(size, limit or size) for size in (*ends, most))
    return Wear(
        most,
        asked_for.rated_endurance_tb,
        (least, expected) if most else None,
        reported_endurance_tb(there.facts),
    )


def _most_written(stage: AnyStage, there: TargetInfo, hint: RateHint) -> int:
    """Return the most bytes that a stage may write, even if rates do not prove the mapping unit."""
    most = stage.plan(there, hint).bytes_written[1]
    if isinstance(stage, Steady) and stage.unit_bytes:
        # If rates do not prove the unit, the warm-up starts again and counts bytes instead of
        # units.
        return most + replace(stage, unit_bytes=0).plan(there, hint).bytes_written[1]
    if isinstance(stage, PointStage):
        return max(most, stage.with_unit(0).plan(there, hint).bytes_written[1])
    return most


def destroys(plans: Sequence[StagePlan]) -> bool:
    """Tell whether one of these stages writes to the target."""
    return any(plan.destructive for plan in plans)
