"""Turn the text of a profile into a Profile, or list each mistake with its line and column.

`profile_hash` tells whether two runs have the same profile. `profile_schema` is the JSON Schema for
editors; the schema is written so that an editor's message names the wrong key.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import ErrorDetails, core_schema

from ssdbench.errors import Diagnostic, ProfileError
from ssdbench.foreign import brief
from ssdbench.model.base import Mistake, key_texts
from ssdbench.model.profile import SPELLED, Profile
from ssdbench.model.result import RunResult
from ssdbench.model.yamltext import Document, Path, dotted, read
from ssdbench.units import MOST_GIVEN

M = TypeVar("M", bound=BaseModel)

HINT = "`ssdbench schema` prints every key with its meaning and default."


ANOTHER = "Change it in the profile, or name another target with --target."

_LIMITS = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("at most", "le"),
}
_KINDS = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "string_type": "text",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "model_type": "keys with values",
    "model_attributes_type": "keys with values",
    "dict_type": "keys with values",
    "string_too_short": "some text",
    "too_short": "at least one value",
}


def load_profile(text: str, file: str) -> Profile:
    """Read a profile. `file` is the name of the profile in messages.

    Raises ProfileError with all mistakes at once, in the order of the file.
    """
    return load(text, file, Profile, hint=HINT)


def load(text: str, file: str, kind: type[M], *, hint: str = "") -> M:
    """Read a YAML file as a model of type `kind`. Raises ProfileError with all mistakes."""
    document = read(text, file)
    found = None
    if not document.diagnostics or document.data is not None:
        found = _validate(document, kind)
    if document.diagnostics or found is None:
        raise ProfileError(_ordered(document.diagnostics), hint=hint)
    return found


def misfit_error(
    text: str, file: str, mistakes: Sequence[Mistake], *, hint: str = ANOTHER
) -> ProfileError:
    """Return the error, with places, for mistakes that are found only when the target is known."""
    document = read(text, file)
    for path, message in mistakes:
        if path[0] == "measure" and ("measure",) not in document.values:
            path = ("plan", "block")  # the question decides the measurements
        # A list of one element may be written without brackets; then the path lacks its last part.
        stands = path if path in document.values else path[:-1]
        document.complain(document.value_at(stands), message, key=dotted(path))
    return ProfileError(_ordered(document.diagnostics), hint=hint)


def _validate(document: Document, kind: type[M]) -> M | None:
    data = document.data
    if data is None:
        document.complain(document.value_at(()), f"the {kind.__name__.lower()} is empty")
        return None
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        for details in error.errors(include_url=False):
            if document.full:
                break
            # If the only element of a list is wrong, pydantic also reports a list that is too
            # short.
            if details["type"] != "too_short" or not details["input"]:
                _explain(document, details, kind)
    return None


def _ordered(diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    unique = dict.fromkeys(diagnostics)
    return sorted(unique, key=lambda found: (found.line, found.column))


def _explain(document: Document, details: ErrorDetails, model: type[BaseModel]) -> None:
    path = _known_path(document, details["loc"])
    kind = details["type"]
    if kind == "mistakes":
        for below, message in details["ctx"]["mistakes"]:
            where = (*path, *below)
            document.complain(document.value_at(where), message, key=dotted(where))
    elif kind == "extra_forbidden":
        document.complain(document.key_at(path), _unknown_key(path, model))
    elif kind == "missing":
        name = details["loc"][-1]
        inside = path[:-1] if path and path[-1] == name else path  # `- mix:` has nothing below it
        document.complain(document.value_at(inside), f"missing key '{dotted((*inside, name))}'")
    else:
        document.complain(document.value_at(path), _sentence(details), key=dotted(path))


def _known_path(document: Document, location: tuple[int | str, ...]) -> Path:
    """Return the longest part of pydantic's location that exists in the file."""
    path: Path = ()
    last = len(location) - 1
    for index, part in enumerate(location):
        longer = (*path, part)
        if longer in document.values or longer in document.keys:
            path = longer
        elif index == last and isinstance(part, str) and "[" not in part and "-" not in part:
            children = [known for known in document.values if known[: len(path)] == path]
            if len(children) > 1 or not path:
                path = longer
    return path


def _sentence(details: ErrorDetails) -> str:
    kind, given, context = details["type"], details["input"], details.get("ctx", {})
    if kind in _LIMITS:
        word, key = _LIMITS[kind]
        return f"must be {word} {context[key]:g}, got {_shown(given)}"
    if kind in ("enum", "literal_error"):
        return _not_one_of(str(context["expected"]), given)
    if kind == "string_pattern_mismatch":
        return f"must be {SPELLED.get(context['pattern'], context['pattern'])}, got {_shown(given)}"
    if kind in _KINDS:
        return f"must be {_KINDS[kind]}, got {_shown(given)}"
    return details["msg"].removeprefix("Value error, ")


def mistake_in_words(details: ErrorDetails) -> str:
    """Return one error of pydantic as a sentence that begins with the key."""
    path, why = details["loc"], ""
    if details["type"] == "mistakes":
        path, why = details["ctx"]["mistakes"][0]
    return f"{dotted(path)}: {why or _sentence(details)}"


def _shown(given: object) -> str:
    if isinstance(given, Mapping):
        return "keys with values"
    if isinstance(given, list | tuple):
        return "an empty list" if not given else "a list"
    return "nothing" if given is None or given == "" else brief(repr(given), MOST_GIVEN)


