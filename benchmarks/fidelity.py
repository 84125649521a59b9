"""Fit simulated drives to half of the workloads of real drives, and predict the other half.

    nox -s fidelity -- DIRECTORY [--drive NAME] [--csv FILE]

DIRECTORY holds `INDEX.csv` and the series it names, as for `judge-the-judges -- --real`, with the
columns `pattern`, `details` and `preceded_by` in the words of SSD-iq (Haas et al. 2025),
whose published series have this form. `devices.csv` beside it, if it is there, has the data sheets:
`model`, `SeqWriteMBs`, `RndWriteIOPS`. Nothing of the data is part of ssdbench.

A workload is pattern, parameters, range and preparation together. All its repeats, on all drives of
a model, are on one side. Of each model and pattern every second workload, in the order of a hash of
its name, is fitted; `Sealed` does not open the others before every model is fitted.
"""

import argparse
import hashlib
import math
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path

import numpy as np
import pandas as pd

from ssdbench.errors import SsdbenchError, UsageError
from ssdbench.sim.amplification import STEPS, Before, Writes
from ssdbench.sim.fit import (
    REWRITE,
    Fit,
    Observed,
    Parameters,
    fit,
    last_fill,
    observed,
    of_one_run,
    predict,
    predict_from_one,
    widened,
)
from ssdbench.sim.series import number, read_series, rows
from ssdbench.sim.truth import greedy_write_amplification
from ssdbench.units import GIB, KIB, MIB

NEEDED = ("file", "drive", "span_GiB", "pattern", "details", "preceded_by")
LEAST_FILLS = 1.5
SETTLED = 0.05
BEFORE = {"nothing written": Before.NOTHING, "one shuffled 512K fill": Before.SHUFFLED}
LARGE = 10**6  # units in a block of the greedy formula: infinitely many
WIDE = 0.15  # goal of the 95th percentile
REPEATS = 1.5  # or so many times the spread of real repeats
OF_ONE = 0.95  # of the errors of a fit to one series are within its factor
GOALS = "goals: median 5 %, in each pattern 8 %, 95th percentile 15 %, interval 90 %"


@dataclass(frozen=True, slots=True)
class Listed:
    """One row of the index: a series that was not opened yet."""

    path: Path
    drive: str
    pattern: str
    workload: str  # the same for all repeats
    writes: Writes | None  # None: how the offsets were drawn is not published

    def read(self) -> Observed | None:
        """Read the series; None if it cannot be simulated, or is shorter than 1.5 fills."""
        if self.writes is None:
            return None
        series = read_series(self.path, self.writes.span_bytes)
        assert series.written_fills is not None
        if series.written_fills[-1] < LEAST_FILLS:
            return None
        return observed(self.path.name, self.writes, series)


@dataclass(slots=True)
class Sealed:
    """Hold the held-out half, which opens only once every model is fitted."""

    listed: tuple[Listed, ...]
    fits: dict[str, Fit] = field(default_factory=dict)

    def open(self) -> list[tuple[Listed, Observed]]:
        """Read all series. Raises UsageError before all models are fitted."""
        missing = sorted({one.drive for one in self.listed} - set(self.fits))
        if missing:
            raise UsageError(f"the held-out half stays closed: {missing[0]} is not fitted yet")
        return _read(self.listed)


def _read(listed: Iterable[Listed]) -> list[tuple[Listed, Observed]]:
    return [(one, run) for one in listed if (run := one.read()) is not None]


def index(directory: Path) -> list[Listed]:
    """Return the rows of an index. Raises UsageError with file and line."""
    listed = []
    for line, entry in rows(directory / "INDEX.csv", NEEDED):
        span = number(entry["span_GiB"])
        if not span > 0:
            raise UsageError(f"{directory / 'INDEX.csv'}:{line}: span_GiB is a size in GiB")
        # Published lists have unquoted commas in this column, so the words may be in the next one.
        said = " ".join(str(value) for value in entry.values())
        before = next((one for one in BEFORE if one in said), "one sequential fill")
        pattern, details = entry["pattern"], entry["details"]
        try:
            writes = _writes(
                pattern, details, int(span * GIB), BEFORE.get(before, Before.SEQUENTIAL)
            )
        except (IndexError, ValueError, UsageError) as error:
            raise UsageError(
                f"{directory / 'INDEX.csv'}:{line}: details {details!r} do not describe {pattern}"
            ) from error
        listed.append(
            Listed(
                directory / entry["file"],
                entry["drive"],
                pattern,
                f"{entry['span_GiB']}|{pattern}|{details}|sanitize+TRIM, {before}",
                writes,
            )
        )
    return listed


