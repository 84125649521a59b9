"""`lab run` with what it cannot do: a sentence and what to do, before anything boots."""

import json
import sys
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path
from types import SimpleNamespace

import pytest

from ssdbench.cli.main import run
from ssdbench.lab import session
from ssdbench.lab.guest import Answer
from ssdbench.lab.kernels import from_tree
from ssdbench.lab.session import GuestRequest


@pytest.mark.parametrize("asked", ["900TiB", "8000000TiB"])
def test_more_memory_than_the_host_has_is_refused(
    asked: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = run(["lab", "run", "--memory", asked, "--", "true"])

    said = capsys.readouterr().err
    assert status == 2
    assert f"a guest cannot have {asked} of memory: this host has " in said
    assert "Give a smaller `--memory`" in said


def test_a_cache_that_cannot_be_made_names_the_variable_that_moves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_text("kept")
    monkeypatch.setenv("SSDBENCH_LAB_CACHE", str(file / "lab"))

    status = run(["lab", "run", "--", "true"])

    said = capsys.readouterr().err
    assert status == 4
    assert "the lab cannot keep its kernels and tools" in said
    assert "SSDBENCH_LAB_CACHE" in said
    assert file.read_text() == "kept"


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (["--disk", "nvme=sim:nope"], "there is no simulated drive 'nope'"),
        (["--disk", "nvme=sim:x25m-g2-160,capacity=0"], "capacity_bytes must be from"),
        (["--program", "no-such-program"], "there is no program no-such-program on this host"),
    ],
)
def test_what_cannot_be_is_refused_before_a_kernel_is_fetched(
    asked: list[str],
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SSDBENCH_LAB_CACHE", str(tmp_path / "lab"))

    status = run(["lab", "run", *asked, "--", "true"])

    assert status == 2
    assert why in capsys.readouterr().err
    assert not (tmp_path / "lab").exists()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A kernel that somebody built with some of what a guest needs."""
    tree, release = tmp_path / "tree", "6.99.0-mine"
    for name in ("arch/x86/boot", "include/config"):
        (tree / name).mkdir(parents=True)
    (tree / "arch/x86/boot/bzImage").write_text("")
    (tree / "include/config/kernel.release").write_text(f"{release}\n")
    (tree / "has").write_text("".join(f"kernel/{name}.ko\n" for name in ("virtiofs", "nvme")))
    (tree / "Makefile").write_text(
        f"modules_install:\n\tcp has $(INSTALL_MOD_PATH)/lib/modules/{release}/modules.builtin\n"
    )
    return tree


def test_what_a_kernel_of_ones_own_lacks_is_named_before_anything_is_fetched(
    tree: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SSDBENCH_LAB_CACHE", str(tmp_path / "lab"))
    monkeypatch.setattr(session, "_require_mounts", lambda: None)

    status = run(["lab", "run", "--kernel-dir", str(tree), "--", "true"])

    assert status == 2
    assert capsys.readouterr().err.splitlines()[-2:] == [
        f"error: the kernel built in {tree} has no virtio_pci, fuse, overlay, neither built in nor "
        "as a module",
        "hint: Switch on CONFIG_VIRTIO_PCI, CONFIG_FUSE_FS, CONFIG_OVERLAY_FS and build it again.",
    ]
    assert not list((tmp_path / "lab").glob("*/**/*.deb"))


def test_a_kernel_of_ones_own_needs_no_driver_but_those_of_its_disks(
    tree: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    kernel = from_tree(tree, tmp_path / "lab")
    monkeypatch.setenv("SSDBENCH_LAB_CACHE", str(tmp_path / "lab"))
    monkeypatch.setattr(session, "_require_mounts", lambda: None)
    monkeypatch.setattr(session, "Lab", lambda *_, **__: SimpleNamespace(kernel=kernel))

    status = run(
        ["lab", "run", "--kernel-dir", str(tree), "--disk", "nvme=null:1MiB",
         "--disk", "ahci=null:1MiB", "--", "true"],
    )  # fmt: skip

    assert kernel.insertion_order("nvme", "ahci", "virtio_scsi") == []
    assert status == 2
    assert "has no ahci, sd_mod, neither built in nor as a module" in capsys.readouterr().err


def test_without_the_right_to_mount_nothing_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bin").mkdir()
    refused = tmp_path / "bin" / "unshare"
    refused.write_text("#!/bin/sh\necho 'unshare failed: Operation not permitted' >&2; exit 1\n")
    refused.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setenv("SSDBENCH_LAB_CACHE", str(tmp_path / "lab"))

    status = run(["lab", "run", "--", "true"])

    said = capsys.readouterr().err
    assert status == 4
    assert "files to a guest: unshare failed: Operation not permitted" in said
    assert "Run as root" in said
    assert not (tmp_path / "lab").exists()


@pytest.mark.parametrize(("named", "used"), [("here", "{}/here"), ("", "/var/cache/ssdbench/lab")])
def test_the_cache_is_the_same_place_for_every_program_that_uses_it(
    named: str, used: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the guest, and with make and apt, a relative path leads elsewhere; an empty one to /."""
    asked: list[Path] = []

    def instead(request: GuestRequest, cache: Path, *, watch: Callable[[Path], None]) -> Answer:
        asked.append(cache)
        return Answer(0, "", "", "", 1.0, 1.0)

    monkeypatch.setattr(session, "run_in_guest", instead)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SSDBENCH_LAB_CACHE", named)

    with pytest.raises(SystemExit, match="0"):
        run(["lab", "run", "--", "true"])

    assert asked == [Path(used.format(tmp_path))]


def test_the_console_is_kept_with_json_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = BytesIO()

    def instead(request: GuestRequest, cache: Path, *, watch: Callable[[Path], None]) -> Answer:
        shared = tmp_path / "share" / "job"
        (shared / "1").mkdir(parents=True)
        (shared / "1" / "stdout").write_text("said\n")
        (tmp_path / "console").write_text("booted\n")
        watch(shared)
        return Answer(0, "said\n", "", "booted\n", 1.0, 1.0)

    monkeypatch.setattr(session, "run_in_guest", instead)
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(out))

    with pytest.raises(SystemExit, match="0"):
        run(["lab", "run", "--json", "--console", str(tmp_path / "kept"), "--", "true"])

    sys.stdout.flush()
    assert json.loads(out.getvalue())["stdout"] == "said\n"
    assert (tmp_path / "kept").read_text() == "booted\n"
