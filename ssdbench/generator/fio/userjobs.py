"""Read fio jobs that a user wrote, and rewrite them for the simulated drive; no I/O.

Job files are read in the way of fio (`parse_jobs_ini` in its init.c): a line is an option, a
section or a comment. Blanks at both ends of a line are ignored, and all text of a line after ; or #
is a comment. On a command line, options before the first --name are global, and each --name begins
a new section.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ssdbench.errors import UsageError

GLOBAL = "global"
DEFAULT_ENGINE = "psync"

# fio's engines for block devices. A job with a synchronous engine has one request in flight.
SYNCHRONOUS = frozenset(["sync", "psync", "vsync", "pvsync", "pvsync2", "mmap", "splice", "sg"])
ASYNCHRONOUS = frozenset(["libaio", "io_uring", "io_uring_cmd", "posixaio", "nbd"])

ON_THE_DRIVE: Mapping[str, str] = {
    "ioengine": "nbd",
    "uri": "sim:",
    "thread": "1",  # a forked job is twenty times slower in virtual time
    "clocksource": "clock_gettime",
}

_NO_PRIORITY = "the simulated drive has no priorities"
_NO_POLLING = "a simulated drive has no polling"
_NO_ZONES = "the simulated drive has no zones"
_REAL_TIME = "the program would run in real time, in which the drive's clock stands still"
_CRASHES = "fio's nbd engine crashes with it"
_REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("prio", "prioclass", "prio_split"), _NO_PRIORITY),
    **dict.fromkeys(
        ("cmdprio", "cmdprio_class", "cmdprio_percentage", "cmdprio_bssplit"), _NO_PRIORITY
    ),
    **dict.fromkeys(
        ("hipri", "hipri_percentage", "sqthread_poll", "sqthread_poll_cpu"), _NO_POLLING
    ),
    **dict.fromkeys(
        ("read_beyond_wp", "max_open_zones", "job_max_open_zones", "zone_reset_threshold",
         "zone_reset_frequency", "ignore_zone_limits"),
        _NO_ZONES,
    ),
    **dict.fromkeys(("exec_prerun", "exec_postrun"), _REAL_TIME),
    "gtod_cpu": "its clock thread would show old times in virtual time",
    "read_iolog": "the log names files of its own",
    "profile": "it replaces the jobs by its own",
    "verify_async": "its threads need more stack than a job has in virtual time",
}  # fmt: skip
_REFUSED_VALUES: Mapping[tuple[str, str], str] = {
    ("zonemode", "zbd"): _NO_ZONES,
    ("io_submit_mode", "offload"): _CRASHES,
    ("create_serialize", "0"): _CRASHES,
}

# Options that say where files are and how fio makes them; left out, because the drive is the only
# file.
_PLACES = frozenset(
    ["filename", "directory", "filename_format", "unique_filename", "opendir", "nrfiles",
     "openfiles", "file_service_type", "lockfile", "fallocate", "fadvise_hint", "create_serialize",
     "create_fsync", "create_on_open", "create_only", "allow_file_create", "allow_mounted_write",
     "pre_read", "unlink", "unlink_each_loop", "invalidate", "overwrite", "file_append",
     "ioscheduler", "disk_util"]
)  # fmt: skip
_CACHED = {("direct", "0"), ("buffered", "1"), ("buffered", "")}
_PROMISED = frozenset({"sync", "atomic"})  # flags of open(2), which fio's nbd engine does not call

# Options of a job that need "=" before their value. Other options may have their value in the next
# argument.
_FLAGS = frozenset(
    ["bs_unaligned", "blocksize_unaligned", "exitall", "exitall_on_error", "group_reporting",
     "new_group", "norandommap", "refill_buffers", "stonewall", "wait_for_previous", "thread",
     "time_based", "verify_only", "zero_buffers", "hipri", "fixedbufs", "registerfiles",
     "sqthread_poll", "nonvectored", "userspace_reap"]
)  # fmt: skip

# Options of fio itself. Those with a value may have the value in the next argument.
_GENERAL_WITH_VALUE = frozenset(
    ["output", "output-format", "terse-version", "append-terse", "bandwidth-log", "latency-log",
     "eta", "eta-newline", "eta-interval", "status-interval", "section", "alloc-size", "max-jobs",
     "inflate-log", "trigger-file", "trigger-timeout", "trigger", "aux-path", "debug"]
)  # fmt: skip
_GENERAL = frozenset(["minimal", "readonly", "warnings-fatal"]) | _GENERAL_WITH_VALUE
_QUESTIONS = frozenset(
    ["version", "help", "cmdhelp", "enghelp", "showcmd", "parse-only", "crctest", "cpuclock-test",
     "merge-blktrace-only"]
)  # fmt: skip
_GENERAL_REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("server", "client", "remote-config", "daemonize"), "it would run elsewhere"),
    "trigger-remote": "it would run elsewhere",
    "idle-prof": "its threads spin for ever in virtual time",
}
_SHORT = {"-h": "help", "-v": "version", "-D": "daemonize", "-o": "output"}


@dataclass(frozen=True, slots=True)
class Option:
    """Hold an option as the user wrote it; `place` is `FILE:LINE` or the argument."""

    name: str
    value: str  # empty if the user gave no value
    place: str

    def __str__(self) -> str:
        return f"{self.name}={self.value}" if self.value else self.name


@dataclass(slots=True)
class Section:
    """Hold a section of a job file; a file may have several global sections."""

    name: str
    options: list[Option] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CommandLine:
    """Hold a command line of fio.

    `general` are fio's own options, one argument each. `files` are the job files in order ("-" is
    stdin). `sections` are the jobs on the command line itself. With `question`, fio only prints an
    answer, such as its version, and runs no job.
    """

    general: tuple[str, ...]
    files: tuple[str, ...]
    sections: tuple[Section, ...]
    question: bool


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Hold a job file rewritten for the simulated drive, and sentences about the changes."""

    text: str
    changes: tuple[str, ...]
    verifies: bool  # the job verifies data, so the drive must keep data


