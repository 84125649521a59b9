"""The manual page: what docs/ssdbench.1.md says, and every command from the command line itself.

It is made where wheels are built, with nothing but click installed.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import click

from ssdbench.cli.main import ssdbench

SOURCE = Path(__file__).parents[1] / "ssdbench.1.md"
MARK = "<!-- reference: manual -->"


def whole() -> str:
    """The text of the manual page, as pandoc takes it."""
    return SOURCE.read_text().replace(MARK, page())


def page() -> str:
    """Each command with its help and its options, as a list of definitions."""
    return "\n\n".join(_entry(context, command) for context, command in commands())


def commands(
    command: click.Command = ssdbench, context: click.Context | None = None
) -> Iterator[tuple[click.Context, click.Command]]:
    """Every command that can be typed, in the order of `--help`."""
    context = context or click.Context(ssdbench, info_name="ssdbench")
    if not isinstance(command, click.Group):
        yield context, command
        return
    for word in command.list_commands(context):
        found = command.get_command(context, word)
        if found is not None and not found.hidden:
            yield from commands(found, click.Context(found, parent=context, info_name=word))


def options(command: click.Command) -> Iterator[click.Option]:
    """The options that a command shows, but --json, which they share."""
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden and option.name != "as_json":
            yield option


def _entry(context: click.Context, command: click.Command) -> str:
    words = context.command_path.removeprefix("ssdbench ")
    arguments = [metavar(p) for p in command.params if isinstance(p, click.Argument)]
    paragraphs = [_paragraph(text) for text in re.split(r"\n\s*\n", (command.help or "").strip())]
    paragraphs += [
        f"{_named(option)}: {_escaped(option.help)}{_default(option)}"
        for option in options(command)
    ]
    body = "\n\n    ".join(paragraphs)
    return f"**{words}**{''.join(f' *{_escaped(name)}*' for name in arguments)}\n:   {body}"


def metavar(parameter: click.Parameter) -> str:
    """What stands for the value; click's own word for it depends on its version."""
    kind = parameter.type
    if parameter.metavar:
        word = parameter.metavar
    elif isinstance(kind, click.Choice):
        word = f"[{'|'.join(map(str, kind.choices))}]"
    elif isinstance(parameter, click.Argument):
        word = (parameter.name or "").upper()
        word = word if parameter.required else f"[{word}]"
    else:
        numbers = {"integer": "N", "integer range": "N", "float": "X", "float range": "X"}
        word = numbers.get(kind.name, kind.name.upper())
    several = parameter.nargs == -1 and not word.endswith(("…", "]…"))
    return f"{word}…" if several else word


def default(option: click.Option) -> str:
    """The default as it is typed, where the option has one that says something."""
    value = option.default
    plain = isinstance(value, str | int | float) and not isinstance(value, bool)
    return str(value) if plain and value != "" and not option.is_flag else ""


def _named(option: click.Option) -> str:
    value = "" if option.is_flag else f" *{_escaped(metavar(option))}*"
    return ", ".join(f"**{name}**" for name in option.opts) + value


def _default(option: click.Option) -> str:
    shown = default(option)
    return f" Default: {_escaped(shown)}." if shown else ""


def _paragraph(text: str) -> str:
    if text.lstrip().startswith("\b"):  # examples, a line each
        return "\\\n    ".join(f"**{_escaped(line.strip())}**" for line in text.split("\n")[1:])
    return _escaped(text)


def _escaped(text: str | None) -> str:
    return re.sub(r"([\\`*_\[\]<>|$~^])", r"\\\1", " ".join((text or "").replace("`", "").split()))
