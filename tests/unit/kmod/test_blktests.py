"""How blktests' own words become the table: made by hand in the form in which `check` prints."""

from pathlib import Path

import pytest

from benchmarks import blktests
from benchmarks.blktests import DEVICES, device_tests, differences, results, table

SAID = """\
block/004 => nullb0 (run lots of flushes)
    runtime    ...
block/004 => nullb0 (run lots of flushes)                    [passed]
    runtime    ...  1.2s
block/004 => ssdmq (run lots of flushes)                     [failed]
    runtime    ...  0.9s
    something found in dmesg:
block/005 => ssdbio (switch schedulers while doing IO)       [not run]
    runtime    ...  0.1s
    /dev/ssdbio does not have sysfs attribute queue/scheduler
block/007 (test classic and hybrid IO polling)               [not run]
    polling is no more
"""


def test_each_test_ends_on_each_device() -> None:
    found = results(SAID)

    assert found["block/004"]["nullb0"].status == "passed"
    assert found["block/004"]["ssdmq"].said[-1] == "something found in dmesg:"
    assert {one.status for one in found["block/007"].values()} == {"not run"}
    assert set(found["block/007"]) == set(DEVICES)


def test_what_ends_otherwise_than_on_the_control_is_told() -> None:
    told = differences(results(SAID))
    apart = [(test, device, one.status) for test, device, one in told]

    assert ("block/004", "ssdmq", "failed") in apart
    assert not [one for one in apart if one[0] in ("block/005", "block/007")]


def test_the_table_has_all_devices_and_why_tests_did_not_run() -> None:
    lines = table(results(SAID), "Linux X.").splitlines()

    assert lines[0].count("|") == len(DEVICES) + 2
    assert "| block/004 | passed | failed | not run | not run | not run | not run |" in lines
    assert "- block/007 not run: polling is no more" in lines
    lacks = "- block/005 not run: the device does not have sysfs attribute queue/scheduler"
    assert f"{lacks} (flash, bio)" in lines


def test_tests_may_be_named_behind_an_option(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no clone of blktests"):
        blktests.main([str(tmp_path), "--seconds", "5", "block/003"])


def test_devices_get_the_tests_that_take_them(tmp_path: Path) -> None:
    for name, text in {
        "block/001": "test() {\n",
        "block/003": "test_device() {\n",
        "block/004": "CAN_BE_ZONED=1\ntest_device() {\n",
        "block/004.out": "test_device() {\n",
        "zbd/001": "CAN_BE_ZONED=1\ntest_device() {\n",
    }.items():
        test = tmp_path / "tests" / name
        test.parent.mkdir(parents=True, exist_ok=True)
        test.write_text(text)

    assert list(device_tests(tmp_path)) == ["block/003", "block/004"]


@pytest.mark.parametrize("other", [["block/036"], ["--kernel-dir", "/k"]])
def test_the_document_keeps_no_part_of_the_tests(other: list[str], tmp_path: Path) -> None:
    (tmp_path / "check").touch()

    with pytest.raises(SystemExit, match="--write goes with no others"):
        blktests.main([str(tmp_path), "--write", *other])
