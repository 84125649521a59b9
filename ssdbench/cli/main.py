"""Run the command line: find the sub-command, print errors, choose the exit code.

The module of a sub-command is imported only when it runs, so `ssdbench --help` starts fast.
"""

import difflib
import gc
import importlib
import itertools
import json
import os
import select
import shlex
import shutil
import sys
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TextIO

import click

from ssdbench import __version__
from ssdbench.cli.output import tell
from ssdbench.cli.signals import interrupted_code, signals_end_command
from ssdbench.errors import ProfileError, SsdbenchError, TargetRefused, UsageError
from ssdbench.foreign import write_whole

EXIT_BUG = 70  # EX_SOFTWARE of sysexits.h
DEBUG = "--debug"
EXIT_BROKEN_PIPE = 141  # status that a shell reports for a program that SIGPIPE ended
GARBAGE_AFTER = 50_000  # new objects; with Python's 700, collection takes 1/7 of a report's time

# Name: (module in ssdbench.cli, line in the list of commands). A new user needs the commands in
# this order.
COMMANDS = {
    "run": ("run", "Prepare a target, measure it, and write the report."),
    "plan": ("plan", "Show what `run` would do: stages, hours, bytes. Changes nothing."),
    "detect-blocksize": ("inside", "Find a drive's block size and write buffer."),
    "probe": ("inside", "Find a drive's inner structure: remap unit, buffers, stripes."),
    "resume": ("run", "Continue a run after a crash, a signal or a limit."),
    "report": ("report", "Render a stored run again."),
    "compare": ("compare", "Compare stored runs, with tests of significance."),
    "merge": ("merge", "Estimate a lot or a model from runs of several of its drives."),
    "capacity": ("capacity", "Compute how many drives a demand needs, from a stored run."),
    "latencies": ("traces", "Compute percentiles from fio's latency logs of any length."),
    "trace": ("traces", "Describe a trace of block I/O before you replay it."),
    "donate": ("report", "Make an anonymous archive of a run on a real drive."),
    "drives": ("drives", "List block devices and simulated models as targets."),
    "check": ("hostcheck", "Show what is missing on this host, and what makes it noisy."),
    "restore": ("hostcheck", "Restore settings that a killed run left changed."),
    "retire": ("drives", "Purge a drive that is no longer needed; show its wear."),
    "attach": ("attach", "Show the progress of a detached run until it ends."),
    "stop": ("attach", "Stop a detached run cleanly, with a partial report."),
    "fleet": ("fleet", "Measure many drives on many hosts, over SSH."),
    "store": ("store", "Keep the results of many runs as Parquet files with checksums."),
    "query": ("store", "Query a store in SQL."),
    "sim": ("sim", "Create, inspect, snapshot and serve simulated drives."),
    "kmod": ("kmod", "Build, load and unload the bundled kernel modules."),
    "lab": ("lab", "Boot a guest with the kernel modules, and run in it."),
    "schema": ("schema", "Print the JSON Schema of profiles and of answers."),
    "completion": ("schema", "Print the completion script of a shell."),
}


@dataclass(slots=True)
class Place:
    """The arguments of this call, and the directory of its run once the run has begun."""

    run_directory: Path | None = None
    arguments: tuple[str, ...] = ()
    page: bool = False  # keep a page that follows the run


