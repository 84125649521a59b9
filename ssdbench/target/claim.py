"""Holding a target for a whole run, so that nobody else can take it and it cannot change."""

import os
from pathlib import Path
from typing import Self

from ssdbench.errors import DeviceLost, SsdbenchError, TargetRefused
from ssdbench.host import blockdev
from ssdbench.model.target import TargetInfo, TargetKind
from ssdbench.target import fileguard, guard
from ssdbench.target.inspect import inspect


class Claim:
    """An exclusive hold on a target from `with` to its end.

    Entering examines the target again once it is held, because it may have been taken between
    the first look and the claim. `fd` is inherited by generators: the target stays busy until
    the last of them has ended. A simulated drive has no descriptor; its state file locks itself.
    """

    def __init__(
        self, info: TargetInfo, *, overwrite_signatures: bool = False, accept_shared: bool = False
    ) -> None:
        self._info = info
        self._overwrite = overwrite_signatures
        self._shared = accept_shared
        self.fd: int | None = None

    def __enter__(self) -> Self:
        if self._info.kind is TargetKind.SIMULATED:
            return self
        self.fd = self._open()
        try:
            self.check()
            if self._info.kind is TargetKind.FILE:
                fileguard.prepare(self._info, self.fd)
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self._release()

    def check(self) -> None:
        """Require, before each destructive step, the same target and no new objection.

        Raises DeviceLost when it is another one or gone, TargetRefused when it is in use.
        """
        if self._info.kind is TargetKind.SIMULATED:
            return
        self._same()
        guard.check(
            self._info, overwrite_signatures=self._overwrite, accept_shared=self._shared, ours=True
        )

    def _same(self) -> None:
        try:
            now = inspect(self._info.node)
        except SsdbenchError as error:
            raise DeviceLost(f"{self._info.name} is gone: {error.message}") from error
        if (now.id, now.size_bytes) != (self._info.id, self._info.size_bytes):
            raise DeviceLost(
                f"{self._info.name} was {self._info.id} with {self._info.size_bytes} bytes and "
                f"is now {now.id} with {now.size_bytes}",
                hint="the drive was exchanged or changed: start again with `ssdbench drives`",
            )

    def _open(self) -> int:
        if self._info.kind is TargetKind.FILE:
            return fileguard.claim(self._info)
        try:
            return blockdev.claim(Path(self._info.node))
        except BlockingIOError as error:
            raise TargetRefused(
                self._info.name, ["the kernel or a process has claimed it for itself"]
            ) from error

    def _release(self) -> None:
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None
