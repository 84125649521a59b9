"""`ssdbench schema`."""

import click

from ssdbench.cli.options import json_option
from ssdbench.cli.output import answer, document

PROFILE = "profile"


@click.command("schema")
@click.argument("name", default=PROFILE)
@json_option
def command(name: str, as_json: bool) -> None:
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
