"""Fit the parameters of a simulated drive to rates of a real one, and predict other workloads.

In each quarter of a fill the drive takes the longer of two times: the time of the host's interface
and the firmware (`most_bytes_per_s`, one value per block size), and the time of the flash,

    rate = flash_bytes_per_s / (WA + copy_cost * (WA - 1))

where WA is the write amplification that the core has for this pattern, spare area and policy, at
that point of the run. A host that keeps only one write in flight waits for host and flash one after
the other, so the time of copying is added to the host's time. The whole course of a run is
compared: the place of the cliff separates the effects of policy and spare area, which the last
rates cannot separate.

The search is a grid: spare area x policy x streams x copy cost x flash rate, and then the
superblock's size where zones were rewritten. No start is random, and the search ends after a fixed
number of simulations. The loss is the mean absolute logarithm of measured over predicted rate; the
last fill has half of the weight.

Uncertainty of parameters and predictions is from leaving out one workload at a time (jackknife+,
Barber et al. 2021): the fit is repeated without this workload and predicts its rates.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from ssdbench.errors import UsageError
from ssdbench.sim.amplification import STEPS, Policy, Writes, amplification
from ssdbench.stats.series import Floats, Series
from ssdbench.units import GIB

SPARES = tuple(np.geomspace(0.05, 0.8, 11))  # physical / exported - 1, of a drive's whole range
POLICIES = (  # costbenefit and more streams made predictions of other workloads worse
    Policy("greedy"),
    *(Policy("dchoice", d) for d in (40, 16, 6)),
    Policy("fifo"),
)
COPY_COSTS = (0.0, 0.2, 0.5, 1.0)
# One workload tells neither policy nor cost of copying. Of seven real drive models fitted to many
# workloads, five collect greedily; with the middle cost, this predicts other workloads best.
OF_ONE_WORKLOAD = (POLICIES[:1], (0.5,))
FLASH_STEPS = np.exp(np.linspace(-0.25, 0.25, 101))
SUPERBLOCKS = tuple(GIB * size / 4 for size in (1, 2, 4, 6, 8, 16, 32, 64))
# Of two fits to one series of random writes, by the kind of the other workload: the factor within
# which 95 % of the predictions of real drives were, and their number. With factors from the other
# drive models instead, 129 of these 139 were within them (docs/fidelity.md).
ALONE = {"random": (1.21, 15), "zipf": (1.12, 73), "zoned": (2.36, 51)}
# A factor from fewer runs is raised to this power. Of 1, 1.25, 1.5 and 2, it is the smallest with
# which 90 % of the predictions of each kind were within the factor from the other drive models.
# Only the fitted half chose it: of uniform writes 6, 7, 8 and 8 of 8 were within it.
FEW_RUNS, WIDENED = 40, 1.5
BETWEEN = 4  # spare areas that are tried between two that are simulated
INTERVAL = 0.9
LAST_FILL_WEIGHT = 0.5
HOST_SHARES = (0.88, 0.91, 0.94, 0.97, 1.0)  # of the fastest quarter of a fill: one may be luck
ALIKE = 0.05  # superblocks whose losses differ by less fit equally well; the middle one is taken
REWRITE = "rewrite"


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """One measured run: its workload, and the rate of each quarter of a fill in bytes/s."""

    name: str
    writes: Writes
    rates: Floats

    @property
    def steady(self) -> float:
        """Return the mean rate of the last fill, in bytes/s."""
        return last_fill(self.rates)


@dataclass(frozen=True, slots=True, eq=False)
class Parameters:
    """The fitted values of a drive."""

    physical_bytes: float  # without what is never spare
    policy: Policy
    superblock_bytes: float  # NaN if no run tells
    flash_bytes_per_s: float
    copy_cost: float
    most_bytes_per_s: Mapping[int, float]  # by block size


@dataclass(frozen=True, slots=True)
class Fit:
    """The parameters fitted to all workloads, and for each workload a fit to all others.

    If only one workload does not rewrite zones, it cannot be left out.
    """

    parameters: Parameters
    without: Mapping[Writes, Parameters]
    errors: Mapping[Writes, float]  # log of measured / predicted steady rate by the fit without it
    loss: float  # mean absolute log ratio over the whole course of the runs

    def interval(self, writes: Writes, fills: int) -> tuple[float, float]:
        """Return the 90 % prediction interval of the rate of the last fill, in bytes/s.

        Only errors of workloads of the same sort are used: zones rewritten, or anything else. With
        n < 9 errors, the interval comes from the largest error, and its confidence is n / (n + 1).
        Without errors, the interval is infinite.
        """
        if not self.errors:
            return 0.0, math.inf
        rewrites = writes.kind == REWRITE
        alike = [one for one in self.errors if (one.kind == REWRITE) == rewrites]
        alike = alike or list(self.errors)
        ends = []
        for one in alike:
            centre = math.log(last_fill(predict(self.without[one], writes, fills)))
            ends.append((centre - abs(self.errors[one]), centre + abs(self.errors[one])))
        n = len(ends)
        rank = min(n, math.ceil(INTERVAL * (n + 1)))
        low = sorted((end[0] for end in ends), reverse=True)[rank - 1]
        high = sorted(end[1] for end in ends)[rank - 1]
        return math.exp(low), math.exp(high)


def last_fill(rates: Floats) -> float:
    """Return the mean rate of the last fill, which is bytes over time, not the mean of rates."""
    last = rates[-STEPS:]
    return len(last) / float(np.sum(1 / last))


def observed(name: str, writes: Writes, series: Series) -> Observed:
    """Return a run by quarters of fills. Raises UsageError if it wrote less than one fill."""
    assert series.written_fills is not None
    fills = np.concatenate([[0.0], series.written_fills])
    quarters = math.floor(round(STEPS * fills[-1], 1))
    if quarters < STEPS:
        raise UsageError(f"{name}: {fills[-1]:.2g} fills are too few; a fit needs at least one")
    ends = np.minimum(np.arange(quarters + 1) / STEPS, fills[-1])
    times = np.interp(ends, fills, np.concatenate([[0.0], series.t_s]))
    return Observed(name, writes, np.diff(ends) * writes.span_bytes / np.diff(times))


def predict(parameters: Parameters, writes: Writes, fills: int) -> Floats:
    """Return the rate of each quarter of a fill, in bytes/s."""
    size = GIB if math.isnan(parameters.superblock_bytes) else parameters.superblock_bytes
    alpha = parameters.physical_bytes / writes.span_bytes
    found = _amplified(writes, fills, alpha, parameters.policy, size)
    if found is None:
        raise UsageError(f"{writes.pattern}: the fitted drive has no spare area for this range")
    most = parameters.most_bytes_per_s
    near = min(most, key=lambda size: abs(math.log(size / writes.block_bytes)))
    return _rates(found, writes, parameters.flash_bytes_per_s, parameters.copy_cost, most[near])


def _rates(
    found: Floats, writes: Writes, flash: float | Floats, cost: float, most: float
) -> Floats:
    if writes.iodepth == 1:
        return np.asarray(1 / (1 / most + (1 + cost) * (found - 1) / flash))
    return np.asarray(np.minimum(most, flash / (found + cost * (found - 1))))


def fit(runs: Sequence[Observed]) -> Fit:
    """Return the drive that fits these runs best. Raises UsageError if the runs fit no drive."""
    plain = [run for run in runs if run.writes.kind != REWRITE]
    zoned = [run for run in runs if run.writes.kind == REWRITE]
    if not plain:
        raise UsageError(
            "runs that rewrite zones do not tell the spare area; add one of random writes"
        )
    most = _fastest(runs)
    grid = _grid(plain, most)
    best = grid.best(None)
    zones = _zones(zoned, best)
    best = _with_superblock(best, zones, None)
    without = {}
    for writes in grid.workloads if len(grid.workloads) > 1 else ():
        without[writes] = _with_superblock(grid.best(writes), zones, None)
    for writes in dict.fromkeys(run.writes for run in zoned):
        without[writes] = _with_superblock(best, zones, writes)
    errors = {}
    for writes, parameters in without.items():
        alike = [run for run in runs if run.writes == writes]
        logs = [
            math.log(run.steady / last_fill(predict(parameters, writes, _fills(run))))
            for run in alike
        ]
        errors[writes] = max(logs, key=abs)
    loss = np.mean([_loss(run.rates, predict(best, run.writes, _fills(run))) for run in runs])
    return Fit(best, without, errors, float(loss))


def of_one_run(run: Observed, fill_bytes_per_s: float = math.inf) -> tuple[Parameters, Parameters]:
    """Return two fits to one run: one that the host limits in its first quarter, and one not.

    One run does not tell which of them is right. The second drive's limit is the rate of a
    sequential fill, or its flash.
    """
    most = _fastest([run])
    limited = _grid([run], most).best(None)
    free = _grid([run], dict.fromkeys(most, math.inf)).best(None)
    limit = min(free.flash_bytes_per_s, max(fill_bytes_per_s, *most.values()))
    return limited, replace(free, most_bytes_per_s=dict.fromkeys(most, limit))


def widened(factor: float, runs: int) -> float:
    """Return the factor of an interval from the factor within which 95 % of `runs` runs were."""
    return float(factor ** (WIDENED if runs < FEW_RUNS else 1))


def predict_from_one(drives: tuple[Parameters, Parameters], writes: Writes, fills: int) -> float:
    """Return the rate of the last fill in bytes/s: the geometric mean of both drives' rates."""
    return math.sqrt(math.prod(last_fill(predict(one, writes, fills)) for one in drives))


