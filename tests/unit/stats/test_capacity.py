import math

import pytest

from ssdbench.stats.planning.capacity import Demand, Endurance, plan


def test_drives_follow_from_the_bound_the_growth_and_the_reserve() -> None:
    found = plan(10_000, Demand(iops=40_000, growth=0.3, reserve=1))

    assert found.drives == 9  # ceil(52 000 / 7 000) + 1
    assert found.headroom == pytest.approx(1 - 52 / 90)
    assert found.degraded_utilisation == pytest.approx(52 / 80)
    assert found.wear is None
    assert found.cost is None


def test_the_smallest_demand_takes_a_drive() -> None:
    found = plan(10_000, Demand(iops=1e-7, reserve=1))

    assert (found.drives_for_load, found.drives) == (1, 2)


def test_a_rebuild_may_ask_for_more_drives() -> None:
    found = plan(10_000, Demand(iops=40_000, growth=0.3, rebuild_iops=30_000))

    assert found.drives == 11
    assert found.degraded_utilisation <= 0.85


def test_life_and_cost_come_from_what_was_given() -> None:
    demand = Demand(iops=10_000, write_bytes_per_day=10e12, price=400.0, reserve=0)
    worn = Endurance(rated_bytes=7e15, capacity_bytes=3_840_000_000_000)

    found = plan(5_000, demand, worn)

    assert found.drives == 3
    assert found.wear is not None and found.wear.adds == 0
    assert found.wear.life_years == pytest.approx(7e15 / (10e12 / 3 * 365))
    assert found.wear.dwpd_used == pytest.approx(10e12 / 3 / 3.84e12)
    assert found.wear.dwpd_rated == pytest.approx(7e15 / (3.84e12 * 365 * 5))
    assert found.cost_per_kiops == pytest.approx(120.0)


def test_one_drive_write_a_day_for_five_years_as_datasheets_count_it() -> None:
    # Samsung PM9A3, 3.84 TB: 7,008 TBW, 1.0 DWPD over 5 years.
    worn = Endurance(rated_bytes=7_008e12, warranty_years=5, capacity_bytes=3_840 * 10**9)
    daily = Demand(iops=10_000, write_bytes_per_day=3.84e12, reserve=0)

    found = plan(20_000, daily, worn)

    assert found.drives == 1
    assert found.wear is not None and found.wear.adds == 0
    assert found.wear.dwpd_rated == pytest.approx(1.0)
    assert found.wear.dwpd_used == pytest.approx(1.0)
    assert found.wear.life_years == pytest.approx(5.0)


def test_a_small_farm_by_hand() -> None:
    # 100,000 IOPS that grow by half: 150,000. A drive sustains 25,000, of which 0.7 may be used:
    # 150 / 17.5 = 8.57, so 9, and 2 that may fail: 11. At 500 each: 5,500, or 55 per 1,000 IOPS.
    # Without two of them 9 carry 150,000 at 150 / 225 = 67 %.
    # 20 TB a day, 30 with growth: 2.727 TB for each of 11; of 1.4 PB that is 513.3 days, less than
    # 3 years (1,095 days). 30 x 1,095 / 1,400 = 23.46: it takes 24, for 12,000, or 120 per 1,000.
    demand = Demand(iops=100_000, growth=0.5, reserve=2, price=500.0, write_bytes_per_day=20e12)
    worn = Endurance(rated_bytes=1.4e15, warranty_years=3, capacity_bytes=960 * 10**9)

    found = plan(25_000, demand, worn)

    assert (found.drives_for_load, found.usable_iops) == (9, 17_500)
    assert (found.drives, found.load_iops, found.cost) == (24, 150_000, 12_000)
    assert found.cost_per_kiops == pytest.approx(120.0)
    assert found.headroom == pytest.approx(1 - 150 / 600)
    assert found.degraded_utilisation == pytest.approx(150 / 550)
    wear = found.wear
    assert wear is not None
    assert (wear.drives_for_rate, wear.drives_for_wear, wear.adds) == (11, 24, 13)
    assert wear.life_years_for_rate == pytest.approx(513.3 / 365, rel=1e-4)
    assert wear.life_years == pytest.approx(1_400 * 24 / 30 / 365)
    assert wear.dwpd_for_rate == pytest.approx(2.7273 / 0.96, rel=1e-4)
    assert wear.dwpd_rated == pytest.approx(1.4e15 / (0.96e12 * 1095))


