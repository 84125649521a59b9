"""Print JSON Schemas for editors (`schema`) and completion scripts for shells (`completion`)."""

import click
from click.shell_completion import get_completion_class

from ssdbench.cli.options import json_option
from ssdbench.cli.output import answer, document
from ssdbench.errors import UsageError

PROFILE = "profile"


@click.command("schema")
@click.argument("name", default=PROFILE)
@json_option
def schema(name: str, as_json: bool) -> None:
    """Print the JSON Schema of profiles, or of the answer that a command prints with --json.

    To use it in an editor, run ssdbench schema > profile.schema.json, and begin the profile with:
    # yaml-language-server: $schema=./profile.schema.json

    NAME is the name of a command, such as `capacity` or `sim-models`; `list` prints all names.
    """
    from ssdbench.cli.documents import document_schema, documents  # importing pydantic takes 100 ms
    from ssdbench.model.loading import profile_schema

    names = [PROFILE, *documents()]
    if name == PROFILE:
        document(profile_schema())
    elif name in names:
        document(document_schema(name))
    elif name == "list" and as_json:
        document({"names": names})
    elif name == "list":
        answer("\n".join(names))
    else:
        raise UsageError(
            f"there is no schema '{name}'", hint="`ssdbench schema list` prints the names."
        )


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@json_option
def completion(shell: str, as_json: bool) -> None:
    """Print the script that completes commands, options and targets in a shell.

    For bash, add this line to ~/.bashrc: eval "$(ssdbench completion bash)"
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise UsageError(f"no completion script exists for the shell {shell}")
    root = click.get_current_context().find_root().command
    if shell == "bash":
        # Skip click's check of the bash version, which would start a program; bash 4.4 is from
        # 2016.
        kind = type("Bash", (kind,), {"_check_version": staticmethod(lambda: None)})
    script = kind(root, {}, "ssdbench", "_SSDBENCH_COMPLETE").source()
    if shell == "bash":
        # Without this line, bash splits `sim:x25m` into three words.
        script = f"COMP_WORDBREAKS=${{COMP_WORDBREAKS//:}}\n{script}"
    if as_json:
        from ssdbench.cli.documents.machine import Completion  # importing pydantic takes 100 ms

        document(Completion(shell=shell, script=script))
    else:
        answer(script)