class Commands(click.Group):
    """The group of all sub-commands, which imports the module of a sub-command only when needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all sub-commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the sub-command with this name."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"ssdbench.cli.{COMMANDS[cmd_name][0]}")
        named = getattr(module, cmd_name.replace("-", "_"), None)
        command: click.Command = named if isinstance(named, click.Command) else module.command
        return _with_debug(command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the sub-command; for an unknown name, fail and suggest the most similar name."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            meant = f" (did you mean '{near[0]}'?)" if near else ""
            ctx.fail(f"there is no command '{args[0]}'{meant}")
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not ctx.resilient_parsing:
            _refuse_repeats(ctx, command, rest)
        return name, command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands for the help, without importing their modules."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


def _refuse_repeats(ctx: click.Context, command: click.Command, args: list[str]) -> None:
    """Fail if an option of one value is given twice, because click would use the last value."""
    try:
        _, _, order = command.make_parser(click.Context(command, parent=ctx)).parse_args([*args])
    except click.UsageError:
        return  # this command reports the error itself, with more detail
    for option, count in Counter(order).items():
        takes_one = isinstance(option, click.Option) and not (option.multiple or option.is_flag)
        if count > 1 and takes_one:
            ctx.fail(f"{option.opts[0]} is given {count} times, but takes only one value")


def _debug(context: click.Context, parameter: click.Parameter, value: object) -> None:
    del parameter
    if value:
        from ssdbench.cli import debuglog

        debuglog.start()
        context.find_root().call_on_close(debuglog.stop)


def _with_debug(command: click.Command) -> click.Command:
    """Make a command also accept --debug after its name; only the main help shows --debug."""
    if not any(DEBUG in parameter.opts for parameter in command.params):
        option = click.Option(
            [DEBUG], is_flag=True, expose_value=False, callback=_debug, hidden=True, help="A log."
        )
        command.params.append(option)
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        _with_debug(below)
    return command


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 valid, 1 not validated, 2 usage or profile, 3 target refused, "
    "4 something missing on the host, 5 device error, 6 a target of `accept` missed, "
    "129/130/143 interrupted, 141 the program that reads the output ended first.",
)
@click.version_option(__version__, prog_name="ssdbench")
@click.option(
    DEBUG,
    is_flag=True,
    envvar="SSDBENCH_DEBUG",
    expose_value=False,
    callback=_debug,
    help="Log each program started, its exit code and time, and each setting written, to stderr "
    "and to debug.log in the run directory.",
)
def ssdbench() -> None:
    """The pessimist's SSD benchmark: it measures a drive and gives a number that you can plan on.

    To try it without a drive: ssdbench run demo
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with its exit code; never print a traceback."""
    os.umask(os.umask(0o077) | 0o022)  # other users never get write access to new files
    _occupy_closed()
    gc.set_threshold(GARBAGE_AFTER)
    with signals_end_command():
        code = run(list(sys.argv[1:] if arguments is None else arguments))
        for stream in (sys.stdout, sys.stderr):
            _drop_unread(stream)
    sys.exit(code)


def _occupy_closed() -> None:
    """Open stdin, stdout and stderr if the caller closed them, as `>&-` and some daemons do.

    If they stayed closed, the next file that is opened, perhaps the drive, would get the descriptor
    number of stdout, and messages would be written to it. A closed stdout is replaced by a pipe
    without a reader, so that the exit code is 141.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            if descriptor == 1:
                reader, opened = os.pipe()
                os.close(reader)
            else:
                opened = os.open(os.devnull, os.O_RDWR)
            if opened != descriptor:
                os.dup2(opened, descriptor)
                os.close(opened)
            os.set_inheritable(descriptor, True)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115 - open until the process ends
    sys.stdout = sys.stdout or _written_to(1)
    sys.stderr = sys.stderr or _written_to(2)


def _written_to(descriptor: int) -> TextIO:
    return open(descriptor, "w", errors="backslashreplace", closefd=False)


def run(arguments: list[str]) -> int:
    """Run the command line; return the exit code."""
    as_json = "--json" in itertools.takewhile(lambda word: word != "--", arguments)
    place = Place(arguments=tuple(arguments))
    try:
        _require_utf8_places()
        code = _invoke(arguments, place)
        if sys.stdout is not None:
            sys.stdout.flush()
    except SsdbenchError as error:
        return _failed(error, as_json=as_json, arguments=arguments)
    except click.ClickException as error:
        return _misused(error, as_json=as_json)
    except (click.Abort, KeyboardInterrupt) as asked:
        tell("interrupted")
        return interrupted_code(asked)
    except OSError as error:
        if isinstance(error, BrokenPipeError) and _reader_is_gone():
            return EXIT_BROKEN_PIPE
        return _system_error(error, as_json=as_json)
    except Exception as error:  # noqa: BLE001 - the last catch; the traceback goes to a file
        return _bug(error, place, as_json=as_json)
    return code if isinstance(code, int) else 0


def _require_utf8_places() -> None:
    """Raise UsageError if an environment variable names a directory that is not valid UTF-8."""
    for name in ("TMPDIR", "SSDBENCH_SETTINGS"):
        try:
            os.environ.get(name, "").encode()
        except UnicodeEncodeError as error:
            raise UsageError(
                f"the environment variable {name} is not in UTF-8",
                hint=f"Set {name} to another directory.",
            ) from error


def _invoke(arguments: list[str], place: Place) -> object:
    """Run the command; return its exit code or None. click's main() returns 1 on a closed pipe."""
    if "_SSDBENCH_COMPLETE" in os.environ:
        return ssdbench.main(arguments, prog_name="ssdbench", standalone_mode=False)
    try:
        with ssdbench.make_context("ssdbench", list(arguments), obj=place) as context:
            return ssdbench.invoke(context)
    except click.exceptions.Exit as ended:
        return ended.exit_code


