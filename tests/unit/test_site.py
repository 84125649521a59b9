"""What the site makes from the code is complete, and its examples are true."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import TypeAdapter
from ruamel.yaml import YAML

from docs.siteparts import (
    answers,
    commands,
    exits,
    findings,
    keys,
    models,
    outside,
    profiles,
    terms,
)
from docs.siteparts.keys import Key
from ssdbench import errors
from ssdbench.cli import background, main
from ssdbench.cli.documents import documents
from ssdbench.cli.main import COMMANDS
from ssdbench.cli.sim import RESTS
from ssdbench.model.finding import Code, Severity
from ssdbench.sim.modelfile import embedded_models
from ssdbench.sim.truth import Rest

DOCS = Path(__file__).parents[2] / "docs"
KEYS = list(keys.every_key())
GROUPS = ("sim", "kmod", "lab", "fleet", "store")  # whose commands have the sections


def test_every_key_of_a_profile_says_what_it_means() -> None:
    assert len(KEYS) > 150
    assert [f"{k.model}.{k.name}" for k in KEYS if len(k.meaning) < 8 or "None" in k.values] == []


def test_every_example_of_a_key_can_be_read_by_that_key() -> None:
    refused = [told for key in KEYS if (told := refusal(key))]

    assert refused == []


def refusal(key: Key) -> str:
    _, field = keys.field_of(key.model, key.name)
    value = YAML(typ="safe").load(key.example)[key.name]
    if "keys" in key.values:  # a group: its keys have examples of their own
        return ""
    try:
        TypeAdapter(field.rebuild_annotation()).validate_python(value)
    except ValueError as error:
        return f"{key.model}: {key.example}: {error}"
    return ""


@pytest.mark.parametrize(
    ("page", "names"),
    [
        (commands.page, [name for name in COMMANDS if name not in GROUPS]),
        (answers.page, list(documents())),
        (findings.page, [code.value for code in Code]),
        (models.page, list(embedded_models())),
        (profiles.page, ["demo", "quick", "pessimistic"]),
    ],
    ids=["commands", "documents", "findings", "models", "profiles"],
)
def test_the_reference_has_a_section_for_each(page: Callable[[], str], names: list[str]) -> None:
    sections = re.findall(r"^## (.+)$", page(), re.MULTILINE)

    assert [name for name in names if name not in sections] == []


def test_what_lies_outside_a_span_has_the_names_of_the_truth() -> None:
    assert set(RESTS) == {rest.value for rest in Rest}


def test_every_kind_of_finding_is_explained_and_says_what_to_do() -> None:
    silent = [
        kind.__name__
        for kind in findings.kinds()
        if len(kind.__doc__ or "") < 15
        or not (findings.remedy(kind) or {s.value for s in kind.severities} == {"notes"})
    ]

    assert silent == []


def test_the_page_on_invalid_results_knows_every_reason() -> None:
    text = (DOCS / "howto" / "not-validated.md").read_text()

    reasons = {k.code.value for k in findings.kinds() if Severity.INVALIDATES in k.severities}

    assert len(reasons) >= 20
    assert sorted(reason for reason in reasons if f"`{reason}`" not in text) == []


def test_the_manual_tells_the_exit_code_of_every_error() -> None:
    told = {number for numbers, _ in exits.told() for number in numbers}
    raised = {
        str(kind.exit_code)
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.SsdbenchError)
    }

    assert len(raised) >= 5
    assert raised <= told
    assert told >= set(
        map(str, [main.EXIT_BUG, main.EXIT_BROKEN_PIPE, background.EXIT_TARGET_MISSED])
    )
    assert exits.page().count("\n| `") == len(exits.told())


def test_a_term_is_found_where_it_is_a_word_of_its_own() -> None:
    assert terms.pattern("target").search("Two targets are given")
    assert not terms.pattern("target").search("the non-target side")
    assert terms.pattern("run").search("a run ends")
    assert not terms.pattern("run").search("fio can run there")


def test_every_term_of_the_glossary_has_a_place_to_lead_to() -> None:
    text = (DOCS / "terms.md").read_text()

    placed = terms.with_anchors(text)

    assert len(terms.glossary(text)) >= 20
    assert [t for t in terms.glossary(text) if f"{{#{terms.anchor(t)}}}" not in placed] == []


def test_a_link_out_of_the_documents_becomes_a_path() -> None:
    said = "[core](../kmod/ftl/README.md), [findings](findings.md), ![](../reports/x.png)"

    assert outside.as_paths(said, DOCS / "host.md", DOCS) == (
        "core (`kmod/ftl/README.md`), [findings](findings.md), ![](../reports/x.png)"
    )