def _writes(pattern: str, details: str, span: int, before: Before) -> Writes | None:
    numbers = [float(text) for text in re.findall(r"\d+(?:\.\d+)?", details)]
    block, iodepth = 4 * KIB, 512
    match pattern:
        case "uniform":
            said = "random"
        case "zipf-shuffle":
            said = f"zipf:{numbers[0]:g}"
        case "zipf-noshuffle":
            said = f"zipf-in-order:{numbers[0]:g}"
        case "zones-shuffle":
            pairs = zip(numbers[1::2], numbers[::2], strict=True)
            said = "zoned:" + ":".join(f"{100 * f:g}/{100 * s:g}" for f, s in pairs)
        case "zns-noshuffle":
            block, iodepth = MIB // 2, 1
            said = f"rewrite:{int(numbers[1]) * block // KIB}KiB/{int(numbers[0])}"
        case _:
            return None
    return Writes(said, span, block, before, iodepth)


def split(listed: Sequence[Listed]) -> tuple[list[Listed], Sealed]:
    """Return the half to be fitted, and the held-out half."""
    workloads: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for one in listed:
        workloads[one.drive].add((one.pattern, one.workload))
    fitted = set()
    for drive, names in workloads.items():
        ordered = sorted(names, key=lambda name: (name[0], _hash(f"{drive}|{name[1]}")))
        fitted |= {(drive, workload) for _, workload in ordered[::2]}
    half = [one for one in listed if (one.drive, one.workload) in fitted]
    return half, Sealed(tuple(one for one in listed if (one.drive, one.workload) not in fitted))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Sheet:
    """What a data sheet says, and the flash that a drive of this size has: a power of two."""

    sequential_bytes_per_s: float
    random_bytes_per_s: float
    raw_bytes: float


def sheets(directory: Path, drives: Iterable[str]) -> dict[str, Sheet]:
    """Return the data sheet of each drive that `devices.csv` knows: most words in common."""
    path = directory / "devices.csv"
    if not path.exists():
        return {}
    models = [entry for _, entry in rows(path, ("model", "SeqWriteMBs", "RndWriteIOPS"))]
    found = {}
    for drive in drives:
        words = set(re.split(r"[ -]", drive))
        best = max(models, key=lambda entry: len(words & set(re.split(r"[ -]", entry["model"]))))
        if words.isdisjoint(re.split(r"[ -]", best["model"])):
            continue
        sequential, iops = number(best["SeqWriteMBs"]), number(best["RndWriteIOPS"])
        size = re.search(r"([\d.]+)(T|G)\b", drive)
        if size:
            gb = float(size[1]) * (1000 if size[2] == "T" else 1)
            raw = 2.0 ** math.ceil(math.log2(gb * 1e9 / GIB)) * GIB
            found[drive] = Sheet(sequential * 1e6, iops * 4096, raw)
    return found


def by_sheet(sheet: Sheet, writes: Writes) -> float:
    """Return what a data sheet predicts: sequential writes for zones, random for all others."""
    return sheet.sequential_bytes_per_s if writes.kind == REWRITE else sheet.random_bytes_per_s


def by_formula(sheet: Sheet, writes: Writes) -> float:
    """Return sequential rate over the greedy write amplification of uniform writes."""
    if writes.kind == REWRITE:
        return sheet.sequential_bytes_per_s
    alpha = sheet.raw_bytes / writes.span_bytes
    return sheet.sequential_bytes_per_s / greedy_write_amplification(alpha, LARGE)


def by_others(fits: Mapping[str, Fit], known: Mapping[str, Sheet], drive: str) -> Parameters | None:
    """Return a drive's parameters from all other drives' fits and its data sheet: medians."""
    others = [(known[one], fits[one].parameters) for one in fits if one != drive and one in known]
    if not others or drive not in known:
        return None
    mine = known[drive]

    def middle(of: Callable[[Sheet, Parameters], float]) -> float:
        return float(np.median([of(sheet, found) for sheet, found in others]))

    shares: dict[int, list[float]] = defaultdict(list)
    for sheet, found in others:
        for size, most in found.most_bytes_per_s.items():
            shares[size].append(most / sheet.sequential_bytes_per_s)
    rate = mine.sequential_bytes_per_s
    return Parameters(
        mine.raw_bytes * middle(lambda sheet, found: found.physical_bytes / sheet.raw_bytes),
        Counter(found.policy for _, found in others).most_common(1)[0][0],
        middle(lambda _, found: found.superblock_bytes),
        rate * middle(lambda s, found: found.flash_bytes_per_s / s.sequential_bytes_per_s),
        middle(lambda _, found: found.copy_cost),
        {size: rate * float(np.median(share)) for size, share in shares.items()},
    )


