"""The tutorial's commands run as they stand there, and answer what stands below them."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.host

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text()
PROFILE = re.search(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = re.findall(r"^```console\n\$ (ssdbench .*)\n((?:.*\n)*?)^```", PAGE, re.MULTILINE)
LEFT_OUT = "…"


def shape(line: str) -> str:
    """A line without its numbers, the widths of its columns, and the place of the directory."""
    line = re.sub(r"/\S*/", "/…/", line)
    line = re.sub(r"\d[\d,.]*(?: (?:d|h|min|s|GB|TB|MB)\b)*", "N", line)
    return re.sub(r"(?:N )+N\b", "N", " ".join(line.split()))


def missing(shown: str, said: str) -> list[str]:
    """Lines of the page that the answer does not have, in their order."""
    answer = iter([shape(line) for line in said.splitlines()])
    wanted = [shape(line) for line in shown.splitlines() if line.strip() not in ("", LEFT_OUT)]
    return [line for line in wanted if line not in answer]


def test_every_command_of_the_tutorial_answers_what_the_page_shows(tmp_path: Path) -> None:
    assert PROFILE is not None and len(COMMANDS) == 5
    (tmp_path / "first.yaml").write_text(PROFILE[1])

    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    wrong = {}
    for line, shown in COMMANDS:
        done = subprocess.run(
            shlex.split(line), cwd=tmp_path, env=env, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, check=False, timeout=300,
        )  # fmt: skip
        lines = missing(shown, done.stdout)
        good = "INCOMPLETE" not in shown and "NOT VALIDATED" not in shown
        if lines or done.returncode != (0 if good else 1):
            wrong[line] = (lines, done.returncode, done.stdout)

    assert wrong == {}
    assert "518 IOPS" in (tmp_path / "first" / "report.html").read_text()  # as the page shows
