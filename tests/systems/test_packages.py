"""The packages and the image are made and used without network, on machines from mmdebstrap."""

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from release import deb, machines
from tests.systems.conftest import required
from tests.systems.wheelhouse import ROOT, wheel, wheels

USE = """
dpkg -i /srv/ssdbench_*.deb && cd /root && ssdbench fleet run --local 2 --output lot &&
ssdbench check && dpkg --purge ssdbench && ! ls /usr/lib/ssdbench
"""
MANIFEST = ROOT / "docs/examples/kubernetes.yaml"
SCHEMA = ROOT / "tests/data/kubernetes/job.json"
KUBECONFORM = "github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0"
BASE = "fio,kmod,libnbd0,nvme-cli,procps,python3-venv,smartmontools,udev"


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("suite", ["bookworm", "trixie", "noble"])
def test_the_deb_of_a_distribution_is_built_and_runs_a_fleet_without_network(
    suite: str, tmp_path: Path
) -> None:
    required("mmdebstrap")
    assert deb.on_machine(suite, wheel(), tmp_path)
    archive = machines.root_archive(suite, "package")
    assert archive is not None
    (package,) = tmp_path.glob("ssdbench_*.deb")
    log = tmp_path / "log"

    with machines.unpacked(archive) as root:
        package.rename(root / "srv" / package.name)
        status = machines.inside(root, "root", USE, log, offline=True)

    assert status == 0, log.read_text()
    assert "2 drives: 2 measured" in log.read_text()


@pytest.mark.timeout(3600)
def test_the_containerfile_builds_on_a_base_from_packages_and_measures() -> None:
    archive = machines.CACHE / "base.tar"
    if not archive.exists():
        words = [required("mmdebstrap"), f"--include={BASE}", "bookworm"]
        subprocess.run([*words, archive.with_suffix(".new.tar")], check=True, capture_output=True)
        archive.with_suffix(".new.tar").rename(archive)
    with tempfile.TemporaryDirectory(dir=machines.CACHE) as place:
        environment = {**os.environ, "BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "vfs"}
        # A mount that is left over ends with its call: `place` is removed with all that is in it.
        apart = ["unshare", "--mount", required("buildah")]
        store = [*apart, "--root", f"{place}/store", "--runroot", f"{place}/run"]

        def buildah(*words: str | Path) -> str:
            done = subprocess.run(
                [*store, *words], env=environment, check=False, capture_output=True, text=True
            )
            assert done.returncode == 0, f"{words}: {done.stdout[-2000:]} {done.stderr[-2000:]}"
            return done.stdout

        buildah("from", "--name", "base", "scratch")
        buildah("add", "base", archive, "/")
        buildah("commit", "-q", "base", "localhost/base")
        context = wheels(Path(place) / "wheels", "3.11")
        given = ("-t", "localhost/ssdbench", "--build-arg", "BASE=localhost/base")
        buildah("bud", "-q", "-f", ROOT / "Containerfile", *given, context)
        buildah("from", "--name", "made", "localhost/ssdbench")
        checked = buildah("run", "made", "--", "ssdbench", "check")
        ran = buildah("run", "made", "--", "ssdbench", "run", "demo", "--output", "/root/demo")

    assert "all programs are installed" in checked
    assert "VALIDATED: sim:x25m-g2-160" in ran


def test_kubeconform_accepts_the_job_and_refuses_a_key_that_is_misspelt(tmp_path: Path) -> None:
    environment = {**os.environ, "GOBIN": str(tmp_path)}
    subprocess.run([required("go"), "install", KUBECONFORM], env=environment, check=True)
    words: list[str | Path] = [tmp_path / "kubeconform", "-strict", "-schema-location", SCHEMA]
    (tmp_path / "misspelt.yaml").write_text(
        MANIFEST.read_text().replace("podFailurePolicy", "podFailurPolicy")
    )

    subprocess.run([*words, MANIFEST], check=True)
    refused = subprocess.run([*words, tmp_path / "misspelt.yaml"], check=False, capture_output=True)

    assert refused.returncode == 1
    assert b"'podFailurPolicy' not allowed" in refused.stdout
