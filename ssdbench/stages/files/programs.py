"""Define the application programs of Dunn (2009) and their fio equivalents (pure).

Postmark (Katcher 1997) is a mail server's small files, dbench (Tridgell) a file server's clients,
sysbench's file test a database's pages, its OLTP a whole database (Kopytov). Each counts in its own
operations. The mixes of the equivalents are the programs' own: dbench's was counted in its load
file (client.txt: 76 % reads, a flush for every seven writes), sysbench's and Postmark's are their
defaults; OLTP's share of reads is that of its statements (14 of 18 select).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ssdbench.generator.fio.jobfile import Options
from ssdbench.host.database import DATABASE, ROLE
from ssdbench.units import KIB, MIB

COMMANDS = "commands"  # file that a program reads its orders from
SERVER = "{server}"  # in arguments: the directory of the database's socket
TABLES = 4
ROW_BYTES = 256  # per row of sysbench in PostgreSQL, with its indexes


@dataclass(frozen=True, slots=True)
class Scale:
    """Hold how much a program does."""

    threads: int
    window_s: int
    files: int  # that Postmark keeps
    transactions: int  # that Postmark makes
    data_bytes: int  # that sysbench and the equivalents work on
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Program:
    """Hold a program, how it is started, and its fio equivalent."""

    name: str
    title: str
    package: str
    prepare: Callable[[Scale], tuple[str, ...]]  # arguments before the start; none: nothing to do
    arguments: Callable[[Scale], tuple[str, ...]]
    commands: Callable[[Scale], str]  # given on a file, in the directory of its data
    figures: Callable[[str, Scale, float], Mapping[str, float]]  # from its output and our seconds
    equivalent: Callable[[Scale], tuple[Options, ...]]  # sections at the same time
    is_timed: bool = True  # ends after the window by itself
    executable: str = ""  # where it is not the name
    is_served: bool = False  # needs a database server, which we start; {server} in arguments

    @property
    def program(self) -> str:
        """Return what is started."""
        return self.executable or self.name


def number(text: str, pattern: str) -> float:
    """Parse a number from a program's output. Raises ValueError without it."""
    match = re.search(pattern, text, re.MULTILINE)
    if match is None:
        raise ValueError(f"no {pattern!r} in what the program said")
    return float(match[1])


def postmark_figures(text: str, scale: Scale, seconds: float) -> dict[str, float]:
    """Parse its report, which has whole seconds only, so our clock is used."""
    moved = number(text, r"^\s*([\d.]+) \w*bytes read")
    written = number(text, r"^\s*([\d.]+) \w*bytes written")
    size = {"bytes": 1, "kilobytes": KIB, "megabytes": MIB, "gigabytes": KIB * MIB}
    units = re.findall(r"^\s*[\d.]+ (\w*bytes) (?:read|written)", text, re.MULTILINE)
    total = moved * size[units[0]] + written * size[units[1]]
    return {"operations_per_s": scale.transactions / seconds, "bytes_per_s": total / seconds}


def dbench_figures(text: str, scale: Scale, seconds: float) -> dict[str, float]:
    """Parse operations from the table of counts, throughput and longest wait from the last line."""
    del seconds  # it warms up and cleans up besides
    counts = re.findall(r"^ [A-Za-z]+ +(\d+) +[\d.]+ +[\d.]+$", text, re.MULTILINE)
    return {
        "operations_per_s": sum(map(int, counts)) / scale.window_s,
        "bytes_per_s": 1e6 * number(text, r"^Throughput ([\d.]+) MB/sec"),
        "longest_ms": number(text, r"max_latency=([\d.]+) ms"),
    }


def fileio_figures(text: str, scale: Scale, seconds: float) -> dict[str, float]:
    """Parse reads and writes; its flushes are a separate figure."""
    del scale, seconds
    read, written = number(text, r"reads/s: +([\d.]+)"), number(text, r"writes/s: +([\d.]+)")
    moved = number(text, r"read, MiB/s: +([\d.]+)") + number(text, r"written, MiB/s: +([\d.]+)")
    return {
        "operations_per_s": read + written,
        "bytes_per_s": moved * MIB,
        "flushes_per_s": number(text, r"fsyncs/s: +([\d.]+)"),
        "latency_p95_ms": number(text, r"95th percentile: +([\d.]+)"),
    }


def oltp_figures(text: str, scale: Scale, seconds: float) -> dict[str, float]:
    """Parse transactions; the bytes come from the drive's counters."""
    del scale, seconds
    return {
        "operations_per_s": number(text, r"transactions: +\d+ +\(([\d.]+) per sec"),
        "queries_per_s": number(text, r"queries: +\d+ +\(([\d.]+) per sec"),
        "latency_p95_ms": number(text, r"95th percentile: +([\d.]+)"),
    }


