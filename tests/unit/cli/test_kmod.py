import json
import os
import platform
from contextlib import suppress
from pathlib import Path

import pytest

from ssdbench import __version__
from ssdbench.cli.main import run
from ssdbench.host import kmod
from ssdbench.host.sysfs import Sysfs
from tests.support.moments import MOMENTS, at_line


@pytest.fixture
def headers(tmp_path: Path) -> Path:
    """Of a kernel in whose build each module is an empty file."""
    directory = tmp_path / "headers"
    (directory / "include/generated").mkdir(parents=True)
    (directory / "include/generated/utsrelease.h").write_text('#define UTS_RELEASE "1.2.3-own"\n')
    (directory / "Makefile").write_text(
        "modules:\n\t@for d in $(SSDB); do touch $(M)/$$d/ssdb_$$d.ko; done\n"
    )
    return directory


@pytest.mark.parametrize("verb", ["load", "unload"])
def test_a_module_that_there_is_not_is_a_usage_error(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = run(["kmod", verb, "ssdb_warp"])

    assert status == 2
    assert "there is no module ssdb_warp" in capsys.readouterr().err


def test_a_build_without_headers_says_how_to_get_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = run(["kmod", "build", "--kernel", "1.2.3-none", "--headers", str(tmp_path)])

    said = capsys.readouterr().err
    assert status == 4
    assert "no kernel headers" in said
    assert "No package here has the headers of 1.2.3-none" in said
    assert "apt-get install" not in said


def test_what_is_no_release_is_refused_before_anything_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A build begins by removing its directory: with `/etc` for a release, that was /etc."""
    kept = tmp_path / "kept"
    kept.mkdir()
    (tmp_path / "Makefile").write_text("modules:\n")
    monkeypatch.setenv("SSDBENCH_KMOD_DIR", str(tmp_path / "kmod"))

    for release in (str(kept), "../kept", "..", "."):
        status = run(["kmod", "build", "--kernel", release, "--headers", str(tmp_path)])

        assert status == 2
        assert kept.is_dir()
        assert "is not a kernel release" in capsys.readouterr().err


def test_a_source_without_the_block_layer_is_refused_before_anything_is_removed(
    headers: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    built = tmp_path / "kmod" / "1.2.3-own" / "ssdb_flash.ko"
    built.parent.mkdir(parents=True)
    built.write_text("")
    monkeypatch.setenv("SSDBENCH_KMOD_DIR", str(tmp_path / "kmod"))

    status = run(
        ["kmod", "build", "--headers", str(headers), "--block-source", str(tmp_path)],
    )

    assert status == 4
    assert built.exists()
    assert "has no block/elevator.h" in capsys.readouterr().err


def test_a_module_that_does_not_build_gets_a_sentence_and_stops_no_other(
    headers: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In the place of a kernel's build: of slam there is none, and each other is an empty file."""
    (headers / "Makefile").write_text(
        "modules:\n\t@for d in $(SSDB); do [ $$d != slam ] || "
        "{ echo 'slam/main.c:7: error: planted' >&2; exit 1; }; done\n"
        "\t@for d in $(SSDB); do touch $(M)/$$d/ssdb_$$d.ko; done\n"
    )
    monkeypatch.setenv("SSDBENCH_KMOD_DIR", str(tmp_path / "kmod"))

    status = run(["kmod", "build", "--headers", str(headers)])

    said = capsys.readouterr().out
    assert status == 0
    for name in ("flash", "tmerge"):
        assert f"ssdb_{name}  built: {tmp_path}/kmod/1.2.3-own/{name}/ssdb_{name}.ko" in said
    assert "not built: ssdb_slam: slam/main.c:7: error: planted" in said
    assert "not built: ssdb_bpref: it needs the kernel's own source" in said


@pytest.mark.parametrize(
    ("named", "used"),
    [("here", "{}/here"), ("", kmod.DEFAULT_DIRECTORY), ("/a/b", "/a/b")],
)
def test_modules_are_built_in_the_same_place_whoever_looks(
    named: str, used: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an empty variable, a directory that had the name of a kernel was removed here."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SSDBENCH_KMOD_DIR", named)

    assert kmod.directory() == Path(used.format(tmp_path))


@pytest.mark.parametrize("name", ["with space", "co:lon", "~", "do$lar"])
@pytest.mark.parametrize(
    ("variable", "argv"),
    [("SSDBENCH_KMOD_DIR", ["kmod", "build"]), ("SSDBENCH_LAB_CACHE", ["lab", "run", "true"])],
)
def test_a_place_in_which_make_cannot_work_is_refused_before_it_is_made(
    name: str,
    variable: str,
    argv: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(variable, str(tmp_path / name))

    status = run(argv)

    assert status == 2
    assert f"{variable} is {tmp_path}/{name}, but make and apt cannot" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("Makefile:236: *** cannot contain spaces.  Stop.", "cannot contain spaces"),
        ("warning: another compiler\n/bin/sh: 1: gcc-12: not found", "gcc-12: not found"),
        ("a.c:1: error: planted", "a.c:1: error: planted"),
    ],
)
def test_a_failed_build_tells_what_went_wrong_and_not_where_make_was(
    said: str,
    told: str,
    headers: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SSDBENCH_KMOD_DIR", str(tmp_path / "kmod"))
    (tmp_path / "said").write_text(
        f"make[2]: *** [x/Makefile:9: y] Error 127\n{said}\nmake[1]: *** [z] Error 2\n"
    )
    (headers / "Makefile").write_text(f"modules:\n\t@cat {tmp_path}/said >&2; exit 2\n")

    status = run(["kmod", "build", "--headers", str(headers)])

    assert status == 4
    assert told in capsys.readouterr().err.splitlines()[-2]


def test_relative_directories_are_those_of_the_caller(
    headers: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "source/block").mkdir(parents=True)
    (tmp_path / "source/block/elevator.h").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SSDBENCH_KMOD_DIR", "kmod")

    status = run(["kmod", "build", "--headers", "headers", "--block-source", "source"])
    laid_out = run(["kmod", "dkms", "--to", "a place"])

    said = capsys.readouterr()
    assert (status, laid_out) == (0, 0)
    assert f"built: {tmp_path}/kmod/1.2.3-own/flash/ssdb_flash.ko" in said.out
    assert f"not built: ssdb_bpref: {tmp_path}/source is the source of" in said.out
    assert f"--sourcetree '{tmp_path}/a place'" in said.out
    assert "kmod: building ssdb_flash, ssdb_tmerge, ssdb_slam" in said.err


@pytest.mark.parametrize("told", [True, False])
def test_schedulers_whose_source_fits_by_its_number_alone_are_told_of(
    *,
    told: bool,
    headers: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def instead(work: Path, headers: Path, source: Path) -> str:
        if told:
            (work / "bpref/layout.c").touch()
        return ""

    (tmp_path / "source/block").mkdir(parents=True)
    (tmp_path / "source/block/elevator.h").touch()
    monkeypatch.setattr(kmod, "compared", instead)
    monkeypatch.setattr(kmod, "obstacles", lambda sysfs: [])
    monkeypatch.setenv("SSDBENCH_KMOD_DIR", str(tmp_path / "kmod"))
    monkeypatch.setattr(platform, "release", lambda: "1.2.3-own")

    status = run(
        ["kmod", "build", "--headers", str(headers), "--block-source", f"{tmp_path}/source"]
    )
    built = capsys.readouterr().out
    run(["kmod", "status"])
    shown = capsys.readouterr().out
    run(["kmod", "status", "--json"])
    document = json.loads(capsys.readouterr().out)

    note = (
        "note: ssdb_bpref: only the version number shows that its source fits this kernel, which "
        "has no BTF; if its vendor changed the kernel's structures, the schedulers corrupt memory"
    )
    assert status == 0
    assert [line for line in built.splitlines() if line.startswith("note: ")] == (
        [] if told else [note]
    )
    assert [line for line in shown.splitlines() if line.startswith("note: ")] == (
        [] if told else [note]
    )
    notes = {module["name"]: module["note"] for module in document["modules"] if module["note"]}
    assert notes == ({} if told else {"ssdb_bpref": note.removeprefix("note: ssdb_bpref: ")})


def test_a_directory_that_was_given_and_has_no_headers_is_no_lack_of_a_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever makefile it has is not run: that of our own sources called itself without end."""
    monkeypatch.setenv("SSDBENCH_KMOD_DIR", str(tmp_path / "kmod"))
    for name in ("empty", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "other/Makefile").write_text(f"modules:\n\ttouch {tmp_path}/run\n")

    for name in ("empty", "other"):
        status = run(["kmod", "build", "--headers", str(tmp_path / name)])

        said = capsys.readouterr().err
        assert status == 4
        assert f"there are no kernel headers at {tmp_path}/{name}\n" in said
        assert "hint: Name the directory that the kernel was built in, or the" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "other"]


def test_a_build_goes_to_the_kernel_that_its_headers_are_of(
    headers: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Else it would take the place of the modules of the kernel that runs."""
    monkeypatch.setenv("SSDBENCH_KMOD_DIR", str(tmp_path / "kmod"))

    status = run(["kmod", "build", "--headers", str(headers)])
    refused = run(["kmod", "build", "--headers", str(headers), "--kernel", "4.5.6"])

    assert (status, refused) == (0, 2)
    assert [path.name for path in (tmp_path / "kmod").iterdir() if path.is_dir()] == ["1.2.3-own"]
    assert "are for Linux 1.2.3-own, not for 4.5.6" in capsys.readouterr().err


def test_where_nothing_can_be_built_what_was_built_stays(
    headers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = tmp_path / "kmod/1.2.3-own/slam/ssdb_slam.ko"
    built.parent.mkdir(parents=True)
    built.write_text("before")
    (headers / "Makefile").write_text("modules:\n\t@echo 'error: planted' >&2; exit 1\n")
    monkeypatch.setenv("SSDBENCH_KMOD_DIR", str(tmp_path / "kmod"))

    status = run(["kmod", "build", "--headers", str(headers)])

    assert status == 4
    assert built.read_text() == "before"


def test_one_of_two_builds_is_there_whenever_it_is_interrupted(tmp_path: Path) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    found = set()
    for moment in MOMENTS:
        built = tmp_path / f"{moment}" / "flash.ko"
        built.parent.mkdir()
        built.write_text("before")
        with (
            suppress(KeyboardInterrupt),
            at_line("_taking_the_place_of", moment, interrupted),
            kmod._taking_the_place_of(built.parent) as work,
        ):
            work.mkdir()
            (work / "flash.ko").write_text("now")
        found.add(built.read_text())

    assert found == {"before", "now"}


def test_a_place_that_cannot_be_written_names_the_variable_that_moves_it(
    headers: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").write_text("kept")
    monkeypatch.setenv("SSDBENCH_KMOD_DIR", str(tmp_path / "file"))

    status = run(["kmod", "build", "--headers", str(headers)])

    said = capsys.readouterr().err
    assert status == 4
    assert f"{tmp_path}/file cannot be written" in said
    assert "set SSDBENCH_KMOD_DIR" in said
    assert (tmp_path / "file").read_text() == "kept"


def test_where_nothing_is_built_or_loaded_a_sentence_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SSDBENCH_KMOD_DIR", str(tmp_path))
    monkeypatch.setattr(kmod, "obstacles", lambda sysfs: [])
    monkeypatch.setattr(platform, "release", lambda: "9.8.7")

    nothing = run(["kmod", "load"])
    for name in ("1.2.3/flash", "1.2.4/flash", ".4.5.6.new/flash"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "ssdb_flash.ko").touch()
    of_others = run(["kmod", "load", "ssdb_tmerge"])
    unloaded = run(["kmod", "unload"])

    said = capsys.readouterr()
    assert (nothing, of_others, unloaded) == (4, 4, 0)
    assert said.out == ""
    assert said.err.splitlines() == [
        "error: no module is built for Linux 9.8.7",
        "hint: Run `ssdbench kmod build`.",
        "error: ssdb_flash is not built for Linux 9.8.7; there are modules for 1.2.3, 1.2.4",
        "hint: Run `ssdbench kmod build`.",
        "no module of ssdbench is loaded",
    ]


@pytest.mark.parametrize(("verb", "program"), [("load", "insmod"), ("unload", "rmmod")])
def test_who_is_not_root_is_told_to_be(
    verb: str,
    program: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    state = kmod.ModuleState("ssdb_flash", tmp_path / "a.ko", verb == "unload", 0)
    (tmp_path / "a.ko").touch()
    for name in (program, "modprobe"):
        (tmp_path / name).write_text(
            "#!/bin/sh\necho 'ERROR: Operation not permitted' >&2\nexit 1\n"
        )
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(kmod, "obstacles", lambda sysfs: [])
    monkeypatch.setattr(kmod, "states", lambda sysfs, built: [state])

    status = run(["kmod", verb])

    assert status == 4
    assert capsys.readouterr().err.splitlines()[-1] == "hint: Run as root."


@pytest.mark.parametrize(
    ("asked", "users_of_tmerge", "gone"),
    [
        ([], 1, []),
        (["ssdb_flash", "ssdb_slam"], 0, []),
        ([], 0, ["ssdb_slam", "ssdb_bpref", "ssdb_tmerge", "ssdb_flash"]),
    ],
)
def test_where_one_module_is_in_use_by_another_all_stay(
    asked: list[str],
    users_of_tmerge: int,
    gone: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Others of ours that leave before it are no obstacle: ssdb_tmerge uses ssdb_flash."""
    users = {"ssdb_flash": 1, "ssdb_tmerge": users_of_tmerge}
    states = [kmod.ModuleState(name, None, True, users.get(name, 0)) for name in kmod.MODULES]
    (tmp_path / "rmmod").write_text(f"#!/bin/sh\necho $1 >> {tmp_path}/gone\n")
    (tmp_path / "rmmod").chmod(0o755)
    (tmp_path / "gone").touch()
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(kmod, "states", lambda sysfs, built: states)

    status = run(["kmod", "unload", *asked])

    said = capsys.readouterr().err
    assert (tmp_path / "gone").read_text().split() == gone
    assert status == (0 if gone else 4)
    assert ("cannot be unloaded: it is in use" in said) == (not gone)


def test_what_one_module_needs_of_the_others_is_loaded_before_it() -> None:
    assert kmod.with_needs(["ssdb_slam", "ssdb_tmerge"]) == [
        "ssdb_slam", "ssdb_flash", "ssdb_tmerge",
    ]  # fmt: skip
    assert kmod.with_needs(["bfq", "ssdb_flash"]) == ["bfq", "ssdb_flash"]


def test_what_keeps_a_module_loaded_is_named_with_the_way_to_end_it(tmp_path: Path) -> None:
    for kernel, schedulers in {
        "sda": "none [bpref-as] bpref-cfq",
        "sdb": "[none] bpref-as",
    }.items():
        (tmp_path / f"sys/block/{kernel}/queue").mkdir(parents=True)
        (tmp_path / f"sys/block/{kernel}/queue/scheduler").write_text(schedulers + "\n")
    (tmp_path / "sys/kernel/config/ssdb_flash/ssd0").mkdir(parents=True)
    (tmp_path / "sys/module/ssdb_tmerge").mkdir(parents=True)

    held = {name: kmod.users(Sysfs(tmp_path), name) for name in kmod.MODULES}

    assert held == {
        "ssdb_bpref": ["`echo none > /sys/block/sda/queue/scheduler`"],
        "ssdb_flash": [
            "`ssdbench kmod unload ssdb_tmerge`",
            "`rmdir /sys/kernel/config/ssdb_flash/ssd0`",
        ],
        "ssdb_tmerge": [],
        "ssdb_slam": [],
    }


def test_every_obstacle_to_loading_is_named(tmp_path: Path) -> None:
    for name, value in {
        "proc/sys/kernel/modules_disabled": "1",
        "sys/kernel/security/lockdown": "none [integrity] confidentiality",
        "sys/module/module/parameters/sig_enforce": "Y",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(value + "\n")

    reasons = kmod.obstacles(Sysfs(tmp_path))

    assert len(reasons) == 4
    assert "without loadable modules" in reasons[0]
    assert "mokutil" in reasons[2]


def test_the_state_of_each_module_comes_from_the_kernel_and_the_build(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/modules").write_text(
        "ssdb_slam 49152 2 - Live 0x0 (OE)\n"
        "ssdb_tmerge 49152 - - Live 0x0 (OE)\n"  # without CONFIG_MODULE_UNLOAD
    )
    (tmp_path / "ssdb_flash.ko").write_text("")

    states = {state.name: state for state in kmod.states(Sysfs(tmp_path), tmp_path)}

    assert (states["ssdb_slam"].loaded, states["ssdb_slam"].users) == (True, 2)
    assert (states["ssdb_tmerge"].loaded, states["ssdb_tmerge"].users) == (True, None)
    assert (states["ssdb_bpref"].loaded, states["ssdb_bpref"].users) == (False, 0)
    assert states["ssdb_flash"].built == tmp_path / "ssdb_flash.ko"
    assert json.dumps(states["ssdb_bpref"].loaded) == "false"


def test_a_module_names_the_kernel_that_it_was_built_for(tmp_path: Path) -> None:
    module = tmp_path / "a.ko"
    module.write_bytes(b"\x7fELF\0license=GPL\0vermagic=6.1.0-50-amd64 SMP preempt \0name=a\0")
    assert kmod.built_for(module) == "6.1.0-50-amd64"

    module.write_bytes(b"garbage")
    assert kmod.built_for(module) is None


def test_a_digest_changes_with_the_sources_alone(tmp_path: Path) -> None:
    (tmp_path / "slam").mkdir()
    (tmp_path / "Kbuild").write_text("obj-m := slam/\n")
    (tmp_path / "slam/main.c").write_text("int a;\n")
    before = kmod.source_digest(tmp_path)

    (tmp_path / "slam/main.o").write_text("built")
    unchanged = kmod.source_digest(tmp_path)
    (tmp_path / "slam/main.c").write_text("int b;\n")

    assert unchanged == before
    assert kmod.source_digest(tmp_path) != before


def test_sources_for_dkms_are_never_laid_over_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = run(["kmod", "dkms", "--to", str(tmp_path)])
    again = run(["kmod", "dkms", "--to", str(tmp_path)])

    conf = (tmp_path / f"ssdbench-tmerge-{__version__}" / "dkms.conf").read_text()
    assert (first, again) == (0, 2)
    assert f'PACKAGE_VERSION="{__version__}"' in conf
    assert 'PACKAGE_NAME="ssdbench-tmerge"' in conf
    assert "exists already" in capsys.readouterr().err
