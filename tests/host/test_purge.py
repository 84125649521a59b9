"""A purge of a real loop device: what it held is gone, and the evidence shows it."""

import os

from ssdbench.model.profile import Purge
from ssdbench.target.claim import Claim
from ssdbench.target.inspect import inspect
from ssdbench.target.purge import purge
from tests.support.devices import LoopDevice


def test_discards_are_made_over_everything_and_labelled_a_fallback(
    loop_device: LoopDevice,
) -> None:
    with loop_device.node.open("r+b", buffering=0) as disk:
        for _ in range(16):
            disk.write(b"x" * (4 << 20))
        os.fsync(disk.fileno())
    info = inspect(str(loop_device.node))

    with Claim(info) as claim:
        assert claim.fd is not None
        done = purge(info, Purge.DISCARD, claim.fd)

    assert done.fallback
    assert done.before["samples that read as zeros"] == "0 of 64"
    assert done.after["samples that read as zeros"] == "64 of 64"
    assert not any(loop_device.backing.read_bytes())
