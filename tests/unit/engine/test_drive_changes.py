import pytest

from ssdbench.engine.changes import FASTEST_BYTES_PER_S, UNSEEN_S, check_drive
from ssdbench.engine.journal import Kind, Record
from ssdbench.engine.session import KERNEL, SIMULATED, Counters

GB = 10**9


def a_record(n: int, kind: Kind, written: int, *, second: int, wall: int | None = None) -> Record:
    """Read `second` s after the host's start; the wall clock shows the same unless told."""
    counters = Counters(
        written_bytes=written, epoch="boot a", source=KERNEL, read_at_s=100.0 + second
    )
    at = f"2026-01-01T00:00:{second if wall is None else wall:02d}+00:00"
    return Record(n, at, kind, "s", "u", {"counters": dict(counters)})


AT_REST = [a_record(0, Kind.BEGUN, 0, second=0), a_record(1, Kind.FINISHED, 10 * GB, second=10)]
AT_WORK = [*AT_REST, a_record(2, Kind.BEGUN, 10 * GB, second=11)]


@pytest.mark.parametrize(
    ("records", "written", "stands"),
    [
        pytest.param(AT_REST, 10 * GB, True, id="nothing-moved"),
        pytest.param(AT_REST, 10 * GB + 512, False, id="one-sector-from-elsewhere"),
        pytest.param(AT_REST, 9 * GB, False, id="counter-went-back"),
        pytest.param(AT_WORK, 15 * GB, True, id="our-own-last-seconds"),
        pytest.param(AT_WORK, 50 * GB, False, id="more-than-we-can-have-written"),
        pytest.param([], 0, False, id="no-counters-at-all"),
    ],
)
def test_only_our_own_writes_leave_a_fill_standing(
    records: list[Record], written: int, stands: bool
) -> None:
    now = Counters(written_bytes=written, epoch="boot a", source=KERNEL)

    assert check_drive(records, now).intact is stands


@pytest.mark.parametrize("shown", [(50, 0, 0), (0, 1, 1), (0, 59, 59)], ids=["back", "slow", "on"])
def test_a_wall_clock_that_is_set_in_mid_run_does_not_change_what_we_can_have_written(
    shown: tuple[int, int, int],
) -> None:
    first, second, third = shown
    records = [
        a_record(0, Kind.BEGUN, 0, second=0, wall=first),
        a_record(1, Kind.FINISHED, 10 * GB, second=10, wall=second),
        a_record(2, Kind.BEGUN, 10 * GB, second=11, wall=third),
    ]

    for written, stands in ((15 * GB, True), (50 * GB, False)):
        now = Counters(written_bytes=written, epoch="boot a", source=KERNEL)
        assert check_drive(records, now).intact is stands


@pytest.mark.parametrize(
    "read_at_s", [(0.0, 0.0), (200.0, 100.0), (100.0, 101.0)], ids=["unknown", "back", "absurd"]
)
def test_times_that_cannot_be_allow_no_more_than_the_fastest_drive_writes(
    read_at_s: tuple[float, float],
) -> None:
    records = [
        Record(n, "2026-01-01T00:00:00+00:00", Kind.BEGUN, "s", "u", {"counters": dict(counters)})
        for n, (written, at_s) in enumerate(zip((0, 100 * GB), read_at_s, strict=True))
        for counters in [
            Counters(written_bytes=written, epoch="boot a", source=KERNEL, read_at_s=at_s)
        ]
    ]
    most = 100 * GB + int(FASTEST_BYTES_PER_S * UNSEEN_S)

    for written, stands in ((most, True), (most + 512, False)):
        now = Counters(written_bytes=written, epoch="boot a", source=KERNEL)
        assert check_drive(records, now).intact is stands


def a_log(n: int, kind: Kind, kernel: int, log: int | None, **data: object) -> Record:
    """At rest, where the drive's log was read."""
    counters = Counters(written_bytes=kernel, log_bytes=log, epoch="boot a", source=KERNEL)
    return Record(
        n, "2026-01-01T00:00:00+00:00", kind, "s", "u", {"counters": dict(counters)} | data
    )


UNIT = 512_000
QUIET = [a_log(0, Kind.RUN, 3 * GB, 9 * GB), a_log(1, Kind.FINISHED, 4 * GB, 10 * GB)]
LATE = [a_log(0, Kind.RUN, 3 * GB, 9 * GB), a_log(1, Kind.FINISHED, 4 * GB, 9 * GB)]
PASSING = [
    *QUIET,
    a_log(2, Kind.BEGUN, 4 * GB, 10 * GB, bytes_written=5 * GB, past_kernel=True),
    a_log(3, Kind.ALIVE, 4 * GB, None, bytes_written=6 * GB),
]
THROUGH = [
    *QUIET,
    a_log(2, Kind.BEGUN, 4 * GB, 10 * GB, bytes_written=5 * GB),
    a_log(3, Kind.ALIVE, 5 * GB, None, bytes_written=6 * GB),
]
PASSED = [
    *PASSING,
    a_log(4, Kind.FINISHED, 4 * GB, 12 * GB, bytes_written=7 * GB),
    a_log(5, Kind.BEGUN, 4 * GB, 12 * GB, bytes_written=7 * GB),
]
WRITTEN_OVER = [*QUIET, a_log(2, Kind.RESUMED, 4 * GB, 12 * GB, stands=False)]
UNSEEN = int(FASTEST_BYTES_PER_S * UNSEEN_S)


