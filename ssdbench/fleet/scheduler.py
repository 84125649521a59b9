"""Run a fleet; Dask distributed manages the queue and the limits, on control hosts only.

A task for a drive is submitted when the limits of its host, its rack and its rack's power allow one
more drive. Each of these limits is a semaphore of the Dask scheduler. So a limit also holds for
several fleets that share a scheduler, and does not depend on the number of workers. Dask stores no
results: a task that is repeated attaches to the run directory on the drive's host.
"""

import json
import logging
import queue
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

from ssdbench import __version__
from ssdbench.errors import HostLacks, SsdbenchError, UsageError, how_to_install
from ssdbench.fleet import drive, hostscripts
from ssdbench.fleet.drive import Patience, Stage, State
from ssdbench.fleet.hostscripts import Job
from ssdbench.fleet.inventory import Engine, Fleet, Limits
from ssdbench.fleet.plan import Plan
from ssdbench.fleet.records import Records
from ssdbench.fleet.transport import Silent, Transport
from ssdbench.host import command
from ssdbench.host.names import Reader, written
from ssdbench.units import counted

TOPIC = "ssdbench-drive"
HEARD_EVERY_S = 0.5
CONNECT_S = "15s"
NOT_STARTED = State(Stage.STOPPED, said="not started; the next `fleet run` starts it")
NO_ROOM = State(
    Stage.STOPPED, said="not started: runs on hosts that do not answer may use all of its rack"
)


@dataclass(frozen=True, slots=True)
class Work:
    """The input of a task, which may run on another control host."""

    job: Job
    reach: Transport
    patience: Patience


def require_engine() -> None:
    """Raise HostLacks if Dask distributed is not installed."""
    if find_spec("distributed") is None:
        raise HostLacks(
            "Dask distributed, which manages the queue of a fleet, is not installed",
            hint=f"Install it on this control host: {how_to_install('distributed>=2026.1')}",
        )


def limit_resources(jobs: Sequence[Job], limits: Limits) -> dict[str, float]:
    """Return the total that each limit allows, by name: drives, host:…, rack:…, watts:…."""
    offered: dict[str, float] = {"drives": limits.at_once}
    offered |= {f"host:{job.host}": limits.per_host for job in jobs}
    offered |= {f"rack:{job.rack}": limits.per_rack for job in jobs}
    if limits.rack_watts is not None:
        offered |= {f"watts:{job.rack}": limits.rack_watts for job in jobs}
    return offered


def needed_resources(job: Job) -> dict[str, float]:
    """Return how much one drive uses of each limit, by the names of `limit_resources`."""
    taken: dict[str, float] = {"drives": 1, f"host:{job.host}": 1, f"rack:{job.rack}": 1}
    return taken | ({f"watts:{job.rack}": job.watts} if job.watts else {})


def require_safe(engine: Engine) -> None:
    """Raise UsageError if the scheduler is reached over a network without TLS; loopback is allowed.

    A scheduler unpickles the messages that it receives, and unpickling can run any code of the
    sender.
    """
    if not engine.scheduler:
        return
    address = urlsplit(written(Reader.DASK, engine.scheduler))
    if address.scheme == "tls" and engine.ca and engine.certificate and engine.key:
        return
    if address.scheme == "tcp" and _is_loopback(address.hostname or ""):
        return
    raise UsageError(
        f"engine: {engine.scheduler} is refused: a scheduler that is not on loopback needs TLS",
        hint="Use tls://… with ca, certificate and key, or leave `engine` out.",
    )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


