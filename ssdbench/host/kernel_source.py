"""Whether a scheduler built against a kernel's source fits the kernel of some headers."""

import platform
import re
from collections.abc import Mapping
from pathlib import Path

from ssdbench.host import command
from ssdbench.host.btf import Layout, layouts

PRIVATE = (  # the block layer's own structures that a scheduler shares with it
    "elevator_mq_ops", "elevator_type", "elevator_queue", "elv_fs_entry", "blk_mq_alloc_data",
    "blk_mq_ctx", "blk_mq_tags",
)  # fmt: skip
LAYOUT = Path("bpref/layout.c")
RUNNING = Path("/sys/kernel/btf/vmlinux")  # the BTF of the kernel that runs


def compared(into: Path, headers: Path, block_source: Path) -> str:
    """Why a scheduler built against this source must not be loaded into the headers' kernel.

    A source of another patch level may have other structures, and so may that of a vendor's kernel
    of the same one. They are compared with those of the kernel, in the build, where its headers or
    the running kernel itself tell of them (BTF); elsewhere the same version is taken for the same.
    """
    ours, theirs = version_of(block_source), header_version(headers)
    btf = _btf_of(headers, into)
    found = {} if btf is None else layouts(btf, PRIVATE)
    if len(found) < len(PRIVATE):
        if ours is not None and ours == theirs:
            return ""
        return (
            f"{block_source} is the source of Linux {ours or '(unknown)'}, the headers are of "
            f"{theirs or '(unknown)'}, and no BTF tells whether their structures are the same; "
            "take the source of the same version"
        )
    (into / LAYOUT).write_text(layout_check(found))
    return ""


def by_number_alone(built: Path) -> bool:
    """Whether no structures were compared for the schedulers that were built in a directory."""
    return not (built / LAYOUT).exists()


def version_of(source: Path) -> str | None:
    """The version that a kernel's source says of itself ("6.1.176"), or None."""
    try:
        text = (source / "Makefile").read_text(errors="replace")
    except OSError:
        return None
    fields = dict(re.findall(r"^(VERSION|PATCHLEVEL|SUBLEVEL) = *(\d+)$", text, flags=re.MULTILINE))
    return ".".join(fields.values()) if len(fields) == 3 else None


def header_version(headers: Path) -> str | None:
    """The version that headers are of, or None; a distribution's release does not tell it."""
    try:
        text = (headers / "include/generated/uapi/linux/version.h").read_text(errors="replace")
    except OSError:
        return None
    fields = re.findall(r"LINUX_VERSION_(?:MAJOR|PATCHLEVEL|SUBLEVEL) (\d+)", text)
    return ".".join(fields) if len(fields) == 3 else None


def release_of(headers: Path) -> str | None:
    """The release of the kernel that headers are of, as `uname -r` says it there, or None."""
    try:
        text = (headers / "include/generated/utsrelease.h").read_text(errors="replace")
    except OSError:
        return None
    found = re.search(r'UTS_RELEASE "(.+)"', text)
    return found.group(1) if found else None


def layout_check(kernel: Mapping[str, Layout]) -> str:
    """C that compiles only where the block layer's private structures lie as the kernel's do."""
    lines = ["// SPDX-License-Identifier: GPL-2.0-only", '#include "bpref.h"', ""]
    for name, layout in kernel.items():
        differs = f'"this source has another struct {name} than the kernel"'
        lines.append(f"static_assert(sizeof(struct {name}) == {layout.bytes}, {differs});")
        lines += [
            f"static_assert(offsetof(struct {name}, {member}) == {at}, {differs});"
            for member, at in layout.members.items()
        ]
    return "\n".join(lines) + "\n"


def _btf_of(headers: Path, into: Path) -> bytes | None:
    """The BTF of the kernel that headers are of: it runs, or they have its `vmlinux`."""
    if release_of(headers) == platform.release() and RUNNING.exists():
        return RUNNING.read_bytes()
    vmlinux, section = headers / "vmlinux", into / "btf"
    if not vmlinux.exists() or command.which("objcopy") is None:
        return None
    command.run(["objcopy", "-O", "binary", "-j", ".BTF", str(vmlinux), str(section)], ok=(0, 1))
    return section.read_bytes() if section.exists() and section.stat().st_size else None
