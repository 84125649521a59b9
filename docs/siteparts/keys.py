"""Every key of a profile with its values, unit, default and an example, from the schema."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic.fields import FieldInfo

from docs.siteparts.markdown import code, prose, table
from ssdbench.model.base import Model
from ssdbench.model.loading import profile_schema
from ssdbench.model.profile import SPELLED
from ssdbench.units import format_size

UNITS = {  # by how the name of a field in the code ends
    "_bytes_per_s": "B/s",
    "_per_s": "1/s",
    "_s": "s, m, h …",
    "_bytes": "B, KiB …",
    "_percent": "%",
    "_iops": "IOPS",
    "_tb": "TB",
    "_w": "W",
    "_years": "years",
    "_fills": "drive fills",
    "fill": "drive fills",
}
WRITTEN = {  # by the pattern that the value must match
    r"(ns|us|ms|s|m|min|h|d)$": "time",
    r"[kKmMgGtTpP]([iI][bB])?)?$": "size",
    r" ?%$": "share, %",
}
WRITTEN_SIZE = "[kKmMgGtTpP]([iI][bB])?"
SEVERAL = "one or several:"
SHORT = 60  # letters of a default that fits into a table


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a profile, in words."""

    model: str
    name: str
    values: str
    unit: str
    default: str
    example: str
    meaning: str


def page() -> str:
    """A section for each group of keys, from the outermost inwards."""
    schema = profile_schema()
    sections = ["## The profile itself\n\n" + _table("Profile", schema)]
    sections += [
        f"({name.lower()}-keys)=\n\n## {title}\n\n{_said(schema['$defs'][name])}\n\n"
        + _table(name, schema)
        for name, title in _groups(schema)
    ]
    return "\n\n".join(sections)


def _said(body: dict[str, Any]) -> str:
    return prose(body.get("description", ""))


def every_key() -> Iterator[Key]:
    """All keys of all groups."""
    schema = profile_schema()
    for name in ["Profile", *(name for name, _ in _groups(schema))]:
        yield from _keys(name, schema)


def models() -> dict[str, type[Model]]:
    """The types that keys are fields of, by name."""
    found, waiting = {}, [Model]
    while waiting:
        kind = waiting.pop()
        found[kind.__name__] = kind
        waiting += kind.__subclasses__()
    return found


def field_of(model: str, key: str) -> tuple[str, FieldInfo]:
    """The field of the code that a key is read into, with its name."""
    fields = models()[model].model_fields
    return next((name, field) for name, field in fields.items() if key == (field.alias or name))


