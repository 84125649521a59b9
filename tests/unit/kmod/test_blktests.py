"""How blktests' own words become the table: made by hand in the form in which `check` prints."""

from pathlib import Path

import pytest

from benchmarks import blktests
from benchmarks.blktests import DEVICES, differences, results, table

SAID = """\
block/004 => nullb0 (run lots of flushes)
    runtime    ...
block/004 => nullb0 (run lots of flushes)                    [passed]
    runtime    ...  1.2s
block/004 => ssdmq (run lots of flushes)                     [failed]
    runtime    ...  0.9s
    something found in dmesg:
block/005 => ssdbio (switch schedulers while doing IO)       [not run]
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
    apart = [(test, device, one.status) for test, device, one in differences(results(SAID))]

    assert ("block/004", "ssdmq", "failed") in apart
    assert not [one for one in apart if one[0] in ("block/005", "block/007")]


def test_the_table_has_all_devices_and_why_tests_did_not_run() -> None:
    lines = list(table(results(SAID), "Linux X."))

    assert lines[0].count("|") == len(DEVICES) + 2
    assert "| block/004 | passed | failed | not run | not run | not run | not run |" in lines
    assert "- block/007 not run: polling is no more" in lines
    assert any("the device does not have" in line and "(flash, bio)" in line for line in lines)


def test_tests_may_be_named_behind_an_option(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no clone of blktests"):
        blktests.main([str(tmp_path), "--seconds", "5", "block/003"])
