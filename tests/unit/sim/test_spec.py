"""Targets and model files: what they mean, and the sentence that a wrong one gets."""

from pathlib import Path

import pytest

from ssdbench.errors import ProfileError, UsageError
from ssdbench.sim.library import BLOCKLOG, DIRECT, FIFO, GREEDY, PAGE, parameters
from ssdbench.sim.spec import MIN_SUPERBLOCKS, catalogue, parse, short_names, superblocks
from ssdbench.units import GIB

A_MODEL = """\
title: A drive of mine
sources: [my desk]
params: {capacity: 1GiB, erase_block: 64KiB, op: 20%}
"""


def test_keys_may_leave_out_their_unit_and_values_carry_it() -> None:
    spec = parse("sim:p4500-4t,capacity=8GiB,op=28%,t_prog=1.3ms,link=400MB/s,seed=7")

    assert spec.params["capacity_bytes"] == 8 * GIB
    assert spec.params["op_ppm"] == 280_000
    assert spec.params["t_prog_ns"] == 1_300_000
    assert spec.params["link_mbps"] == 400
    assert spec.seed == 7


def test_a_bare_number_is_in_the_unit_of_the_table() -> None:
    spec = parse("sim:p4500-4t,op_ppm=280000,t_prog_ns=1300000")

    assert (spec.params["op_ppm"], spec.params["t_prog_ns"]) == (280_000, 1_300_000)


def test_choices_go_by_name() -> None:
    spec = parse("sim:p4500-4t,gc_policy=fifo,slc_idle_fold=off,read_priority=suspend")

    assert (spec.params["gc_policy"], spec.params["slc_idle_fold"]) == (1, 0)
    assert spec.params["read_priority"] == 2


@pytest.mark.parametrize("card", catalogue(), ids=lambda card: card.name)
def test_the_canonical_target_means_the_same_drive(card: object) -> None:
    spec = parse(f"sim:{card.name},seed=42")  # type: ignore[attr-defined]

    again = parse(spec.text)

    assert again == spec


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("sim:p4500-4t,t_porg=1ms", "did you mean 't_prog'"),
        ("sim:p4500", "did you mean 'p4500-4t'"),
        ("sim:p4500-4t,op", "key=value"),
        ("sim:p4500-4t,op=", "key=value"),
        ("sim:p4500-4t,op=1%,op=2%", "twice"),
        ("sim:p4500-4t,op_ppm=10000,op=2%", "twice"),
        ("sim:p4500-4t,t_prog=fast", "a duration looks like"),
        ("sim:p4500-4t,capacity=8GB", "ambiguous"),
        ("sim:p4500-4t,channels=many", "channels must be a number"),
        ("sim:p4500-4t,channels=0", "from 1 to 256"),
        ("sim:p4500-4t,gc_policy=lazy", "greedy, fifo, dchoice, costbenefit"),
        ("sim:p4500-4t,scale=2,capacity=8GiB", "give one of them"),
        ("sim:p4500-4t,scale=0", "whole number"),
        ("sim:p4500-4t,op=0%", "no spare"),
        ("sim:p4500-4t,map_unit=3000", "power of two"),
        ("sim:p4500-4t,capacity=64MiB", "too small for this model"),
        ("sim:/nowhere/drive.yaml", "cannot be read"),
    ],
)
def test_a_wrong_target_gets_a_sentence(target: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse(target)

    assert said in refused.value.message


def test_choices_stand_where_the_core_has_them() -> None:
    kinds, policies = (parameters()[name].choices for name in ("ftl", "gc_policy"))

    assert (kinds[PAGE], kinds[BLOCKLOG], kinds[DIRECT]) == ("page", "blocklog", "direct")
    assert (policies[GREEDY], policies[FIFO]) == ("greedy", "fifo")


def test_a_model_file_of_ones_own_is_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(A_MODEL)

    spec = parse(f"sim:{path},seed=3")

    assert spec.title == "A drive of mine"
    assert (spec.capacity_bytes, spec.params["op_ppm"], spec.seed) == (GIB, 200_000, 3)
    assert parse(spec.text) == spec


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        (A_MODEL.replace("sources", "source"), ":2:", "source"),
        (A_MODEL + "figures: {speed: fast}\n", ":4:11:", "figures.speed"),
        ("title: [", ":1:", ""),
        ("just text", ":1:1:", "mapping"),
    ],
    ids=["unknown-key", "not-a-number", "not-yaml", "not-a-mapping"],
)
def test_a_wrong_model_file_is_told_by_line_and_column(
    tmp_path: Path, text: str, place: str, said: str
) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(text)

    with pytest.raises(ProfileError) as refused:
        parse(f"sim:{path}")

    assert f"wrong.yaml{place}" in refused.value.message
    assert said in refused.value.message


def test_a_smaller_drive_keeps_its_physics_and_says_what_was_changed() -> None:
    small = parse("sim:p4500-4t,capacity=16GiB")
    less = parse("sim:p4500-4t,capacity=64GiB")

    assert superblocks(small.params) >= MIN_SUPERBLOCKS
    assert small.params["t_prog_ns"] == less.params["t_prog_ns"]
    assert small.params["channels"] == less.params["channels"]
    ratio = [s.params["t_erase_ns"] / s.params["erase_block_bytes"] for s in (small, less)]
    assert ratio[0] == pytest.approx(ratio[1], rel=1e-3)
    assert "capacity is 17.18 GB instead of 4.001 TB" in small.notes[0]


def test_scale_divides_the_capacity() -> None:
    spec = parse("sim:x25m-g2-160,scale=20")

    assert spec.capacity_bytes == 160041885696 // 20 // 16384 * 16384


def test_what_the_user_sets_is_not_scaled() -> None:
    spec = parse("sim:p4500-4t,wbuf=32MiB,op=7%,capacity=8GiB")

    assert spec.params["wbuf_bytes"] == 32 << 20
    assert spec.params["op_ppm"] == 70_000


def test_every_parameter_has_a_short_name_of_its_own() -> None:
    shortest: dict[str, str] = {}
    for key, name in short_names().items():
        shortest[name] = min(shortest.get(name, key), key, key=len)

    assert len(set(shortest.values())) == len(parameters())


def test_the_canonical_target_says_sizes_as_people_do() -> None:
    assert parse("sim:x25m-g2-160,capacity_bytes=4294967296").text == (
        "sim:x25m-g2-160,capacity=4GiB"
    )
