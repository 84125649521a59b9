"""Wheels on hosts: this machine stands for them, and a stub for pip."""

import io
import json
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from ssdbench import __version__
from ssdbench.cli.main import run
from ssdbench.errors import UsageError
from ssdbench.fleet import transport
from ssdbench.fleet.install import INSTALLED, fits, install
from ssdbench.fleet.inventory import Fleet
from ssdbench.fleet.transport import LocalTransport

FLEET = Fleet.model_validate(
    {
        "title": "t", "profile": "p", "hosts": [{"name": "h1"}, {"name": "h2"}],
        "drives": [{"model": "X*"}],
    }
)  # fmt: skip
# Makes bin/ssdbench as pip does: from the wheels that are there, of exactly the wanted version.
PIP = """
import pathlib, sys
wheels = pathlib.Path(sys.argv[sys.argv.index("--find-links") + 1])
assert sys.argv[-1] == "ssdbench==VERSION" and "--no-index" in sys.argv
names = sorted(path.name for path in wheels.iterdir())
made = pathlib.Path(sys.prefix, "bin", "ssdbench")
made.write_text(f"#!/bin/sh\\n: {names}\\necho ssdbench, version VERSION\\n")
made.chmod(0o755)
""".replace("VERSION", __version__)


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    place = tmp_path / "wheels"
    place.mkdir()
    with zipfile.ZipFile(place / "pip-25.0-py3-none-any.whl", "w") as made:
        made.writestr("pip/__main__.py", PIP)
    machine = os.uname().machine
    (place / f"ssdbench-{__version__}-py3-none-manylinux_2_34_{machine}.whl").touch()
    (place / f"ssdbench-{__version__}-py3-none-manylinux_2_34_other.whl").touch()
    return place


def test_the_first_call_installs_the_version_of_this_machine_and_the_second_changes_nothing(
    tmp_path: Path, wheels: Path
) -> None:
    prefix = tmp_path / "it's here"
    fleet = FLEET.model_copy(update={"hosts": FLEET.hosts[:1]})

    done, failed = install(fleet, LocalTransport(), wheels, str(prefix))

    assert failed == {}
    assert done["h1"].partition(";")[0] == INSTALLED
    home = prefix / "lib" / "ssdbench" / __version__
    link = prefix / "bin" / "ssdbench"
    assert link.readlink() == home / "bin" / "ssdbench"
    assert "other.whl" not in link.read_text()  # the wheel of another processor was not sent
    assert not (home / "wheels").exists()
    before = {path: path.lstat().st_mtime_ns for path in prefix.rglob("*")}

    assert install(fleet, LocalTransport(), wheels, str(prefix)) == ({"h1": "there"}, {})
    assert {path: path.lstat().st_mtime_ns for path in prefix.rglob("*")} == before


def test_wheels_belong_to_root_on_the_host_and_a_link_or_an_odd_name_does_no_harm(
    tmp_path: Path, wheels: Path
) -> None:
    (ours,) = wheels.glob(f"ssdbench-*_{os.uname().machine}.whl")
    ours.chmod(0o666)
    (wheels / "rich-1-py3-none-any.whl").symlink_to(ours)
    (wheels / "odd.whl").touch()
    (wheels / "directory-1-py3-none-any.whl").mkdir()
    sent: list[bytes] = []

    class Keeps(LocalTransport):
        def call(self, address: str, script: str, **options: object) -> transport.ScriptResult:
            sent.append(options.get("given", b""))  # type: ignore[arg-type]
            return super().call(address, script, **options)  # type: ignore[arg-type]

    fleet = FLEET.model_copy(update={"hosts": FLEET.hosts[:1]})
    _, failed = install(fleet, Keeps(), wheels, str(tmp_path))

    assert failed == {}
    with tarfile.open(fileobj=io.BytesIO(sent[-1])) as archive:
        found = {one.name: (one.isreg(), one.uid, one.gid, one.mode) for one in archive}
    assert found == dict.fromkeys(
        ("pip-25.0-py3-none-any.whl", "rich-1-py3-none-any.whl", ours.name), (True, 0, 0, 0o644)
    )


