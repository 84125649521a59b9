"""Guests for the tests, one per kernel series; a complaint of their kernel fails a test."""

import compileall
import os
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from ssdbench.errors import SsdbenchError
from ssdbench.lab.archive import Archive
from ssdbench.lab.disks import parse_all
from ssdbench.lab.guest import Answer, Lab
from ssdbench.lab.kernels import SERIES
from ssdbench.lab.session import GuestRequest, run_in_guest

Guest = Callable[..., Answer]
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="session", autouse=True)
def compiled() -> None:
    """Byte code beside the sources: a guest cannot keep any, and compiles ten times slower."""
    for package in ("ssdbench", "tests/vm"):
        compileall.compile_dir(REPOSITORY / package, quiet=2)


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
        multipath: bool = False,
        devices: tuple[str, ...] = (),
        cpus: int = 2,
        nodes: int = 1,
        programs: tuple[str, ...] = (),
        append: str = "",
    ) -> Answer:
        request = GuestRequest(
            argv=("bash", "-euc", script),
            series=lab.kernel.series,
            disks=tuple(parse_all(disks, in_memory=bool(programs))),
            cwd=REPOSITORY,
            reproducible=reproducible,
            modules=modules,
            multipath=multipath,
            timeout_s=540,
            devices=devices,
            cpus=cpus,
            nodes=nodes,
            programs=programs,
            append=append,
        )
        try:
            answer = run_in_guest(request, cache())
        except SsdbenchError as trouble:
            trouble.add_note(trouble.hint)  # the guest's console: the trace is in no other place
            raise
        for said in answer.failed_boots:
            warnings.warn(
                f"QEMU itself failed, and the guest was booted again: {said}", stacklevel=2
            )
        return answer

    return run
