"""Cuts a profile to a time: the best plan that likely fits, and what it can prove.

Cuts are made in a fixed order, those that take least from the number to plan on first, until the
plan fits; then needless ones are taken back, the latest first. How long something takes is the
geometric mean of the fastest and the slowest that is likely (`StagePlan.seconds`): for an unknown
drive that is a guess, so the run also ends when the time is over.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

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
from ssdbench.suite.request import RunRequest
from ssdbench.units import format_count, format_duration, format_rate, format_size

SHORT_SETTLE_S = 120.0
SHORT_WARM_UP_FILLS = 3.0  # `pss` asks for two, and for a flat half of the run
HASTY_FILLS = 1.5  # `pss-quick` asks for one
LEAST_REPEATS = 3
AXES = ("pattern", "numjobs", "iodepth", "read_percent", "block_bytes")
_NEEDED = Judged(plannable=True).min_repeats


@dataclass(frozen=True, slots=True)
class Cut:
    """One way to make a profile shorter; a later one of the same kind replaces the earlier."""

    kind: str
    value: int | str = 0


def within(
    wishes: RunRequest, info: TargetInfo, hint: RateHint, budget_s: float
) -> tuple[RunRequest, Budget]:
    """Cut the request to the time. Raises UsageError if not even the fills fit."""
    fit = _Fit(wishes, info, hint, budget_s)
    cuts = fit.cuts()
    profile = fit.cut(cuts)
    text = f"# {wishes.profile_name} within {format_duration(budget_s)}\n"
    text += profile.model_dump_json(by_alias=True, exclude_unset=True, indent=1) + "\n"
    longest_s = min(budget_s, wishes.all_limits.max_time_s or math.inf)
    return (
        replace(
            wishes,
            profile=profile,
            profile_text=text if cuts else wishes.profile_text,
            limits=Limits(longest_s).over(wishes.limits),
        ),
        Budget(
            seconds=budget_s,
            likely_s=fit.likely_s(profile),
            counted_on=_rates(hint),
            cuts=tuple(fit.said(cut) for cut in cuts),
            lacks=tuple(_lacks(profile)),
            validated_from_s=fit.validated_from_s(),
            risk=risk(_evidence(profile, cuts)),
            whole_sha256=sha256(wishes.profile_text.encode()).hexdigest(),
        ),
    )


@dataclass(frozen=True)
class _Fit:
    wishes: RunRequest
    info: TargetInfo
    hint: RateHint
    budget_s: float

    def cuts(self) -> list[Cut]:
        """Return those that are made, in their order."""
        made: list[Cut] = []
        for cut in self._ladder():
            if self._fits(made):
                break
            tried = [*(one for one in made if one.kind != cut.kind or cut.kind == "stage"), cut]
            if self.cut(tried) != self.cut(made):
                made = tried
        self._require_fills(made)
        for cut in reversed(made[:-1]):
            without = [one for one in made if one is not cut]
            if self._fits(without) or self.cut(without) == self.cut(made):
                made = without
        return made

    def validated_from_s(self) -> float | None:
        """Return the least time in which a number can likely be VALIDATED."""
        able = [cut for cut in self._ladder() if cut.kind not in ("repeats", "rule")]
        profile = self.cut(able)
        return None if list(_lacks(profile)) else self.likely_s(profile)

    def _ladder(self) -> Iterator[Cut]:
        """Return all cuts, in the order in which they are made."""
        kept = self._kept()
        for index in reversed(range(len(self.wishes.profile.measure))):
            if index != kept:
                yield Cut("stage", index)
        for axis in AXES:
            yield Cut(axis)
        for kind in ("extra", "settle", "fill", "random-fill", "warm-up"):
            yield Cut(kind)
        for repeats in range(_NEEDED - 1, LEAST_REPEATS - 1, -1):
            yield Cut("repeats", repeats)
        yield Cut("rule")

    def _kept(self) -> int:
        """Return the stage that stays: the first sweep with the points that a plan stands on."""
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
        return self.likely_s(self.cut(cuts)) <= self.budget_s

    def likely_s(self, profile: Profile) -> float:
        """Say how long it likely takes."""
        return sum(math.sqrt(plan.seconds[0] * plan.seconds[1]) for plan in self._plans(profile))

    def _plans(self, profile: Profile) -> list[StagePlan]:
        with self.wishes.blamed_on_profile():
            chosen = stages(profile, self.info)
        return [stage.plan(self.info, self.hint) for stage in chosen]

    def _require_fills(self, cuts: Sequence[Cut]) -> None:
        """Raise UsageError where the fills that are left take longer than the time, at best."""
        fills = [p for p in self._plans(self.cut(cuts)) if KINDS[p.kind].is_fill]
        least_s = sum(plan.seconds[0] for plan in fills)
        if least_s > self.budget_s:
            raise UsageError(
                f"filling {self.info.name} once takes {format_duration(least_s)} at best, more "
                f"than --budget {format_duration(self.budget_s)}",
                hint="Give a longer --budget, or use less of the drive (`fill_level` in the "
                "profile).",
            )

    def cut(self, cuts: Sequence[Cut]) -> Profile:
        """Return the profile without what is cut."""
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
        """Return the value that a plan stands on, else the one that is likely the slowest."""
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
        """Return a cut, for people."""
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
    """Say what changes in a stage of points."""
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
    """Settle for at most two minutes; with fewer repeats nothing is VALIDATED, or must last."""
    shorter = {"window_s": "settle", "unbroken_s": "repeats"}
    update = {
        name: SHORT_SETTLE_S
        for name, kind in shorter.items()
        if kind in made and getattr(settle, name) > SHORT_SETTLE_S
    }
    return settle.model_copy(update=update) if update else settle


def _prepared_shorter(profile: Profile, made: dict[str, int | str]) -> dict[str, object]:
    """Say what changes in the head of a profile."""
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


def _lacks(profile: Profile) -> Iterator[str]:
    """Say why a run of it can never be VALIDATED, as far as the plan shows it."""
    if profile.needs_warm_up and not rule(profile.steady.rule.value).validates:
        yield f"the warm-up is judged by {profile.steady.rule.value}, too early to prove anything"
    repeats = [
        measure.stage.repeats or profile.repeats
        for measure in profile.measure
        if isinstance(measure.stage, spec.Repeated)
    ]
    if repeats and min(repeats) < _NEEDED:
        yield f"{min(repeats)} repeats, of at least {_NEEDED}"
    if repeats and profile.settle.unbroken_s < UNBROKEN_S:
        yield (
            f"no load runs for {format_duration(UNBROKEN_S)} without a break, which would show "
            "that its rate lasts"
        )


def _evidence(profile: Profile, cuts: Sequence[Cut]) -> str:
    """Say which table of risks the plan belongs to."""
    if list(_lacks(profile)):
        return HASTY
    shorter = {"settle", "fill", "random-fill", "warm-up"}
    return SHORT if any(cut.kind in shorter for cut in cuts) else WHOLE


def _rates(hint: RateHint) -> str:
    middle = [
        math.sqrt(low * high)
        for low, high in (
            hint.random_write_iops,
            hint.random_read_iops,
            hint.sequential_bytes_per_s,
        )
    ]
    writes, reads, in_order = middle
    return (
        f"{format_count(writes)} random writes and {format_count(reads)} random reads per second, "
        f"{format_rate(in_order)} in order ({hint.source}); a slower drive runs out of time"
    )
