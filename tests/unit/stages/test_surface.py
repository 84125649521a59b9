"""Surfaces of file size by record size."""

from ssdbench.stages.host.variants import surface_variants, surface_workloads
from ssdbench.units import GIB, KIB, MIB


def test_every_direction_is_tried_on_each_file_that_has_room() -> None:
    found = surface_workloads((8 * MIB, 64 * MIB, 4 * GIB), span_bytes=128 * MIB)

    assert [workload.name for workload in found] == [
        f"{words}, {size}"
        for words in ("sequential read", "random read", "sequential write", "random write")
        for size in ("8 MiB", "64 MiB")
    ]
    assert {section["size"] for w in found for section in w.sections} == {8 * MIB, 64 * MIB}


def test_records_go_through_the_page_cache_unless_told_otherwise() -> None:
    (cached,) = surface_variants((4 * KIB,), buffered=True)
    (direct,) = surface_variants((4 * KIB,), buffered=False)

    assert (cached.options["direct"], direct.options["direct"]) == (0, 1)
    assert cached.options["bs"] == 4 * KIB
