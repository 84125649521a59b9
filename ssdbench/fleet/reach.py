"""Reaches the hosts with drives: by OpenSSH, or this machine. Nothing stays between calls."""

import shlex
from dataclasses import dataclass
from typing import Protocol

from ssdbench.errors import CommandFailed, HostLacks
from ssdbench.fleet.inventory import Fleet
from ssdbench.host import command

SSH_FAILED = 255  # ssh(1): its own exit status when it could not get there
CONNECT_S = 15
ANSWER_S = 120.0
SSH = (
    "ssh", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_S}",
    "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3",
)  # fmt: skip


class Silent(HostLacks):
    """A host did not answer: it is down, hangs, or cannot be reached."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a script printed on a host, and how it ended."""

    stdout: bytes
    stderr: str
    status: int


class Reach(Protocol):
    """A way to run a script of sh on a host."""

    def call(self, address: str, script: str, *, given: bytes = b"") -> Said:
        """Run it to its end. Raises Silent when the host does not answer."""
        ...


@dataclass(frozen=True, slots=True)
class BySsh:
    """OpenSSH, which checks the host's key and never asks for a password."""

    options: tuple[str, ...] = ()
    become: tuple[str, ...] = ()

    def call(self, address: str, script: str, *, given: bytes = b"") -> Said:
        """Run a script there."""
        remote = shlex.join([*self.become, "sh", "-c", script])
        return _called([*SSH, *self.options, "--", address, remote], address, given, SSH_FAILED)


@dataclass(frozen=True, slots=True)
class Here:
    """This machine, whatever the address; for simulated drives."""

    def call(self, address: str, script: str, *, given: bytes = b"") -> Said:
        """Run a script here."""
        return _called(["sh", "-c", script], address, given, None)


def reach_of(fleet: Fleet) -> Reach:
    """How the hosts of a fleet are reached."""
    return BySsh(fleet.ssh, fleet.become)


def _called(argv: list[str], address: str, given: bytes, silent: int | None) -> Said:
    try:
        done = command.run(argv, ok=range(256), input=given, timeout_s=ANSWER_S)
    except CommandFailed as error:
        raise Silent(f"{address} does not answer: {error.message}") from error
    if done.status == silent:
        why = done.stderr.strip().splitlines()
        raise Silent(f"{address} cannot be reached: {why[-1] if why else 'ssh said nothing'}")
    return Said(done.raw, done.stderr, done.status)
