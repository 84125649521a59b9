"""What `fleet` refuses before anything is begun, and what it reads of hosts that are foreign."""

import gzip
import io
import json
import os
import re
import stat
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pytest

from ssdbench import __version__
from ssdbench.cli.main import run
from ssdbench.errors import UsageError
from ssdbench.fleet import hostscripts, scheduler
from ssdbench.fleet.drive import Patience, Stage, State, measure
from ssdbench.fleet.hostscripts import Job
from ssdbench.fleet.inventory import Engine, Limits, read_consent, read_fleet, run_name
from ssdbench.fleet.plan import local_plan, plan
from ssdbench.fleet.records import Records
from ssdbench.fleet.transport import LocalTransport, ScriptResult, Silent, SshTransport, Untrusted
from ssdbench.model.result import METHOD
from tests.support.documents import checked

FLEET = """
title: lot
profile: quick
hosts: [{name: "n[1-2]"}]
drives: [{model: "PM9*"}]
consent: consent.txt
"""
REHEARSAL = FLEET.replace('drives: [{model: "PM9*"}]\nconsent: consent.txt', "targets: TARGET")
JOB = Job(
    name="pm9-1", host="n1", address="n1", rack="r", target="/dev/nvme0n1", identity="eui.1",
    model="PM9", serial="S1", runs="/runs", profile_text="x", ssdbench=("ssdbench",),
)  # fmt: skip


def device(name: str, identity: str, *reasons: str, **more: object) -> dict[str, object]:
    told = {"target": f"/dev/{name}", "id": identity, "model": "PM9A3", "serial": "S1"}
    return {**told, "kind": "drive", "size_bytes": 10**12, "reasons": reasons, **more}


def planned(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    devices: dict[str, list[dict[str, object]]],
    consent: str = "eui.1\neui.2\n",
    fleet: str = FLEET,
) -> int:
    """`fleet plan` with an ssh that answers for the hosts; only `drives` may be asked for."""
    for name, told in devices.items():
        answer = {"document": "drives", "devices": told, "models": []}
        (tmp_path / f"{name}.json").write_text(json.dumps(answer))
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text(
        '#!/bin/sh\nwhile [ "$1" != "--" ]; do shift; done\n'
        f'case "$3" in *"ssdbench drives --json"*) cat {tmp_path}/"$2".json || exit 255;;'
        f" *) touch {tmp_path}/begun;; esac\n"
    )
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ssh.parent}:/usr/bin:/bin")
    (tmp_path / "consent.txt").write_text(consent)
    (tmp_path / "F.yaml").write_text(fleet)
    code = run(["fleet", "plan", str(tmp_path / "F.yaml"), "--json"])
    assert not (tmp_path / "begun").exists()
    return code


def test_a_plan_names_every_drive_its_limits_and_who_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert planned(tmp_path, monkeypatch, {"n1": [device("nvme0n1", "eui.1")]}) == 0

    told = checked(capfd.readouterr().out, "fleet-plan")
    assert [(d["host"], d["target"], d["identity"]) for d in told["drives"]] == [
        ("n1", "/dev/nvme0n1", "eui.1")
    ]
    assert list(told["silent"]) == ["n2"]
    assert told["notes"] == ["eui.2 has consent, but no host has it"]
    assert told["limits"] == {"drives": 64, "host:n1": 1, "rack:rack": 1000}


