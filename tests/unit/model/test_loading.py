"""Test how profiles are read, and where each mistake is reported."""

import re
import time
from pathlib import Path

import pytest

from ssdbench.errors import ProfileError
from ssdbench.model.loading import load_profile
from ssdbench.model.profile import Purge, RuleName
from ssdbench.model.profile.spec import SpanSweep, Sweep
from ssdbench.model.workload import Content
from ssdbench.model.yamltext import MOST_MISTAKES
from ssdbench.stats.steady.rules import RULES

PROFILES = Path(__file__).parents[3] / "profiles"


def mistakes(text: str) -> list[str]:
    """Return every diagnostic of a profile as it is printed."""
    with pytest.raises(ProfileError) as caught:
        load_profile(text, "p.yaml")
    return [str(diagnostic) for diagnostic in caught.value.diagnostics]


def sweep_of(text: str) -> Sweep:
    stage = load_profile(text, "p.yaml").measure[0].stage
    assert isinstance(stage, Sweep)
    return stage


def test_a_title_is_enough_and_all_else_is_pessimistic() -> None:
    profile = load_profile("title: x", "p.yaml")

    assert profile.purge is Purge.NONE
    assert profile.content is Content.RANDOM
    assert profile.fill_level_percent == 100
    assert [(step.pattern.value, step.fill) for step in profile.precondition] == [
        ("sequential", 2),
        ("random", 1),
    ]
    assert profile.steady.rule is RuleName.PSS
    assert profile.steady.max_time_s is None
    assert profile.repeats == 10
    assert profile.host.changes() == {}


def test_sizes_shares_and_durations_are_read_with_their_units() -> None:
    profile = load_profile(
        "steady: {max_time: 1.5h}\n"
        "limits: {max_writes: 2TiB}\n"
        "measure:\n"
        "  - span: {block: 4k, spans: [5%, 64GiB]}\n",
        "p.yaml",
    )

    stage = profile.measure[0].stage
    assert isinstance(stage, SpanSweep)
    assert profile.steady.max_time_s == 5400
    assert profile.limits.max_writes_bytes == 2 * 1024**4
    assert stage.block_bytes == 4096
    assert [str(span) for span in stage.spans] == ["5%", "64GiB"]


def test_one_value_stands_for_a_list_of_one() -> None:
    sweep = sweep_of("measure: [{sweep: {block: 8KiB, read: 70, iodepth: [1, 32]}}]")

    assert sweep.block_bytes == (8192,)
    assert sweep.read_percent == (70,)
    assert sweep.iodepth == (1, 32)


def test_a_stage_without_a_body_has_its_defaults() -> None:
    assert sweep_of("measure:\n  - sweep:\n") == Sweep()


