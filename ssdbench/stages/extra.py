"""Plan extra repeats: for wide intervals, disturbed repeats, and repeats that had not settled.

They are declared before the start. No repeat is replaced or dropped: extra repeats come after the
planned ones, in shuffled passes, and all repeats count and are shown. Which points get one follows
from the stored repeats alone, so that a resumed run decides the same.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from ssdbench.engine.stage import derived_seed
from ssdbench.model.finding import Finding
from ssdbench.model.findings.repeats import ExtraRepeats, WideInterval
from ssdbench.model.point import Repeat
from ssdbench.model.workload import Point
from ssdbench.stages.measuring import PlannedRepeat
from ssdbench.stats.estimate import t_interval


@dataclass(frozen=True, slots=True)
class Extra:
    """Hold the rules for extra repeats. `most`: repeats per point, planned ones included."""

    most: int = 0
    width: float | None = None  # half the 95 % interval over the mean; wider ones get more
    against_disturbance: bool = False  # until as many as planned were undisturbed
    unsettled: int = 0  # at most so many beyond the planned ones, until as many as planned settled

    def most_of(self, planned: int) -> int:
        """Return the most repeats per point."""
        return max(planned, self.most, planned + self.unsettled)


def interval_width(repeats: Sequence[Repeat]) -> float:
    """Return half the width of the 95 % interval of the mean, as a share of the mean."""
    values = [repeat.iops for repeat in repeats]
    interval = t_interval(values)
    mean = sum(values) / len(values) if values else 0.0
    return (interval.high - interval.low) / 2 / mean if interval and mean > 0 else float("inf")


def reasons(extra: Extra, repeats: Sequence[Repeat], planned: int) -> list[str]:
    """Return why a point needs one more repeat; empty when it does not, or may have no more."""
    found = []
    settled = sum(repeat.settled for repeat in repeats)
    lasts = all(repeat.settled for repeat in repeats if repeat.unbroken_s)
    if settled < planned and lasts and len(repeats) < planned + extra.unsettled:
        found.append(f"{len(repeats) - settled} not settled")
    if len(repeats) >= extra.most:
        return found
    if extra.width is not None and (width := interval_width(repeats)) > extra.width:
        found.append(f"interval of {100 * width:.2g} %")
    sound = sum(not repeat.disturbed for repeat in repeats)
    if extra.against_disturbance and sound < planned:
        found.append(f"{len(repeats) - sound} disturbed")
    return found


def next_pass(
    name: str,
    points: Sequence[Point],
    repeats: Mapping[str, Sequence[Repeat]],
    extra: Extra,
    *,
    planned: int,
    seed: int,
) -> list[PlannedRepeat]:
    """Return one more repeat of every point that needs one, shuffled.

    `repeats` holds the repeats of each point by its id. If some points have one more than others,
    an extra pass was interrupted: it is finished first.
    """
    wanting = [point for point in points if reasons(extra, repeats.get(point.id, ()), planned)]
    number = min((len(repeats.get(p.id, ())) for p in wanting), default=0) + 1
    order = [point for point in wanting if len(repeats.get(point.id, ())) + 1 == number]
    Random(derived_seed(seed, name, "order", number)).shuffle(order)
    return [
        PlannedRepeat(
            point=point,
            repeat=number,
            pass_order=position,
            seed=derived_seed(seed, name, point.id, number),
        )
        for position, point in enumerate(order)
    ]


def told(
    extra: Extra, repeats: Mapping[str, Sequence[Repeat]], planned: int, stage: str
) -> Iterator[Finding]:
    """Report how many extra repeats were made, and which points still have wide intervals."""
    more = {name: len(own) - planned for name, own in repeats.items() if len(own) > planned}
    if more:
        most = extra.most_of(planned)
        yield ExtraRepeats(sum(more.values()), len(more), most).finding(stage=stage)
    if extra.width is None:
        return
    for name, own in repeats.items():
        if own and (width := interval_width(own)) > extra.width:
            yield WideInterval(len(own), width, extra.width).finding(point=name, stage=stage)
