"""`ssdbench completion`."""

import click
from click.shell_completion import get_completion_class

from ssdbench.cli.options import json_option
from ssdbench.cli.output import answer, document
from ssdbench.errors import UsageError


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@json_option
def command(shell: str, as_json: bool) -> None:
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
