"""What btt says is read as it means it, and a closed debugfs is a sentence."""

import errno
from pathlib import Path

import pytest

from ssdbench.host import blktrace
from ssdbench.host.sysfs import Sysfs

SAID = """
==================== All Devices ====================

            ALL           MIN           AVG           MAX           N
--------------- ------------- ------------- ------------- -----------

Q2Q               0.000059137   0.000070321   0.001209823         199
Q2G               0.000000561   0.000001094   0.000012905         200
G2I               0.000000651   0.000001024   0.000009077         200
I2D               0.000000721   0.000001423   0.000036199         200
D2C               0.000041979   0.000055802   0.000321105         200
Q2C               0.000046307   0.000059343   0.000334069         200

==================== Device Overhead ====================

       DEV |       Q2G       G2I       Q2M       I2D       D2C
---------- | --------- --------- --------- --------- ---------
 (  7,  0) |   1.8435%   1.7256%   0.0000%   2.3979%  94.0330%
"""


def test_the_means_of_btt_are_nanoseconds_by_its_own_names() -> None:
    found = blktrace.means_ns(SAID)

    assert found["btt_d2c_mean_ns"] == pytest.approx(55_802)
    assert found["btt_q2c_mean_ns"] == pytest.approx(59_343)
    assert set(found) == {f"btt_{part}_mean_ns" for part in ("q2g", "g2i", "i2d", "d2c", "q2c")}


def test_a_btt_that_saw_nothing_has_no_means() -> None:
    assert blktrace.means_ns("no data") == {}


def test_a_debugfs_that_is_closed_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Sysfs, attribute: str) -> str:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Sysfs, "read", refuse)

    assert "lockdown" in blktrace.closed("loop0", Sysfs())


def test_an_open_debugfs_is_no_obstacle(tmp_path: Path) -> None:
    assert blktrace.closed("loop0", Sysfs(tmp_path)) == ""
