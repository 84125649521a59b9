"""What a machine lacks for each command, with the one command that installs it."""

import json
import re
import runpy
import shutil
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from ssdbench.cli.main import COMMANDS, run
from ssdbench.errors import HostLacks
from ssdbench.fleet.scheduler import require_engine
from ssdbench.host import command, database
from ssdbench.suite.installed import installed
from tests.support.builders import a_small_run

BOOTSTRAP = Path(__file__).parents[2] / "bootstrap"


def without(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """This machine, but with nothing installed besides what is not named; everything if none is."""
    monkeypatch.setattr(
        command, "which", lambda name: None if not names or name in names else f"/usr/bin/{name}"
    )


def test_a_command_that_lacks_programs_is_told_with_what_installs_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without(monkeypatch, "mkfs.xfs", "mkfs.btrfs", "strip")
    monkeypatch.setattr(database, "programs", lambda: Path("/usr/bin"))
    lacking = {one.command: (one.missing, one.install) for one in installed() if one.missing}
    lacking.pop("kmod build", None)  # its headers are a matter of this very kernel

    assert lacking == {
        "run (filesystems, file_writers, file_mix)": (
            ("mkfs.xfs", "mkfs.btrfs"),
            "apt-get install xfsprogs btrfs-progs",
        ),
        "lab run": (("strip",), "apt-get install binutils"),
    }


def test_check_names_every_command_that_lacks_something(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    without(monkeypatch)
    assert run(["check", "--json"]) == 4
    told = json.loads(capfd.readouterr().out)["commands"]

    lacking = [one for one in told if one["missing"]]
    assert all(one["install"].startswith("apt-get install ") for one in lacking)
    words = {word.strip(",") for one in told for word in one["command"].split(" (")[0].split()}
    assert words - {"build", "load", "unload"} <= set(COMMANDS)
    first = told[0]
    assert first["missing"] == ["fio", "setpriv", "taskset", "wipefs", "lsblk"]
    assert first["install"] == "apt-get install fio util-linux"


def test_without_duckdb_all_is_made_but_parquet_and_what_needs_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    a_small_run(tmp_path)
    assert run(["report", str(tmp_path)]) == 0
    assert (tmp_path / "results.parquet").exists()
    monkeypatch.setitem(sys.modules, "duckdb", None)  # as if it were not installed
    capfd.readouterr()

    assert run(["report", str(tmp_path)]) == 0

    hint = f"{sys.executable} -m pip install 'duckdb>=1.2,<3'"
    assert f"there is no results.parquet; install it: {hint}" in capfd.readouterr().err
    assert (tmp_path / "results.csv").exists()
    assert not (tmp_path / "results.parquet").exists()  # one of before would not be these results
    assert "results.parquet" not in (tmp_path / "report.html").read_text()

    log = tmp_path / "lat.1.log"
    log.write_text("1, 1000, 0, 4096, 0\n")
    assert run(["latencies", str(log)]) == 4
    said = capfd.readouterr()
    assert "DuckDB" in said.err and hint in said.err and said.out == ""
    (lacks,) = (one for one in installed() if "latencies" in one.command)
    assert (lacks.missing, lacks.install) == (("DuckDB",), hint)


def test_packages_are_those_that_bootstrap_installs() -> None:
    pairs = (word.split(":") for word in BOOTSTRAP.read_text().split() if word.count(":") == 1)
    known = {pair[0].strip('"'): pair[1].strip('"') for pair in pairs}
    told = {program: package for one in installed() for program, package in one.packages.items()}

    shared = told.keys() & known.keys()
    assert len(shared) > 8
    assert {name: told[name] for name in shared} == {name: known[name] for name in shared}


def test_a_missing_package_is_named_with_what_installs_it_in_this_kind_of_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tomllib.loads((BOOTSTRAP.parent / "pyproject.toml").read_text())["project"]
    (dask,) = project["optional-dependencies"]["fleet"]
    monkeypatch.setitem(sys.modules, "distributed", None)

    def hint() -> str:
        with pytest.raises(HostLacks) as lacks:
            require_engine()
        return lacks.value.hint.removeprefix("Install it on this control host: ")

    assert hint() == f"{sys.executable} -m pip install '{dask}'"
    monkeypatch.setitem(sys.modules, "pip", None)
    assert hint() == f"python3 -m pip --python {sys.executable} install '{dask}'"
    (tmp_path / "ssdbench-2").mkdir()
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "ssdbench-2"))
    (tmp_path / "ssdbench-2" / "pipx_metadata.json").touch()
    assert hint() == f"pipx inject ssdbench-2 '{dask}'"


def test_no_hint_names_a_package_that_a_stranger_may_own() -> None:
    lines = [
        f"{path}: {line}"
        for path in (BOOTSTRAP.parent / "ssdbench").rglob("*.py")
        for line in path.read_text().splitlines()
        if re.search(r"(pip|pipx|npm|apt-get) +(install|download) +['\"]?ssdbench(?![\w./-])", line)
    ]
    assert lines == []


class Asked:
    """A session of nox that notes what it was asked for, and does nothing."""

    posargs: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.calls: list[str] = []

    def error(self, said: str) -> None:
        raise RuntimeError(said)

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_words, **_options: self.calls.append(name)


def test_a_release_without_pandoc_ends_before_anything_is_installed_or_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(BOOTSTRAP.parent)
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "pandoc" else f"/bin/{name}")
    sessions = runpy.run_path("noxfile.py")
    session = Asked()

    with pytest.raises(RuntimeError, match="apt-get install pandoc"):
        sessions["dist"](session)

    assert set(session.calls) <= {"warn"}
