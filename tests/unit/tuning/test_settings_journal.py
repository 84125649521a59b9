import contextlib
import errno
import json
import os
import signal
from pathlib import Path

import pytest

from ssdbench.errors import DeviceLost, HostLacks, UsageError
from ssdbench.tuning.backends import SettingBackend
from ssdbench.tuning.journal import (
    FORGOTTEN_LOG,
    Change,
    NotRestored,
    SettingsJournal,
    forget,
    read,
    restore_all,
)
from ssdbench.tuning.setting import Backend, NoSetting, Setting, located, queue_settings

DRIVE = "eui.0025385b91b0a4d2"


RESET = {
    "queue/scheduler": ("queue/nr_requests", "256"),
    "queue/add_random": ("queue/read_ahead_kb", "2560"),
}


class Queue:
    """A drive's queue as Linux has it: some settings reset others."""

    def __init__(self, path: Path | None = None) -> None:
        self.values = {"queue/scheduler": "mq-deadline", "queue/nr_requests": "64", "x": "1"}
        self.stuck: set[str] = set()
        self.journal = path
        self.seen_on_disk: list[bool] = []

    def read(self, attribute: str, drive: str) -> str:
        if attribute not in self.values:
            raise NoSetting(f"there is no setting {attribute} here")
        return self.values[attribute]

    def write(self, attribute: str, value: str, drive: str) -> None:
        if attribute in self.stuck:
            raise HostLacks(f"{attribute} is stuck")
        if self.journal is not None and self.journal.exists():
            text = self.journal.read_text()
            self.seen_on_disk.append(attribute in text)
        self.values[attribute] = value
        if attribute in RESET and RESET[attribute][0] in self.values:
            other, now = RESET[attribute]
            self.values[other] = now


def backends(queue: Queue) -> dict[Backend, SettingBackend]:
    return {Backend.BLOCK: queue}


def journal(path: Path, queue: Queue, *, boot: str = "b1", host: str = "h1") -> SettingsJournal:
    return SettingsJournal(path / "run.jsonl", backends(queue), boot_id=boot, host_id=host)


def setting(attribute: str, value: str) -> Setting:
    return Setting(Backend.BLOCK, attribute, value, "test", DRIVE)


def unchecked(path: Path) -> None:
    """Make a journal one of the older form, without checksums."""
    held = (json.loads(line) for line in path.read_text().splitlines())
    lines = ({k: v for k, v in fields.items() if k != "crc32"} for fields in held)
    path.write_text("".join(f"{json.dumps(fields)}\n" for fields in lines))


def test_settings_are_as_before_when_the_journal_is_left(tmp_path: Path) -> None:
    queue = Queue()
    before = dict(queue.values)

    with journal(tmp_path, queue) as changes:
        changes.apply([setting("queue/scheduler", "none"), setting("x", "2")])
        during = dict(queue.values)

    assert during == {"queue/scheduler": "none", "queue/nr_requests": "256", "x": "2"}
    assert queue.values == before
    assert not list(tmp_path.glob("*.jsonl"))


def test_what_the_scheduler_resets_is_restored_after_it(tmp_path: Path) -> None:
    queue = Queue()

    with journal(tmp_path, queue) as changes:
        changes.apply(queue_settings({"scheduler": "none", "nr_requests": 32}, DRIVE))

    assert queue.values["queue/nr_requests"] == "64"


def test_what_a_later_setting_resets_holds_all_the_same_and_is_restored(tmp_path: Path) -> None:
    queue = Queue()
    queue.values |= {"queue/read_ahead_kb": "4", "queue/add_random": "0"}
    before = dict(queue.values)

    with journal(tmp_path, queue) as changes:
        changes.apply([setting("queue/read_ahead_kb", "4"), setting("queue/add_random", "1")])
        during = dict(queue.values)

    assert (during["queue/read_ahead_kb"], during["queue/add_random"]) == ("4", "1")
    assert queue.values == before


def test_settings_that_undo_each_other_are_refused(tmp_path: Path) -> None:
    queue = Queue()

    with (
        pytest.raises(HostLacks, match="set to 3, but another setting changed it to 2"),
        journal(tmp_path, queue) as changes,
    ):
        changes.apply([setting("x", "3"), setting("x", "2")])

    assert queue.values["x"] == "1"


def test_every_change_is_on_disk_before_it_is_made(tmp_path: Path) -> None:
    queue = Queue(tmp_path / "run.jsonl")

    with journal(tmp_path, queue) as changes:
        changes.apply([setting("x", "2"), setting("queue/scheduler", "none")])

        assert queue.seen_on_disk == [True, True]


