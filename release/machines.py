"""Fresh machines: minimal root file systems in which a new user's commands are tried.

`python -m release.machines [--suite bookworm trixie forky noble] [--user root sudo plain]
[--try demo test wheel deb] [--sessions lint types tests]` makes each root file system once with
mmdebstrap (kept below /var/cache/ssdbench/machines), unpacks it for each trial, clones this
repository's HEAD into it, and prints a table with exit codes and CPU seconds. It needs root. The
trials share this host's kernel and devices; what needs another kernel is tried in the lab's guests.
"""

import argparse
import contextlib
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
CACHE = Path("/var/cache/ssdbench/machines")
SUITES = {
    "bookworm": "Debian 12",
    "trixie": "Debian 13",
    "forky": "Debian testing",
    "noble": "Ubuntu 24.04",
}
USERS = {
    "root": "root",
    "sudo": "a user with sudo",
    "plain": "a user without sudo",
}
TRIALS = ("demo", "test", "wheel", "deb")
# What a root file system holds: to try a new user's commands, or to make a .deb without network.
INCLUDED = {
    "fresh": "ca-certificates,git,sudo,adduser",
    "package": "python3,python3-pip,fio,util-linux,mount,procps,libnbd0,kmod",
}
KEYRING = "usr/share/keyrings/ubuntu-archive-keyring.gpg"
# How this host reaches package registries is its own affair; the machines inherit it.
INHERITED = (
    "PIP_",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
)
IN_ROOT = r"""
set -e
mount -t proc proc "$1/proc"
mount --rbind /sys "$1/sys"
mount --rbind /dev "$1/dev"
mount -o remount,bind,ro "$1/dev" # the nodes are this host's: none may be replaced or removed
mount -t tmpfs tmpfs "$1/tmp"
mount -t tmpfs tmpfs "$1/run"
chmod 1777 "$1/tmp"
exec chroot "$@"
"""
APT = "apt-get update -q && apt-get install -q -y --no-install-recommends"
# Each package is used, then removed, and nothing of it may be left but what the user made.
PACKAGES = rf"""
set -e
({APT} /srv/ssdbench_*.deb) >/dev/null
ssdbench run demo
apt-get install -q -y --no-install-recommends \
    linux-headers-$(dpkg --print-architecture) /srv/ssdbench-dkms_*.deb
dkms status
find /lib/modules -name "ssdb_*.ko*" | grep .
apt-get purge -q -y ssdbench ssdbench-dkms
find / -xdev \( -path /srv -o -path "$HOME" \) -prune -o -iname "*ssdb*" -print >/tmp/left
if [ -s /tmp/left ]; then cat /tmp/left; echo "the packages left files behind"; exit 1; fi
echo "both packages were installed, used and removed; no file is left"
"""


@dataclass(frozen=True)
class Row:
    """One trial and how it ended; `cpu_s` counts all its processes."""

    machine: str
    user: str
    trial: str
    exit_code: int
    cpu_s: float
    wall_s: float
    last_line: str


def root_archive(suite: str, kind: str = "fresh") -> Path | None:
    """The root file system of a suite as a tar file; None if its packages cannot be reached."""
    archive = CACHE / f"{suite}-{kind}.tar"
    if archive.exists():
        return archive
    CACHE.mkdir(parents=True, exist_ok=True)
    fresh = archive.with_suffix(".new.tar")
    words = ["mmdebstrap", "--variant=apt", f"--include={INCLUDED[kind]}"]
    if suite == "noble":
        words += ["--components=main,universe", f"--keyring={ubuntu_keyring()}"]
    made = subprocess.run([*words, suite, str(fresh)], capture_output=True, text=True, check=False)
    if made.returncode:
        reasons = [line for line in made.stderr.splitlines() if line.startswith("E:")]
        first = reasons[0] if reasons else "no reason given"  # what follows comes of it
        print(f"{SUITES.get(suite, suite)}: not reached here ({first})", file=sys.stderr)
        fresh.unlink(missing_ok=True)
        return None
    return fresh.rename(archive)


def ubuntu_keyring() -> Path:
    """The keys of Ubuntu's archive: this machine's, or those in the package of Debian 13."""
    for place in (Path("/") / KEYRING, CACHE / KEYRING):
        if place.exists():
            return place
    words = ["mmdebstrap", "--variant=extract", "--include=ubuntu-keyring", "trixie"]
    subprocess.run([*words, CACHE / "keys.tar"], check=True, capture_output=True)
    subprocess.run(["tar", "-xf", "keys.tar", f"./{KEYRING}"], cwd=CACHE, check=True)
    (CACHE / "keys.tar").unlink()
    return CACHE / KEYRING


