"""A scheduler of Dask elsewhere, over TLS from end to end, as docs/fleet.md starts it; or none."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from distributed import Client, LocalCluster

from ssdbench.errors import HostLacks, UsageError
from ssdbench.fleet import scheduler
from ssdbench.fleet.drive import Patience, Stage, State
from ssdbench.fleet.hostscripts import Job
from ssdbench.fleet.inventory import Engine, Fleet, Limits
from ssdbench.fleet.plan import Plan, plan
from ssdbench.fleet.records import Records
from ssdbench.fleet.scheduler import Slots, Work, run_fleet, run_tasks
from ssdbench.fleet.transport import ScriptResult, Silent
from tests.support import stubfleet
from tests.support.stubfleet import SHARED, BySocket

DASK = [sys.executable, "-m", "dask"]
QUIET = ["--no-dashboard", "--dashboard-address", "127.0.0.1:0"]


def openssl(*arguments: str, cwd: Path) -> None:
    subprocess.run(["openssl", *arguments], cwd=cwd, check=True, capture_output=True)


def certified(place: Path, name: str) -> list[Path]:
    """An authority of that name, and the certificate and key that it gave to this machine."""
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    known = ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
    own, key = f"{name}.pem", f"{name}.key"
    openssl("req", "-x509", *curve, *known, "-keyout", key, "-out", own, cwd=place)
    return [place / own, place / own, place / key]


@contextmanager
def started(argv: list[str], until: str, directory: Path) -> Iterator["re.Match[str]"]:
    """A command of Dask at work, and what it said when it was."""
    environment = {**os.environ, "DASK_TEMPORARY_DIRECTORY": str(directory)}
    environment["PYTHONPATH"] = str(Path(__file__).parents[3])  # the tests, for their stubs
    with subprocess.Popen(
        [*DASK, *argv], env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr
        try:
            said = ""
            while (found := re.search(until, said)) is None:
                said += (line := process.stderr.readline())
                assert line, said
            yield found
        finally:
            process.kill()


def over_tls(files: list[Path]) -> list[str]:
    names = ("--tls-ca-file", "--tls-cert", "--tls-key")
    return [word for pair in zip(names, map(str, files), strict=True) for word in pair]


def test_drives_are_measured_by_a_worker_elsewhere_and_only_with_the_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, others = certified(tmp_path, "ours"), certified(tmp_path, "theirs")
    with ExitStack() as stack:
        hosts = stack.enter_context(stubfleet.powered(tmp_path, 1, seed=1))
        listens = ["scheduler", "--host", "tls://127.0.0.1", "--port", "0", *QUIET, *over_tls(own)]
        at = stack.enter_context(started(listens, r"Scheduler at: +(tls://\S+)", tmp_path))[1]
        names = dict(zip(("ca", "certificate", "key"), map(str, own), strict=True))
        fleet = Fleet.model_validate(
            {
                "title": "tls", "profile": "p", "hosts": [{"name": hosts[0].name}], "canary": 0,
                "drives": [{"model": "STUB*"}], "exclude": [{"identity": SHARED}],
                "engine": {"scheduler": at, **names},
            }
        )  # fmt: skip
        wanted = [str(one["id"]) for one in hosts[0].drives if one["id"] != SHARED]
        reach = BySocket(str(tmp_path))
        made = plan(fleet, frozenset(wanted), "x", reach, Path("F"))
        worker = ["worker", at, "--nworkers", "1", "--nthreads", "2", "--no-nanny", *QUIET]
        worker += over_tls(own)
        stack.enter_context(started(worker, r"Registered to", tmp_path))
        records = Records(tmp_path / "f")
        records.make()
        ends = run_fleet(fleet, made, reach, records, stubfleet.patience(), lambda line: None)

        assert [state.stage for state in ends.values()] == [Stage.MEASURED] * len(wanted)
        assert stubfleet.violations(tmp_path, wanted) == []
        assert len(records.measured()) == len(wanted)

        monkeypatch.setattr(scheduler, "__version__", "9.9.9")
        with pytest.raises(HostLacks, match=r"worker tls://\S+ has ssdbench 2\S*, but this is"):
            scheduler.dask_client(fleet.engine, 1).__enter__()

        monkeypatch.setattr(scheduler, "CONNECT_S", "1s")
        stranger = Engine(scheduler=at, ca=str(own[0]), certificate=str(others[1]),
                          key=str(others[2]))  # fmt: skip
        plain = Engine(scheduler=at.replace("tls:", "tcp:"))
        for engine in (stranger, plain):
            with (
                pytest.raises(HostLacks, match="no Dask scheduler answers at"),
                scheduler.dask_client(engine, 1),
            ):
                pass


def a_job(name: str, host: str) -> Job:
    return Job(
        name=name, host=host, address=host, rack="r", target="t", identity=name, model="m",
        serial="s", runs="/r", profile_text="", ssdbench=("ssdbench",), watts=25.0,
    )  # fmt: skip


def test_two_fleets_with_one_scheduler_share_its_hosts_racks_and_power() -> None:
    jobs = [a_job("a", "h1"), a_job("b", "h1"), a_job("c", "h2"), a_job("d", "h3")]
    limits = Limits(at_once=9, per_rack=3, rack_watts=60)
    with scheduler.dask_client(Engine(), 1):
        ours, theirs = Slots(jobs, limits), Slots(jobs, limits)

        assert ours.take(jobs[0], set())
        full: set[str] = set()
        assert not ours.take(jobs[1], full)  # the same host
        assert full == {"host:h1"}
        full = set()
        assert not theirs.take(jobs[1], full)
        assert full == {"host:h1"}
        assert theirs.take(jobs[2], set())
        full = set()
        assert not ours.take(jobs[3], full)  # 60 W are enough for two drives of 25 W
        assert full == {"watts:r"}

        with pytest.raises(UsageError, match="limits: rack:r is 2, but another fleet"):
            Slots(jobs, limits.model_copy(update={"per_rack": 2}))

        ours.give_back(jobs[0])
        assert theirs.take(jobs[1], set())
        theirs.give_back(jobs[1])
        theirs.give_back(jobs[2])
        idle = Slots(jobs, limits.model_copy(update={"per_rack": 2}))
        assert idle.take(jobs[3], set())


def test_a_cluster_of_any_kind_measures_the_drives_of_a_host_one_after_another(
    tmp_path: Path,
) -> None:
    with (
        stubfleet.powered(tmp_path, 2, seed=1) as hosts,
        LocalCluster(
            n_workers=1, threads_per_worker=8, processes=False, dashboard_address=None
        ) as cluster,
    ):
        fleet = Fleet.model_validate(
            {
                "title": "any", "profile": "p", "hosts": [{"name": one.name} for one in hosts],
                "canary": 0, "drives": [{"model": "STUB*"}], "exclude": [{"identity": SHARED}],
                "engine": {"scheduler": "tcp://127.0.0.1:1"},
            }
        )  # fmt: skip
        reach = BySocket(str(tmp_path))
        wanted = [str(one["id"]) for host in hosts for one in host.drives if one["id"] != SHARED]
        made = plan(fleet, frozenset(wanted), "x", reach, Path("F"))
        at_work: dict[str, set[str]] = {}
        most = 0

        def hear(name: str, state: State) -> None:
            nonlocal most
            job = next(job for job in made.jobs if job.name == name)
            at_work.setdefault(job.host, set()).add(name)
            most = max(most, *map(len, at_work.values()))
            if state.stage.is_end:
                at_work[job.host].discard(name)

        with Client(cluster) as client:
            work = [Work(job, reach, stubfleet.patience()) for job in made.jobs]
            slots = Slots(made.jobs, fleet.limits)
            ends = run_tasks(client, work, slots, hear, lambda: False)

        assert set(ends) == {job.name for job in made.jobs}
        assert len(made.jobs) > len(hosts)
        assert most == 1


def test_a_run_that_is_at_work_takes_the_slots_before_a_drive_that_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = Records(tmp_path)
    records.make()
    jobs = [a_job(name, f"h-{name}") for name in "abcd"]
    stages = (Stage.FAILED, Stage.WAITING, Stage.RUNNING, Stage.SILENT)
    for job, stage in zip(jobs, stages, strict=True):  # as a control host that was killed left it
        records.note(job, State(stage))
    turn: list[list[str]] = []

    def killed_again(client: object, work: list[Work], *_: object) -> dict[str, State]:
        turn.append([one.job.name for one in work])
        raise SystemExit

    monkeypatch.setattr(scheduler, "run_tasks", killed_again)
    fleet = Fleet.model_validate(
        {
            "title": "t", "profile": "p", "canary": 0, "drives": [{"model": "m"}],
            "hosts": [{"name": job.host} for job in jobs], "limits": {"rack_watts": 60},
        }
    )  # fmt: skip
    made, patience = Plan(tuple(jobs)), stubfleet.patience()
    for _ in range(2):
        with pytest.raises(SystemExit):
            run_fleet(fleet, made, BySocket(""), records, patience, lambda _: None)

    assert turn == [["c", "d", "a", "b"]] * 2


class Dark:
    """Hosts that never answer."""

    def call(self, address: str, *_: object, **__: object) -> ScriptResult:
        raise Silent(f"{address} cannot be reached")


def test_a_drive_that_is_given_up_keeps_its_place_because_its_run_may_go_on(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.make()
    jobs = [a_job(name, f"h-{name}") for name in "abcd"]
    records.note(jobs[3], State(Stage.GIVEN_UP, said="no answer for too long"))
    fleet = Fleet.model_validate(
        {
            "title": "t", "profile": "p", "canary": 0, "drives": [{"model": "m"}],
            "hosts": [{"name": job.host} for job in jobs], "limits": {"rack_watts": 50},
        }
    )  # fmt: skip
    patience = Patience(0.01, 0.1)

    def ran(silent: dict[str, str]) -> dict[str, State]:
        made = Plan(tuple(job for job in jobs if job.host not in silent), tuple(silent.items()))
        return run_fleet(fleet, made, Dark(), records, patience, lambda _: None)

    ends = ran({"h-d": "does not answer"})  # its run has one of two places
    assert [ends[name].stage for name in "abc"] == [Stage.GIVEN_UP, Stage.STOPPED, Stage.STOPPED]
    assert "runs on hosts that do not answer may use all of its rack" in ends["b"].said
    assert ran({"h-a": "-", "h-d": "-"})["b"].stage is Stage.STOPPED
    assert ran({"h-a": "-"})["d"].stage is Stage.GIVEN_UP  # followed first, whoever waits