def test_a_setting_that_has_the_wanted_value_is_not_touched(tmp_path: Path) -> None:
    queue = Queue()

    with journal(tmp_path, queue) as changes:
        made = changes.apply([setting("x", "1")])

    assert made == []


def test_a_journal_with_the_older_name_of_the_backend_is_still_restored(tmp_path: Path) -> None:
    queue, path = Queue(), tmp_path / "run.jsonl"
    with contextlib.suppress(NotRestored), journal(tmp_path, queue) as changes:
        changes.apply([setting("x", "2")])
        queue.stuck = {"x"}
    unchecked(path)
    path.write_text(path.read_text().replace('"backend"', '"medium"'))
    queue.stuck = set()

    restore_all(tmp_path, backends(queue), boot_id="b1", host_id="h1")

    assert queue.values["x"] == "1"


def test_the_rest_is_restored_when_one_setting_is_stuck(tmp_path: Path) -> None:
    queue = Queue()
    changes = journal(tmp_path, queue)
    changes.__enter__()
    changes.apply([setting("x", "2"), setting("queue/scheduler", "none")])
    queue.stuck = {"x"}

    with pytest.raises(NotRestored, match="x was '1'"):
        changes.__exit__()

    assert queue.values["queue/scheduler"] == "mq-deadline"
    assert [c.attribute for c in read(tmp_path / "run.jsonl").changes] == ["x"]


def killed(path: Path, queue: Queue, *, host: str = "h1") -> None:
    """Leave a journal as a killed run does: changed, not restored, its lock gone."""
    changes = journal(path, queue, host=host)
    changes.__enter__()
    changes.apply([setting("x", "2"), setting("queue/scheduler", "none")])
    changes._file.close()
    changes._lock.__exit__()


def test_restore_puts_back_what_a_killed_run_left(tmp_path: Path) -> None:
    queue = Queue()
    before = dict(queue.values)
    killed(tmp_path, queue)

    restored = restore_all(tmp_path, backends(queue), boot_id="b1", host_id="h1")

    assert queue.values == before
    assert {c.attribute for c in restored} == {"x", "queue/scheduler", "queue/nr_requests"}
    assert restore_all(tmp_path, backends(queue), boot_id="b1", host_id="h1") == []


def test_after_a_reboot_only_what_outlives_one_is_touched(tmp_path: Path) -> None:
    queue = Queue()
    killed(tmp_path, queue)
    queue.values["x"] = "as the new boot made it"

    restored = restore_all(tmp_path, backends(queue), boot_id="b2", host_id="h1")

    assert restored == []
    assert queue.values["x"] == "as the new boot made it"


def test_a_journal_of_another_host_is_refused(tmp_path: Path) -> None:
    queue = Queue()
    killed(tmp_path, queue, host="elsewhere")

    with pytest.raises(NotRestored, match="another host") as caught:
        restore_all(tmp_path, backends(queue), boot_id="b1", host_id="h1")

    assert queue.values["x"] == "2"
    assert caught.value.hint.startswith(f"Take {tmp_path / 'run.jsonl'} to that host")
    assert "again" not in caught.value.hint  # which would end the same way


def test_each_way_out_is_told_beside_what_only_has_to_be_tried_again(tmp_path: Path) -> None:
    drives = Drives()
    killed_on_both(tmp_path, drives)
    killed_on_both(tmp_path, drives, "foreign", "3")
    foreign = tmp_path / "foreign.jsonl"
    unchecked(foreign)
    foreign.write_text(foreign.read_text().replace('"h1"', '"elsewhere"'))
    drives.here = {DRIVE}

    with pytest.raises(NotRestored) as caught:
        restore_both(tmp_path, drives)

    for part in ("`ssdbench restore` again", "to that host", f"--forget '{GONE}'"):
        assert part in caught.value.hint


def test_the_journal_of_a_living_run_is_left_alone(tmp_path: Path) -> None:
    queue = Queue()

    with journal(tmp_path, queue) as changes:
        changes.apply([setting("x", "2")])
        restored = restore_all(tmp_path, backends(queue), boot_id="b1", host_id="h1")

        assert restored == []
        assert queue.values["x"] == "2"


def test_a_torn_last_line_was_never_acknowledged(tmp_path: Path) -> None:
    queue = Queue()
    killed(tmp_path, queue)
    path = tmp_path / "run.jsonl"
    path.write_text(path.read_text() + '{"kind":"changing","n":9,"attr')

    restored = restore_all(tmp_path, backends(queue), boot_id="b1", host_id="h1")

    assert len(restored) == 3


