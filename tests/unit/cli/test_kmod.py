import json
from pathlib import Path

import pytest

from ssdbench import __version__
from ssdbench.cli.main import run
from ssdbench.host import kmod
from ssdbench.host.sysfs import Sysfs


def test_a_module_that_there_is_not_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    status = run(["kmod", "unload", "ssdb_warp"])

    assert status == 2
    assert "there is no module ssdb_warp" in capsys.readouterr().err


def test_a_build_without_headers_says_how_to_get_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = run(["kmod", "build", "--kernel", "1.2.3-none", "--headers", str(tmp_path)])

    said = capsys.readouterr().err
    assert status == 4
    assert "no kernel headers" in said
    assert "linux-headers" in said


def test_every_obstacle_to_loading_is_named(tmp_path: Path) -> None:
    for name, value in {
        "proc/sys/kernel/modules_disabled": "1",
        "sys/kernel/security/lockdown": "none [integrity] confidentiality",
        "sys/module/module/parameters/sig_enforce": "Y",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(value + "\n")

    reasons = kmod.obstacles(Sysfs(tmp_path))

    assert len(reasons) == 4
    assert "without loadable modules" in reasons[0]
    assert "mokutil" in reasons[2]


def test_the_state_of_each_module_comes_from_the_kernel_and_the_build(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/modules").write_text("ssdb_slam 49152 2 - Live 0x0 (OE)\n")
    (tmp_path / "ssdb_flash.ko").write_text("")

    states = {state.name: state for state in kmod.states(Sysfs(tmp_path), tmp_path)}

    assert (states["ssdb_slam"].loaded, states["ssdb_slam"].users) == (True, 2)
    assert states["ssdb_flash"].built == tmp_path / "ssdb_flash.ko"
    assert json.dumps(states["ssdb_bpref"].loaded) == "false"


def test_a_digest_changes_with_the_sources_alone(tmp_path: Path) -> None:
    (tmp_path / "slam").mkdir()
    (tmp_path / "Kbuild").write_text("obj-m := slam/\n")
    (tmp_path / "slam/main.c").write_text("int a;\n")
    before = kmod.source_digest(tmp_path)

    (tmp_path / "slam/main.o").write_text("built")
    unchanged = kmod.source_digest(tmp_path)
    (tmp_path / "slam/main.c").write_text("int b;\n")

    assert unchanged == before
    assert kmod.source_digest(tmp_path) != before


def test_sources_for_dkms_are_never_laid_over_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = run(["kmod", "dkms", "--to", str(tmp_path)])
    again = run(["kmod", "dkms", "--to", str(tmp_path)])

    conf = (tmp_path / f"ssdbench-{__version__}" / "dkms.conf").read_text()
    assert (first, again) == (0, 2)
    assert f'PACKAGE_VERSION="{__version__}"' in conf
    assert "exists already" in capsys.readouterr().err
