"""A scheduler of Dask elsewhere, over TLS from end to end, as docs/fleet.md starts it; or none."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from ssdbench.errors import HostLacks, UsageError
from ssdbench.fleet import scheduler
from ssdbench.fleet.drive import Stage
from ssdbench.fleet.inventory import Engine, Fleet
from ssdbench.fleet.plan import plan
from ssdbench.fleet.records import Records
from ssdbench.fleet.scheduler import run_fleet
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
        offered = " ".join(
            f"{k}={v:g}" for k, v in scheduler.limit_resources(made.jobs, fleet.limits).items()
        )
        worker = ["worker", at, "--nworkers", "1", "--nthreads", "2", "--no-nanny", *QUIET]
        worker += ["--resources", offered, *over_tls(own)]
        stack.enter_context(started(worker, r"Registered to", tmp_path))
        records = Records(tmp_path / "f")
        records.make()
        ends = run_fleet(fleet, made, reach, records, stubfleet.patience(), lambda line: None)

        assert [state.stage for state in ends.values()] == [Stage.MEASURED] * len(wanted)
        assert stubfleet.violations(tmp_path, wanted) == []
        assert len(records.measured()) == len(wanted)

        name = f"host:{hosts[0].name}"
        with pytest.raises(UsageError, match="offer 1 of host:h000, but the limit is 2"):
            scheduler.dask_client(fleet.engine, {name: 2}).__enter__()

        monkeypatch.setattr(scheduler, "CONNECT_S", "1s")
        stranger = Engine(scheduler=at, ca=str(own[0]), certificate=str(others[1]),
                          key=str(others[2]))  # fmt: skip
        plain = Engine(scheduler=at.replace("tls:", "tcp:"))
        for engine in (stranger, plain):
            with (
                pytest.raises(HostLacks, match="no Dask scheduler answers at"),
                scheduler.dask_client(engine, {}),
            ):
                pass
