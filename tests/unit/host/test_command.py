"""Starting programs: what they say, how they fail, and that none outlives us."""

import os
import pty
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from ssdbench.errors import AnsweredTooMuch, CommandFailed, HostLacks
from ssdbench.host.command import Process, ending_together, run, spawn, which


def started(tmp_path: Path, *argv: str, **options: object) -> Process:
    return spawn(argv, stdout=tmp_path / "out", stderr=tmp_path / "err", **options)  # type: ignore[arg-type]


def until(condition: Callable[[], object], *, within_s: float = 120.0) -> bool:
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return False


def test_run_returns_what_the_program_said() -> None:
    completed = run(["sh", "-c", "echo out; echo err >&2"])

    assert (completed.stdout, completed.stderr, completed.status) == ("out\n", "err\n", 0)


def test_run_speaks_english_and_adds_variables() -> None:
    completed = run(["sh", "-c", 'echo "$LC_ALL $EXTRA"'], env={"EXTRA": "more"})

    assert completed.stdout == "C more\n"


def test_what_lies_in_sbin_is_found_by_a_user_whose_path_lacks_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")

    assert which("wipefs") == "/usr/sbin/wipefs"
    assert "util-linux" in run(["wipefs", "--version"]).stdout


def test_run_names_command_status_and_last_message_of_a_failure() -> None:
    with pytest.raises(CommandFailed, match="ended with status 3: no such thing") as failure:
        run(["sh", "-c", "echo no such thing >&2; exit 3"], hint="try another")

    assert failure.value.hint == "try another"


def test_run_quotes_what_went_wrong_and_not_the_hint_below_it() -> None:
    said = (
        "opening\nmkfs: cannot open /dev/x: Device or resource busy\nHint: unmount it\nUsage: mkfs"
    )

    with pytest.raises(CommandFailed, match=r"mkfs: cannot open /dev/x: Device or resource busy$"):
        run(["sh", "-c", f"printf '{said}' >&2; exit 1"])


def test_run_accepts_the_statuses_that_are_asked_for() -> None:
    assert run(["sh", "-c", "exit 3"], ok={0, 3}).status == 3


def test_run_says_how_to_get_a_program_that_is_missing() -> None:
    with pytest.raises(HostLacks, match="nonesuch is not installed") as failure:
        run(["nonesuch"])

    assert "apt-get install nonesuch" in failure.value.hint


