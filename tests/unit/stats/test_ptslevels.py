from ssdbench.stats.steady.ptsrounds import Demand, levels, recovery

CELLS = (
    Demand("T32 Q32", 32, 32, 1000.0, 50e6),  # the fastest, but it answers in 50 ms
    Demand("T4 Q8", 4, 8, 900.0, 4e6),
    Demand("T2 Q2", 2, 2, 520.0, 2e6),
    Demand("T1 Q2", 1, 2, 300.0, 1e6),
    Demand("T1 Q1", 1, 1, 100.0, 1e6),
)


def test_the_highest_demand_is_the_fastest_cell_that_answers_within_5_ms() -> None:
    found = {name: cell.name for name, cell in levels(CELLS).items()}

    assert found == {"max": "T4 Q8", "mid": "T2 Q2", "min": "T1 Q1"}


def test_a_drive_that_never_answers_within_5_ms_has_only_a_lowest_demand() -> None:
    assert list(levels([CELLS[0], Demand("T1 Q1", 1, 1, 100.0, 6e6)])) == ["min"]


def test_recovery_is_the_first_of_five_samples_near_the_end() -> None:
    assert recovery([50.0] * 7 + [100.0] * 20) == 7
    assert recovery([100.0] * 10) == 0


def test_a_dip_within_five_samples_is_no_recovery() -> None:
    assert recovery([100.0, 100.0, 50.0] + [100.0] * 20) == 3


def test_a_series_that_keeps_swinging_never_recovers() -> None:
    assert recovery([50.0, 150.0] * 10) is None