def _fastest(runs: Sequence[Observed]) -> dict[int, float]:
    """Return the highest rate by block size: many in flight are not slower than one at a time."""
    top = max(float(run.rates.max()) for run in runs)
    found: dict[int, float] = {}
    for run in runs:
        rate = float(run.rates.max()) if run.writes.iodepth == 1 else top
        found[run.writes.block_bytes] = max(rate, found.get(run.writes.block_bytes, 0.0))
    return found


def _fills(run: Observed) -> int:
    return math.ceil(len(run.rates) / STEPS)


def _weights(n: int) -> Floats:
    weights = np.full(n, (1 - LAST_FILL_WEIGHT) / n)
    weights[-STEPS:] += LAST_FILL_WEIGHT / STEPS
    return weights


def _loss(rates: Floats, predicted: Floats) -> float:
    n = len(rates)
    return float(np.sum(_weights(n) * np.abs(np.log(rates / predicted[:n]))))


def _amplified(
    writes: Writes, fills: int, alpha: float, policy: Policy, superblock_bytes: float
) -> Floats | None:
    """Return the write amplification at `alpha`, from the two simulated spare areas around it."""
    spare = alpha - 1
    if spare <= 0:
        return None
    step = math.log(SPARES[1] / SPARES[0])
    place = math.log(spare / SPARES[0]) / step
    below = math.floor(place + 1e-9)
    ends = [
        amplification(
            writes, fills, 1 + SPARES[0] * math.exp(step * one), policy, int(superblock_bytes)
        )
        for one in ((below, below + 1) if place - below > 1e-6 else (below,))
    ]
    if any(one is None for one in ends):
        return None
    logs = [np.log(np.maximum(one - 1, 1e-4)) for one in ends if one is not None]
    share = place - below if len(logs) == 2 else 0.0
    return np.asarray(1 + np.exp((1 - share) * logs[0] + share * logs[-1]))