def test_run_kills_a_program_and_its_children_when_time_is_up(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"

    with pytest.raises(CommandFailed, match=r"no answer within 0\.3 s"):
        run(["sh", "-c", f"sleep 60 & echo $! > {pid_file}; wait"], timeout_s=0.3)

    child = Path(f"/proc/{pid_file.read_text().strip()}/stat")
    assert until(lambda: not child.exists() or " Z " in child.read_text())


ASKS = ["sh", "-c", "read answer < /dev/tty"]


@pytest.mark.parametrize(
    "started",
    [
        f"print(run({ASKS}, ok=range(256), timeout_s=10).stderr)",
        f"process = spawn({ASKS}, stdout=None, stderr=Path('said'))\n"
        "print(process.wait(10), Path('said').read_text())",
    ],
)
def test_a_program_that_would_ask_at_the_terminal_ends_and_is_not_stopped_there(
    started: str, tmp_path: Path
) -> None:
    """Such as ssh-keygen for a passphrase: nobody would see the question, nor could answer it."""
    code = "from pathlib import Path\nfrom ssdbench.host.command import run, spawn\n" + started
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(
            ["setsid", "--ctty", "--wait", sys.executable, "-c", code],
            stdin=theirs, capture_output=True, text=True, check=False, cwd=tmp_path,
        )  # fmt: skip
    finally:
        os.close(ours)
        os.close(theirs)

    assert done.returncode == 0, done.stderr
    assert "/dev/tty" in done.stdout


def test_an_interrupted_block_asks_the_programs_of_other_threads_to_end_and_then_kills_them(
    tmp_path: Path,
) -> None:
    begun, over, at_work = tmp_path / "begun", Event(), {"stubborn", "late"}
    stubborn = f"trap '' TERM; touch {begun}; while :; do sleep 0.1; done"

    def ended_by(name: str, argv: list[str], *, when: Event) -> int:
        try:
            when.wait()
            run(argv)
        except CommandFailed as error:
            return error.status
        finally:
            at_work.discard(name)
        return 0

    now = Event()
    now.set()
    with ThreadPoolExecutor() as threads:
        first = threads.submit(ended_by, "stubborn", ["sh", "-c", stubborn], when=now)
        second = threads.submit(ended_by, "late", ["sleep", "300"], when=over)
        assert until(begun.exists)
        with pytest.raises(KeyboardInterrupt), ending_together(over, at_work):
            raise KeyboardInterrupt

        assert (first.result(), second.result()) == (-signal.SIGKILL, -signal.SIGTERM)


def test_run_gives_raw_bytes_and_takes_input() -> None:
    assert run(["cat"], input=b"\xff\x00").raw == b"\xff\x00"


@pytest.mark.parametrize("stream", ["", ">&2"])
def test_a_program_without_an_end_is_ended_and_named(stream: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    with pytest.raises(AnsweredTooMuch, match="yes.*its answer is longer than 1 MiB"):
        run(["sh", "-c", f"exec yes {stream}"], most_bytes=1 << 20, timeout_s=60)

    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10  # KiB


def test_much_input_and_much_output_pass_at_once() -> None:
    text = bytes(range(256)) * 20_000

    assert run(["cat"], input=text).raw == text


def test_input_that_nobody_reads_to_its_end_is_no_error() -> None:
    assert run(["head", "-c", "1"], input=b"x" * 5_000_000).stdout == "x"


def test_a_program_that_closes_its_output_is_still_waited_for() -> None:
    with pytest.raises(CommandFailed, match="no answer within 0.2 s"):
        run(["sh", "-c", "exec >&- 2>&-; sleep 60"], timeout_s=0.2)
    assert run(["sh", "-c", "exec >&- 2>&-; sleep 0.1; exit 3"], ok=[3]).status == 3


def test_spawn_keeps_output_and_gives_variables_to_the_program_alone(tmp_path: Path) -> None:
    process = started(tmp_path, "sh", "-c", "echo $ONLY; echo oops >&2", env={"ONLY": "mine"})

    assert process.wait() == 0
    assert (tmp_path / "out").read_text() == "mine\n"
    assert (tmp_path / "err").read_text() == "oops\n"


def test_spawn_hands_descriptors_on_and_stays_on_its_processors(tmp_path: Path) -> None:
    with (tmp_path / "held").open("w") as held:
        process = started(
            tmp_path, "sh", "-c", f"echo hello > /dev/fd/{held.fileno()}; taskset -p $$",
            pass_fds=(held.fileno(),), cpus={0},
        )  # fmt: skip
        process.wait()

    assert (tmp_path / "held").read_text() == "hello\n"
    assert (tmp_path / "out").read_text().endswith("mask: 1\n")


def test_waiting_without_taking_the_status_leaves_the_process_readable(tmp_path: Path) -> None:
    process = started(tmp_path, "true")

    assert process.ended(120.0)
    # What it did (io) may then be read by root alone.
    assert Path(f"/proc/{process.pid}/stat").read_text().split(") ")[1].startswith("Z")
    assert process.wait() == 0


def test_wait_gives_up_when_its_time_has_passed(tmp_path: Path) -> None:
    process = started(tmp_path, "sleep", "60")

    assert process.wait(0.05) is None
    assert process.terminate(5.0) == -signal.SIGTERM


def test_terminate_kills_a_program_that_will_not_end(tmp_path: Path) -> None:
    process = started(tmp_path, "sh", "-c", "trap '' TERM; echo on; while :; do sleep 0.05; done")
    assert until((tmp_path / "out").read_text)

    assert process.terminate(0.2) == -signal.SIGKILL


def test_spawn_refuses_a_program_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(HostLacks, match="nonesuch is not installed"):
        started(tmp_path, "nonesuch")


def test_nothing_goes_on_after_we_are_killed(tmp_path: Path) -> None:
    """An orphaned fio writes on over whatever comes next."""
    script = tmp_path / "parent.py"
    script.write_text(
        "import sys, time\nfrom pathlib import Path\nfrom ssdbench.host.command import spawn\n"
        f"here = Path({str(tmp_path)!r})\n"
        "child = spawn(['sleep', '60'], stdout=here / 'out', stderr=here / 'err')\n"
        "(here / 'pid').write_text(str(child.pid)); (here / 'ready').touch()\ntime.sleep(60)\n"
    )
    root = str(Path(__file__).parents[3])
    parent = started(tmp_path, sys.executable, str(script), env={"PYTHONPATH": root})
    assert until((tmp_path / "ready").exists)
    child = Path(f"/proc/{(tmp_path / 'pid').read_text()}/stat")
    assert child.exists()

    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()

    assert until(lambda: not child.exists() or " Z " in child.read_text())
