"""What a profile asks for that a drive in zones cannot serve; pure.

Such a drive takes writes in order only. fio keeps to its zones (zonemode=zbd) and resets each
before it writes it again, so that what writes in order can be measured, and reads in any order.
"""

from collections.abc import Iterator

from ssdbench.model.asked.mistakes import Mistake
from ssdbench.model.asked.sweeps import ALL_READS, AccessOrder, Sweep
from ssdbench.model.profile import KEEP, Applies, Profile, Purge, SteadyWorkload
from ssdbench.model.quantity import WHOLE
from ssdbench.model.target import TargetInfo

_ZONED = "the drive is zoned"
WHOLE_FILLS = 2  # after so many nothing is left that was there before
_IN_ORDER = f"{_ZONED}, so it takes writes in order only"


def out_of_order(profile: Profile, target: TargetInfo) -> Iterator[Mistake]:
    """Everything in a profile that a drive in zones cannot serve, with the path where it stands."""
    if not target.zone_bytes:
        return
    yield from _settings(profile)
    # fio goes on where a zone that somebody else began has its pointer: one fill leaves old data.
    if 0 < sum(fill.fill for fill in profile.precondition) < WHOLE_FILLS:
        yield (
            ("precondition", 0, "fill"),
            f"{_ZONED}, and a first fill only ends the zones that were begun before; set `fill: 2`",
        )
    for index, fill in enumerate(profile.precondition):
        if fill.pattern is AccessOrder.RANDOM:
            yield ("precondition", index), f"{_IN_ORDER}; set `pattern: sequential`"
    if profile.needs_warm_up:
        yield from _warm_up(profile.steady.workload)
    for index, measure in enumerate(profile.measure):
        if not isinstance(measure.stage, Sweep):
            yield ("measure", index, measure.key), f"{_ZONED}; only sweeps can be measured on it"
            continue
        for path, why in _sweep(measure.stage):
            yield ("measure", index, measure.key, *path), why


def _settings(profile: Profile) -> Iterator[Mistake]:
    if profile.purge is not Purge.NONE:
        yield ("purge",), f"{_ZONED}, and no purge of such drives has been tried; leave it out"
    if profile.generator is not Applies.FIO:
        yield ("generator",), f"{_ZONED}, and only fio keeps to its zones; leave it out"
    if profile.host.scheduler != KEEP:
        yield ("host", "scheduler"), f"{_ZONED}, and not each scheduler keeps the order of writes"
    if profile.fill_level_percent < 100:
        yield ("fill_level",), f"{_ZONED}, and is only filled as a whole; leave it out"


def _warm_up(writes: SteadyWorkload) -> Iterator[Mistake]:
    if writes.pattern is AccessOrder.RANDOM or writes.read_percent or writes.numjobs > 1:
        yield (
            ("steady", "workload"),
            f"{_IN_ORDER}, in the warm-up too; set `pattern: sequential`, without reads and jobs "
            "beside",
        )


def _sweep(sweep: Sweep) -> Iterator[Mistake]:
    writes = min(sweep.read_percent) < ALL_READS
    if writes and AccessOrder.RANDOM in sweep.pattern:
        yield ("pattern",), f"{_IN_ORDER}; set `pattern: sequential`, or `read: 100`"
    if any(0 < percent < ALL_READS for percent in sweep.read_percent):
        yield ("read",), f"{_ZONED}, and reads beside writes have not been tried; set 0 or 100"
    if max(sweep.numjobs) > 1:
        yield ("numjobs",), f"{_ZONED}, and fio's jobs wait for each other's zones; set 1"
    if sweep.span != WHOLE:
        yield ("span",), f"{_ZONED}, and is only measured as a whole; leave it out"
