import json
import re
import shutil
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


def test_modules_are_built_loaded_and_unloaded_by_the_command_line(
    guest: Guest, lab: Lab, tmp_path: Path
) -> None:
    kernel = lab.kernel
    built = CliRunner(env={"SSDBENCH_KMOD_DIR": str(tmp_path)}).invoke(
        ssdbench,
        [
            "kmod", "build", "--json", "--kernel", kernel.release,
            "--headers", str(kernel.headers), "--block-source", str(kernel.block_source),
        ],
    )  # fmt: skip
    kmod = f"env SSDBENCH_KMOD_DIR={tmp_path} .venv/bin/python -m ssdbench kmod"

    answer = guest(
        f"{kmod} load ssdb_slam > /run/loaded; {kmod} status --json; echo ---;"
        f"{kmod} unload > /run/unloaded; grep -c ssdb /proc/modules || echo none left",
        modules=False,
    )

    assert "ssdb_slam" in {row["name"] for row in json.loads(built.stdout)["modules"]}
    status, after = answer.stdout.split("---")
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
    kmod = f"env SSDBENCH_KMOD_DIR={tmp_path}/$where .venv/bin/python -m ssdbench kmod"

    answer = guest(
        f"where=other; {kmod} load ssdb_bpref 2>&1 || echo status $?\n"
        f"where=built; {kmod} load ssdb_bpref; S=/sys/block/nvme0n1/queue/scheduler\n"
        f"echo bpref-as > $S; {kmod} unload 2>&1 || echo status $?; echo none > $S; {kmod} unload",
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


def test_compiler_and_sparse_find_nothing(lab: Lab, tmp_path: Path) -> None:
    """`W=1 -Werror`; `C=2` runs the kernel's semantic checker over every file."""
    kernel = lab.kernel
    modules.copy_sources(modules.source_directory(), tmp_path)

    said = run(
        [
            "make", "-C", str(tmp_path), f"KDIR={kernel.headers}", f"KSRC={kernel.block_source}",
            "W=1", "KCFLAGS=-Werror", "C=2", "CHECK=sparse", "modules",
        ],
        timeout_s=500,
    )  # fmt: skip

    complaints = [line for line in said.stderr.splitlines() if re.search(r"(warning|error):", line)]
    assert "CHECK" in said.stdout
    assert complaints == []