@dataclass(frozen=True, slots=True, eq=False)
class _Grid:
    """The loss of every setting tried, by workload."""

    workloads: tuple[Writes, ...]
    tried: tuple[tuple[float, Policy, float, float], ...]
    losses: Floats  # tried x flash steps x workloads
    most: Mapping[int, float]

    def best(self, left_out: Writes | None) -> Parameters:
        used = [i for i, one in enumerate(self.workloads) if one != left_out]
        total = self.losses[:, :, used].sum(axis=2)
        at, step = np.unravel_index(int(total.argmin()), total.shape)
        physical, policy, cost, flash = self.tried[at]
        return Parameters(
            physical, policy, math.nan, flash * float(FLASH_STEPS[step]), cost, self.most
        )


def _grid(runs: Sequence[Observed], most: Mapping[int, float]) -> _Grid:
    workloads = tuple(dict.fromkeys(run.writes for run in runs))
    whole = max(run.writes.span_bytes for run in runs)
    count = (len(SPARES) - 1) * BETWEEN + 1
    spares = np.geomspace(SPARES[0], SPARES[-1], count)
    tried, losses = [], []
    policies, costs = (POLICIES, COPY_COSTS) if len(workloads) > 1 else OF_ONE_WORKLOAD
    for spare, policy in product(spares, policies):
        physical = whole * (1 + spare)
        amplified = [
            _amplified(run.writes, _fills(run), physical / run.writes.span_bytes, policy, GIB)
            for run in runs
        ]
        for cost in costs:
            flash, loss = _scaled(runs, workloads, amplified, cost, most)
            tried.append((physical, policy, cost, flash))
            losses.append(loss)
    return _Grid(workloads, tuple(tried), np.array(losses), most)