def _oltp(scale: Scale, threads: int) -> tuple[str, ...]:
    rows = max(1000, scale.data_bytes // TABLES // ROW_BYTES)
    return (
        "oltp_read_write",
        "--db-driver=pgsql",
        f"--pgsql-host={SERVER}",
        f"--pgsql-user={ROLE}",
        f"--pgsql-db={DATABASE}",
        f"--tables={TABLES}",
        f"--table-size={rows}",
        f"--threads={threads}",
        f"--time={scale.window_s}",
        f"--rand-seed={scale.seed % 2**31 or 1}",
    )


def _postmark_commands(scale: Scale) -> str:
    orders = (
        "set location .",  # where it is started: it has room for 80 characters of a path only
        f"set number {scale.files}",
        f"set transactions {scale.transactions}",
        f"set seed {scale.seed % 2**31}",
        "run",
        "quit",
    )
    return "\n".join(orders) + "\n"


def _fileio(scale: Scale) -> tuple[str, ...]:
    size = max(MIB, scale.data_bytes // 16 // MIB * MIB)
    return (
        "fileio",
        "--file-num=16",
        f"--file-total-size={16 * size}",
        "--file-test-mode=rndrw",
        "--file-extra-flags=direct",
        f"--threads={scale.threads}",
        f"--time={scale.window_s}",
        f"--rand-seed={scale.seed % 2**31 or 1}",
    )


def _none(scale: Scale) -> tuple[str, ...]:
    del scale
    return ()


def _no_commands(scale: Scale) -> str:
    del scale
    return ""


POSTMARK = Program(
    name="postmark",
    title="mail server",
    package="postmark",
    prepare=_none,
    arguments=lambda scale: (COMMANDS,),
    commands=_postmark_commands,
    figures=postmark_figures,
    equivalent=lambda scale: (
        {
            "rw": "randrw",
            "rwmixread": 50,
            "bs": 512,
            "direct": 0,
            "filesize": "512-10000",
            "nrfiles": scale.files,
            "openfiles": 64,
            "file_service_type": "random",
        },
    ),
    is_timed=False,
)
DBENCH = Program(
    name="dbench",
    title="file server",
    package="dbench",
    prepare=_none,
    arguments=lambda scale: ("-D", ".", "-t", str(scale.window_s), str(scale.threads)),
    commands=_no_commands,
    figures=dbench_figures,
    equivalent=lambda scale: (
        {
            "rw": "randrw",
            "rwmixread": 76,
            "bssplit": "4k/86:60k/14,4k/68:64k/32",
            "direct": 0,
            "fsync": 7,
            "numjobs": scale.threads,
            "size": max(MIB, scale.data_bytes // scale.threads),
        },
    ),
)
SYSBENCH = Program(
    name="sysbench",
    title="pages of a database",
    package="sysbench",
    prepare=lambda scale: (*_fileio(scale), "prepare"),
    arguments=lambda scale: (*_fileio(scale), "run"),
    commands=_no_commands,
    figures=fileio_figures,
    equivalent=lambda scale: (
        {
            "rw": "randrw",
            "rwmixread": 60,
            "bs": 16 * KIB,
            "direct": 1,
            "fsync": 40,  # sysbench: after 100 requests, 40 of which are writes
            "numjobs": scale.threads,
            "size": max(MIB, scale.data_bytes // scale.threads),
        },
    ),
)
OLTP = Program(
    name="oltp",
    title="transactions of a database",
    package="sysbench",
    executable="sysbench",
    prepare=lambda scale: (*_oltp(scale, min(TABLES, scale.threads)), "prepare"),
    arguments=lambda scale: (*_oltp(scale, scale.threads), "run"),
    commands=_no_commands,
    figures=oltp_figures,
    # Pages of 8 KiB through the page cache, and beside them the log, flushed at each commit. By
    # O_DSYNC, which is a write and an fdatasync in one: fio 3.33 counts each of its own fdatasyncs
    # as a short read (its table of counts is too short by one), which is wrong.
    equivalent=lambda scale: (
        {
            "rw": "randrw",
            "rwmixread": 78,
            "bs": 8 * KIB,
            "direct": 0,
            "numjobs": scale.threads,
            "size": max(MIB, scale.data_bytes // scale.threads),
        },
        {
            "rw": "write",
            "bs": 8 * KIB,
            "direct": 0,
            "sync": "dsync",
            "size": max(MIB, scale.data_bytes // 4),
        },
    ),
    is_served=True,
)
PROGRAMS: Mapping[str, Program] = {p.name: p for p in (POSTMARK, DBENCH, SYSBENCH, OLTP)}
