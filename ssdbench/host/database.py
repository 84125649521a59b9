"""Run a PostgreSQL server during a measurement.

The server runs as an unprivileged user, as PostgreSQL demands. It listens only on a socket in a
directory of its own, and ends when our process ends. The caller chooses the directory for the data;
the unprivileged user must be able to reach it.
"""

import os
import pwd
import re
import signal
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from ssdbench.errors import CommandFailed, HostLacks
from ssdbench.host import command
from ssdbench.units import MIB

PACKAGE = "postgresql"
ROLE, DATABASE = "sbtest", "postgres"  # the role that sysbench uses; a database that always exists
_PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/libexec/postgresql*")
_PROGRAMS = ("postgres", "initdb", "psql", "pg_isready")
_USERS = ("postgres", "nobody")
_MADE_S, _READY_S, _STOPPED_S = 600.0, 300.0, 600.0
_ASK_EVERY_S = 0.1
_LEAST_LOG_BYTES = 64 * MIB  # least size of the write-ahead log: four segments


def programs() -> Path | None:
    """Return the directory of the newest installed PostgreSQL server, or None."""
    on_path = command.which("postgres")
    likely = [place for name in _PLACES for place in Path("/").glob(name.lstrip("/"))]
    there = [
        place
        for place in (*likely, *([Path(on_path).resolve().parent] if on_path else ()))
        if all((place / name).exists() for name in _PROGRAMS)
    ]
    return max(there, key=lambda p: [int(n) for n in re.findall(r"\d+", str(p))], default=None)


@contextmanager
def serving(
    work: Path, logs: Path, sockets: Path, *, data_bytes: int, cpus: Collection[int] = ()
) -> Iterator[None]:
    """Serve a new, empty database cluster below `work` until the end of the block.

    The socket is made in `sockets`, whose path must be short, because a socket's path has at most
    107 bytes. The write-ahead log is limited to a quarter of `data_bytes`; other settings are
    PostgreSQL's defaults. Raises HostLacks when PostgreSQL is not installed, CommandFailed with the
    server's last messages when it does not start or stop.
    """
    place = programs()
    if place is None:
        raise HostLacks(
            f"PostgreSQL is not installed (package {PACKAGE})",
            hint=f"Install it, for example with `apt-get install {PACKAGE}`.",
        )
    user = _user()
    # When the process changes its user, the kernel forgets to signal it when we die, so it asks the
    # kernel again.
    as_user = [
        "setpriv", "--reuid", str(user.pw_uid), "--regid", str(user.pw_gid), "--clear-groups",
        "--pdeathsig", "KILL", "--",
    ]  # fmt: skip
    os.chown(work, user.pw_uid, user.pw_gid)
    data = work / "database"
    os.chown(sockets, user.pw_uid, user.pw_gid)
    options = ["--auth=trust", "--no-locale", "--encoding=UTF8", "-U", ROLE]
    command.run([*as_user, str(place / "initdb"), "-D", str(data), *options], timeout_s=_MADE_S)
    argv = [*as_user, str(place / "postgres"), "-D", str(data), *_settings(sockets, data_bytes)]
    out, err = logs / "server.stdout", logs / "server.stderr"
    process = command.spawn(argv, stdout=out, stderr=err, cwd=sockets, cpus=cpus)
    try:
        _await_ready(process, place, sockets, err)
        yield
        process.send(signal.SIGINT)  # fast shutdown: writes all data
        if process.wait(_STOPPED_S) != 0:
            raise _failed(process, err)
    finally:
        if process.poll() is None:
            process.kill()


def checkpoint(sockets: Path) -> None:
    """Make the server write all its data to disk now, so that it does not do so later."""
    place = programs()
    if place is not None:
        where = ["-h", str(sockets), "-U", ROLE, "-d", DATABASE]
        command.run([str(place / "psql"), *where, "-qc", "CHECKPOINT"], timeout_s=_STOPPED_S)


def _settings(sockets: Path, data_bytes: int) -> list[str]:
    log = max(_LEAST_LOG_BYTES, data_bytes // 4) // MIB
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": str(sockets),
        "max_wal_size": f"{log}MB",
        "min_wal_size": "32MB",
    }
    return [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]


def _user() -> pwd.struct_passwd:
    for name in _USERS:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise HostLacks(
        f"a database server needs a user named {' or '.join(_USERS)}, and this host has neither",
        hint="Add one, for example with `useradd --system postgres`.",
    )


def _await_ready(process: command.Process, place: Path, sockets: Path, err: Path) -> None:
    asked = [str(place / "pg_isready"), "-q", "-h", str(sockets), "-d", DATABASE]
    deadline = time.monotonic() + _READY_S
    while process.poll() is None and time.monotonic() < deadline:
        if command.run(asked, ok=(0, 1, 2, 3)).status == 0:
            return
        time.sleep(_ASK_EVERY_S)
    raise _failed(process, err)


def _failed(process: command.Process, err: Path) -> CommandFailed:
    status = process.poll()
    return CommandFailed(process.argv, -1 if status is None else status, err.read_text()[-2000:])
