"""Settings come back from a kill at any place, and from any damage of their journal, or a word."""

import errno
import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from ssdbench.host.sysfs import Sysfs
from ssdbench.tuning.backends import SettingBackend, backends_of
from ssdbench.tuning.journal import NotRestored, SettingsJournal, read, restore_all
from ssdbench.tuning.setting import OF_SCHEDULER, Backend, Setting, queue_settings
from tests.support.killpoints import KILLED, killed_at, points

DRIVE = "eui.0025385b91b0a4d2"
GOVERNOR = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
WISHES: dict[str, str | int] = {
    "scheduler": "mq-deadline",
    "nr_requests": 32,
    "nomerges": 2,
    "add_random": 1,
    "read_ahead_kb": 4,
}
CHOICES = ("none", "mq-deadline")
OF_MQ_DEADLINE = {"read_expire": "500", "async_depth": "256"}  # when the kernel makes a new one


class Kernel:
    """Attribute files of one drive as Linux 6.18 has them: some are reset by writes to others."""

    def __init__(self, root: Path, *, scheduler: str, wanted: str) -> None:
        self.wishes = WISHES | {"scheduler": wanted}
        self.refused = ""  # the kernel takes no value for this attribute
        self.root = root / "host"
        self.journals = root / "settings"
        self.queue = self.root / "sys/block/sda/queue"
        (self.queue / "iosched").mkdir(parents=True)  # the real one goes with the scheduler
        (self.root / GOVERNOR.lstrip("/")).parent.mkdir(parents=True)
        values = {"nr_requests": "50", "nomerges": "0", "add_random": "0", "read_ahead_kb": "100",
                  "iostats": "0", "wbt_lat_usec": "2000"}  # fmt: skip
        for name, value in values.items():
            (self.queue / name).write_text(f"{value}\n")
        (self.root / GOVERNOR.lstrip("/")).write_text("powersave\n")
        self._switch(scheduler)
        if scheduler != "none":
            (self.queue / "iosched/read_expire").write_text("200\n")
            (self.queue / "iosched/async_depth").write_text("10\n")

    def _switch(self, scheduler: str) -> None:
        """Make a new scheduler, whose parameters have their defaults."""
        (self.queue / "scheduler").write_text(self._listed(scheduler))
        for name, value in OF_MQ_DEADLINE.items():
            path = self.queue / "iosched" / name
            if scheduler != "none":
                path.write_text(f"{value}\n")
            elif path.exists():
                _unlink(path)

    def _listed(self, chosen: str) -> str:
        return " ".join(f"[{name}]" if name == chosen else name for name in CHOICES) + "\n"

    def write(self, descriptor: int, data: bytes) -> int:
        """As os.write, with what the kernel does besides."""
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if not path.is_relative_to(self.root):
            return _write(descriptor, data)
        value = data.decode().strip()
        if path.name == self.refused:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        if path.name == "scheduler":
            (path.parent / "nr_requests").write_text("256\n" if value != "none" else "128\n")
            self._switch(value)
            return len(data)
        if path.name == "nr_requests" and (depth := self.queue / "iosched/async_depth").exists():
            depth.write_text(f"{value}\n")
        if path.name in ("add_random", "iostats"):
            (path.parent / "read_ahead_kb").write_text("2560\n")
        path.write_text(f"{value}\n")
        return len(data)

    def values(self) -> dict[str, str]:
        """All attributes."""
        files = sorted(path for path in self.root.rglob("*") if path.is_file())
        return {str(path.relative_to(self.root)): path.read_text().strip() for path in files}

    def have(self, values: dict[str, str]) -> None:
        """Give the attributes these values, and have no others."""
        for path in (self.queue / "iosched").iterdir():
            path.unlink()
        for name, value in values.items():
            (self.root / name).write_text(f"{value}\n")

    @property
    def backends(self) -> dict[Backend, SettingBackend]:
        return backends_of(Sysfs(self.root), lambda drive: "sda")

    def run(self) -> None:
        """A run: change everything, and put it back."""
        settings = [
            Setting(Backend.BLOCK, "queue/iostats", "1", "test", DRIVE),
            *queue_settings(self.wishes, DRIVE),
            Setting(Backend.SYSFS, GOVERNOR, "performance", "test"),
        ]
        path = self.journals / "run.jsonl"
        with SettingsJournal(path, self.backends, boot_id="b1", host_id="h1") as journal:
            journal.apply(settings)

    def restore(self) -> None:
        restore_all(self.journals, self.backends, boot_id="b1", host_id="h1")


