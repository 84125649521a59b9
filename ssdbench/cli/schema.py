"""`ssdbench schema`."""

import click

from ssdbench.cli.options import json_option
from ssdbench.cli.output import document


@click.command("schema")
@json_option
def command(as_json: bool) -> None:  # the answer is JSON in any case
    """Print the JSON Schema of profiles, for editors.

    ssdbench schema > profile.schema.json, and in the first line of a profile:
    # yaml-language-server: $schema=./profile.schema.json
    """
    from ssdbench.model.editorschema import profile_schema  # pydantic costs 100 ms

    document(profile_schema())
