"""How xfstests' own words become the table: made by hand in the form in which `check` prints."""

from pathlib import Path

import pytest

from benchmarks import xfstests
from benchmarks.blktests import differences, table
from benchmarks.xfstests import COLUMNS, FAMILIES, SILENT, results

SAID = """\
SECTION       -- nullb-ext4
FSTYP         -- ext4
generic/001 10s ...  12s
generic/002       [not run] this test requires a valid $LOGWRITES_DEV
generic/003 3s ... - output mismatch (see /run/xfstests/results//nullb-ext4/generic/003.out.bad)
    --- tests/generic/003.out
generic/004 1s ...  1s
Ran: generic/001
SECTION       -- ssd-ext4
generic/001 10s ...  11s
generic/002       [not run] this test requires a valid $LOGWRITES_DEV
generic/003 3s ... [failed, exit status 1]- output mismatch
generic/004 1s ... _check_dmesg: something found in dmesg (see /run/004.dmesg)
"""


def test_each_test_ends_in_each_section() -> None:
    found = results(SAID)

    assert {test: found[test]["nullb-ext4"].status for test in found} == {
        "generic/001": "passed",
        "generic/002": "not run",
        "generic/003": "failed",
        "generic/004": "passed",
    }
    assert found["generic/002"]["ssd-ext4"].said == ("this test requires a valid $LOGWRITES_DEV",)


def test_what_ends_otherwise_than_on_null_blk_is_told_by_file_system() -> None:
    told = differences(results(SAID), FAMILIES, SILENT)
    apart = [(test, column, one.status) for test, column, one in told]

    assert [one for one in apart if "tm-ext4" not in one] == [("generic/004", "ssd-ext4", "failed")]
    assert ("generic/001", "tm-ext4", "not run") in apart  # it stopped on the way
    assert not [one for one in apart if one[1].endswith("xfs")]  # neither control nor ours


def test_the_table_has_all_columns_and_why_tests_did_not_run() -> None:
    lines = list(table(results(SAID), "Linux X.", COLUMNS, SILENT))

    assert "| generic/004 | passed | failed | not run | not run | not run | not run |" in lines
    assert any(line.startswith("- generic/002 not run: this test requires") for line in lines)


def test_the_first_tests_are_those_that_ask_for_two_devices_alone(tmp_path: Path) -> None:
    (tmp_path / "tests" / "generic").mkdir(parents=True)
    for number, text in {
        "001": "_begin_fstest rw auto quick\n_require_test\n",
        "002": "_begin_fstest rw auto\n_require_test\n",
        "003": "_begin_fstest auto quick\n_require_scratch\n_require_user\n",
        "004": "_begin_fstest quick\n_require_scratch_nocheck\n\t_require_xfs_io_command falloc\n",
    }.items():
        (tmp_path / "tests" / "generic" / number).write_text(text)

    assert list(xfstests.quick(tmp_path)) == ["generic/001", "generic/003", "generic/004"]
    assert list(xfstests.quick(tmp_path, only_plain=True)) == ["generic/001", "generic/004"]


def test_a_clone_that_was_not_built_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no clone of xfstests in which `make` has been run"):
        xfstests.main([str(tmp_path), "--minutes", "5", "generic/001"])
