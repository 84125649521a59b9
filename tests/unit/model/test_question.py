"""Test how the question of a plan becomes stages and targets."""

from typing import Any

import pytest

from ssdbench.errors import ProfileError
from ssdbench.model.fitting import loads, unmeasured
from ssdbench.model.loading import load_profile
from ssdbench.model.profile import CapacityPlan, Profile, spec
from ssdbench.model.profile.plan import unanswered

QUESTION = """\
title: VMs
plan:
  {vms: 3000, iops_each: 40, read: 70, block: 4KiB, p99: {read: 10ms}, spares: 2, growth: 10%,
   years: 3}
"""


def asked(text: str) -> Profile:
    return load_profile(text, "q.yaml")


def mistakes(text: str) -> list[str]:
    with pytest.raises(ProfileError) as refused:
        asked(text)
    return [f"{one.line}:{one.column} {one.message}" for one in refused.value.diagnostics]


def lacks(text: str) -> tuple[str, ...]:
    profile = asked(text)
    return unanswered(profile.plan, [*(one.stage for one in profile.measure), *loads(profile)])


def test_the_demand_is_all_vms_with_bursts_and_growth() -> None:
    plan = asked(QUESTION.replace("spares: 2", "spares: 2, peak: 1.5")).plan

    assert plan.demand_iops == 120_000
    assert plan.load_iops == pytest.approx(120_000 * 1.5 * 1.1**3)
    assert plan.failure_reserve == 2
    assert plan.limits_s == {"read": 0.010}


def test_growth_without_years_means_what_it_meant() -> None:
    plan = CapacityPlan.model_validate({"demand_iops": 40_000, "growth": "30%"})

    assert plan.load_iops == pytest.approx(52_000)


def test_every_default_of_a_question_is_named_in_it() -> None:
    assert asked("plan: {vms: 10, iops_each: 40}").plan.asked() == (
        "10 VMs x 40 IOPS = 400 IOPS of 4 KiB with 0 % reads, peak x 1, no growth, spares 1, "
        "utilisation 70 %"
    )


def test_a_question_alone_decides_what_is_measured() -> None:
    profile = asked(QUESTION)

    (sweep,) = (measure.stage for measure in profile.measure)
    assert isinstance(sweep, spec.Sweep)
    assert (sweep.block_bytes, sweep.read_percent, sweep.iodepth) == ((4096,), (70,), (8, 32))
    (load,) = loads(profile)
    assert load.planned and load.direction == "read" and load.limit_s == 0.010
    assert not [*unmeasured(profile)]
    assert lacks(QUESTION) == ()
    assert profile.needs_fill and profile.needs_warm_up


@pytest.mark.parametrize(
    ("p99", "latency", "of_load"),
    [
        ("10ms", {"p99": 0.010}, (None, 0.010)),
        ("{write: 5ms}", {"write p99": 0.005}, ("write", 0.005)),
        ("{read: 10ms, write: 5ms}", {"read p99": 0.010, "write p99": 0.005}, (None, 0.005)),
        ("{read: 10ms, write: 10ms}", {"p99": 0.010}, (None, 0.010)),
    ],
)
def test_each_limit_of_p99_is_a_target_at_the_planned_load(
    p99: str, latency: dict[str, float], of_load: tuple[str | None, float]
) -> None:
    profile = asked(f"plan: {{vms: 10, iops_each: 40, read: 70, p99: {p99}}}")

    assert profile.accept[0].latency == latency
    (load,) = loads(profile)
    assert load.planned and (load.block_bytes, load.read_percent) == (4096, 70)
    assert (load.direction, load.limit_s) == of_load


def test_a_limit_of_writes_needs_no_share_of_reads_because_writes_are_the_default() -> None:
    text = "plan: {vms: 10, iops_each: 40, block: 8KiB, p99: {write: 5ms}}"
    profile = asked(text)

    assert profile.accept[0].latency == {"p99": 0.005}
    (load,) = loads(profile)
    assert load.planned and (load.block_bytes, load.read_percent, load.limit_s) == (8192, 0, 0.005)
    assert lacks(text) == ()
    stored = CapacityPlan().with_given({"demand_iops": 400.0, "p99_write_s": 0.005})
    assert stored.limits_s == {"write": 0.005}