def _not_one_of(expected: str, given: object) -> str:
    choices = [word.strip("' ") for word in expected.replace(" or ", ", ").split(",")]
    meant = _did_you_mean(str(given), choices)
    return f"must be one of {', '.join(choices)}, got {_shown(given)}{meant}"


def _unknown_key(path: Path, model: type[BaseModel]) -> str:
    key = brief(str(path[-1]), MOST_GIVEN)
    known = list(_keys_at(model, path[:-1]))
    meant = _did_you_mean(key, known)
    where = f" in {dotted(path[:-1])}" if len(path) > 1 else ""
    choices = f" (known: {', '.join(known)})"
    return f"unknown key '{key}'{where}{meant or choices}"


def _did_you_mean(word: str, choices: Sequence[str]) -> str:
    if len(word) > MOST_GIVEN:
        return ""
    close = difflib.get_close_matches(word, choices, n=1, cutoff=0.6)
    return f" (did you mean '{close[0]}'?)" if close else ""


def _keys_at(model: type[BaseModel], path: Path) -> Iterator[str]:
    """Yield the keys that are allowed at `path`, from the JSON Schema of the model."""
    schema = _schema(model)
    definitions = schema.get("$defs", {})
    nodes = [schema]
    for part in path:
        nodes = [child for node in _expanded(nodes, definitions) for child in _children(node, part)]
    for node in _expanded(nodes, definitions):
        yield from node.get("properties", ())


@cache
def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema(by_alias=True)


def _expanded(nodes: Sequence[Any], definitions: Mapping[str, Any]) -> Iterator[Any]:
    for node in nodes:
        if "$ref" in node:
            yield from _expanded([definitions[node["$ref"].rsplit("/", 1)[1]]], definitions)
        elif "anyOf" in node:
            yield from _expanded(node["anyOf"], definitions)
        else:
            yield node


def _children(node: Mapping[str, Any], part: str | int) -> Iterator[Any]:
    if isinstance(part, int):
        if "items" in node:
            yield node["items"]
    elif part in node.get("properties", {}):
        yield node["properties"][part]


# These keys do not change how a drive is measured.
_APART = {"title", "target", "seed", "plan", "rated", "accept"}


def profile_hash(result: RunResult) -> str:
    """Hash the measuring part of a run's profile. Runs with equal hashes may be merged.

    Comments, formatting, title, target, seed, plan, rated and `accept` do not change the hash.
    Default values and a budget of time or wear change the hash. If this version cannot read the
    profile, the hash is computed from its text.
    """
    try:
        asked = load_profile(result.profile_text, "the stored profile")
        text = asked.model_dump_json(exclude=_APART)
    except ProfileError:
        text = result.profile_text
    budget = result.budget
    cuts = [] if budget is None else [*budget.limits, *budget.cuts]
    return sha256("\n".join([text, *cuts]).encode()).hexdigest()


def profile_schema() -> dict[str, Any]:
    """Return the JSON Schema of profiles, for editors."""
    schema = Profile.model_json_schema(by_alias=True, schema_generator=_Generator)
    told_apart: dict[str, Any] = _told_apart(schema, schema["$defs"])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **told_apart}


class _Generator(GenerateJsonSchema):
    """Write each default value as a profile would have it, such as `60s` for the number 60.0."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        made = super().model_schema(schema)
        # A key without a default, or with the default None, keeps the text that pydantic wrote.
        model = schema["cls"].model_construct()
        written = model.model_dump(mode="json", by_alias=True, exclude_none=True)
        texts = key_texts(schema["cls"])
        for key, body in made.get("properties", {}).items():
            if "default" in body and key in written:
                body["default"] = written[key]
            fields = schema["cls"].model_fields
            name = next(name for name, f in fields.items() if key in (name, f.alias))
            said = texts.get(name) or body.get("description") or _said_of(fields[name])
            if said:
                body["description"] = " ".join(said.split())
        return made


def _said_of(field: FieldInfo) -> str:
    """Return the docstring of a key's model; used if the key itself has no description."""
    for kind in (field.annotation, *get_args(field.annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return (kind.__doc__ or "").split("\n\n")[0]
    return ""


def _told_apart(node: Any, definitions: dict[str, Any]) -> Any:
    """Select the form of a value by its type: write `if` and `else` instead of `anyOf`.

    With `anyOf`, a validator only says that no form fits; with `if` and `else` it names the
    mistake.
    """
    if isinstance(node, list):
        return [_told_apart(one, definitions) for one in node]
    if not isinstance(node, dict):
        return node
    whole = {key: _told_apart(value, definitions) for key, value in node.items()}
    forms = whole.get("anyOf", [])
    holding = [form for form in forms if _type(form, definitions) in ("object", "array")]
    if len(holding) != 1:
        return whole
    del whole["anyOf"]
    single = [form for form in forms if form not in (*holding, {"type": "null"})]
    wanted = holding[0]
    if single:
        other = single[0] if len(single) == 1 else {"anyOf": single}
        wanted = {"if": {"type": _type(wanted, definitions)}, "then": wanted, "else": other}
    if {"type": "null"} in forms:
        wanted = {"if": {"not": {"type": "null"}}, "then": wanted}
    return {**whole, **wanted}


def _type(form: dict[str, Any], definitions: dict[str, Any]) -> str:
    """Return the JSON type of one form of a value; "" if the form is itself a choice of forms."""
    if "$ref" in form:
        form = definitions[form["$ref"].rsplit("/", 1)[-1]]
    found: str = form.get("type", "")
    return found
