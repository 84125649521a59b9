"""Going on with a run, putting settings back, retiring a drive: what is said when it cannot be."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ssdbench.cli.background import worker
from ssdbench.engine.claimedsession import SIGNATURES
from ssdbench.engine.journal import NAME, Journal, Kind
from ssdbench.host.command import run
from ssdbench.model import records
from ssdbench.target.inspect import inspect
from tests.support.devices import LoopDevice, attached_loop
from tests.support.documents import checked
from tests.support.shell import SSDBENCH, Shell

PROFILE = """
title: Cut short
precondition: [{pattern: sequential, block: 128KiB, fill: 1}]
steady: {rule: seppanen, max_time: 2s}
repeats: 1
window: 1s
settle: {window: 1s, flat: 1s, max_time: 2s}
measure: [{sweep: {block: 4KiB, read: [100]}}]
"""


@pytest.fixture
def ssdbench(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture
def drive(tmp_path: Path) -> Iterator[LoopDevice]:
    with attached_loop(tmp_path / "drive.img") as device:
        yield device


@pytest.fixture
def cut_short(ssdbench: Shell, drive: LoopDevice, tmp_path: Path) -> Path:
    """A run on the drive that its limit ended after the fill."""
    (tmp_path / "profile.yaml").write_text(PROFILE)
    target = ("--target", str(drive.node), "--destroy", inspect(str(drive.node)).id)
    limit = ("--max-writes", "65MiB", "--output", str(tmp_path / "run"))

    done = ssdbench("run", str(tmp_path / "profile.yaml"), *target, *limit)

    assert done.returncode == 1, done.stderr
    return tmp_path / "run"


def reattached(device: LoopDevice, backing: Path) -> None:
    """Another file behind the same node, as when a drive was exchanged."""
    run(["losetup", "--detach", str(device.node)])
    run(["losetup", str(device.node), str(backing)])


@pytest.mark.alone  # the node must not become somebody else's meanwhile
def test_a_run_does_not_go_on_on_a_drive_that_was_exchanged(
    ssdbench: Shell, drive: LoopDevice, cut_short: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.img"
    other.touch()
    os.truncate(other, drive.size_bytes)
    reattached(drive, other)

    done = ssdbench("resume", str(cut_short), "--max-writes", "1GiB")

    assert done.returncode == 3, done.stderr
    assert f"loop:{drive.backing}:" in done.stderr  # what it was begun on
    assert f"loop:{other}:" in done.stderr  # what is there now
    assert "Traceback" not in done.stderr
    assert not any(other.read_bytes())


@pytest.mark.alone  # the node must not become somebody else's meanwhile
def test_a_run_does_not_go_on_on_the_other_half_of_its_image(
    ssdbench: Shell, drive: LoopDevice, cut_short: Path
) -> None:
    precious = b"precious" * (drive.size_bytes // 8)
    with drive.backing.open("ab") as image:
        image.write(precious)
    run(["losetup", "--detach", str(drive.node)])
    run(["losetup", "--offset", str(drive.size_bytes), str(drive.node), str(drive.backing)])

    done = ssdbench("resume", str(cut_short), "--max-writes", "1GiB")

    assert done.returncode == 3, done.stderr
    assert drive.backing.read_bytes()[drive.size_bytes :] == precious


@pytest.mark.alone  # the node must not become somebody else's meanwhile
def test_a_run_goes_on_where_its_drive_is_now(
    ssdbench: Shell, drive: LoopDevice, cut_short: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.img"
    other.touch()
    os.truncate(other, drive.size_bytes)
    reattached(drive, other)
    moved = run(
        ["losetup", "--find", "--show", "--direct-io=on", str(drive.backing)]
    ).stdout.strip()
    try:
        done = ssdbench("resume", str(cut_short), "--max-writes", "1GiB")
    finally:
        run(["losetup", "--detach", moved])

    assert done.returncode == 1, done.stderr
    assert json.loads((cut_short / "result.json").read_text())["target"]["node"] == moved
    assert not any(other.read_bytes())


@pytest.mark.alone  # the node must not become somebody else's meanwhile
def test_a_run_whose_drive_is_gone_says_which_one_it_needs(
    ssdbench: Shell, drive: LoopDevice, cut_short: Path
) -> None:
    run(["losetup", "--detach", str(drive.node)])
    try:
        done = ssdbench("resume", str(cut_short))
    finally:
        run(["losetup", str(drive.node), str(drive.backing)])

    assert done.returncode == 3, done.stderr
    assert f"loop:{drive.backing}:" in done.stderr
    assert "Traceback" not in done.stderr


# --- consent to go on -----------------------------------------------------------------------------

SOMEBODY = 65534  # a user that is not root


def forged(run: Path, other: LoopDevice, place: Path) -> Path:
    """A directory of another user that says that root agreed to destroy another drive.

    Its journal says so as well: a checksum is no signature.
    """
    shutil.copytree(run, place)
    now = inspect(str(other.node))
    kept = json.loads((place / "manifest.json").read_text())
    was = kept["target"]["id"]
    held = records.read((place / NAME).read_bytes())
    (place / NAME).write_text(
        "".join(
            records.line(json.loads(json.dumps(line.fields).replace(was, now.id))) + "\n"
            for line in held.lines
        )
    )
    kept["consent"] |= {"identity": now.id, "overwrite": True, "shared": True}
    kept["target"] = now.model_dump(mode="json")
    (place / "manifest.json").write_text(json.dumps(kept))
    for path in (place, *place.rglob("*")):
        os.chown(path, SOMEBODY, SOMEBODY)
    return place


@pytest.fixture
def precious(tmp_path: Path) -> Iterator[LoopDevice]:
    """A drive with a file system that nobody agreed to destroy."""
    with attached_loop(tmp_path / "precious.img") as device:
        run(["mkfs.ext4", "-q", "-F", str(device.node)])
        yield device


def test_a_directory_that_somebody_made_up_is_no_consent(
    ssdbench: Shell, precious: LoopDevice, cut_short: Path, tmp_path: Path
) -> None:
    directory = forged(cut_short, precious, tmp_path / "forged")
    before = precious.backing.read_bytes()

    done = ssdbench("resume", str(directory), "--max-writes", "1GiB")

    assert done.returncode == 3, done.stderr
    assert "the run directory does not count as consent" in done.stderr
    assert f"--destroy {shlex.quote(inspect(str(precious.node)).id)}" in done.stderr
    assert precious.backing.read_bytes() == before
    assert ssdbench("report", str(directory)).returncode == 0


def test_a_record_that_somebody_else_could_have_written_is_none(
    ssdbench: Shell, drive: LoopDevice, cut_short: Path
) -> None:
    (record,) = (ssdbench.settings / "runs").glob("*.json")
    os.chown(record, SOMEBODY, SOMEBODY)

    done = ssdbench("resume", str(cut_short), "--max-writes", "1GiB")

    assert done.returncode == 4, done.stderr
    assert f"{record} belongs to another user" in done.stderr


def test_a_run_that_this_host_does_not_know_goes_on_once_it_is_agreed_to_again(
    ssdbench: Shell, drive: LoopDevice, cut_short: Path
) -> None:
    shutil.rmtree(ssdbench.settings / "runs")
    destroy = ("--destroy", inspect(str(drive.node)).id)

    refused = ssdbench("resume", str(cut_short), "--max-writes", "129MiB")
    agreed = ssdbench("resume", str(cut_short), "--max-writes", "129MiB", *destroy)
    again = ssdbench("resume", str(cut_short), "--max-writes", "260MiB")

    assert [done.returncode for done in (refused, agreed, again)] == [3, 1, 1], agreed.stderr


def test_nobody_but_root_says_that_file_systems_on_the_drive_are_the_runs_own(
    ssdbench: Shell, drive: LoopDevice, cut_short: Path
) -> None:
    """The journal lies in the run directory, where a line is written soon."""
    Journal.open(cut_short / NAME).append(Kind.CLAIM, data={SIGNATURES: True})
    run(["mkfs.ext4", "-q", "-F", str(drive.node)])
    before = drive.backing.read_bytes()

    done = ssdbench("resume", str(cut_short), "--max-writes", "1GiB")

    assert done.returncode == 3, done.stderr
    assert "signature of ext4" in done.stderr
    assert drive.backing.read_bytes() == before


# --- what came on the drive since -----------------------------------------------------------------


def asked_again(ssdbench: Shell, cut_short: Path, drive: LoopDevice, *options: str) -> str:
    """What `resume` says as it refuses; nothing on the drive was changed by it."""
    before = drive.backing.read_bytes()
    done = ssdbench("resume", str(cut_short), "--max-writes", "1GiB", *options)
    assert done.returncode == 3, done.stderr
    assert drive.backing.read_bytes() == before
    return done.stderr


def put(node: Path, place: int, data: bytes) -> None:
    with node.open("r+b") as disk:
        disk.seek(place)
        disk.write(data)
        os.fsync(disk.fileno())


def test_a_file_system_that_was_made_since_is_not_erased_by_what_the_first_call_allowed(
    ssdbench: Shell, drive: LoopDevice, tmp_path: Path
) -> None:
    run(["mkfs.ext4", "-q", "-F", str(drive.node)])
    (tmp_path / "profile.yaml").write_text(PROFILE)
    target = ("--target", str(drive.node), "--destroy", inspect(str(drive.node)).id)
    allowed = ("--overwrite-signatures", "--overwrite-data")
    output = tmp_path / "run"
    began = ("run", str(tmp_path / "profile.yaml"), *target, *allowed, "--output", str(output))
    assert ssdbench(*began, "--max-writes", "65MiB").returncode == 1
    run(["mkfs.ext4", "-q", "-F", str(drive.node)])

    said = asked_again(ssdbench, output, drive)

    assert "the signature of ext4 appeared since its last use by the run" in said
    assert "resume" in said.splitlines()[-1]
    assert {*allowed} <= set(said.splitlines()[-1].split())
    half = asked_again(ssdbench, output, drive, "--overwrite-data")
    assert "signature of ext4" in half
    agreed = ssdbench("resume", str(output), "--max-writes", "129MiB", *allowed)
    assert agreed.returncode == 1, agreed.stderr


def test_data_without_a_signature_that_came_since_is_asked_about(
    ssdbench: Shell, drive: LoopDevice, cut_short: Path
) -> None:
    places = sorted(json.loads(next((ssdbench.settings / "contents").glob("*.json")).read_text())
                    ["digests"], key=int)  # fmt: skip
    assert len(places) >= 3000
    put(drive.node, int(places[1234]), b"precious")

    said = asked_again(ssdbench, cut_short, drive)

    assert f"for example at byte {places[1234]}" in said
    assert "--overwrite-data" in said.splitlines()[-1]


def test_a_write_that_no_sample_shows_is_seen_by_the_drives_counter(
    ssdbench: Shell, drive: LoopDevice, cut_short: Path
) -> None:
    kept = json.loads(next((ssdbench.settings / "contents").glob("*.json")).read_text())
    between = next(p for p in range(0, drive.size_bytes, 4096) if str(p) not in kept["digests"])

    put(drive.node, between, b"precious")

    said = asked_again(ssdbench, cut_short, drive)
    assert "something else wrote to it since: the target's counters moved by 4.096 kB" in said
    assert "of 3" not in said  # places


def test_another_run_that_used_the_drive_meanwhile_is_told(
    ssdbench: Shell, drive: LoopDevice, cut_short: Path, tmp_path: Path
) -> None:
    target = ("--target", str(drive.node), "--destroy", inspect(str(drive.node)).id)
    other = ("run", str(tmp_path / "profile.yaml"), *target, "--max-writes", "65MiB")
    assert ssdbench(*other, "--output", str(tmp_path / "other")).returncode == 1

    assert "another run of ssdbench used it since" in asked_again(ssdbench, cut_short, drive)


def test_a_run_without_a_record_of_what_it_left_asks_for_its_own_data(
    ssdbench: Shell, drive: LoopDevice, cut_short: Path
) -> None:
    shutil.rmtree(ssdbench.settings / "contents")

    said = asked_again(ssdbench, cut_short, drive)

    assert "it holds data that no signature explains" in said


def killed(ssdbench: Shell, output: Path, *arguments: str) -> None:
    """Start a run and kill it, with all that it started, within its fill."""
    env = {**os.environ, "SSDBENCH_SETTINGS": str(ssdbench.settings)}
    text = f"mount -t tmpfs tmpfs /run && exec {SSDBENCH} {shlex.join(arguments)}"
    argv = ["unshare", "--mount", "sh", "-c", text]
    target, fills = Path(arguments[arguments.index("--target") + 1]), "stages/01-precondition/fills"
    with subprocess.Popen(argv, env=env, stderr=subprocess.DEVNULL) as process:
        until = time.monotonic() + 60
        while not ((output / fills).exists() and any(target.read_bytes())):
            assert process.poll() is None and time.monotonic() < until
            time.sleep(0.2)
        if worker(output).alive():  # of --attach-or-start
            worker(output).send(signal.SIGKILL)
        process.kill()
        process.wait()
    time.sleep(1)  # the kernel ends fio with it


SLOW = PROFILE.replace("block: 128KiB, fill: 1", "block: 4KiB, fill: 40")


@pytest.mark.parametrize("kind", ["drive", "file"])
def test_a_killed_run_goes_on_over_what_it_wrote_and_not_over_what_came_since(
    ssdbench: Shell, drive: LoopDevice, tmp_path: Path, kind: str
) -> None:
    node = drive.node if kind == "drive" else tmp_path / "target"
    if kind == "file":
        node.touch()
        os.truncate(node, 64 << 20)
    (tmp_path / "profile.yaml").write_text(SLOW)
    output, id_ = tmp_path / "run", inspect(str(node)).id
    target = ("--target", str(node), "--destroy", id_, "--output", str(output))
    killed(ssdbench, output, "run", str(tmp_path / "profile.yaml"), *target)
    wrote = node.read_bytes()
    assert any(wrote)

    place = next(p for p in range(0, len(wrote), 4096) if any(wrote[p : p + 4096]))
    precious = (b"precious" * 512 * 256)[: len(wrote) - place]
    put(node, place, precious)
    refused = ssdbench("resume", str(output), "--max-time", "1s")
    is_kept = node.read_bytes()[place : place + len(precious)] == precious
    put(node, place, wrote[place : place + len(precious)])
    goes_on = ssdbench("resume", str(output), "--max-time", "1s")

    assert refused.returncode == 3, refused.stderr
    assert "its data changed since the run worked on it" in refused.stderr
    assert ("--overwrite-data" if kind == "drive" else f"--destroy {id_}") in refused.stderr
    assert is_kept
    assert goes_on.returncode == 1, goes_on.stderr


def test_what_is_called_again_and_again_overrides_nothing_that_came_since(
    ssdbench: Shell, drive: LoopDevice, tmp_path: Path
) -> None:
    (tmp_path / "profile.yaml").write_text(SLOW)
    target = ("--target", str(drive.node), "--destroy", inspect(str(drive.node)).id)
    call = ("run", str(tmp_path / "profile.yaml"), *target, "--overwrite-signatures",
            "--overwrite-data", "--attach-or-start", "--output", str(tmp_path / "run"))  # fmt: skip
    killed(ssdbench, tmp_path / "run", *call)
    run(["mkfs.ext4", "-q", "-F", str(drive.node)])
    before = drive.backing.read_bytes()

    done = ssdbench(*call)

    assert done.returncode == 3, done.stderr
    assert drive.backing.read_bytes() == before
    assert "the signature of ext4 appeared since" in done.stderr
    again = f"`ssdbench resume {tmp_path / 'run'} --overwrite-"
    assert again in done.stderr


# --- records that others could write --------------------------------------------------------------


def test_a_settings_journal_of_another_user_is_left_alone_and_named(ssdbench: Shell) -> None:
    path = journal(ssdbench.settings, host_id=Path("/etc/machine-id").read_text().strip())
    os.chown(path, SOMEBODY, SOMEBODY)
    before = path.read_bytes()

    done = ssdbench("restore")

    assert done.returncode == 4, done.stderr
    assert f"{path} belongs to another user" in done.stderr
    assert path.read_bytes() == before


def test_a_settings_directory_that_others_can_write_is_not_used(ssdbench: Shell) -> None:
    journal(ssdbench.settings)
    ssdbench.settings.chmod(0o777)

    done = ssdbench("restore")

    assert done.returncode == 4, done.stderr
    assert f"chmod go-w {ssdbench.settings}" in done.stderr


def test_nothing_to_restore_is_a_sentence(ssdbench: Shell) -> None:
    done = ssdbench("restore")

    assert (done.returncode, done.stdout) == (
        0,
        "nothing to restore: no run left a setting changed\n",
    )
    assert checked(ssdbench("restore", "--json").stdout, "restore") == {
        "document": "restore",
        "schema_version": 1,
        "restored": [],
        "forgotten": [],
        "lasting": [],
    }


def journal(settings: Path, **fields: object) -> Path:
    record = {
        "kind": "changing", "at": "2026-01-01T00:00:00.000+00:00", "n": 0, "backend": "sysfs",
        "attribute": "/proc/sys/kernel/nmi_watchdog", "drive": "", "was": "1", "wanted": "0",
        "reason": "r", "boot_id": "b", "host_id": "elsewhere", **fields,
    }  # fmt: skip
    settings.mkdir()
    path = settings / "run.jsonl"
    path.write_text(json.dumps(record) + "\n")
    return path


def test_a_journal_of_another_host_is_left_alone_and_named(ssdbench: Shell) -> None:
    path = journal(ssdbench.settings)
    before = path.read_bytes()

    done = ssdbench("restore")

    assert done.returncode == 4
    assert f"{path} was written on another host (elsewhere), so it was not touched" in done.stderr
    assert f"Take {path} to that host" in done.stderr
    assert path.read_bytes() == before


@pytest.mark.alone  # the node must not become somebody else's meanwhile
def test_a_drive_that_is_gone_for_good_hinders_no_run_and_is_forgotten_when_asked_for(
    ssdbench: Shell, drive: LoopDevice, tmp_path: Path
) -> None:
    with attached_loop(tmp_path / "gone, for good.img") as gone:
        id_, queue = inspect(str(gone.node)).id, Path("/sys/block") / gone.node.name / "queue"
        was = (queue / "read_ahead_kb").read_text().strip()
        killed = (
            "import os; from ssdbench.engine.hostsettings import applied\n"
            "from ssdbench.tuning.plan import HostPlan\n"
            "from ssdbench.tuning.setting import Backend, Setting\n"
            f"wanted = Setting(Backend.BLOCK, 'queue/read_ahead_kb', '4', 'test', {id_!r})\n"
            "with applied(HostPlan(settings=(wanted,)), 'dead'): os._exit(9)"
        )
        env = {**os.environ, "SSDBENCH_SETTINGS": str(ssdbench.settings)}
        assert subprocess.run([sys.executable, "-c", killed], check=False, env=env).returncode == 9
        here = ssdbench("restore", "--forget", id_)
        assert (here.returncode, (queue / "read_ahead_kb").read_text().strip()) == (2, "4")
        assert f"it is present as {gone.node}" in here.stderr
    try:
        done = ssdbench("restore")
        assert done.returncode == 4
        assert f"the drive {id_} is not on this host" in done.stderr
        assert f"ssdbench restore --forget '{id_}'" in done.stderr

        (tmp_path / "p.yaml").write_text("host: {read_ahead_kb: 8}" + PROFILE)
        target = ("--target", str(drive.node), "--destroy", inspect(str(drive.node)).id)
        limit = ("--max-writes", "65MiB", "--output", str(tmp_path / "run"))
        assert ssdbench("run", str(tmp_path / "p.yaml"), *target, *limit).returncode == 1

        done = ssdbench("restore", "--forget", id_)
        assert done.stdout == f"{id_} queue/read_ahead_kb: forgotten, not restored (it was {was})\n"
        assert "nothing to restore" in ssdbench("restore").stdout
        kept = json.loads((ssdbench.settings / "forgotten.log").read_text())
        assert (kept["drive"], kept["was"]) == (id_, was)
        assert "no dead run left" in ssdbench("restore", "--forget", id_).stderr
    finally:  # the kernel keeps a loop device's queue for its next user
        (queue / "read_ahead_kb").write_text(was)


def test_counters_that_somebody_switched_off_count_for_the_run_alone(
    ssdbench: Shell, drive: LoopDevice, tmp_path: Path
) -> None:
    counters = Path("/sys/block") / drive.node.name / "queue/iostats"
    counters.write_text("0")
    try:
        (tmp_path / "p.yaml").write_text(PROFILE)
        target = ("--target", str(drive.node), "--destroy", inspect(str(drive.node)).id)
        limit = ("--max-writes", "65MiB", "--output", str(tmp_path / "run"))

        done = ssdbench("run", str(tmp_path / "p.yaml"), *target, *limit)

        assert counters.read_text() == "0\n"
    finally:  # the kernel keeps a loop device's queue for its next user
        counters.write_text("1")
    assert done.returncode == 1, done.stderr
    result = json.loads((tmp_path / "run/result.json").read_text())
    (entry,) = result["settings"]
    assert (entry["setting"], entry["value"], entry["was"]) == ("queue/iostats", "1", "0")
    found = {f["code"] for part in (result, *result["stages"]) for f in part["findings"]}
    assert not found & {"fill-unproven", "host-changed"}


@pytest.mark.parametrize("text", ["garbage\n{}\n", '{"kind": "changing"}\n{}\n', "\0\0\0\n\0\n"])
def test_a_damaged_journal_is_a_sentence(ssdbench: Shell, text: str) -> None:
    ssdbench.settings.mkdir()
    (ssdbench.settings / "run.jsonl").write_text(text)

    done = ssdbench("restore")

    assert done.returncode != 70, done.stderr
    assert "Traceback" not in done.stderr
    assert f"Check the settings that {ssdbench.settings / 'run.jsonl'} may" in done.stderr


# --- a drive that is used again -------------------------------------------------------------------


def test_a_drive_that_ssdbench_left_full_is_not_asked_about_until_somebody_else_writes(
    ssdbench: Shell, drive: LoopDevice, cut_short: Path, tmp_path: Path
) -> None:
    target = ("--target", str(drive.node), "--destroy", inspect(str(drive.node)).id)
    arguments = ("run", str(tmp_path / "profile.yaml"), *target, "--max-writes", "65MiB")

    again = ssdbench(*arguments, "--output", str(tmp_path / "again"))
    with drive.node.open("r+b") as node:
        node.seek(16 << 20)
        node.write(b"precious")
        os.fsync(node.fileno())
    before = drive.backing.read_bytes()
    written = ssdbench(*arguments, "--output", str(tmp_path / "written"))
    unchanged = drive.backing.read_bytes() == before
    agreed = ssdbench(*arguments, "--output", str(tmp_path / "written"), "--overwrite-data")

    assert again.returncode == 1, again.stderr
    assert written.returncode == 3
    assert "not what ssdbench left there on" in written.stderr
    assert "--overwrite-data" in written.stderr
    assert unchanged
    assert agreed.returncode == 1, agreed.stderr


# --- retire ---------------------------------------------------------------------------------------


def test_a_drive_is_retired_and_what_has_no_health_is_said_plainly(
    ssdbench: Shell, drive: LoopDevice
) -> None:
    drive.node.write_bytes(b"secret" * 1000)
    os.sync()
    id_ = inspect(str(drive.node)).id
    agreed = ("--destroy", id_, "--overwrite-data")

    done = ssdbench("retire", str(drive.node), "--method", "discard", *agreed)

    assert done.returncode == 0, done.stderr
    assert f"{drive.node} ({id_}): discards over the whole drive (a fallback" in done.stdout
    assert "samples that read as zeros: 63 of 64 before, 64 of 64 after" in done.stdout
    assert "final SMART data: this target reports none" in done.stdout
    assert not any(drive.backing.read_bytes())


def test_the_document_of_a_retired_drive_has_no_health_that_it_does_not_have(
    ssdbench: Shell, drive: LoopDevice
) -> None:
    destroy = ("--destroy", inspect(str(drive.node)).id)

    done = ssdbench("retire", str(drive.node), "--method", "discard", *destroy, "--json")

    told = checked(done.stdout, "retire")
    assert told["health"] is None
    assert told["after"]["samples that read as zeros"] == "64 of 64"


@pytest.mark.parametrize(
    ("method", "said"), [("format", "has no format"), ("sanitize", "has no sanitize")]
)
def test_a_method_that_the_drive_does_not_have_changes_nothing(
    ssdbench: Shell, drive: LoopDevice, method: str, said: str
) -> None:
    drive.node.write_bytes(b"kept")
    os.sync()
    agreed = ("--destroy", inspect(str(drive.node)).id, "--overwrite-data")

    done = ssdbench("retire", str(drive.node), "--method", method, *agreed)

    assert done.returncode == 3, done.stderr
    assert said in done.stderr
    assert drive.backing.read_bytes()[:4] == b"kept"


def test_a_drive_in_use_is_not_retired(
    ssdbench: Shell, drive: LoopDevice, holder: Callable[[Path], int]
) -> None:
    holder(drive.node)
    destroy = ("--destroy", inspect(str(drive.node)).id)

    done = ssdbench("retire", str(drive.node), "--method", "discard", *destroy)

    assert done.returncode == 3
    assert "has it open" in done.stderr