def command_line(arguments: Sequence[str]) -> CommandLine:
    """Parse the arguments after `fio`. Raises UsageError for unsupported ones."""
    general: list[str] = []
    files: list[str] = []
    sections: list[Section] = []
    question = False
    rest = iter(arguments)
    for argument in rest:
        given = _SHORT.get(argument) or (argument[2:] if argument.startswith("--") else None)
        if given is None:
            files.append(argument)
            continue
        name, equals, value = given.partition("=")
        if name in _QUESTIONS:
            question = True
        elif reason := _GENERAL_REFUSED.get(name):
            raise UsageError(f"a simulated drive cannot serve --{name}: {reason}")
        elif name in _GENERAL:
            if not equals and name in _GENERAL_WITH_VALUE:
                value, equals = next(rest, ""), "="
            general.append(f"--{name}{equals}{value}")
        elif name == "name":
            sections.append(Section(value if equals else next(rest, "")))
        else:
            if not equals and name not in _FLAGS:
                value = next(rest, "")
            if not sections:
                sections.append(Section(GLOBAL))
            sections[-1].options.append(Option(name.replace("-", "_"), value, argument))
    return CommandLine(tuple(general), tuple(files), tuple(sections), question)


def job_file(text: str, *, path: str) -> tuple[Section, ...]:
    """Parse the sections of a job file. Raises UsageError with `path` and line."""
    sections: list[Section] = []
    for number, line in enumerate(text.splitlines(), 1):
        stripped = re.split("[;#]", line, maxsplit=1)[0].strip()
        place = f"{path}:{number}"
        if not stripped:
            continue
        if header := re.fullmatch(r"\[(.*)\]", stripped):
            sections.append(Section(header[1]))
            continue
        if stripped.split()[0] == "include":
            raise UsageError(f"{place}: include is not supported", hint="write its lines here")
        if not sections:
            raise UsageError(
                f"{place}: {stripped!r} stands before the first section",
                hint="a job file begins with [global] or with the name of a job in brackets",
            )
        name, _, value = (part.strip() for part in stripped.partition("="))
        sections[-1].options.append(Option(name, value, place))
    return tuple(sections)


