"""How xfstests' own words become the table: made by hand in the form in which `check` prints."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import xfstests
from benchmarks.blktests import Ended, Results, differences
from benchmarks.xfstests import COLUMNS, FAMILIES, SILENT, page, results
from tests.vm import user_mode

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


@pytest.mark.parametrize("last", ["", "7s ... ", "7s ... [  40.27] Kernel panic - not syncing"])
def test_a_test_in_which_the_kernel_came_to_an_end_has_not_passed(last: str) -> None:
    found = results(f"SECTION       -- ssd-xfs\ngeneric/004  2s ...  1s\ngeneric/005  {last}")

    assert found["generic/004"]["ssd-xfs"].status == "passed"
    assert found["generic/005"]["ssd-xfs"].status == "failed"


@pytest.mark.parametrize("status", [124, 137])
def test_a_test_that_took_too_long_was_cut_short_with_its_limit(status: int) -> None:
    said = f"SECTION -- tm-xfs\ngeneric/004  [failed, exit status {status}]- output mismatch (see"

    assert results(said)["generic/004"]["tm-xfs"] == Ended("cut short", ("after 300 s",))


def test_nothing_counts_of_a_kernel_that_this_host_left_without_a_process() -> None:
    ran = "SECTION -- {}-xfs\ngeneric/004  2s ...  1s\ngeneric/005  [failed, exit status 126]\n"
    refused = "[   87.220000] start_userspace : clone failed, errno = 11\n"

    assert results(ran.format("ssd") + refused) == {}
    found = results(ran.format("nullb") + ran.format("ssd") + refused + ran.format("tm"))
    assert [list(ends) for ends in found.values()] == [["nullb-xfs", "tm-xfs"]] * 2


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What kernels were asked to run; those of null_blk with ext4 come to their end in the first.

    generic/001 is the first, so the others are left.
    """
    asked: list[list[str]] = []

    def run(_: Path, scripts: list[str], **__: object) -> list[str]:
        asked.append([])
        said = []
        for script in scripts:
            word = dict(re.findall(r"(\w+)=('[^']*'|\w+)", script.partition("\n")[0]))
            column, tests = f"{word['DEVICE']}-{word['FSTYP']}", word["TESTS"].strip("'").split()
            asked[-1].append(f"{column} {' '.join(tests)}")
            said.append(f"SECTION -- {column}")
            if column == "nullb-ext4" and "generic/001" in tests:
                said.append("generic/001  3s ... ")
            else:
                said += [f"{test}  1s ...  2s" for test in tests]
        return said

    monkeypatch.setattr(user_mode, "kernel", lambda _: tmp_path)
    monkeypatch.setattr(user_mode, "modules", lambda _: tmp_path)
    monkeypatch.setattr(user_mode, "run", run)
    return asked


def test_after_a_test_that_a_kernel_did_not_survive_the_others_go_on_in_the_next(
    tmp_path: Path, kernels: list[list[str]]
) -> None:
    tests = ["generic/001", "generic/002"]
    found: dict[str, dict[str, Ended]] = {}
    for some in xfstests.ran(tmp_path, tests, minutes=1):
        for test, ends in some.items():
            found.setdefault(test, {}).update(ends)

    assert kernels == [
        [f"{column} generic/001 generic/002" for column in COLUMNS],
        ["nullb-ext4 generic/002"],
    ]
    passed = dict.fromkeys(COLUMNS, Ended("passed"))
    assert found["generic/001"] == passed | {"nullb-ext4": Ended("failed", ("3s ...",))}
    assert found["generic/002"] == passed


def test_tests_of_which_a_kernel_says_nothing_are_not_begun_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernels: list[list[str]]
) -> None:
    monkeypatch.setattr(user_mode, "run", lambda *_, **__: ["no word of a test"])

    assert list(xfstests.ran(tmp_path, ["generic/001"], minutes=1)) == [{}]


def test_reasons_are_the_same_whatever_the_device_is_called() -> None:
    said = "SECTION -- {0}-xfs\ngeneric/002  [not run] /dev/{0}1 is too small\n"

    (ends,) = results("".join(said.format(name) for name in ("nullb", "ssd", "tm"))).values()

    assert {one.said for one in ends.values()} == {("the device is too small",)}


def test_only_what_did_not_end_alike_on_all_is_in_the_table() -> None:
    everywhere = {
        f"generic/{number}": dict.fromkeys(COLUMNS, Ended(status, said))
        for number, status, said in (
            ("101", "passed", ()),
            ("102", "passed", ()),
            ("103", "not run", ("no such thing",)),
        )
    }
    lines = list(page({**results(SAID), **everywhere}))

    assert "| generic/004 | passed | failed | not run | not run | not run | not run |" in lines
    assert "- 2 passed on all six: 101, 102" in lines
    assert "- 1 not run (no such thing) on all six: 103" in lines
    assert not any("generic/10" in line for line in lines)
    assert any("null_blk, ext4: 4 passed, 1 failed, 0 cut short" in line for line in lines)


