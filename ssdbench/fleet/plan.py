"""Select the drives of a fleet: ask every host for its drives, and check them before any run."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

from ssdbench.errors import UsageError
from ssdbench.fleet import hostscripts
from ssdbench.fleet.hostscripts import Job
from ssdbench.fleet.inventory import Fleet, Host, Wanted, run_name
from ssdbench.fleet.transport import Silent, Transport
from ssdbench.foreign import plain
from ssdbench.host import command
from ssdbench.units import counted

ASKED_AT_ONCE = 32
SIZE_SHARE = 0.01  # allowed difference of a size, because makers round it
SHOWN = 8  # names in a message
PROTECTS = ", so it protects no drive"
LOCAL_MODEL = "x25m-g2-160"
PROGRAM_NS, SLOW_PROGRAM_NS, SPREAD = 1_560_000, 1_720_000, 0.012  # of the flash of --local drives


@dataclass(frozen=True, slots=True)
class Plan:
    """The runs that `fleet run` would do."""

    jobs: tuple[Job, ...]
    silent: tuple[tuple[str, str], ...] = ()  # hosts that did not answer, and why
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Drive:
    host: Host
    node: str
    identity: str
    model: str
    serial: str
    size_bytes: int
    kind: str
    reasons: tuple[str, ...]
    overridable: bool

    @property
    def where(self) -> str:
        return f"{self.host.name} {self.node}"


def plan(
    fleet: Fleet, consent: frozenset[str], profile_text: str, reach: Transport, file: Path
) -> Plan:
    """Ask every host for its drives. Raises UsageError with all reasons; changes nothing."""
    every, silent = _asked(fleet, reach)
    found = [
        one for one in every
        if any(_fits(one, want) for want in fleet.drives)
        and not any(_fits(one, not_this) for not_this in fleet.exclude)
    ]  # fmt: skip
    jobs = tuple(_job(fleet, one, profile_text) for one in found)
    wrong = [
        *_idle(fleet, every, found, anybody_silent=bool(silent)),
        *_claimed_twice(every, found),
        *_not_writable(fleet, found),
        *_without_consent(fleet, found, consent),
    ]
    if wrong:
        raise UsageError(
            [f"{file}: {one}" for one in wrong],
            hint="Nothing was started. Fix this, or exclude the drives.",
        )
    unused = consent - {one.identity for one in every}
    notes = [f"{plain(one, 80)} has consent, but no host has it" for one in sorted(unused)]
    return Plan(jobs, tuple(silent), (*notes, *_shared_serials(found)))


def local_plan(count: int, profile_text: str, runs: Path, words: Sequence[str]) -> Plan:
    """Plan simulated drives on this machine, with different speeds; every fifth is slow."""
    jobs = []
    for number in range(1, count + 1):
        program_ns = SLOW_PROGRAM_NS if number % 5 == 0 else PROGRAM_NS
        program_ns = round(program_ns * (1 + Random(number).gauss(0, SPREAD)))
        target = f"sim:{LOCAL_MODEL},capacity=256MiB,t_prog={program_ns}ns"
        jobs.append(
            Job(
                name=run_name(target, f"sim-{number:03}", profile_text), host="here",
                address="here", rack="here", target=target, identity=target, model=LOCAL_MODEL,
                serial=str(number),
                runs=str(runs), profile_text=profile_text, ssdbench=tuple(words), simulated=True,
            )
        )  # fmt: skip
    return Plan(tuple(jobs))


def _asked(fleet: Fleet, reach: Transport) -> tuple[list[_Drive], list[tuple[str, str]]]:
    """Return the drives of all hosts that answer, and the hosts that do not answer."""
    asked: set[str] = set()
    over = Event()

    def ask(host: Host) -> list[_Drive] | str:
        asked.add(host.name)
        try:
            if over.is_set():
                return ""
            return [
                _drive(host, one) for one in hostscripts.drives(host.ssh, fleet.ssdbench, reach)
            ]
        except Silent as error:
            return error.message
        finally:
            asked.discard(host.name)

    hosts = fleet.every_host
    with ThreadPoolExecutor(ASKED_AT_ONCE) as threads, command.ending_together(over, asked):
        answers = list(threads.map(ask, hosts))
    every: list[_Drive] = []
    silent: list[tuple[str, str]] = []
    for host, answer in zip(hosts, answers, strict=True):
        if isinstance(answer, str):
            silent.append((host.name, answer))
        else:
            every += answer
    return every, silent


def _drive(host: Host, device: Mapping[str, Any]) -> _Drive:
    reasons = device.get("reasons")
    size = device.get("size_bytes")
    return _Drive(
        host=host,
        node=str(device.get("target", "")),
        identity=str(device.get("id") or ""),
        model=str(device.get("model") or ""),
        serial=str(device.get("serial") or ""),
        size_bytes=size if isinstance(size, int) else 0,
        kind=str(device.get("kind") or ""),
        reasons=tuple(map(str, reasons))
        if isinstance(reasons, list)
        else ("its answer is damaged",),
        overridable=device.get("overridable") is True,
    )


def _fits(one: _Drive, want: Wanted) -> bool:
    size = None if want.size_tb is None else want.size_tb * 1e12
    return (
        fnmatchcase(one.host.name, want.host)
        and fnmatchcase(one.model, want.model)
        and fnmatchcase(one.serial, want.serial)
        and fnmatchcase(one.identity, want.identity)
        and (size is None or abs(one.size_bytes - size) <= SIZE_SHARE * size)
    )


def _idle(
    fleet: Fleet, every: Sequence[_Drive], found: Sequence[_Drive], *, anybody_silent: bool
) -> Iterator[str]:
    """Yield an error for each pattern that matches no drive, because it may be misspelt."""
    for key, wanted, why in (("drives", fleet.drives, ""), ("exclude", fleet.exclude, PROTECTS)):
        for number, want in enumerate(wanted):
            if not any(_fits(one, want) for one in every) and not anybody_silent:
                yield f"{key}[{number}] matches no drive of any host{why}"
    if not found:
        yield "there is no drive to measure"


def _claimed_twice(every: Sequence[_Drive], found: Sequence[_Drive]) -> Iterator[str]:
    by_identity: dict[str, list[_Drive]] = defaultdict(list)
    for one in every:
        by_identity[one.identity].append(one)
    for identity in dict.fromkeys(one.identity for one in found):
        if not identity:
            nameless = [one.where for one in found if not one.identity]
            yield f"{_listed(nameless)}: no identity, so the consent file cannot name the drive"
        elif len(by_identity[identity]) > 1:
            places = _listed([one.where for one in by_identity[identity]])
            yield (
                f"{plain(identity, 120)} is seen as {places}: this is one drive with two paths, or "
                "two drives with the same identity; neither is measured"
            )


def _not_writable(fleet: Fleet, found: Sequence[_Drive]) -> Iterator[str]:
    for one in found:
        if one.reasons and not (one.overridable and fleet.accept):
            yield f"{one.where}: {plain('; '.join(one.reasons), 400)}"


def _without_consent(
    fleet: Fleet, found: Sequence[_Drive], consent: frozenset[str]
) -> Iterator[str]:
    lacking = [one for one in found if one.identity not in consent]
    if lacking and not fleet.consent:
        yield f"{counted(len(lacking), 'drive')} would be erased, but there is no `consent:` file"
    elif lacking:
        told = _listed([f"{plain(one.identity, 120)} ({one.where})" for one in lacking])
        yield f"{fleet.consent} does not name {told}"


def _shared_serials(found: Sequence[_Drive]) -> Iterator[str]:
    by_serial: dict[tuple[str, str], list[str]] = defaultdict(list)
    for one in found:
        if one.serial:
            by_serial[one.model, one.serial].append(one.where)
    for (_, serial), places in by_serial.items():
        if len(places) > 1:
            shown = f"serial {plain(serial, 80)} is reported by {_listed(places)}"
            yield f"{shown}; the identities of these drives differ"


def _job(fleet: Fleet, one: _Drive, profile_text: str) -> Job:
    return Job(
        name=run_name(one.identity, one.model, profile_text),
        host=one.host.name,
        address=one.host.ssh,
        rack=one.host.rack,
        target=one.node,
        identity=one.identity,
        model=one.model,
        serial=one.serial,
        runs=f"{fleet.runs}/{fleet.title}",
        profile_text=profile_text,
        ssdbench=fleet.ssdbench,
        options=tuple(f"--{name}" for name in fleet.accept),
        watts=fleet.limits.drive_watts if fleet.limits.rack_watts is not None else 0.0,
    )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:SHOWN])
    return f"{shown} and {len(names) - SHOWN} more" if len(names) > SHOWN else shown
