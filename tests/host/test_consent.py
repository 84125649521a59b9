"""Consent from the command line, on loop devices: what is printed works, what is typed counts."""

import json
import os
import pty
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ssdbench.host.command import run
from ssdbench.target.inspect import inspect
from tests.support.devices import LoopDevice

PROFILE = "title: T\nmeasure: [{sweep: {read: 100}}]\n"
RETIRE = ("retire", "--method", "discard")
MakeLoop = Callable[..., LoopDevice]


def called(*arguments: str) -> "subprocess.CompletedProcess[str]":
    argv = [sys.executable, "-m", "ssdbench", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)


def alone(text: str) -> "subprocess.CompletedProcess[str]":
    """A shell's command with a /run of its own: other runs of this host hold no lock there."""
    script = f"mount -t tmpfs tmpfs /run && {text}"
    argv = ["unshare", "--mount", "sh", "-c", script]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    (tmp_path / "my profile.yaml").write_text(PROFILE)
    return tmp_path / "my profile.yaml"


@pytest.fixture
def taken(tmp_path: Path) -> Path:
    """A run directory that exists: a run that nobody refuses ends there with exit code 2."""
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    return tmp_path / "taken"


@pytest.mark.parametrize("command", [RETIRE, ("detect-blocksize",), ("run",)], ids=lambda c: c[0])
def test_a_refusal_prints_the_whole_command_that_would_not_be_refused(
    make_loop: MakeLoop, profile: Path, command: tuple[str, ...]
) -> None:
    device = make_loop()
    run(["mkfs.ext4", "-q", "-F", str(device.node)])
    where = (str(profile), "--target") if command == ("run",) else ()

    refused = called(*command, *where, str(device.node), "--json")

    assert refused.returncode == 3
    words = json.loads(refused.stdout)["error"]["command"]
    id_ = inspect(str(device.node)).id
    assert words[-3:] == ["--overwrite-signatures", "--destroy", id_]
    assert words[:-3] == [sys.executable, "-m", "ssdbench", *command, *where, str(device.node),
                          "--json"]  # fmt: skip
    assert f"  {shlex.join(words)}\n" in refused.stderr


def test_the_command_that_is_printed_does_what_was_asked(make_loop: MakeLoop) -> None:
    device = make_loop()
    device.node.write_bytes(b"x" * 4096)
    os.sync()
    refused = called(*RETIRE, str(device.node))
    printed = refused.stderr.splitlines()[-1].strip()

    done = alone(printed)

    assert done.returncode == 0, done.stderr
    assert "discards over the whole drive" in done.stdout
    assert device.backing.read_bytes()[:4096] == bytes(4096)


def test_a_drive_in_use_gets_no_command_to_paste(
    make_loop: MakeLoop, holder: Callable[[Path], int]
) -> None:
    device = make_loop()
    holder(device.node)

    refused = called(*RETIRE, str(device.node))

    assert refused.returncode == 3
    assert "has it open" in refused.stderr
    assert "refusing to erase it without --destroy" in refused.stderr
    assert "the whole command" not in refused.stderr  # --destroy alone would not be enough
    assert "add --destroy" not in refused.stderr


def test_the_identity_of_another_drive_is_no_consent_and_names_that_drive(
    make_loop: MakeLoop,
) -> None:
    device, other = make_loop(), make_loop()

    refused = called(*RETIRE, str(device.node), "--destroy", inspect(str(other.node)).id)

    assert refused.returncode == 3
    assert f"belongs to {other.node}; its own is" in refused.stderr


# --- typed on a terminal --------------------------------------------------------------------------


def typed(answer: str, *arguments: str) -> tuple[int, str]:
    """Call on a terminal of its own and answer the question; exit code and all that was shown."""
    controller, terminal = pty.openpty()
    argv = [sys.executable, "-m", "ssdbench", *arguments]
    with subprocess.Popen(argv, stdin=terminal, stdout=terminal, stderr=terminal) as process:
        os.close(terminal)
        shown, asked = "", False
        while True:
            try:
                shown += os.read(controller, 65536).decode()
            except OSError:  # the other end is closed
                break
            if not asked and "type its identity to go on" in shown:
                asked = True
                os.write(controller, f"{answer}\n".encode())
        code = process.wait(120)
    os.close(controller)
    return code, shown.replace("\r\n", "\n")


