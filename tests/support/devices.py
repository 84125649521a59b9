"""Loop devices over files of the test, detached whatever happens."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from ssdbench.errors import TargetRefused
from ssdbench.host.command import run
from ssdbench.model.target import Consent, TargetInfo
from ssdbench.target import guard
from ssdbench.units import MIB

BLOCK_SIZES = {"512-byte-blocks": 512, "4096-byte-blocks": 4096}
# For tests in which nothing reads the size of a block: the second one in soak.
ONE_BLOCK_SIZE = pytest.mark.parametrize(
    "loop_device",
    [
        pytest.param(size, id=name, marks=() if size == 512 else pytest.mark.soak)
        for name, size in BLOCK_SIZES.items()
    ],
    indirect=True,
)


@dataclass(frozen=True, slots=True)
class LoopDevice:
    """A loop device and the file behind it."""

    node: Path
    backing: Path
    size_bytes: int
    block_bytes: int

    @staticmethod
    @contextmanager
    def several(directory: Path) -> Iterator[Callable[..., "LoopDevice"]]:
        """A function that attaches one loop device after another."""
        with ExitStack() as stack:
            made = 0

            def make(*, size_bytes: int = 64 * MIB, block_bytes: int = 512) -> LoopDevice:
                nonlocal made
                made += 1
                return stack.enter_context(
                    attached_loop(
                        directory / f"disk{made}.img",
                        size_bytes=size_bytes,
                        block_bytes=block_bytes,
                    )
                )

            yield make


@contextmanager
def attached_loop(
    backing: Path, *, size_bytes: int = 64 * MIB, block_bytes: int = 512
) -> Iterator[LoopDevice]:
    """An empty loop device over a new sparse file."""
    with backing.open("wb") as file:
        file.truncate(size_bytes)
    argv = ["losetup", "--find", "--show", "--direct-io=on", "-b", str(block_bytes), str(backing)]
    node = Path(run(argv).stdout.strip())
    try:
        # Whoever had it before may have left it read-only, or with a partition that the kernel
        # alone knew: detaching does not undo that.
        run(["blockdev", "--setrw", str(node)])
        for part in Path("/sys/block", node.name).glob(f"{node.name}p*"):
            number = (part / "partition").read_text().strip()
            run(["partx", "--delete", "--nr", number, str(node)], ok=(0, 1))
        yield LoopDevice(node, backing, size_bytes, block_bytes)
    finally:
        run(["losetup", "--detach", str(node)])


@contextmanager
def shown_partitions(node: Path) -> Iterator[None]:
    """Have the kernel read a device's partition table, and forget it again."""
    run(["partx", "--add", str(node)], ok=(0, 1))  # whoever wrote the table may have had it read
    parts = f"{node.name}p*"
    assert list(Path("/sys/block", node.name).glob(parts))
    try:
        yield
    finally:
        # What looks at all devices of the host has a partition open for a moment, which keeps it.
        deadline = time.monotonic() + 120
        while list(Path("/sys/block", node.name).glob(parts)):
            assert time.monotonic() < deadline, f"{node} keeps its partitions"
            run(["partx", "--delete", str(node)], ok=(0, 1))


def accepted(info: TargetInfo, consent: Consent | None = None) -> None:
    """Check that the guard accepts a target; wait for a losetup of another test to close it."""
    deadline = time.monotonic() + 10
    while True:
        try:
            return guard.check(info, consent or Consent())
        except TargetRefused as refusal:
            if "(losetup) has" not in str(refusal) or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
