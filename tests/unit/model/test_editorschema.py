"""Test the schema of profiles as an editor uses it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from ssdbench.cli.documents import document_schema
from ssdbench.model.loading import profile_schema
from ssdbench.model.profile import Profile

PROFILES = Path(__file__).parents[3] / "profiles"


def complaints(text: str) -> list[str]:
    validator = Draft202012Validator(profile_schema())
    return [
        f"{error.json_path}: {error.message}"
        for error in validator.iter_errors(YAML(typ="safe").load(text))
    ]


def with_default(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(node, dict):
        if "default" in node:
            yield path, node
        for key, value in node.items():
            if key != "default":
                yield from with_default(value, f"{path}/{key}")
    elif isinstance(node, list):
        for place, value in enumerate(node):
            yield from with_default(value, f"{path}/{place}")


def test_every_default_is_valid_under_its_own_schema() -> None:
    schema = profile_schema()
    wrong = []
    defaults = list(with_default(schema))
    for path, node in defaults:
        own = {key: value for key, value in node.items() if key != "default"}
        validator = Draft202012Validator({**own, "$defs": schema["$defs"]})
        wrong += [f"{path}: {error.message}" for error in validator.iter_errors(node["default"])]

    assert len(defaults) > 200
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        (
            "measure: [{sweep: {blocksize: 4KiB}}]",
            "$.measure[0].sweep:",
            "'blocksize' was unexpected",
        ),
        ("measure: [{sweep: {read: 300}}]", "$.measure[0].sweep.read:", "300 is greater than"),
        ("measure: [{sweep: {read: [0, 300]}}]", "$.measure[0].sweep.read[1]:", "300 is greater"),
        ("measure: [{sweep: 4KiB}]", "$.measure[0].sweep:", "'4KiB' is not of type 'object'"),
        ("measure: [{sweeep: {block: 4KiB}}]", "$.measure[0]:", "'sweeep' was unexpected"),
        ("settle: {window: 60}", "$.settle.window:", "60 is not of type 'string'"),
    ],
)
def test_an_editor_hears_which_key_is_wrong_and_nothing_else(
    text: str, place: str, said: str
) -> None:
    (complaint,) = complaints(text)

    assert complaint.startswith(place)
    assert said in complaint


@pytest.mark.parametrize(
    "text", ["measure: [{sweep: }]", "measure: [{sweep: {block: [4KiB, 1MiB]}}]"]
)
def test_an_editor_takes_what_the_loader_takes(text: str) -> None:
    assert complaints(text) == []


@pytest.mark.parametrize("path", sorted(PROFILES.rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_profile_fits_the_schema(path: Path) -> None:
    assert complaints(path.read_text()) == []


def test_the_schema_explains_every_key() -> None:
    schema = profile_schema()

    models = [schema, *(d for d in schema["$defs"].values() if "properties" in d)]
    silent = [
        f"{model['title']}.{key}"
        for model in models
        for key, body in model["properties"].items()
        if "description" not in body
    ]
    assert silent == []
    assert set(schema["properties"]) == {
        field.alias or name for name, field in Profile.model_fields.items()
    }


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("Schedulers", "Passes over all variants and workloads."),  # of the class above it
        ("LatencyPath", "Passes over all schedulers and workloads."),  # in place of that one
    ],
)
def test_an_editor_shows_the_text_below_a_key(model: str, said: str) -> None:
    assert profile_schema()["$defs"][model]["properties"]["repeats"]["description"] == said


def test_a_key_of_a_profile_has_its_text_in_an_answer_too() -> None:
    body = document_schema("run")["$defs"]["LbaFormat"]["properties"]["data_bytes"]
    assert body["description"] == "Size of a logical block."
