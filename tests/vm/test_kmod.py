import json
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from ssdbench.cli.main import ssdbench
from ssdbench.host import kmod as modules
from ssdbench.host.command import run
from ssdbench.lab.kernels import source_package
from ssdbench.lab.session import Lab, built_modules
from tests.vm.conftest import Guest, cache

pytestmark = pytest.mark.vm


# Commands of ssdbench in one program, because each start of Python takes seconds in a guest.
COMMANDS = """
import os, sys
from ssdbench.cli import kmod
from ssdbench.cli.main import main

def tool(line):
    print("---", flush=True)
    if not (child := os.fork()):
        main(["kmod", *line.split()])
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""
TO_AND_FRO = """
for line in ("load ssdb_slam", "status --json", "unload"):
    if status := tool(line):
        sys.exit(status)
"""
REFUSED = """
from pathlib import Path
os.dup2(1, 2)
scheduler = Path("/sys/block/nvme0n1/queue/scheduler")
os.environ["SSDBENCH_KMOD_DIR"] = os.environ["OTHER"]
print("status", tool("load ssdb_bpref"), flush=True)
os.environ["SSDBENCH_KMOD_DIR"] = os.environ["BUILT"]
tool("load ssdb_bpref")
scheduler.write_text("bpref-as")
print("status", tool("unload"), flush=True)
scheduler.write_text("none")
tool("unload")
"""


@dataclass(frozen=True, slots=True)
class Build:
    """What the command line built, and what sparse said, which looked at every file."""

    directory: Path
    names: set[str]
    checked: list[str]


@pytest.fixture(scope="module")
def built(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Build:
    """All modules, built once with `W=1 -Werror`; `C=2` runs the kernel's semantic checker."""
    directory = tmp_path_factory.mktemp("kmod")
    sparse, said = directory / "sparse", directory / "said"
    sparse.write_text(f'#!/bin/sh\necho checked >> {said}\nsparse "$@" 2>> {said}\n')
    sparse.chmod(0o755)
    kernel = lab.kernel
    done = CliRunner(
        env={
            "SSDBENCH_KMOD_DIR": str(directory),
            "MAKEFLAGS": f"W=1 KCFLAGS=-Werror C=2 CHECK={sparse}",
        }
    ).invoke(
        ssdbench,
        [
            "kmod", "build", "--json", "--kernel", kernel.release,
            "--headers", str(kernel.headers), "--block-source", str(kernel.block_source),
        ],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)["modules"]
    return Build(directory, {row["name"] for row in rows}, said.read_text().splitlines())


def test_modules_are_built_loaded_and_unloaded_by_the_command_line(
    guest: Guest, built: Build
) -> None:
    answer = guest(
        f"export SSDBENCH_KMOD_DIR={built.directory}\n"
        f".venv/bin/python -c {shlex.quote(COMMANDS + TO_AND_FRO)}\n"
        "grep -c ssdb /proc/modules || echo none left",
        modules=False,
    )

    _, _, status, after = answer.stdout.split("---\n")
    loaded = {row["name"]: row["loaded"] for row in json.loads(status)["modules"]}
    assert loaded["ssdb_slam"] is True
    assert loaded["ssdb_flash"] is False
    assert "none left" in after


def test_a_module_of_another_kernel_and_one_in_use_get_a_sentence(
    guest: Guest, lab: Lab, tmp_path: Path
) -> None:
    kernel = lab.kernel
    built = tmp_path / "built" / kernel.release
    other = tmp_path / "other" / kernel.release / "ssdb_bpref.ko"
    built.mkdir(parents=True)
    other.parent.mkdir(parents=True)
    (bpref,) = (m for m in built_modules(kernel, cache()) if m.stem == "ssdb_bpref")
    shutil.copy(bpref, built)
    # With versions of symbols the kernel looks past its release, at what it was configured with.
    text = bpref.read_bytes().replace(b"vermagic=6.", b"vermagic=5.")
    other.write_bytes(text.replace(b"mod_unload", b"mod_loaded"))

    answer = guest(
        f"export OTHER={tmp_path}/other BUILT={tmp_path}/built\n"
        f"exec .venv/bin/python -c {shlex.quote(COMMANDS + REFUSED)}",
        modules=False,
    )

    said = answer.stdout
    expected = f"built for Linux 5{kernel.release[1:]}, but Linux {kernel.release} is running"
    assert expected in said
    assert "ssdb_bpref cannot be unloaded: it is in use" in said
    assert "`echo none > /sys/block/nvme0n1/queue/scheduler`" in said
    assert said.count("status 4") == 2
    assert said.splitlines()[-1] == "name: ssdb_bpref  loaded: no"


