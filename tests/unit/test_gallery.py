"""The gallery's browser: a real one, or a sentence before anything is run."""

from pathlib import Path

import pytest

from benchmarks import gallery

SNAP_STUB = """#!/bin/sh
if ! [ -x /snap/bin/chromium ]; then
    echo "please install the snap: snap install chromium" >&2
    exit 10
fi
exec /snap/bin/chromium "$@"
"""


def browser(place: Path, name: str, script: str) -> str:
    path = place / name
    path.write_text(script)
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(
        gallery,
        "which",
        lambda name: str(tmp_path / name) if (tmp_path / name).exists() else None,
    )
    return tmp_path


def test_a_browser_is_taken_before_ubuntus_stub_of_a_snap(programs: Path) -> None:
    browser(programs, "chromium-browser", SNAP_STUB)
    browser(programs, "chromium", SNAP_STUB)
    chrome = browser(programs, "google-chrome", "#!/bin/sh\n")

    assert gallery.a_browser() == chrome


def test_without_a_browser_nothing_is_run(
    programs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    browser(programs, "chromium", SNAP_STUB)
    (programs / "snap/bin").mkdir(parents=True)
    browser(programs / "snap/bin", "chromium", "")
    (programs / "google-chrome").symlink_to(programs / "snap/bin/chromium")
    monkeypatch.setattr(gallery, "GALLERY", programs / "gallery")

    assert gallery.main(["demo"]) == 4
    assert "pictures need chromium" in capsys.readouterr().err
    assert not (programs / "gallery").exists()
