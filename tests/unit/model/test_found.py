"""Names of stored results in words for a reader."""

import pytest

from ssdbench.model.found import Median, workload_words


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("1 ms after 10 %", "pause of 1 ms after 10 % of the writes"),
        ("0.5 ms after 2.5 %", "pause of 0.5 ms after 2.5 % of the writes"),
        ("no pauses", "no pauses"),
        ("random, 70 % reads", "random, 70 % reads"),
    ],
)
def test_a_pause_of_a_writer_is_said_in_words(name: str, words: str) -> None:
    stored = Median(
        workload=name, variant="a", repeats=1, iops=1, iops_least=1, iops_most=1, bw_bytes_per_s=1
    )

    assert workload_words(name) == stored.spoken().workload == words
    assert stored.workload == name