def test_dkms_builds_each_module_from_the_sources_laid_out_for_it(lab: Lab, tmp_path: Path) -> None:
    kernel = lab.kernel
    laid_out = CliRunner().invoke(ssdbench, ["kmod", "dkms", "--json", "--to", str(tmp_path)])
    told = json.loads(laid_out.stdout)["next"].split("; ")
    (tmp_path / "tree").mkdir()
    # One that does not compile, and a warning in another, which a user's compiler may have.
    (slam,) = tmp_path.glob("ssdbench-slam-*/slam/main.c")
    slam.write_text("#error planted\n")
    (flash,) = tmp_path.glob("ssdbench-tmerge-*/flash/main.c")
    flash.write_text(flash.read_text() + "#warning planted\n")

    said = {
        package.partition("/")[0]: run(
            [
                "dkms", "build", package, "--sourcetree", str(tmp_path),
                "--dkmstree", str(tmp_path / "tree"),
                "--kernelsourcedir", str(kernel.headers), "-k", kernel.release,
            ],
            ok=range(256),
            timeout_s=500,
        )
        for package in (line.split()[2] for line in told if "flash" not in line)
    }  # fmt: skip

    built = {path.name.split(".")[0] for path in (tmp_path / "tree").rglob("*.ko*")}
    status = {package: ended.status for package, ended in said.items()}
    assert status["ssdbench-tmerge"] == 0
    assert status["ssdbench-slam"] != 0
    assert built == {"ssdb_tmerge"}  # flash is its own package's
    (log,) = (tmp_path / "tree").glob("ssdbench-bpref/*/build/make.log")
    assert status["ssdbench-bpref"] != 0
    source = f"or to DKMS as /usr/src/{source_package(kernel.release)}\n"
    assert source in log.read_text()
    # Why, on the terminal, where dkms itself only names its log.
    ours = {
        package: [line for line in ended.stderr.splitlines(keepends=True) if "is not built" in line]
        for package, ended in said.items()
    }
    assert ours["ssdbench-tmerge"] == []
    assert ours["ssdbench-bpref"] == [
        f"ssdb_bpref is not built: give the kernel's source as KSRC=, {source}"
    ]
    (why,) = ours["ssdbench-slam"]
    assert why.startswith("ssdb_slam is not built: /")
    assert why.endswith("slam/main.c:1:2: error: #error planted\n")


def test_dkms_builds_for_no_new_kernel_unasked(lab: Lab, tmp_path: Path) -> None:
    CliRunner().invoke(ssdbench, ["kmod", "dkms", "--to", str(tmp_path)])
    (slam,) = tmp_path.glob("ssdbench-slam-*")
    trees = ["--sourcetree", str(tmp_path), "--dkmstree", str(tmp_path / "tree")]
    (tmp_path / "tree").mkdir()
    name, _, version = slam.name.rpartition("-")
    run(["dkms", "add", f"{name}/{version}", *trees])

    # As the hook of a package that brings a new kernel does.
    run(
        [
            "dkms", "autoinstall", "-k", lab.kernel.release, *trees,
            "--installtree", str(tmp_path / "installed"),
            "--kernelsourcedir", str(lab.kernel.headers),
        ],
        timeout_s=500,
    )  # fmt: skip

    assert run(["dkms", "status", *trees]).stdout.strip() == f"{name}/{version}: added"


def test_compiler_and_sparse_find_nothing(built: Build) -> None:
    assert built.names == set(modules.MODULES)  # one with a warning is not built
    assert built.checked.count("checked") >= len(modules.MODULES)
    assert [line for line in built.checked if line != "checked"] == []