def test_an_unknown_setting_is_a_sentence_and_leaves_nothing_changed(tmp_path: Path) -> None:
    queue = Queue()

    with (
        pytest.raises(HostLacks, match="no setting queue/warp"),
        journal(tmp_path, queue) as changes,
    ):
        changes.apply([setting("x", "2"), setting("queue/warp", "9")])

    assert queue.values["x"] == "1"


class Drives:
    """Two drives, of which one may be away."""

    def __init__(self) -> None:
        self.values = {DRIVE: "1", GONE: "1"}
        self.here = {DRIVE, GONE}
        self.written: list[tuple[str, str]] = []

    def read(self, attribute: str, drive: str) -> str:
        return self.values[located(self._name, drive)]

    def write(self, attribute: str, value: str, drive: str) -> None:
        self.values[located(self._name, drive)] = value
        self.written.append((drive, value))

    def _name(self, drive: str) -> str | None:
        return drive if drive in self.here else None


GONE = "loop:/srv/my disk:1000"


def killed_on_both(path: Path, drives: Drives, name: str = "run", value: str = "2") -> None:
    changes = SettingsJournal(
        path / f"{name}.jsonl", {Backend.BLOCK: drives}, boot_id="b1", host_id="h1"
    )
    changes.__enter__()
    changes.apply([Setting(Backend.BLOCK, "x", value, "test", drive) for drive in (DRIVE, GONE)])
    changes._file.close()
    changes._lock.__exit__()


def restore_both(path: Path, drives: Drives) -> list[Change]:
    return restore_all(path, {Backend.BLOCK: drives}, boot_id="b1", host_id="h1")


def test_a_drive_that_is_gone_hinders_no_other_and_the_way_out_is_told(tmp_path: Path) -> None:
    drives = Drives()
    killed_on_both(tmp_path, drives)
    drives.here = {DRIVE}

    with pytest.raises(NotRestored, match="is not on this host") as caught:
        restore_both(tmp_path, drives)

    assert drives.values[DRIVE] == "1"
    assert caught.value.of_absent_drives
    assert f"ssdbench restore --forget '{GONE}'" in (caught.value.hint or "")


def test_what_is_forgotten_is_kept_and_the_rest_is_restored(tmp_path: Path) -> None:
    drives = Drives()
    killed_on_both(tmp_path, drives)
    drives.here = {DRIVE}

    (given_up,) = forget(tmp_path, GONE, host_id="h1")
    (restored,) = restore_both(tmp_path, drives)

    assert (given_up.drive, given_up.was, restored.drive) == (GONE, "1", DRIVE)
    assert drives.values[DRIVE] == "1"
    (kept,) = map(json.loads, (tmp_path / FORGOTTEN_LOG).read_text().splitlines())
    assert (kept["drive"], kept["attribute"], kept["was"], kept["run"]) == (GONE, "x", "1", "run")
    drives.here = {DRIVE, GONE}
    assert restore_both(tmp_path, drives) == []
    assert drives.values[GONE] == "2"


def test_a_drive_that_no_run_changed_cannot_be_forgotten(tmp_path: Path) -> None:
    killed_on_both(tmp_path, Drives())

    with pytest.raises(UsageError, match="no dead run left a setting of another") as caught:
        forget(tmp_path, "another", host_id="h1")

    assert DRIVE in (caught.value.hint or "")
    with pytest.raises(UsageError):
        forget(tmp_path, GONE, host_id="elsewhere")


def test_a_living_runs_drive_cannot_be_forgotten(tmp_path: Path) -> None:
    with journal(tmp_path, Queue()) as changes:
        changes.apply([setting("x", "2")])

        with pytest.raises(UsageError):
            forget(tmp_path, DRIVE, host_id="h1")


def test_the_first_value_comes_back_however_the_clock_was_set_between_killed_runs(
    tmp_path: Path,
) -> None:
    drives = Drives()
    names = ("b", "a", "c")  # in this order; by name and by time another one
    for hours, (name, value) in enumerate(zip(names, "234", strict=True)):
        killed_on_both(tmp_path, drives, name, value)
        os.utime(tmp_path / f"{name}.jsonl", (1e9 - 3600 * hours, 1e9 - 3600 * hours))
    drives.written.clear()

    restore_both(tmp_path, drives)

    assert [value for drive, value in drives.written if drive == GONE] == ["1"]


def test_changes_are_numbered_on_across_journals(tmp_path: Path) -> None:
    drives = Drives()
    killed_on_both(tmp_path, drives, "first")
    killed_on_both(tmp_path, drives, "second", "3")

    numbers = [c.n for run in ("first", "second")
               for c in read(tmp_path / f"{run}.jsonl").changes]  # fmt: skip

    assert numbers == sorted(set(numbers))