def for_simulated_drive(
    sections: Sequence[Section], *, engine_options: Callable[[str], frozenset[str]]
) -> Rewritten:
    """Rewrite a user's jobs so that they run on the simulated drive, by fio's nbd engine.

    `engine_options(ENGINE)` returns the options that only this I/O engine of fio knows. Raises
    UsageError, with the place, for an option that would not have its effect on the simulated drive.
    """
    rewriting = _Rewriting(engine_options)
    lines = ["[global]", *(f"{name}={value}" for name, value in ON_THE_DRIVE.items())]
    for section in sections:
        lines += ["", f"[{section.name}]", *rewriting.lines(section)]
    return Rewritten("\n".join(lines) + "\n", tuple(rewriting.changes), rewriting.verifies)


class _Rewriting:
    """Rewrite sections in order, because a global option is valid for the sections after it."""

    def __init__(self, engine_options: Callable[[str], frozenset[str]]) -> None:
        self._engine_options = engine_options
        self._global_engine = DEFAULT_ENGINE
        self._global_depth = ""
        self.changes: dict[str, None] = {}  # sentences in order, without repetitions
        self.verifies = False

    def lines(self, section: Section) -> Iterator[str]:
        """Return the lines of a section; a global section is kept for later sections."""
        engine, depth = self._engine_and_depth(section)
        own = self._engine_options(engine)
        for option in section.options:
            if self._stays(option, own):
                yield f"{option.name}={option.value}" if option.value else option.name
        if section.name == GLOBAL:
            self._global_engine, self._global_depth = engine, depth
        elif engine in SYNCHRONOUS:
            if depth not in ("", "1"):
                self.changes[
                    f"[{section.name}]: iodepth={depth} is replaced by 1, because {engine} has "
                    "only one request in flight"
                ] = None
            yield "iodepth=1"
        elif depth:
            yield f"iodepth={depth}"

    def _engine_and_depth(self, section: Section) -> tuple[str, str]:
        engine, depth = self._global_engine, self._global_depth
        for option in section.options:
            if option.name == "ioengine":
                engine = _reached(option)
                if engine != "nbd":
                    self._note(option, "is replaced by nbd, the engine that reaches the drive")
            elif option.name == "iodepth":
                depth = option.value
        return engine, depth

    def _stays(self, option: Option, own: frozenset[str]) -> bool:
        _refuse(option)
        if option.name == "verify" and option.value not in ("", "0", "none"):
            self.verifies = True
        if option.name in ("ioengine", "iodepth"):
            return False  # decided later, for the whole section
        if option.name in ON_THE_DRIVE:
            if option.value not in ("", ON_THE_DRIVE[option.name]):
                self._note(option, f"is replaced by {ON_THE_DRIVE[option.name]}")
            return False
        if option.name in _PLACES:
            self._note(option, "has no meaning: all jobs use the drive")
            return False
        if (option.name, option.value) in _CACHED:
            self._note(option, "has no effect: I/O is direct, without a page cache")
            return False
        if option.name in _PROMISED and option.value not in ("", "0", "none"):
            self._note(
                option,
                "is left out: with it, a drive that has a volatile buffer would answer later (for "
                "a flush after each write, use fsync=1)",
            )
            return False
        if option.name in own:
            self._note(option, "is left out: nbd does not know it")
            return False
        return True

    def _note(self, option: Option, change: str) -> None:
        self.changes[f"{option.place}: {option} {change}"] = None


def _reached(option: Option) -> str:
    engine = option.value.partition(":")[0] if option.value.startswith("external") else option.value
    if engine not in SYNCHRONOUS | ASYNCHRONOUS:
        raise UsageError(
            f"{option.place}: ioengine={engine} does not access a block device, so a simulated "
            "drive cannot replace it",
            hint="engines that are replaced: " + ", ".join(sorted(SYNCHRONOUS | ASYNCHRONOUS)),
        )
    return engine


def _refuse(option: Option) -> None:
    reason = _REFUSED.get(option.name) or _REFUSED_VALUES.get((option.name, option.value))
    off = option.value == "0" and _REFUSED.get(option.name) in (_NO_POLLING, _NO_PRIORITY)
    if reason and not off:
        raise UsageError(
            f"{option.place}: {option.name} cannot be served: {reason}", hint="remove it"
        )
