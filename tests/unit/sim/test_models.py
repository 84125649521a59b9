"""The embedded models: they give what their files say, near what was published."""

import pytest

from ssdbench.sim.core import Job, Order
from ssdbench.sim.spec import ModelCard, catalogue, parse
from tests.support.sim_figures import KIB, MEASURES, SPAN_8GB, Bench

NAMED = {
    "x25m-g2-160",
    "intel320",
    "transcend-ts16gssd25",
    "memoright-gt",
    "samsung-mcbqe32g",
    "c300-256",
    "micron-pcie-2010",
    "dram-ssd-2012",
    "p320h-700",
    "p4500-4t",
    "pm9a3",
    "660p-1t",
    "bm1743",
    "p4800x",
}
CARDS = {card.name: card for card in catalogue()}
# Small drives are steady soon; their files' figures are of larger ones.
SMALLER = {
    "x25m-g2-160": "sim:x25m-g2-160,scale=20",
    "p320h-700": "sim:p320h-700,capacity=4GiB",
    "p4500-4t": "sim:p4500-4t,capacity=4GiB",
    "pm9a3": "sim:pm9a3,capacity=5GiB",
    "intel320": "sim:intel320,capacity=4GiB",
}
# What takes seconds to become steady is left to the soak tier; Heger's figures have their own test.
SLOW = {
    ("bm1743", "random_write_16k_iops"),
    ("p4800x", "random_write_iops"),
    ("x25m-g2-160", "random_write_iops"),
    ("x25m-g2-160", "random_write_8gb_iops"),
}
FIGURES = [(name, figure) for name in sorted(NAMED) for figure in CARDS[name].figures]


def test_all_models_of_the_plan_are_there_with_sources() -> None:
    assert set(CARDS) >= NAMED
    assert all(card.sources and card.title for card in CARDS.values())


@pytest.mark.parametrize("card", CARDS.values(), ids=lambda card: card.name)
def test_a_figure_that_the_model_misses_is_admitted(card: ModelCard) -> None:
    assert set(card.simulated) == set(card.figures)

    for name, published in card.figures.items():
        near = abs(card.simulated[name] / published - 1) <= 0.1
        assert near or any(name in difference for difference in card.differences), name


@pytest.mark.parametrize(
    ("name", "figure"),
    [
        pytest.param(n, f, id=f"{n}-{f}", marks=[pytest.mark.soak] if (n, f) in SLOW else [])
        for n, f in FIGURES
    ],
)
def test_a_model_gives_what_its_file_says(name: str, figure: str) -> None:
    bench = Bench(CARDS[name], SMALLER.get(name))

    measured = MEASURES[figure](bench)

    assert measured == pytest.approx(CARDS[name].simulated[figure], rel=0.02)


def test_hegers_drive_gives_his_figures_over_8_gb_and_the_full_span() -> None:
    bench = Bench(CARDS["x25m-g2-160"], "sim:x25m-g2-160,scale=20")

    narrow, full = bench.steady_writes(4 * KIB, SPAN_8GB), bench.steady_writes(4 * KIB)

    assert narrow == pytest.approx(3182, rel=0.05)
    assert full == pytest.approx(342, rel=0.05)


@pytest.mark.soak
def test_hegers_whole_drive_gives_his_figures() -> None:
    bench = Bench(CARDS["x25m-g2-160"])

    narrow, full = bench.steady_writes(4 * KIB, SPAN_8GB), bench.steady_writes(4 * KIB)

    assert narrow == pytest.approx(3182, rel=0.05)
    assert full == pytest.approx(342, rel=0.05)


@pytest.mark.parametrize("stride_kib", [32, 64, 512])
@pytest.mark.parametrize("name", ["transcend-ts16gssd25", "memoright-gt", "samsung-mcbqe32g"])
def test_dunns_drives_peak_exactly_at_every_block(name: str, stride_kib: int) -> None:
    drive = Bench(CARDS[name]).filled()
    job = Job(order=Order.STRIDED, stride_bytes=stride_kib * KIB, iodepth=1, stop_ios=2048)

    ios = drive.run(job, per_io=2048).per_io[512:]

    # A buffer lets a few writes pass before the merge is felt, as the drive's cache does.
    slow = ios["latency_ns"] > 3_000_000
    blocks = ios["offset"] // (1024 * KIB)
    assert slow.sum() == len(set(blocks.tolist()))
    if name != "samsung-mcbqe32g":
        assert (ios["offset"][slow] % (1024 * KIB) == 0).all()


def test_strides_of_a_block_and_more_make_every_write_slow() -> None:
    drive = Bench(CARDS["transcend-ts16gssd25"]).filled()
    job = Job(order=Order.STRIDED, stride_bytes=1024 * KIB, iodepth=1, stop_ios=256)

    ios = drive.run(job, per_io=256).per_io[16:]

    assert (ios["latency_ns"] > 3_000_000).all()


def test_the_dram_drive_takes_7_us_for_4_kib_and_reaches_its_peak_rates() -> None:
    bench = Bench(CARDS["dram-ssd-2012"])
    drive = bench.fresh()

    rates = [
        drive.run(
            Job(order=Order.SEQUENTIAL, read_percent=r, block_bytes=1024 * KIB, stop_ios=2000)
        ).bytes_per_s
        / 1e6
        for r in (100, 0)
    ]

    assert bench.latency_us(read=True) == pytest.approx(7, abs=0.35)
    assert bench.latency_us(read=False) == pytest.approx(7, abs=0.35)
    assert rates == pytest.approx([700, 650], rel=0.01)


def test_the_prototype_of_2010_reaches_a_million_reads_with_its_128_slots() -> None:
    bench = Bench(CARDS["micron-pcie-2010"])

    many, few = bench.reads(512, 128), bench.reads(512, 32)

    assert many > 1_000_000
    assert few < 500_000


def test_writes_of_a_fresh_drive_fall_off_the_cliff_when_its_flash_is_used_up() -> None:
    """Seppanen et al., figure 1: a long burst of deceptively steady performance, then a drop."""
    drive = Bench(CARDS["p4500-4t"], SMALLER["p4500-4t"]).fresh()
    capacity, spare = drive.capacity_bytes, drive.params()["op_ppm"] / 1e6
    step = capacity // 50

    rates = [drive.run(Job(stop_bytes=step, seed=i)).bytes_per_s for i in range(500)]

    fell = next(i for i, rate in enumerate(rates) if rate < 0.95 * rates[0])
    assert fell * step / capacity == pytest.approx(1 + spare, abs=0.03)
    assert sum(rates[-20:]) / 20 < 0.16 * rates[0]


def test_the_slc_cache_ends_and_the_rate_with_it() -> None:
    spec = parse("sim:660p-1t")
    drive = Bench(CARDS["660p-1t"]).fresh()
    job = Job(order=Order.SEQUENTIAL, block_bytes=128 * KIB, stop_bytes=spec.capacity_bytes // 20)

    rates = []
    for _ in range(15):
        result = drive.run(job)
        rates.append(result.bytes_per_s / 1e6)
        job = Job(
            order=Order.SEQUENTIAL,
            block_bytes=128 * KIB,
            stop_bytes=spec.capacity_bytes // 20,
            position=result.position,
        )

    assert rates[0] > 1700
    assert rates[-1] < 200
