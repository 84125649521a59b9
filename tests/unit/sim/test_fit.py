"""Write patterns on a small copy, and fits that find the parameters of a known drive again."""

import gzip
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ssdbench.cli.main import run
from ssdbench.engine.estimates import ANY_DRIVE, rate_hint
from ssdbench.errors import ProfileError, UsageError
from ssdbench.model.profile import Rated
from ssdbench.model.target import TargetKind
from ssdbench.sim import amplification as small
from ssdbench.sim import fit as fitting
from ssdbench.sim import fitted
from ssdbench.sim.amplification import UNITS, Before, Policy, Writes, amplification, parsed
from ssdbench.sim.core import Drive, Job, Order
from ssdbench.sim.fit import Fit, Observed, Parameters, fit, last_fill, observed, predict
from ssdbench.sim.library import Params
from ssdbench.sim.modelfile import load_path
from ssdbench.sim.series import read_series
from ssdbench.sim.spec import parse
from ssdbench.sim.truth import fifo_write_amplification, greedy_write_amplification
from ssdbench.stats.series import Series
from ssdbench.units import GIB, KIB, MIB
from tests.support.builders import a_target

GREEDY = Policy("greedy")
FILLS = 3
PLANTED = Parameters(1.2 * GIB, GREEDY, 2 * MIB, 60e6, 0.5, {4096: 40e6})


def random_blocks(pattern: str, count: int = 4 * UNITS) -> np.ndarray:
    return small._blocks(pattern, count, 1 << 28, np.random.default_rng(3))


@pytest.mark.parametrize(
    "text",
    [
        *("", "zipf", "zipf:x", "zipf:inf", "random:1", "zoned:50", "zoned:1/0", "zoned:inf/1:1/1"),
        *("zoned:1/1:1/nan", "rewrite:0/2", "beta:2"),
    ],
)
def test_a_pattern_that_cannot_be_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UsageError, match="is not a write pattern") as refused:
        parsed(text)
    assert "rewrite:8GiB/4" in str(refused.value.hint)


