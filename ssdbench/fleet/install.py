"""Install this version of ssdbench on the hosts of a fleet: wheels over SSH, no registry needed.

Each version is installed in its own Python environment, PREFIX/lib/ssdbench/VERSION. The link
PREFIX/bin/ssdbench points to the version that was installed last. A working environment is never
changed or removed, because a run may be using it.
"""

import io
import shlex
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

from ssdbench import __version__
from ssdbench.errors import UsageError, telling
from ssdbench.fleet.inventory import Fleet, Host
from ssdbench.fleet.transport import ScriptResult, Silent, Transport
from ssdbench.foreign import plain
from ssdbench.host import command

HOSTS_AT_ONCE = 4  # limited because each host's archive of all wheels is in memory
OLDEST_MINOR = 11  # oldest minor version of Python 3
THERE, INSTALLED = "there", "installed"
# Both scripts follow shell assignments of home, link, prefix and version.
_LOOK = """
python3 -c 'import sys, platform; print(*sys.version_info[:2], platform.machine())' || exit 1
"$home/bin/ssdbench" --version 2>/dev/null
readlink "$link"
exit 0
"""
# Run pip from its wheel, because Debian's python3 has neither pip nor ensurepip.
_INSTALL = """
set -e
umask 022
there=$(readlink "$link" || [ ! -e "$link" ] || echo a file)
case "$there" in
'' | "$prefix"/lib/ssdbench/*) ;;
*) echo "$link: error: not a link of fleet install; remove it, or give another --prefix" >&2
   exit 1 ;;
esac
mkdir -p "$prefix/lib/ssdbench"
exec 9>"$prefix/lib/ssdbench/.lock"
flock 9 # another installation here may be half done
if ! "$home/bin/ssdbench" --version >/dev/null 2>&1; then
    rm -rf "$home"
    trap 'rm -rf "$home"' EXIT
    mkdir -p "$home/wheels"
    tar -xf - -C "$home/wheels"
    python3 -m venv --without-pip "$home"
    set -- "$home"/wheels/pip-*.whl
    "$home/bin/python3" "$1/pip" install -q --no-index --no-cache-dir \\
        --disable-pip-version-check --find-links "$home/wheels" "ssdbench==$version"
    rm -rf "$home/wheels"
    "$home/bin/ssdbench" --version >/dev/null
    trap - EXIT
fi
mkdir -p "$prefix/bin"
ln -sfn "$home/bin/ssdbench" "$link"
command -v fio >/dev/null || echo 'fio is missing: apt-get install fio'
"""


def install(
    fleet: Fleet, reach: Transport, wheels: Path, prefix: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Install on all hosts; return the action per host, and the reason per host that failed.

    The two returned mappings have host names as keys. The first result says `there` or `installed`,
    and names programs that the host still lacks. Raises UsageError if the directory `wheels` lacks
    the wheel of this version of ssdbench or of pip.
    """
    found = _wheels(wheels)
    at_work: set[str] = set()
    over = Event()

    def each(host: Host) -> tuple[str, str]:
        at_work.add(host.name)
        try:
            return ("", "") if over.is_set() else _on_host(host, reach, found, prefix)
        except (Silent, UsageError) as error:
            return "", error.message
        finally:
            at_work.discard(host.name)

    hosts = fleet.every_host
    # This thread only waits: a signal that ends it while it starts threads can leave them locked.
    with ThreadPoolExecutor(HOSTS_AT_ONCE + 1) as threads, command.ending_together(over, at_work):
        answers = threads.submit(lambda: list(threads.map(each, hosts))).result()
    told = [(host.name, *answer) for host, answer in zip(hosts, answers, strict=True)]
    return (
        {name: done for name, done, _ in told if done},
        {name: why for name, done, why in told if not done},
    )


def _wheels(directory: Path) -> list[Path]:
    found = sorted(one for one in directory.glob("*.whl") if one.is_file())
    for name, start in ((f"ssdbench {__version__}", f"ssdbench-{__version__}-"), ("pip", "pip-")):
        if not any(one.name.startswith(start) for one in found):
            raise UsageError(
                f"{directory} has no wheel of {name}",
                hint="Put the wheel of ssdbench there, and fetch what it needs: python3 -m pip "
                f"download -d {shlex.quote(str(directory))} pip {shlex.quote(str(directory))}"
                f"/ssdbench-{__version__}-*.whl",
            )
    return found


def _on_host(host: Host, reach: Transport, wheels: list[Path], prefix: str) -> tuple[str, str]:
    """Install on one host; return the action, and the reason for a failure ("" if none)."""
    home, link = f"{prefix}/lib/ssdbench/{__version__}", f"{prefix}/bin/ssdbench"
    named = {"home": home, "link": link, "prefix": prefix, "version": __version__}
    head = "".join(f"{name}={shlex.quote(value)}\n" for name, value in named.items())
    looked = reach.call(host.ssh, head + _LOOK)
    lines = looked.stdout.decode("utf-8", "replace").splitlines()
    python = lines[0].split() if lines else []
    if looked.status or len(python) != 3 or not python[1].isdecimal():
        return "", _why(looked, "it has no python3")
    if python[0] != "3" or int(python[1]) < OLDEST_MINOR:
        return (
            "",
            f"it has Python {plain('.'.join(python[:2]), 20)}; ssdbench needs 3.{OLDEST_MINOR}",
        )
    if lines[1:] == [f"ssdbench, version {__version__}", f"{home}/bin/ssdbench"]:
        return THERE, ""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for wheel in wheels:
            if fits(wheel.stem, int(python[1]), python[2]):
                # The file on the host has owner root and mode 0644, whatever it has here; links are
                # followed.
                entry = tarfile.TarInfo(wheel.name)
                entry.size = wheel.stat().st_size
                with wheel.open("rb") as data:
                    archive.addfile(entry, data)
    done = reach.call(host.ssh, head + _INSTALL, given=packed.getvalue(), idle_s=0.0)
    if done.status:
        return "", _why(done, "the installation failed")
    lacks = plain(done.stdout.decode("utf-8", "replace").strip(), 200)
    return f"{INSTALLED}; {lacks}" if lacks else INSTALLED, ""


def _why(said: ScriptResult, otherwise: str) -> str:
    return plain(telling(said.stderr), 400) if said.stderr.strip() else otherwise


def fits(stem: str, minor: int, machine: str) -> bool:
    """Return whether a wheel's name suits Python 3.`minor` on a processor (PEP 425, PEP 600)."""
    python, abi, platform = ["", "", *stem.split("-")][-3:]
    return (
        abi in ("none", "abi3", f"cp3{minor}")
        and any(
            tag in ("py3", f"py3{minor}", f"cp3{minor}")
            or (abi == "abi3" and tag[3:].isdecimal() and int(tag[3:]) <= minor)
            for tag in python.split(".")
        )
        and any(
            tag == "any" or ("linux" in tag and "musl" not in tag and tag.endswith(f"_{machine}"))
            for tag in platform.split(".")
        )
    )
