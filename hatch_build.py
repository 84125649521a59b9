"""Builds the compiled parts of the simulated drive into wheels and editable installs.

A wheel carries them for one platform and needs no compiler where it is installed.
"""

import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NATIVE = Path("ssdbench") / "sim" / "native"
BIN = Path("ssdbench") / "sim" / "bin"


class NativeBuildHook(BuildHookInterface[Any]):
    """Runs make before files are collected, and tags the wheel with the platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build; `version` is "standard" or "editable"."""
        if self.target_name != "wheel":
            return
        make()
        build_data["pure_python"] = False
        build_data["infer_tag"] = False
        build_data["tag"] = f"py3-none-{platform_tag()}"
        build_data["artifacts"].append(f"/{BIN.as_posix()}/*")
        if version == "standard":
            build_data["force_include"].update(module_sources())


def module_sources() -> dict[str, str]:
    """What `ssdbench kmod build` needs, without tests and what builds left behind."""
    root = Path(__file__).parent
    return {
        str(path): f"ssdbench/{path.relative_to(root).as_posix()}"
        for path in sorted((root / "kmod").rglob("*"))
        if (path.suffix in (".c", ".h") or path.name in ("Kbuild", "Makefile", "dkms.conf"))
        and not {"tests", "build"} & set(path.relative_to(root).parts)
        and not path.name.endswith(".mod.c")
    }


def make() -> None:
    """Compile with make and cc; stops the build with a sentence when they are missing."""
    root = Path(__file__).parent
    for program in ("make", "cc"):
        if shutil.which(program) is None:
            raise SystemExit(
                f"ssdbench is built with make and a C compiler, but {program} is missing; "
                "on Debian or Ubuntu: apt-get install make gcc libc6-dev"
            )
    done = subprocess.run(
        ["make", f"--directory={root / NATIVE}"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"make failed in {NATIVE}:\n{done.stderr}")


def platform_tag() -> str:
    """Such as linux_x86_64: built for this machine's C library, and tested on no other."""
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")