@contextmanager
def dask_client(engine: Engine, threads: int) -> Iterator[Any]:
    """Connect to the scheduler, or start one in this process. Raises HostLacks, UsageError."""
    require_engine()
    require_safe(engine)
    import dask
    from distributed import Client
    from distributed.security import Security

    # Dask looks for a public address of this host, and warns if it finds none.
    warnings.filterwarnings("ignore", "Couldn't detect a suitable IP address", RuntimeWarning)
    own = TemporaryDirectory(prefix="ssdbench-fleet-")
    settings = {
        # Dask's default is a fixed name in /tmp, which another user may have created.
        "temporary-directory": own.name,
        "distributed.admin.system-monitor.disk": False,
        # The profiler of a worker reads the frames of all threads 100 times a second. Python 3.11
        # crashed in it with 400 drives, in `frame.f_back` (CPython issue 99110, Dask issue 8163).
        "distributed.worker.profile.enabled": False,
    }
    with own, dask.config.set(settings):
        if not engine.scheduler:
            try:
                with (
                    _cluster(threads) as cluster,
                    Client(cluster) as client,
                    command.ending_together(drive.threads_ending, drive.drives_at_work),
                ):
                    yield client
            finally:
                drive.threads_ending.clear()  # reset; the threads have ended
            return
        for name, file in engine.files.items():
            if not Path(file).is_file():
                raise UsageError(f"engine: {name}: the file {file} does not exist")
        security = None
        if engine.ca:
            security = Security(
                tls_ca_file=engine.ca, tls_client_cert=engine.certificate,
                tls_client_key=engine.key, require_encryption=True,
            )  # fmt: skip
        try:
            client = Client(engine.scheduler, security=security, timeout=CONNECT_S)
        except (OSError, ValueError) as error:
            raise HostLacks(
                f"no Dask scheduler answers at {engine.scheduler}: {error}",
                hint="docs/fleet.md says how to start a Dask scheduler.",
            ) from error
        with client:
            _require_same_version(client)
            yield client


def _cluster(threads: int) -> Any:
    """Start a Dask scheduler and a worker of `threads` threads in this process, without ports."""
    from distributed import Scheduler, SpecCluster, Worker

    class Closed:
        def start_http_server(self, *_: object, **__: object) -> None:
            """Start no HTTP server, because Dask's server listens on all interfaces."""

    class ClosedScheduler(Closed, Scheduler):
        pass

    class ClosedWorker(Closed, Worker):
        pass

    inside = {"protocol": "inproc://"}
    worker = {**inside, "nthreads": threads}
    return SpecCluster(
        scheduler={"cls": ClosedScheduler, "options": inside},
        workers={0: {"cls": ClosedWorker, "options": worker}},
        silence_logs=logging.CRITICAL,
    )


def _require_same_version(client: Any) -> None:
    """Raise HostLacks if a Dask worker lacks ssdbench or has another version than this one."""
    for address, found in client.get_versions(packages=["ssdbench"])["workers"].items():
        version = found["packages"]["ssdbench"]
        if version != __version__:
            has = f"ssdbench {version}" if version else "no ssdbench"
            raise HostLacks(
                f"the Dask worker {address} has {has}, but this is ssdbench {__version__}",
                hint=f"Install ssdbench {__version__} in the environment of the workers.",
            )


