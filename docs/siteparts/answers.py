"""The JSON documents that commands answer with, from their types."""

import inspect
import re
from functools import cache
from typing import Any

from pydantic import BaseModel

from docs.siteparts.markdown import code, prose, table
from ssdbench.cli.documents import document_schema, documents

FIELD = re.compile(r"^    (\w+): .*?  # (.+)$", re.MULTILINE)


def page() -> str:
    """A section for each document, then one for each type that they share."""
    schemas = {name: document_schema(name) for name in documents()}
    types = {
        kind: (body, schema)
        for schema in schemas.values()
        for kind, body in schema.get("$defs", {}).items()
        if "properties" in body
    }
    sections = [_section(name, schema) for name, schema in schemas.items()]
    sections.append("## Types\n\nWhat the fields above hold, by name.")
    sections += [
        f"({_anchor(kind)})=\n\n### {kind}\n\n{prose(body.get('description', ''))}\n\n"
        + _fields(body, schema)
        for kind, (body, schema) in sorted(types.items())
    ]
    return "\n\n".join(sections)


def _anchor(kind: str) -> str:
    return f"json-{kind.lower()}"


def _section(name: str, schema: dict[str, Any]) -> str:
    version = schema["properties"]["schema_version"]["const"]
    said = prose(schema.get("description", ""))
    return (
        f"({name})=\n\n## {name}\n\n{said} Schema version {version}; the whole schema: "
        f"`ssdbench schema {name}`.\n\n{_fields(schema, schema)}"
    )


def _fields(body: dict[str, Any], schema: dict[str, Any]) -> str:
    fixed = ("document", "schema_version")
    said = _comments().get(body.get("title", ""), {})
    rows = [
        (code(name), _type(value, schema), prose(value.get("description") or said.get(name, "")))
        for name, value in body["properties"].items()
        if name not in fixed or body is not schema
    ]
    if not any(meaning for _, _, meaning in rows):
        return table(("field", "type"), (row[:2] for row in rows))
    return table(("field", "type", "meaning"), rows)


@cache
def _comments() -> dict[str, dict[str, str]]:
    """What stands behind the fields of each type in the code, by the type's name."""
    found: dict[str, dict[str, str]] = {}
    waiting: list[type[BaseModel]] = [BaseModel]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if kind.__module__.startswith("ssdbench."):
            own = [base for base in kind.__mro__ if base.__module__.startswith("ssdbench.")]
            source = "\n".join(inspect.getsource(base) for base in reversed(own))
            found[kind.__name__] = dict(FIELD.findall(source))
    return found


def _type(node: dict[str, Any], schema: dict[str, Any]) -> str:
    if "$ref" in node:
        name = node["$ref"].rsplit("/", 1)[-1]
        body = schema["$defs"][name]
        return f"[{name}](#{_anchor(name)})" if "properties" in body else _type(body, schema)
    if "anyOf" in node:
        words = " or ".join(_type(form, schema) for form in node["anyOf"]).split(" or ")
        return " or ".join(dict.fromkeys(words))
    if "const" in node:
        return code(node["const"])
    if "enum" in node:
        return ", ".join(code(value) for value in node["enum"])
    if node.get("type") == "array":
        if "prefixItems" in node:
            inner = ", ".join(_type(one, schema) for one in node["prefixItems"])
            return f"list of exactly: {inner}"
        return f"list of {_type(node.get('items', {}), schema)}"
    if node.get("type") == "object":
        values = node.get("additionalProperties")
        return f"names to {_type(values, schema)}" if isinstance(values, dict) else "object"
    kinds = node.get("type", "anything")
    return " or ".join(kinds) if isinstance(kinds, list) else str(kinds)
