"""Trials of schema 1, as older versions stored them: read as today's, with all their numbers."""

import json
from pathlib import Path
from typing import Any

import pytest

from ssdbench.model.found import Comparison, FileSystemComparison
from ssdbench.model.kind import StageKind
from ssdbench.model.result import RunResult
from ssdbench.report.read import StoredRun
from ssdbench.report.view.page import Facts, Table
from ssdbench.report.view.stages import sections

STORED = Path(__file__).parents[2] / "data" / "runs" / "host-schema-1" / "result.json"
OLD: list[dict[str, Any]] = json.loads(STORED.read_text())["stages"]


@pytest.fixture(scope="module")
def result() -> RunResult:
    return RunResult.model_validate_json(STORED.read_bytes())


def test_every_number_of_every_median_is_kept(result: RunResult) -> None:
    assert result.schema_version == 2
    for old, stage in zip(OLD, result.stages, strict=True):
        assert isinstance(stage.found, Comparison | FileSystemComparison)
        assert stage.kind == old["kind"]
        for was, median in zip(old["data"]["medians"], stage.found.medians, strict=True):
            now = median.model_dump(exclude={"more"}, exclude_none=True) | median.more
            assert now == was


def test_what_was_said_beside_the_medians_is_kept(result: RunResult) -> None:
    for old, stage in zip(OLD, result.stages, strict=True):
        found, said = stage.found, old["summary"]
        assert isinstance(found, Comparison | FileSystemComparison)
        assert list(found.notes) == [v for k, v in said.items() if k.startswith("note")]
        assert found.cells_csv == old["figures"][0]["csv"]
        assert found.file_system == said.get("file_system", "")
        if isinstance(found, Comparison) and found.kind is not StageKind.APPLICATIONS:
            assert found.repeats == said["repeats"]
    programs = result.having(Comparison)[-1][1].programs
    assert programs == ("postmark", "dbench")


def test_every_kind_is_there(result: RunResult) -> None:
    kinds = {stage.kind for stage in result.stages}
    assert kinds == {
        StageKind.SCHEDULERS, StageKind.QUEUE, StageKind.DEPTH, StageKind.ENGINES,
        StageKind.CPU_COST, StageKind.LATENCY_PATH, StageKind.SURFACE, StageKind.FILESYSTEM,
        StageKind.FILE_MIX, StageKind.FILE_WRITERS, StageKind.APPLICATIONS,
    }  # fmt: skip


def test_the_page_has_a_row_for_each_and_the_words_beside_them(result: RunResult) -> None:
    shown = {section.id: section for section in sections(StoredRun(STORED.parent, result))}
    for old in OLD:
        section = shown[f"stage-{old['name']}"]
        (table,) = (block for block in section.blocks if isinstance(block, Table))
        assert len(table.rows) == len(old["data"]["medians"])
        facts = next(block for block in section.blocks if isinstance(block, Facts))
        words = " ".join(text for _, text in facts.items)
        assert all(str(v) in words for k, v in old["summary"].items() if k.startswith("note"))


def test_programs_have_their_own_figures_beside_those_of_fio(result: RunResult) -> None:
    shown = list(sections(StoredRun(STORED.parent, result)))[-1]
    (table,) = (block for block in shown.blocks if isinstance(block, Table))

    rows = [
        {c.title: cell.text for c, cell in zip(table.columns, row, strict=True)}
        for row in table.rows
    ]
    assert rows[0]["Longest ms"] == "8.5"
    assert rows[0]["IOPS per core"] == "–"
    assert rows[1]["IOPS per core"] == "24,876"
    assert [row["Disturbed"] for row in rows] == ["1 of 3", "0 of 3"]
