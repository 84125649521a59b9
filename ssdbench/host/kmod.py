"""Find, build, load and unload the bundled kernel modules."""

import hashlib
import logging
import os
import platform
import re
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ssdbench.errors import CommandFailed, HostLacks, UsageError, telling
from ssdbench.host import command
from ssdbench.host.files import kept_at
from ssdbench.host.kernel_source import by_number_alone, compared, release_of
from ssdbench.host.lock import waiting
from ssdbench.host.sysfs import Sysfs

# Modules in the order in which they must be loaded: tmerge uses a symbol of flash.
MODULES = ("ssdb_flash", "ssdb_tmerge", "ssdb_bpref", "ssdb_slam")
DEFAULT_DIRECTORY = "/var/lib/ssdbench/kmod"
DKMS = "dkms.conf"
NEEDS = ("configfs",)  # modules of Linux that our modules need
NEEDS_OF_OURS = {"ssdb_tmerge": ("ssdb_flash",)}
SCHEDULERS = "ssdb_bpref"  # needs the kernel's source to be built
TESTED_ON = "6.1, 6.12 and 7.x"
_NOT_ROOT = "Run as root."
_IN_ROOT = """set -e
root=$1; shift
while [ "$1" != -- ]; do mkdir -p "$root$1"; mount --bind "$1" "$root$1"; shift; done
shift
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
exec chroot "$root" "$@"
"""
# Lines in a build's output that name the fault; make prints further "Error" lines, one per
# directory.
_WRONG = re.compile(r"error|\*\*\*|not found|No such file", re.IGNORECASE)
_OF_MAKE = re.compile(r"\*\*\* \[.*\] Error \d+$")
_log = logging.getLogger(__name__)


def directory() -> Path:
    """Return the directory in which modules are built, with a subdirectory for each kernel release.

    Raises UsageError.
    """
    return kept_at("SSDBENCH_KMOD_DIR", DEFAULT_DIRECTORY)


def directory_of(release: str) -> Path:
    """Return the directory of the modules for one release. Raises UsageError."""
    if not release or release in (".", "..") or "/" in release:
        raise UsageError(
            f"{release!r} is not a kernel release",
            hint="A release is what `uname -r` says; a directory of headers goes to --headers.",
        )
    return directory() / release


def built_directory() -> Path:
    """Return the directory of the modules for the running kernel."""
    return directory() / platform.release()


@dataclass(frozen=True, slots=True)
class ModuleState:
    """The state of one of our modules on this host: built, loaded, in use."""

    name: str
    built: Path | None
    loaded: bool
    users: int | None  # None on a kernel that cannot unload modules


def source_directory() -> Path:
    """Return the directory of the modules' sources, in the clone or wheel. Raises HostLacks."""
    for candidate in (Path(__file__).parents[2] / "kmod", Path(__file__).parents[1] / "kmod"):
        if (candidate / "Kbuild").is_file():
            return candidate
    raise HostLacks(
        "the sources of the kernel modules are not installed",
        hint="work in a clone of the repository, or install a wheel that carries them",
    )


def sources(source: Path) -> list[Path]:
    """List the source files that a build needs, without tests and the output of earlier builds."""
    return [
        path
        for path in sorted(source.rglob("*"))
        if (path.suffix in (".c", ".h", ".mk") or path.name in ("Kbuild", "Makefile", DKMS))
        and not {"tests", "build"} & set(path.relative_to(source).parts)
        and not path.name.endswith(".mod.c")
    ]


