"""A run killed at any write, on the queue of a real device: `restore` ends at the first values."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ssdbench.host.sysfs import Sysfs, chosen
from ssdbench.tuning.backends import backends_of
from ssdbench.tuning.journal import SettingsJournal, restore_all
from ssdbench.tuning.setting import Backend, Setting, queue_settings
from tests.support.devices import attached_loop
from tests.support.killpoints import killed_at

pytestmark = pytest.mark.host

DRIVE = "the loop device"
WISHES: dict[str, str | int] = {
    "scheduler": "mq-deadline", "nr_requests": 32, "nomerges": 2, "rq_affinity": 2,
    "add_random": 1, "read_ahead_kb": 4,
}  # fmt: skip
FIRST = {"scheduler": "none", "nr_requests": "100", "nomerges": "0", "rq_affinity": "1",
         "add_random": "0", "iostats": "0", "read_ahead_kb": "100"}  # fmt: skip
OF_MQ_DEADLINE = {"scheduler": "mq-deadline", "iosched/read_expire": "200",
                  "iosched/writes_starved": "5"}  # fmt: skip


class Queue:
    """The queue of a loop device, with values of its own."""

    def __init__(self, name: str, journals: Path, first: Mapping[str, str], wanted: str) -> None:
        self.first = first
        self.wishes = WISHES | {"scheduler": wanted}
        self.directory = Path(f"/sys/block/{name}/queue")
        self.journals = journals
        self.backends = backends_of(Sysfs(), lambda drive: name)

    def have(self, values: Mapping[str, str]) -> None:
        """Give the queue some values, the scheduler first."""
        for attribute, value in values.items():
            (self.directory / attribute).write_text(value)

    def values(self) -> dict[str, str]:
        paths = {name: self.directory / name for name in self.first}
        return {name: chosen(path.read_text()) for name, path in paths.items() if path.exists()}

    def run(self) -> None:
        settings = [
            Setting(Backend.BLOCK, "queue/iostats", "1", "test", DRIVE),
            *queue_settings(self.wishes, DRIVE),
        ]
        path = self.journals / "run.jsonl"
        with SettingsJournal(path, self.backends, boot_id="b1", host_id="h1") as journal:
            journal.apply(settings)

    def restore(self) -> None:
        restore_all(self.journals, self.backends, boot_id="b1", host_id="h1")


@pytest.fixture(
    params=[(FIRST, "mq-deadline"), (FIRST | OF_MQ_DEADLINE, "none")],
    ids=["none to mq-deadline", "mq-deadline to none"],
)
def queue(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Queue]:
    with attached_loop(tmp_path / "disk.img") as device:
        made = Queue(device.node.name, tmp_path / "settings", *request.param)
        before = made.values()
        made.have(made.first)
        yield made
        made.have(before)  # detaching does not do that


@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.soak)])
def test_a_run_and_its_restore_killed_anywhere_end_at_the_first_values(
    queue: Queue, step: int
) -> None:
    assert queue.values() == queue.first
    for point in range(1, 10_000, step):
        killed = killed_at(point, queue.run)
        killed_at(1 + point % 50, queue.restore)
        queue.restore()

        assert queue.values() == queue.first, f"kill {point}"
        assert not list(queue.journals.glob("*.jsonl")), f"kill {point}"
        if not killed:
            return
