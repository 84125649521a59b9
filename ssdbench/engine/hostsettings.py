"""Change settings of host and drive for a run, and restore them at its end or after a crash."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ssdbench.errors import UsageError
from ssdbench.generator.fio.dryruns import read_back, require_numa
from ssdbench.host import kmod
from ssdbench.host.counters import counted_disks
from ssdbench.host.facts import drive_facts, host_facts
from ssdbench.host.files import settings_directory
from ssdbench.host.placement import memory_policy, pinned, shallow_idle
from ssdbench.host.scsi import ATA_PASSWORD
from ssdbench.host.sensors import Heat, drive_heat
from ssdbench.host.sysfs import Sysfs, node_of
from ssdbench.host.topology import topology
from ssdbench.model.findings.host import BlockNotSet, SettingsLeft
from ssdbench.model.inside import BlockSizeFound
from ssdbench.model.profile import Detect, Host
from ssdbench.model.target import TargetInfo
from ssdbench.target.inspect import find, kernel_name
from ssdbench.target.pages import Protocol, protocol
from ssdbench.tuning.backends import THERE, SettingBackend, backends_of
from ssdbench.tuning.journal import Change, NotRestored, SettingsJournal, forget, restore_all
from ssdbench.tuning.plan import HostPlan, drive_settings, host_plan, preference_settings
from ssdbench.tuning.setting import Backend, Setting


def current_facts(info: TargetInfo) -> dict[str, str]:
    """Read facts about the host and about how the drive is connected, by name."""
    return host_facts() | drive_facts(kernel_name(info))


def target_heat(info: TargetInfo) -> Heat | None:
    """Read the drive's temperature; None for a target without a sensor."""
    kernel = "" if info.simulated else kernel_name(info)
    return drive_heat(kernel) if kernel else None


def planned_host(wishes: Host, info: TargetInfo, sysfs: Sysfs | None = None) -> HostPlan:
    """Plan the settings of a run on this target. Raises HostLacks if a setting is not available."""
    if info.simulated:
        left = tuple(f"{name} {value}" for name, value in wishes.changes().items())
        return HostPlan(notes=(SettingsLeft(left).message(),) if left else (), left=left)
    sysfs = sysfs or Sysfs()
    name = kernel_name(info, sysfs=sysfs)
    planned = host_plan(wishes, topology(name, sysfs), info.here)
    require_numa(planned.fio_options)
    inside = drive_settings(wishes, _bus(name, sysfs), info.here)
    modules = (_module(name, sysfs) for name in kmod.with_needs(wishes.kernel_modules))
    clock = our_clock(name, info.here, sysfs)
    return replace(planned, settings=(*clock, *modules, *planned.settings, *inside))


def our_clock(name: str, drive: str, sysfs: Sysfs) -> tuple[Setting, ...]:
    """Plan to set the kernel's I/O counters of the drive to their usual mode, if needed.

    ssdbench reads each second of a run from the kernel's counters, so they must count (`iostats`).
    If `iostats_passthrough` is on (newer kernels), they also count NVMe passthrough commands, which
    would look like I/O of other programs.
    """
    reason = "every second of a run comes from the kernel's counters"
    wanted = (("queue/iostats", "1"), ("queue/iostats_passthrough", "0"))
    return tuple(
        Setting(Backend.BLOCK, attribute, value, reason, drive)
        for attribute, value in wanted
        if name
        and any(
            (sysfs.find(f"/sys/block/{disk}/{attribute}") or value).strip() != value
            for disk in counted_disks(name, sysfs)
        )
    )


def _module(name: str, sysfs: Sysfs) -> Setting:
    """Plan to load a kernel module: ssdbench's own modules by file, other modules by name."""
    reason = "asked for by the profile"
    bundled = next((s for s in kmod.states(sysfs, kmod.built_directory()) if s.name == name), None)
    if bundled is None:
        kmod.require_of_kernel(name, sysfs.root)
        return Setting(Backend.MODULE, name, THERE, reason)
    if bundled.built is None and not bundled.loaded:
        raise kmod.unbuilt(name)
    return Setting(Backend.MODULE, str(bundled.built or name), THERE, reason)


def _bus(name: str, sysfs: Sysfs) -> str:
    """Return the protocol that changes settings inside the drive, such as "nvme", or "none"."""
    spoken = protocol(name, sysfs)
    if spoken is Protocol.NONE and sysfs.exists(f"/sys/block/{name}/cache_type"):
        return "virtio"
    return spoken.value


BLOCK_MODULE = "ssdb_bpref"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
HOST_ID = "/etc/machine-id"


