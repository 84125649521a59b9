"""Define the application programs of Dunn (2009) and fio jobs that imitate them; no I/O.

Postmark (Katcher 1997) acts like a mail server with small files, dbench (Tridgell) like the clients
of a file server, sysbench's file test like the pages of a database, and its OLTP test runs a whole
database (Kopytov). Each program counts its own kind of operations. Each fio job has the mix of
operations of one program. Sources of the mixes: dbench's load file (client.txt: 76 % reads, a flush
for every seven writes), the defaults of sysbench and Postmark, and the statements of OLTP (14 of 18
are `select`).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ssdbench.generator.fio.jobfile import Options
from ssdbench.host.database import DATABASE, ROLE
from ssdbench.units import KIB, MIB

COMMANDS = "commands"  # name of the file with a program's commands
SERVER = "{server}"  # in arguments: the directory of the database's socket
TABLES = 4
ROW_BYTES = 256  # bytes per row in PostgreSQL, with its indexes


@dataclass(frozen=True, slots=True)
class Scale:
    """Hold how much work each application program gets: times, files, rows, threads."""

    threads: int
    window_s: int
    files: int  # of Postmark
    transactions: int  # of Postmark
    data_bytes: int  # of sysbench and the fio jobs
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Program:
    """Describe an application program: how to start it, how to read its output, its fio jobs."""

    name: str
    title: str
    package: str
    arguments: Callable[[Scale], tuple[str, ...]]
    figures: Callable[[str, Scale, float], Mapping[str, float]]  # from its output and our seconds
    equivalent: Callable[[Scale], tuple[Options, ...]]  # fio sections that run at the same time
    prepare: Callable[[Scale], tuple[str, ...]] = lambda scale: ()  # arguments of a first start
    commands: Callable[[Scale], str] = lambda scale: ""  # content of its file of commands
    is_timed: bool = True  # it ends by itself after the window
    executable: str = ""  # if not the same as `name`
    is_served: bool = False  # it needs a database server, which we start

    @property
    def program(self) -> str:
        """Return the name of the executable."""
        return self.executable or self.name


def number(text: str, pattern: str) -> float:
    """Find a number in a program's output. Raises ValueError if the output lacks the number."""
    match = re.search(pattern, text, re.MULTILINE)
    if match is None:
        raise ValueError(f"the output of the program has no {pattern!r}")
    return float(match[1])


def postmark_figures(text: str, scale: Scale, seconds: float) -> dict[str, float]:
    """Read Postmark's report; use our clock for rates, because Postmark reports whole seconds."""
    moved = number(text, r"^\s*([\d.]+) \w*bytes read")
    written = number(text, r"^\s*([\d.]+) \w*bytes written")
    size = {"bytes": 1, "kilobytes": KIB, "megabytes": MIB, "gigabytes": KIB * MIB}
    units = re.findall(r"^\s*[\d.]+ (\w*bytes) (?:read|written)", text, re.MULTILINE)
    total = moved * size[units[0]] + written * size[units[1]]
    return {"operations_per_s": scale.transactions / seconds, "bytes_per_s": total / seconds}


def dbench_figures(text: str, scale: Scale, seconds: float) -> dict[str, float]:
    """Read dbench's report: the table of operations, and its last line."""
    del seconds  # the table also covers warm-up and clean-up
    counts = re.findall(r"^ [A-Za-z]+ +(\d+) +[\d.]+ +[\d.]+$", text, re.MULTILINE)
    return {
        "operations_per_s": sum(map(int, counts)) / scale.window_s,
        "bytes_per_s": 1e6 * number(text, r"^Throughput ([\d.]+) MB/sec"),
        "longest_ms": number(text, r"max_latency=([\d.]+) ms"),
    }


def fileio_figures(text: str, scale: Scale, seconds: float) -> dict[str, float]:
    """Read sysbench's report of its file test; the operations do not include flushes."""
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
    """Read sysbench's report of its OLTP test; the report has no bytes."""
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
        "set location .",  # a relative path, because Postmark allows 80 characters
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


POSTMARK = Program(
    name="postmark",
    title="mail server",
    package="postmark",
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
    arguments=lambda scale: ("-D", ".", "-t", str(scale.window_s), str(scale.threads)),
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
    figures=oltp_figures,
    # Pages of 8 KiB go through the page cache. At the same time the log is flushed at each commit
    # by O_DSYNC (a write and an fdatasync in one). fio's own fdatasync is not used, because fio
    # 3.33 counts each one as a short read: its table of counts is too short by one.
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