def test_reasons_that_are_alike_but_for_a_size_or_a_path_are_one() -> None:
    too_small = [Ended("not run", (f"it is too small ({size} KiB)",)) for size in (927944, 943132)]
    mismatch = Ended("failed", ("- output mismatch (see /run/xfstests/generic/223.out.bad)",))
    found = {
        "generic/213": {column: too_small[column.endswith("xfs")] for column in COLUMNS},
        "generic/223": dict.fromkeys(COLUMNS, mismatch),
    }

    lines = list(page(found))

    assert "- 1 not run (it is too small) on all six: 213" in lines
    assert "- 1 failed (output mismatch) on all six: 223" in lines


def test_tests_that_a_file_system_cannot_run_share_a_line_with_the_reason() -> None:
    no_reflink = Ended("not run", ("no reflink",))
    ends = dict.fromkeys(FAMILIES[0], no_reflink) | dict.fromkeys(FAMILIES[1], Ended("passed"))

    lines = list(page({"generic/116": ends, "generic/118": ends}))

    assert "- 2 not run (no reflink) on ext4; passed on xfs: 116, 118" in lines
    assert not any("|" in line for line in lines)


def test_rows_are_added_to_those_of_earlier_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "xfstests.json").write_text("{}")
    monkeypatch.setattr(xfstests, "RECORD", tmp_path / "xfstests.json")
    xfstests.record(results(SAID))
    first = xfstests.recorded()

    xfstests.record({**first, "generic/101": dict.fromkeys(COLUMNS, Ended("passed"))})

    assert first == results(SAID)
    assert set(xfstests.recorded()) == {*first, "generic/101"}


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of xfstests, with three tests; the page and the record lie in it, too."""
    for name in ("check", "ltp/fsstress"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "tests" / "generic").mkdir(parents=True)
    for number in ("001", "004", "101"):
        (tmp_path / "tests" / "generic" / number).write_text("_begin_fstest quick\n")
    monkeypatch.setattr(xfstests, "RECORD", tmp_path / "xfstests.json")
    monkeypatch.setattr("benchmarks.blktests.PAGE", tmp_path / "page")
    (tmp_path / "page").write_text(f"before\n{xfstests.BEGIN}\nold\n{xfstests.END}\nafter\n")
    return tmp_path


def test_a_run_begins_with_what_has_not_ended_on_all_six_and_keeps_what_it_has(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = {**results(SAID), "generic/001": dict.fromkeys(COLUMNS, Ended("passed"))}
    xfstests.record(earlier)
    asked: list[str] = []

    def cut_short(_: Path, tests: list[str], minutes: float) -> Iterator[Results]:
        asked.extend(tests)
        yield {"generic/101": dict.fromkeys(COLUMNS, Ended("passed"))}
        raise KeyboardInterrupt

    monkeypatch.setattr(xfstests, "ran", cut_short)
    with pytest.raises(KeyboardInterrupt):
        xfstests.main([str(clone), "--write"])

    assert asked == ["generic/004", "generic/101", "generic/001"]
    assert set(xfstests.recorded()) == {*earlier, "generic/101"}
    assert "- 2 passed on all six: 001, 101" in (clone / "page").read_text()


def test_a_run_in_which_nothing_ran_says_so_whatever_earlier_ones_had(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    xfstests.record({"generic/001": dict.fromkeys(COLUMNS, Ended("passed"))})
    monkeypatch.setattr(xfstests, "ran", lambda *_: iter([{}]))

    with pytest.raises(SystemExit, match="xfstests ran no test"):
        xfstests.main([str(clone), "--write"])


def test_the_first_tests_are_those_that_ask_for_two_devices_alone(tmp_path: Path) -> None:
    (tmp_path / "tests" / "generic").mkdir(parents=True)
    for number, text in {
        "001": "_begin_fstest rw auto quick\n_require_test\n",
        "002": "_begin_fstest rw auto\n_require_test\n",
        "003": "_begin_fstest auto quick\n_require_scratch\n_require_user\n",
        "004": "_begin_fstest quick\n_require_scratch_nocheck\n\t_require_xfs_io_command falloc\n",
    }.items():
        (tmp_path / "tests" / "generic" / number).write_text(text)

    assert xfstests.quick(tmp_path) == ["generic/001", "generic/004", "generic/003"]


def test_a_clone_that_was_not_built_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no clone of xfstests in which `make` has been run"):
        xfstests.main([str(tmp_path), "--minutes", "5", "generic/001"])
