from ssdbench.cli.inside import PROBES
from ssdbench.model.profile.inside import ProbeName
from ssdbench.stages.probe import PROBES as CATALOGUE


def test_the_command_asks_in_the_order_in_which_answers_do_not_spoil_one_another() -> None:
    assert list(PROBES) == [name.value for name in ProbeName] == list(CATALOGUE)
    needs_spare_room = PROBES.index("remap-unit")
    for uses_it_up in ("flush", "write-buffer", "spare", "trim"):
        assert needs_spare_room < PROBES.index(uses_it_up)
