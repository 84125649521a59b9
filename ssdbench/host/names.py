"""Escape a name for each program that gets it, or refuse it; pure.

A name is a path, an address or a serial number: somebody else may have chosen its letters, and each
program gives some of them a meaning of its own. No name passes through a shell, so that only what
the program itself reads counts here.

Not in the table: dmsetup, which ssdbench never starts; the file nodes that wipefs, lsblk, mkfs and
the like get as one argument each, which are absolute paths; make and apt, for which
`host.files.kept_at` refuses names; ssh's remote command, which `shlex.join` writes for its shell.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ssdbench.errors import UsageError


class Reader(StrEnum):
    """A program, or the part of it, that reads a name."""

    QEMU = "QEMU"  # the value of an option such as -blockdev, -chardev, -device or -qmp
    VIRTIOFSD = "virtiofsd"  # the value of an option behind -o
    FIO = "fio"  # a value in a job file
    FIO_FILE = "fio's list of files"  # filename and read_iolog
    MOUNT = "mount"  # what is mounted, and where
    SSH = "ssh"  # whom it is to reach
    DASK = "dask"  # the address of a scheduler
    SYSTEMD = "systemd-run"  # a word of the command of a unit


@dataclass(frozen=True, slots=True)
class Spelling:
    """What a program makes of letters: those to escape, and those for which there is no way."""

    escaped: Mapping[str, str] = field(default_factory=dict)
    refused: str = r"(?!)"  # a pattern; this one matches nothing
    source: str = ""


# fio cuts a line of a job file at ; and # (parse.c, strip_blank_end), and puts the environment and
# numbers of the host in place of $ (options.c, fio_option_dup_subs, and bc_calc, which even has a
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
    """A name as a program reads it back. Raises UsageError for one that it cannot be given."""
    spelling = SPELLINGS[reader]
    if found := re.search(spelling.refused, name):
        where = f", for the {found.group()!r} in it" if found.group() else ""
        raise UsageError(
            f"{reader} cannot be given the name {name!r}{where}",
            hint="Use a name without it, for example by a link or another directory.",
        )
    return "".join(spelling.escaped.get(letter, letter) for letter in name)


def behind_env(argv: Sequence[str]) -> list[str]:
    """A command line as `env NAME=VALUE …` starts it, which takes `a=b/program` for a variable."""
    return ["sh", "-c", 'exec "$0" "$@"', *argv] if "=" in argv[0] else list(argv)