def test_a_number_with_a_leading_zero_is_decimal_as_in_yaml_1_2() -> None:
    assert load_profile("repeats: 010", "p.yaml").repeats == 10


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            "preconditon: []",
            ["p.yaml:1:1: unknown key 'preconditon' (did you mean 'precondition'?)"],
            id="unknown-key",
        ),
        pytest.param(
            "steady:\n  workload: {bloc: 4KiB}",
            ["p.yaml:2:14: unknown key 'bloc' in steady.workload (did you mean 'block'?)"],
            id="unknown-key-below",
        ),
        pytest.param(
            "measure:\n  - swep: {}",
            ["p.yaml:2:5: unknown key 'swep' in measure[0] (did you mean 'sweep'?)"],
            id="unknown-stage",
        ),
        pytest.param(
            "repeats: 10\nseed: 2\nrepeats: 5",
            ["p.yaml:3:1: duplicate key 'repeats' (first given in line 1)"],
            id="duplicate-key",
        ),
        pytest.param(
            "steady: {workload: {block: 4KB}}",
            [
                "p.yaml:1:28: steady.workload.block: '4KB' is ambiguous (1000 or 1024?); "
                "write 4KiB for the binary size"
            ],
            id="decimal-unit",
        ),
        pytest.param(
            "window: 60",
            ["p.yaml:1:9: window: a duration looks like 10ms, 90s or 2h, got 60"],
            id="duration-without-unit",
        ),
        pytest.param(
            "window: 1:30",
            ["p.yaml:1:9: window: a duration looks like 10ms, 90s or 2h, got '1:30'"],
            id="no-sexagesimal-numbers",
        ),
        pytest.param(
            "measure:\n  - span: {spans: [5%, 120%]}",
            [
                "p.yaml:2:24: measure[0].span.spans[1]: "
                "a share is above 0% and at most 100%, got '120%'"
            ],
            id="span-above-the-drive",
        ),
        pytest.param(
            "measure:\n  - span: {spans: [on]}",
            [
                "p.yaml:2:20: measure[0].span.spans[0]: "
                "a span is a share such as 25% or a size such as 64GiB, got 'on'"
            ],
            id="span-that-is-none",
        ),
        pytest.param(
            "measure:\n  - span: {spans: [5]}\n",
            [
                "p.yaml:2:20: measure[0].span.spans[0]: "
                "a block of 4 KiB does not fit into a span of 5 B"
            ],
            id="span-smaller-than-a-block",
        ),
        pytest.param(
            "measure:\n  - sweep: {span: 1MiB, block: [4KiB, 2MiB]}",
            [
                "p.yaml:2:39: measure[0].sweep.block[1]: "
                "a block of 2 MiB does not fit into a span of 1 MiB"
            ],
            id="block-larger-than-the-span",
        ),
        pytest.param(
            "measure:\n  - sweep: {block: [4KiB, 4k]}",
            ["p.yaml:2:27: measure[0].sweep.block[1]: 4 KiB is given twice"],
            id="same-block-twice",
        ),
        pytest.param(
            "measure:\n- depth: {depths: [1, 4, 1]}\n- surface: {records: [4KiB, 4KiB]}\n",
            [
                "p.yaml:2:26: measure[0].depth.depths[2]: 1 is given twice",
                "p.yaml:3:29: measure[1].surface.records[1]: 4 KiB is given twice",
            ],
            id="same-value-twice-in-another-list",
        ),
        pytest.param(
            "measure:\n  - sweep:\n    span:",
            [
                "p.yaml:3:5: measure[0].span: "
                "'span' is a second stage; start a new list item with a dash"
            ],
            id="two-stages-in-one-item",
        ),
        pytest.param(
            "measure: [{}]",
            ["p.yaml:1:11: measure[0]: a stage needs one of the keys sweep, span, blocksize"],
            id="no-stage-in-an-item",
        ),
        pytest.param(
            "precondition: []\nmeasure: [{sweep: {read: [0, 100]}}]",
            [
                "p.yaml:2:26: measure[0].sweep.read: reads need data that this run wrote; "
                "give `precondition` at least one step"
            ],
            id="reads-of-what-nobody-wrote",
        ),
        pytest.param(
            "precondition: []\nmeasure: [{interference: {limit: 2ms}}]",
            [
                "p.yaml:2:26: measure[0].interference: reads need data that this run wrote; "
                "give `precondition` at least one step"
            ],
            id="reads-without-a-key-of-that-name",
        ),
        pytest.param(
            "repeats: true",
            ["p.yaml:1:10: repeats: must be a whole number, got True"],
            id="true-is-no-number",
        ),
        pytest.param(
            "repeats: 0", ["p.yaml:1:10: repeats: must be at least 1, got 0"], id="no-repeats"
        ),
        pytest.param(
            "steady: {rule: pss-qick}",
            [
                "p.yaml:1:16: steady.rule: must be one of pss, pss-paranoid, pss-quick, snia, "
                "snia-wsat, seppanen, heger, got 'pss-qick' (did you mean 'pss-quick'?)"
            ],
            id="unknown-rule",
        ),
        pytest.param("", ["p.yaml:1:1: the profile is empty"], id="empty"),
        pytest.param(
            "host: {fio_memory: elsewhere}",
            [
                "p.yaml:1:20: host.fio_memory: must be keep, local, prefer:NODE, bind:NODES or "
                "interleave:NODES, with drive for the drive's own node, got 'elsewhere'"
            ],
            id="a-pattern-in-words",
        ),
        pytest.param(
            "host:\n  rq_affinity: 5\n  io_poll: on\n  nr_requests: many\n",
            [
                "p.yaml:2:16: host.rq_affinity: must be keep, 0, 1 or 2, got '5'",
                "p.yaml:3:12: host.io_poll: must be keep, 0 or 1, got 'on'",
                "p.yaml:4:16: host.nr_requests: must be keep or a whole number, got 'many'",
            ],
            id="settings-of-the-queue",
        ),
        pytest.param(
            "measure: [{latency_path: {btt: maybe}}]",
            ["p.yaml:1:32: measure[0].latency_path.btt: must be true or false, got 'maybe'"],
            id="neither-true-nor-false",
        ),
        pytest.param("- a\n", ["p.yaml:1:1: must be keys with values, got a list"], id="a-list"),
        pytest.param(
            "title: a\n\tseed: 1",
            ["p.yaml:2:1: YAML does not allow tabs as indentation; use spaces"],
            id="tab",
        ),
        pytest.param(
            "%YAML 1.1\n---\ntitle: x",
            ["p.yaml:1:1: this file is read as YAML 1.2; drop this line"],
            id="yaml-1.1",
        ),
        pytest.param(
            "title: !!python/object:os.system x",
            [
                "p.yaml:1:8: tags such as 'tag:yaml.org,2002:python/object:os.system' "
                "have no meaning here"
            ],
            id="tag",
        ),
        pytest.param(
            "destroy: eui.1",
            ["p.yaml:1:1: unknown key 'destroy' (known: "],
            id="consent-is-never-in-a-profile",
        ),
    ],
)
def test_a_mistake_is_shown_where_it_stands(text: str, said: list[str]) -> None:
    found = mistakes(text)

    assert len(found) == len(said)
    assert all(line.startswith(start) for line, start in zip(found, said, strict=True)), found