def test_a_zoned_pattern_writes_each_part_as_often_as_it_says() -> None:
    counts = np.sort(np.bincount(random_blocks("zoned:90/10:10/90"), minlength=UNITS))

    assert counts[-UNITS // 10 :].sum() / counts.sum() == pytest.approx(0.9, abs=0.02)


def test_ranks_of_zipf_have_the_shares_of_the_whole_drive() -> None:
    counts = np.bincount(random_blocks("zipf-in-order:0.8"), minlength=UNITS)
    assert counts[: UNITS // 100].sum() / counts.sum() == pytest.approx(0.01**0.2, abs=0.01)
    # Of 2^28 pages the 4,096 that are one unit here: (ln 4096 + 0.577) / (ln 2^28 + 0.577).
    one = np.bincount(random_blocks("zipf-in-order:1"), minlength=UNITS)
    assert one[0] / one.sum() == pytest.approx(0.445, abs=0.01)


def test_zones_are_written_in_order_and_never_twice_at_once() -> None:
    blocks, starts = small._rewritten(64, 4, 3, 4 * UNITS, np.random.default_rng(3))
    open_zones: dict[int, int] = {}
    most = 0
    for at, block in enumerate(blocks):
        zone, place = divmod(int(block), 64)
        assert place == open_zones.get(zone, 0)
        assert (starts.get(at) == zone) == (place == 0)
        open_zones[zone] = place + 1
        if place == 63:
            del open_zones[zone]
        most = max(most, len(open_zones))
    assert most == 3


@pytest.mark.parametrize("pattern", ["zipf:0.8", "rewrite:1GiB/2"])
def test_offsets_that_are_kept_are_the_same_as_new_ones(pattern: str) -> None:
    def simulated() -> np.ndarray:
        small._simulated.cache_clear()
        found = amplification(Writes(pattern, 16 * GIB), 2, 1.2, GREEDY, GIB)
        assert found is not None
        return found

    small._offsets.cache_clear()
    new = simulated()
    assert small._offsets.cache_info().hits == 0
    assert np.array_equal(simulated(), new)
    assert small._offsets.cache_info().hits == 1


@pytest.mark.parametrize("alpha", [1.1, 1.28])
def test_a_small_copy_has_the_write_amplification_of_the_formulas(alpha: float) -> None:
    writes = Writes("random", 100 * GIB)
    greedy = amplification(writes, 3, alpha, GREEDY, GIB)
    oldest = amplification(writes, 3, alpha, Policy("fifo"), GIB)

    assert greedy is not None
    assert oldest is not None
    formula = greedy_write_amplification(alpha, small.SUPERBLOCK_UNITS)
    assert greedy[-4:].mean() == pytest.approx(formula, rel=0.02)
    assert oldest[-4:].mean() == pytest.approx(fifo_write_amplification(alpha), rel=0.02)
    assert greedy[0] < greedy[-1]  # a drive that was written once in order still has spare


def test_a_list_of_blocks_is_written_over_and_over_and_has_to_fit_the_drive() -> None:
    drive = Drive.in_memory(Params({"capacity_bytes": 64 * MIB, "op_ppm": 900000}))
    blocks = np.array([5, 9, 7], dtype=np.uint32)
    job = Job(Order.LISTED, blocks=blocks, stop_ios=5, iodepth=1, position=1)

    done = drive.run(job, per_io=5)
    assert [int(offset) // 4096 for offset in done.per_io["offset"]] == [9, 7, 5, 9, 7]
    assert done.position == 6
    for wrong in (np.array([16384], dtype=np.uint32), np.array([], dtype=np.uint32), None):
        with pytest.raises(UsageError, match="does not fit"):
            drive.run(Job(Order.LISTED, blocks=wrong, stop_ios=1))


def planted_model(path: Path) -> Path:
    path.write_text(fitted.model_text(Fit(PLANTED, {}, {}, 0.0), GIB, "planted", 0))
    return path


def seconds_of(model: Path, pattern: str, size: int = GIB) -> np.ndarray:
    """Return the bytes of each second of a run on the first `size` bytes of a simulated drive."""
    drive = Drive.in_memory(parse(f"sim:{model}").core_params())
    pages = size // 4096
    drive.run(Job(Order.SEQUENTIAL, block_bytes=128 * KIB, stop_bytes=size))
    kind, numbers = parsed(pattern)
    rng = np.random.default_rng(99)
    blocks = rng.integers(0, pages, FILLS * pages, dtype=np.uint32)
    if kind == "zipf":
        ranks = (rng.random(FILLS * pages) ** (1 / (1 - numbers[0])) * pages).astype(np.uint32)
        blocks = rng.permutation(pages).astype(np.uint32)[ranks]
    job = Job(Order.LISTED, blocks=blocks, stop_ios=len(blocks), iodepth=128)
    done = drive.run(job, seconds=3600)
    return np.asarray(done.seconds["bytes"][:, 1].astype(float)[:-1])


def measured(model: Path, pattern: str, size: int = GIB) -> Observed:
    """Return such a run, with its real times, by quarters of fills."""
    rates = seconds_of(model, pattern, size)
    t_s = np.arange(1.0, len(rates) + 1)
    return observed(pattern, Writes(pattern, size), Series(t_s, rates, np.cumsum(rates) / size))


def test_a_fit_finds_a_planted_drive_again_and_predicts_what_it_did_not_see(
    narrow: None, tmp_path: Path
) -> None:
    model = planted_model(tmp_path / "planted.yaml")
    runs = [measured(model, pattern) for pattern in ("random", "zipf:0.8")]
    hidden = measured(model, "zipf:0.6")

    found = fit(runs)
    best = found.parameters
    assert best.policy == GREEDY
    assert best.physical_bytes / GIB - 1 == pytest.approx(0.2, abs=0.03)
    assert best.most_bytes_per_s[4096] == pytest.approx(40e6, rel=0.03)
    # Two workloads with similar amplification do not tell flash rate and copying apart.
    assert best.flash_bytes_per_s / (1 + best.copy_cost) == pytest.approx(40e6, rel=0.25)
    assert math.isnan(best.superblock_bytes)  # no run tells
    assert found.loss < 0.05
    said = last_fill(predict(best, hidden.writes, FILLS))
    assert said == pytest.approx(hidden.steady, rel=0.04)
    low, high = found.interval(hidden.writes, FILLS)
    assert low < said < high
    assert repr(fit(runs)) == repr(found)  # no randomness


def test_a_fitted_drive_behaves_like_its_parameters_say(tmp_path: Path) -> None:
    model = planted_model(tmp_path / "planted.yaml")
    assert load_path(str(model)).title == "planted"
    whole = measured(model, "random")

    said = predict(PLANTED, whole.writes, FILLS)
    assert whole.steady == pytest.approx(last_fill(said), rel=0.04)
    assert whole.rates[0] == pytest.approx(said[0], rel=0.2)  # a buffer of 3 % of the drive


def test_a_fit_tells_the_streams_of_collected_data_and_their_range(
    narrow: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    sorted_by_age = Policy("costbenefit", streams=4)
    monkeypatch.setattr(fitting, "POLICIES", (GREEDY, sorted_by_age))
    runs = []
    for pattern in ("random", "zoned:0/40:100/60"):
        writes = Writes(pattern, GIB)
        found = amplification(writes, FILLS, 1.18, sorted_by_age, GIB)
        assert found is not None
        runs.append(Observed(pattern, writes, 60e6 / (1.5 * found - 0.5)))

    found_fit = fit(runs)
    assert found_fit.parameters.policy == sorted_by_age
    said = fitted.told(found_fit)
    assert said["gc_streams"] == 4
    assert said["gc_streams_range"] == (4, 4)
    unsure = replace(found_fit, without={runs[0].writes: PLANTED}, errors={runs[0].writes: 0.1})
    note = "streams of collected data 4; without one workload each 1 to 4"
    assert note in fitted.notes(unsure, GIB)
    model = fitted.model_text(found_fit, GIB, "planted", 2)
    assert "gc_policy: costbenefit" in model
    assert "gc_streams: 4" in model


def test_a_drive_that_sorts_data_by_age_becomes_faster_beside_data_never_rewritten() -> None:
    writes = Writes("zoned:0/40:100/60", 100 * GIB)
    greedy, by_age = (
        amplification(writes, 6, 1.16, policy, GIB)
        for policy in (GREEDY, Policy("costbenefit", streams=4))
    )

    assert greedy is not None
    assert by_age is not None
    assert greedy[-4:].mean() > greedy[4:8].mean()
    assert by_age[-4:].mean() < 0.9 * by_age[4:8].mean()


def test_a_single_workload_is_not_left_out_and_tells_no_error(narrow: None) -> None:
    found = fit([Observed("a.csv", Writes("random", GIB), np.full(4, 1e8))])

    assert not found.without
    assert not found.errors
    assert found.interval(Writes("zipf:0.8", GIB), 1) == (0.0, math.inf)
    said = fitted.notes(found, GIB)
    assert "no workload was left out: a fit needs another one that does not rewrite zones" in said
    assert not [note for note in said if "without one workload" in note or "within" in note]


def test_an_error_is_of_the_predicted_rate_as_a_share_of_the_real_rate() -> None:
    writes = Writes("random", GIB)
    twice = Fit(PLANTED, {writes: PLANTED}, {writes: math.log(1 / 2)}, 0.0)

    assert "each workload that was left out is predicted within 100%" in fitted.notes(twice, GIB)


def test_zones_alone_do_not_tell_the_spare_area() -> None:
    writes = Writes("rewrite:1GiB/1", 100 * GIB, 512 * KIB, Before.SEQUENTIAL, 1)
    with pytest.raises(UsageError, match="do not tell the spare area"):
        fit([Observed("zones", writes, np.full(8, 1e9))])


def test_a_single_write_in_flight_waits_for_the_host_and_for_copying() -> None:
    writes = Writes("random", GIB, iodepth=1)
    deep = Writes("random", GIB)
    steady = amplification(writes, 3, 1 + fitting.SPARES[0], GREEDY, GIB)
    assert steady is not None
    drive = Parameters(GIB * (1 + fitting.SPARES[0]), GREEDY, math.nan, 60e6, 0.5, {4096: 40e6})
    copies = 1.5 * (steady[-1] - 1) / 60e6

    assert predict(drive, writes, 3)[-1] == pytest.approx(1 / (1 / 40e6 + copies))
    assert predict(drive, deep, 3)[-1] == pytest.approx(60e6 / (1.5 * steady[-1] - 0.5))


@pytest.mark.parametrize(
    ("series", "says"),
    [
        ("a.csv,span=1GiB", "pattern or span is missing"),
        ("a.csv,pattern=random,span=1GiB,qd=2", "no key 'qd'"),
        ("a.csv,pattern=beta,span=1GiB", "not a write pattern"),
        ("a.csv,pattern=random,span=1GiB", "cannot be read"),
        ("a.csv,pattern=random,span=much", "a size looks like"),
        ("a.csv,pattern=random,span=0", "span at least one block"),
        ("a.csv,pattern=random,span=1GiB,block=0", "must be at least 1"),
        ("a.csv,pattern=random,span=1GiB,iodepth=0", "must be at least 1"),
        ("a.csv,pattern=random,span=1GiB,iodepth=many", "iodepth is a whole number"),
        ("a.csv,pattern=random,span=1GiB,before=fresh", "sequential, shuffled, nothing"),
    ],
)
def test_a_series_that_cannot_be_used_is_refused_and_nothing_is_written(
    series: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to = tmp_path / "new.yaml"

    assert run(["sim", "fit", series, "--model", str(to)]) == 2
    assert says in capsys.readouterr().err
    assert not to.exists()


def test_a_series_with_a_byte_order_mark_and_other_columns_is_read(tmp_path: Path) -> None:
    series = tmp_path / "a.csv"
    rows = ["host;a,bytes_per_s,temperature,end_s", "x,1e8,40,10", "", "x,2e8,41,20"]
    series.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(rows).encode())

    found = read_series(series, 1e9)

    assert list(found.t_s) == [10.0, 20.0]
    assert found.written_fills is not None
    assert list(found.written_fills) == [1.0, 3.0]


def test_a_damaged_series_is_refused_in_a_sentence(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(b"end_s,bytes_per_s\n" + b"1,1e8\n" * 1000))
    packed[12:20] = b"\xff" * 8
    damaged, endless = tmp_path / "a.csv.gz", tmp_path / "b.csv"
    damaged.write_bytes(packed)
    endless.write_text("end_s,bytes_per_s\n" + "1" * 200_000)

    for series in (damaged, endless):
        with pytest.raises(UsageError, match="cannot be read"):
            read_series(series, 1e9)


def test_a_fitted_model_makes_a_drive_also_of_one_gibibyte(
    narrow: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rates, to = tmp_path / "a.csv", tmp_path / "made.yaml"
    rates.write_text("end_s,bytes_per_s\n" + "".join(f"{at},1e8\n" for at in range(1, 40)))
    command = ["sim", "fit", f"{rates},pattern=random,span=1GiB", "--model"]

    assert run([*command, str(to), "--title", 'a "b"\n\\']) == 0
    assert load_path(str(to)).title == 'a "b"\n\\'
    assert parse(f"sim:{to}").capacity_bytes == GIB
    assert [path.name for path in tmp_path.iterdir() if path != rates] == ["made.yaml"]
    for capacity in ("1MiB", "100GiB"):
        assert run([*command, str(tmp_path / "b.yaml"), "--capacity", capacity]) == 2
        assert "is not between" in capsys.readouterr().err
    assert run([*command, str(tmp_path / "model")]) == 2
    assert "ends in .yaml" in capsys.readouterr().err
    assert not (tmp_path / "b.yaml").exists()


def test_a_plan_takes_the_rates_of_a_drive_from_the_model_fitted_to_it(
    narrow: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (models := tmp_path / "config/ssdbench/models").mkdir(parents=True)
    series = measured(planted_model(tmp_path / "planted.yaml"), "random")
    rates = tmp_path / "a.csv"
    quarter_s = np.cumsum(GIB / 4 / series.rates)
    rows = [f"{at},{rate}\n" for at, rate in zip(quarter_s, series.rates, strict=True)]
    rates.write_text("end_s,bytes_per_s\n" + "".join(rows))
    command = ["sim", "fit", f"{rates},pattern=random,span=1GiB", "--drive", "ACME 9000"]
    assert run([*command, "--model", str(models / "acme.yaml")]) == 0
    alike, other = (
        a_target(TargetKind.DRIVE, model=name, size_bytes=GIB) for name in ("ACME 9000", "ACME 900")
    )

    slow, fast = rate_hint(alike).random_write_iops

    assert slow < series.steady / 4096 < fast
    assert fast / slow == pytest.approx(1.5)
    assert rate_hint(alike).source == f"from the figures of {models / 'acme.yaml'}"
    assert rate_hint(other).source == ANY_DRIVE.source
    assert rate_hint(alike, Rated(random_write_iops=1000.0)).random_write_iops[1] < 1100
    (models / "broken.yaml").write_text("title: [")
    with pytest.raises(ProfileError, match="broken.yaml"):
        rate_hint(other)


def test_an_existing_model_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to = tmp_path / "old.yaml"
    to.write_text("mine")

    assert run(["sim", "fit", "a.csv,pattern=random,span=1GiB", "--model", str(to)]) == 2
    assert "exists" in capsys.readouterr().err
    assert to.read_text() == "mine"


@pytest.mark.parametrize("below", [-1, 0, 3, 7, 8, 15])
def test_between_two_simulated_spare_areas_the_nearer_one_counts_more(
    below: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    spares = [
        fitting.SPARES[0] * (fitting.SPARES[1] / fitting.SPARES[0]) ** (below + i) for i in (0, 1)
    ]

    def stepped(writes: Writes, fills: int, alpha: float, *_: object) -> np.ndarray:
        return np.full(4, 5.0 if alpha - 1 < 1.1 * spares[0] else 2.0)

    monkeypatch.setattr(fitting, "amplification", stepped)
    near = spares[0] ** 0.9 * spares[1] ** 0.1
    found = fitting._amplified(Writes("random", GIB), 1, 1 + near, GREEDY, GIB)
    assert found is not None
    assert found[0] == pytest.approx(1 + 4**0.9)
