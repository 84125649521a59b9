"""The JSON Schema of profiles, made so that an editor's complaint names the key that is wrong."""

from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from ssdbench.model.profile import Profile


def profile_schema() -> dict[str, Any]:
    """The JSON Schema of profiles, for editors."""
    schema = Profile.model_json_schema(by_alias=True, schema_generator=_Generator)
    told_apart: dict[str, Any] = _told_apart(schema, schema["$defs"])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **told_apart}


class _Generator(GenerateJsonSchema):
    """Defaults as a profile writes them: `60s`, where the model has 60.0."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        made = super().model_schema(schema)
        # Keys that have no default are left out, and so is what is not set unless it is asked for.
        model = schema["cls"].model_construct()
        written = model.model_dump(mode="json", by_alias=True, exclude_none=True)
        for key, body in made.get("properties", {}).items():
            if "default" in body and key in written:
                body["default"] = written[key]
        return made


def _told_apart(node: Any, definitions: dict[str, Any]) -> Any:
    """A mapping or a list is told from what else may stand there by its type.

    Of `anyOf` a validator only says that none of it fits; of `if` and `else`, what does not.
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
    """The type of a form that has one; empty where it is a choice itself."""
    if "$ref" in form:
        form = definitions[form["$ref"].rsplit("/", 1)[-1]]
    found: str = form.get("type", "")
    return found
