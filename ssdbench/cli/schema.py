"""`ssdbench schema` and `ssdbench completion`: JSON Schemas for editors, completion for shells."""

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
    """Print the JSON Schema of profiles, or of what a command answers with --json.

    ssdbench schema > profile.schema.json, and in the first line of a profile:
    # yaml-language-server: $schema=./profile.schema.json

    NAME is the command, as in `ssdbench schema capacity` or `sim-models`; `list` prints all names.
    """
    from ssdbench.cli.documents import DOCUMENTS, document_schema  # pydantic costs 100 ms
    from ssdbench.errors import UsageError
    from ssdbench.model.loading import profile_schema

    if name == PROFILE:
        document(profile_schema())
    elif name in DOCUMENTS:
        document(document_schema(name))
    elif name == "list" and as_json:
        document({"names": [PROFILE, *DOCUMENTS]})
    elif name == "list":
        answer("\n".join([PROFILE, *DOCUMENTS]))
    else:
        raise UsageError(
            f"there is no schema '{name}'", hint="`ssdbench schema list` prints the names."
        )


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@json_option
def completion(shell: str, as_json: bool) -> None:
    """Print the completion script of a shell.

    bash: eval "$(ssdbench completion bash)" in ~/.bashrc.
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise UsageError(f"there is no completion for {shell}")
    root = click.get_current_context().find_root().command
    if shell == "bash":
        # click asks bash for its version here, which starts a program; bash 4.4 is of 2016.
        kind = type("Bash", (kind,), {"_check_version": staticmethod(lambda: None)})
    script = kind(root, {}, "ssdbench", "_SSDBENCH_COMPLETE").source()
    if shell == "bash":
        # Else `sim:x25m` is three words to bash.
        script = f"COMP_WORDBREAKS=${{COMP_WORDBREAKS//:}}\n{script}"
    if as_json:
        from ssdbench.cli.documents.machine import Completion  # pydantic costs 100 ms

        document(Completion(shell=shell, script=script))
    else:
        answer(script)
