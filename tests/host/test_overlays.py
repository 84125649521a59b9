"""Files of an overlay have another number in their layer: who uses them there is seen."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ssdbench.errors import TargetRefused
from ssdbench.host.command import run
from ssdbench.model.target import Consent
from ssdbench.target import guard
from ssdbench.target.inspect import inspect
from ssdbench.units import MIB
from tests.support.devices import accepted

HOLD = "import sys, time; f = open(sys.argv[1], 'r+b'); print(flush=True); time.sleep(600)"
MAP = (
    "import mmap, os, sys, time; fd = os.open(sys.argv[1], os.O_RDWR); m = mmap.mmap(fd, 4096); "
    "os.close(fd); print(flush=True); time.sleep(600)"
)


class Overlay:
    """A mounted overlay and a file of holes in its upper layer, by both of its paths."""

    def __init__(self, place: Path, stack: ExitStack) -> None:
        lower, upper, work, joined = (
            place / n for n in ("lower", "up: per, one", "work", "joined")
        )
        for directory in (lower, upper, work, joined):
            directory.mkdir()
        with (upper / "image").open("wb") as file:
            file.truncate(64 * MIB)
        escaped = str(upper).replace(",", "\\,")
        layers = f"lowerdir={lower},upperdir={escaped},workdir={work}"
        run(["mount", "-t", "overlay", "-o", layers, "none", str(joined)])
        stack.callback(run, ["umount", str(joined)])
        self._stack = stack
        self.joined, self.upper = joined / "image", upper / "image"

    def loop(self, file: Path) -> Path:
        """A loop device over the file."""
        node = run(["losetup", "--find", "--show", str(file)]).stdout.strip()
        self._stack.callback(run, ["losetup", "--detach", node])
        return Path(node)

    def used(self, file: Path, program: str) -> Path:
        """The file, which another process uses from now on."""
        argv = [sys.executable, "-c", program, str(file)]
        process = self._stack.enter_context(subprocess.Popen(argv, stdout=subprocess.PIPE))
        self._stack.callback(process.kill)
        assert process.stdout is not None
        assert process.stdout.readline()
        return file


@pytest.fixture
def overlay(tmp_path: Path) -> Iterator[Overlay]:
    with ExitStack() as stack:
        yield Overlay(tmp_path, stack)


IN_LAYER, BY_LOOP, BY_PROCESS = "in a layer of the overlay on", "/dev/loop", "has it open"
# What is the target, who uses it by the other path, and what is said.
STATES: dict[str, tuple[Callable[[Overlay], Path], Callable[[Overlay], Path], str]] = {
    "layer, loop device above": (lambda o: o.upper, lambda o: o.loop(o.joined), IN_LAYER),
    "layer, open above": (lambda o: o.upper, lambda o: o.used(o.joined, HOLD), IN_LAYER),
    "joined, loop device in the layer": (lambda o: o.joined, lambda o: o.loop(o.upper), BY_LOOP),
    "joined, open in the layer": (lambda o: o.joined, lambda o: o.used(o.upper, HOLD), BY_PROCESS),
    "joined, mapped in the layer": (lambda o: o.joined, lambda o: o.used(o.upper, MAP), BY_PROCESS),
    "loop device on the layer": (lambda o: o.loop(o.upper), lambda o: o.loop(o.joined), IN_LAYER),
    "loop device above": (lambda o: o.loop(o.joined), lambda o: o.loop(o.upper), BY_LOOP),
    "loop device above, open in the layer": (
        lambda o: o.loop(o.joined),
        lambda o: o.used(o.upper, HOLD),
        "has the file behind it open",
    ),
}


@pytest.mark.parametrize("state", STATES)
def test_a_file_that_is_used_by_its_other_path_is_refused(overlay: Overlay, state: str) -> None:
    target, user, said = STATES[state]
    asked = inspect(str(target(overlay)))
    user(overlay)

    with pytest.raises(TargetRefused) as refusal:
        guard.check(asked, Consent(overwrite=True, data=True))

    assert said in str(refusal.value)


def test_a_file_or_loop_device_of_an_overlay_that_nobody_else_uses_passes(overlay: Overlay) -> None:
    accepted(inspect(str(overlay.joined)))

    accepted(inspect(str(overlay.loop(overlay.joined))), Consent(overwrite=True))


def test_a_file_beside_the_layers_of_an_overlay_passes(overlay: Overlay) -> None:
    beside = overlay.upper.parents[1] / "beside"
    with beside.open("wb") as file:
        file.truncate(64 * MIB)

    accepted(inspect(str(beside)))
