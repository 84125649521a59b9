"""Every answer in JSON is as its published schema says."""

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from jsonschema import Draft202012Validator, ValidationError

from ssdbench.cli import main
from ssdbench.cli.documents import documents
from ssdbench.cli.main import COMMANDS, ssdbench
from tests.support.builders import a_small_run
from tests.support.documents import checked

NO_DOCUMENT = {"schema"}  # its answer is a schema itself
OF_RUN = {"resume": "run", **{f"kmod-{name}": "kmod" for name in
          ("build", "dkms", "load", "unload", "status")}}  # fmt: skip


def with_json(command: click.Command, name: str) -> Iterator[str]:
    if isinstance(command, click.Group):
        for below, one in command.commands.items():
            yield from with_json(one, f"{name}-{below}")
    elif any("--json" in parameter.opts for parameter in command.params):
        yield name


def test_every_command_that_answers_in_json_has_a_schema() -> None:
    context = click.Context(ssdbench)
    commands = {name: ssdbench.get_command(context, name) for name in COMMANDS}
    names = {one for name, found in commands.items() if found for one in with_json(found, name)}

    assert {OF_RUN.get(name, name) for name in names - NO_DOCUMENT} <= set(documents())


@pytest.mark.parametrize("name", list(documents()))
def test_every_schema_is_one_and_names_its_document_and_version(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["schema", name]) == 0
    schema = json.loads(capfd.readouterr().out)

    Draft202012Validator.check_schema(schema)
    assert schema["properties"]["document"]["const"] == name
    assert schema["properties"]["schema_version"]["const"] == 1
    assert {"document", "schema_version"} <= set(schema["required"])
    with pytest.raises(ValidationError):
        Draft202012Validator(schema).validate({"document": name, "schema_version": 1, "new": 1})


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("plan", ["plan", "demo"]),
        ("drives", ["drives"]),
        ("check", ["check"]),
        ("check", ["check", "sim:x25m-g2-160"]),
        ("restore", ["restore"]),
        ("report", ["report", "{run}"]),
        ("compare", ["compare", "{run}", "{other}"]),
        ("capacity", ["capacity", "{run}", "--iops", "1000"]),
        ("capacity", ["capacity", "{run}", "--iops", "1000", "--endurance", "600"]),
        ("completion", ["completion", "fish"]),
        ("latencies", ["latencies", "{log}"]),
        ("trace", ["trace", "{trace}"]),
        ("sim-models", ["sim", "models"]),
        ("sim-parameters", ["sim", "models", "--parameters"]),
        ("sim-create", ["sim", "create", "sim:x25m-g2-160,capacity=1GiB", "{new}"]),
        ("sim-inspect", ["sim", "inspect", "{state}"]),
        ("sim-snapshot", ["sim", "snapshot", "{state}", "{new}"]),
        ("sim-truth", ["sim", "truth", "sim:x25m-g2-160"]),
        ("kmod", ["kmod", "status"]),
        ("kmod", ["kmod", "dkms", "--to", "{sources}"]),
        ("error", ["retire", "sim:x25m-g2-160", "--method", "discard"]),
        ("error", ["stop", "{none}"]),
        ("error", ["attach", "{none}"]),
        ("error", ["plan", "{log}"]),
        ("error", ["donate", "{run}"]),
        ("error", ["capacity"]),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_an_answer_is_as_its_schema_says(
    name: str, arguments: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    places = {key: tmp_path / key for key in ("run", "other", "log", "none", "sources", "trace")}
    places |= {key: tmp_path / f"{key}.ssdb" for key in ("state", "new")}
    for key in ("run", "other"):
        if f"{{{key}}}" in arguments:
            a_small_run(places[key], run_id=key)
    places["trace"].write_text("time,offset,size,op\n0,0,4096,r\n0.5,4096,512,w\n")
    places["log"].write_text("1, 1000, 0, 4096\n2, 1100, 0, 4096\n" * 600)
    if "{state}" in arguments:
        assert (
            main.run(["sim", "create", "sim:x25m-g2-160,capacity=1GiB", str(places["state"])]) == 0
        )
        capfd.readouterr()

    main.run([*(word.format_map(places) for word in arguments), "--json"])

    checked(capfd.readouterr().out, name)


def test_the_names_of_all_schemas_are_listed(capfd: pytest.CaptureFixture[str]) -> None:
    assert main.run(["schema", "list"]) == 0
    assert capfd.readouterr().out.split() == ["profile", *documents()]
    assert main.run(["schema", "no-such"]) == 2
    assert "schema list" in capfd.readouterr().err