def single(
    listed: Iterable[Listed], known: Mapping[str, Sheet]
) -> dict[str, tuple[Listed, tuple[Parameters, Parameters]]]:
    """Return each drive's first series of random writes over its largest range, and fits to it.

    The range was written once in order before. This is what one run of a profile has. The rate of
    that fill was not published, so the data sheet's sequential rate is taken for it.
    """
    found: dict[str, tuple[Listed, tuple[Parameters, Parameters]]] = {}
    spans: dict[str, int] = {}
    for one in listed:
        writes = one.writes
        if not writes or writes.kind != "random" or writes.before is not Before.SEQUENTIAL:
            continue
        run = one.read() if writes.span_bytes > spans.get(one.drive, 0) else None
        if run is not None:
            spans[one.drive] = writes.span_bytes
            fill = known[one.drive].sequential_bytes_per_s if one.drive in known else math.inf
            found[one.drive] = one, of_one_run(run, fill)
    return found


@dataclass(frozen=True, slots=True)
class Judged:
    """One held-out run: what the drive did, and what was predicted, in bytes/s."""

    drive: str
    workload: str
    kind: str
    name: str
    real: float
    predicted: float
    low: float
    high: float
    settled: bool  # the last fill is within 5 % of the fill before
    distance: float  # mean |log ratio| over the quarters of all fills
    fills_real: float  # NaN: not within the run
    fills_predicted: float
    spread: float = math.nan  # of this workload's repeats
    others: float = math.nan  # predictions without this drive's series
    sheet: float = math.nan
    formula: float = math.nan
    alone: float = math.nan  # by the fit to one series of random writes over the whole range

    def error(self, predicted: float) -> float:
        """Return how far a prediction is from the real rate, as a share."""
        return abs(predicted / self.real - 1)

    @property
    def allowed(self) -> float:
        """Return the error that the goal allows: 15 %, or 1.5 times the spread if that is more."""
        return max(WIDE, 0.0 if math.isnan(self.spread) else REPEATS * self.spread)


def within(runs: Iterable[Judged]) -> int:
    """Return how many predictions are no farther from the real rate than the goal allows."""
    return sum(one.error(one.predicted) <= one.allowed for one in runs)


def spreads(runs: Iterable[tuple[Listed, Observed]]) -> dict[tuple[str, str], float]:
    """Return the spread of the repeats of each workload, by drive model and workload.

    It is how far the farthest repeat is from the median of all, as a share. Two drives of one model
    count as repeats. A workload that was measured once has no spread.
    """
    rates: dict[tuple[str, str], list[float]] = defaultdict(list)
    for one, run in runs:
        rates[one.drive, one.workload].append(run.steady)
    return {
        key: float(np.max(np.abs(np.array(found) / np.median(found) - 1)))
        for key, found in rates.items()
        if len(found) > 1
    }


def fills_to_steady(rates: Sequence[float] | np.ndarray) -> float:
    """Return the fills after which every quarter is within 5 % of the last fill; NaN: censored."""
    last = last_fill(np.asarray(rates))
    outside = np.flatnonzero(np.abs(np.asarray(rates) / last - 1) > SETTLED)
    first = int(outside[-1]) + 1 if len(outside) else 0
    return first / STEPS if first <= len(rates) - STEPS else math.nan


def judged(listed: Listed, run: Observed, found: Fit) -> Judged:
    """Return one held-out run beside its prediction."""
    fills = math.ceil(len(run.rates) / STEPS)
    predicted = predict(found.parameters, run.writes, fills)[: len(run.rates)]
    low, high = found.interval(run.writes, fills)
    before = last_fill(run.rates[:-STEPS]) if len(run.rates) >= 2 * STEPS else math.nan
    return Judged(
        listed.drive,
        f"{run.writes.pattern} of {run.writes.span_bytes / GIB:.0f} GiB",
        run.writes.kind,
        run.name,
        run.steady,
        last_fill(predicted),
        low,
        high,
        abs(run.steady / before - 1) <= SETTLED,
        float(np.mean(np.abs(np.log(run.rates / predicted)))),
        fills_to_steady(run.rates),
        fills_to_steady(predicted),
    )