@contextlib.contextmanager
def unpacked(archive: Path) -> Iterator[Path]:
    """A machine of one's own, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="machine-", dir=CACHE) as place:
        root = Path(place) / "root"
        root.mkdir()
        subprocess.run(["tar", "-xf", archive, "-C", root], check=True)
        bundle = Path("/etc/ssl/certs/ca-certificates.crt")  # as this host trusts registries
        if bundle.exists():
            shutil.copy(bundle, root / "etc/ssl/certs/ca-certificates.crt")
        for name in ("resolv.conf", "hosts"):
            shutil.copy(Path("/etc") / name, root / "etc" / name)
        yield root


def inside(root: Path, user: str, script: str, log: Path, *, offline: bool = False) -> int:
    """Run a shell script as `user` in the machine; its exit code. Output goes to `log`."""
    name = "root" if user == "root" else "tester"
    home = "/root" if user == "root" else "/home/tester"
    env = {
        "HOME": home, "USER": name, "LANG": "C.UTF-8", "TERM": "dumb",
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        **{k: v for k, v in os.environ.items() if k.startswith(INHERITED)},
    }  # fmt: skip
    env.pop("PIP_FIND_LINKS", None)  # a directory of this host
    words = [
        "unshare", "--mount", "--pid", "--fork", "--kill-child", *(["--net"] if offline else []),
        "sh", "-c", IN_ROOT, "sh",
        str(root), "setpriv", f"--reuid={name}", f"--regid={name}", "--init-groups",
        "sh", "-c", f"cd {home} && {script}",
    ]  # fmt: skip
    with log.open("ab") as out:
        return subprocess.run(
            words, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=False
        ).returncode


def prepare(root: Path, user: str, log: Path) -> None:
    """The user's account, and a clone of this repository in its home."""
    if user != "root":
        inside(root, "root", "adduser --disabled-password --gecos '' tester", log)
        if user == "sudo":
            rights = root / "etc/sudoers.d/tester"
            rights.write_text("tester ALL=(ALL) NOPASSWD: ALL\n")
            rights.chmod(0o440)
    home = root / ("root" if user == "root" else "home/tester")
    subprocess.run(["git", "clone", "-q", "--no-local", ROOT, home / "ssdbench"], check=True)
    if user != "root":
        inside(root, "root", "chown -R tester:tester /home/tester/ssdbench", log)


def script(trial: str, sessions: list[str], products: Path | None, root: Path) -> str:
    """What a new user types."""
    if trial == "demo":
        return "./ssdbench/bootstrap demo"
    if trial == "test":  # root's tiers need devices that every machine here shares
        return f"./ssdbench/bootstrap test {' '.join(sessions)}"
    assert products is not None
    for path in products.iterdir():
        shutil.copy(path, root / "srv" / path.name)
    if trial == "wheel":
        return (
            "python3 -m venv env && "
            "env/bin/pip install -q /srv/*manylinux*x86_64.whl && env/bin/ssdbench run demo"
        )
    return PACKAGES


def tried(
    machine: str, archive: Path, user: str, trial: str, sessions: list[str], products: Path | None
) -> Row:
    """Run one trial on a machine of its own."""
    log = CACHE / f"{archive.stem}-{user}-{trial}.log"
    log.unlink(missing_ok=True)
    with unpacked(archive) as root:
        prepare(root, user, log)
        if trial == "wheel":  # what the README asks for beside Python packages
            inside(root, "root", f"{APT} fio python3-venv libnbd0 >/dev/null", log)
        before, since = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        code = inside(root, user, script(trial, sessions, products, root), log)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    lines = log.read_text(errors="replace").strip().splitlines() or [""]
    wall_s = time.monotonic() - since
    return Row(machine, USERS[user], trial, code, cpu_s, wall_s, lines[-1][:100])


def main() -> None:
    """Try, and print a table; exit 1 if something that should work did not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", nargs="+", default=list(SUITES))
    parser.add_argument("--user", nargs="+", default=list(USERS), choices=USERS)
    parser.add_argument("--try", dest="trials", nargs="+", default=["demo", "test"], choices=TRIALS)
    parser.add_argument("--sessions", nargs="+", default=["lint", "types", "tests"])
    parser.add_argument("--products", type=Path, help="wheel and .deb, as `nox -s dist` makes them")
    args = parser.parse_args()
    if {"wheel", "deb"} & set(args.trials) and args.products is None:
        parser.error("wheel and deb need --products, the directory that `nox -s dist` filled")
    wrong = 0
    print(
        "| machine | user | trial | exit | CPU s | s | last line |\n|---|---|---|---|---|---|---|"
    )
    for suite in args.suite:
        archive = root_archive(suite)
        if archive is None:
            continue
        for user in args.user:
            for trial in args.trials:
                if trial == "deb" and user != "root":
                    continue  # packages are root's to install
                machine = SUITES.get(suite, suite)
                row = tried(machine, archive, user, trial, args.sessions, args.products)
                # Without sudo nothing can be installed; that is said, with the command for root.
                wrong += row.exit_code != (
                    4 if user == "plain" and trial in ("demo", "test") else 0
                )
                print(
                    f"| {row.machine} | {row.user} | {row.trial} | {row.exit_code} | "
                    f"{row.cpu_s:.0f} | {row.wall_s:.0f} | {row.last_line} |",
                    flush=True,
                )
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
