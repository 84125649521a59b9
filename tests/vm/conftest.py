"""Guests for the tests, one per kernel series; a complaint of their kernel fails a test."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ssdbench.lab.archive import Archive
from ssdbench.lab.disks import parse_all
from ssdbench.lab.guest import Answer, Lab
from ssdbench.lab.kernels import SERIES
from ssdbench.lab.session import GuestRequest, run_in_guest

Guest = Callable[..., Answer]
REPOSITORY = Path(__file__).parents[2]


def cache() -> Path:
    return Path(os.environ.get("SSDBENCH_LAB_CACHE", "/var/cache/ssdbench/lab"))


@pytest.fixture(scope="session", params=SERIES)
def lab(request: pytest.FixtureRequest) -> Lab:
    return Lab(Archive(cache()), str(request.param))


@pytest.fixture
def guest(lab: Lab) -> Guest:
    """Run a shell script in a guest: `guest(script, disks=[…], reproducible=True)`."""

    def run(
        script: str,
        *,
        disks: tuple[str, ...] = ("nvme=null:1GiB",),
        reproducible: bool = False,
        modules: bool = True,
        devices: tuple[str, ...] = (),
    ) -> Answer:
        request = GuestRequest(
            argv=("bash", "-euc", script),
            series=lab.kernel.series,
            disks=tuple(parse_all(disks)),
            cwd=REPOSITORY,
            reproducible=reproducible,
            modules=modules,
            timeout_s=540,
            devices=devices,
        )
        return run_in_guest(request, cache())

    return run