@pytest.mark.parametrize(
    ("records", "kernel", "log", "stands"),
    [
        pytest.param(QUIET, 4 * GB, 10 * GB + 2 * UNIT, True, id="rounding"),
        pytest.param(QUIET, 4 * GB, 10 * GB + 3 * UNIT, False, id="past-the-kernel"),
        pytest.param(QUIET, 4 * GB, None, True, id="no-log-now"),
        pytest.param(LATE, 4 * GB, 10 * GB, True, id="a-log-that-was-late"),
        pytest.param(LATE, 4 * GB, 11 * GB, True, id="late-as-before"),
        pytest.param(LATE, 4 * GB, 12 * GB, False, id="more-than-late"),
        pytest.param(THROUGH, 5 * GB, 11 * GB, True, id="our-own-through-the-kernel"),
        pytest.param(THROUGH, 5 * GB, 12 * GB, False, id="more-than-the-kernel-counted"),
        pytest.param(PASSING, 4 * GB, 11 * GB + UNSEEN, True, id="our-own-past-the-kernel"),
        pytest.param(PASSED, 4 * GB, 13 * GB, False, id="as-much-as-we-passed-before"),
        pytest.param(WRITTEN_OVER, 4 * GB, 13 * GB, False, id="once-more-by-others"),
        pytest.param(PASSING, 4 * GB, 12 * GB + UNSEEN, False, id="more-than-we-can-have-passed"),
    ],
)
def test_what_the_drive_counts_beyond_the_kernel_and_us_ends_the_standing(
    records: list[Record], kernel: int, log: int | None, stands: bool
) -> None:
    now = Counters(written_bytes=kernel, log_bytes=log, epoch="boot a", source=KERNEL)

    found = check_drive(records, now)

    assert found.intact is stands
    assert ("health log" in found.reason) is not stands


def test_a_restart_of_the_host_proves_nothing() -> None:
    now = Counters(written_bytes=10 * GB, epoch="boot b", source=KERNEL)

    assert "restarted" in check_drive(AT_REST, now).reason


def test_a_simulated_drive_at_work_may_have_moved_by_any_amount() -> None:
    now = Counters(written_bytes=5000 * GB, epoch="boot a", source=SIMULATED)

    assert check_drive(AT_WORK, now).intact
    assert not check_drive(AT_REST, now).intact


# --- did somebody else write? ---------------------------------------------------------------------


def again(kernel: int, log: int | None, epoch: str = "boot a", discarded: int = 0) -> Counters:
    return Counters(
        written_bytes=kernel,
        log_bytes=log,
        epoch=epoch,
        source=KERNEL,
        discarded_bytes=discarded,
    )


LOGGED = [a_log(0, Kind.RUN, 0, 100 * GB), a_log(1, Kind.FINISHED, 10 * GB, 110 * GB)]


@pytest.mark.parametrize(
    ("records", "now", "touched"),
    [
        pytest.param(LOGGED, again(10 * GB, 110 * GB), False, id="as-it-was"),
        pytest.param(LOGGED, again(10 * GB + 4096, 110 * GB), True, id="kernel-counts-a-write"),
        pytest.param(LOGGED, again(10 * GB, 110 * GB, discarded=4096), True, id="discarded"),
        pytest.param(LOGGED, again(10 * GB, 112 * GB), True, id="log-alone-counts-a-write"),
        pytest.param(LOGGED, again(0, 110 * GB, "boot b"), False, id="restarted"),
        pytest.param(LOGGED, again(0, 112 * GB, "boot b"), True, id="written-by-another-host"),
        pytest.param(LOGGED, again(0, None, "boot b"), False, id="restarted-without-a-log"),
        pytest.param(AT_REST, again(0, 5 * GB, "boot b"), False, id="no-log-then"),
        pytest.param([], again(0, 0), False, id="nothing-known"),
        pytest.param(LOGGED, Counters(), False, id="a-file"),
    ],
)
def test_counters_that_show_the_writes_of_others_are_told_from_none_at_all(
    records: list[Record], now: Counters, touched: bool
) -> None:
    assert check_drive(records, now).touched is touched


def test_what_a_killed_run_had_still_written_is_not_somebody_elses_after_a_restart() -> None:
    """At work at 1 GB/s: the log may be ahead by what was written since, and no further."""
    at_work = [
        a_log(0, Kind.RUN, 0, 0),
        a_record(1, Kind.BEGUN, 0, second=0),
        a_record(2, Kind.ALIVE, 10 * GB, second=10),
    ]
    most = 10 * GB + int(UNSEEN_S) * GB

    found = [check_drive(at_work, again(0, log, "boot b")).touched for log in (most, most + 2 * GB)]

    assert found == [False, True]


def test_time_between_a_kill_and_its_resume_does_not_make_the_drive_slow() -> None:
    """Else little would be allowed after the next kill, and our own writes were somebody's."""
    records = [
        a_record(0, Kind.BEGUN, 0, second=0),
        a_record(1, Kind.RESUMED, GB, second=59),
        a_record(2, Kind.BEGUN, GB, second=59),
    ]

    assert check_drive(records, again(6 * GB, None)).intact


@pytest.mark.parametrize(("discards", "touched"), [(0, True), (4096, False)])
def test_discards_at_a_kill_are_the_runs_own_where_it_discarded_before(
    discards: int, touched: bool
) -> None:
    records = [
        Record(n, "2026-01-01T00:00:00+00:00", kind, "s", "u", {"counters": dict(counters)})
        for n, (kind, counters) in enumerate(
            [(Kind.BEGUN, again(0, None)), (Kind.ALIVE, again(0, None, discarded=discards))]
        )
    ]

    assert check_drive(records, again(0, None, discarded=8192)).touched is touched