@contextmanager
def applied(plan: HostPlan, run_id: str) -> Iterator[tuple[dict[str, str], ...]]:
    """Apply planned settings for a `with` block; each change is stored on disk before it is made.

    Settings that a killed run left changed are restored first, except on absent drives. The block
    gets a list of the changes for the report. Raises HostLacks if a setting cannot be changed,
    NotRestored if it cannot be restored.
    """
    directory, sysfs = settings_directory(), Sysfs()
    with ExitStack() as held:
        if plan.hold_idle:
            held.enter_context(shallow_idle())
        held.enter_context(pinned(plan.own_cpus))
        held.enter_context(memory_policy(plan.own_memory))
        fio = fio_placed(plan)
        if not plan.settings:
            yield (*plan.held(), *fio)
            return
        restore_what_is_here(directory, sysfs)
        with _journal(directory / f"{run_id}.jsonl", sysfs) as journal:
            changes = journal.apply(plan.settings)
            yield (*plan.held(), *fio, *(_entry(change) for change in changes))


@dataclass(frozen=True, slots=True)
class BlockPreference:
    """Set the scheduler for `block: detect` once the block is known; `held` undoes this."""

    scheduler: str  # as the profile names it
    drive: str
    module: Setting
    run_id: str
    held: ExitStack

    def settle(self, found: BlockSizeFound) -> tuple[dict[str, str], ...] | BlockNotSet:
        """Set the scheduler and its block size; set nothing if the block size is uncertain.

        Raises HostLacks if a setting cannot be made.
        """
        wanted = preference_settings(self.scheduler, found, self.drive)
        if not wanted:
            return BlockNotSet(self.scheduler, found.answer)
        plan = HostPlan(settings=(self.module, *wanted))
        return self.held.enter_context(applied(plan, f"{self.run_id}-block"))


def block_preference(
    wishes: Host, info: TargetInfo, run_id: str, held: ExitStack
) -> BlockPreference | None:
    """Prepare to set the scheduler to the block size that a run finds; None if not requested.

    The result is also None for a simulated drive, which has no scheduler. Raises HostLacks if the
    kernel module is missing.
    """
    if wishes.block is Detect.KEEP or info.simulated:
        return None
    module = _module(BLOCK_MODULE, Sysfs())
    return BlockPreference(wishes.scheduler, info.here, module, run_id, held)


def fio_placed(plan: HostPlan) -> tuple[dict[str, str], ...]:
    """Start fio with the planned NUMA settings, if any; return what the kernel applied."""
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
    """Yield a function that notes on disk: the next command sets an ATA password.

    The password is removed at the end of the `with` block, or by `restore` after a crash.
    """
    directory, sysfs = settings_directory(), Sysfs()
    restore_what_is_here(directory, sysfs)
    path = directory / f"password-{re.sub('[^A-Za-z0-9.]', '_', drive)[:120]}.jsonl"
    reason = "an ATA erase needs a password"
    password = Setting(Backend.ATA_PASSWORD, "ATA password", ATA_PASSWORD, reason, drive)
    with _journal(path, sysfs) as journal:

        def note() -> None:
            journal.remember(password, "")

        yield note


def _journal(path: Path, sysfs: Sysfs) -> SettingsJournal:
    backends = host_backends(sysfs)
    return SettingsJournal(path, backends, boot_id=boot_id(sysfs), host_id=host_id(sysfs))


def restore(*, directory: Path | None = None, sysfs: Sysfs | None = None) -> list[Change]:
    """Restore all settings that killed runs left changed. Raises NotRestored with the failures."""
    directory, sysfs = directory or settings_directory(), sysfs or Sysfs()
    return restore_all(
        directory, host_backends(sysfs), boot_id=boot_id(sysfs), host_id=host_id(sysfs)
    )


def give_up(drive: str) -> list[Change]:
    """Stop trying to restore settings of a drive that will not come back; keep the record.

    Raises UsageError for a drive that is present, or on which no setting was left changed.
    """
    sysfs = Sysfs()
    if (name := find(drive, sysfs=sysfs)) is not None:
        raise UsageError(
            f"the settings of {drive} can be restored: it is present as {node_of(name)}",
            hint="`ssdbench restore` restores what a run changed on it",
        )
    return forget(settings_directory(), drive, host_id=host_id(sysfs))


def restore_what_is_here(directory: Path | None = None, sysfs: Sysfs | None = None) -> None:
    """Restore the settings that killed runs left changed on the host and on present drives.

    Raises NotRestored if a setting cannot be restored; failures on absent drives are ignored.
    """
    try:
        restore(directory=directory, sysfs=sysfs)
    except NotRestored as error:
        if not error.of_absent_drives:
            raise


def host_backends(sysfs: Sysfs) -> dict[Backend, SettingBackend]:
    """Return, for each kind of setting, the code that reads and changes it on this host."""
    return backends_of(sysfs, lambda drive: find(drive, sysfs=sysfs))


def boot_id(sysfs: Sysfs) -> str:
    """Return the kernel's identifier of this boot."""
    return (sysfs.find(BOOT_ID) or "").strip()


def host_id(sysfs: Sysfs) -> str:
    """Return the machine id of this host; without one, its host name, which may not be unique."""
    return (sysfs.find(HOST_ID) or "").strip() or f"name {os.uname().nodename}"


def _entry(change: Change) -> dict[str, str]:
    return {
        "setting": change.attribute,
        "value": change.wanted,
        "was": change.was,
        "drive": change.drive,
        "reason": change.reason,
    }
