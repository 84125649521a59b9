import json
from pathlib import Path

import pytest

from ssdbench.engine.manifest import Manifest, manifest
from ssdbench.engine.stage import Limits
from ssdbench.engine.store import load
from ssdbench.errors import UsageError
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


def test_a_manifest_of_schema_1_is_refused_with_the_version_to_use(tmp_path: Path) -> None:
    stored = a_manifest("fio 3.33").model_dump(mode="json")
    del stored["consent"]
    stored |= {"schema_version": 1, "destroy_id": "eui.1", "overwrite_signatures": True}
    (tmp_path / "manifest.json").write_text(json.dumps(stored))

    with pytest.raises(UsageError, match="has schema 1, and this ssdbench reads") as refused:
        load(tmp_path / "manifest.json", Manifest)

    assert "Use ssdbench 1.0.0 for it" in refused.value.hint
