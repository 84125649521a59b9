"""What a target cannot do is told with its place in the profile."""

import pytest

from ssdbench.errors import ProfileError, SsdbenchError, UsageError
from ssdbench.model.loading import load_profile
from ssdbench.suite.plan import plan
from ssdbench.suite.request import RunRequest


def planned(text: str, target: str = "") -> None:
    plan(RunRequest(load_profile(text, "p.yaml"), "p.yaml", text, target=target))


@pytest.mark.parametrize(
    "target",
    [
        "sim:nope",
        "sim:x25m-g2-160,scale=x",
        "sim:x25m-g2-160,scale",
        "sim:x25m-g2-160,scale=1,scale=1",
        "sim:x25m-g2-160,nope=1",
        "sim:x25m-g2-160,op_percent=x",
        "sim:/nope.yaml",
        "/nope",
        "/tmp",
    ],
)
def test_a_target_of_a_profile_is_blamed_where_it_stands(target: str) -> None:
    with pytest.raises(ProfileError) as caught:
        planned(f"title: x\ntarget: {target}\n")

    assert str(caught.value).startswith("p.yaml:2:9: target: ")


def test_a_refused_target_of_a_profile_says_where_it_stands() -> None:
    with pytest.raises(SsdbenchError, match="character device") as caught:
        planned("title: x\ntarget: /dev/null\n")

    assert "p.yaml:2:9" in caught.value.hint


def test_a_target_of_the_command_line_has_no_place_in_the_profile() -> None:
    with pytest.raises(UsageError) as caught:
        planned("title: x\ntarget: sim:x25m-g2-160\n", target="sim:nope")

    assert not isinstance(caught.value, ProfileError)


def test_a_stage_that_cannot_be_is_blamed_where_it_stands() -> None:
    with pytest.raises(ProfileError, match=r"p\.yaml:2:10: .*no limit of latency"):
        planned("measure:\n - rate: {}\n", target="sim:x25m-g2-160")