def _scaled(
    runs: Sequence[Observed],
    workloads: Sequence[Writes],
    amplified: Sequence[Floats | None],
    cost: float,
    most: Mapping[int, float],
) -> tuple[float, Floats]:
    """Return the best flash rate, computed by a formula, and the losses at the steps around it."""
    scales = []
    courses = []
    for run, found in zip(runs, amplified, strict=True):
        assert found is not None
        courses.append(found[: len(run.rates)])
        last = float(np.mean(courses[-1][-STEPS:]))
        if run.steady < 0.95 * most[run.writes.block_bytes]:
            scales.append(math.log(run.steady * (last + cost * (last - 1))))
    flash = math.exp(float(np.median(scales or [math.log(max(run.steady for run in runs))])))
    losses = np.zeros((len(FLASH_STEPS), len(workloads)))
    alike = [sum(run.writes == one for run in runs) for one in workloads]
    for run, found in zip(runs, courses, strict=True):
        rates = _rates(
            found, run.writes, flash * FLASH_STEPS[:, None], cost, most[run.writes.block_bytes]
        )
        error = np.abs(np.log(run.rates / rates)) @ _weights(len(found))
        at = workloads.index(run.writes)
        losses[:, at] += error / alike[at]
    return flash, losses


def _zones(
    runs: Sequence[Observed], best: Parameters
) -> Mapping[Parameters, Mapping[Writes, float]]:
    """Return the loss of each workload of zones, by the superblock's size and the host's rate."""
    losses: dict[Parameters, dict[Writes, float]] = {}
    sizes = {run.writes.block_bytes for run in runs}
    for size, share in product(SUPERBLOCKS, HOST_SHARES) if runs else ():
        most = {
            block: rate * (share if block in sizes else 1)
            for block, rate in best.most_bytes_per_s.items()
        }
        sized = replace(best, superblock_bytes=size, most_bytes_per_s=most)
        losses[sized] = dict.fromkeys((run.writes for run in runs), 0.0)
        for run in runs:
            try:
                loss = _loss(run.rates, predict(sized, run.writes, _fills(run)))
            except UsageError:  # superblocks this large leave no spare
                loss = math.inf
            losses[sized][run.writes] += loss
    return losses


def _with_superblock(
    best: Parameters,
    zones: Mapping[Parameters, Mapping[Writes, float]],
    left_out: Writes | None,
) -> Parameters:
    """Return `best` with the superblock and the host's rate that fit the runs of zones."""
    if not zones:
        return best
    total = {
        sized: sum(loss for writes, loss in losses.items() if writes != left_out)
        for sized, losses in zones.items()
    }
    alike = [sized for sized in total if total[sized] <= (1 + ALIKE) * min(total.values())]
    middle = alike[len(alike) // 2]
    return replace(
        best,
        superblock_bytes=middle.superblock_bytes,
        most_bytes_per_s=middle.most_bytes_per_s,
    )
