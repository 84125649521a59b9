"""What is kept of a fleet and shown of it, and a canary that dies before anything else is begun."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ssdbench import __version__
from ssdbench.cli.main import run
from ssdbench.errors import HostLacks, SsdbenchError
from ssdbench.fleet import hostscripts, records
from ssdbench.fleet.drive import Patience, Stage, State
from ssdbench.fleet.hostscripts import Job
from ssdbench.fleet.inventory import Fleet
from ssdbench.fleet.plan import Plan
from ssdbench.fleet.records import Kept, Records
from ssdbench.fleet.scheduler import run_fleet
from ssdbench.fleet.transport import ScriptResult
from ssdbench.host.files import write_atomic
from tests.support.documents import checked
from tests.unit.fleet.test_plan import JOB, Script

FILES = {name: b"{}" for name in ("journal.jsonl", "manifest.json", "result.json")}


def test_a_drive_is_measured_once_its_whole_result_is_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Records(tmp_path)
    kept.make()
    kept.note(JOB, State(Stage.MEASURED))
    assert kept.measured() == frozenset()  # its result was lost, or never came

    def full(path: Path, data: bytes) -> None:
        if path.name == "manifest.json":
            raise HostLacks("no space left")
        write_atomic(path, data)

    monkeypatch.setattr("ssdbench.fleet.records.write_atomic", full)
    with pytest.raises(HostLacks):
        kept.store(JOB, FILES)
    assert kept.measured() == frozenset()

    monkeypatch.undo()
    kept.store(JOB, FILES)
    assert kept.measured() == {JOB.name}
    kept.note(JOB, State(Stage.STOPPED))  # its result was not the last thing that was heard
    assert kept.measured() == frozenset()


@pytest.mark.parametrize(
    ("boot", "state", "started", "alive"),
    [
        ("b", "S", 70, True),
        ("b", "S", 71, False),  # another process has its number
        ("c", "S", 70, False),  # of an earlier boot
        ("b", "Z", 70, False),
    ],
)
def test_a_run_is_alive_while_the_very_process_is(
    boot: str, state: str, started: int, alive: bool
) -> None:
    stat = f"7 (a) b) {state} {'0 ' * 18}{started} 0"
    process = '{"pid": 7, "started_ticks": 70, "boot_id": "b"}'
    answer = f"=== boot\n{boot}\n=== process\n{process}\n=== stat\n{stat}\n"

    assert hostscripts.look(JOB, Script([ScriptResult(answer.encode(), "", 0)])).alive is alive


ASKED: list[str] = []


@dataclass(frozen=True)
class Refusing:
    """Hosts that refuse every drive; they note which were asked."""

    def call(self, address: str, script: str, **how: object) -> ScriptResult:
        ASKED.append(address)
        return ScriptResult(b'{"error": {"message": "is mounted on /"}}', "", 3)


def test_after_a_canary_without_a_result_nothing_else_is_begun(tmp_path: Path) -> None:
    jobs = [replace(JOB, name=f"r{n}", host=f"n{n}", address=f"n{n}") for n in range(3)]
    fleet = Fleet.model_validate(
        {"title": "f", "profile": "p", "hosts": [{"name": "n"}], "drives": [{"model": "P*"}]}
    )
    kept = Records(tmp_path)
    kept.make()

    with pytest.raises(SsdbenchError, match="canary, n0 .* is mounted on /; 2 drives not started"):
        run_fleet(fleet, Plan(tuple(jobs)), Refusing(), kept, Patience(1, 1), lambda line: None)

    assert ASKED == ["n0"]
    stages = {one.job["name"]: one.state.stage for one in kept.all()}
    assert stages == {"r0": Stage.REFUSED, "r1": Stage.STOPPED, "r2": Stage.STOPPED}


NOW = datetime(2026, 11, 23, 4, 5, 6, tzinfo=UTC)


def kept_as(*states: tuple[State, float]) -> Sequence[Kept]:
    told = {"host": "n1", "target": "/dev/nvme0n1", "model": "<b>PM9", "serial": "S1"}
    return [Kept(told, state, NOW - timedelta(seconds=ago_s)) for state, ago_s in states]


def test_who_needs_somebody_comes_first_and_how_long_nothing_was_heard_is_said() -> None:
    running = State(Stage.RUNNING, fraction=0.421, left_s=7200, rate_iops=118_234, text="fill 2")
    kept = kept_as((running, 0.3), (State(Stage.SILENT, said="no route to n1"), 3700))

    assert records.status_rows(kept, now=NOW) == [
        ("<b>PM9 S1", "n1 /dev/nvme0n1", "silent", "", "", "", "1 h 01 min ago", "no route to n1"),
        ("<b>PM9 S1", "n1 /dev/nvme0n1", "running", "42 %", "2 h 00 min", "118,234", "just now",
         "fill 2"),
    ]  # fmt: skip
    assert records.status_summary(kept) == "2 drives: 1 running, 1 silent"


def test_hosts_and_drives_come_as_people_count_them() -> None:
    places = [("n10", "/dev/nvme1n1"), ("n2", "/dev/nvme10n1"), ("n2", "/dev/nvme2n1"), ("lab", "")]
    kept = [
        Kept({"host": host, "target": target}, State(Stage.WAITING), NOW) for host, target in places
    ]

    shown = [row[1].split() for row in records.status_rows(kept, now=NOW)]
    assert shown == [["lab"], ["n2", "/dev/nvme2n1"], ["n2", "/dev/nvme10n1"],
                     ["n10", "/dev/nvme1n1"]]  # fmt: skip


def test_a_page_tells_each_finding_once_and_takes_no_text_for_html() -> None:
    found = ("note: the host's clock is +51.0 h off", "<script>throttled</script>")
    kept = kept_as((State(Stage.RUNNING, text="fill", findings=found), 9))
    page = records.status_page(kept, "lot", now=NOW)

    assert page.count("throttled") == page.count("+51.0 h off") == 1
    assert "<script" not in page and "<b>" not in page
    assert "at 2026-11-23 04:05:06 UTC" in page and "9 s ago" in page
    assert '<meta http-equiv="refresh" content="60">' in page  # while it is open


def test_a_host_that_was_not_reached_is_told_with_its_reason_and_its_drives_do_not_wait(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    at = Records.of(tmp_path / "F.yaml")
    at.make()
    for name, host, version in (("r0", "n0", "0.1"), ("r1", "n1", "")):
        job = Job(
            name=name, host=host, address=host, rack="r", target="/dev/sda", identity=name,
            model="M", serial=name, runs="/r", profile_text="", ssdbench=(), version=version,
        )  # fmt: skip
        at.note(job, State(Stage.WAITING))

    at.note_silent({"n1": "n1 refuses the login", "n2": "no route to n2"})

    assert run(["fleet", "status", str(tmp_path / "F.yaml"), "--page", str(tmp_path / "p")]) == 0
    shown, page = capfd.readouterr().out, (tmp_path / "p").read_text()
    (row,) = [line for line in shown.splitlines() if "n1 /dev/sda" in line]
    assert "silent" in row and "n1 refuses the login" in row
    for line in (
        "no answer: n2: no route to n2",
        f"note: ssdbench is 0.1 on n0, and {__version__}",
    ):
        assert line in shown and line in page
    assert run(["fleet", "status", str(tmp_path / "F.yaml"), "--json"]) == 0
    told = checked(capfd.readouterr().out, "fleet-status")
    assert told["silent"]["n2"] == "no route to n2"
    assert [one["stage"] for one in told["drives"]] == ["waiting", "silent"]
