"""Test whether drives may be measured side by side: planted losses, and how often it is wrong."""

import math
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest

from ssdbench.cli import conduct
from ssdbench.engine.stage import Limits, RateHint
from ssdbench.errors import Interrupted
from ssdbench.generator.base import Second
from ssdbench.model.target import Consent
from ssdbench.model.workload import ActiveRange, Pattern, Workload
from ssdbench.stats.checks import Loss, loss, says
from ssdbench.suite import interference
from ssdbench.suite.plan import RunPlan
from tests.support.fakes import WearyDrive

READS = Workload(
    pattern=Pattern.RANDOM,
    block_bytes=4096,
    read_percent=100,
    range=ActiveRange(offset_bytes=0, length_bytes=1 << 20),
)


def planted(chance: np.random.Generator, share: float, noise: float, rounds: int = 10) -> Loss:
    """Return a drive with this loss, measured with noise while both rates drift by 20 %."""
    drift = np.linspace(1.0, 0.8, rounds)
    alone = 1000 * drift * np.exp(chance.normal(0, noise, rounds))
    together = 1000 * drift * (1 - share) * np.exp(chance.normal(0, noise, rounds))
    return loss("a", "reads", list(alone), list(together))


@pytest.mark.parametrize(
    ("share", "noise", "least", "most"),
    [
        (0.01, 0.002, 0.0, 0.035),  # at the limit: as often as 95 % on two sides leave out
        (0.01, 0.010, 0.0, 0.035),
        (0.0, 0.005, 0.95, 1.0),
        (0.0, 0.030, 0.0, 0.30),  # too much noise to tell
        (0.05, 0.005, 0.0, 0.0),
    ],
)
def test_how_often_the_rule_says_side_by_side(
    share: float, noise: float, least: float, most: float
) -> None:
    chance = np.random.default_rng(1)
    told = [says([planted(chance, share, noise)])[0] for _ in range(1000)]
    assert least <= np.mean(told) <= most


def test_the_interval_holds_the_planted_loss() -> None:
    chance = np.random.default_rng(2)
    found = [planted(chance, 0.03, 0.01) for _ in range(1000)]
    inside = [o.low is not None and o.high is not None and o.low < 0.03 < o.high for o in found]
    assert 0.93 <= np.mean(inside) <= 0.97


def test_one_drive_that_loses_or_cannot_be_told_keeps_all_from_it() -> None:
    chance = np.random.default_rng(3)
    good, bad = planted(chance, 0.0, 0.001), planted(chance, 0.05, 0.001)
    dead = loss("b", "reads", [100.0] * 10, [0.0] * 10)
    unsure = planted(chance, 0.0, 0.05)

    assert says([good])[0] and "side by side: at worst a loses" in says([good])[1]
    assert says([good, bad])[1].startswith("one after another: a loses 5.")
    assert says([good, dead]) == (
        False,
        "one after another: the rounds do not show a loss below 1 %: it is not known how much of "
        "its rate b loses under reads while other drives work",
    )
    assert "do not show a loss below 1 %" in says([good, unsure])[1]
    assert says([])[0] is False


class Hardware:
    """Two drives behind one bus: when both work, each gets a share of its rate."""

    def __init__(self, share: float) -> None:
        self.share, self.meeting = share, Barrier(1)
        self.alone: Counter[str] = Counter()
        self.together: Counter[str] = Counter()

    def rate(self, drive: str, workload: Workload, place: Path, seed: int) -> float:
        shared = self.meeting.parties > 1
        self.meeting.wait(60)  # at work at the same time, however busy the host is
        (self.together if shared else self.alone)[drive] += 1
        wobble = 1 + 1e-4 * math.sin(seed + len(drive))
        return 500.0 * wobble * (self.share if shared else 1)


@pytest.mark.parametrize(
    ("share", "rounds", "workloads", "side_by_side"),
    [(1.0, 10, 2, True), (0.9, interference.SURE_AFTER, 1, False)],
)
def test_a_trial_has_each_drive_alone_and_all_together_in_every_round(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    share: float,
    rounds: int,
    workloads: int,
    *,
    side_by_side: bool,
) -> None:
    hardware = Hardware(share)

    class Threads(ThreadPoolExecutor):
        def map(self, work: Callable[..., Any], turn: list[str], *args: Any) -> Iterator[Any]:  # type: ignore[override]
            hardware.meeting = Barrier(len(turn))
            return super().map(work, turn, *args)

    monkeypatch.setattr(interference, "ThreadPoolExecutor", Threads)
    wanted = {name: {"a": READS, "bb": READS} for name in ("small", "large")}

    tried = interference.rounds(["a", "bb"], wanted, tmp_path, hardware.rate)

    assert tried.side_by_side is side_by_side
    each = rounds * workloads
    assert hardware.alone == hardware.together == {"a": each, "bb": each}
    assert len(tried.turns) == 3 * each
    orders = [tuple(one.iops) for one in tried.turns]
    assert len({tuple(orders[i : i + 3]) for i in range(0, 3 * each, 3)}) > 2  # by chance
    for one in tried.losses:
        assert one.mean == pytest.approx(1 - share, abs=1e-3)


def test_a_signal_ends_a_trial_within_a_second_of_its_drives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drives, seen, done = {"a": WearyDrive(), "b": WearyDrive()}, [], []

    def second(_drive: WearyDrive, one: Second) -> None:
        done.append(one)
        if len(done) == 3:
            seen.append(signal.SIGTERM)

    for drive in drives.values():
        drive.on_second = second
    (tmp_path / "p.yaml").write_text("measure: [{sweep: {read: 100, iodepth: 2}}]\n")
    profile = str(tmp_path / "p.yaml")
    each = [conduct.asked(profile, target=name, consent=Consent()) for name in drives]
    planned = [
        RunPlan(
            drive.info, (), Limits(), RateHint(),
            seconds=(0, 0), bytes_written=(0, 0), fills=(0, 0),
        )
        for drive in drives.values()
    ]  # fmt: skip
    claims = iter(drives.values())
    monkeypatch.setattr(interference, "require_able", lambda _info: "")
    monkeypatch.setattr(interference, "claimed", lambda *_, **__: nullcontext(next(claims)))

    with pytest.raises(Interrupted):
        interference.trial(
            each, planned, tmp_path / "out", interrupted=lambda: seen[0] if seen else None
        )

    assert len(done) <= 4
