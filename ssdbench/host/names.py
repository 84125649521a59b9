"""Escape a name for the program that reads it, or refuse the name; no I/O.

A name is a path, an address or a serial number. Another user may have chosen a name with characters
that have a special meaning to a program. No shell reads these names, so only the rules of the
program itself matter.

This list has no entry for these programs: dmsetup, which ssdbench never starts; wipefs, lsblk, mkfs
and others, which get absolute paths of nodes as single arguments; make and apt, for which
`host.files.kept_at` refuses names; ssh's remote command, which `shlex.join` writes for its shell.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ssdbench.errors import UsageError


class Reader(StrEnum):
    """The programs and options that read a name; each has its own rules."""

    QEMU = "QEMU"  # the value of an option such as -blockdev, -chardev, -device or -qmp
    VIRTIOFSD = "virtiofsd"  # the value of an option behind -o
    FIO = "fio"  # a value in a job file
    FIO_FILE = "fio's list of files"  # the options filename and read_iolog
    MOUNT = "mount"  # source and place of a mount
    SSH = "ssh"  # the host to reach
    DASK = "dask"  # the address of a scheduler
    SYSTEMD = "systemd-run"  # one word of the command that a unit runs


@dataclass(frozen=True, slots=True)
class Spelling:
    """The characters that must be escaped for a program, and those that it cannot be given."""

    escaped: Mapping[str, str] = field(default_factory=dict)
    refused: str = r"(?!)"  # a pattern of characters; this one matches nothing
    source: str = ""


# fio cuts a line of a job file at ; and # (parse.c, strip_blank_end), and replaces $ by environment
# variables and numbers of the host (options.c, fio_option_dup_subs, and bc_calc, which even lets a
# shell run `echo '…' | bc` with the value). Seen with fio 3.33.
_NO_VALUE_OF_FIO = r"[\0\r\n;#]|\$(?:\{|pagesize|mb_memory|ncpus)|^\s|\s$"

SPELLINGS: Mapping[Reader, Spelling] = {
    Reader.QEMU: Spelling(
        {",": ",,"}, r"\0", "QEMU: util/qemu-option.c (get_opt_value), util/keyval.c: a comma ends"
    ),
    Reader.VIRTIOFSD: Spelling(
        {"\\": "\\\\", ",": "\\,"}, r"\0", "libfuse: fuse_opt.c (process_real_option_group)"
    ),
    Reader.FIO: Spelling({}, _NO_VALUE_OF_FIO, "fio: parse.c, options.c"),
    Reader.FIO_FILE: Spelling(
        {":": "\\:"}, _NO_VALUE_OF_FIO, "fio: options.c (get_next_str): a colon ends a name"
    ),
    Reader.MOUNT: Spelling(
        {}, r"\0|\s|^-|^[A-Z]+=", "mount(8): options, and tags such as LABEL= and UUID="
    ),
    Reader.SSH: Spelling(
        {}, r"[^\w.:@%\[\]-]|^-", "ssh_config(5): %h of a ProxyCommand passes through a shell"
    ),
    Reader.DASK: Spelling({}, r"[^\w.:/\[\]-]|^-", "distributed: comm/addressing.py"),
    Reader.SYSTEMD: Spelling({"$": "$$"}, r"\0", "systemd.service(5): $ is a variable"),
}


def written(reader: Reader, name: str) -> str:
    """Return a name with its reader's escapes. Raises UsageError if a character has no escape."""
    spelling = SPELLINGS[reader]
    if found := re.search(spelling.refused, name):
        where = f", for the {found.group()!r} in it" if found.group() else ""
        raise UsageError(
            f"{reader} cannot be given the name {name!r}{where}",
            hint="Use a name without it, for example through a link or in another directory.",
        )
    return "".join(spelling.escaped.get(letter, letter) for letter in name)


def behind_env(argv: Sequence[str]) -> list[str]:
    """Return a command for env(1), which would read a program `a=b/program` as a variable."""
    return ["sh", "-c", 'exec "$0" "$@"', *argv] if "=" in argv[0] else list(argv)
