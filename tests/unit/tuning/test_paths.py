"""Settings of a drive that several paths lead to, below one multipath head or as further nodes."""

from pathlib import Path

import pytest

from ssdbench.errors import HostLacks
from ssdbench.host.sysfs import Sysfs
from ssdbench.host.topology import topology
from ssdbench.target.inspect import find
from ssdbench.tuning.backends import BlockBackend
from ssdbench.tuning.journal import SettingsJournal
from ssdbench.tuning.setting import Backend, Setting

PATHS = ("nvme0c0n1", "nvme0c1n1")


def put(root: Path, name: str, **values: str) -> None:
    for attribute, value in values.items():
        path = root / "sys/block" / name / attribute.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value + "\n")


@pytest.fixture
def sysfs(tmp_path: Path) -> Sysfs:
    """A head of two paths, beside another namespace's path."""
    put(tmp_path, "nvme0n1", queue__read_ahead_kb="128", queue__nomerges="0")
    for path in (*PATHS, "nvme0c0n2"):
        put(
            tmp_path, path, queue__scheduler="[none] kyber", queue__nomerges="0", mq__0="", mq__1=""
        )
    put(tmp_path, PATHS[1], queue__scheduler="[none] bfq kyber")
    return Sysfs(tmp_path)


def value(sysfs: Sysfs, name: str, attribute: str) -> str:
    return sysfs.read(f"/sys/block/{name}/queue/{attribute}")


def test_what_concerns_requests_is_set_on_every_path_and_read_ahead_on_the_head(
    sysfs: Sysfs,
) -> None:
    backend = BlockBackend(sysfs, lambda _: "nvme0n1")

    backend.write("queue/nomerges", "2", "drive")
    backend.write("queue/read_ahead_kb", "512", "drive")

    assert [value(sysfs, path, "nomerges") for path in PATHS] == ["2", "2"]
    assert value(sysfs, "nvme0c0n2", "nomerges") == value(sysfs, "nvme0n1", "nomerges") == "0"
    assert value(sysfs, "nvme0n1", "read_ahead_kb") == "512"
    assert backend.read("queue/nomerges", "drive") == "2"


def test_paths_that_are_set_differently_are_named_and_nothing_is_guessed(sysfs: Sysfs) -> None:
    put(sysfs.root, PATHS[1], queue__nomerges="1")

    with pytest.raises(HostLacks, match=r"set differently \(.*nvme0c0n1.*: 0, .*c1n1.*: 1\)"):
        BlockBackend(sysfs, lambda _: "nvme0n1").read("queue/nomerges", "drive")


@pytest.mark.parametrize("given", [("64", "128"), ("64", "")], ids=["another value", "none"])
def test_a_scheduler_is_not_switched_if_it_resets_what_the_paths_have_differently(
    given: tuple[str, str], sysfs: Sysfs
) -> None:
    for path, requests in zip(PATHS, given, strict=True):
        put(sysfs.root, path, **({"queue__nr_requests": requests} if requests else {}))
    backend = {Backend.BLOCK: BlockBackend(sysfs, lambda _: "nvme0n1")}
    wanted = Setting(Backend.BLOCK, "queue/scheduler", "kyber", "test", "drive")
    journal = SettingsJournal(sysfs.root / "run.jsonl", backend, boot_id="b", host_id="h")

    with journal, pytest.raises(HostLacks, match=r"nr_requests.* 64.*set differently|c0n1.*: 64"):
        journal.apply([wanted])
    assert [value(sysfs, path, "scheduler")[:6] for path in PATHS] == ["[none]", "[none]"]


def test_a_head_offers_what_all_of_its_paths_offer(sysfs: Sysfs) -> None:
    found = topology("nvme0n1", sysfs)

    assert found.schedulers == ("none", "kyber")
    assert found.queue == {"scheduler", "nomerges"}
    assert found.hardware_queues == 2
    assert topology("", sysfs).schedulers == ()


def test_of_two_nodes_of_one_drive_the_chosen_one_is_found_while_there_is_a_choice(
    tmp_path: Path,
) -> None:
    sysfs = Sysfs(tmp_path)
    put(tmp_path, "nvme0n1", wwid="eui.12", nsid="1")
    put(tmp_path, "nvme1n1", wwid="eui.12", nsid="1")
    chosen = "eui.12 via node-nvme1n1-nvme-1"

    assert find("eui.12", sysfs=sysfs) is None
    assert find(chosen, sysfs=sysfs) == "nvme1n1"
    assert find("eui.12 via elsewhere", sysfs=sysfs) is None
    (tmp_path / "sys/block/nvme0n1").rename(tmp_path / "gone")
    assert find("eui.12 via elsewhere", sysfs=sysfs) == "nvme1n1"
    assert find("eui.13 via node-nvme1n1-nvme-1", sysfs=sysfs) is None
