"""Hosts that a control machine reaches by a real sshd, each with its own host key and port."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.systems.conftest import Machine, connect, required, until

FIRST_PORT = 2200
SSDBENCH = f"{sys.executable} -m ssdbench"
SSHD = """
Port {port}
HostKey {directory}/host_key
AuthorizedKeysFile {key}.pub
PermitRootLogin prohibit-password
PasswordAuthentication no
StrictModes no
UsePAM no
PidFile none
"""
CONFIG = """
Host {name}
  HostName {address}
  Port {port}
  User root
"""


@dataclass
class SshHosts:
    """The control machine and its hosts; `directory` is the control machine's."""

    machines: Callable[[str], Machine]
    control: Machine
    hosts: dict[str, Machine] = field(default_factory=dict)

    @classmethod
    def of(cls, machines: Callable[[str], Machine]) -> "SshHosts":
        """Boot the control machine, which has a key."""
        made = cls(machines, machines("control"))
        _make_key(made.directory / "key")
        (made.directory / "config").write_text(
            f"Host *\n  IdentityFile {made.directory}/key\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {made.directory}/known_hosts\n  LogLevel ERROR\n"
        )
        return made

    @property
    def directory(self) -> Path:
        """Return the directory of the control machine."""
        return self.control.directory

    def add(self, name: str) -> Machine:
        """Boot a host with sshd, whose host key the control machine knows."""
        number = len(self.hosts) + 1
        host = self.hosts[name] = self.machines(name)
        address, port = connect(self.control, host, number), FIRST_PORT + number
        with (self.directory / "config").open("a") as config:
            config.write(CONFIG.format(name=name, address=address, port=port))
        (host.directory / "sshd_config").write_text(
            SSHD.format(port=port, directory=host.directory, key=self.directory / "key")
        )
        self.renew_key(name)
        public = (host.directory / "host_key.pub").read_text()
        with (self.directory / "known_hosts").open("a") as known:
            known.write(f"[{address}]:{port} {public}")
        self.serve(name)
        return host

    def serve(self, name: str) -> None:
        """Start sshd on a host, and wait until a login succeeds."""
        host = self.hosts[name]
        host.start(required("sshd"), "-D", "-e", "-f", host.directory / "sshd_config")
        until(lambda: " LISTEN " in f" {host.run('ss', '-Hltn').stdout} ", f"sshd of {name}")

    def renew_key(self, name: str) -> None:
        """Give a host another host key, as a new installation does; each login reads it."""
        path = self.hosts[name].directory / "host_key"
        path.unlink(missing_ok=True)
        _make_key(path)

    def fleet_file(self, title: str, **keys: object) -> Path:
        """Write FLEET.yaml for all hosts; JSON is YAML."""
        path = self.directory / f"{title}.yaml"
        path.write_text(
            json.dumps(
                {
                    "title": title,
                    "profile": "quick",
                    "hosts": [{"name": name} for name in self.hosts],
                    "ssdbench": [sys.executable, "-m", "ssdbench"],
                    "ssh": ["-F", str(self.directory / "config")],
                    "look_every": "2s",
                    **keys,
                }
            )
        )
        return path

    def fleet(
        self, *words: str | Path, ok: tuple[int, ...] = (0,), env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run `ssdbench fleet` on the control machine."""
        return self.control.run(sys.executable, "-m", "ssdbench", "fleet", *words, ok=ok, env=env)


def _make_key(path: Path) -> None:
    subprocess.run(
        [required("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", path],
        check=True, env={**os.environ},
    )  # fmt: skip
