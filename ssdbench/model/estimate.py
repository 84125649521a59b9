"""A number that never travels without its evidence."""

from ssdbench.model.base import Model


class Estimate(Model):
    """A value with its interval, pessimistic bound, sample size and the method behind them."""

    metric: str  # iops, bw_bytes_per_s, lat_mean_ns, lat_p99_ns, …
    unit: str  # 1/s, B/s, ns, …
    value: float
    ci_low: float | None = None  # two-sided 95 % interval, None where there is none
    ci_high: float | None = None
    bound: float | None = None  # the pessimistic bound that a planner uses
    n: int = 0  # independent samples behind it (repeats, batches or I/Os)
    method: str = ""  # "t on 10 repeats", "merged histograms, n_eff 12 345", …
    direction: str = "total"  # read | write | flush | trim | total
    status: str = "published"  # published | indicative | suppressed
    at_least: bool = False  # a latency in fio's last bin, of which no end is known: or longer
    artifacts: tuple[str, ...] = ()  # paths below the run directory
