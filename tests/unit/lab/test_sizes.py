from pathlib import Path

import pytest

from ssdbench.lab.archive import is_whole, note_sizes


@pytest.fixture
def made(tmp_path: Path) -> Path:
    folder = tmp_path / "made"
    (folder / "of it").mkdir(parents=True)
    (folder / "of it" / "a file").write_bytes(b"x" * 4096)
    (folder / "empty").touch()
    (folder / "link").symlink_to("nowhere")
    return folder


def test_what_is_as_long_as_it_was_is_whole(made: Path, tmp_path: Path) -> None:
    note_sizes(made)
    note_sizes(made / "empty")
    (made / "made later").touch()

    assert is_whole(made)
    assert is_whole(made / "empty")
    assert not is_whole(tmp_path / "never made")


@pytest.mark.parametrize("cut", [0, 2048])
def test_a_file_that_was_cut_or_is_gone_is_noticed(made: Path, cut: int) -> None:
    file = made / "of it" / "a file"
    note_sizes(made)
    note_sizes(file)

    if cut:
        file.write_bytes(b"x" * cut)
    else:
        file.unlink()

    assert not is_whole(made)
    assert not is_whole(file)


def test_what_an_older_version_left_counts_as_whole(made: Path) -> None:
    assert is_whole(made)
