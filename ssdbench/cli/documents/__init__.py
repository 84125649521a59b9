"""What each command answers with --json: one type per document, and its published JSON Schema.

Every document says in `document` which one it is and in `schema_version` which form of it. A new
field does not raise the version; a field that goes, or that changes its meaning or type, does. A
number that is not finite is null.
"""

from importlib import import_module
from typing import Any, Self

from pydantic import BaseModel, ConfigDict
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

DIALECT = "https://json-schema.org/draft/2020-12/schema"

# Document, by its name: (module below this package, type). The name is that of the command.
DOCUMENTS = {
    "run": ("runs", "Ran"),
    "run-detached": ("runs", "Detached"),
    "run-several": ("runs", "RanSeveral"),
    "plan": ("runs", "Planned"),
    "detect-blocksize": ("runs", "BlockSizeAnswered"),
    "probe": ("runs", "Probed"),
    "report": ("stored", "Rendered"),
    "compare": ("stored", "Compared"),
    "compare-population": ("stored", "ComparedLots"),
    "merge": ("stored", "Merged"),
    "capacity": ("stored", "CapacityPlanned"),
    "capacity-candidates": ("stored", "Candidates"),
    "capacity-lot": ("stored", "LotPlanned"),
    "latencies": ("stored", "Latencies"),
    "trace": ("stored", "Traced"),
    "donate": ("stored", "Donated"),
    "drives": ("machine", "Drives"),
    "check": ("machine", "Checked"),
    "restore": ("machine", "Restored"),
    "retire": ("machine", "Retired"),
    "attach": ("runs", "Attached"),
    "stop": ("runs", "Stopped"),
    "completion": ("machine", "Completion"),
    "sim-models": ("simulated", "Models"),
    "sim-parameters": ("simulated", "Parameters"),
    "sim-create": ("simulated", "Created"),
    "sim-inspect": ("simulated", "Inspected"),
    "sim-snapshot": ("simulated", "Snapshot"),
    "sim-restore": ("simulated", "BroughtBack"),
    "sim-serve": ("simulated", "Served"),
    "sim-truth": ("simulated", "TrueValues"),
    "kmod": ("machine", "Modules"),
    "fleet-plan": ("machine", "FleetPlanned"),
    "fleet-run": ("machine", "FleetRan"),
    "fleet-status": ("machine", "FleetStatus"),
    "fleet-stop": ("machine", "FleetStopped"),
    "store-add": ("stored", "StoreAdded"),
    "store-check": ("stored", "StoreChecked"),
    "store-compact": ("stored", "StoreCompacted"),
    "store-sign": ("stored", "StoreSigned"),
    "query": ("stored", "Queried"),
    "lab-run": ("machine", "RanInGuest"),
    "error": ("machine", "Failed"),
}


class Part(BaseModel):
    """A part of a document; a key that its schema does not name is a mistake of ours."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def of(cls, source: object, **others: Any) -> Self:
        """Make it from the attributes of an object; `others` are those that differ."""
        names = [name for name in cls.model_fields if name not in others]
        known = {name: getattr(source, name) for name in names if hasattr(source, name)}
        return cls(**known, **others)


class Document(Part):
    """The answer of a command; each type adds `document` and `schema_version`."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)


def document_schema(name: str) -> dict[str, Any]:
    """The JSON Schema of a document. Raises KeyError for a name that is not in DOCUMENTS."""
    module, kind = DOCUMENTS[name]
    made: type[Document] = getattr(import_module(f"{__name__}.{module}"), kind)
    schema = made.model_json_schema(
        mode="serialization", by_alias=False, schema_generator=_Generator
    )
    return {"$schema": DIALECT, **schema}


class _Generator(GenerateJsonSchema):
    """JSON has no infinity: where a number may be a fraction, it may also be null."""

    def float_schema(self, schema: core_schema.FloatSchema) -> JsonSchemaValue:
        return {**super().float_schema(schema), "type": ["number", "null"]}
