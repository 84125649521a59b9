"""Every command with its options, from the command line itself."""

import re
from collections.abc import Iterator

import click

from docs.siteparts.markdown import code, prose, table
from ssdbench.cli.documents import DOCUMENTS
from ssdbench.cli.main import ssdbench


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


def page() -> str:
    """A section for each command."""
    return "\n\n".join(_section(context, command) for context, command in commands())


def _section(context: click.Context, command: click.Command) -> str:
    words = context.command_path.removeprefix("ssdbench ")
    usage = " ".join(command.collect_usage_pieces(context))
    parts = [f"## {words}", f"```text\nssdbench {words} {usage}\n```", _help(command.help or "")]
    rows = [
        (" ".join(map(code, option.opts + option.secondary_opts)), *_value(option, context))
        for option in command.params
        if isinstance(option, click.Option) and not option.hidden and option.name != "as_json"
    ]
    if rows:
        parts.append(table(("option", "value", "default", "meaning"), rows))
    documents = [name for name in DOCUMENTS if _answers(name, words)]
    if any(option.name == "as_json" for option in command.params) and documents:
        linked = ", ".join(f"[{name}](json.md#{name})" for name in documents)
        parts.append(f"With `--json` it answers with the document {linked}.")
    return "\n\n".join(part for part in parts if part)


def _answers(document: str, words: str) -> bool:
    name = words.replace(" ", "-")
    variants = {"run": ["run-detached"], "capacity": ["capacity-candidates"]}
    of_modules = document == "kmod" and name.startswith("kmod-")
    return document == name or document in variants.get(name, []) or of_modules


def _value(option: click.Option, context: click.Context) -> tuple[str, str, str]:
    """What it takes, its default, and what it is for."""
    taken = "" if option.is_flag else option.make_metavar(context)
    default = option.default
    plain = isinstance(default, str | int | float) and not isinstance(default, bool)
    shown = str(default) if plain and default != "" and not option.is_flag else ""
    repeated = " May be given several times." if _says_not_yet(option) else ""
    return code(taken), code(shown), prose(option.help or "") + repeated


def _says_not_yet(option: click.Option) -> bool:
    return option.multiple and "several times" not in (option.help or "")


def _help(text: str) -> str:
    r"""Paragraphs of a docstring; after a line of `\b` they are examples to type."""
    shown = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        if paragraph.lstrip().startswith("\b"):
            lines = [line.strip() for line in paragraph.split("\n")[1:]]
            shown.append("```sh\n" + "\n".join(lines) + "\n```")
        else:
            shown.append(prose(paragraph))
    return "\n\n".join(shown)
