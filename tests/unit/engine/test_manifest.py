import json
from pathlib import Path

import pytest

from ssdbench.engine.manifest import Manifest, manifest
from ssdbench.engine.stage import Limits
from ssdbench.engine.store import load
from ssdbench.model.target import Consent, TargetInfo, TargetKind


def a_manifest(generator: str) -> Manifest:
    return manifest(
        run_id="r", title="t", argv=[], profile_name="p", profile_text="", seed=1,
        target=TargetInfo(kind=TargetKind.FILE, name="f", node="f", id="f", size_bytes=1 << 20),
        limits=Limits(), consent=Consent(), generator=generator,
    )  # fmt: skip


@pytest.mark.parametrize("generator", ["fio 3.33", "ssdb_slam, random fills by fio 3.33"])
def test_a_run_keeps_what_sends_its_requests_and_the_version_of_fio(generator: str) -> None:
    kept = a_manifest(generator)

    assert kept.host["generator"] == generator
    assert kept.versions["fio"] == "3.33"
    assert all("slam" not in name for name in kept.versions)


def test_a_manifest_of_schema_1_keeps_the_consent_that_was_given(tmp_path: Path) -> None:
    stored = a_manifest("fio 3.33").model_dump(mode="json")
    del stored["consent"]
    stored |= {
        "schema_version": 1, "destroy_id": "eui.1", "overwrite_signatures": True,
        "accept_shared": False, "accept_wear": True,
    }  # fmt: skip
    (tmp_path / "manifest.json").write_text(json.dumps(stored))

    read = load(tmp_path / "manifest.json", Manifest)

    assert read.consent == Consent(identity="eui.1", overwrite=True, wear=True)
    assert Manifest.model_validate_json(read.model_dump_json()) == read
