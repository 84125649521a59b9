"""Simulated drives as block devices: what the server asks of the driver, lateness, refusals."""

import re
import struct
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from ssdbench.cli.sim import command
from ssdbench.engine.unitwatch import LateWatch
from ssdbench.errors import HostLacks, UsageError
from ssdbench.model.finding import Code, Severity
from ssdbench.sim import ublk
from ssdbench.sim.drive import SimDrive
from ssdbench.sim.spec import parse

NATIVE = Path(ublk.__file__).parent / "native"
FETCH, COMMIT = 32, 33  # of include/uapi/linux/ublk_cmd.h
EINVAL, ENOSPC = 22, 28
BLOCK = 4096


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both servers without their kernel."""
    out = tmp_path_factory.mktemp("fronts")
    program = out / "fronts-test"
    subprocess.run(
        ["make", "-s", "-C", NATIVE, f"OUT={out}", f"BUILD={out}/build", "CFLAGS=-O0", program],
        check=True, timeout=300,
    )  # fmt: skip
    return program


def asked_by(program: Path, what: str, *, data: str) -> dict[str, list[str]]:
    """What the server asked of a driver that is plain memory, by the request before it."""
    drive = program.with_name(f"{what}.ssdb")
    SimDrive.create(parse("sim:p4500-4t,capacity=1GiB,erase_block=64KiB"), drive).close(saves=False)
    said = subprocess.run([program, what, drive, data], capture_output=True, text=True, check=True)
    lines: dict[str, list[str]] = {}
    for line in said.stdout.splitlines():
        what, _, rest = line.partition(": ") if ": " in line else (line, "", "")
        lines.setdefault(what, []).append(rest)
    return lines


@pytest.fixture(scope="module")
def asked(program: Path) -> dict[str, list[str]]:
    """What a drive with stored data asked."""
    return asked_by(program, "ublk", data=str(program.with_name("drive.data")))


def committed(line: str) -> tuple[int, int, int]:
    """Command, tag and result of a request to the driver; the buffer is always the tag's own."""
    found = re.fullmatch(r"fd 7 op 46 command (\d+) tag (\d+) result (-?\d+) buffer 1", line)
    assert found, line
    return int(found[1]), int(found[2]), int(found[3])


def test_every_tag_is_fetched_once(asked: dict[str, list[str]]) -> None:
    assert [committed(line) for line in asked["fetch"]] == [(FETCH, tag, 0) for tag in range(32)]


@pytest.mark.parametrize(
    ("what", "answers"),
    [
        ("write", [(5, BLOCK)]),
        ("read", [(5, BLOCK)]),
        ("flush", [(0, 0)]),
        ("discard and read", [(1, BLOCK), (5, BLOCK)]),
        ("zeroes", [(2, BLOCK)]),
        ("read past the end", [(4, -EINVAL)]),
        ("write past the end", [(4, -ENOSPC)]),
        ("unknown", [(4, -EINVAL)]),
    ],
)
def test_each_request_is_answered_once_with_its_bytes_or_its_error(
    asked: dict[str, list[str]], what: str, answers: list[tuple[int, int]]
) -> None:
    found = sorted(committed(line) for line in asked[what])

    assert found == [(COMMIT, tag, result) for tag, result in answers]


def test_what_was_written_is_read_until_it_is_discarded(asked: dict[str, list[str]]) -> None:
    assert "data ww" in asked
    assert "data 00" in asked