def source_digest(source: Path) -> str:
    """Return a digest of all sources of the modules."""
    digest = hashlib.sha256()
    for path in sources(source):
        digest.update(str(path.relative_to(source)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Built:
    """The modules that a build made, and the reason why each other module was not built."""

    files: tuple[Path, ...]
    lacking: dict[str, str]


def build(
    source: Path,
    into: Path,
    *,
    headers: Path,
    block_source: Path | None,
    release: str = "",
    root: Path | None = None,
    places: Sequence[Path] = (),
    options: Sequence[str] = (),
) -> Built:
    """Copy the sources and build every module that can be built.

    Without `block_source` (the root of the kernel's source) the schedulers are left out, because
    they need its private headers. With `root`, the build uses the compiler and libraries in this
    directory tree. The tree contains `headers`, and the directories `places` are made visible in it
    at their own paths. This needs root's rights. `release` names the package to suggest when
    headers are missing, `options` go to make. Raises HostLacks with the compiler's first error when
    no module can be built. Then the modules of the last build remain.
    """
    _check_sources(headers, block_source, release)
    with ExitStack() as stack:
        try:
            into.parent.mkdir(parents=True, exist_ok=True)
            other = into.with_name("build.lock")
            stack.enter_context(waiting(other, lambda: _log.info("waiting for another build")))
            work = stack.enter_context(_taking_the_place_of(into))
            copy_sources(source, work)
        except OSError as error:
            raise HostLacks(
                f"{error.filename or into} cannot be written: {error.strerror}",
                hint="Run as root, or set SSDBENCH_KMOD_DIR to a directory of your own.",
            ) from error
        lacking: dict[str, str] = {}
        if block_source is None:
            lacking[SCHEDULERS] = "it needs the kernel's own source (`--block-source DIR`)"
        elif reason := compared(work, headers, block_source):
            lacking[SCHEDULERS] = reason
        wanted = [name for name in MODULES if name not in lacking]
        seen_at = headers if root is None else Path("/") / headers.relative_to(root)
        arguments = [f"KDIR={seen_at}", f"KSRC={block_source or ''}", *options]
        seen = [str(path) for path in (work, *places)]
        first = _make(work, wanted, arguments, seen, root)
        if first:  # not all could be built: build one by one, and keep the good ones
            _log.info("not all modules can be built; trying each")
            for name in wanted:
                if said := _make(work, with_needs([name]), arguments, seen, root):
                    lacking[name] = said.replace(str(work), str(into))
        found = {path.stem: into / path.relative_to(work) for path in work.rglob("*.ko")}
        if not found:
            raise HostLacks(
                f"the kernel modules do not build against {headers}: {first}",
                hint=f"They are tested on Linux {TESTED_ON}; `ssdbench lab run` has such a kernel.",
            )
    return Built(tuple(found[name] for name in MODULES if name in found), lacking)


@contextmanager
def _taking_the_place_of(into: Path) -> Iterator[Path]:
    """Yield a new directory to fill; it replaces `into` when the block ends without an error.

    The old directory is removed last. If the replacement is interrupted, the old directory gets its
    name back.
    """
    work, before = (into.with_name(f".{into.name}.{which}") for which in ("new", "before"))
    shutil.rmtree(work, ignore_errors=True)  # left over from a killed build
    try:
        yield work
        if into.exists():
            shutil.rmtree(before, ignore_errors=True)
            into.rename(before)
        work.rename(into)
    finally:
        if before.exists() and not into.exists():
            before.rename(into)
        for directory in (work, before):
            shutil.rmtree(directory, ignore_errors=True)


def _check_sources(headers: Path, block_source: Path | None, release: str) -> None:
    # A Makefile from somewhere else would be executed; and if it is our own Makefile, it would call
    # itself without end.
    if not (headers / "Makefile").exists() or release_of(headers) is None:
        raise HostLacks(f"there are no kernel headers at {headers}", hint=_headers_hint(release))
    if block_source is not None and not (block_source / "block" / "elevator.h").exists():
        raise HostLacks(
            f"there is no kernel source at {block_source}: it has no block/elevator.h",
            hint="Unpack the kernel's own source, for example /usr/src/linux-source-6.1.tar.xz of "
            "the package linux-source-6.1, and give the directory that holds block/.",
        )


def _make(
    into: Path,
    names: Sequence[str],
    arguments: Sequence[str],
    places: Sequence[str],
    root: Path | None,
) -> str:
    """Build some modules; return the compiler's first error, or an empty text."""
    directories = " ".join(name.removeprefix("ssdb_") for name in names)
    argv = ["make", "-s", f"-j{os.cpu_count()}", "-C", str(into), f"SSDB={directories}"]
    argv += [*arguments, "modules"]
    if root is not None:
        inside = ["sh", "-c", _IN_ROOT, "sh", str(root), *places, "--", *argv]
        argv = ["unshare", "--mount", "--propagation", "private", *inside]
    _log.info("building %s", ", ".join(names))
    try:
        command.run(argv, timeout_s=1800)
    except CommandFailed as failed:
        said = [line for line in failed.stderr.splitlines() if not _OF_MAKE.search(line)]
        return next(
            filter(_WRONG.search, said), (said or ["make failed without a word"])[0]
        ).strip()
    return ""


def _headers_hint(release: str) -> str:
    """Return how to install the headers; name a package only if it has this kernel's headers."""
    for package, tool, options in (
        (f"linux-headers-{release}", "apt-get install", ("apt-cache", "show")),
        (f"kernel-devel-{release}", "dnf install", ("dnf", "-q", "list", "--available")),
    ):
        if not release or command.which(options[0]) is None:
            continue
        if command.run([*options, package], ok=range(256)).status == 0:
            return f"Install them: `{tool} {package}`."
        return (
            f"No package here has the headers of {release}: it is not a kernel of this "
            "distribution, or the package lists are old. Name the directory that the kernel was "
            "built in with --headers, or use `ssdbench lab run -- COMMAND`: its guest has modules."
        )
    return (
        "Name the directory that the kernel was built in, or the directory of its headers in "
        "/usr/src, with --headers."
    )


def dkms_trees(source: Path, into: Path, version: str) -> dict[str, Path]:
    """Make a source directory `ssdbench-MODULE-VERSION` per module for DKMS, in build order.

    The result is the directories by the names of the DKMS packages. Raises UsageError when a
    directory exists, HostLacks when it cannot be written.
    """
    names = {name: f"ssdbench-{name.removeprefix('ssdb_')}" for name in MODULES}
    trees = {package: into / f"{package}-{version}" for package in names.values()}
    for package, tree in trees.items():
        if tree.exists():
            raise UsageError(
                f"{tree} exists already",
                hint=f"Remove it first: `dkms remove {package}/{version} --all; rm -r {tree}`.",
            )
    try:
        for name, package in names.items():
            with _taking_the_place_of(trees[package]) as tree:
                copy_sources(source, tree)
                text = (tree / DKMS).read_text().replace("@VERSION@", version)
                (tree / DKMS).write_text(text.replace("@MODULE@", name.removeprefix("ssdb_")))
    except OSError as error:
        raise HostLacks(
            f"{into} cannot be written: {error.strerror}",
            hint="Run as root, or give another directory with --to.",
        ) from error
    return trees


def copy_sources(source: Path, into: Path) -> None:
    """Copy the source files that a build needs into a directory. Raises OSError."""
    for path in sources(source):
        copy = into / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())


def obstacles(sysfs: Sysfs) -> list[str]:
    """List every reason why this host would refuse to load an unsigned module."""
    reasons = []
    if not sysfs.exists("/proc/modules"):
        reasons.append("this kernel was built without loadable modules")
    if sysfs.find("/proc/sys/kernel/modules_disabled") == "1":
        reasons.append("loading modules is disabled until the next boot (modules_disabled)")
    lockdown = sysfs.find("/sys/kernel/security/lockdown") or ""
    if "[integrity]" in lockdown or "[confidentiality]" in lockdown:
        reasons.append(
            "the kernel is locked down, as with Secure Boot: sign the modules with a key that you "
            "enrolled with `mokutil --import`, or let DKMS sign them"
        )
    if sysfs.find("/sys/module/module/parameters/sig_enforce") == "Y":
        reasons.append("the kernel loads only signed modules (module.sig_enforce)")
    return reasons


def states(sysfs: Sysfs, built: Path) -> list[ModuleState]:
    """Return for each module whether it is built, loaded and in use."""
    lines = (line.split() for line in (sysfs.find("/proc/modules") or "").splitlines())
    loaded = {name: int(users) if users.isdigit() else None for name, _, users, *_ in lines}
    files = {path.stem: path for path in sorted(built.rglob("*.ko"))} if built.is_dir() else {}
    return [
        ModuleState(name, files.get(name), name in loaded, loaded.get(name, 0)) for name in MODULES
    ]


def built_for(module: Path) -> str | None:
    """Return the kernel release that a module file was built for, or None."""
    match = re.search(rb"vermagic=([^ \0]+)", module.read_bytes())
    return match.group(1).decode(errors="replace") if match else None


def require_of_kernel(name: str, root: Path) -> None:
    """Raise HostLacks unless the running kernel has its own module with this name."""
    directory = root / "lib" / "modules" / platform.release()
    wanted = name.replace("-", "_")
    for index in ("modules.dep", "modules.builtin"):
        try:
            text = (directory / index).read_text(errors="replace")
        except OSError:
            continue
        paths = (line.partition(":")[0] for line in text.splitlines())
        if wanted in {Path(p).name.partition(".")[0].replace("-", "_") for p in paths}:
            return
    raise HostLacks(
        f"the running kernel has no module {name}",
        hint=f"Name a bundled one ({', '.join(MODULES)}), or one of {directory}/modules.dep.",
    )


def load(state: ModuleState) -> None:
    """Load one kernel module. Raises HostLacks with the kernel's reason."""
    if state.built is None:
        raise unbuilt(state.name)
    for need in NEEDS:
        command.run(["modprobe", "-q", need], ok=(0, 1))
    try:
        command.run(["insmod", str(state.built)])
    except CommandFailed as failed:
        release, runs = built_for(state.built), platform.release()
        if release not in (None, runs):
            raise HostLacks(
                f"{state.name} was built for Linux {release}, but Linux {runs} is running",
                hint="Run `ssdbench kmod build`.",
            ) from failed
        raise HostLacks(
            f"{state.name} cannot be loaded: {telling(failed.stderr)}",
            hint=_NOT_ROOT
            if os.geteuid()
            else "`dmesg | tail` shows the kernel's reason. A module must be built for the running "
            "kernel (`ssdbench kmod build`).",
        ) from failed


def unbuilt(name: str = "") -> HostLacks:
    """Return the error for a module, or all modules, that were not built for the running kernel."""
    built = directory().glob("[!.]*/**/*.ko")
    others = sorted({path.relative_to(directory()).parts[0] for path in built})
    but = f"; there are modules for {', '.join(others)}" if others else ""
    what = f"{name} is not" if name else "no module is"
    option = " --block-source DIR" if name == SCHEDULERS else ""
    return HostLacks(
        f"{what} built for Linux {platform.release()}{but}",
        hint=f"Run `ssdbench kmod build{option}`.",
    )


def note(name: str, built: Path) -> str:
    """Return a warning for a user who loads a module from this directory; "" if none is needed."""
    if name == SCHEDULERS and by_number_alone(built):
        return (
            "only the version number shows that its source fits this kernel, which has no BTF; if "
            "its vendor changed the kernel's structures, the schedulers corrupt memory"
        )
    return ""


def with_needs(names: Collection[str]) -> list[str]:
    """Return the modules and those they need, in an order that can be loaded."""
    return list(dict.fromkeys(n for name in names for n in (*NEEDS_OF_OURS.get(name, ()), name)))


def users(sysfs: Sysfs, name: str) -> list[str]:
    """List, for each use of a module, the command that ends this use."""
    if name == SCHEDULERS:
        queues = (f"/sys/block/{kernel}/queue/scheduler" for kernel in sysfs.names("/sys/block"))
        return [f"`echo none > {q}`" for q in queues if "[bpref-" in (sysfs.find(q) or "")]
    group = f"/sys/kernel/config/{name}"
    needing = [other for other, needs in NEEDS_OF_OURS.items() if name in needs]
    return [
        *(f"`ssdbench kmod unload {o}`" for o in needing if sysfs.exists(f"/sys/module/{o}")),
        *(f"`rmdir {group}/{device}`" for device in sysfs.names(group)),
    ]


def require_unused(states: Sequence[ModuleState], sysfs: Sysfs) -> None:
    """Raise HostLacks, before any module is unloaded, if one of the modules is in use."""
    for state in states:
        others = sum(state.name in NEEDS_OF_OURS.get(other.name, ()) for other in states)
        if (state.users or 0) > others:
            raise HostLacks(
                f"{state.name} cannot be unloaded: it is in use",
                hint=_end_users(state.name, sysfs),
            )


def unload(state: ModuleState, sysfs: Sysfs) -> None:
    """Unload one kernel module. Raises HostLacks when something still uses it."""
    try:
        command.run(["rmmod", state.name])
    except CommandFailed as failed:
        raise HostLacks(
            f"{state.name} cannot be unloaded: {telling(failed.stderr)}",
            hint=_NOT_ROOT if os.geteuid() else _end_users(state.name, sysfs),
        ) from failed


def _end_users(name: str, sysfs: Sysfs) -> str:
    return "End what uses it first: " + (
        ", ".join(users(sysfs, name)) or "`lsmod` names the modules."
    )