@pytest.mark.parametrize(
    ("size_bytes", "fits"),
    [
        (1_000_204_886_016, True), (991_000_000_000, True),
        (980_000_000_000, False), (1_020_000_000_000, False),
    ],
)  # fmt: skip
def test_a_size_is_that_which_is_printed_on_a_drive_to_a_percent(
    size_bytes: int, fits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = FLEET.replace('"PM9*"', '"PM9*", size_tb: 1')
    devices = {"n1": [device("nvme0n1", "eui.1", size_bytes=size_bytes)], "n2": []}

    assert planned(tmp_path, monkeypatch, devices, "eui.1\n", asked) == (0 if fits else 2)


def test_a_run_is_named_after_its_drive_and_its_profile() -> None:
    name = run_name("eui.1", "PM9A3 3.84T", "repeats: 3")

    assert re.fullmatch(r"pm9a3-3-84t-[0-9a-f]{12}-[0-9a-f]{12}", name)
    assert name == run_name("eui.1", "PM9A3 3.84T", "repeats: 3")
    assert name != run_name("eui.2", "PM9A3 3.84T", "repeats: 3")
    assert name != run_name("eui.1", "PM9A3 3.84T", "repeats: 4")


def test_simulated_drives_of_a_fleet_differ_in_their_flash_as_those_of_a_lot(
    tmp_path: Path,
) -> None:
    targets = [job.target for job in local_plan(10, "", tmp_path, []).jobs]

    times = [int(target.partition("t_prog=")[2].removesuffix("ns")) for target in targets]
    slow, usual = times[4::5], [ns for n, ns in enumerate(times, 1) if n % 5]
    assert len(set(times)) == 10 and min(slow) > max(usual)


def test_what_a_drive_holds_may_be_overwritten_where_that_was_accepted_and_power_is_counted(
    tmp_path: Path,
) -> None:
    told = device("nvme0n1", "eui.1", "has an ext4 file system", overridable=True)
    answer = json.dumps({"document": "drives", "devices": [told], "models": []}).encode()
    path = tmp_path / "F.yaml"
    path.write_text(
        FLEET.replace('"n[1-2]"', "n1")
        + "accept: [overwrite-signatures]\nlimits: {rack_watts: 100, drive_watts: 40}\n"
    )
    wanted = read_fleet(path)

    made = plan(wanted, frozenset({"eui.1"}), "x", Script([ScriptResult(answer, "", 0)]), path)

    (job,) = made.jobs
    assert job.options == ("--overwrite-signatures",)
    assert scheduler.needed_resources(job)["watts:rack"] == 40
    assert scheduler.limit_resources(made.jobs, wanted.limits)["watts:rack"] == 100


BAD = {
    "nothing fits": (
        {"n1": [device("sda", "x", model="HDD")], "n2": []}, FLEET, "drives[0] matches no",
    ),
    "system drive": (
        {"n1": [device("nvme0n1", "eui.1", "is mounted on /")], "n2": []}, FLEET,
        "n1 /dev/nvme0n1: is mounted on /",
    ),
    "content that nobody agreed to overwrite": (
        {"n1": [device("nvme0n1", "eui.1", "has an ext4 file system", overridable=True)], "n2": []},
        FLEET, "n1 /dev/nvme0n1: has an ext4 file system",
    ),
    "system drive, overridden": (
        {"n1": [device("nvme0n1", "eui.1", "is mounted on /", overridable=False)], "n2": []},
        FLEET + "accept: [overwrite-signatures]\n", "is mounted on /",
    ),
    "two hosts": (
        {"n1": [device("nvme0n1", "eui.1")], "n2": [device("nvme7n1", "eui.1")]}, FLEET,
        "eui.1 is seen as n1 /dev/nvme0n1, n2 /dev/nvme7n1",
    ),
    "two names": (
        {"n1": [device("nvme0n1", "eui.1"), device("nvme1n1", "eui.1")], "n2": []}, FLEET,
        "eui.1 is seen as n1",
    ),
    "no consent": (
        {"n1": [device("nvme0n1", "eui.3")], "n2": []}, FLEET, "consent.txt does not name eui.3",
    ),
    "exclusion of nothing": (
        {"n1": [device("nvme0n1", "eui.1")], "n2": []}, FLEET + "exclude: [{serial: S99}]\n",
        "exclude[0] matches no drive of any host, so it protects no drive",
    ),
    "both kinds": ({}, FLEET + "targets: sim:x25m-g2-160\n", "give either drives or targets"),
    "a real drive without consent": (
        {}, REHEARSAL.replace("TARGET", "/dev/nvme0n1"), "is not a simulated drive",
    ),
    "a misspelt model": ({}, REHEARSAL.replace("TARGET", "sim:x25m-g2"), "did you mean"),
    "every drive": ({}, FLEET.replace('{model: "PM9*"}', "{}"), "drives: each entry needs a model"),
    "an option as address": (
        {}, FLEET.replace('"n[1-2]"', 'a, address: "-oProxyCommand=x"'), "F.yaml:4:",
    ),
    "a host twice": ({}, FLEET.replace("hosts: [", "hosts: [{name: n2}, "), "n2 is given twice"),
    "two ranges": ({}, FLEET.replace("n[1-2]", "r[0-19999]n[0-19999]"), "one range"),
    "too many hosts": (
        {}, FLEET.replace('{name: "n[1-2]"}', '{name: "a[1-20000]"}, {name: "b[1-20000]"}'),
        "at most 20000 hosts",
    ),
    "consent that never ends": ({}, FLEET.replace("consent.txt", "/dev/zero"), "not a regular"),
    "a misspelt key": ({}, FLEET + "limit: {}\n", "did you mean 'limits'?"),
    "a scheduler for anybody": (
        {}, FLEET + "engine: {scheduler: 'tcp://10.0.0.1:8786'}\n", "needs TLS",
    ),
    "two at once on a host": (
        {}, FLEET + "limits: {per_host: 2}\n", "per_host is 2, but a host does one run at a time",
    ),
    "little power": (
        {}, FLEET + "limits: {rack_watts: 5, drive_watts: 9}\n", "less than one drive needs",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_is_odd_is_a_sentence_and_nothing_is_begun(
    case: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    devices, fleet, sentence = BAD[case]

    assert planned(tmp_path, monkeypatch, devices, fleet=fleet) == 2
    assert sentence in capfd.readouterr().err


def test_a_draft_of_consent_consents_to_nothing_whatever_a_drive_calls_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    evil = "eui.2\neui.1\r\neui.3"
    devices = {"n1": [device("nvme0n1", "eui.1"), device("nvme1n1", evil)], "n2": []}
    assert planned(tmp_path, monkeypatch, devices, "") == 2
    told = checked(capfd.readouterr().out, "fleet-plan")
    draft = tmp_path / "draft"
    file = str(tmp_path / "F.yaml")

    assert run(["fleet", "plan", file, "--draft-consent", str(draft)]) == 2
    assert run(["fleet", "plan", file, "--draft-consent", str(draft)]) == 2

    captured = capfd.readouterr()
    assert [one["said"] for one in told["drives"]] == ["no consent", "no consent"]
    assert len(told["mistakes"]) == 1
    assert "no consent" in captured.out and "not overwritten" in captured.err
    (tmp_path / "consent.txt").write_text(draft.read_text())
    assert read_consent(read_fleet(tmp_path / "F.yaml"), tmp_path / "F.yaml") == frozenset()
    lines = draft.read_text().replace("#eui.1 ", "eui.1 ")
    (tmp_path / "consent.txt").write_text(lines)
    assert read_consent(read_fleet(tmp_path / "F.yaml"), tmp_path / "F.yaml") == {"eui.1"}


def answering(version: str, **more: object) -> ScriptResult:
    """What a host with one drive answers whose ssdbench has this version."""
    told = {"document": "drives", "devices": [device("nvme0n1", "eui.1")], "models": [], **more}
    return ScriptResult(f"ssdbench, version {version}\n{json.dumps(told)}".encode(), "", 0)


@pytest.mark.parametrize(
    ("answer", "mistake", "note"),
    [
        (answering(__version__, method=METHOD), "", ""),
        (answering("1.0"), "", f"ssdbench is 1.0 on n1, and {__version__} here"),
        (answering("9.0", method=9), "n1: its ssdbench 9.0 measures by method 9", "9.0 on n1"),
        (ScriptResult(b"", "sh: 1: ssdbench: not found", 127), "ssdbench: not found; install", ""),
    ],
)
def test_another_ssdbench_is_told_and_one_of_other_methods_is_a_mistake(
    answer: ScriptResult, mistake: str, note: str, tmp_path: Path
) -> None:
    path = tmp_path / "F.yaml"
    path.write_text(FLEET.replace('"n[1-2]"', "n1"))

    made = plan(read_fleet(path), frozenset({"eui.1"}), "x", Script([answer]), path)

    assert (mistake in "".join(made.mistakes)) and bool(made.mistakes) == bool(mistake)
    told = [one for one in made.notes if "ssdbench is" in one]
    assert (note in "".join(told)) and bool(told) == bool(note)


def test_each_host_of_a_rehearsal_has_a_simulated_drive_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    target = "sim:x25m-g2-160,capacity=1GiB"
    assert (
        planned(
            tmp_path, monkeypatch, {"n1": [], "n2": []}, fleet=REHEARSAL.replace("TARGET", target)
        )
        == 0
    )

    drives = checked(capfd.readouterr().out, "fleet-plan")["drives"]
    assert [one["host"] for one in drives] == ["n1", "n2"]
    assert all(one["target"].startswith(f"{target},t_prog=") for one in drives)
    assert len({one["target"] for one in drives}) == len({one["name"] for one in drives}) == 2


@pytest.mark.parametrize(
    ("said", "trusted", "sentence"),
    [
        ("@@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @@\nHost key verification failed.",
         False, "is not the one in known_hosts"),
        ("No ED25519 host key is known for n1.\nHost key verification failed.", False,
         "known_hosts has no host key of n1"),
        ("root@n1: Permission denied (publickey).", True, "n1 answers, but refuses the login"),
        ("ssh: connect to host n1 port 22: No route to host", True, "No route to host"),
    ],
)  # fmt: skip
def test_ssh_tells_why_a_host_is_not_reached(
    said: str, trusted: bool, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 255\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    with pytest.raises(Silent, match=sentence) as told:
        SshTransport().call("n1", "true")

    assert isinstance(told.value, Untrusted) is not trusted


@pytest.mark.parametrize(
    ("address", "safe"),
    [("tcp://127.0.0.1:8786", True), ("tcp://[::1]:1", True), ("tcp://0.0.0.0:8786", False),
     ("tcp://ctl:8786", False), ("tls://ctl:8786", False), ("ucx://127.0.0.1:1", False)],
)  # fmt: skip
def test_plain_only_on_loopback_and_tls_only_with_its_keys(address: str, safe: bool) -> None:
    engine = Engine(scheduler=address)
    if safe:
        scheduler.require_safe(engine)
    else:
        with pytest.raises(UsageError, match="needs TLS"):
            scheduler.require_safe(engine)
    scheduler.require_safe(Engine(scheduler="tls://ctl:8786", ca="a", certificate="b", key="c"))


def test_the_files_of_tls_are_beside_the_fleets_and_one_that_is_not_there_is_named(
    tmp_path: Path,
) -> None:
    file = tmp_path / "F.yaml"
    words = "scheduler: 'tls://ctl:1', ca: ca.pem, certificate: /etc/c.pem, key: k"
    file.write_text(f"{FLEET}engine: {{{words}}}\n")

    engine = read_fleet(file).engine

    assert engine.files == {
        "ca": str(tmp_path / "ca.pem"), "certificate": "/etc/c.pem", "key": str(tmp_path / "k"),
    }  # fmt: skip
    with pytest.raises(UsageError, match=f"ca: the file {tmp_path}/ca.pem"):
        scheduler.dask_client(engine, 1).__enter__()


def test_a_rack_has_so_many_slots_and_a_drive_takes_its_own() -> None:
    limits = Limits(per_host=2, per_rack=7, rack_watts=100, drive_watts=20)
    job = replace(JOB, watts=20)

    assert scheduler.limit_resources([job], limits) == {
        "drives": 64, "host:n1": 2, "rack:r": 7, "watts:r": 100,
    }  # fmt: skip
    assert scheduler.needed_resources(job) == {
        "drives": 1,
        "host:n1": 1,
        "rack:r": 1,
        "watts:r": 20,
    }


@dataclass
class Script:
    """A host that gives these answers, one after another."""

    answers: list[ScriptResult | Exception]

    def call(self, address: str, script: str, **how: object) -> ScriptResult:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def ended(code: int, boot: str = "b") -> ScriptResult:
    return ScriptResult(f'=== boot\n{boot}\n=== ended\n{{"exit_code": {code}}}\n'.encode(), "", 0)


def test_a_profile_lies_on_the_far_host_where_nobody_else_writes_and_is_gone_after_its_run_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ssdbench, seen = tmp_path / "ssdbench", tmp_path / "seen"
    ssdbench.write_text(
        f'#!/bin/sh\nstat -c "%n %a" "${{2%/*}}" >> {seen}; cat "$2" >> {seen}; echo >> {seen}\n'
        "exit 3\n"
    )
    ssdbench.chmod(0o755)
    (shared := tmp_path / "shared").mkdir(mode=0o777)
    monkeypatch.setenv("TMPDIR", str(shared))
    runs = tmp_path / "it's ours" / "runs"
    job = replace(JOB, runs=str(runs), ssdbench=(str(ssdbench),))

    assert [hostscripts.start(job, LocalTransport(), 60.0).status for _ in range(2)] == [3, 3]

    first, mode, profile, second, other_mode, _ = seen.read_text().split()
    assert (mode, other_mode, profile) == ("700", "700", JOB.profile_text)
    assert first != second and Path(first).parent == Path(second).parent == shared
    assert list(shared.iterdir()) == list(runs.iterdir()) == []


def listening() -> set[str]:
    """Sockets of this process that anybody could connect to, by their inodes."""
    fields = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/self/net/{name}").read_text().splitlines()[1:]
    ]
    own = {str(p.readlink()) for p in Path("/proc/self/fd").iterdir() if p.is_symlink()}
    return {one[9] for one in fields if one[3] == "0A" and f"socket:[{one[9]}]" in own}


def test_the_engine_opens_no_port_and_unpickles_what_nobody_else_can_write() -> None:
    before = listening()
    with scheduler.dask_client(Engine(), 1) as client:
        assert listening() == before
        assert "profile" not in client.cluster.workers[0].periodic_callbacks
        (worker,) = client.scheduler_info()["workers"].values()
        own = Path(worker["local_directory"]).relative_to(gettempdir()).parts[0]
        found = (Path(gettempdir()) / own).stat()
        assert (stat.S_IMODE(found.st_mode), found.st_uid) == (0o700, os.geteuid())
    assert own.startswith("ssdbench-fleet-")
    assert not (Path(gettempdir()) / own).exists()


STARTED = ScriptResult(b"{}", "", 0)
DEAD = ScriptResult(b"=== boot\nb\n", "", 0)
FULL = ScriptResult(
    b'=== boot\nb\n=== ended\n{"exit_code": 4}\n=== log\nnot valid: it failed early\n'
    b"error: the disk of the host is full\nhint: free some space, else it cannot go on\n",
    "", 0,
)  # fmt: skip
REFUSED = ScriptResult(b'{"error": {"message": "n1: is mounted on /"}}', "", 3)


@pytest.mark.parametrize(
    ("answers", "stage", "said"),
    [
        ([STARTED, ended(0)], Stage.MEASURED, "VALIDATED"),
        ([STARTED, ended(143), STARTED, ended(1)], Stage.MEASURED, "not validated"),
        ([STARTED, DEAD, STARTED, ended(1)], Stage.MEASURED, "not validated"),
        ([Silent("no route"), STARTED, Silent("x"), ended(1)], Stage.MEASURED, "not validated"),
        ([STARTED, ended(130)], Stage.STOPPED, "stopped"),
        ([REFUSED], Stage.REFUSED, "is mounted on /"),
        ([STARTED, ended(4)], Stage.FAILED, "exit code 4: its log ends with: it printed nothing"),
        ([STARTED, FULL], Stage.FAILED, "exit code 4: the disk of the host is full"),
        ([STARTED, Untrusted("another key")], Stage.REFUSED, "another key"),
        ([Untrusted("another key")], Stage.REFUSED, "another key"),
        ([STARTED, DEAD] * 9, Stage.FAILED, "died 5 times"),
        ([Silent("no route")] * 99, Stage.GIVEN_UP, "no route"),
    ],
)
def test_how_a_drive_ends(answers: list[ScriptResult | Exception], stage: Stage, said: str) -> None:
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    told: list[State] = []
    patience = Patience(60, 600, sleep, lambda: clock[0], lambda: 0.0)
    end = measure(JOB, Script(list(answers)), patience, told.append)

    assert end.stage is stage
    assert said in end.said
    assert not any(state.stage.is_end for state in told)
    assert end.stage is not Stage.GIVEN_UP or 600 <= clock[0] <= 660  # one look more, at most


def test_what_another_fleet_says_at_the_same_scheduler_is_not_heard() -> None:
    class Scheduler:
        """Ends its one task as soon as it is given; another fleet was heard before."""

        def subscribe_topic(self, topic: str, hear: Callable[[Any], None]) -> None:
            state = json.dumps({"stage": "measured", "findings": []})
            hear((0.0, {"name": "of-another-fleet", "state": state}))

        def unsubscribe_topic(self, topic: str) -> None:
            pass

        def submit(self, task: object, one: scheduler.Work, **how: object) -> "Future":
            return Future()

    class Future:
        status = "finished"

        def add_done_callback(self, hear: Callable[[Any], None]) -> None:
            hear(self)

        def result(self) -> State:
            return State(Stage.MEASURED)

    class Free(scheduler.Slots):
        """No limit."""

        def __init__(self) -> None:
            pass

        def take(self, job: Job, full: set[str]) -> bool:
            return True

        def has_room(self, job: Job) -> bool:
            return True

        def give_back(self, job: Job) -> None:
            pass

    heard: list[str] = []
    work = scheduler.Work(JOB, Script([]), Patience(1, 1))

    ends = scheduler.run_tasks(
        Scheduler(), [work], Free(), lambda name, state: heard.append(name), lambda: False
    )

    assert (list(ends), heard) == ([JOB.name], [JOB.name])


def archive_of_zeros(members: int, each_bytes: int) -> bytes:
    """Some hundred bytes that claim to be a large result: sparse files hold nothing but holes."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz", format=tarfile.GNU_FORMAT) as made:
        for number in range(members):
            member = tarfile.TarInfo(f"stages/s/{number}/unit.json")
            member.type, member.size = tarfile.GNUTYPE_SPARSE, 0
            head = bytearray(member.tobuf(tarfile.GNU_FORMAT))
            head[483:495] = f"{each_bytes:011o}".encode() + b"\0"  # the size with its holes
            head[148:156] = b" " * 8
            head[148:156] = f"{sum(head):06o}\0 ".encode()
            made.fileobj.write(bytes(head))
    return held.getvalue()


def archive(**files: str) -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz") as made:
        for name, text in files.items():
            member = tarfile.TarInfo(name.replace("__", "/").replace("_json", ".json"))
            member.size = len(text)
            made.addfile(member, io.BytesIO(text.encode()))
    return held.getvalue()


def archive_of_a_link(name: str, target: str) -> bytes:
    """The name of a file of a run, which leads elsewhere."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz") as made:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = tarfile.SYMTYPE, target
        made.addfile(member)
    return held.getvalue()


@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        (b"no archive", "the archive from n1 cannot be read"),
        (
            archive_of_a_link("result.json", "/etc/passwd"),
            "sent result.json, which is not a file of a run",
        ),
        (archive(__etc__passwd="x"), "which is not a file of a run"),
        (archive(result_json="{}"), "has no result"),
        (archive(result_json="{}", manifest_json="x" * 30_000), "more than 20,000 bytes"),
        (gzip.compress(b"\0" * 40_000), "more than 20,000 bytes"),
        (archive_of_zeros(2, 15_000), "more than 20,000 bytes"),
    ],
)
def test_what_a_host_sends_is_foreign(
    sent: bytes, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hostscripts, "MOST_FETCHED_BYTES", 20_000)
    with pytest.raises(UsageError, match=sentence):
        hostscripts.fetch(JOB, Script([ScriptResult(sent, "", 0)]))


@pytest.mark.parametrize(
    "lie",
    [
        "=== clock\ninf\n",
        "=== clock\nnan\n",
        f"=== free\nx 1 1 {'9' * 5000} 1% /\n",
        "=== free\nx 1 1 \u00b2 1% /\n",
        f'=== progress\n{{"fraction": 1{"0" * 400}}}\n',
    ],
)
def test_a_lie_of_a_host_is_no_number_and_its_record_stays_readable(
    lie: str, tmp_path: Path
) -> None:
    alive = ScriptResult(f"=== boot\nb\n{lie}".encode(), "", 0)
    told: list[State] = []
    patience = Patience(1, 600, lambda _: None, lambda: 0.0, lambda: 0.0)

    end = measure(JOB, Script([STARTED, alive, STARTED, ended(1)]), patience, told.append)

    assert end.stage is Stage.MEASURED
    records = Records(tmp_path)
    records.make()
    for state in told:
        records.note(JOB, state)
        assert [kept.state for kept in records.all()] == [state]


def test_a_record_that_lacks_its_names_is_left_out(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.make()
    records.note(JOB, State(Stage.RUNNING))
    (path,) = (tmp_path / "drives").iterdir()
    told = json.loads(path.read_text())
    del told["job"]["name"]
    path.write_text(json.dumps(told))

    assert list(records.all()) == []


DIGEST = sha256(JOB.profile_text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("identities", "digest", "run_id", "taken"),
    [
        (("eui.1", "eui.1"), DIGEST, "pm9-1", True),
        (("eui.2", "eui.1"), DIGEST, "pm9-1", False),  # of another drive, by its manifest
        (("eui.1", "eui.2"), DIGEST, "pm9-1", False),  # and by its result
        (("eui.1", "eui.1"), sha256(b"y").hexdigest(), "pm9-1", False),  # of another profile
        (("eui.1", "eui.1"), DIGEST, "pm9-2", False),  # of another run
    ],
)
def test_the_result_of_another_drive_profile_or_run_is_not_taken(
    identities: tuple[str, str], digest: str, run_id: str, taken: bool
) -> None:
    kept, of = identities
    sent: dict[str, dict[str, object]] = {
        "manifest.json": {"target": {"id": kept}, "profile_sha256": digest},
        "result.json": {"run_id": run_id, "target": {"id": of}},
    }
    files = {name: json.dumps(told).encode() for name, told in sent.items()}
    if taken:
        hostscripts.require_of(JOB, files)
    else:
        with pytest.raises(UsageError, match="of another drive, profile or run"):
            hostscripts.require_of(JOB, files)


def test_ssh_never_asks_and_never_takes_an_address_for_an_option(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[list[str]] = []

    def called(argv: list[str], *_: object) -> ScriptResult:
        seen.append(argv)
        return STARTED

    monkeypatch.setattr("ssdbench.fleet.transport._run_script", called)
    SshTransport(("-p", "22"), ("sudo", "-n")).call("n1", "echo 'a b'")

    assert "BatchMode=yes" in seen[0]
    assert seen[0][-3:] == ["--", "n1", "sudo -n sh -c 'echo '\"'\"'a b'\"'\"''"]


def test_a_host_that_answers_without_end_is_named(tmp_path: Path) -> None:
    words = [str(tmp_path / "ssdbench")]
    (tmp_path / "ssdbench").write_text("#!/bin/sh\nexec cat /dev/zero\n")
    (tmp_path / "ssdbench").chmod(0o755)

    with pytest.raises(UsageError, match="^n1 answered more than 4 MiB"):
        hostscripts.drives("n1", words, LocalTransport())


def test_a_fleet_that_cannot_be_read_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_fleet(tmp_path / "none.yaml")
