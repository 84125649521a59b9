"""Cut a profile to a given time or share of the rated endurance; say what the rest can prove.

Cuts are made in a fixed order until the plan fits; the first cuts are those that hardly affect the
number that a capacity planner uses. When the plan fits, cuts that turn out unnecessary are undone,
the latest cut first. The time of a plan is the geometric mean of its shortest and longest likely
time; the bytes of a plan are the upper end of the likely range. Time and bytes are estimates, so
the run also ends when the time or the bytes are used up. After the warm-up, a run cuts its full
profile once more, with the rates that the run measured.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import dropwhile
from typing import TypeVar

from ssdbench.engine.estimates import likely
from ssdbench.engine.stage import Limits, RateHint, StagePlan
from ssdbench.errors import UsageError
from ssdbench.model.kind import KINDS
from ssdbench.model.profile import Fill, Profile, RuleName, spec
from ssdbench.model.result import Budget
from ssdbench.model.target import TargetInfo
from ssdbench.stats.bounds.measured import Context as Judged
from ssdbench.stats.risk import HASTY, SHORT, WHOLE, risk
from ssdbench.stats.steady.rules import rule
from ssdbench.stats.steady.settle import UNBROKEN_S
from ssdbench.suite.assemble import stages
from ssdbench.suite.request import TB, RunRequest
from ssdbench.units import (
    format_capacity,
    format_count,
    format_duration,
    format_figure,
    format_rate,
    format_size,
)

N = TypeVar("N", int, float)

SHORT_SETTLE_S = 120.0
SHORT_WARM_UP_FILLS = 3.0  # `pss` asks for two, and for a flat half of the run
HASTY_FILLS = 1.5  # `pss-quick` asks for one
LEAST_REPEATS = 3
PREPARING = ("fill", "random-fill", "warm-up")  # cuts of the stages before the points
AXES = ("pattern", "numjobs", "iodepth", "read_percent", "block_bytes")
_NEEDED = Judged().min_repeats


@dataclass(frozen=True, slots=True)
class Cut:
    """One way to shorten a profile; a later cut of the same kind replaces the earlier cut."""

    kind: str
    value: int | str = 0


@dataclass(frozen=True, slots=True)
class Allowed:
    """Hold the share of the rated endurance that a run may use."""

    percent: float
    endurance_tb: float

    @property
    def most_bytes(self) -> int:
        """Return the bytes that the run may write."""
        return int(self.percent / 100 * self.endurance_tb * TB)


@dataclass(frozen=True, slots=True)
class Prepared:
    """Hold a run after its warm-up: its profile, and the seconds and bytes used so far."""

    profile: Profile
    budget: Budget
    seconds: float
    bytes_written: int


def replanned(
    whole: RunRequest, info: TargetInfo, hint: RateHint, limits: Limits, done: Prepared
) -> tuple[RunRequest, Budget] | None:
    """Cut the full profile again after the warm-up; None if the run keeps its present profile.

    The fills and the warm-up stay in the profile as they were made. `hint` holds the measured
    rates. If rates are faster than expected, points that were cut are added again; if rates are
    slower, more points are cut.
    """
    made = {"precondition": done.profile.precondition, "steady": done.profile.steady}
    wishes = replace(whole, profile=whole.profile.model_copy(update=made))
    percent, endurance_tb = done.budget.max_wear_percent, whole.rated_endurance_tb
    allowed = Allowed(percent, endurance_tb) if percent and endurance_tb else None
    cut, found = within(wishes, info, hint, limits.max_time_s, allowed, done)
    budget = found.model_copy(update={"planned_again": True})
    if cut.profile == done.profile:
        return None
    text = cut.profile_text if budget.cuts else _text(wishes, budget, wishes.profile)
    return replace(cut, profile_text=text), budget


def within(
    wishes: RunRequest,
    info: TargetInfo,
    hint: RateHint,
    budget_s: float | None,
    allowed: Allowed | None = None,
    done: Prepared | None = None,
) -> tuple[RunRequest, Budget]:
    """Shorten the request to the given time and wear.

    Raises UsageError if the fills alone exceed this time or wear.

    `done` describes a run whose warm-up has ended: only stages after the warm-up are cut.
    """
    fit = _Fit(wishes, info, hint, budget_s, allowed, done)
    cuts = fit.cuts()
    profile = fit.cut(cuts)
    cost, able = fit.cost(profile), fit.able()
    kept = wishes.all_limits
    limits = Limits(
        _least(budget_s, kept.max_time_s), _least(fit.most_bytes, kept.max_writes_bytes)
    )
    budget = Budget(
        seconds=budget_s,
        max_wear_percent=allowed.percent if allowed else None,
        most_bytes=fit.most_bytes,
        wear=cost.share_of(allowed.endurance_tb) if allowed else "",
        likely_s=cost.likely_s,
        counted_on=f"{said_rates(hint)}; a slower drive runs out of time",
        cuts=tuple(fit.said(cut) for cut in (*fit.cuts_before(), *cuts)),
        lacks=tuple(never_validated(profile)),
        validated_from_s=able.likely_s if able else None,
        validated_from_bytes=able.likely_bytes[1] if able else None,
        risk=risk(_evidence(profile, [*cuts, *fit.cuts_before()])),
        whole_sha256=sha256(wishes.profile_text.encode()).hexdigest(),
    )
    text = _text(wishes, budget, profile) if cuts else wishes.profile_text
    return replace(wishes, profile=profile, profile_text=text, limits=limits), budget


def _text(wishes: RunRequest, budget: Budget, profile: Profile) -> str:
    text = f"# {wishes.profile_name} within {budget.given}\n"
    return text + profile.model_dump_json(by_alias=True, exclude_unset=True, indent=1) + "\n"


def _least(given: N | None, kept: N | None) -> N | None:
    return min((limit for limit in (given, kept) if limit is not None), default=None)


@dataclass(frozen=True, slots=True)
class _Cost:
    likely_s: float
    likely_bytes: tuple[int, int]

    def share_of(self, endurance_tb: float) -> str:
        """Format bytes and their share, such as `writes 28 TB to 31 TB, 0.4 % of 7,008 TBW`."""
        least, most = (format_capacity(size) for size in self.likely_bytes)
        share = format_figure(100 * self.likely_bytes[1] / TB / endurance_tb, 2)
        sizes = most if least == most else f"{least} to {most}"
        return f"writes {sizes}, {share} % of {endurance_tb:,.0f} TBW"


@dataclass(frozen=True)
class _Fit:
    wishes: RunRequest
    info: TargetInfo
    hint: RateHint
    budget_s: float | None
    allowed: Allowed | None
    done: Prepared | None = None

    @property
    def most_bytes(self) -> int | None:
        """Return how many bytes the run may write at most; None without a limit."""
        return self.allowed.most_bytes if self.allowed else None

    def cuts(self) -> list[Cut]:
        """Return the cuts that make the profile fit, in the order in which they are made."""
        made: list[Cut] = []
        for cut in self._ladder():
            if self._fits(made):
                break
            tried = [*(one for one in made if one.kind != cut.kind or cut.kind == "stage"), cut]
            if self.cut(tried) != self.cut(made):
                made = tried
        if self.done is None:
            self._require_fills(made)
        for cut in reversed(made[:-1]):
            without = [one for one in made if one is not cut]
            if self._fits(without) or self.cut(without) == self.cut(made):
                made = without
        return made

    def able(self) -> _Cost | None:
        """Return the lowest cost that likely gives a VALIDATED number; None if no cost does."""
        profile = self.cut([cut for cut in self._ladder() if cut.kind not in ("repeats", "rule")])
        return None if list(never_validated(profile)) else self.cost(profile)

    def _ladder(self) -> Iterator[Cut]:
        """Yield all possible cuts, in the order in which they are tried."""
        kept = self._kept()
        for index in reversed(range(len(self.wishes.profile.measure))):
            if index != kept:
                yield Cut("stage", index)
        for axis in AXES:
            yield Cut(axis)
        for kind in ("extra", "settle", *PREPARING):
            if self.done is None or kind not in PREPARING:
                yield Cut(kind)
        for repeats in range(_NEEDED - 1, LEAST_REPEATS - 1, -1):
            yield Cut("repeats", repeats)
        if self.done is None:
            yield Cut("rule")

    def cuts_before(self) -> list[Cut]:
        """Return the cuts of fills and warm-up that were made when the run started."""
        made = self.done.budget.cuts if self.done else ()
        return [cut for cut in map(Cut, (*PREPARING, "rule")) if self.said(cut) in made]

    def _kept(self) -> int:
        """Return the index of the stage that is never cut: the first sweep that a plan can use."""
        wanted = self.wishes.profile.plan
        items = [measure.stage for measure in self.wishes.profile.measure]
        sweeps = [(i, item) for i, item in enumerate(items) if isinstance(item, spec.Sweep)]
        named = [
            index
            for index, item in sweeps
            if wanted.block_bytes in (None, *item.block_bytes)
            and wanted.read_percent in (None, *item.read_percent)
        ]
        return (*named, *(index for index, _ in sweeps), 0)[0]

    def _fits(self, cuts: Sequence[Cut]) -> bool:
        cost, most_bytes = self.cost(self.cut(cuts)), self.most_bytes
        in_time = self.budget_s is None or cost.likely_s <= self.budget_s
        return in_time and (most_bytes is None or cost.likely_bytes[1] <= most_bytes)

    def cost(self, profile: Profile) -> _Cost:
        """Return the likely time and bytes of a profile."""
        plans = self._plans(profile)
        least, most = (sum(plan.bytes_written[end] for plan in plans) for end in (0, 1))
        seconds = sum(math.sqrt(plan.seconds[0] * plan.seconds[1]) for plan in plans)
        if self.done is not None:
            seconds += self.done.seconds
            least, most = (size + self.done.bytes_written for size in (least, most))
        return _Cost(seconds, (least, most))

    def _plans(self, profile: Profile) -> list[StagePlan]:
        with self.wishes.blamed_on_profile():
            chosen = stages(profile, self.info)
        if self.done is not None:
            chosen = tuple(dropwhile(lambda one: KINDS[one.kind].prepares, chosen))
        return [likely(stage, self.info, self.hint) for stage in chosen]

    def _require_fills(self, cuts: Sequence[Cut]) -> None:
        """Raise UsageError if the remaining fills alone exceed the time or the wear."""
        fills = [p for p in self._plans(self.cut(cuts)) if KINDS[p.kind].is_fill]
        least_s = sum(plan.seconds[0] for plan in fills)
        least_bytes = sum(plan.bytes_written[0] for plan in fills)
        if self.allowed is not None and least_bytes > self.allowed.most_bytes:
            share = f"{self.allowed.percent:g} % of {self.allowed.endurance_tb:,.0f} TB"
            raise UsageError(
                f"filling {self.info.name} once writes {format_capacity(least_bytes)}, and "
                f"--max-wear allows {format_capacity(self.allowed.most_bytes)} ({share})",
                hint="Give a larger --max-wear, or use less of the drive (`fill_level` in the "
                "profile).",
            )
        if self.budget_s is not None and least_s > self.budget_s:
            raise UsageError(
                f"filling {self.info.name} once takes {format_duration(least_s)} at best, more "
                f"than --budget {format_duration(self.budget_s)}",
                hint="Give a longer --budget, or use less of the drive (`fill_level` in the "
                "profile).",
            )

    def cut(self, cuts: Sequence[Cut]) -> Profile:
        """Return the profile with these cuts applied."""
        profile = self.wishes.profile
        kept, dropped = self._kept(), {cut.value for cut in cuts if cut.kind == "stage"}
        made = {cut.kind: cut.value for cut in cuts}
        measure = []
        for index, item in enumerate(profile.measure):
            if index in dropped:
                continue
            stage = item.stage
            changes: dict[str, object] = {}
            if isinstance(stage, spec.Sweep) and index == kept:
                changes = {axis: (self._worst(stage, axis),) for axis in AXES if axis in made}
            changes |= _shorter(stage, made)
            changed = stage.model_copy(update=changes) if changes else stage
            measure.append(item.model_copy(update={item.key: changed}) if changes else item)
        changes = {"measure": tuple(measure)} if measure != list(profile.measure) else {}
        changes |= _prepared_shorter(profile, made)
        return profile.model_copy(update=changes) if changes else profile

    def _worst(self, sweep: spec.Sweep, axis: str) -> object:
        """Return the value of an axis that the plan names, or else the likely slowest value."""
        wanted, values = self.wishes.profile.plan, getattr(sweep, axis)
        asked_for = getattr(wanted, axis, None)
        if asked_for in values:
            return asked_for
        if axis == "block_bytes":
            return min(values, key=lambda size: abs(math.log2(size / 4096)))
        if axis == "iodepth" and wanted.outstanding is not None:
            jobs = min(sweep.numjobs)
            filled = [depth for depth in values if depth * jobs <= wanted.outstanding]
            return max(filled, default=min(values))
        return spec.AccessOrder.RANDOM if spec.AccessOrder.RANDOM in values else min(values)

    def said(self, cut: Cut) -> str:
        """Describe a cut in a sentence."""
        profile = self.wishes.profile
        if cut.kind == "stage":
            number = int(cut.value)
            return f"`{profile.measure[number].key}` (item {number + 1} of `measure`) is left out"
        stage = profile.measure[self._kept()].stage
        if cut.kind in AXES and isinstance(stage, spec.Sweep):
            value = self._worst(stage, cut.kind)
            shown = format_size(value) if isinstance(value, int) and "bytes" in cut.kind else value
            return f"of `{cut.kind.split('_')[0]}` only {shown} is measured"
        settled = format_duration(SHORT_SETTLE_S)
        return {
            "extra": "no extra repeats",
            "settle": f"repeats settle for {settled} and the spare area",
            "fill": "the drive is filled once in order, not more often",
            "random-fill": "no random fill before the warm-up, which writes the same",
            "warm-up": f"the warm-up ends at {SHORT_WARM_UP_FILLS:g} drive fills, steady or not",
            "repeats": f"{cut.value} repeats of each point",
            "rule": f"the warm-up is judged by {RuleName.PSS_QUICK.value}, after one drive fill",
        }[cut.kind]


def _shorter(stage: spec.MeasuredStage, made: dict[str, int | str]) -> dict[str, object]:
    """Return the changed keys of a stage of points after the cuts in `made`."""
    if not isinstance(stage, spec.Repeated):
        return {}
    changes: dict[str, object] = {}
    if "extra" in made and isinstance(stage, spec.Extendable) and stage.extra is not None:
        changes["extra"] = None
    if stage.settle and (settle := _settled_shorter(stage.settle, made)) != stage.settle:
        changes["settle"] = settle
    if "repeats" in made and stage.repeats is not None and stage.repeats > int(made["repeats"]):
        changes["repeats"] = int(made["repeats"])
    return changes


def _settled_shorter(settle: spec.Settle, made: dict[str, int | str]) -> spec.Settle:
    """Shorten settling to two minutes; shorten the unbroken load only if `repeats` are cut."""
    shorter = {"window_s": "settle", "unbroken_s": "repeats"}
    update = {
        name: SHORT_SETTLE_S
        for name, kind in shorter.items()
        if kind in made and getattr(settle, name) > SHORT_SETTLE_S
    }
    return settle.model_copy(update=update) if update else settle


def _prepared_shorter(profile: Profile, made: dict[str, int | str]) -> dict[str, object]:
    """Return the changed keys of a profile after the cuts in `made`, except the key `measure`."""
    changes: dict[str, object] = {}
    if (settle := _settled_shorter(profile.settle, made)) != profile.settle:
        changes["settle"] = settle
    fills = tuple(_fills(profile, made))
    if fills != profile.precondition:
        changes["precondition"] = fills
    if "repeats" in made and profile.repeats > int(made["repeats"]):
        changes["repeats"] = int(made["repeats"])
    steady: dict[str, object] = {}
    most = HASTY_FILLS if "rule" in made else SHORT_WARM_UP_FILLS
    if ("warm-up" in made or "rule" in made) and profile.steady.max_fills > most:
        steady["max_fills"] = most
    if "rule" in made and rule(profile.steady.rule.value).validates:
        steady["rule"] = RuleName.PSS_QUICK
    if steady:
        changes["steady"] = profile.steady.model_copy(update=steady)
    return changes


def _fills(profile: Profile, made: dict[str, int | str]) -> Iterator[Fill]:
    ordered = [f for f in profile.precondition if f.pattern is spec.AccessOrder.SEQUENTIAL]
    for fill in profile.precondition:
        needless = fill not in ordered and ordered and profile.needs_warm_up
        if "random-fill" in made and needless:
            continue
        if "fill" in made and fill.fill > 1:
            yield fill.model_copy(update={"fill": 1})
        else:
            yield fill


def never_validated(profile: Profile) -> Iterator[str]:
    """Yield each reason why a run with this profile can never be VALIDATED."""
    if profile.needs_warm_up and not rule(profile.steady.rule.value).validates:
        yield f"the warm-up is judged by {profile.steady.rule.value}, too early to prove anything"
    repeats = [
        measure.stage.repeats or profile.repeats
        for measure in profile.measure
        if isinstance(measure.stage, spec.Repeated)
    ]
    if repeats and min(repeats) < _NEEDED:
        yield f"there are only {min(repeats)} repeats, and at least {_NEEDED} are needed"
    if repeats and profile.settle.unbroken_s < UNBROKEN_S:
        yield (
            f"no load runs for {format_duration(UNBROKEN_S)} without a break, so nothing shows "
            "that a rate lasts"
        )


def _evidence(profile: Profile, cuts: Sequence[Cut]) -> str:
    """Return the name of the risk table that applies to a profile after these cuts."""
    if list(never_validated(profile)):
        return HASTY
    shorter = {"settle", "fill", "random-fill", "warm-up"}
    return SHORT if any(cut.kind in shorter for cut in cuts) else WHOLE


def said_rates(hint: RateHint) -> str:
    """Return a sentence with the rates behind an estimate, and where the rates come from."""
    ranges = (hint.random_write_iops, hint.random_read_iops, hint.sequential_bytes_per_s)
    writes, reads, in_order = (math.sqrt(low * high) for low, high in ranges)
    return (
        f"{format_count(writes)} random writes and {format_count(reads)} random reads per second, "
        f"{format_rate(in_order)} in order ({hint.source})"
    )
