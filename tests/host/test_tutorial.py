"""The tutorial's commands run as they stand there, and print what stands below them.

`UPDATE_GOLDENS=1 pytest tests/host/test_tutorial.py` writes into the page what they print; a line
that is printed no more has to be changed by hand.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from difflib import SequenceMatcher
from pathlib import Path

import pytest

from ssdbench.report.read import StoredRun
from ssdbench.units import format_bound

pytestmark = pytest.mark.host

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "tutorial.md"
PAGE = TUTORIAL.read_text(encoding="utf-8")
PROFILE = re.search(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = re.findall(r"^```console\n\$ (ssdbench .*)\n((?:.*\n)*?)^```", PAGE, re.MULTILINE)
DEMO = re.findall(r"^```text\n((?:.*\n)*?)^```", PAGE, re.MULTILINE)
LEFT_OUT = "…"
HOST_TIME = "host's time"  # its numbers differ from host to host, so only its words are compared
MOST_H, MOST_FILLS = 4.1, 10  # of the demo: 3.5 h with the return, half an hour at the planned load
NEAR_TRUTH = 0.01


def shape(line: str) -> str:
    """A line without its numbers, the widths of its columns, and the place of the directory."""
    line = re.sub(r"/\S*/", "/…/", line)
    line = re.sub(r"\d[\d,.]*(?: (?:d|h|min|s|GB|TB|MB)\b)*", "N", line)
    return re.sub(r"(?:N )+N\b", "N", " ".join(line.split()))


def printed(shown: str, said: str, place: Path) -> str:
    """The lines shown, with the numbers of the answer, which has lines of their shape in order."""
    said = said.replace(f"{place}/", "/…/").replace("\N{NO-BREAK SPACE}", " ")
    said = re.sub(r"/reports/[-0-9]+-", "/reports/…-", said)
    answer = said.splitlines()
    lines = []
    for line in shown.splitlines():
        if line.strip() not in ("", LEFT_OUT):
            alike = [n for n, one in enumerate(answer) if shape(one) == shape(line)]
            assert alike, f"not printed after what is shown before it: {line}\n{said}"
            varies = HOST_TIME in line
            likeness = [SequenceMatcher(None, answer[n], line).ratio() for n in alike]
            nearest = alike[0 if varies else likeness.index(max(likeness))]
            lines.append(line if varies else answer[nearest])
            answer = answer[nearest + 1 :]
        else:
            lines.append(line)
    return "".join(f"{line}\n" for line in lines)


def require_shown(pairs: list[tuple[str, str]]) -> None:
    """Compare what the page shows with what was printed; UPDATE_GOLDENS=1 changes the page."""
    wrong = [(shown, now) for shown, now in pairs if shown != now]
    if os.environ.get("UPDATE_GOLDENS"):
        text = TUTORIAL.read_text(encoding="utf-8")
        for shown, now in wrong:
            text = text.replace(f"\n{shown}```", f"\n{now}```")
        TUTORIAL.write_text(text, encoding="utf-8")
    assert wrong == []


def answered(line: str, place: Path) -> tuple[int, str]:
    """The exit code of a command, and all that it printed."""
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        shlex.split(line), cwd=place, env=env, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False, timeout=600,
    )  # fmt: skip
    return done.returncode, done.stdout


def test_every_command_of_the_tutorial_prints_what_the_page_shows(tmp_path: Path) -> None:
    assert PROFILE is not None and len(COMMANDS) == 5
    (tmp_path / "first.yaml").write_text(PROFILE[1])
    pairs, codes = [], []

    for line, shown in COMMANDS:
        code, said = answered(line, tmp_path)
        pairs.append((shown, printed(shown, said, tmp_path)))
        refused = re.search(r"^(INCOMPLETE|NOT VALIDATED): ", shown, re.MULTILINE)
        codes.append(code == (1 if refused else 0))

    require_shown(pairs)
    assert all(codes), codes


def test_the_demo_is_cheap_and_true_and_prints_what_the_page_shows(tmp_path: Path) -> None:
    (shown,) = DEMO
    code, said = answered("ssdbench run demo", tmp_path)
    (directory,) = (tmp_path / "reports").glob("*-demo-*")
    result = StoredRun.open(directory).result
    ((point,),) = (stage.points for stage in result.stages if stage.points)
    _, truth = answered(f"ssdbench sim truth {result.target.name} --read 70 --json", tmp_path)
    true_iops = json.loads(truth)["iops"]
    (found,) = (one for one in point.estimates if one.metric == "iops" and one.direction == "total")

    assert code == 0 and "cannot tell" not in said and "no boundary" not in said
    assert sum(stage.duration_s for stage in result.stages) <= MOST_H * 3600
    assert sum(stage.bytes_written for stage in result.stages) <= (
        MOST_FILLS * result.target.size_bytes
    )
    assert found.value == pytest.approx(true_iops, rel=NEAR_TRUTH)
    assert found.bound is not None and found.bound < true_iops
    require_shown([(shown, printed(shown, said, tmp_path))])
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"{format_bound(found.bound)} IOPS that one drive keeps" in readme