def test_a_profile_with_stages_of_its_own_keeps_them() -> None:
    profile = asked("measure: [{sweep: {read: 100}}]\n" + QUESTION)

    assert [measure.key for measure in profile.measure] == ["sweep"] and not profile.accept
    plain = asked("plan: {demand_iops: 40000, growth: 30%}")
    assert plain.measure == Profile().measure


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ("{vms: 3}", "1:13 plan.vms: add `iops_each`, the IOPS of one of them"),
        ("{iops_each: 3}", "1:19 plan.iops_each: add `vms`, the number of virtual machines"),
        (
            "{vms: 3, iops_each: 4, demand_iops: 10}",
            "1:13 plan.vms: `demand_iops` gives the demand, too; leave out one of them",
        ),
        (
            "{spares: 2, failure_reserve: 3}",
            "1:16 plan.spares: `failure_reserve` means the same; leave out one of them",
        ),
        (
            "{read: 70, p99: {read: 10}}",
            "1:30 plan.p99.read: a duration looks like 10ms, 90s or 2h, got 10",
        ),
        (
            "{read: 70, p99: {trim: 10ms}}",
            "1:30 plan.p99.trim: a limit of p99 is for read or write",
        ),
        (
            "{read: 0, p99: {read: 1ms}}",
            "1:22 plan.p99: a workload with 0 % reads has no reads; "
            "give a limit for writes instead",
        ),
        ("{p99: {read: 1ms}}", "1:13 plan.p99: a limit for reads needs `read`, the share of reads"),
        ("{peak: 0.5}", "1:14 plan.peak: must be at least 1, got 0.5"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused_at_its_place(plan: str, said: str) -> None:
    assert mistakes(f"plan: {plan}") == [said]


MEASURES = "measure:\n  - rate: {block: 4KiB, read: 70, limit: 10ms}\n"


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        (MEASURES + "plan: {demand_iops: 4e4, block: 4KiB, read: 70}", ["no point measures 4 KiB"]),
        (
            MEASURES + "  - sweep: {block: 4KiB, read: 70}\n"
            "plan: {demand_iops: 4e4, block: 8KiB, read: 70}",
            ["no point measures 8 KiB with 70 % reads"],
        ),
        (
            MEASURES + "  - sweep: {block: 4KiB, read: 0}\n"
            "plan: {demand_iops: 4e4, block: 4KiB, read: 70}",
            ["no point measures 4 KiB with 70 % reads"],
        ),
        (
            MEASURES + "  - sweep: {block: 4KiB, read: 70, span: 50%}\n"
            "plan: {demand_iops: 4e4, block: 4KiB, read: 70}",
            ["no point measures 4 KiB with 70 % reads"],
        ),
        (
            MEASURES + "  - sweep: {block: 4KiB, read: 70}\n"
            "plan: {demand_iops: 4e4, block: 4KiB, read: 70, p99: {read: 5ms}}",
            ["nothing measures p99 of reads at most 5 ms under an offered load: add `- load: {"],
        ),
        (
            "measure:\n  - sweep: {block: 4KiB, read: 70}\n"
            "  - load: {block: 4KiB, read: 70, planned: true}\n"
            "plan: {demand_iops: 4e4, block: 4KiB, read: 70, p99: {read: 5ms}}",
            [],
        ),
        (
            "measure: [{sweep: {block: 4KiB, read: 70, iodepth: 32}}]\n"
            "plan: {demand_iops: 4e4, block: 4KiB, read: 70, outstanding: 8}",
            ["no point measures 4 KiB"],
        ),
    ],
)
def test_what_a_profile_lacks_for_its_question_is_named(text: str, missing: list[str]) -> None:
    found: Any = lacks(text)

    assert len(found) == len(missing)
    assert all(said.startswith(start) for said, start in zip(found, missing, strict=True))
    if missing:
        keys = "block: 8KiB" if "8 KiB" in found[0] else "block: 4KiB"
        assert f"{{{keys}, read: 70" in found[0]


@pytest.mark.parametrize(
    ("given", "demand", "limits"),
    [
        ({"vms": 6000}, 240_000, {"read": 0.010}),
        ({"iops_each": 20.0}, 60_000, {"read": 0.010}),
        ({"demand_iops": 1000.0}, 1000, {"read": 0.010}),
        ({"p99_s": 0.005}, 120_000, {"read": 0.005, "write": 0.005}),
        ({"p99_read_s": 0.020}, 120_000, {"read": 0.020}),
        ({"p99_write_s": 0.005}, 120_000, {"read": 0.010, "write": 0.005}),
    ],
)
def test_a_value_of_the_command_line_replaces_what_the_profile_says(
    given: dict[str, float], demand: float, limits: dict[str, float]
) -> None:
    changed = asked(QUESTION).plan.with_given({**given, "failure_reserve": 0})

    assert changed.demand_iops == demand
    assert changed.limits_s == limits
    assert changed.failure_reserve == 0


def test_values_of_the_command_line_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(ValueError, match="vms: add `iops_each`"):
        CapacityPlan().with_given({"vms": 10})
    with pytest.raises(ValueError, match="p99: a workload with 0 % reads has no reads"):
        asked(QUESTION).plan.with_given({"read_percent": 0})


@pytest.mark.parametrize(
    ("given", "limits"),
    [
        ({"read_percent": 0, "p99_write_s": 0.050}, {"write": 0.050}),
        ({"read_percent": 100, "p99_read_s": 0.020}, {"read": 0.020}),
    ],
)
def test_a_new_share_of_reads_with_its_own_limit_replaces_the_limit_that_no_longer_fits(
    given: dict[str, float], limits: dict[str, float]
) -> None:
    both = QUESTION.replace("p99: {read: 10ms}", "p99: {read: 10ms, write: 5ms}")

    assert asked(both).plan.with_given(given).limits_s == limits
