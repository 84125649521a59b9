"""Tiers, and the devices that tests of the host work on.

`pytest` alone runs the unit tier. A tier is asked for with `-m host` or `-m vm`; where it cannot
run its tests are skipped with what is missing, and with SSDBENCH_REQUIRE=host,vm they fail.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.support.devices import BLOCK_SIZES, LoopDevice, attached_loop
from tests.support.fakefio import FakeFio

# What a stall of the machine can break is no property: examples may take as long as they need.
hypothesis.settings.register_profile(
    "any-speed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any-speed")

TIERS = ("host", "vm", "systems", "soak", "timed")
ROOT = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        for tier in ("host", "vm", "systems"):
            if (ROOT / tier) in item.path.parents:
                item.add_marker(tier)
    if not config.option.markexpr:
        unasked = [item for item in items if any(item.get_closest_marker(t) for t in TIERS)]
        config.hook.pytest_deselected(items=unasked)
        items[:] = [item for item in items if item not in unasked]


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes are named by their argument: an archive holds the second in which it was made, and
    workers that collect in different seconds would not agree on the name of the test."""
    return argname if isinstance(val, bytes) else None


def pytest_runtest_setup(item: pytest.Item) -> None:
    if not item.get_closest_marker("host"):
        return
    missing = host_lacks()
    if missing and "host" in os.environ.get("SSDBENCH_REQUIRE", "").split(","):
        pytest.fail(f"the host tier is required, but {missing}")
    if missing:
        pytest.skip(f"{missing} (run `nox -s host` as root on a host with loop devices and fio)")


def host_lacks() -> str:
    """What the host tier misses here, as a sentence; empty when it can run."""
    if os.geteuid() != 0:
        return "there is no root"
    if not Path("/dev/loop-control").exists():
        return "there are no loop devices"
    missing = [name for name in ("fio", "losetup", "wipefs", "setpriv") if not shutil.which(name)]
    return f"there is no {' and no '.join(missing)}" if missing else ""


@pytest.fixture(params=BLOCK_SIZES.values(), ids=list(BLOCK_SIZES))
def loop_device(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LoopDevice]:
    """An empty loop device of 64 MiB, once with each size of logical block."""
    with attached_loop(tmp_path / "disk.img", block_bytes=request.param) as device:
        yield device


@pytest.fixture
def make_loop(tmp_path: Path) -> Iterator[Callable[..., LoopDevice]]:
    """Makes loop devices of any size; all are detached at the end."""
    with LoopDevice.several(tmp_path) as make:
        yield make


@pytest.fixture
def fake_fio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeFio:
    """A fake fio that comes first on PATH."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
    return FakeFio(directory)
