"""Who stands for a file: signatures of OpenSSH keys, which every host has the program for.

A signature is FILE.sig, made by `ssh-keygen -Y sign -n ssdbench -f KEY FILE`. Signers are a file of
lines as ssh-keygen(1) has them under ALLOWED SIGNERS.
"""

import re
from pathlib import Path

from ssdbench.errors import CommandFailed, UsageError
from ssdbench.foreign import plain, read_regular
from ssdbench.host import command

NAMESPACE = "ssdbench"


def sign(path: Path, key: Path) -> None:
    """Sign a file. Raises UsageError, HostLacks."""
    path.with_name(f"{path.name}.sig").unlink(missing_ok=True)
    try:
        command.run(["ssh-keygen", "-Y", "sign", "-n", NAMESPACE, "-f", str(key), "--", str(path)])
    except CommandFailed as error:
        raise UsageError(
            f"{path} cannot be signed: {error.message}",
            hint="A key with a passphrase signs by the agent: `ssh-add KEY`, then give KEY.pub.",
        ) from error


def signer(path: Path, signers: Path) -> str:
    """Who signed a file. Raises UsageError when nobody did whom `signers` name, HostLacks."""
    signature = path.with_name(f"{path.name}.sig")
    try:
        data = read_regular(path)
        read_regular(signature)
    except OSError as error:
        raise UsageError(
            f"{path} is not signed: {error.strerror}",
            hint=f"On the host that measured it: ssh-keygen -Y sign -n {NAMESPACE} -f KEY FILE",
        ) from error
    common = ["-s", str(signature), "-f", str(signers)]
    found = command.run(
        ["ssh-keygen", "-Y", "find-principals", *common], ok=range(256), timeout_s=60
    )
    name = found.stdout.strip().partition("\n")[0].partition(",")[0]
    if found.status or not re.fullmatch(r"[^\s\0]{1,200}", name):
        raise UsageError(f"{path} is signed by a key that {signers} does not name")
    argv = ["ssh-keygen", "-Y", "verify", "-n", NAMESPACE, "-I", name, *common]
    if command.run(argv, ok=range(256), input=data, timeout_s=60).status:
        raise UsageError(
            f"{path} is not what {plain(name, 100)} signed", hint="Copy it again from its origin."
        )
    return name
