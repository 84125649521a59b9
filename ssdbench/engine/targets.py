"""Open a target for a run or a purge: check host and consent, lock host and target, claim it."""

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ssdbench.engine.claimedsession import ClaimedSession
from ssdbench.engine.resumeconsent import records_content
from ssdbench.engine.session import Counters, TargetSession
from ssdbench.engine.simulatedsession import SimulatedSession
from ssdbench.errors import HostLacks, SsdbenchError, TargetRefused, UsageError
from ssdbench.generator.fio.attachment import ENGINE
from ssdbench.generator.fio.driver import usable
from ssdbench.generator.fio.jobfile import filename
from ssdbench.generator.fio.simulated import ENGINE as SIM_ENGINE
from ssdbench.generator.slam import NAME as SLAM_MODULE
from ssdbench.generator.slam import require_loaded
from ssdbench.host.lock import host_lock, led, target_lock
from ssdbench.model.fitting import unoffered
from ssdbench.model.profile import Applies, Purge
from ssdbench.model.target import Consent, LbaFormat, TargetInfo, TargetKind
from ssdbench.target import content
from ssdbench.target.claim import Claim
from ssdbench.target.consent import require_consent
from ssdbench.target.content import Look, Watch
from ssdbench.target.purge import Purged


def require_able(info: TargetInfo) -> str:
    """Return the generator that can measure a target on this host, such as `fio 3.33`.

    `require_able` only checks and changes nothing. Raises HostLacks if this host or user cannot
    measure the target, UsageError for a file name that fio cannot open.
    """
    device = info.kind not in (TargetKind.FILE, TargetKind.SIMULATED)
    if info.kind is TargetKind.FILE:
        filename(info.node)
    if device and os.geteuid() != 0:
        raise HostLacks(
            f"only root can measure {info.name}, a block device",
            hint="run the same command with sudo, or measure a file or a sim:MODEL",
        )
    return usable(SIM_ENGINE if info.simulated else ENGINE)


def require_generator(applies: Applies, info: TargetInfo, modules: Collection[str]) -> None:
    """Raise UsageError or HostLacks if the profile's generator does not work on this target.

    `modules` are the kernel modules that the run will load, so they need not be loaded yet.
    """
    if applies is Applies.FIO:
        return
    if info.simulated or info.kind is TargetKind.FILE:
        raise UsageError(
            f"`generator: slam` needs a block device, but {info.name} is not a block device",
            hint="Set `generator: fio`, or measure a drive of ssdb_flash in the lab.",
        )
    if SLAM_MODULE not in modules:
        require_loaded()


@contextmanager
def claimed(
    info: TargetInfo,
    run_path: Path,
    consent: Consent,
    *,
    destroys: bool = True,
    before_signatures: Callable[[], None] = lambda: None,
    fio_cpus: Collection[int] = (),
    fio_options: Mapping[str, str] | None = None,
    applies: Applies = Applies.FIO,
    locked: bool = False,
    seen: Look | None = None,
) -> Iterator[TargetSession]:
    """Lock the host and the target, and open the target for a `with` block.

    `destroys` is False for work that only reads. `before_signatures` is called before file systems
    are made on the target. `locked` means that the caller already holds the lock of the host.
    `seen` has samples of the target's content from the time of consent; if `seen` is None, the
    samples are read now. A simulated drive needs no lock of the host. Raises TargetRefused with all
    reasons, HostLacks if another run uses this host.
    """
    watched, unseen = destroys and records_content(info), ""
    if watched and seen is None:
        try:
            seen = content.look(info)
        except OSError as error:
            unseen = f"cannot tell what it holds: {error.strerror or error}"
    require_consent(info, consent, destroys=destroys)
    if unseen:
        raise TargetRefused(info.name, [unseen])
    with ExitStack() as held:
        session: TargetSession
        if info.simulated:
            session = SimulatedSession(info, run_path)
        else:
            if not locked and not led():
                held.enter_context(host_lock())
            held.enter_context(target_lock(info.id))
            claim = held.enter_context(Claim(info, consent if destroys else consent.overwriting()))
            session = ClaimedSession(
                info,
                claim,
                fio_cpus=fio_cpus,
                fio_options=fio_options,
                applies=applies,
                before_signatures=before_signatures,
                watch=Watch(info, consent.run, seen) if watched and seen is not None else None,
            )
        held.callback(session.close)
        before = session.counters()
        try:
            yield session
        finally:
            if watched and (info.kind is TargetKind.FILE or not _untouched(session, before)):
                content.remember(session.info, run=consent.run)


def _untouched(session: TargetSession, before: Counters) -> bool:
    """Tell whether a target was not written since `before`; True if the drive is gone."""
    if isinstance(session, ClaimedSession) and session.wrote_past_the_kernel:
        return False
    try:
        now = session.counters()
    except SsdbenchError:
        return True
    same = now.written_bytes == before.written_bytes
    return same and now.discarded_bytes == before.discarded_bytes


def retired(
    info: TargetInfo,
    method: Purge,
    consent: Consent,
    *,
    lba_format: LbaFormat | None = None,
) -> Purged:
    """Purge a drive outside of a run; check, ask for consent, lock and claim as a run does.

    Raises TargetRefused with all reasons, UsageError for an LBA format that the drive does not
    offer.
    """
    if info.kind in (TargetKind.FILE, TargetKind.SIMULATED):
        raise TargetRefused(info.name, ["it is not a block device: delete it instead"])
    if info.zone_bytes:
        raise TargetRefused(info.name, ["it is zoned, and no purge of such drives has been tried"])
    if lba_format is not None and (why := unoffered(lba_format, info)):
        raise UsageError(why)
    require_consent(info, consent)
    with host_lock(), target_lock(info.id), Claim(info, consent) as claim:
        session = ClaimedSession(info, claim)
        done = session.reformat(lba_format) if lba_format else session.purge(method)
        content.remember(session.info)
        return done
