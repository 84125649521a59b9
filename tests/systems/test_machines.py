"""The machines of this tier are apart from this host, and nothing of them stays."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from release import machines as fresh
from tests.systems.conftest import Machine, connect, required, until

NODE = Path("/dev/ssdbench-test")


def test_a_machine_has_its_own_network_processes_and_name(
    machines: Callable[[str], Machine],
) -> None:
    control, host = machines("control"), machines("h1")
    address = connect(control, host, 1)

    assert host.run("hostname").stdout == "h1\n"
    assert host.run("cat", "/proc/1/comm").stdout == "sh\n"
    assert address in host.run("ip", "-4", "address").stdout
    assert "to1" not in host.run("ip", "link").stdout
    assert address not in Path("/proc/net/fib_trie").read_text()


def test_all_of_a_machine_ends_with_it(machines: Callable[[str], Machine]) -> None:
    machine = machines("h2")
    started = machine.start("setsid", shutil.which("sleep") or "", "600")
    until(lambda: "sleep 600" in machine.run("ps", "-e", "-o", "args").stdout, "a sleep")
    machine.end()

    assert started.wait(10)
    until(lambda: not Path(f"/proc/{machine.init}").exists(), "the end of the machine")


def test_a_machine_cannot_change_the_nodes_of_this_host(
    machines: Callable[[str], Machine], tmp_path: Path
) -> None:
    script = f"echo x >/dev/null && ! touch {NODE}"

    machines("h3").run("sh", "-c", script)
    status = fresh.inside(Path("/"), "root", script, tmp_path / "log")

    assert status == 0
    assert (tmp_path / "log").read_text().count("Read-only file system") == 1
    assert not NODE.exists()


def test_a_program_that_is_missing_fails_its_test() -> None:
    with pytest.raises(pytest.fail.Exception, match="apt-get install no-such-program"):
        required("no-such-program")
