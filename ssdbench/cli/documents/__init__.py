"""Describe the JSON documents that commands print with --json, and publish their JSON Schemas.

The field `document` of each document has its name, and `schema_version` its version. A new field
does not change the version. A removed field, or a field with another meaning or type, raises the
version. Infinity and NaN become null.
"""

from functools import cache
from importlib import import_module
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from ssdbench.model.base import key_texts

DIALECT = "https://json-schema.org/draft/2020-12/schema"

MODULES = ("runs", "stored", "machine", "simulated")  # of this package, with the types


class Part(BaseModel):
    """A part of a document; a key that the schema does not name is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def of(cls, source: object, **others: Any) -> Self:
        """Copy the fields from attributes of `source`; `others` has the fields that differ."""
        names = [name for name in cls.model_fields if name not in others]
        known = {name: getattr(source, name) for name in names if hasattr(source, name)}
        return cls(**known, **others)


class ModelPart(Part):
    """A model of a simulated drive."""

    target: str
    title: str
    capacity_bytes: int
    simulated_bytes: int
    simulated: dict[str, float]
    differences: tuple[str, ...]
    sources: tuple[str, ...]


class Document(Part):
    """The answer of a command; each subclass sets its own name in `document`."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

    document: str
    schema_version: Literal[1] = 1


@cache
def documents() -> dict[str, type[Document]]:
    """Return the class of each document, by the value of its field `document`."""
    modules = [import_module(f"{__name__}.{module}") for module in MODULES]
    found = [value for module in modules for value in vars(module).values()]
    kinds = [kind for kind in found if isinstance(kind, type) and issubclass(kind, Document)]
    fields = [(kind.model_fields["document"], kind) for kind in kinds]
    return {field.default: kind for field, kind in fields if not field.is_required()}


def document_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of a document. Raises KeyError for an unknown name."""
    schema = documents()[name].model_json_schema(
        mode="serialization", by_alias=False, schema_generator=_Generator
    )
    return {"$schema": DIALECT, **schema}


class _Generator(GenerateJsonSchema):
    """Add what profile keys mean, and allow null for each float.

    JSON cannot express infinity.
    """

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        made = super().model_schema(schema)
        for name, text in key_texts(schema["cls"]).items():
            if text and name in made.get("properties", {}):
                made["properties"][name]["description"] = text
        return made

    def float_schema(self, schema: core_schema.FloatSchema) -> JsonSchemaValue:
        return {**super().float_schema(schema), "type": ["number", "null"]}
