"""Select the drives of a fleet: ask every host for its drives, and check them before any run."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

from ssdbench import __version__
from ssdbench.errors import UsageError
from ssdbench.fleet import hostscripts
from ssdbench.fleet.hostscripts import Job
from ssdbench.fleet.inventory import Fleet, Host, Wanted, run_name
from ssdbench.fleet.transport import Silent, Transport
from ssdbench.foreign import plain
from ssdbench.host import command
from ssdbench.model.result import METHOD
from ssdbench.sim import spec
from ssdbench.units import counted

ASKED_AT_ONCE = 32
SIZE_SHARE = 0.01  # tolerance for drive sizes, because makers round them
SHOWN = 8  # most names listed in a message
PROTECTS = ", so it protects no drive"
LOCAL_MODEL = "x25m-g2-160"
SLOW, SPREAD = 172 / 156, 0.012  # program time of every fifth drive, and relative spread of all


@dataclass(frozen=True, slots=True)
class Plan:
    """The runs that `fleet run` would start, and the mistakes; one mistake prevents all runs."""

    jobs: tuple[Job, ...]
    silent: tuple[tuple[str, str], ...] = ()  # hosts that did not answer, and why
    notes: tuple[str, ...] = ()
    mistakes: tuple[str, ...] = ()
    against: tuple[str, ...] = ()  # for each job, why the drive cannot be measured

    def require_no_mistake(self) -> None:
        """Raise UsageError that lists all mistakes, if there are any."""
        if self.mistakes:
            raise UsageError(
                self.mistakes, hint="Nothing was started. Fix this, or exclude the drives."
            )


@dataclass(frozen=True, slots=True)
class _Answer:
    """The answer of one host: its drives, or the reason why it gave no usable answer."""

    drives: tuple["_Drive", ...] = ()
    version: str = ""
    method: int = METHOD
    silent: str = ""
    wrong: str = ""


@dataclass(frozen=True, slots=True)
class _Drive:
    host: Host
    node: str
    identity: str
    model: str
    serial: str
    size_bytes: int
    reasons: tuple[str, ...]
    overridable: bool

    @property
    def where(self) -> str:
        return f"{self.host.name} {self.node}"


def plan(
    fleet: Fleet, consent: frozenset[str], profile_text: str, reach: Transport, file: Path
) -> Plan:
    """Ask every host for its drives, and find all mistakes; change nothing on the hosts."""
    hosts = fleet.every_host
    answers = dict(zip(hosts, _asked(fleet, hosts, reach), strict=True))
    silent = tuple((host.name, one.silent) for host, one in answers.items() if one.silent)
    versions = {host.name: one.version for host, one in answers.items()}
    wrong = list(_unusable(answers))
    if fleet.targets:
        answering = [host for host, one in answers.items() if not one.silent and not one.wrong]
        jobs = tuple(_simulated(fleet, answering, profile_text, versions))
        return Plan(jobs, silent, tuple(version_notes(versions)), _told(file, wrong))
    every = [drive for one in answers.values() for drive in one.drives]
    found = [
        one for one in every
        if any(_fits(one, want) for want in fleet.drives)
        and not any(_fits(one, not_this) for not_this in fleet.exclude)
    ]  # fmt: skip
    jobs = tuple(
        replace(_job(fleet, one, profile_text), version=versions[one.host.name]) for one in found
    )
    wrong += [
        *_idle(fleet, every, found, anybody_silent=bool(silent or wrong)),
        *_claimed_twice(every, found),
        *_not_writable(fleet, found),
        *_without_consent(fleet, found, consent),
    ]
    unused = consent - {one.identity for one in every}
    notes = [f"{plain(one, 80)} has consent, but no host has it" for one in sorted(unused)]
    notes += [*version_notes(versions), *_shared_serials(found)]
    count = Counter(one.identity for one in every)
    against = tuple(
        "; ".join(
            [
                *(["seen more than once"] if count[one.identity] > 1 else []),
                *_objections(fleet, one),
                *([] if one.identity in consent else ["no consent"]),
            ]
        )
        for one in found
    )
    return Plan(jobs, silent, tuple(notes), _told(file, wrong), against)


def _told(file: Path, wrong: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{file}: {one}" for one in wrong)


def version_notes(versions: Mapping[str, str]) -> Iterator[str]:
    """Yield a note for each version of ssdbench that hosts have, if it is not the version here."""
    for other in sorted(set(versions.values()) - {"", __version__}):
        hosts = _listed([name for name, version in versions.items() if version == other])
        yield f"ssdbench is {plain(other, 40)} on {hosts}, and {__version__} here"


def _unusable(answers: Mapping[Host, _Answer]) -> Iterator[str]:
    """Yield an error for each host whose ssdbench does not work or measures by another METHOD."""
    for host, one in answers.items():
        if one.wrong:
            yield f"{host.name}: {one.wrong}"
        elif one.method != METHOD:
            yield (
                f"{host.name}: its ssdbench {plain(one.version, 40)} measures by method "
                f"{one.method}, ssdbench {__version__} here by method {METHOD}; their results "
                "must not be mixed: install one version"
            )


def local_plan(count: int, profile_text: str, runs: Path, words: Sequence[str]) -> Plan:
    """Plan runs of `count` simulated drives on this machine; their flash program times differ."""
    jobs = []
    for number in range(1, count + 1):
        target = _varied(f"sim:{LOCAL_MODEL},capacity=256MiB", number)
        jobs.append(
            Job(
                name=run_name(target, f"sim-{number:03}", profile_text), host="here",
                address="here", rack="here", target=target, identity=target, model=LOCAL_MODEL,
                serial=str(number),
                runs=str(runs), profile_text=profile_text, ssdbench=tuple(words), simulated=True,
            )
        )  # fmt: skip
    return Plan(tuple(jobs))


def _varied(target: str, number: int) -> str:
    """Return a simulated drive with a random flash program time, unless `target` sets it."""
    simulated = spec.parse(target)
    if "t_prog" in simulated.text:
        return simulated.text
    factor = (1 + Random(number).gauss(0, SPREAD)) * (SLOW if number % 5 == 0 else 1)
    return f"{target},t_prog={round(simulated.params['t_prog_ns'] * factor)}ns"


def _simulated(
    fleet: Fleet, hosts: Sequence[Host], profile_text: str, versions: Mapping[str, str]
) -> Iterator[Job]:
    """Yield a run for each simulated drive of each host; the drives differ as in one lot."""
    place = {host.name: number for number, host in enumerate(fleet.every_host)}
    for host in hosts:
        for number, target in enumerate(fleet.targets, 1):
            serial = place[host.name] * len(fleet.targets) + number
            own = _varied(target, serial)
            model = spec.parse(own).model
            drive = _Drive(host, own, own, model, str(serial), 0, (), overridable=False)
            yield replace(
                _job(fleet, drive, profile_text), version=versions[host.name], simulated=True,
                name=run_name(f"{host.name} {own}", drive.model, profile_text),
            )  # fmt: skip


def _asked(fleet: Fleet, hosts: Sequence[Host], reach: Transport) -> list[_Answer]:
    """Ask all hosts for their drives, ASKED_AT_ONCE at a time; return the answers in order."""
    asked: set[str] = set()
    over = Event()

    def ask(host: Host) -> _Answer:
        asked.add(host.name)
        try:
            if over.is_set():
                return _Answer()
            devices, version, method = hostscripts.drives(host.ssh, fleet.ssdbench, reach)
            return _Answer(tuple(_drive(host, one) for one in devices), version, method)
        except Silent as error:
            return _Answer(silent=error.message)
        except UsageError as error:
            return _Answer(wrong=f"{error.message}; {error.hint}")
        finally:
            asked.discard(host.name)

    # This thread only waits: a signal that ends it while it starts threads can leave them locked.
    with ThreadPoolExecutor(ASKED_AT_ONCE + 1) as threads, command.ending_together(over, asked):
        return threads.submit(lambda: list(threads.map(ask, hosts))).result()


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
    """Yield an error for each pattern that no drive of any host matches, as it may be misspelt."""
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


def _objections(fleet: Fleet, one: _Drive) -> tuple[str, ...]:
    return () if one.overridable and fleet.accept else one.reasons


def _not_writable(fleet: Fleet, found: Sequence[_Drive]) -> Iterator[str]:
    for one in found:
        if reasons := _objections(fleet, one):
            yield f"{one.where}: {plain('; '.join(reasons), 400)}"


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