def test_without_stored_data_reads_are_zeros_after_writes_through_the_same_buffer(
    program: Path,
) -> None:
    said = asked_by(program, "zeros", data="")

    read = [bytes_read for _, _, bytes_read in map(committed, said["read"])]
    assert [size // BLOCK for size in read] == [1, 1, 3, 1, 8, 4, 2]
    assert len(said["write"]) == 3
    assert {what.split()[0] for what in said} == {"fetch", "write", "read"}


def test_an_aborted_tag_is_no_longer_fetched_and_all_answers_are_counted(
    asked: dict[str, list[str]],
) -> None:
    assert "fetching 31 answered 9" in asked


def lateness_file(running: Path, *, late: dict[int, int], latencies: dict[int, int]) -> None:
    """A file as the server keeps it, with counts of values in ns."""
    buckets = [[0] * 252, [0] * 252]
    for counts, planted in zip(buckets, (late, latencies), strict=True):
        for ns, count in planted.items():
            power = ns.bit_length() - 1
            counts[ns if ns < 4 else 4 * (power - 1) + (ns >> (power - 2) & 3)] += count
    head = (int.from_bytes(b"SSDBLATE", "little"), sum(late.values()), 0, max(late))
    (running / "ublkb0").write_bytes(struct.pack("<508Q", *head, *buckets[0], *buckets[1]))


def test_lateness_is_read_at_most_a_quarter_too_high(tmp_path: Path) -> None:
    planted = {3: 50, 1000: 940, 70_000: 10}
    lateness_file(tmp_path, late=planted, latencies={90_000: 1000})

    lateness = ublk.Lateness.read("ublkb0", running=tmp_path)

    assert lateness is not None
    assert (lateness.answered, lateness.most_ns) == (1000, 70_000)
    assert ublk.at_most_ns(lateness.late, 0.05) == 3
    assert 1000 <= ublk.at_most_ns(lateness.late, 0.5) <= 1250
    assert 1000 <= ublk.at_most_ns(lateness.late, 0.99) <= 1250
    assert 70_000 <= ublk.at_most_ns(lateness.late, 0.995) <= 87_500
    assert 90_000 <= ublk.at_most_ns(lateness.latencies, 0.5) <= 112_500


def test_only_what_came_after_the_first_reading_counts(tmp_path: Path) -> None:
    lateness_file(tmp_path, late={1000: 5}, latencies={90_000: 5})
    before = ublk.Lateness.read("ublkb0", running=tmp_path)
    lateness_file(tmp_path, late={1000: 5, 500_000: 2}, latencies={90_000: 7})
    after = ublk.Lateness.read("ublkb0", running=tmp_path)

    assert before is not None
    assert after is not None
    more = after.since(before)
    assert (more.answered, sum(more.late), sum(more.latencies)) == (2, 2, 2)
    assert ublk.at_most_ns(more.late, 0.01) >= 500_000


@pytest.mark.parametrize("content", [b"", b"SSDBLATE", bytes(508 * 8)])
def test_a_file_of_something_else_tells_no_lateness(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "ublkb0").write_bytes(content)

    assert ublk.Lateness.read("ublkb0", running=tmp_path) is None
    assert ublk.Lateness.read("ublkb1", running=tmp_path) is None


@pytest.fixture
def without_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A kernel without the driver, in an empty directory."""
    monkeypatch.setattr(ublk, "CONTROL", tmp_path / "no" / "ublk-control")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "words", [["attach", "sim:p4800x", "--state", "new.ssdb"], ["detach", "/dev/ublkb0"]]
)
def test_a_kernel_without_the_driver_is_told_and_nothing_is_made(
    without_driver: Path, words: list[str]
) -> None:
    result = CliRunner().invoke(command, words, standalone_mode=False)

    assert isinstance(result.exception, HostLacks)
    assert result.exception.exit_code == 4
    assert "no ublk driver" in result.exception.message
    assert "modprobe ublk_drv" in result.exception.hint
    assert list(without_driver.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["/dev/sda", "/dev/ublkc0", "ublkb", "/dev/ublkb-1", "/dev/ublkb0p1", "0", "ublkb0\n"]
)
def test_only_a_ublk_device_is_detached(name: str) -> None:
    with pytest.raises(UsageError, match="is not the name of a ublk device"):
        ublk.detach(name)


@pytest.mark.parametrize(
    ("late", "found"),
    [
        ({1000: 1000}, 0),
        ({5000: 1000}, 1),
        ({1000: 980, 400_000: 20}, 1),
        ({1000: 998, 10**7: 2}, 0),
    ],
)
def test_lateness_is_a_finding_where_it_is_more_than_a_twentieth_of_the_drives_own(
    tmp_path: Path, late: dict[int, int], found: int
) -> None:
    lateness_file(tmp_path, late={10**6: 1}, latencies={90_000: 1})
    watch = LateWatch(lambda: ublk.Lateness.read("ublkb0", running=tmp_path))
    after = dict(late)
    after[10**6] = after.get(10**6, 0) + 1
    lateness_file(tmp_path, late=after, latencies={90_000: 971, 400_000: 30})

    findings = watch.findings()

    assert [finding.code for finding in findings] == [Code.HOST_BOUND] * found
    for finding in findings:
        assert finding.severity is Severity.INVALIDATES
        assert finding.message.startswith("1,000 requests were answered later than")
        assert finding.numbers["drive_p99_ns"] == 458_751  # the bucket of 400 us ends there


def test_a_search_for_slow_requests_is_spoilt_by_late_slow_ones_alone(tmp_path: Path) -> None:
    """The usual requests of a drive in blocks are fast; the merges that show a block are not."""
    merges = {60_000: 970, 9_000_000: 30}
    for late, spoilt in (({30_000: 1000}, 0), ({30_000: 980, 2_000_000: 20}, 1)):
        lateness_file(tmp_path, late={1: 1}, latencies={60_000: 1})
        watch = LateWatch(lambda: ublk.Lateness.read("ublkb0", running=tmp_path))
        lateness_file(tmp_path, late={1: 1} | late, latencies=merges | {60_000: 971})

        assert len(watch.findings()) == 1
        assert len(watch.findings(of_peaks=True)) == spoilt


def test_a_device_without_counts_or_that_was_attached_again_is_no_finding(tmp_path: Path) -> None:
    assert LateWatch(lambda: ublk.Lateness.read("ublkb0", running=tmp_path)).findings() == []
    lateness_file(tmp_path, late={5000: 50}, latencies={90_000: 50})
    watch = LateWatch(lambda: ublk.Lateness.read("ublkb0", running=tmp_path))
    lateness_file(tmp_path, late={5000: 20}, latencies={90_000: 20})

    assert watch.findings() == []