def _compared(one: Judged, writes: Writes, sheet: Sheet, other: Parameters | None) -> Judged:
    """Return the run with the predictions that need no series of this drive."""
    alone = math.nan
    if other is not None:
        with suppress(UsageError):  # a range that the guessed spare area does not cover
            alone = last_fill(predict(other, writes, 5))
    return replace(
        one, others=alone, sheet=by_sheet(sheet, writes), formula=by_formula(sheet, writes)
    )


def summary(title: str, runs: Sequence[Judged], by: Callable[[Judged], float]) -> str:
    """Return one line: number of runs, median and 95th percentile of the error."""
    errors = np.array([one.error(by(one)) for one in runs if not math.isnan(by(one))])
    if not len(errors):
        return f"{title:34}{0:>6}"
    return (
        f"{title:34}{len(errors):>6}{100 * np.median(errors):>10.1f}"
        f"{100 * np.quantile(errors, 0.95):>8.1f}{100 * errors.max():>8.1f}"
    )


def of_one_series(results: Sequence[Judged]) -> list[str]:
    """Return a line by pattern: errors of a fit to one series, and the factor that covers 95 %.

    Covered runs are counted with the factor from all other drives, widened as `sim predict` does.
    """

    def factor(runs: Iterable[Judged]) -> float:
        logs = sorted(abs(math.log(one.alone / one.real)) for one in runs)
        rank = min(len(logs), math.ceil(OF_ONE * (len(logs) + 1)))
        return math.exp(logs[rank - 1]) if logs else math.inf

    lines = []
    told = [one for one in results if not math.isnan(one.alone)]
    for kind in sorted({one.kind for one in told}):
        runs = [one for one in told if one.kind == kind]
        covered = sum(
            abs(math.log(one.alone / one.real))
            <= math.log(
                widened(factor(other for other in runs if other.drive != one.drive), len(runs))
            )
            for one in runs
        )
        lines.append(
            f"{summary(f'  {kind}', runs, attrgetter('alone'))}   x {factor(runs):.2f}, "
            f"from other drives {covered} of {len(runs)}"
        )
    return [summary("one series of random writes", told, attrgetter("alone")), *lines]


def report(directory: Path, only: str = "", to: Path | None = None) -> None:
    """Fit, predict and print all figures. Raises UsageError for files that cannot be read."""
    began = time.monotonic()
    listed = [one for one in index(directory) if only in one.drive]
    if not listed:
        raise UsageError(f"{directory}: no drive's name contains {only!r}")
    half, sealed = split(listed)
    unknown = Counter(one.pattern for one in listed if one.writes is None)
    for pattern, count in unknown.items():
        print(f"not predicted: {count} runs of {pattern}: how offsets are drawn is not published")
    for drive in sorted({one.drive for one in listed}):
        runs = [run for _, run in _read(one for one in half if one.drive == drive)]
        sealed.fits[drive] = found = fit(runs)
        print(fit_line(drive, found, runs), flush=True)
    known = sheets(directory, sealed.fits)
    results = []
    held_out = sealed.open()
    spread = spreads(held_out)
    bases = single(listed, known)
    for one, run in held_out:
        try:
            result = judged(one, run, sealed.fits[one.drive])
        except UsageError as error:  # a range larger than any fitted one
            print(f"not predicted: {run.name}: {error.message}")
            continue
        result = replace(result, spread=spread.get((one.drive, one.workload), math.nan))
        base = bases.get(one.drive)
        if base and one.workload != base[0].workload and run.writes.kind != REWRITE:
            fills = math.ceil(len(run.rates) / STEPS)
            with suppress(UsageError):
                result = replace(result, alone=predict_from_one(base[1], run.writes, fills))
        if one.drive in known:
            other = by_others(sealed.fits, known, one.drive)
            result = _compared(result, run.writes, known[one.drive], other)
        results.append(result)
    if not results:
        raise UsageError(
            "nothing is predicted: a drive needs two workloads of a pattern, on similar ranges"
        )
    print_results(results)
    print(f"{(time.monotonic() - began) / 60:.1f} minutes")
    if to:
        pd.DataFrame(results).to_csv(to, index=False, na_rep="nan", lineterminator="\r\n")


