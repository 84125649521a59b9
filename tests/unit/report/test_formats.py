"""OpenMetrics and OCP Test & Validation output, read as their readers do.

The rules checked here are those of the OpenMetrics text format and of the OCP Test & Validation
specification 2.0; both outputs of the demo were also read by `prometheus_client` and checked
against the schema that the OCP project publishes.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ssdbench.cli import main
from ssdbench.engine.events import Progress
from ssdbench.export import content, openmetrics
from ssdbench.model.result import RunResult
from ssdbench.report.read import StoredRun
from tests.support.builders import StoredRunBuilder, a_full_run, a_target
from tests.support.documents import checked

NAME, LABEL = r"[a-zA-Z_:][a-zA-Z0-9_:]*", r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"({NAME})\{{((?:{LABEL})(?:,{LABEL})*)\}} (-?[0-9.e+-]+)")
HOSTILE = 'a"b\\c\nd\x1b[31m'

Samples = dict[str, list[tuple[dict[str, str], float]]]


def exported(form: str, result: RunResult) -> str:
    return content(StoredRun(Path(), result), form).decode()


def read(text: str) -> Samples:
    """Samples by name, once every line is as the format has it."""
    assert text.endswith("# EOF\n") and text.count("# EOF") == 1
    found: Samples = {}
    for line in text.splitlines()[:-1]:
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert kind in ("gauge", "summary") and name not in found
            found[name] = []
        elif line.startswith("# UNIT "):
            _, _, name, unit = line.split(" ")
            assert name.endswith(f"_{unit}") and name == list(found)[-1]
        elif not line.startswith("# HELP "):
            match = SAMPLE.fullmatch(line)
            assert match is not None, line
            labels = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match[2]))
            family = list(found)[-1]
            found.setdefault(match[1], []).append((labels, float(match[3])))
            assert match[1].removeprefix(family) in ("", "_sum", "_count")
            found[family] = found.pop(family)
    assert all(found.values())
    return found


def test_metrics_have_every_point_with_its_bound_and_no_suppressed_latency(tmp_path: Path) -> None:
    result = a_full_run(tmp_path)

    found = read(exported("openmetrics", result))

    bounds = {labels["point"]: value for labels, value in found["ssdbench_iops_lower_bound"]}
    for point in result.points:
        estimate = point.estimate("iops")
        assert estimate is not None and bounds[point.point.id] == estimate.bound
    assert [value for _, value in found["ssdbench_run_validated"]] == [1.0]
    latencies = [e for p in result.points for e in p.estimates if re.match("lat_p", e.metric)]
    shown = [e for e in latencies if e.status != "suppressed"]
    assert 0 < len(shown) < len(latencies)
    assert len(found["ssdbench_latency_seconds"]) == len(shown)
    assert all(0 < value < 10 for _, value in found["ssdbench_latency_seconds"])


def test_latency_is_a_summary_whose_sum_is_the_mean_times_the_ios(tmp_path: Path) -> None:
    result = a_full_run(tmp_path)

    found = read(exported("openmetrics", result))

    ios, total = (
        {(labels["point"], labels["direction"]): value for labels, value in found[name]}
        for name in ("ssdbench_latency_seconds_count", "ssdbench_latency_seconds_sum")
    )
    assert ios
    for point in result.points:
        for mean in point.estimates:
            if mean.metric == "lat_mean_ns":
                key = point.point.id, mean.direction
                assert total.pop(key) / ios[key] == pytest.approx(mean.value / 1e9)
    assert not total
    others = {name for name in found if not name.startswith("ssdbench_latency_seconds")}
    assert not any("quantile" in labels for name in others for labels, _ in found[name])


def test_two_runs_of_one_drive_with_one_name_have_no_labels_in_common(tmp_path: Path) -> None:
    first = a_full_run(tmp_path)
    second = first.model_copy(update={"started_at": "2026-12-01T10:00:00+00:00"})

    one, other = (read(exported("openmetrics", result)) for result in (first, second))

    for name, samples in one.items():
        taken = [labels for labels, _ in samples]
        assert not [labels for labels, _ in other[name] if labels in taken]


def test_a_run_at_work_tells_its_progress_and_no_end(tmp_path: Path) -> None:
    run = StoredRun(Path(), a_full_run(tmp_path))
    progress = Progress("02-steady", 0.25, 90.0, "4 KiB random write", rate_iops=1200.0)

    found = read(openmetrics.export(run, progress).decode())
    ended = read(openmetrics.export(run).decode())

    now = {name: samples[0][1] for name, samples in found.items()}
    assert now["ssdbench_run_at_work"] == 1.0
    assert now["ssdbench_run_progress_ratio"] == 0.25
    assert now["ssdbench_run_stage_left_seconds"] == 90.0
    assert now["ssdbench_run_current_iops"] == 1200.0
    assert "ssdbench_run_finished_timestamp_seconds" not in found
    assert ended["ssdbench_run_at_work"][0][1] == 0.0
    assert "ssdbench_run_progress_ratio" not in ended


def test_foreign_text_ends_no_label_and_no_line(tmp_path: Path) -> None:
    builder = StoredRunBuilder(tmp_path, target=a_target(model=HOSTILE), repeats=2, measure_s=5)
    builder.sweep(blocks=(4096,), reads=(0,), depths=(32,))
    result = builder.write()

    found = read(exported("openmetrics", result))
    lines = exported("ocptv", result).splitlines()

    assert "\x1b" not in exported("openmetrics", result) and "\x1b" not in "".join(lines)
    assert found["ssdbench_iops_lower_bound"]
    assert json.loads(lines[1])["testRunArtifact"]["testRunStart"]["dutInfo"]["hardwareInfos"][0][
        "name"
    ] == HOSTILE  # fmt: skip


def artifacts(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Kind and content of each line, once the envelope is as the specification has it."""
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["sequenceNumber"] for line in lines] == list(range(len(lines)))
    assert [line["timestamp"] for line in lines] == sorted(line["timestamp"] for line in lines)
    assert lines[0]["schemaVersion"] == {"major": 2, "minor": 0}
    found: list[tuple[str, dict[str, Any]]] = []
    for line in lines[1:]:
        (kind,) = set(line) - {"sequenceNumber", "timestamp"}
        inner = dict(line[kind])
        if kind == "testStepArtifact":
            assert isinstance(inner.pop("testStepId"), str)
        (name,) = inner
        found.append((name, inner[name]))
    return found