def test_two_installations_at_the_same_time_do_not_disturb_each_other(
    tmp_path: Path, wheels: Path
) -> None:
    hosts = [FLEET.hosts[0].model_copy(update={"name": f"h{n}"}) for n in range(4)]
    fleet = FLEET.model_copy(update={"hosts": hosts})  # which are all this machine

    done, failed = install(fleet, LocalTransport(), wheels, str(tmp_path))

    assert (len(done), failed) == (4, {})


def test_an_installation_that_was_cut_off_is_made_again_and_an_older_version_stays(
    tmp_path: Path, wheels: Path
) -> None:
    older = tmp_path / "lib/ssdbench/1.0.0/bin/ssdbench"
    half = tmp_path / "lib/ssdbench" / __version__ / "bin"
    for directory in (older.parent, half, tmp_path / "bin"):
        directory.mkdir(parents=True)
    older.write_text("older")
    (half / "python3").touch()
    (half / "of-the-first-attempt").touch()
    (tmp_path / "bin/ssdbench").symlink_to(older)
    fleet = FLEET.model_copy(update={"hosts": FLEET.hosts[:1]})

    done, failed = install(fleet, LocalTransport(), wheels, str(tmp_path))

    assert (list(done), failed) == (["h1"], {})
    assert (tmp_path / "bin/ssdbench").resolve() == half / "ssdbench"
    assert not (half / "of-the-first-attempt").exists()
    assert older.read_text() == "older"


def test_a_program_that_somebody_else_put_there_is_not_replaced(
    tmp_path: Path, wheels: Path
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/ssdbench").write_text("mine")

    done, failed = install(FLEET, LocalTransport(), wheels, str(tmp_path))

    assert done == {}
    assert all("not a link of fleet install" in why for why in failed.values())
    assert (tmp_path / "bin/ssdbench").read_text() == "mine"
    assert not (tmp_path / "lib").exists()


def test_one_host_that_fails_hides_no_other(
    tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    class OneIsOff(LocalTransport):
        def call(self, address: str, script: str, **options: object) -> transport.ScriptResult:
            if address == "h1":
                raise transport.Silent("h1 cannot be reached: no route to host")
            return super().call(address, script, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(transport, "transport_of", lambda fleet: OneIsOff())
    file = tmp_path / "f.yaml"
    file.write_text(FLEET.model_dump_json(include={"title", "profile", "hosts", "drives"}))

    code = run(["fleet", "install", str(file), "--wheels", str(wheels), "--prefix",
                str(tmp_path / "p"), "--json"])  # fmt: skip

    told = json.loads(capfd.readouterr().out)
    assert code == 1
    assert (told["version"], list(told["hosts"])) == (__version__, ["h2"])
    assert told["failed"] == {"h1": "h1 cannot be reached: no route to host"}


@pytest.mark.parametrize("lacking", ["ssdbench", "pip"])
def test_a_directory_without_this_version_or_without_pip_is_refused(
    tmp_path: Path, wheels: Path, lacking: str
) -> None:
    for wheel in wheels.glob(f"{lacking}-*"):
        wheel.rename(wheel.with_name(f"x{wheel.name}"))
    with pytest.raises(UsageError, match=f"no wheel of {lacking}"):
        install(FLEET, LocalTransport(), wheels, str(tmp_path))


@pytest.mark.parametrize(
    ("wheel", "right"),
    [
        ("rich-15-py3-none-any", True),
        ("six-1-py2.py3-none-any", True),
        ("numpy-2-cp312-cp312-manylinux_2_27_x86_64.manylinux_2_28_x86_64", True),
        ("numpy-2-cp311-cp311-manylinux_2_28_x86_64", False),
        ("numpy-2-cp312-cp312-musllinux_1_2_x86_64", False),
        ("numpy-2-cp312-cp312-manylinux_2_28_aarch64", False),
        ("numpy-2-cp312-cp312t-manylinux_2_28_x86_64", False),
        ("tornado-6-cp39-abi3-manylinux2014_x86_64", True),
        ("tornado-6-cp313-abi3-manylinux2014_x86_64", False),
    ],
)
def test_a_host_with_python_3_12_on_x86_64_gets_its_wheels(wheel: str, right: bool) -> None:
    assert fits(wheel, 12, "x86_64") is right
