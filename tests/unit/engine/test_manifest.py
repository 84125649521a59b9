import json
from pathlib import Path

import pytest

from ssdbench.engine.manifest import Manifest, versions
from ssdbench.engine.store import load
from ssdbench.errors import UsageError
from tests.support.builders import a_manifest


@pytest.mark.parametrize("generator", ["fio 3.33", "ssdb_slam, random fills by fio 3.33"])
def test_a_run_keeps_the_version_of_fio(generator: str) -> None:
    found = versions(generator)

    assert found["fio"] == "3.33"
    assert all("slam" not in name for name in found)


def test_a_manifest_of_schema_1_is_refused_with_the_version_to_use(tmp_path: Path) -> None:
    stored = a_manifest().model_dump(mode="json")
    del stored["consent"]
    stored |= {"schema_version": 1, "destroy_id": "eui.1", "overwrite_signatures": True}
    (tmp_path / "manifest.json").write_text(json.dumps(stored))

    with pytest.raises(UsageError, match="has schema 1, and this ssdbench reads") as refused:
        load(tmp_path / "manifest.json", Manifest)

    assert "Use ssdbench 1.0.0 for it" in refused.value.hint