_write, _unlink = os.write, os.unlink  # what the kernel does is no place for a kill


SWITCHES = (("none", "mq-deadline"), ("mq-deadline", "none"), ("mq-deadline", "mq-deadline"))


@pytest.fixture(params=SWITCHES, ids=" to ".join)
def kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Kernel:
    """A kernel whose drive has one of the schedulers, and a run that wants one."""
    made = Kernel(tmp_path, scheduler=request.param[0], wanted=request.param[1])
    monkeypatch.setattr(os, "write", made.write)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # a kill loses nothing; it is slow
    return made


def test_a_run_killed_anywhere_is_restored(kernel: Kernel) -> None:
    before = kernel.values()

    for point in points(kernel.run, write=kernel.write):
        kernel.restore()

        assert kernel.values() == before, f"kill {point}"
        assert not list(kernel.journals.glob("*.jsonl")), f"kill {point}"


def changed(kernel: Kernel) -> None:
    """Leave all settings changed, as a run that is killed after its last change does."""

    def dying(descriptor: int, data: bytes) -> int:
        done = kernel.write(descriptor, data)
        if data == b"performance":
            os._exit(KILLED)
        return done

    assert killed_at(0, kernel.run, write=dying)


def test_a_restore_killed_anywhere_and_killed_again_is_restored(kernel: Kernel) -> None:
    before = kernel.values()
    changed(kernel)
    left = {path: path.read_bytes() for path in kernel.journals.glob("*.jsonl")}
    during = kernel.values()
    assert sum(during.get(name) != before[name] for name in before) >= 6

    for point in points(kernel.restore, write=kernel.write):
        for again in (1, point // 2 + 1, point):
            killed_at(again, kernel.restore, write=kernel.write)
        kernel.restore()

        assert kernel.values() == before, f"kill {point}"
        assert not list(kernel.journals.glob("*.jsonl"))
        kernel.have(during)
        for path, data in left.items():
            path.write_bytes(data)


@pytest.fixture
def damaged(kernel: Kernel) -> "Damaged":
    """A journal of a killed run, to be damaged again and again."""
    before = kernel.values()
    changed(kernel)
    return Damaged(kernel, before)


class Damaged:
    """Restores from a journal that has something else in it each time."""

    def __init__(self, kernel: Kernel, before: dict[str, str]) -> None:
        self.kernel, self.before, self.during = kernel, before, kernel.values()
        self.path = kernel.journals / "run.jsonl"
        self.data = self.path.read_bytes()

    def restored(self, data: bytes) -> tuple[dict[str, str], NotRestored | None]:
        """The values after a restore from these bytes, and what was said."""
        self.kernel.have(self.during)
        self.path.write_bytes(data)
        try:
            self.kernel.restore()
        except NotRestored as error:
            return self.kernel.values(), error
        return self.kernel.values(), None


def flips(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Each bit flipped, one at a time."""
    for place in range(len(data)):
        for bit in range(8):
            yield f"byte {place} bit {bit}", _with(data, place, data[place] ^ 1 << bit)


def _with(data: bytes, place: int, byte: int) -> bytes:
    return data[:place] + bytes([byte]) + data[place + 1 :]


def require_told(damaged: Damaged, which: str, data: bytes) -> None:
    """No value that was never there, and nothing left without a word."""
    values, said = damaged.restored(data)

    for name, value in values.items():
        had = {damaged.before.get(name), damaged.during.get(name)}
        known = had.union(_RESETS.get(Path(name).name, ()))
        assert value in known, f"{which}: {name} is {value}"
    if values != damaged.before or damaged.path.exists():
        assert said is not None, which
        assert str(damaged.path) in said.message, which
        assert damaged.path.exists(), which


_RESETS = {"nr_requests": ("128", "256"), "read_ahead_kb": ("2560",), "read_expire": ("500",),
           "async_depth": ("256", "128", "50", "32")}  # fmt: skip


SOME = 61  # one of so many flips; the bit changes from one to the next


def test_no_flipped_bit_changes_or_loses_a_setting_without_a_word(damaged: Damaged) -> None:
    for which, data in islice(flips(damaged.data), 0, None, SOME):
        require_told(damaged, which, data)
    end = len(damaged.data) - 1
    for bit in range(8):  # the last newline: its line must not look as if a crash had torn it
        flipped = _with(damaged.data, end, damaged.data[end] ^ 1 << bit)
        require_told(damaged, f"byte {end} bit {bit}", flipped)


@pytest.mark.soak
def test_none_of_all_flipped_bits_does(damaged: Damaged) -> None:
    for which, data in flips(damaged.data):
        require_told(damaged, which, data)


def require_named_restored(damaged: Damaged, length: int) -> None:
    """What a cut journal still names is restored."""
    values, said = damaged.restored(damaged.data[:length])

    assert said is None
    assert not damaged.path.exists()
    named = damaged.data.splitlines()[: damaged.data[:length].count(b"\n")]
    for name in (name for name in values if values[name] != damaged.before.get(name)):
        attribute = f'"/{name}"' if name.startswith("sys/dev") else f'"{name[14:]}"'
        assert not any(attribute.encode() in line for line in named), (length, name)


def test_a_journal_cut_somewhere_restores_what_it_still_names(damaged: Damaged) -> None:
    lengths = {line.end() + by for line in re.finditer(rb"^|\n", damaged.data) for by in (-1, 0, 1)}
    for length in sorted(lengths | set(range(0, len(damaged.data), SOME))):
        require_named_restored(damaged, max(0, length))


@pytest.mark.soak
def test_a_journal_cut_anywhere_does(damaged: Damaged) -> None:
    for length in range(len(damaged.data) + 1):
        require_named_restored(damaged, length)


@pytest.mark.parametrize("kernel", [("mq-deadline", "none")], indirect=True, ids=" to ".join)
def test_a_parameter_that_the_new_scheduler_refuses_is_told_and_kept(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = kernel.values()
    monkeypatch.setattr(os, "write", kernel.write)
    kernel.refused = "read_expire"

    with pytest.raises(NotRestored, match=r"queue/iosched/read_expire was '200': .*Invalid arg"):
        kernel.run()
    kernel.refused = ""
    kernel.restore()

    assert kernel.values() == before


@pytest.mark.parametrize("kernel", [("mq-deadline", "none")], indirect=True, ids=" to ".join)
def test_a_scheduler_that_does_not_come_back_keeps_its_parameters_in_the_journal(
    kernel: Kernel,
) -> None:
    before = kernel.values()
    changed(kernel)
    kernel.refused = "scheduler"

    with pytest.MonkeyPatch.context() as patched, pytest.raises(NotRestored):
        patched.setattr(os, "write", kernel.write)
        kernel.restore()
    kernel.refused = ""
    kernel.restore()

    assert kernel.values() == before


@pytest.mark.parametrize("kernel", [("mq-deadline", "none")], indirect=True, ids=" to ".join)
def test_what_a_scheduler_only_shows_is_not_recorded(kernel: Kernel) -> None:
    (kernel.queue / "iosched/waits").write_text("7\n")
    (kernel.queue / "iosched/waits").chmod(0o444)
    changed(kernel)

    named = {change.attribute for change in read(kernel.journals / "run.jsonl").changes}
    assert {name for name in named if name.startswith(OF_SCHEDULER)} == {
        f"{OF_SCHEDULER}{name}" for name in OF_MQ_DEADLINE
    }