def test_steps_measurements_and_diagnoses_are_those_of_the_run(tmp_path: Path) -> None:
    result = a_full_run(tmp_path)

    found = artifacts(exported("ocptv", result))

    names = [name for name, _ in found]
    assert (names[0], names[-1]) == ("testRunStart", "testRunEnd")
    assert names.count("testStepStart") == names.count("testStepEnd") == len(result.stages)
    assert found[-1][1] == {"status": "COMPLETE", "result": "PASS"}
    diagnoses = [content for name, content in found if name == "diagnosis"]
    assert len(diagnoses) == len(result.points)
    assert {one["type"] for one in diagnoses} <= {"PASS", "FAIL", "UNKNOWN"}
    measured = {c["name"]: c["value"] for name, c in found if name == "measurement"}
    point = result.points[0]
    estimate = point.estimate("iops")
    assert estimate is not None
    assert measured[f"{point.point.id}.iops_lower_bound"] == estimate.bound
    identities = {c["hardwareInfoId"] for name, c in found if name in ("measurement", "diagnosis")}
    assert identities == {found[0][1]["dutInfo"]["hardwareInfos"][0]["hardwareInfoId"]}


@pytest.mark.parametrize(
    ("changes", "end"),
    [
        ({"verdict": "NOT VALIDATED"}, {"status": "COMPLETE", "result": "FAIL"}),
        (
            {"verdict": "MEASURED, NOT PLANNABLE"},
            {"status": "COMPLETE", "result": "NOT_APPLICABLE"},
        ),
        (
            {"verdict": "NOT VALIDATED", "interrupted": True},
            {"status": "ERROR", "result": "NOT_APPLICABLE"},
        ),
    ],
)
def test_a_run_that_was_cut_or_is_not_validated_never_passes(
    tmp_path: Path, changes: dict[str, Any], end: dict[str, str]
) -> None:
    result = a_full_run(tmp_path).model_copy(update=changes)

    assert artifacts(exported("ocptv", result))[-1][1] == end


def test_the_command_prints_or_writes_a_format_and_leaves_the_run_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    a_full_run(tmp_path / "run")
    before = sorted(path.name for path in (tmp_path / "run").iterdir())
    run, file = str(tmp_path / "run"), tmp_path / "ssdbench.prom"

    assert main.run(["report", run, "--format", "openmetrics"]) == 0
    printed = capfd.readouterr().out
    into = ["report", run, "--format", "openmetrics", "--output", str(file), "--json"]
    assert main.run(into) == 0
    checked(capfd.readouterr().out, "report")
    assert main.run(["report", run, "--output", str(file)]) == 2

    assert file.read_text() == printed
    assert read(printed)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == before
