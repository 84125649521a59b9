"""What is done on files: sizes that fit, names that fio finds again, pauses as they were asked."""

import pytest

from ssdbench.model.profile import spec
from ssdbench.stages.files.trial import (
    fitting,
    job_variants,
    surface_files,
    surface_on_files,
    writer_workloads,
)
from ssdbench.suite.trials import _chosen_trial
from ssdbench.units import KIB, MIB


def test_files_that_have_no_room_together_are_left_out_from_the_largest_on() -> None:
    assert fitting((64 * MIB, 4 * MIB, 16 * MIB), 24 * MIB) == (4 * MIB, 16 * MIB)


def test_each_direction_of_a_surface_works_on_the_file_of_its_size() -> None:
    laid = surface_files((MIB, 8 * MIB))
    files = {str(one.options["filename"]): one.size_bytes for one in laid}

    for workload in surface_on_files((MIB, 8 * MIB)):
        (section,) = workload.sections
        assert files[str(section["filename"])] == section["size"]


def test_a_writer_pauses_after_its_share_of_writes() -> None:
    workloads = writer_workloads(4 * KIB, (0.001, 0.5), (10.0,), window_s=5, buffered=False)

    pauses = {w.name: (w.sections[0].get("thinktime"), w.sections[0].get("thinktime_blocks"))
              for w in workloads}  # fmt: skip
    assert pauses == {
        "no pauses": (None, None),
        "1 ms after 10 %": (1000, 10),
        "500 ms after 10 %": (500_000, 10),
    }


def test_every_writer_finds_a_file_that_was_written_before() -> None:
    wanted = spec.FileWriters(processes=(1, 8), file=64 * MIB)

    chosen = _chosen_trial(wanted, room_bytes=80 * MIB)

    (made,) = chosen.files
    assert (made.count, made.size_bytes) == (8, 10 * MIB)
    assert [v.options["numjobs"] for v in job_variants((1, 8), "writer", "writers")] == [1, 8]


@pytest.mark.parametrize("percent", [0, 30, 100])
def test_mixes_read_the_share_that_was_asked_for(percent: int) -> None:
    (workload,) = _chosen_trial(spec.FileMix(read=(percent,)), 256 * MIB).workloads

    (section,) = workload.sections
    assert section["rw"] == {0: "randwrite", 100: "randread"}.get(percent, "randrw")
    assert section.get("rwmixread", percent) == percent
