"""Programs of others that a test needs, and machines in namespaces of this host.

A program that is missing fails its test. A machine has a network, processes, a host name, /run and
/var/lib/ssdbench of its own. All that was started in it ends with it, also where the test is
killed.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
# Where a program comes from if not from the Debian package of its name.
PACKAGES = {
    "ansible-playbook": "nox -s systems (it installs ansible-core)",
    "ip": "apt-get install iproute2",
    "munged": "apt-get install munge",
    "sbatch": "apt-get install slurm-client",
    "sshd": "apt-get install openssh-server",
}
UP = """
hostname "$1"
ip link set lo up
mount -o remount,bind,ro /dev # the nodes are this host's: none may be replaced or removed
mount -t tmpfs tmpfs /run
mkdir -p /run/sshd /var/lib/ssdbench
mount --bind "$2" /var/lib/ssdbench
echo "127.0.0.1 localhost $1" >/run/hosts
mount --bind /run/hosts /etc/hosts
echo up
while sleep 1000; do :; done # the shell collects the processes whose parent has ended
"""


def required(name: str) -> str:
    """Return the path of a program; fail the test where it is missing."""
    found = shutil.which(name, path=PATH)
    if found is None:
        pytest.fail(f"there is no {name}: {PACKAGES.get(name, f'apt-get install {name}')}")
    return found


@dataclass(frozen=True)
class Machine:
    """One machine; `directory` has its files, also after its end."""

    name: str
    directory: Path
    holder: subprocess.Popen[str]
    init: int
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def enter(self, argv: Sequence[str | Path]) -> list[str]:
        """Return the words that start a program in this machine."""
        return ["nsenter", "-t", str(self.init), "-n", "-p", "-m", "-u", "--", *map(str, argv)]

    def run(
        self,
        *argv: str | Path,
        ok: Sequence[int] = (0,),
        timeout_s: float = 900,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end; fail the test if its exit code is not among `ok`."""
        # nsenter -m begins in the root directory.
        words = self.enter(["env", "-C", cwd or self.directory, f"PATH={PATH}", *argv])
        done = subprocess.run(
            words, text=True, capture_output=True, check=False, timeout=timeout_s,
            stdin=subprocess.DEVNULL, env={**os.environ, **(env or {})},
        )  # fmt: skip
        if done.returncode not in ok:
            pytest.fail(f"{argv} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done

    def start(self, *argv: str | Path) -> "subprocess.Popen[str]":
        """Start a program that runs until the end of the machine; its log is NAME.log."""
        with (self.directory / f"{Path(argv[0]).name}.log").open("a") as log:
            process = subprocess.Popen(
                self.enter(argv), stdin=subprocess.DEVNULL, stdout=log, stderr=log, text=True
            )
        self.started.append(process)
        return process

    def end(self) -> None:
        """End all that runs in this machine, as if its power was cut."""
        self.holder.kill()
        for process in (self.holder, *self.started):
            process.wait()
        assert self.holder.stdout
        self.holder.stdout.close()


def boot(name: str, place: Path) -> Machine:
    """Boot one machine."""
    directory = place / name
    (directory / "lib").mkdir(parents=True, exist_ok=True)
    argv = ["unshare", "--net", "--pid", "--mount", "--uts", "--fork", "--kill-child=KILL"]
    holder = subprocess.Popen(
        [*argv, "--mount-proc", "sh", "-ec", UP, "sh", name, str(directory / "lib")],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        preexec_fn=_die_with_parent,
    )  # fmt: skip
    assert holder.stdout
    assert holder.stdout.readline() == "up\n"
    (init,) = Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text().split()
    return Machine(name, directory, holder, int(init))


def _die_with_parent() -> None:
    import ctypes

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Machine]]:
    """Boots machines by name, and ends all of them."""
    if os.geteuid():
        pytest.fail("there is no root, which makes namespaces")
    required("ip")
    place = tmp_path_factory.mktemp("machines")
    booted: list[Machine] = []

    def make(name: str) -> Machine:
        booted.append(boot(name, place))
        return booted[-1]

    yield make
    for one in booted:
        one.end()


def connect(control: Machine, other: Machine, number: int) -> str:
    """Connect a machine with the control machine by a cable; return its address."""
    ends = [f"to{number}", "eth0"]
    subprocess.run(
        ["ip", "link", "add", ends[0], "netns", str(control.init), "type", "veth",
         "peer", "name", ends[1], "netns", str(other.init)], check=True,
    )  # fmt: skip
    for machine, end, last in ((control, ends[0], 1), (other, ends[1], 2)):
        machine.run("ip", "address", "add", f"10.99.{number}.{last}/30", "dev", end)
        machine.run("ip", "link", "set", end, "up")
    return f"10.99.{number}.2"


def until(condition: Callable[[], object], what: str, most_s: float = 60) -> None:
    """Wait for a condition; fail the test if it does not come true in time."""
    end_s = time.monotonic() + most_s
    while not condition():
        if time.monotonic() > end_s:
            pytest.fail(f"{what} did not happen in {most_s:g} s")
        time.sleep(0.1)
