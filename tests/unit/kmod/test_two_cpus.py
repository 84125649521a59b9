"""What the benchmarks on two CPUs have in common: their pages, and what they refuse."""

from types import ModuleType

import pytest

from benchmarks import interrupt_cpus, merge_cpus, two_cpus

BENCHMARKS = pytest.mark.parametrize("bench", [interrupt_cpus, merge_cpus])


@BENCHMARKS
def test_the_tables_of_the_page_are_made_of_the_stored_rows(bench: ModuleType) -> None:
    page = bench.PAGE.read_text()

    found = two_cpus.kept(bench.ROWS, bench.Row)
    assert two_cpus.filled(page, bench.tables(found)) == page


@BENCHMARKS
@pytest.mark.parametrize("cpus", ["0,4095", "0,0", "0", "0,x", ""])
def test_what_is_not_two_cpus_is_refused_in_a_sentence(cpus: str, bench: ModuleType) -> None:
    with pytest.raises(SystemExit, match="give two CPUs of"):
        bench.main(["--cpus", cpus])
