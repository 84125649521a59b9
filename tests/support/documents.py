"""Answers in JSON, checked as a program would check them."""

import json
from typing import Any

from jsonschema import Draft202012Validator

from ssdbench.cli.documents import document_schema


def checked(text: str, name: str) -> dict[str, Any]:
    """The document in what was printed, once it is one of that name and as its schema says."""
    told: dict[str, Any] = json.loads(text)
    assert told["document"] == name
    Draft202012Validator(document_schema(name)).validate(told)
    return told
