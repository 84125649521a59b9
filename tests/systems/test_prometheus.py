"""Metrics of runs and of a fleet in a real node exporter and a real Prometheus (docs/tables.md)."""

import json
import subprocess
import urllib.parse
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ssdbench.cli import main
from ssdbench.engine.events import Progress
from ssdbench.export import openmetrics
from ssdbench.fleet.drive import Stage, State
from ssdbench.fleet.hostscripts import Job
from ssdbench.fleet.records import Records
from ssdbench.model.result import RunResult
from ssdbench.report.read import StoredRun
from tests.support.builders import a_full_run
from tests.systems.conftest import Machine, required, until

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "prometheus"
PROMETHEUS = "127.0.0.1:9090"
EXPORTER = "127.0.0.1:9100"
QUICKLY = f"""
global: {{scrape_interval: 5s, scrape_timeout: 5s, evaluation_interval: 1s}}
rule_files: [{EXAMPLES / "alerts.yaml"}]
scrape_configs: [{{job_name: node, static_configs: [{{targets: ["{EXPORTER}"]}}]}}]
"""


def metrics_of(result: RunResult, progress: Progress | None = None) -> bytes:
    return openmetrics.export(StoredRun(Path(), result), progress)


def a_job(host: str) -> Job:
    return Job(
        name=f"{host}-nvme0n1", host=host, rack="r1", target="/dev/nvme0n1", identity=host,
        model="PM9A3", serial=host, firmware="1", simulated=False, address=host,
        profile_text="", runs="/srv", ssdbench=("ssdbench",),
    )  # fmt: skip


def a_fleet(place: Path) -> Path:
    """Write a fleet's records: one drive is measured at present, one has failed."""
    records = Records(place / "fleet")
    records.make()
    running = State(Stage.RUNNING, fraction=0.5, left_s=600.0, rate_iops=900.0)
    records.note(a_job("h1"), running)
    records.note(a_job("h2"), State(Stage.FAILED, "its host lost power"))
    return place


def write_metrics(place: Path, metrics: Path) -> int:
    """Write two runs of one drive with one name, one of them at work, and a fleet."""
    result = a_full_run(place / "run")
    later = result.model_copy(
        update={"started_at": datetime.now(UTC).isoformat(), "verdict": "NOT VALIDATED"}
    )
    at_work = Progress("02-steady", 0.25, 90.0, "4 KiB random write", rate_iops=1200.0)
    metrics.mkdir()
    (metrics / "first.prom").write_bytes(metrics_of(result))
    (metrics / "second.prom").write_bytes(metrics_of(later))
    third = result.model_copy(update={"started_at": "2026-12-01T10:00:00+00:00"})
    (metrics / "third.prom").write_bytes(metrics_of(third, at_work))
    file = metrics / "fleet.prom"
    assert main.run(["fleet", "status", str(a_fleet(place)), "--metrics", str(file)]) == 0
    return len(result.points)


@pytest.fixture(scope="module")
def watched(
    machines: Callable[[str], Machine], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Machine, int]]:
    """A machine with node exporter and Prometheus, and the number of points of each run."""
    place = tmp_path_factory.mktemp("metrics")
    points = write_metrics(place, place / "prom")
    machine = machines("metrics")
    (place / "prometheus.yml").write_text(QUICKLY)
    exporter = machine.start(
        required("prometheus-node-exporter"), "--collector.disable-defaults",
        "--collector.textfile", f"--collector.textfile.directory={place / 'prom'}",
        f"--web.listen-address={EXPORTER}",
    )  # fmt: skip
    server = machine.start(
        required("prometheus"), f"--config.file={place / 'prometheus.yml'}",
        f"--storage.tsdb.path={place / 'data'}", f"--web.listen-address={PROMETHEUS}",
    )  # fmt: skip
    until(lambda: asked(machine, "ssdbench_run_validated"), "a scrape", most_s=180)
    yield machine, points
    machine.end()
    exporter.wait(10)
    server.wait(10)


def get(machine: Machine, path: str) -> Any:
    done = machine.run(required("curl"), "-s", f"http://{PROMETHEUS}/api/v1/{path}", ok=range(256))
    return json.loads(done.stdout)["data"] if done.stdout.startswith("{") else {}


def asked(machine: Machine, query: str) -> list[Any]:
    """Ask Prometheus a query; return what it finds."""
    found = get(machine, f"query?query={urllib.parse.quote(query)}")
    return list(found.get("result", []))


def test_promtool_has_no_complaint(tmp_path: Path) -> None:
    write_metrics(tmp_path, tmp_path / "prom")
    promtool = required("promtool")

    for file in sorted((tmp_path / "prom").iterdir()):
        argv = [promtool, "check", "metrics"]
        done = subprocess.run(argv, input=file.read_bytes(), capture_output=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b""), file
    rules = [promtool, "check", "rules", str(EXAMPLES / "alerts.yaml")]
    assert subprocess.run(rules, capture_output=True, check=False).returncode == 0


def test_every_file_of_one_drive_is_taken_and_nothing_is_dropped(
    watched: tuple[Machine, int],
) -> None:
    machine, points = watched

    (error,) = asked(machine, "node_textfile_scrape_error")
    assert error["value"][1] == "0"
    runs = asked(machine, "ssdbench_run_validated")
    assert len(runs) == 3
    assert len({one["metric"]["run_id"] for one in runs}) == 1
    assert len({one["metric"]["started"] for one in runs}) == 3
    assert len(asked(machine, "ssdbench_point_validated")) == 3 * points
    means = asked(machine, "ssdbench_latency_seconds_sum / ssdbench_latency_seconds_count")
    assert len(means) >= 3 * points
    assert all(0 < float(one["value"][1]) < 10 for one in means)


def test_the_alerts_fire_for_what_is_wrong_and_for_nothing_else(
    watched: tuple[Machine, int],
) -> None:
    machine, _ = watched

    def firing() -> dict[str, list[dict[str, str]]]:
        alerts: dict[str, list[dict[str, str]]] = {}
        for one in get(machine, "alerts")["alerts"]:
            alerts.setdefault(one["labels"]["alertname"], []).append(one["labels"])
        return alerts

    until(lambda: len(firing()) > 1, "an alert", most_s=180)
    fired = firing()
    assert fired.keys() == {"SsdbenchDriveNotMeasured", "SsdbenchRunNotValidated"}
    (failed,), (unsound,) = fired["SsdbenchDriveNotMeasured"], fired["SsdbenchRunNotValidated"]
    assert (failed["host"], failed["stage"]) == ("h2", "failed")
    (wrong,) = asked(machine, "ssdbench_run_validated == 0")
    assert unsound["started"] == wrong["metric"]["started"]


def test_each_query_of_the_dashboard_finds_something(watched: tuple[Machine, int]) -> None:
    machine, _ = watched
    dashboard = json.loads((EXAMPLES / "grafana.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]

    for query in queries:
        plain = query.replace("$model", ".*").replace("$serial", ".*")
        assert asked(machine, plain), query
    for variable in dashboard["templating"]["list"][1:]:
        matcher = variable["query"]["query"].removeprefix("label_values(").rpartition(",")[0]
        assert all(variable["name"] in one["metric"] for one in asked(machine, matcher))