class Slots:
    """Count the drives being measured, and reserve a slot of each limit for a drive.

    The slots of hosts, racks and power are leases of semaphores of the scheduler, which frees them
    30 s after the process that holds them has died. Only the limit `drives` is counted separately
    by each fleet.
    """

    def __init__(self, jobs: Sequence[Job], limits: Limits) -> None:
        """Register the semaphores. Raises UsageError if another fleet has a different limit."""
        offered = limit_resources(jobs, limits)
        self._most = {
            name: int(offered[name] // need)
            for job in jobs
            for name, need in needed_resources(job).items()
        }
        self._taken: Counter[str] = Counter()
        self._kept: Counter[str] = Counter()  # slots of drives that never return them
        self._shared = {
            name: _semaphore(name, most) for name, most in self._most.items() if name != "drives"
        }

    def take(self, job: Job, full: set[str]) -> bool:
        """Take all slots of a drive, or none; add the names of exhausted limits to `full`."""
        names = list(needed_resources(job))
        full |= {name for name in names if self._taken[name] >= self._most[name]}
        if full.intersection(names):
            return False
        leased: list[str] = []
        for name in names:
            if name in self._shared and not self._shared[name].acquire(timeout=0):
                full.add(name)  # another fleet holds all slots
                for one in leased:
                    self._shared[one].release()
                return False
            leased += [name] if name in self._shared else []
        self._taken.update(names)
        return True

    def keep(self, job: Job) -> None:
        """Never return the slots of a drive whose run may continue without being polled."""
        self._kept.update(needed_resources(job).keys())

    def has_room(self, job: Job) -> bool:
        """Return whether the slots of a drive are free, or become free when other drives finish."""
        return all(self._kept[name] < self._most[name] for name in needed_resources(job))

    def give_back(self, job: Job) -> None:
        """Return all slots of a drive, so that another drive can take them."""
        for name in needed_resources(job):
            self._taken[name] -= 1
            if name in self._shared:
                self._shared[name].release()


def _semaphore(name: str, most: int) -> Any:
    """Register a semaphore with limit `most`. Raises UsageError if users have another limit."""
    from distributed import Semaphore

    found = Semaphore(most, f"ssdbench {name}")
    try:
        found.register()
    except ValueError:
        if found.get_value():
            raise UsageError(
                f"limits: {name} is {most}, but another fleet, which is at work with the same "
                "scheduler, has another limit",
                hint="Give both fleet files the same limits, or run them one after the other. A "
                "`fleet run` that was killed keeps its slots for 30 s.",
            ) from None
        found.close()
        return _semaphore(name, most)  # closing it deletes its leases
    return found


def run_tasks(
    client: Any,
    work: Sequence[Work],
    slots: Slots,
    hear: Callable[[str, State], None],
    stopping: Callable[[], bool],
) -> dict[str, State]:
    """Measure every drive; call `hear` with each new state; return the last states by run."""
    heard: queue.Queue[Any] = queue.Queue()  # states sent by tasks (tuples), and finished futures
    client.subscribe_topic(TOPIC, heard.put)
    waiting = {one.job.name: one for one in work}
    jobs = {one.job.name: one.job for one in work}
    names: dict[Any, str] = {}  # run names by future, once submitted
    begun: set[str] = set()
    ends: dict[str, State] = {}
    cancelled = False
    while len(ends) < len(jobs):
        if not cancelled and stopping():
            cancelled = True
            client.cancel([future for future, name in names.items() if name not in begun])
        out = [n for n, one in waiting.items() if cancelled or not slots.has_room(one.job)]
        for name in out:
            del waiting[name]
            hear(name, ends.setdefault(name, NOT_STARTED if cancelled else NO_ROOM))
        full: set[str] = set()
        for one in [*waiting.values()]:
            if slots.take(one.job, full):
                future = client.submit(task, one, key=f"drive-{one.job.name}", pure=False)
                names[future] = waiting.pop(one.job.name).job.name
                future.add_done_callback(heard.put)
        try:
            got = heard.get(timeout=HEARD_EVERY_S)
        except queue.Empty:
            continue
        name, state = _event(got) if isinstance(got, tuple) else (names[got], _end_of(got))
        if name not in jobs:
            continue  # a task of another fleet with the same scheduler
        begun.add(name)
        if not isinstance(got, tuple):
            ends[name] = state
            (slots.keep if state.may_run else slots.give_back)(jobs[name])
        elif name in ends:
            continue  # a state that arrives after the end of its task
        hear(name, state)
    client.unsubscribe_topic(TOPIC)
    return ends


def _end_of(future: Any) -> State:
    """Return the last state of a task; if Dask lost the task, its run may continue (GIVEN_UP)."""
    if future.status == "finished":
        state: State = future.result()
        return state
    if future.status == "cancelled":
        return NOT_STARTED
    error = future.exception()
    return State(Stage.GIVEN_UP, said=f"Dask lost the task: {type(error).__name__}: {error}")


def task(work: Work) -> State:
    """Measure one drive and publish each state to the control host; Dask runs this on a worker."""
    from distributed import get_worker

    worker = get_worker()

    def tell(state: State) -> None:
        worker.log_event(TOPIC, {"name": work.job.name, "state": json.dumps(asdict(state))})

    return drive.measure(work.job, work.reach, work.patience, tell)


def _event(event: Any) -> tuple[str, State]:
    _, sent = event
    return sent["name"], State.of(json.loads(sent["state"]))


NOT_BEGUN = "not started, because the canary has no result"
RESULT_IS_HERE = "its result was fetched before"


def run_fleet(
    fleet: Fleet,
    plan: Plan,
    reach: Transport,
    records: Records,
    patience: Patience,
    tell: Callable[[str], None],
) -> dict[str, State]:
    """Measure all drives, canaries first; return the last states by run name.

    Raises SsdbenchError if a canary has no result.
    """
    jobs = {job.name: job for job in plan.jobs}
    here = records.measured()
    ends = {name: State(Stage.MEASURED, said=RESULT_IS_HERE) for name in jobs if name in here}
    left = _left(plan.jobs, here, records)
    unwatched = _unwatched(plan, records)

    def hear(name: str, state: State) -> None:
        job = jobs[name]
        if state.stage is Stage.MEASURED:
            state = _fetched(job, state, reach, records)
        records.note(job, state)
        if state.stage.is_end or state.stage is Stage.SILENT:
            tell(f"{job.host} {job.target} {job.serial}: {state.stage}: {state.said}".rstrip(": "))
        if state.stage.is_end:
            ends[name] = state

    with dask_client(fleet.engine, fleet.limits.at_once) as client:
        slots = Slots([*plan.jobs, *unwatched], fleet.limits)
        for job in unwatched:
            slots.take(job, set())
            slots.keep(job)
        if not client.scheduler_info(n_workers=1)["workers"]:
            tell(f"{fleet.engine.scheduler} has no worker yet; the drives wait for the first one")
        for some, is_canary in _turns(left, 0 if here else fleet.canary):
            work = [Work(job, reach, patience) for job in some]
            run_tasks(client, work, slots, hear, records.is_stop_requested)
            bad = [job for job in some if ends[job.name].stage is not Stage.MEASURED]
            if is_canary and bad and len(some) < len(left):
                why = ends[bad[0].name]
                for job in left[len(some) :]:
                    records.note(job, State(Stage.STOPPED, said=NOT_BEGUN))
                raise SsdbenchError(
                    f"the canary, {bad[0].host} {bad[0].target}, has no result: "
                    f"{why.stage}: {why.said}; {counted(len(left) - len(some), 'drive')} "
                    "not started",
                    hint="Fix the cause, then run the command again.",
                )
    return ends


def _left(jobs: Sequence[Job], here: frozenset[str], records: Records) -> list[Job]:
    """Return the drives that have no result yet; store that they wait, except those in progress.

    Drives whose runs are in progress come first, because they use slots and power even while no
    `fleet run` polls them.
    """
    at_work = records.at_work()
    left = [job for job in jobs if job.name not in here]
    for job in left:
        if job.name not in at_work:
            records.note(job, State(Stage.WAITING))
    return sorted(left, key=lambda job: job.name not in at_work)


def _unwatched(plan: Plan, records: Records) -> list[Job]:
    """Return the runs on silent hosts that may be in progress: they also use slots of limits."""
    silent, names = dict(plan.silent), {job.name for job in plan.jobs}
    return [
        replace(job, name=name, host=str(kept["host"]), rack=str(kept["rack"]))
        for job in plan.jobs[:1]  # all need the same power
        for name, kept in records.at_work().items()
        if kept["host"] in silent and name not in names
    ]


def _turns(left: Sequence[Job], canary: int) -> list[tuple[Sequence[Job], bool]]:
    turns = [(left[:canary], True), (left[canary:], False)]
    return [(jobs, first) for jobs, first in turns if jobs]


def _fetched(job: Job, state: State, reach: Transport, records: Records) -> State:
    """Fetch and store the result of a run; after an error, the next `fleet run` tries again."""
    try:
        files = hostscripts.fetch(job, reach)
        hostscripts.require_of(job, files)
        records.store(job, files)
        return state
    except (Silent, UsageError) as error:
        said = f"measured, but not fetched: {error.message}"
        return replace(state, stage=Stage.GIVEN_UP, said=said)
