"""Run scripts on the hosts of a fleet, over SSH or on this machine."""

import shlex
from dataclasses import dataclass
from typing import Protocol, TypedDict, Unpack

from ssdbench.errors import AnsweredTooMuch, CommandFailed, HostLacks, UsageError, telling
from ssdbench.fleet.inventory import Fleet
from ssdbench.host import command
from ssdbench.host.names import Reader, written
from ssdbench.units import format_size

SSH_FAILED = 255  # exit status of ssh(1) when it cannot connect
CONNECT_S = 15
ANSWER_S = 120.0
MOST_SHUT_S = 6 * 3600.0  # longest time that a script may wait for the host lock of a run
ALIVE_EVERY_S = 15
MOST_ANSWER_BYTES = 4 << 20  # `drives --json` with 500 drives is below 1 MiB


class Silent(HostLacks):
    """A host did not answer: the host is down, hangs, cannot be reached, or refused the login."""


class Untrusted(Silent):
    """ssh did not accept the host key: not in known_hosts, or changed. A person must check it."""


@dataclass(frozen=True, slots=True)
class ScriptResult:
    """The output and exit status of a script on a host."""

    stdout: bytes
    stderr: str
    status: int


class CallOptions(TypedDict, total=False):
    """Options of one call of a script: its input, its waiting time, and the largest answer."""

    given: bytes  # standard input of the script
    idle_s: float | None  # time that the script sleeps before it takes a host lock; None: no wait
    most_bytes: int  # largest answer


class Transport(Protocol):
    """A way to run a shell script on a host."""

    def call(self, address: str, script: str, **options: Unpack[CallOptions]) -> ScriptResult:
        """Run a script to its end.

        Raises Silent when the host does not answer, Untrusted when its host key is unknown or
        changed, UsageError when the answer is too long.
        """
        ...


@dataclass(frozen=True, slots=True)
class SshTransport:
    """Run scripts with OpenSSH, which checks host keys and never asks for a password here."""

    options: tuple[str, ...] = ()
    become: tuple[str, ...] = ()

    def call(self, address: str, script: str, **options: Unpack[CallOptions]) -> ScriptResult:
        remote = shlex.join([*self.become, "sh", "-c", script])
        argv = [
            *_ssh(options.get("idle_s")),
            *self.options,
            "--",
            written(Reader.SSH, address),
            remote,
        ]
        return _run_script(argv, address, SSH_FAILED, options)


@dataclass(frozen=True, slots=True)
class LocalTransport:
    """Run scripts on this machine, for simulated drives; the address of the host is ignored."""

    def call(self, address: str, script: str, **options: Unpack[CallOptions]) -> ScriptResult:
        return _run_script(["sh", "-c", script], address, None, options)


def transport_of(fleet: Fleet) -> Transport:
    """Return the SSH transport to the hosts of a fleet, with its ssh options and `become`."""
    return SshTransport(fleet.ssh, fleet.become)


def _ssh(idle_s: float | None) -> list[str]:
    """Return the ssh command; a script that waits `idle_s` gets fewer keep-alive packets."""
    every_s, most = (ALIVE_EVERY_S, 3) if idle_s is None else (max(60, round(2 * idle_s)), 1)
    return [
        "ssh", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_S}",
        "-o", f"ServerAliveInterval={every_s}", "-o", f"ServerAliveCountMax={most}",
    ]  # fmt: skip


def _run_script(
    argv: list[str], address: str, silent: int | None, options: CallOptions
) -> ScriptResult:
    idle_s = options.get("idle_s")
    most_bytes = options.get("most_bytes", MOST_ANSWER_BYTES)
    longest_s = ANSWER_S if idle_s is None else ANSWER_S + idle_s + MOST_SHUT_S
    try:
        done = command.run(
            argv,
            ok=range(256),
            input=options.get("given", b""),
            timeout_s=longest_s,
            most_bytes=most_bytes,
        )
    except AnsweredTooMuch as error:
        raise UsageError(
            f"{address} answered more than {format_size(most_bytes)}, so this is not ssdbench",
            hint="Check which program `ssdbench:` and `become:` start there, or remove the host.",
        ) from error
    except CommandFailed as error:
        raise Silent(f"{address} does not answer: {error.message}") from error
    if done.status == silent:
        raise _silence(address, done.stderr)
    return ScriptResult(done.raw, done.stderr, done.status)


def _silence(address: str, stderr: str) -> Silent:
    """Return Untrusted if ssh did not accept the host key; Silent for other failures of ssh."""
    if "HOST IDENTIFICATION HAS CHANGED" in stderr:
        return Untrusted(
            f"the host key of {address} is not the one in known_hosts: the host was installed "
            "again, or another machine answers; check it, then remove the old key (ssh-keygen -R)"
        )
    if "Host key verification failed" in stderr:
        return Untrusted(
            f"known_hosts has no host key of {address}: log in once by hand and check the key"
        )
    if "Permission denied" in stderr:
        return Silent(f"{address} answers, but refuses the login: {telling(stderr)}")
    why = stderr.strip().splitlines()
    return Silent(f"{address} cannot be reached: {why[-1] if why else 'ssh printed no reason'}")
