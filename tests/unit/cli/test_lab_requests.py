"""`lab run` with what it cannot do: a sentence and what to do, before anything boots."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from ssdbench.cli.main import run
from ssdbench.errors import HostLacks
from ssdbench.lab import session
from ssdbench.lab.guest import Answer, GuestTrouble
from ssdbench.lab.kernels import from_tree
from ssdbench.lab.session import KEPT_RUNS, GuestRequest, KeptRun


@pytest.mark.parametrize("asked", ["900", "8000000"])
def test_more_memory_than_the_host_has_is_refused(
    asked: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = run(["lab", "run", "--memory", f"{asked}TiB", "--", "true"])

    said = capsys.readouterr().err
    assert status == 2
    assert f"a guest cannot have {asked} TiB of memory: this host has " in said
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


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ("6.18", ": the modules were compiled for it, but Debian has no image to boot"),
        ("6.9", ""),
    ],
)
def test_a_kernel_that_the_lab_does_not_have_may_be_built_and_booted(
    asked: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = run(["lab", "run", "--kernel", asked, "--", "true"])
    said = capsys.readouterr().err
    of_a_tree = run(
        ["lab", "run", "--kernel", asked, "--kernel-dir", str(tmp_path), "--", "true"]
    )  # which has no kernel

    assert (status, of_a_tree) == (2, 2)
    assert f"the lab has no kernel {asked}{why}; it has 6.1, 6.1-rt, 6.12, " in said
    assert "--kernel-dir DIR" in said
    assert f"there is no kernel built in {tmp_path}" in capsys.readouterr().err


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
        "hint: Enable CONFIG_VIRTIO_PCI, CONFIG_FUSE_FS, CONFIG_OVERLAY_FS and build the kernel "
        "again.",
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
    assert "files with a guest: unshare failed: Operation not permitted" in said
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


def a_guest(folder: Path, ends: BaseException | None = None) -> Callable[..., Answer]:
    """Instead of a guest: its console, what its command says, what its kernel says; and its end."""

    def instead(request: GuestRequest, cache: Path, *, watch: Callable[[Path], None]) -> Answer:
        shared = folder / "share" / "job"
        (shared / "1").mkdir(parents=True)
        (folder / "console").write_text("booted\n")
        for name, said in {"stdout": "said\n", "stderr": "but\n", "dmesg": "<4>odd\n"}.items():
            (shared / "1" / name).write_text(said)
        watch(shared)
        if ends is not None:
            raise ends
        output = ("", "") if request.handed_on else ("said\n", "but\n")
        return Answer(0, *output, "booted\n", 1.0, 1.0)

    return instead


@pytest.mark.parametrize(
    ("ends", "last"),
    [
        (None, "lab: {}"),
        (GuestTrouble("the guest's kernel reported: BUG: x", hint="its console:\nx"), "  {}"),
        (HostLacks("the guest did not finish the command"), "hint: {}"),
        (KeyboardInterrupt(), "lab: {}"),
    ],
)
def test_console_and_output_of_each_run_are_kept_and_where_is_said_at_its_end(
    ends: BaseException | None,
    last: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SSDBENCH_LAB_CACHE", str(tmp_path / "lab"))
    monkeypatch.setattr(session, "run_in_guest", a_guest(tmp_path, ends))

    with suppress(SystemExit):
        run(["lab", "run", "--", "true"])

    (kept,) = (tmp_path / "lab" / "runs").iterdir()
    out, err = capsys.readouterr()
    lines = err.splitlines()
    where = last.format(f"the guest's console and the command's output are kept in {kept}")
    assert {path.name: path.read_text() for path in kept.iterdir()} == {
        "console": "booted\n", "stdout": "said\n", "stderr": "but\n", "dmesg": "<4>odd\n",
    }  # fmt: skip
    assert where in lines
    assert [line for line in lines if line != "interrupted"][-1] == where
    assert kept.stat().st_mode & 0o077 == 0
    assert out == "said\n"


@pytest.mark.parametrize("as_json", [True, False])
def test_only_a_document_has_the_output_whole(
    *,
    as_json: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked: list[bool] = []
    guest = a_guest(tmp_path)

    def instead(request: GuestRequest, cache: Path, *, watch: Callable[[Path], None]) -> Answer:
        asked.append(request.handed_on)
        return guest(request, cache, watch=watch)

    monkeypatch.setenv("SSDBENCH_LAB_CACHE", str(tmp_path / "lab"))
    monkeypatch.setattr(session, "run_in_guest", instead)

    with pytest.raises(SystemExit, match="0"):
        run(["lab", "run", *(["--json"] if as_json else []), "--", "true"])

    assert asked == [not as_json]
    assert ('"stdout": "said' in capsys.readouterr().out) == as_json


def test_a_full_disk_does_not_end_a_run_and_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "now"
    folder.mkdir(parents=True)
    (folder / "stdout").symlink_to("/dev/full")

    with KeptRun(tmp_path, name="now") as kept:
        kept.add("stdout", b"said")
        kept.add("console", b"booted")

    full = f"the output in {folder} is incomplete: No space left on device"
    assert kept.where() == full
    assert (folder / "console").read_bytes() == b"booted"


def test_the_oldest_runs_are_removed_but_none_that_is_at_work(tmp_path: Path) -> None:
    days = range(1, KEPT_RUNS + 3)
    runs = [tmp_path / "runs" / f"2026-01-{day:02}T00-00-00-1" for day in days]
    for path in runs:
        path.mkdir(parents=True)
    with KeptRun(tmp_path, name=runs[0].name) as first:
        first.add("console", b"booted")

        with KeptRun(tmp_path) as latest:
            latest.add("stdout", b"said")

    left = set((tmp_path / "runs").iterdir())
    assert {runs[0], latest.path} <= left
    assert not left & {runs[1], runs[2]}
    assert len(left) == KEPT_RUNS + 1


def test_the_console_is_kept_with_json_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SSDBENCH_LAB_CACHE", str(tmp_path / "lab"))
    monkeypatch.setattr(session, "run_in_guest", a_guest(tmp_path))

    with pytest.raises(SystemExit, match="0"):
        run(["lab", "run", "--json", "--console", str(tmp_path / "kept"), "--", "true"])

    assert json.loads(capsys.readouterr().out)["stdout"] == "said\n"
    assert (tmp_path / "kept").read_text() == "booted\n"