def test_a_rating_that_no_number_of_drives_keeps_is_said_and_adds_none() -> None:
    # 1 PB a day for 5 years, 1.825 EB, on drives of 1 TB: 1,825,000 of them.
    demand = Demand(iops=1_000, write_bytes_per_day=1e15, reserve=0)

    found = plan(5_000, demand, Endurance(rated_bytes=1e12))

    assert found.drives == 1
    assert found.wear is not None and found.wear.hopeless and found.wear.drives_for_wear is None


def test_drive_writes_above_the_rating_add_drives_although_the_flash_would_last() -> None:
    # Amplifies by 1 where the rating assumes 4: flash lasts 4 times as long, but the maker warrants
    # 1 drive write a day, and 3 TB a day on 1 TB needs 3 drives.
    demand = Demand(iops=1_000, write_bytes_per_day=3e12, reserve=0)
    worn = Endurance(rated_bytes=1825e12, capacity_bytes=10**12, waf_rating=4.0, waf_workload=1.0)

    found = plan(5_000, demand, worn)

    assert found.drives == 3
    assert found.wear is not None and found.wear.adds == 2
    assert found.wear.life_years_for_rate == pytest.approx(4 * 1825 / 3 / 365)
    assert found.wear.dwpd_used == pytest.approx(1.0)


def test_a_rating_at_another_amplification_is_converted() -> None:
    # Rated 1 PB under JESD219 at 4; this workload amplifies by 2, so 2 PB of it wear as much.
    demand = Demand(iops=1_000, write_bytes_per_day=1e12, reserve=0)
    worn = Endurance(rated_bytes=1e15, waf_rating=4.0, waf_workload=2.0)

    wear = plan(5_000, demand, worn).wear

    # 2,000 days, longer than 5 years; but 1 TB a day for 1,825 days is above the rated 1 PB.
    assert wear is not None and wear.life_years_for_rate == pytest.approx(2_000 / 365)
    assert wear.drives_for_wear == 2


def test_more_amplification_than_rated_shortens_the_life() -> None:
    demand = Demand(iops=10_000, write_bytes_per_day=1e12)
    rated = Endurance(rated_bytes=1e15)
    hard = Endurance(rated_bytes=1e15, waf_rating=2.0, waf_workload=5.0)

    wears = [plan(5_000, demand, worn).wear for worn in (rated, hard)]
    lives = [wear.life_years_for_rate for wear in wears if wear]

    assert lives[0] is not None
    assert lives[1] == pytest.approx(lives[0] * 0.4)


@pytest.mark.parametrize("bound", [0.0, -1.0])
def test_a_drive_without_a_bound_cannot_be_planned_with(bound: float) -> None:
    with pytest.raises(ValueError, match="positive bound"):
        plan(bound, Demand(iops=1000))


def test_the_data_may_ask_for_more_drives_than_the_load() -> None:
    demand = Demand(iops=1000, reserve=2, capacity_bytes=10e12, price=50.0, power_w=8.0)

    made = plan(1000.0, demand, Endurance(capacity_bytes=10**12))

    assert made.drives_for_load == 2
    assert made.drives_for_capacity == 10
    assert (made.drives, made.set_bytes, made.power_w) == (12, 12 * 10**12, 96.0)
    assert made.cost_per_tb == pytest.approx(50.0)


@pytest.mark.parametrize("reserve", [0, 1, 2])
def test_the_hours_with_too_few_drives_are_those_of_independent_failures(reserve: int) -> None:
    # 1,000 drives, of which 2 % a year fail, each missing for 24 h: 20 / 365 missing on the mean.
    mean = 20 / 365
    within = sum(math.exp(-mean) * mean**n / math.factorial(n) for n in range(reserve + 1))

    made = plan(
        1000.0,
        Demand(iops=(1000 - reserve) * 700, reserve=reserve, failures_per_year=0.02,
               rebuild_s=86_400),
    )  # fmt: skip

    assert made.drives == 1000
    assert made.failures_per_year == pytest.approx(20)
    assert made.short_hours_per_year == pytest.approx(8760 * (1 - within), rel=1e-6)


def test_a_set_whose_failures_nobody_knows_has_no_hours() -> None:
    made = plan(1000.0, Demand(iops=5000, failures_per_year=0.02))

    assert made.failures_per_year is not None
    assert made.short_hours_per_year is None
    assert plan(1000.0, Demand(iops=5000)).failures_per_year is None
