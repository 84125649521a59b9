"""The bundled kernel modules for one kernel: built once per source text, loaded by a script."""

import hashlib
import shlex
from collections.abc import Sequence
from pathlib import Path

from ssdbench.errors import CommandFailed, HostLacks
from ssdbench.host import command, files
from ssdbench.lab.kernels import Kernel

NEEDS = ("configfs",)  # modules of the distribution that ours need


def source_directory() -> Path:
    """The module sources: in the clone, or as the wheel carries them. Raises HostLacks."""
    for candidate in (
        Path(__file__).parents[2] / "kmod",
        Path(__file__).parents[1] / "kmod",
    ):
        if (candidate / "Kbuild").is_file():
            return candidate
    raise HostLacks("the sources of the kernel modules are not installed")


def source_digest(source: Path) -> str:
    """A digest of everything that the modules are built from."""
    digest = hashlib.sha256()
    for path in _sources(source):
        digest.update(str(path.relative_to(source)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _sources(source: Path) -> list[Path]:
    """What a build needs: no tests, and nothing that an earlier build left there."""
    return [
        path
        for path in sorted(source.rglob("*"))
        if (path.suffix in (".c", ".h") or path.name in ("Kbuild", "Makefile"))
        and not {"tests", "build"} & set(path.relative_to(source).parts)
    ]


def build(source: Path, into: Path, *, headers: Path, block_source: Path | None) -> list[Path]:
    """Copy the sources and build every module in them; returns the module files.

    Raises HostLacks with the compiler's first complaint.
    """
    if not (headers / "Makefile").exists():
        raise HostLacks(
            f"there are no kernel headers at {headers}",
            hint="install them, for example with `apt-get install linux-headers-$(uname -r)`",
        )
    command.run(["rm", "-rf", str(into)])
    for path in _sources(source):
        copy = into / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    source_option = [f"KSRC={block_source}"] if block_source else []
    try:
        command.run(
            ["make", "-s", "-C", str(into), f"KDIR={headers}", *source_option, "modules"],
            timeout_s=600,
        )
    except CommandFailed as failed:
        lines = [line for line in failed.stderr.splitlines() if "error" in line.lower()]
        raise HostLacks(
            f"the kernel modules do not build against {headers}: {(lines or ['?'])[0]}",
            hint="The whole output:\n" + failed.stderr[-4000:],
        ) from failed
    return sorted(into.rglob("*.ko"))


def built_modules(kernel: Kernel, cache: Path) -> list[Path]:
    """Our modules for a kernel of the lab, from the cache when their sources have not changed."""
    source = source_directory()
    into = cache / f"kmod-{kernel.release}-{source_digest(source)}"
    stamp = into / "complete"
    if not stamp.exists():
        build(source, into, headers=kernel.headers, block_source=kernel.block_source)
        files.write_atomic(stamp, "")
    return sorted(into.rglob("*.ko"))


def load_script(modules: Sequence[Path]) -> str:
    """Shell text that loads modules in the guest; a module that does not load ends the job."""
    lines = [f"modprobe {name} || exit 4" for name in NEEDS]
    lines += [f"insmod {shlex.quote(str(path))} || exit 4" for path in modules]
    return "\n".join(lines)
