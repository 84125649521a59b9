"""A real trial: fio on two loop devices of one disk, each alone and both together."""

from pathlib import Path

import pytest

from ssdbench.cli import conduct
from ssdbench.model.target import Consent
from ssdbench.suite import interference
from ssdbench.suite.plan import plan
from tests.support.devices import LoopDevice

PROFILE = "measure: [{sweep: {read: 100, iodepth: 2}}]\n"
ROUNDS = 2


def test_two_drives_are_read_alone_and_together_and_stay_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interference, "ROUNDS", ROUNDS)
    monkeypatch.setattr(interference, "WINDOW_S", 1.0)
    monkeypatch.setattr(interference, "RAMP_S", 1.0)
    (tmp_path / "p.yaml").write_text(PROFILE)
    profile = str(tmp_path / "p.yaml")
    with LoopDevice.several(tmp_path) as make:
        disks = [make(), make()]
        before = [disk.backing.read_bytes() for disk in disks]
        names = [str(disk.node) for disk in disks]
        each = [conduct.asked(profile, target=name, consent=Consent()) for name in names]

        tried = interference.trial(each, [plan(one) for one in each], tmp_path / "out")

        assert [disk.backing.read_bytes() for disk in disks] == before
    small = [one for one in tried.turns if one.workload == "4 KiB random reads"]
    assert len(small) == 3 * ROUNDS
    turns = [[names[0]], [names[1]], names]
    assert sorted(list(one.iops) for one in small) == sorted(turns * ROUNDS)
    for one in tried.losses:
        assert one.alone_iops > 100 and one.together_iops > 100
    assert len(list((tmp_path / "out").rglob("job.fio"))) == sum(len(t.iops) for t in tried.turns)
