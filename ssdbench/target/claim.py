"""Claim a target for a whole run, so that no other program can use or change it."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Self

from ssdbench.errors import DeviceLost, SsdbenchError, TargetRefused
from ssdbench.host import blockdev, regular
from ssdbench.model.target import Consent, TargetInfo, TargetKind
from ssdbench.target import fileguard, guard
from ssdbench.target.identity import differences
from ssdbench.target.inspect import inspect


class Claim:
    """Hold a target exclusively during a `with` block.

    After the target is claimed, it is checked once more, because it may have changed since the
    first check. Generators inherit `fd`, so the target stays claimed until the last generator has
    ended. A block device is also locked against udev, which would otherwise read the device
    whenever fio closes it. A simulated drive has no descriptor here; its state file is locked
    instead.

    Some steps, such as mkfs, mount, or a kernel module, cannot use a claimed device. Such a step
    runs inside `released`, which releases the claim only for this step.
    """

    def __init__(self, info: TargetInfo, consent: Consent = guard.NO_CONSENT) -> None:
        self._info = info
        self._consent = consent.of_run(consent.run or token_hex())
        self._udev_off: int | None = None
        self._prepared = False  # the target is a file, marked as ssdbench's
        self.fd: int | None = None

    def __enter__(self) -> Self:
        if self._info.kind is TargetKind.SIMULATED:
            return self
        self._udev_off = self._keep_udev_off()
        try:
            self.fd = self._open()
            self.check()
            if self._info.kind is TargetKind.FILE:
                fileguard.prepare(self._info, self.fd, self._consent.run)
                self._prepared = True
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            self._give_back()
        finally:
            self._release()

    def check(self) -> None:
        """Check, before each destructive step, that the target is the same and free.

        Raises DeviceLost if the target was replaced or is gone, TargetRefused if there are new
        objections.
        """
        if self._info.kind is TargetKind.SIMULATED:
            return
        self._same()
        guard.check(self._info, self._consent, held=self.fd)

    def formatted(self, info: TargetInfo) -> None:
        """Accept the format and size that this run gave the drive. Raises DeviceLost."""
        if info.major_minor != self._info.major_minor or info.node != self._info.node:
            raise DeviceLost(
                f"{self._info.name} was replaced by another device while it was formatted"
            )
        self._info = info
        self.check()

    @contextmanager
    def released(
        self,
        reason: str,
        note: Callable[[str], None],
        *,
        leaves_signatures: bool = False,
    ) -> Iterator[None]:
        """Release the claim during one step that cannot work on a claimed device.

            with claim.released("make a file system", journal.note, leaves_signatures=True):
                command.run(["mkfs.ext4", "-q", info.node])

        All safety rules are checked before the claim is released and after it is taken again. The
        lock against udev is kept (https://systemd.io/BLOCK_DEVICE_LOCKING), so programs of the step
        must not wait for this lock. `note` stores a sentence on disk; it is called before the
        release and after the claim is taken again. `leaves_signatures` means that from now on,
        signatures on the target are taken as written by us. At the end of the step, everything that
        it mounted or built must be gone. The claim of a file is not released, and a simulated drive
        is not claimed.

        Raises TargetRefused or DeviceLost: before the step if another program uses the target,
        after the step if another program took the target or it was replaced. An error of the step
        itself has priority.
        """
        if self.fd is None or self._info.kind is TargetKind.FILE:
            yield
            return
        self.check()
        note(f"the claim is given up: {reason}")
        if leaves_signatures:
            self._consent = self._consent.overwriting()
        os.close(self.fd)
        self.fd = None
        try:
            yield
        except BaseException:
            with suppress(SsdbenchError):  # the error of the step has priority
                self.fd = self._open()
            raise
        self.fd = self._open()
        self.check()
        note(f"the claim is held again: {reason}")

    def _give_back(self) -> None:
        """Mark a file's content as written by us, unless another program may have written to it."""
        if self.fd is None or not self._prepared:
            return
        try:
            self.check()
        except SsdbenchError:
            return  # the file stays marked as in use, so the next run asks
        fileguard.give_back(self._info, self.fd)

    def _same(self) -> None:
        try:
            now = inspect(self._info.node)
        except SsdbenchError as error:
            raise DeviceLost(f"{self._info.name} is gone: {error.message}") from error
        was = self._info
        changed = differences((now.model, now.serial), (was.model, was.serial))
        # Compare the last byte, not the size: the size shrinks if a zone becomes read-only.
        if (now.id, now.end_bytes) != (was.id, was.end_bytes):
            changed.insert(
                0,
                f"was {was.id} with {was.end_bytes} bytes and is now {now.id} with {now.end_bytes}",
            )
        if changed:
            raise DeviceLost(
                f"{was.name} {'; '.join(changed)}",
                hint="the drive was replaced or resized: check it with `ssdbench drives`, then "
                "start again",
            )
        if self.fd is not None:
            still = regular.still if now.kind is TargetKind.FILE else blockdev.still
            still(Path(self._info.node), self.fd, size_bytes=now.end_bytes)

    def _open(self) -> int:
        if self._info.kind is TargetKind.FILE:
            return fileguard.claim(self._info)
        try:
            return blockdev.claim(Path(self._info.node))
        except BlockingIOError as error:
            raise TargetRefused(
                self._info.name, ["the kernel or another process has claimed it (O_EXCL)"]
            ) from error

    def _keep_udev_off(self) -> int | None:
        if self._info.kind is TargetKind.FILE:
            return None
        try:
            return blockdev.locked_against_udev(Path(self._info.node))
        except BlockingIOError as error:
            raise TargetRefused(
                self._info.name, ["another process, such as a formatting tool, holds its lock"]
            ) from error

    def _release(self) -> None:
        for descriptor in (self.fd, self._udev_off):
            if descriptor is not None:
                os.close(descriptor)
        self.fd = self._udev_off = None
