import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from ssdbench.cli.main import ssdbench
from ssdbench.lab.guest import Lab
from tests.vm.conftest import Guest

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
        f"{kmod} load ssdb_slam > /tmp/loaded; {kmod} status --json; echo ---;"
        f"{kmod} unload > /tmp/unloaded; grep -c ssdb /proc/modules || echo none left",
        modules=False,
    )

    assert "ssdb_slam" in {row["name"] for row in json.loads(built.stdout)}
    status, after = answer.stdout.split("---")
    loaded = {row["name"]: row.get("loaded") for row in json.loads(status)}
    assert loaded["ssdb_slam"] == "yes"
    assert loaded["ssdb_flash"] == "no"
    assert "none left" in after
