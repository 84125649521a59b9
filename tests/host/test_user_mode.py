"""What a kernel in user mode is given of this host: a script stands in for the kernel."""

from pathlib import Path

import pytest

from tests.vm import user_mode

pytestmark = pytest.mark.host

KERNEL = r"""#!/bin/sh
echo "options $2 $3"
for place in / /etc /usr /var/tmp /run/kernel /run/given /proc/sys/kernel; do
  touch $place/written-by-a-guest 2>/dev/null && echo "wrote in $place"; done
echo x > /run/given/file; cat /run/given/file
echo "dev: $(ls /dev | tr '\n' ' ')"
echo "processes: $(ls -d /proc/[0-9]* | wc -l)"
touch /tmp/memory && cat /run/script
[ ! -e /run/given/hang ] || sleep 100
"""


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    made = tmp_path / "kernel"
    made.mkdir()
    (made / "linux").write_text(KERNEL)
    (made / "linux").chmod(0o755)
    return made


@pytest.fixture
def given(tmp_path: Path) -> Path:
    made = tmp_path / "given"
    made.mkdir()
    (made / "file").write_text("the host's\n")
    return made


def ran(kernel: Path, given: Path, *scripts: str, timeout_s: float = 60) -> list[str]:
    options = ["mem=1G", "null_blk.gb=1"]
    return user_mode.run(
        kernel, scripts, given={"given": given}, options=options, timeout_s=timeout_s
    )


def test_it_reads_the_hosts_files_and_writes_none(kernel: Path, given: Path) -> None:
    (said,) = ran(kernel, given, "its script\n")

    assert "options mem=1G null_blk.gb=1" in said
    assert "its script" in said
    assert "wrote in" not in said
    assert "the host's" in said
    assert (given / "file").read_text() == "the host's\n"
    assert not Path("/tmp/memory").exists()
    assert "dev: null random shm urandom zero" in said
    assert int(said.partition("processes: ")[2].split()[0]) < 10


def test_two_run_side_by_side(kernel: Path, given: Path) -> None:
    first, second = ran(kernel, given, "one\n", "other\n")

    assert "one" in first
    assert "other" in second


def test_one_that_does_not_end_is_ended_and_keeps_what_it_said(kernel: Path, given: Path) -> None:
    (given / "hang").touch()
    mounts = Path("/proc/self/mounts").read_text()

    (said,) = ran(kernel, given, "its script\n", timeout_s=5)

    assert "its script" in said
    assert Path("/proc/self/mounts").read_text() == mounts
