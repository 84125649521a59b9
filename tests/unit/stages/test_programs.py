"""What application programs say is read as they mean it."""

import pytest

from ssdbench.stages.files.programs import DBENCH, PROGRAMS, SYSBENCH, Scale, postmark_figures
from ssdbench.units import KIB, MIB

SCALE = Scale(threads=2, window_s=5, files=300, transactions=2000, data_bytes=64 * MIB)

DBENCH_SAID = """
   1        40    10.75 MB/sec  warmup   1 sec  latency 105.222 ms

 Operation      Count    AvgLat    MaxLat
 ----------------------------------------
 NTCreateX       3000     0.095    97.452
 WriteX          1500     0.009     0.298
 ReadX            500     0.002     4.848

Throughput 19.5 MB/sec  2 clients  2 procs  max_latency=404.288 ms
"""
SYSBENCH_SAID = """
File operations:
    reads/s:                      8789.36
    writes/s:                     5859.57
    fsyncs/s:                     1176.21

Throughput:
    read, MiB/s:                  137.00
    written, MiB/s:               91.00

         95th percentile:                        0.21
"""
POSTMARK_SAID = """
Data:
\t600.50 kilobytes read (300.25 kilobytes per second)
\t8.26 megabytes written (8.26 megabytes per second)
"""


def test_dbench_counts_all_its_calls_over_its_own_time() -> None:
    figures = DBENCH.figures(DBENCH_SAID, SCALE, 9.0)

    assert figures == {"operations_per_s": 1000.0, "bytes_per_s": 19.5e6, "longest_ms": 404.288}


def test_sysbench_counts_reads_and_writes_and_its_flushes_apart() -> None:
    figures = SYSBENCH.figures(SYSBENCH_SAID, SCALE, 9.0)

    assert figures["operations_per_s"] == pytest.approx(14648.93)
    assert figures["bytes_per_s"] == 228 * MIB
    assert figures["flushes_per_s"] == 1176.21


def test_postmark_is_timed_by_our_clock_and_its_units_are_read() -> None:
    figures = postmark_figures(POSTMARK_SAID, SCALE, 2.0)

    assert figures["operations_per_s"] == 1000.0
    assert figures["bytes_per_s"] == pytest.approx((600.5 * KIB + 8.26 * MIB) / 2)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_says_nothing_is_an_error_and_no_zero(name: str) -> None:
    with pytest.raises(ValueError, match="the output of the program has no"):
        PROGRAMS[name].figures("", SCALE, 1.0)


OLTP_SAID = """
    transactions:                        1872   (622.27 per sec.)
    queries:                             37440  (12445.38 per sec.)
         95th percentile:                        7.56
"""


def test_oltp_counts_transactions_and_knows_nothing_of_what_is_moved() -> None:
    figures = PROGRAMS["oltp"].figures(OLTP_SAID, SCALE, 9.0)

    assert figures == {
        "operations_per_s": 622.27,
        "queries_per_s": 12445.38,
        "latency_p95_ms": 7.56,
    }
    assert "bytes_per_s" not in figures