def test_the_identity_may_be_typed_once_reasons_and_wear_are_shown(
    make_loop: MakeLoop, profile: Path, taken: Path
) -> None:
    device = make_loop()
    run(["mkfs.ext4", "-q", "-F", str(device.node)])
    id_ = inspect(str(device.node)).id
    arguments = ["run", str(profile), "--target", str(device.node), "--output", str(taken)]

    code, shown = typed(id_, *arguments, "--overwrite-signatures", "--endurance", "100")

    assert code == 2, shown
    assert "exists already" in shown
    before, _, after = shown.partition("type its identity to go on")
    assert "overridden: it holds the signature of ext4" in before
    assert "% of its rated endurance of 100 TB" in before
    assert "refused" not in after


@pytest.mark.parametrize("answer", ["", "yes", "loop:"])
def test_anything_else_that_is_typed_is_no_consent(
    make_loop: MakeLoop, profile: Path, answer: str
) -> None:
    device = make_loop()

    code, shown = typed(answer, "run", str(profile), "--target", str(device.node))

    assert code == 3, shown
    assert f"the given identity {answer!r} is not its own" in shown


def test_nobody_is_asked_about_a_drive_that_is_refused_anyway(
    make_loop: MakeLoop, profile: Path
) -> None:
    device = make_loop()
    run(["mkfs.ext4", "-q", "-F", str(device.node)])

    code, shown = typed("", "run", str(profile), "--target", str(device.node))

    assert code == 3
    assert "signature of ext4" in shown
    assert "type its identity" not in shown


# --- a drive that changed since it was planned --------------------------------------------------


def formatted(device: LoopDevice) -> None:
    run(["mkfs.ext4", "-q", "-F", str(device.node)])


def other_half(device: LoopDevice) -> None:
    os.truncate(device.backing, 2 * device.size_bytes)
    run(["losetup", "--detach", str(device.node)])
    run(["losetup", "--offset", str(device.size_bytes), str(device.node), str(device.backing)])


def shrunk(device: LoopDevice) -> None:
    os.truncate(device.backing, device.size_bytes // 2)
    run(["losetup", "--set-capacity", str(device.node)])


def untouched(device: LoopDevice) -> None:
    del device


@pytest.mark.alone  # the node must not become somebody else's meanwhile
@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        (untouched, 2, ["exists already"]),
        (formatted, 3, ["its signatures were none when it was planned and are now ext4"]),
        (shrunk, 3, ["the identity was", f"the size in bytes was {64 << 20}"]),
        (other_half, 3, ["the identity was"]),
    ],
    ids=["unchanged", "formatted", "shrunk", "other half"],
)
def test_a_drive_that_changed_since_the_plan_is_refused(
    make_loop: MakeLoop,
    profile: Path,
    taken: Path,
    change: Callable[[LoopDevice], None],
    code: int,
    said: Sequence[str],
) -> None:
    device = make_loop()
    kept = taken.parent / "plan.json"
    target = ("--target", str(device.node))
    assert called("plan", str(profile), *target, "--output", str(kept)).returncode == 0

    change(device)
    destroy = ("--destroy", inspect(str(device.node)).id, "--overwrite-signatures")
    done = called(
        "run", str(profile), *target, *destroy, "--plan", str(kept), "--output", str(taken)
    )

    assert done.returncode == code, done.stderr
    for part in said:
        assert part in done.stderr


def test_a_plan_says_what_is_missing_and_ends_with_the_command(
    make_loop: MakeLoop, profile: Path
) -> None:
    device = make_loop()
    formatted(device)
    target = ("--target", str(device.node))

    bare = called("plan", str(profile), *target)
    agreed = called("plan", str(profile), *target, "--overwrite-signatures")

    assert "would be refused: it holds the signature of ext4" in bare.stdout
    assert "signature of ext4" not in agreed.stdout
    destroy = shlex.join(["--destroy", inspect(str(device.node)).id])
    assert bare.stdout.splitlines()[-1].endswith(f"--overwrite-signatures {destroy}")
    assert agreed.stdout.splitlines()[-1].endswith(f"--overwrite-signatures {destroy}")


@pytest.mark.parametrize("text", ["", "{}", "[1]"], ids=["empty", "no-fields", "no-object"])
def test_a_file_that_is_no_plan_is_named(profile: Path, text: str) -> None:
    plan = profile.parent / "plan.json"
    plan.write_text(text)

    done = called("run", str(profile), "--target", "sim:x25m-g2-160", "--plan", str(plan))

    assert done.returncode == 2
    assert f"{plan} is damaged" in done.stderr
