"""The engine: Dask distributed keeps queue and limits; its workers are on control hosts only.

A limit is a resource of the one worker that serves a rack, so that it holds whatever the scheduler
does: a drive takes one of its host's, one of its rack's, and its watts. The engine carries no data
and knows no truth: a task that is done again finds on the drive's host what was done before.
"""

import json
import logging
import queue
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

from ssdbench.errors import HostLacks, UsageError
from ssdbench.fleet import drive
from ssdbench.fleet.contract import Job
from ssdbench.fleet.drive import Patience, Stage, State
from ssdbench.fleet.inventory import Engine, Limits
from ssdbench.fleet.reach import Reach
from ssdbench.host import command
from ssdbench.host.names import Reader, written

TOPIC = "ssdbench-drive"
HEARD_EVERY_S = 0.5
CONNECT_S = "15s"


@dataclass(frozen=True, slots=True)
class Work:
    """Everything that a task is given; it may be sent to another control host."""

    job: Job
    reach: Reach
    patience: Patience


def require_engine() -> None:
    """Raise HostLacks where Dask distributed is not installed."""
    if find_spec("distributed") is None:
        raise HostLacks(
            "Dask distributed, which keeps the queue of a fleet, is not installed",
            hint="Install it on the control host: pip install 'ssdbench[fleet]'",
        )


def tokens(jobs: Sequence[Job], limits: Limits) -> dict[str, float]:
    """The limits as resources."""
    offered: dict[str, float] = {"drives": limits.at_once}
    offered |= {f"host:{job.host}": limits.per_host for job in jobs}
    offered |= {f"rack:{job.rack}": limits.per_rack for job in jobs}
    if limits.rack_watts is not None:
        offered |= {f"watts:{job.rack}": limits.rack_watts for job in jobs}
    return offered


def needs(job: Job) -> dict[str, float]:
    """What one drive takes of them."""
    taken: dict[str, float] = {"drives": 1, f"host:{job.host}": 1, f"rack:{job.rack}": 1}
    return taken | ({f"watts:{job.rack}": job.watts} if job.watts else {})


def require_safe(engine: Engine) -> None:
    """Raise UsageError for a scheduler that anybody could give orders to.

    What reaches a scheduler is unpickled, which runs it. So a network needs TLS on both sides.
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
def crew(engine: Engine, offered: dict[str, float]) -> Iterator[Any]:
    """A client of the scheduler. Raises HostLacks, UsageError."""
    require_engine()
    require_safe(engine)
    import dask
    from distributed import Client
    from distributed.security import Security

    own = TemporaryDirectory(prefix="ssdbench-fleet-")
    settings = {
        # By default Dask keeps what it unpickles below a name in /tmp that anybody may have taken.
        "temporary-directory": own.name,
        "distributed.admin.system-monitor.disk": False,
        # A worker's profiler walks the frames of all threads 100 times a second. Python 3.11
        # crashed at that with 400 drives, in `frame.f_back` (CPython's issue 99110, Dask's 8163).
        "distributed.worker.profile.enabled": False,
    }
    with own, dask.config.set(settings):
        if not engine.scheduler:
            try:
                with (
                    _cluster(offered) as cluster,
                    Client(cluster) as client,
                    command.ending_together(drive.over, drive.at_work),
                ):
                    yield client
            finally:
                drive.over.clear()  # its threads have ended
            return
        for name, file in engine.files.items():
            if not Path(file).is_file():
                raise UsageError(f"engine: {name}: there is no file {file}")
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
                f"no scheduler of Dask at {engine.scheduler}: {error}",
                hint="Start one: docs/fleet.md has the commands.",
            ) from error
        with client:
            _require_offered(client, offered)
            yield client


def _cluster(offered: dict[str, float]) -> Any:
    """Scheduler and worker within this process, which open no port."""
    from distributed import Scheduler, SpecCluster, Worker

    class Closed:
        def start_http_server(self, *_: object, **__: object) -> None:
            """Nothing: without a dashboard as well, Dask would answer HTTP on all interfaces."""

    class ClosedScheduler(Closed, Scheduler):
        pass

    class ClosedWorker(Closed, Worker):
        pass

    inside = {"protocol": "inproc://"}
    worker = {**inside, "nthreads": int(offered["drives"]), "resources": offered}
    return SpecCluster(
        scheduler={"cls": ClosedScheduler, "options": inside},
        workers={0: {"cls": ClosedWorker, "options": worker}},
        silence_logs=logging.CRITICAL,
    )


def _require_offered(client: Any, offered: dict[str, float]) -> None:
    """Raise UsageError unless each limit is offered by one worker; by two it would be doubled."""
    found: Counter[str] = Counter()
    for worker in client.scheduler_info(n_workers=-1)["workers"].values():
        found.update(worker.get("resources", {}))
    wrong = [name for name, value in offered.items() if name != "drives" and found[name] != value]
    if wrong:
        name = wrong[0]
        raise UsageError(
            f"the workers offer {found[name]:g} of {name}, and the limit is {offered[name]:g}",
            hint="Each rack belongs to one worker: `ssdbench fleet plan` prints its --resources.",
        )


def do(
    client: Any,
    work: Sequence[Work],
    hear: Callable[[str, State], None],
    stopping: Callable[[], bool],
) -> dict[str, State]:
    """See every drive to its end; returns the last states by name. `hear` is told each state."""
    heard: queue.Queue[Any] = queue.Queue()  # events of tasks as tuples, and futures that are over
    client.subscribe_topic(TOPIC, heard.put)
    names = {
        client.submit(
            task, one, key=f"drive-{one.job.name}", pure=False, resources=needs(one.job)
        ): one.job.name
        for one in work
    }
    for future in names:
        future.add_done_callback(heard.put)
    own = frozenset(names.values())
    begun: set[str] = set()
    ends: dict[str, State] = {}
    cancelled = False
    while len(ends) < len(names):
        if not cancelled and stopping():
            cancelled = True
            client.cancel([future for future, name in names.items() if name not in begun])
        try:
            one = heard.get(timeout=HEARD_EVERY_S)
        except queue.Empty:
            continue
        name, state = _event(one) if isinstance(one, tuple) else (names[one], _end_of(one))
        if name not in own:
            continue  # of another fleet with the same scheduler
        begun.add(name)
        if not isinstance(one, tuple):
            ends[name] = state
        elif name in ends:
            continue  # an event that its task's end has overtaken
        hear(name, state)
    client.unsubscribe_topic(TOPIC)
    return ends


def _end_of(future: Any) -> State:
    """How a task ended; one that the engine lost leaves the run on its host as it is."""
    if future.status == "finished":
        state: State = future.result()
        return state
    if future.status == "cancelled":
        return State(Stage.STOPPED, said="not begun; the next `fleet run` does it")
    error = future.exception()
    return State(Stage.FAILED, said=f"the engine lost it: {type(error).__name__}: {error}")


def task(work: Work) -> State:
    """What a worker does: one drive's whole plan."""
    from distributed import get_worker

    worker = get_worker()

    def tell(state: State) -> None:
        worker.log_event(TOPIC, {"name": work.job.name, "state": json.dumps(asdict(state))})

    return drive.measure(work.job, work.reach, work.patience, tell)


def _event(event: Any) -> tuple[str, State]:
    _, told = event
    return told["name"], State.of(json.loads(told["state"]))