def _groups(schema: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Types with keys of their own and how a profile gets there, in the order of the profile."""
    seen: set[str] = set()
    waiting = [("", "Profile")]
    while waiting:
        path, name = waiting.pop(0)
        if name != "Profile":
            if name in seen:
                continue
            seen.add(name)
            yield name, f"{path}:"
        body = schema if name == "Profile" else schema["$defs"][name]
        inner = [
            (f"{path}: {key}" if path and name != "Measure" else key, kind)
            for key, value in body["properties"].items()
            for kind in _named(value)
            if "properties" in schema["$defs"][kind]
        ]
        # A group stands behind the group that it belongs to.
        waiting = inner + waiting


def _named(node: Any) -> Iterator[str]:
    """The types that a value refers to."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref":
                yield value.rsplit("/", 1)[-1]
            else:
                yield from _named(value)
    elif isinstance(node, list):
        for value in node:
            yield from _named(value)


def _table(name: str, schema: dict[str, Any]) -> str:
    rows = [
        (code(k.name), k.values, k.unit, k.default, code(k.example), k.meaning)
        for k in _keys(name, schema)
    ]
    return table(("key", "values", "unit", "default", "example", "meaning"), rows)


def _keys(name: str, schema: dict[str, Any]) -> Iterator[Key]:
    body = schema if name == "Profile" else schema["$defs"][name]
    for key, value in body["properties"].items():
        field_name, field = field_of(name, key)
        example = field.examples[0] if field.examples else _example(value, schema)
        yield Key(
            name,
            key,
            _values(value, schema),
            _unit(field_name),
            _default(value),
            f"{key}: {_flow(example)}",
            prose(value.get("description", "")),
        )


def _forms(node: dict[str, Any], schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The forms that a value may have, without null."""
    if "$ref" in node:
        referred = schema["$defs"][node["$ref"].rsplit("/", 1)[-1]]
        yield referred if "properties" not in referred else {"group": node["$ref"]}
    elif "anyOf" in node:
        for form in node["anyOf"]:
            yield from _forms(form, schema)
    elif "then" in node:
        yield from _forms(node["then"], schema)
        yield from _forms(node.get("else", {"type": "null"}), schema)
    elif node.get("type") != "null":
        yield node


def _values(node: dict[str, Any], schema: dict[str, Any]) -> str:
    forms = list(_forms(node, schema))
    if lists := [form for form in forms if form.get("type") == "array"]:
        one = _values(lists[0]["items"], schema)
        return f"{SEVERAL} {one}" if len(forms) > 1 else f"a list: {one}"
    words = list(dict.fromkeys(_words(form) for form in forms))
    if "size" in words:  # bytes may also stand as a plain number
        words = [word for word in words if not word.startswith("whole number")]
    return " or ".join(words)


def _words(form: dict[str, Any]) -> str:
    if "group" in form:
        group = str(form["group"]).rsplit("/", 1)[-1]
        return f"[keys](#{group.lower()}-keys)"
    if "enum" in form:
        return ", ".join(map(code, form["enum"]))
    if "const" in form:
        return code(form["const"])
    if form.get("type") in ("integer", "number"):
        return _range(form)
    if form.get("type") == "boolean":
        return "`true`, `false`"
    if form.get("type") == "object":
        names = ", ".join(map(code, form.get("propertyNames", {}).get("enum", [])))
        return f"{{name: value}} with {names or 'names of yours'}"
    for ending, word in WRITTEN.items():
        if form.get("pattern", "").endswith(ending):
            return word
    return SPELLED.get(str(form.get("pattern")), "text")


def _range(form: dict[str, Any]) -> str:
    kind = "whole number" if form["type"] == "integer" else "number"
    least, most = form.get("minimum"), form.get("maximum")
    above = form.get("exclusiveMinimum")
    low = f" above {above:g}" if above is not None else f" from {least:,}" * (least is not None)
    return f"{kind}{low}" + (f" to {most:,}" if most is not None and most < 1e9 else "")


def _unit(field_name: str) -> str:
    for ending, word in UNITS.items():
        if field_name.endswith(ending):
            return word
    return ""


def _default(value: dict[str, Any]) -> str:
    default = value.get("default")
    if "default" not in value:
        return "must be given"
    if default is None or default in ("", [], {}):
        return "not set"
    shown = _flow(_sized(default, value))
    return code(shown) if len(shown) <= SHORT else "see its keys"


def _example(value: dict[str, Any], schema: dict[str, Any]) -> Any:
    """Its default, else an example of its type."""
    default = value.get("default")
    if default not in (None, "", [], {}) and len(_flow(default)) <= SHORT:
        return _sized(default, value)
    return _of_type(value, schema)


def _sized(default: Any, value: dict[str, Any]) -> Any:
    """Sizes as people write them: 4KiB, where the schema has 4096."""
    if WRITTEN_SIZE not in json.dumps(value):
        return default
    if isinstance(default, list):
        return [_sized(one, value) for one in default]
    if isinstance(default, int) and not isinstance(default, bool):
        return format_size(default).replace(" ", "")
    return default


def _of_type(value: dict[str, Any], schema: dict[str, Any]) -> Any:
    forms = list(_forms(value, schema))
    for form in forms:
        if form.get("type") == "object":
            names = form.get("propertyNames", {}).get("enum", ["name"])
            return {names[-1]: _of_type(form["additionalProperties"], schema)}
    for node in _nodes(value):
        if "examples" in node:
            return node["examples"][0]
    for form in forms:
        found = _of_form(form, schema)
        if found is not None:
            return found
    raise ValueError(f"give this key an example, `Field(examples=[...])`: {value}")


def _of_form(form: dict[str, Any], schema: dict[str, Any]) -> Any:
    if "group" in form:
        group = schema["$defs"][form["group"].rsplit("/", 1)[-1]]["properties"]
        name, first = next(iter(group.items()))
        return {name: _example(first, schema)}
    if "enum" in form:
        return form["enum"][-1]
    if form.get("type") == "array":
        return [_of_type(form["items"], schema)]
    if form.get("type") == "string" and "pattern" not in form:
        return "a few words"
    return {"integer": max(form.get("minimum", 1), 1), "number": 1000}.get(form.get("type", ""))


def _nodes(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
        for inner in node.values():
            yield from _nodes(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from _nodes(inner)


def _flow(value: Any) -> str:
    """As a profile writes it on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)
