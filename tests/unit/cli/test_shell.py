"""What a shell and a script see: completion, JSON, and a terminal without colours."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ssdbench.cli import main
from tests.support.builders import a_small_run

SSDBENCH = [sys.executable, "-m", "ssdbench"]


def completed(words: str, tmp_path: Path, begun: str = "") -> list[str]:
    """What bash offers after `words`, with the script sourced as the manual says."""
    program = tmp_path / "ssdbench"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ssdbench "$@"\n')
    program.chmod(0o755)
    script = (
        'eval "$(ssdbench completion bash)"; '
        "compopt() { echo and files; }; "  # bash has it only while it completes
        f"COMP_WORDS=({words} '{begun}'); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); "
        "_ssdbench_completion ssdbench; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    bash = shutil.which("bash")
    assert bash
    done = subprocess.run(
        [bash, "--norc", "-c", script],
        capture_output=True, text=True, check=True, env=environment, timeout=120,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes_commands_and_shells(tmp_path: Path) -> None:
    assert set(completed("ssdbench", tmp_path)) >= {"run", "resume", "attach", "stop", "drives"}
    assert completed("ssdbench completion", tmp_path) == ["bash", "zsh", "fish"]


def test_bash_completes_profiles_targets_and_files(tmp_path: Path) -> None:
    assert set(completed("ssdbench run", tmp_path)) >= {"demo", "quick", "and", "files"}
    offered = completed("ssdbench run quick --target", tmp_path, begun="sim:x")
    assert "sim:x25m-g2-160" in offered
    assert "files" in offered
    assert not [name for name in offered if name.startswith("sim:") and name[4] != "x"]
    assert "sim:p4800x" in completed("ssdbench probe", tmp_path, begun="sim:p")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script_that_it_can_parse(
    shell: str, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main.run(["completion", shell]) == 0
    script = capfd.readouterr().out
    assert "_SSDBENCH_COMPLETE" in script

    program = shutil.which(shell)
    assert program, f"{shell} is missing: ./bootstrap test installs it"
    (tmp_path / "script").write_text(script)
    subprocess.run([program, "-n", str(tmp_path / "script")], check=True, timeout=120)


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan", "demo"],
        ["plan", "no-such-profile"],
        ["run", "no-such-profile"],
        ["drives"],
        ["check"],
        ["check", "sim:x25m-g2-160"],
        ["schema"],
        ["completion", "bash"],
        ["restore"],
        ["resume", "{none}"],
        ["attach", "{none}"],
        ["stop", "{none}"],
        ["report", "{none}"],
        ["report", "{run}"],
        ["compare", "{run}", "{run}"],
        ["capacity", "{run}", "--iops", "1000"],
        ["retire", "sim:x25m-g2-160"],
        ["detect-blocksize", "no-such-file"],
        ["sim", "models"],
        ["sim", "truth", "sim:x25m-g2-160"],
        ["kmod", "status"],
        ["kmod", "load", "no-such-module"],
    ],
    ids=" ".join,
)
def test_with_json_stdout_is_one_document(
    arguments: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    if "{run}" in arguments:
        a_small_run(tmp_path / "run")
    places = {"none": tmp_path / "none", "run": tmp_path / "run"}

    code = main.run([*(word.format_map(places) for word in arguments), "--json"])

    out, err = capfd.readouterr()
    said = json.loads(out)
    assert isinstance(said, dict | list)
    assert ("error" in said) == (code >= 2)
    assert "Traceback" not in err


def test_a_terminal_that_wants_no_colours_gets_none(tmp_path: Path) -> None:
    profile = tmp_path / "p.yaml"
    profile.write_text(
        "target: sim:x25m-g2-160,capacity=256MiB\n"
        "precondition: [{pattern: sequential, block: 128KiB, fill: 9}]\n"
        "measure: [{blocksize: {strides: [8KiB, 16KiB, 32KiB]}}]\n"
    )
    ours, theirs = os.openpty()
    argv = [*SSDBENCH, "run", str(profile), "--output", str(tmp_path / "run")]
    environment = os.environ | {"NO_COLOR": "1", "TERM": "xterm-256color"}
    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        seen = b""
        while True:
            try:
                part = os.read(ours, 1 << 16)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            seen += part
        process.wait(60)
    os.close(ours)

    coloured = re.findall(rb"\x1b\[[0-9;]*m", seen)
    assert b"Fill the drive" in seen
    assert not [code for code in coloured if code not in (b"\x1b[0m", b"\x1b[m")]
