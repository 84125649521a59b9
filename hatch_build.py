"""Builds the compiled parts of the simulated drive into wheels and editable installs.

A wheel carries them for one platform and needs no compiler where it is installed. The environment
variables CC and _PYTHON_HOST_PLATFORM (as in CPython's own cross builds) build for another one.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from click.shell_completion import get_completion_class
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NATIVE = Path("ssdbench") / "sim" / "native"
BIN = Path("ssdbench") / "sim" / "bin"
VARIABLE = "_SSDBENCH_COMPLETE"
COMPLETIONS = {
    "bash": "share/bash-completion/completions/ssdbench",
    "zsh": "share/zsh/site-functions/_ssdbench",
    "fish": "share/fish/vendor_completions.d/ssdbench.fish",
}


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
            build_data["shared_data"].update(self.for_shells_and_man())

    def for_shells_and_man(self) -> dict[str, str]:
        """Completion scripts and the manual page, at the places where shells and man look.

        pandoc writes the manual page; a build without pandoc is complete but for that page.
        """
        self.made = tempfile.TemporaryDirectory()
        there = Path(self.made.name)
        wanted = {}
        for shell, place in COMPLETIONS.items():
            script = there / shell
            script.write_text(get_completion_class(shell)(None, {}, "ssdbench", VARIABLE).source())
            wanted[str(script)] = place
        if shutil.which("pandoc"):
            page = there / "ssdbench.1"
            sys.path.insert(0, str(Path(__file__).parent))
            from docs.siteparts import manual

            footer = f"footer=ssdbench {self.metadata.version}"
            subprocess.run(
                ["pandoc", "-s", "-f", "markdown-smart", "-t", "man", "-M", footer, "-o", page],
                input=manual.whole(), text=True, check=True,
            )  # fmt: skip
            wanted[str(page)] = "share/man/man1/ssdbench.1"
        return wanted

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Nothing is left behind."""
        if hasattr(self, "made"):
            self.made.cleanup()


def module_sources() -> dict[str, str]:
    """What `ssdbench kmod build` needs, without tests and what builds left behind."""
    root = Path(__file__).parent
    return {
        str(path): f"ssdbench/{path.relative_to(root).as_posix()}"
        for path in sorted((root / "kmod").rglob("*"))
        if (path.suffix in (".c", ".h", ".mk") or path.name in ("Kbuild", "Makefile", "dkms.conf"))
        and not {"tests", "build"} & set(path.relative_to(root).parts)
        and not path.name.endswith(".mod.c")
    }


def make() -> None:
    """Compile with make and a C compiler; stops with a sentence when they are missing."""
    root = Path(__file__).parent
    compiler = os.environ.get("CC", "cc")
    for program in ("make", compiler):
        if shutil.which(program) is None:
            raise SystemExit(
                f"ssdbench is built with make and a C compiler, but {program} is missing; "
                "on Debian or Ubuntu: apt-get install make gcc libc6-dev"
            )
    # Objects of another processor must not be taken for this one's.
    build = "build" if compiler == "cc" else f"build/{sysconfig.get_platform()}"
    done = subprocess.run(
        ["make", f"--directory={root / NATIVE}", f"CC={compiler}", f"BUILD={build}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"make failed in {NATIVE}:\n{done.stderr}")


def platform_tag() -> str:
    """Such as manylinux_2_34_x86_64: the oldest C library with all that was linked (PEP 600)."""
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    needed = [
        int(minor)
        for path in (Path(__file__).parent / BIN).iterdir()
        for minor in re.findall(rb"GLIBC_2\.(\d+)", path.read_bytes())
    ]
    if not needed:  # another C library: for this machine alone
        return platform
    return platform.replace("linux", f"manylinux_2_{max(needed)}")
