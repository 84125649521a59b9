"""Host and drive settings for as long as a run lasts, and their restoration after a crash."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ssdbench.errors import UsageError
from ssdbench.generator.fio.placement import read_back
from ssdbench.host.affinity import Pinned
from ssdbench.host.atasecurity import PASSWORD
from ssdbench.host.latency import LatencyHold
from ssdbench.host.numa import Policy
from ssdbench.host.records import settings_directory
from ssdbench.host.sysfs import Sysfs, node_of
from ssdbench.target.inspect import find
from ssdbench.tuning.backends import SettingBackend, backends_of
from ssdbench.tuning.drivebackends import AtaPasswordBackend, NvmeFeatureBackend, WriteCacheBackend
from ssdbench.tuning.journal import Change, NotRestored, SettingsJournal
from ssdbench.tuning.leftovers import forget, restore_all
from ssdbench.tuning.plan import HostPlan
from ssdbench.tuning.setting import Backend, Setting

BOOT_ID = "/proc/sys/kernel/random/boot_id"
HOST_ID = "/etc/machine-id"


@contextmanager
def applied(
    plan: HostPlan, run_id: str, *, directory: Path | None = None
) -> Iterator[tuple[dict[str, str], ...]]:
    """The changes of a plan, each on disk before it is made, undone at the end of the block.

    What a dead run left changed is restored first, but for drives that are not here. Yields what
    was changed, for the report. Raises HostLacks for what cannot be set; NotRestored when something
    cannot be put back.
    """
    directory = directory or settings_directory()
    sysfs = Sysfs()
    with ExitStack() as held:
        if plan.hold_idle:
            held.enter_context(LatencyHold(0))
        held.enter_context(Pinned(plan.own_cpus))
        held.enter_context(Policy.of(plan.own_memory))
        fio = fio_placed(plan)
        if not plan.settings:
            yield (*plan.held(), *fio)
            return
        restore_what_is_here(directory, sysfs)
        with _journal(directory / f"{run_id}.jsonl", sysfs) as journal:
            changes = journal.apply(plan.settings)
            yield (*plan.held(), *fio, *(_entry(change) for change in changes))


def fio_placed(plan: HostPlan) -> tuple[dict[str, str], ...]:
    """NUMA settings of fio as a fio of this very run has them; nothing where none are wanted."""
    if not plan.fio_options:
        return ()
    kept = read_back(plan.fio_options, plan.fio_cpus)
    reason = f"read back from a job of fio: memory {kept['memory']}, CPUs {kept['cpus']}"
    placed = [("NUMA nodes of fio", plan.fio_nodes), ("memory of fio", plan.fio_memory)]
    return tuple(
        {"setting": name, "value": value, "was": "", "drive": "", "reason": reason}
        for name, value in placed
        if value
    )


@contextmanager
def password_noted(drive: str) -> Iterator[Callable[[], None]]:
    """A purge with a password: what is yielded notes it on disk, and must be called before it is
    set. Whatever becomes of the block, at its end, or by `restore` after a crash, it is off again.
    """
    directory, sysfs = settings_directory(), Sysfs()
    restore_what_is_here(directory, sysfs)
    path = directory / f"password-{re.sub('[^A-Za-z0-9.]', '_', drive)[:120]}.jsonl"
    reason = "an ATA erase needs a password"
    password = Setting(Backend.ATA_PASSWORD, "ATA password", PASSWORD, reason, drive)
    with _journal(path, sysfs) as journal:

        def note() -> None:
            journal.remember(password, "")

        yield note


def _journal(path: Path, sysfs: Sysfs) -> SettingsJournal:
    backends = host_backends(sysfs)
    return SettingsJournal(path, backends, boot_id=boot_id(sysfs), host_id=host_id(sysfs))


def restore(*, directory: Path | None = None, sysfs: Sysfs | None = None) -> list[Change]:
    """Put back what dead runs left changed. Raises NotRestored with what could not be."""
    directory, sysfs = directory or settings_directory(), sysfs or Sysfs()
    return restore_all(
        directory, host_backends(sysfs), boot_id=boot_id(sysfs), host_id=host_id(sysfs)
    )


def give_up(drive: str) -> list[Change]:
    """Forget what dead runs changed on a drive that is gone for good; what it was is kept.

    Raises UsageError for a drive that is here, or of which nothing was left changed.
    """
    sysfs = Sysfs()
    if (name := find(drive, sysfs=sysfs)) is not None:
        raise UsageError(
            f"the settings of {drive} can be restored: it is here, as {node_of(name)}",
            hint="`ssdbench restore` restores what a run changed on it",
        )
    return forget(settings_directory(), drive, host_id=host_id(sysfs))


def restore_what_is_here(directory: Path | None = None, sysfs: Sysfs | None = None) -> None:
    """Before a run: what is left of a drive that is not here waits for it, and hinders nobody.

    Raises NotRestored with everything else that could not be put back.
    """
    try:
        restore(directory=directory, sysfs=sysfs)
    except NotRestored as error:
        if not error.of_absent_drives:
            raise


def host_backends(sysfs: Sysfs) -> dict[Backend, SettingBackend]:
    """All backends of this host; a drive is found by its identity wherever it is now."""

    def locate(drive: str) -> str | None:
        return find(drive, sysfs=sysfs)

    return backends_of(
        sysfs,
        locate,
        {
            Backend.NVME_FEATURE: NvmeFeatureBackend(locate),
            Backend.WRITE_CACHE: WriteCacheBackend(sysfs, locate),
            Backend.ATA_PASSWORD: AtaPasswordBackend(locate),
        },
    )


def boot_id(sysfs: Sysfs) -> str:
    """Identity of this boot."""
    return (sysfs.find(BOOT_ID) or "").strip()


def host_id(sysfs: Sysfs) -> str:
    """Identity of this installation, which is not its name: names are given twice."""
    return (sysfs.find(HOST_ID) or "").strip() or f"name {os.uname().nodename}"


def _entry(change: Change) -> dict[str, str]:
    return {
        "setting": change.attribute,
        "value": change.wanted,
        "was": change.was,
        "drive": change.drive,
        "reason": change.reason,
    }
