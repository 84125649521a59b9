"""Block queue settings from a profile's wishes (pure): scheduler first, dependants after."""

from collections.abc import Mapping

from ssdbench.tuning.setting import Backend, Setting

# In the order in which they must be written: some reset others (see setting.RESETS).
QUEUE_SETTINGS: Mapping[str, tuple[str, str]] = {
    "scheduler": ("queue/scheduler", "the scheduler decides order and merging of requests"),
    "nr_requests": ("queue/nr_requests", "a scheduler sees at most this many requests"),
    "nomerges": ("queue/nomerges", "merged requests are not the block size that was asked for"),
    "rq_affinity": ("queue/rq_affinity", "where completions run changes latency and CPU cost"),
    "wbt_lat_usec": ("queue/wbt_lat_usec", "writeback throttling holds back buffered writes"),
    "add_random": ("queue/add_random", "feeding the entropy pool costs CPU per request"),
    "io_poll": ("queue/io_poll", "polled completions trade CPU for latency"),
    "read_ahead_kb": ("queue/read_ahead_kb", "read-ahead reads more than was asked for"),
}

KEEP = "keep"


def queue_settings(wishes: Mapping[str, str | int], drive: str) -> list[Setting]:
    """Settings of one drive's queue; `keep` and what is not wished for stay as they are."""
    return [
        Setting(Backend.BLOCK, attribute, str(wishes[name]), reason, drive)
        for name, (attribute, reason) in QUEUE_SETTINGS.items()
        if str(wishes.get(name, KEEP)) != KEEP
    ]
