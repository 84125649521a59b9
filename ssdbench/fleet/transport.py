"""Reaches the hosts with drives: by OpenSSH, or this machine. Nothing stays between calls."""

import shlex
from dataclasses import dataclass
from typing import Protocol

from ssdbench.errors import AnsweredTooMuch, CommandFailed, HostLacks, UsageError
from ssdbench.fleet.inventory import Fleet
from ssdbench.host import command
from ssdbench.host.names import Reader, written
from ssdbench.units import format_size

SSH_FAILED = 255  # ssh(1): its own exit status when it could not get there
CONNECT_S = 15
ANSWER_S = 120.0
MOST_SHUT_S = 6 * 3600.0  # that a run may keep a look waiting at its door
ALIVE_EVERY_S = 15
MOST_ANSWER_BYTES = 4 << 20  # `drives --json` of 500 drives takes less than 1 MiB


class Silent(HostLacks):
    """A host did not answer: it is down, hangs, or cannot be reached."""


@dataclass(frozen=True, slots=True)
class ScriptResult:
    """What a script printed on a host, and how it ended."""

    stdout: bytes
    stderr: str
    status: int


class Transport(Protocol):
    """A way to run a script of sh on a host."""

    def call(
        self,
        address: str,
        script: str,
        *,
        given: bytes = b"",
        idle_s: float | None = None,
        most_bytes: int = MOST_ANSWER_BYTES,
    ) -> ScriptResult:
        """Run it to its end. Raises Silent when the host does not answer, UsageError when its
        answer is longer than `most_bytes`.

        `idle_s`: so long the script sleeps there, and then it waits at the door of a run. Nothing
        may be heard of the host meanwhile.
        """
        ...


@dataclass(frozen=True, slots=True)
class SshTransport:
    """OpenSSH, which checks the host's key and never asks for a password."""

    options: tuple[str, ...] = ()
    become: tuple[str, ...] = ()

    def call(
        self,
        address: str,
        script: str,
        *,
        given: bytes = b"",
        idle_s: float | None = None,
        most_bytes: int = MOST_ANSWER_BYTES,
    ) -> ScriptResult:
        """Run a script there."""
        remote = shlex.join([*self.become, "sh", "-c", script])
        argv = [*_ssh(idle_s), *self.options, "--", written(Reader.SSH, address), remote]
        return _run_script(argv, address, given, SSH_FAILED, idle_s, most_bytes)


@dataclass(frozen=True, slots=True)
class LocalTransport:
    """This machine, whatever the address; for simulated drives."""

    def call(
        self,
        address: str,
        script: str,
        *,
        given: bytes = b"",
        idle_s: float | None = None,
        most_bytes: int = MOST_ANSWER_BYTES,
    ) -> ScriptResult:
        """Run a script here."""
        return _run_script(["sh", "-c", script], address, given, None, idle_s, most_bytes)


def transport_of(fleet: Fleet) -> Transport:
    """How the hosts of a fleet are reached."""
    return SshTransport(fleet.ssh, fleet.become)


def _ssh(idle_s: float | None) -> list[str]:
    """ssh, which asks the host whether it lives: of one that is measured it asks late and once."""
    every_s, most = (ALIVE_EVERY_S, 3) if idle_s is None else (max(60, round(2 * idle_s)), 1)
    return [
        "ssh", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_S}",
        "-o", f"ServerAliveInterval={every_s}", "-o", f"ServerAliveCountMax={most}",
    ]  # fmt: skip


def _run_script(
    argv: list[str],
    address: str,
    given: bytes,
    silent: int | None,
    idle_s: float | None,
    most_bytes: int,
) -> ScriptResult:
    longest_s = ANSWER_S if idle_s is None else ANSWER_S + idle_s + MOST_SHUT_S
    try:
        done = command.run(
            argv, ok=range(256), input=given, timeout_s=longest_s, most_bytes=most_bytes
        )
    except AnsweredTooMuch as error:
        raise UsageError(
            f"{address} answered more than {format_size(most_bytes)}, which no ssdbench does",
            hint="Look at what `ssdbench:` and `become:` start there, or leave the host out.",
        ) from error
    except CommandFailed as error:
        raise Silent(f"{address} does not answer: {error.message}") from error
    if done.status == silent:
        why = done.stderr.strip().splitlines()
        raise Silent(f"{address} cannot be reached: {why[-1] if why else 'ssh said nothing'}")
    return ScriptResult(done.raw, done.stderr, done.status)
