"""After the warm-up: the workload that moves most bytes, until the drive's temperature is flat.

Small random writes make a drive slow, not hot. A plan whose other points move more bytes would heat
it up while they are measured, and throttling would come after the verdict. Drives without a sensor
are not heated: nobody could tell when to stop.
"""

from collections.abc import Sequence

from ssdbench.engine.fiorun import FioRun
from ssdbench.engine.stage import Context, derived_seed
from ssdbench.generator.base import Job
from ssdbench.model.found import Heated
from ssdbench.model.workload import Workload

PART = "heating"
LOOK_S = 60.0
LOOKS = 5  # means of so many readings are compared
FLAT_C = 1.0  # between one mean and the next
LONGEST_S = 3600.0


def heat_up(context: Context, workload: Workload, name: str) -> Heated | None:
    """Run it until two means of five minutes agree within 1 °C, or for an hour."""
    first = context.heat(context.target)
    if first is None:
        return None
    readings = [first.temperature_c]
    job = Job(name=PART, workload=workload, seed=derived_seed(context.seed, name, PART))
    next_s = LOOK_S
    with FioRun(context, [job], phase=PART, part=PART, step_s=int(LOOK_S)) as run:
        for second in run:
            if second.t_s < next_s:
                continue
            next_s += LOOK_S
            now = context.heat(context.target)
            if now is not None:
                readings.append(now.temperature_c)
            if now is None or is_flat(readings) or second.t_s >= LONGEST_S:
                run.stop()
        run.outcome()
    return Heated(
        label=workload.label(),
        seconds=run.length_s,
        from_c=readings[0],
        to_c=readings[-1],
        flat=is_flat(readings),
    )


def is_flat(readings: Sequence[float]) -> bool:
    """Whether the newest five readings are no more than 1 °C above the five before them."""
    if len(readings) < 2 * LOOKS:
        return False
    newest, before = readings[-LOOKS:], readings[-2 * LOOKS : -LOOKS]
    return (sum(newest) - sum(before)) / LOOKS <= FLAT_C
