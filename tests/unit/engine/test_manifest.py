import pytest

from ssdbench.engine.manifest import manifest
from ssdbench.engine.stage import Limits
from ssdbench.model.target import TargetInfo, TargetKind


@pytest.mark.parametrize("generator", ["fio 3.33", "ssdb_slam, random fills by fio 3.33"])
def test_a_run_keeps_what_sends_its_requests_and_the_version_of_fio(generator: str) -> None:
    kept = manifest(
        run_id="r", title="t", argv=[], profile_name="p", profile_text="", seed=1,
        target=TargetInfo(kind=TargetKind.FILE, name="f", node="f", id="f", size_bytes=1 << 20),
        limits=Limits(), destroy_id=None, overwrite_signatures=False, generator=generator,
    )  # fmt: skip

    assert kept.host["generator"] == generator
    assert kept.versions["fio"] == "3.33"
    assert all("slam" not in name for name in kept.versions)
