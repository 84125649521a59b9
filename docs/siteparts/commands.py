"""Every command with its options, from the command line itself."""

import re

import click

from docs.siteparts.manual import commands, default, metavar, options
from docs.siteparts.markdown import code, prose, table
from ssdbench.cli.documents import documents


def page() -> str:
    """A section for each command."""
    return "\n\n".join(_section(context, command) for context, command in commands())


def _section(context: click.Context, command: click.Command) -> str:
    words = context.command_path.removeprefix("ssdbench ")
    arguments = [metavar(p) for p in command.params if isinstance(p, click.Argument)]
    usage = " ".join(["[OPTIONS]", *arguments])
    parts = [f"## {words}", f"```text\nssdbench {words} {usage}\n```", _help(command.help or "")]
    rows = [
        (" ".join(map(code, option.opts + option.secondary_opts)), *_value(option))
        for option in options(command)
    ]
    if rows:
        parts.append(table(("option", "value", "default", "meaning"), rows))
    answers = [name for name in documents() if _answers(name, words)]
    if any(option.name == "as_json" for option in command.params) and answers:
        linked = ", ".join(f"[{name}](json.md#{name})" for name in answers)
        parts.append(f"With `--json` it answers with the document {linked}.")
    return "\n\n".join(part for part in parts if part)


def _answers(document: str, words: str) -> bool:
    name = words.replace(" ", "-")
    variants = {"run": ["run-detached"], "capacity": ["capacity-candidates"]}
    of_modules = document == "kmod" and name.startswith("kmod-")
    return document == name or document in variants.get(name, []) or of_modules


def _value(option: click.Option) -> tuple[str, str, str]:
    """Its values, its default, and its purpose."""
    taken = "" if option.is_flag else metavar(option)
    repeated = " May be given several times." if _says_not_yet(option) else ""
    return code(taken), code(default(option)), prose(option.help or "") + repeated


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
