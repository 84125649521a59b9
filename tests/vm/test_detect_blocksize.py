import os

import pytest

from ssdbench.lab.disks import parse_all
from ssdbench.lab.kernels import SERIES
from ssdbench.lab.session import GuestRequest, run_in_guest
from tests.vm.conftest import REPOSITORY, cache

pytestmark = pytest.mark.vm


# A minute each, nearly all of it the start of programs in an emulated CPU: one kernel is enough
# with every change.
@pytest.mark.parametrize(
    "series", [pytest.param(s, marks=() if s == SERIES[-1] else pytest.mark.soak) for s in SERIES]
)
@pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root")
def test_the_block_size_is_found_through_the_real_nvme_driver(series: str) -> None:
    command = (
        "ssdbench detect-blocksize /dev/nvme0n1 --output /run/run --writes 1500"
        " --stride 20KiB --stride 28KiB --stride 44KiB"
    )

    answer = run_in_guest(
        GuestRequest(
            argv=tuple(command.split()),
            series=series,
            disks=tuple(parse_all(["nvme=sim:memoright-gt,capacity=192MiB,block=768KiB"])),
            cwd=REPOSITORY,
            modules=False,
            timeout_s=1800,
        ),
        cache(),
    )

    assert answer.status == 0, answer.stderr
    assert answer.stdout.splitlines()[0] == "block size 768 KiB"
