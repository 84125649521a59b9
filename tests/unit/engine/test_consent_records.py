"""Root goes on with a run that this host's own record names, and with no other."""

import os
from pathlib import Path

import pytest

from ssdbench.engine import resumeconsent
from ssdbench.engine.manifest import Manifest
from ssdbench.engine.resumeconsent import ConsentRecords, ContentCheck, consent_to_go_on
from ssdbench.errors import HostLacks, TargetRefused
from ssdbench.host.files import make_private_directory
from ssdbench.model.target import Consent, TargetInfo, TargetKind
from ssdbench.target import guard
from ssdbench.target.objection import DATA, OVERWRITE, Objection
from tests.support.builders import a_manifest

DRIVE = TargetInfo(
    kind=TargetKind.DRIVE, name="/dev/sda", node="/dev/sda", id="naa.1", size_bytes=1 << 20
)
NOTHING = Consent()


@pytest.fixture(autouse=True)
def root_and_an_idle_drive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumeconsent, "needs_record", lambda info: not info.simulated)
    monkeypatch.setattr(guard, "standing", lambda info, consent=NOTHING: [])
    monkeypatch.setattr("ssdbench.target.content.objections", lambda info: [])


@pytest.fixture
def kept() -> Manifest:
    return a_manifest(target=DRIVE, consent=Consent(identity=DRIVE.id, shared=True))


def gone_on(kept: Manifest, agreement: ConsentRecords, given: Consent = NOTHING) -> Consent:
    """As `resume` does, of a manifest that was stored; the journal says that all is ours."""
    stored = Manifest.model_validate_json(kept.model_dump_json())
    return consent_to_go_on(stored, DRIVE, given, agreement, ours=True)


def test_a_recorded_run_goes_on_as_it_was_agreed_to(kept: Manifest, tmp_path: Path) -> None:
    ConsentRecords(tmp_path / "runs").note(kept)

    consent = gone_on(kept, ConsentRecords(tmp_path / "runs"))

    assert consent == Consent(identity=DRIVE.id, shared=True, data=True)


@pytest.mark.parametrize(
    "change",
    [
        {"run_id": "other"},
        {"profile_text": "title: U\n"},
        {"consent": Consent(identity=DRIVE.id, shared=True, overwrite=True)},
        {"target": DRIVE.model_copy(update={"node": "/dev/sdb"})},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_manifest_that_was_changed_is_another_one(
    kept: Manifest, tmp_path: Path, change: dict[str, object]
) -> None:
    ConsentRecords(tmp_path / "runs").note(kept)

    with pytest.raises(TargetRefused, match="no record that root agreed") as refusal:
        gone_on(kept.model_copy(update=change), ConsentRecords(tmp_path / "runs"))

    assert refusal.value.options == ("--destroy", DRIVE.id)


def test_signatures_are_our_own_when_the_record_says_so(kept: Manifest, tmp_path: Path) -> None:
    agreement = ConsentRecords(tmp_path / "runs")
    agreement.note(kept)
    before = gone_on(kept, ConsentRecords(tmp_path / "runs"))

    agreement.note_signatures()

    assert not before.overwrite
    assert gone_on(kept, ConsentRecords(tmp_path / "runs")).overwrite


def test_what_is_typed_counts_without_a_record_and_nothing_of_the_manifest_does(
    kept: Manifest, tmp_path: Path
) -> None:
    typed = Consent(identity=DRIVE.id)

    assert gone_on(kept, ConsentRecords(tmp_path / "runs"), typed) == typed


def test_a_record_that_others_can_write_is_refused(kept: Manifest, tmp_path: Path) -> None:
    ConsentRecords(tmp_path / "runs").note(kept)
    (record,) = (tmp_path / "runs").glob("*.json")
    record.chmod(0o666)

    with pytest.raises(HostLacks, match="other users can write"):
        gone_on(kept, ConsentRecords(tmp_path / "runs"))


@pytest.mark.parametrize(("umask", "mode"), [(0, 0o755), (0o002, 0o755), (0o077, 0o700)])
def test_directories_of_records_are_private_whatever_the_umask(
    tmp_path: Path, umask: int, mode: int
) -> None:
    was = os.umask(umask)
    try:
        make_private_directory(tmp_path / "state" / "settings")
    finally:
        os.umask(was)

    made = (tmp_path / "state", tmp_path / "state" / "settings")
    assert [path.stat().st_mode & 0o777 for path in made] == [mode, mode]


# --- what came since ------------------------------------------------------------------------------

CAME = ContentCheck(against=(Objection("its data changed since", DATA),))
MADE = ContentCheck(against=(Objection("the signature of ext4 appeared since", OVERWRITE),))


@pytest.fixture
def allowed(kept: Manifest, tmp_path: Path) -> tuple[Manifest, ConsentRecords]:
    """A run whose first call allowed all that was there then."""
    all_of_it = Consent(identity=DRIVE.id, shared=True, overwrite=True, data=True)
    manifest = kept.model_copy(update={"consent": all_of_it})
    ConsentRecords(tmp_path / "runs").note(manifest)
    return manifest, ConsentRecords(tmp_path / "runs")


@pytest.mark.parametrize("left", [CAME, MADE], ids=["data", "signature"])
def test_what_came_since_is_not_covered_by_what_the_first_call_allowed(
    allowed: tuple[Manifest, ConsentRecords], left: ContentCheck
) -> None:
    manifest, agreement = allowed

    with pytest.raises(TargetRefused, match="since") as refusal:
        consent_to_go_on(manifest, DRIVE, NOTHING, agreement, ours=True, left=left)

    assert refusal.value.options == left.against[0].option


def test_what_came_since_is_covered_by_what_this_call_says_and_by_no_more(
    allowed: tuple[Manifest, ConsentRecords],
) -> None:
    manifest, agreement = allowed

    consent = consent_to_go_on(manifest, DRIVE, Consent(data=True), agreement, ours=True, left=CAME)

    assert (consent.identity, consent.data, consent.overwrite) == (DRIVE.id, True, False)


def test_a_command_that_is_called_again_and_again_names_the_one_that_would_erase_it(
    allowed: tuple[Manifest, ConsentRecords],
) -> None:
    manifest, agreement = allowed
    same = Consent(identity=DRIVE.id, overwrite=True, data=True)

    with pytest.raises(TargetRefused, match="since") as refusal:
        consent_to_go_on(
            manifest, DRIVE, same, agreement, ours=True, left=CAME, again="ssdbench resume RUN"
        )

    assert refusal.value.options == ()
    assert "`ssdbench resume RUN --overwrite-data`" in refusal.value.hint


def test_a_drive_that_is_known_by_its_place_goes_on_with_what_the_run_left_there(
    kept: Manifest, tmp_path: Path
) -> None:
    """Consent named what it held before the run, and the run has written over that."""
    before, now = (DRIVE.model_copy(update={"content": digest}) for digest in ("aaa", "bbb"))
    manifest = kept.model_copy(
        update={"target": before, "consent": Consent(identity=before.consent_id)}
    )
    ConsentRecords(tmp_path / "runs").note(manifest)

    consent = consent_to_go_on(
        manifest, now, NOTHING, ConsentRecords(tmp_path / "runs"), ours=False
    )

    assert consent.identity == now.consent_id == f"{DRIVE.id}+content.bbb"
