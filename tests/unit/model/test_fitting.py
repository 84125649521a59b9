"""Test which parts of a profile a target cannot do, and which can never be measured."""

import pytest

from ssdbench.model.fitting import misfits
from ssdbench.model.loading import load_profile
from tests.support.builders import a_target

SMALL_WARM_UP = "steady: {workload: {block: 512}}\nprecondition: []\n"


@pytest.mark.parametrize(
    "measure", ["probe: {of: [spare]}", "pts: {tests: [iops]}", "blocksize: {}"]
)
def test_the_block_of_a_warm_up_that_never_runs_is_no_reason_to_refuse(measure: str) -> None:
    profile = load_profile(f"{SMALL_WARM_UP}measure: [{{{measure}}}]\n", "p.yaml")

    assert misfits(profile, a_target(logical_block_bytes=4096)) == []


def test_the_block_of_a_warm_up_that_runs_must_fit() -> None:
    text = f"{SMALL_WARM_UP}measure: [{{probe: {{of: [spare]}}}}, {{sweep: {{block: 4KiB}}}}]\n"

    ((path, said),) = misfits(load_profile(text, "p.yaml"), a_target(logical_block_bytes=4096))

    assert path == ("steady", "workload", "block")
    assert "not a multiple of the drive's logical block of 4 KiB" in said