@pytest.mark.parametrize(
    "text",
    [
        'title: "\\U00110000"',
        "repeats: !!bool maybe",
        'repeats: !!int ""',
        'fill_level: !!float ""',
        f"repeats: 0x{'f' * 5000}",
        f"precondition: [{{block: {'9' * 400}}}]",
        f"precondition: [{{block: {'9' * 400}k}}]",
        f"precondition: [{{block: {'9' * 5000}}}]",
        f"precondition: [{{block: 0.{'9' * 5000}k}}]",
        f"host: {{fio_cpus: 0x{'f' * 500}}}",
        f"window: {'9' * 400}s",
        f"{'k' * 5000}: 1",
        "host: {kernel_modules: [/tmp/evil.ko]}",
        "host: {kernel_modules: [--show-depends]}",
        "host: {kernel_modules: [../evil]}",
        "a: &a &a 1",
    ],
)
def test_what_yaml_or_python_trip_over_is_one_short_mistake(text: str) -> None:
    (said,) = mistakes(text)

    assert re.match(r"p\.yaml:1:[0-9]+: ", said)
    assert len(said) < 400


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"k{number}: 1\n" for number in range(8000)),
        "measure:\n" + "- sweep: {a: 1}\n" * 4000,
        "".join(f"&a{n} b{n}: *a{max(0, n - 1)}\n" for n in range(4000)),
        f"measure: [{{sweep: {{iodepth: [{'1,' * 15_000}]}}}}]",
        "a: " + "[" * 60_000,
    ],
    ids=["unknown-keys", "wrong-stages", "anchors", "repeated", "brackets"],
)
@pytest.mark.timed
def test_the_longest_profiles_are_refused_within_five_seconds(text: str) -> None:
    began = time.process_time()

    said = mistakes(text)

    assert time.process_time() - began < 5
    assert len(said) <= MOST_MISTAKES


def test_a_stage_of_more_points_than_can_be_measured_is_refused() -> None:
    many = list(range(1, 150))

    assert mistakes(f"measure: [{{sweep: {{iodepth: {many}, numjobs: {many}}}}}]") == [
        "p.yaml:1:19: measure[0].sweep: the lists have 22,201 combinations; "
        "at most 10,000 are allowed"
    ]


def test_a_message_never_holds_what_a_terminal_acts_on() -> None:
    (said,) = mistakes('"a\\e[31m\\nb": 1')

    assert r"unknown key 'a\x1b[31m\nb'" in said


def test_all_mistakes_are_shown_at_once_and_in_order() -> None:
    found = mistakes("repeats: ten\nwindow: 5\nsteady: {rul: pss}\nrepeats: 3\nplan: {growth: 3}\n")

    assert [line.split(":")[1] for line in found] == ["1", "2", "3", "4", "5"]


def test_broken_syntax_is_one_mistake_with_a_position() -> None:
    found = mistakes("title: [a\nseed: 1\n")

    assert len(found) == 1
    assert found[0].startswith("p.yaml:2:")
    assert "not YAML" in found[0]


def test_an_alias_of_itself_ends() -> None:
    assert "nested too deep" in mistakes("title: &a [*a]")[0]


def test_aliases_cannot_make_a_short_text_huge() -> None:
    levels = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 8))

    found = mistakes(f"a0: &a0 [x]\n{levels}\n")

    assert any("nested too deep" in line for line in found)


def test_bytes_of_a_binary_file_are_no_profile() -> None:
    assert mistakes("title: \x00\x01")[0].startswith("p.yaml:1:8: not YAML")


@pytest.mark.parametrize(
    "name", ["demo", "quick", "pessimistic", "pts-enterprise", "pts-client", "heger-2011"]
)
def test_a_shipped_profile_is_right(name: str) -> None:
    profile = load_profile((PROFILES / f"{name}.yaml").read_text(), name)

    assert profile.title
    sets_scheduler = name != "demo"  # whose drive is simulated
    assert profile.host.changes() == ({"scheduler": "none"} if sets_scheduler else {})
    assert profile.purge is Purge.NONE


@pytest.mark.parametrize(
    "name", ["demo", "quick", "pessimistic", "pts-enterprise", "pts-client", "heger-2011"]
)
def test_a_shipped_profile_has_a_comment_on_every_setting(name: str) -> None:
    lines = (PROFILES / f"{name}.yaml").read_text().splitlines()

    silent = [
        line
        for before, line in zip([*lines[:1], *lines], lines, strict=False)
        if line.startswith(("  - ", "repeats", "window", "content", "seed", "purge", "target"))
        and "#" not in line
        and not before.lstrip().startswith(("#", "- sweep"))
    ]
    assert silent == []


def test_the_quick_profile_can_never_validate() -> None:
    quick = load_profile((PROFILES / "quick.yaml").read_text(), "quick")
    pessimistic = load_profile((PROFILES / "pessimistic.yaml").read_text(), "pessimistic")

    assert not RULES[quick.steady.rule.value].validates
    assert RULES[pessimistic.steady.rule.value].validates
    assert pessimistic.repeats == 10


def test_every_rule_of_a_profile_exists() -> None:
    assert {rule.value for rule in RuleName} <= set(RULES)
