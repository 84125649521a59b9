"""Names of files that no job file carries are refused before anything is made."""

from pathlib import Path

import pytest

from ssdbench.engine.targets import require_able
from ssdbench.errors import UsageError
from ssdbench.target.inspect import inspect


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[2Jb", "a\u202eb", "a\x7fb", "a ", "${HOME}"])
def test_a_name_that_fits_into_no_line_is_refused(tmp_path: Path, name: str) -> None:
    place = tmp_path / name
    place.write_bytes(bytes(4096))

    with pytest.raises(UsageError) as caught:
        require_able(inspect(str(place)))

    assert "\n" not in caught.value.message and "\x1b" not in caught.value.message


def test_a_link_to_such_a_name_is_refused_as_well(tmp_path: Path) -> None:
    (tmp_path / "a\nb").write_bytes(bytes(4096))
    (tmp_path / "link").symlink_to("a\nb")

    with pytest.raises(UsageError, match=r"a\\nb"):
        inspect(str(tmp_path / "link"))


def test_a_nul_is_no_name() -> None:
    with pytest.raises(UsageError, match=r"a\\x00b"):
        inspect("a\0b")
