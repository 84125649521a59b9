"""The pages of the papers' experiments: made from stored rows alone, small, and of every run."""

import json
from pathlib import Path
from unittest.mock import create_autospec

import pytest

from benchmarks import papers
from benchmarks.kernel.__main__ import EXPERIMENTS
from benchmarks.kernel.experiment import STORE
from ssdbench.cli import main
from ssdbench.host import command
from ssdbench.sim.core import Job, Order
from ssdbench.sim.spec import catalogue
from tests.support.sim_figures import Bench

PAGES = sorted(path for path in papers.PAPERS.glob("*.md") if path.stem != "README")
# The strides of Dunn 2009, as short as they still show their shape.
STRIDES = """\
target: sim:transcend-ts16gssd25,capacity=128MiB
precondition: [{pattern: sequential, block: 128KiB, fill: 1}]
measure:
  - blocksize: {strides: [64KiB, 512KiB, 1MiB, 2MiB], writes: 200}
"""


def kept(profile: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of a run, where a page would be made from them."""
    path = place / "short.yaml"
    path.write_text(profile)
    assert main.run(["run", str(path), "--output", str(place / "run")]) in (0, 1)
    monkeypatch.setattr(papers, "PAPERS", place / "pages")
    papers.keep("short", place / "run")
    return place / "pages"


def test_a_short_figure_1_of_yu_rises_with_the_size_of_a_transfer() -> None:
    drive = Bench(next(card for card in catalogue() if card.name == "dram-ssd-2012")).fresh()
    rates = {
        kib: drive.run(
            Job(order=Order.RANDOM, read_percent=100, block_bytes=kib << 10, stop_ios=500)
        )
        for kib in (4, 64, 1024)
    }
    mb_per_s = {kib: found.bytes_per_s / 1e6 for kib, found in rates.items()}

    assert mb_per_s[4] < 0.9 * mb_per_s[64]
    assert mb_per_s[64] < 0.995 * mb_per_s[1024]
    assert mb_per_s[1024] == pytest.approx(700, rel=0.01)  # the paper's peak


def test_short_strides_of_dunn_are_level_from_the_block_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = kept(STRIDES, tmp_path, monkeypatch)
    found = json.loads((pages / "short.json").read_text())["found"]
    rates = {one["stride_bytes"] >> 10: one["mb_per_s"] for one in found if "peaks" in one}

    assert rates[64] > 3 * rates[512] > 3 * 1.5 * rates[1024]
    assert rates[2048] == pytest.approx(rates[1024], rel=0.02)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_stored_page_is_what_its_rows_give(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(papers, "drawn", lambda name: (papers.PAPERS / f"{name}.svg").exists())
    make = papers.page_of_experiment if page.stem in EXPERIMENTS else papers.page_of_profile

    assert page.read_text() == make(page.stem)


def test_all_that_was_run_has_a_small_page_in_the_list() -> None:
    listed = (papers.PAPERS / "README.md").read_text()
    ran = [path.stem for path in papers.PAPERS.glob("*.json")]
    ran += [name for name in EXPERIMENTS if (STORE / f"{name}-6.12.json").exists()]

    assert [page.stem for page in PAGES] == sorted(ran)
    assert [name for name in ran if f"({name}.md)" not in listed] == []
    assert [path for path in papers.PAPERS.iterdir() if path.stat().st_size > 300_000] == []


def test_an_experiment_is_run_by_the_command_that_its_page_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = create_autospec(command.run)
    monkeypatch.setattr(papers, "run", run)

    papers.taken("scsi")

    assert run.call_args.args[0][1:] == ["-m", "benchmarks.kernel", "scsi"]


def test_an_unknown_name_is_refused_before_anything_is_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert papers.main(["paper-of-nobody"]) == 2
    assert "no experiment paper-of-nobody; there are: paper-dunn" in capsys.readouterr().err