def test_that_a_drive_is_gone_ends_a_run_before_that_its_settings_are_not_restored(
    tmp_path: Path,
) -> None:
    drives = Drives()

    with (
        pytest.raises(DeviceLost),
        SettingsJournal(
            tmp_path / "run.jsonl", {Backend.BLOCK: drives}, boot_id="b1", host_id="h1"
        ) as changes,
    ):
        changes.apply([Setting(Backend.BLOCK, "x", "2", "test", GONE)])
        drives.here = {DRIVE}
        raise DeviceLost("it is gone")

    drives.here = {DRIVE, GONE}
    assert [change.drive for change in restore_both(tmp_path, drives)] == [GONE]


def test_that_settings_of_a_drive_that_is_gone_wait_is_told_with_the_command(
    tmp_path: Path,
) -> None:
    drives = Drives()

    with (
        pytest.raises(DeviceLost) as raised,
        SettingsJournal(
            tmp_path / "run.jsonl", {Backend.BLOCK: drives}, boot_id="b1", host_id="h1"
        ) as changes,
    ):
        changes.apply([Setting(Backend.BLOCK, "x", "2", "test", GONE)])
        drives.here = {DRIVE}
        raise DeviceLost("it is gone", hint="Plug it in.")

    assert raised.value.hint.startswith("Plug it in. ")
    assert "`ssdbench restore`" in raised.value.hint


class Impatient(Queue):
    """Somebody presses Ctrl-C at each write, once it was asked to."""

    pressing = False

    def write(self, attribute: str, value: str, drive: str) -> None:
        for _ in range(3 * self.pressing):
            signal.raise_signal(signal.SIGINT)
        super().write(attribute, value, drive)


@pytest.mark.parametrize("killed", [False, True])
def test_settings_are_put_back_however_often_somebody_asks_to_stop_meanwhile(
    killed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = Impatient()
    before = dict(queue.values)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)

    try:
        with pytest.raises(KeyboardInterrupt):
            if killed:
                left = journal(tmp_path, queue).__enter__()
                left.apply([setting("queue/scheduler", "none"), setting("x", "2")])
                left._file.close()
                left._lock.__exit__()
                queue.pressing = True
                restore_all(tmp_path, backends(queue), boot_id="b1", host_id="h1")
            else:
                with journal(tmp_path, queue) as changes:
                    changes.apply([setting("queue/scheduler", "none"), setting("x", "2")])
                    queue.pressing = True
    finally:
        signal.signal(signal.SIGINT, handler)

    assert queue.values == before
    assert not list(tmp_path.glob("*.jsonl"))


def test_a_journal_that_cannot_be_written_any_more_hides_no_setting_that_came_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when its file system becomes read-only in mid-run."""
    queue = Queue()
    before = dict(queue.values)

    def read_only(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with (
        pytest.raises(NotRestored, match="the old values are back") as raised,
        journal(tmp_path, queue) as changes,
    ):
        changes.apply([setting("queue/scheduler", "none"), setting("x", "2")])
        monkeypatch.setattr("ssdbench.host.files._write_all", read_only)
        monkeypatch.setattr(Path, "unlink", read_only)

    assert queue.values == before
    assert "`ssdbench restore`" in raised.value.hint


class Vectors(Queue):
    """An interrupt that goes with its device."""

    def read(self, attribute: str, drive: str) -> str:
        if attribute not in self.values:
            raise NoSetting(f"there is no setting {attribute} here")
        return self.values[attribute]


def test_an_interrupt_that_went_with_its_device_needs_nothing_put_back(tmp_path: Path) -> None:
    vectors = Vectors()
    path = tmp_path / "run.jsonl"

    with SettingsJournal(path, {Backend.IRQ: vectors}, boot_id="b1", host_id="h1") as changes:
        changes.apply([Setting(Backend.IRQ, "x", "2", "test")])
        del vectors.values["x"]

    assert not path.exists()


def test_a_setting_that_went_with_its_scheduler_needs_nothing_put_back(tmp_path: Path) -> None:
    block = "queue/iosched/block_bytes"
    scheduler = Vectors()
    scheduler.values = {"queue/scheduler": "none", block: "1048576"}
    path = tmp_path / "run.jsonl"
    wanted = [
        Setting(Backend.BLOCK, "queue/scheduler", "bpref-cfq", "test"),
        Setting(Backend.BLOCK, block, "16384", "test"),
    ]

    with SettingsJournal(path, {Backend.BLOCK: scheduler}, boot_id="b1", host_id="h1") as changes:
        changes.apply(wanted)
        assert scheduler.values[block] == "16384"
        del scheduler.values[block]

    assert scheduler.values == {"queue/scheduler": "none"}
    assert not path.exists()
