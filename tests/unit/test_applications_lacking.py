"""Application programs that are not there: a sentence when they are named, left out when not."""

import pytest

from ssdbench.errors import HostLacks
from ssdbench.host import command, database
from ssdbench.model.profile import spec
from ssdbench.suite.trials import chosen_programs


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """All programs are installed, and the database server is not."""
    monkeypatch.setattr(command, "which", lambda program: f"/usr/bin/{program}")
    monkeypatch.setattr(database, "programs", lambda: None)


def test_a_named_database_without_a_server_is_a_sentence_with_its_package() -> None:
    with pytest.raises(HostLacks, match=r"needs PostgreSQL, .*package postgresql") as refused:
        chosen_programs(spec.Applications(programs=(spec.ProgramName.OLTP,)))

    assert "leave it out of `programs`" in refused.value.hint


def test_without_names_all_that_are_there_run_and_the_others_are_told() -> None:
    programs, notes = chosen_programs(spec.Applications())

    assert [program.name for program in programs] == ["postmark", "dbench", "sysbench"]
    assert notes == ("oltp needs PostgreSQL, which is not installed (package postgresql)",)


def test_a_host_without_any_of_them_cannot_compare_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "which", lambda program: None)

    with pytest.raises(HostLacks, match=r"postmark is not installed"):
        chosen_programs(spec.Applications())
