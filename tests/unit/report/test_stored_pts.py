"""PTS-style tests that an earlier version stored (schema 1) show the numbers that were stored."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ssdbench.model.profile.standard import PtsTest
from ssdbench.model.pts import Pts
from ssdbench.model.result import RunResult
from ssdbench.report import render
from ssdbench.report.view import words

STORED = Path(__file__).parents[2] / "data" / "runs" / "pts-schema-1" / "result.json"

Record = Mapping[str, Any]
Both = Sequence[tuple[Record, Pts]]


@pytest.fixture(scope="module")
def both() -> Both:
    """Each test as it was stored, and as it is read."""
    text = STORED.read_text(encoding="utf-8")
    read = RunResult.model_validate_json(text).having(Pts)
    stored = json.loads(text)["stages"]
    assert len(read) == len(stored)
    return [(old, found) for old, (_, found) in zip(stored, read, strict=True)]


def test_a_test_is_known_by_its_kind_and_form(both: Both) -> None:
    assert [found.test for _, found in both] == [
        PtsTest.LATENCY, PtsTest.SATURATION, PtsTest.IDLE, PtsTest.CROSSED, PtsTest.DEMAND,
    ]  # fmt: skip
    for old, found in both:
        assert old["summary"]["test"].endswith(f", {found.form} form")
        assert old["summary"]["durations"] == f"SCALED by {found.scale:g}"
        assert old["summary"]["threads"] == ", ".join(map(str, found.threads))


def test_rounds_and_their_means_are_as_they_were_stored(both: Both) -> None:
    for old, found in both:
        rounds = old["data"].get("rounds", [])
        cells = [(one.number, cell) for one in found.rounds for cell in one.cells]
        means = old["data"].get("means_over_the_window", [])

        assert [(r["round"], r["cell"], r["iops"]) for r in rounds] == [
            (number, cell.cell, cell.iops) for number, cell in cells
        ]
        assert [(m["iops"], m["mean_ns"], m["max_ns"]) for m in means] == [
            (m.iops, m.latency.mean_ns if m.latency else 0, m.latency.max_ns if m.latency else 0)
            for m in found.means
        ]


def test_windows_are_as_they_were_stored(both: Both) -> None:
    for old, found in both:
        assert [
            (h["tracking"], h["window"], h["average"], h["correlation"], h["steady"])
            for h in old["data"].get("steady_state", [])
        ] == [
            (
                f"{w.cell}, {w.metric.replace('_', ' ')}",
                w.rounds,
                w.average,
                f"{w.correlation:+.4f}",
                w.steady,
            )
            for w in found.windows
        ]
        assert found.steady is {"reached": True, "not reached": False}.get(
            old["summary"]["steady_state"]
        )


def test_samples_phases_and_histograms_are_as_they_were_stored(both: Both) -> None:
    for old, found in both:
        data = old["data"]
        assert [(s["from_start_s"], s["written"], s["iops"]) for s in data.get("samples", [])] == [
            (s.from_start_s, s.written_bytes, s.iops) for s in found.samples
        ]
        assert [(p["phase"], p["iops"]) for p in data.get("phases", [])] == [
            (p.phase, p.iops) for p in found.phases
        ]
        assert data.get("histograms", {}) == {
            cell.cell: {"latency_ns": list(cell.bins.latency_ns), "count": list(cell.bins.count)}
            for cell in found.in_steady_state
            if cell.bins
        }


def test_the_page_shows_the_stored_numbers(both: Both, tmp_path: Path) -> None:
    shutil.copy(STORED, tmp_path)

    page = render(tmp_path)[0].read_text(encoding="utf-8")

    for old, _ in both:
        for name in ("means_over_the_window", "steady_state", "phases"):
            for record in old["data"].get(name, []):
                shown = record.get("iops", record.get("average"))
                assert words.plain(shown) in page
        for step in old["data"].get("preparation", []):
            assert step["done"] in page and step["written"] in page
    assert "somebody" in page