def fit_line(drive: str, found: Fit, runs: Sequence[Observed]) -> str:
    """Return the parameters of a drive, and how far they move without one workload."""
    best = found.parameters
    left = list(found.without.values()) or [best]
    span = max(run.writes.span_bytes for run in runs)
    spares = [one.physical_bytes / span - 1 for one in left]
    blocks = [one.superblock_bytes / GIB for one in left]
    most = ", ".join(
        f"{value / 1e6:.0f} at {block // KIB} KiB"
        for block, value in sorted(best.most_bytes_per_s.items())
    )
    return (
        f"{drive}: {len(runs)} runs, spare {best.physical_bytes / span - 1:.1%} "
        f"({min(spares):.1%}..{max(spares):.1%}), {best.policy} "
        f"({', '.join(sorted({str(one.policy) for one in left}))}), superblock "
        f"{best.superblock_bytes / GIB:.2f} GiB ({min(blocks):.2f}..{max(blocks):.2f}), flash "
        f"{best.flash_bytes_per_s / 1e6:.0f} MB/s, copying {best.copy_cost:g}, at most {most} "
        f"MB/s; loss {100 * found.loss:.1f} %"
    )


def print_results(results: Sequence[Judged]) -> None:
    """Print every held-out run, then errors by pattern and by method."""
    print(
        f"\n{'held-out run':62}{'real':>7}{'said':>7}{'ratio':>7}{'90 % interval':>15}{'shape':>7}"
    )
    for one in sorted(results, key=lambda one: (one.drive, one.workload)):
        inside = " " if one.low <= one.real <= one.high else "!"
        print(
            f"{one.drive[:20]:21}{one.workload[:40]:41}{one.real / 1e6:>7.0f}"
            f"{one.predicted / 1e6:>7.0f}{one.predicted / one.real:>7.3f}"
            f"{one.low / 1e6:>8.0f}..{one.high / 1e6:<5.0f}{inside}{100 * one.distance:>5.1f}"
            + ("" if one.settled else "  still changing")
        )
    print(f"\n{GOALS}\n{'error of the rate, %':34}{'runs':>6}{'median':>10}{'p95':>8}{'worst':>8}")
    predicted = attrgetter("predicted")
    print(summary("all held-out runs", results, predicted))
    print(summary("settled only", [one for one in results if one.settled], predicted))
    for key in map(attrgetter, ("kind", "drive")):
        for name in sorted(set(map(key, results))):
            print(summary(f"  {name}", [one for one in results if key(one) == name], predicted))
    print(*of_one_series(results), sep="\n")
    print(summary("without this drive's series", results, attrgetter("others")))
    print(summary("data sheet", results, attrgetter("sheet")))
    print(summary("greedy formula", results, attrgetter("formula")))
    repeats = [100 * one.spread for one in results if not math.isnan(one.spread)]
    wider = sum(one.allowed > WIDE for one in results)
    print(
        "within 15 %, or 1.5 x the spread of repeats if larger: "
        f"{within(results)} of {len(results)}"
    )
    print(
        f"repeats: {len(repeats)} runs, spread median {np.median(repeats or [math.nan]):.1f} %, "
        f"largest {max(repeats, default=math.nan):.1f} %; above 10 % for {wider} runs"
    )
    covered = sum(one.low <= one.real <= one.high for one in results)
    print(f"90 % intervals that cover: {covered} of {len(results)}")
    both = [one for one in results if not math.isnan(one.fills_real + one.fills_predicted)]
    near = sum(abs(one.fills_real - one.fills_predicted) <= 0.5 for one in both)
    censored = sum(math.isnan(one.fills_real) for one in results)
    print(
        f"fills to steady within half a fill: {near} of {len(both)}; {censored} real runs censored"
    )
    shapes = [100 * one.distance for one in results]
    print(
        f"distance of the whole course: median {np.median(shapes):.1f} %, worst {max(shapes):.1f} %"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(description="Fit real drives, and predict what was held out.")
    parser.add_argument("directory", type=Path, help="INDEX.csv and the series it names")
    parser.add_argument("--drive", default="", help="only models whose name contains this")
    parser.add_argument("--csv", type=Path, help="also write every held-out run to this file")
    options = parser.parse_args(arguments)
    try:
        report(options.directory, options.drive, options.csv)
    except SsdbenchError as error:
        print(f"fidelity: {error.message}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