def _reader_is_gone() -> bool:
    """Return whether the program that reads stdout has ended, as `head` in `ssdbench … | head`."""
    poll = select.poll()
    poll.register(1, 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


def _drop_unread(stream: TextIO | None) -> None:
    """Discard unwritten output; Python would write it again at exit and return 120."""
    if stream is None:  # closed by `>&-`
        return
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def document(error: SsdbenchError, *, command: Sequence[str] = ()) -> dict[str, object]:
    """Return the JSON document of an error, which a command prints in place of its answer.

    `command` is a command line that ssdbench would not refuse, if one is known.
    """
    fields: dict[str, object] = {
        "kind": type(error).__name__,
        "message": error.message,
        "hint": error.hint,
        "exit_code": error.exit_code,
    }
    if isinstance(error, ProfileError):
        fields["diagnostics"] = [
            {"file": d.file, "line": d.line, "column": d.column, "message": d.message}
            for d in error.diagnostics
        ]
    if isinstance(error, TargetRefused):
        fields["target"], fields["reasons"] = error.target, list(error.reasons)
        fields["command"] = list(command)
    return _as_document(fields)


def _as_document(fields: dict[str, object]) -> dict[str, object]:
    """Return the same JSON as `documents.machine.Failed`, but without its slow imports."""
    return {"document": "error", "schema_version": 1, "error": fields}


def _failed(error: SsdbenchError, *, as_json: bool, arguments: Sequence[str] = ()) -> int:
    command: list[str] = []
    if isinstance(error, TargetRefused) and error.options and arguments:
        command = with_options(arguments, error.options)
    if isinstance(error, ProfileError):
        tell(error.message)  # file:line:column: …, which editors and CI read
    else:
        word = "refused" if isinstance(error, TargetRefused) else "error"
        for line in error.message.split("\n"):
            tell(f"{word}: {line}")
    if error.hint:
        tell(f"hint: {error.hint}".replace("\n", "\n  "))
    if command:
        tell(f"the whole command:\n  {shlex.join(command)}")
    if as_json:
        _print_document(document(error, command=command))
    return error.exit_code


def _misused(error: click.ClickException, *, as_json: bool) -> int:
    message = error.format_message()
    if isinstance(error, click.exceptions.NoArgsIsHelpError) and not as_json:
        tell(message)
        return 2
    tell(f"error: {message}".replace("\n", "\n  "))
    context = getattr(error, "ctx", None)
    hint = f"`{context.command_path} --help` shows its options and arguments" if context else ""
    if hint:
        tell(f"hint: {hint}")
    if as_json:
        fields = {"kind": "UsageError", "message": message, "hint": hint, "exit_code": 2}
        _print_document(_as_document(fields))
    return 2


def _system_error(error: OSError, *, as_json: bool) -> int:
    from ssdbench.host.files import WAYS_OUT

    what = f"{error.filename}: " if error.filename else ""
    lacks = SsdbenchError(
        f"{what}{error.strerror or error}", hint=WAYS_OUT.get(error.errno or 0, "")
    )
    lacks.exit_code = 4
    return _failed(lacks, as_json=as_json)


def _bug(error: Exception, place: Place, *, as_json: bool) -> int:
    text = "".join(traceback.format_exception(error))
    kept = _keep(text, place)
    where = f"; the details are in {kept}" if kept else ""
    bug = SsdbenchError(
        f"this is a bug in ssdbench ({type(error).__name__}){where}",
        hint="report this bug, with that file; `ssdbench resume` continues a run" if kept else "",
    )
    bug.exit_code = EXIT_BUG
    return _failed(bug, as_json=as_json)


def _keep(text: str, place: Place) -> Path | None:
    """Write a traceback to the run directory or, without one, to the user's state directory."""
    for directory in (place.run_directory, state_directory()):
        if directory is None:
            continue
        path = directory / f"traceback-{os.getpid()}.txt"
        try:
            directory.mkdir(parents=True, exist_ok=True)
            write_whole(path, text.encode())
        except OSError:
            continue
        return path
    return None


def state_directory() -> Path:
    """Return the user's directory for state that does not belong to a run."""
    if os.geteuid() == 0:
        return Path("/var/lib/ssdbench")
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "ssdbench"


def _print_document(value: dict[str, object]) -> None:
    try:
        click.echo(json.dumps(value, indent=1))
        sys.stdout.flush()
    except OSError:
        return


def with_options(arguments: Sequence[str], options: Sequence[str]) -> list[str]:
    """Return the user's command line with missing options added to it."""
    words = list(arguments)
    at = words.index("--") if "--" in words else len(words)
    return [*program_words(), *words[:at], *options, *words[at:]]


def program_words() -> list[str]:
    """Return the words that start this ssdbench in a shell."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py" and called.parent.name == "ssdbench":
        return [sys.executable, "-m", "ssdbench"]
    if called.name != "ssdbench":
        return ["ssdbench"]
    installed = shutil.which("ssdbench")
    same = installed is not None and os.path.realpath(installed) == os.path.realpath(called)
    return ["ssdbench"] if same else [str(called)]


def as_run(arguments: Sequence[str], options: Sequence[str]) -> list[str]:
    """Return the `run` command line for a `plan`; its `--output FILE` becomes `--plan FILE`."""
    words, run = list(arguments), ["run"]
    for word in words[words.index("plan") + 1 :]:
        if word == "--json":
            continue
        name, equals, value = word.partition("=")
        run.append(f"--plan{equals}{value}" if name == "--output" else word)
    return with_options(run, options)
