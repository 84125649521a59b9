from pathlib import Path

import pytest

from ssdbench.errors import HostLacks
from ssdbench.host import command
from ssdbench.lab import archive, kernels
from ssdbench.lab.archive import Archive, Package
from ssdbench.lab.session import GuestRequest, run_in_guest
from ssdbench.lab.tools import tools_of
from ssdbench.suite.installed import QEMU, installed

MADISON = """\
 seabios | 1.16.3-2~bpo12+1 | http://mirror.example/debian bookworm-backports/main amd64 Packages
 seabios | 1.16.2-1 | http://mirror.example/debian bookworm/main amd64 Packages
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of programs that come before the machine's own, and a keyring that there is."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setattr(archive, "KEYRING", folder)
    monkeypatch.setenv(archive.ADDRESS, "http://mirror.example/debian")
    return folder


def program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_packages_come_from_the_mirror_that_the_environment_names(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(programs / "apt-get", "exit 0")
    program(programs / "apt-cache", f"cat <<END\n{MADISON}END")

    assert Archive(tmp_path / "lab").versions("seabios") == ["1.16.3-2~bpo12+1", "1.16.2-1"]
    sources = tmp_path / "lab/apt/parts/lab.sources"
    assert "URIs: http://mirror.example/debian\n" in sources.read_text()

    monkeypatch.setenv(archive.ADDRESS, "http://other.example/debian")
    Archive(tmp_path / "lab").versions("seabios")

    assert "URIs: http://other.example/debian\n" in sources.read_text()


def test_without_a_network_the_archive_s_own_reason_is_the_sentence(
    programs: Path, tmp_path: Path
) -> None:
    program(
        programs / "apt-get",
        "echo 'Err:1 http://mirror.example/debian bookworm InRelease'\n"
        "echo 'E: Failed to fetch http://mirror.example/debian  Could not connect' >&2; exit 100",
    )

    with pytest.raises(HostLacks, match="Failed to fetch .* Could not connect") as caught:
        Archive(tmp_path / "lab").names("^linux-headers")

    assert archive.ADDRESS in str(caught.value.hint)


def test_a_mirror_without_backports_is_named_as_the_reason(programs: Path, tmp_path: Path) -> None:
    program(programs / "apt-get", "exit 0")
    program(programs / "apt-cache", f"cat <<END\n{MADISON}END")
    mirror = Archive(tmp_path / "lab")

    assert mirror.newest("seabios", of="bpo12") == Package("seabios", "1.16.3-2~bpo12+1")
    assert mirror.newest("seabios", not_of="bpo12") == Package("seabios", "1.16.2-1")
    with pytest.raises(HostLacks, match="has no package seabios of bpo13"):
        mirror.newest("seabios", of="bpo13")


def test_no_archive_and_no_keyring_are_told_apart(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "KEYRING", tmp_path / "none.gpg")
    with pytest.raises(HostLacks, match=r"none\.gpg, the keys"):
        Archive(tmp_path / "lab").names("x")

    monkeypatch.delenv(archive.ADDRESS)
    monkeypatch.setattr(archive, "_system_sources", list)
    with pytest.raises(HostLacks, match="this host knows no archive of Debian 12"):
        Archive(tmp_path / "lab").names("x")


def test_a_package_that_was_cut_in_half_is_downloaded_again(programs: Path, tmp_path: Path) -> None:
    program(
        programs / "apt-get",
        f"[ $1 != download ] || {{ echo >> {tmp_path}/calls; seq 1000 > a_1.deb; }}",
    )
    mirror, package = Archive(tmp_path / "lab"), Package("a", "1")
    found = mirror.download(package)
    found.write_bytes(found.read_bytes()[:100])

    again = mirror.download(package)
    mirror.download(package)

    assert (again, len(again.read_bytes())) == (found, 3893)
    assert (tmp_path / "calls").read_text() == "\n\n"


def test_what_an_earlier_download_in_another_version_left_is_not_unpacked_beside_the_new_one(
    programs: Path, tmp_path: Path
) -> None:
    """Where a download goes is what the machine's own apt makes of the words it is given."""
    program(
        programs / "apt-get",
        'case "$*" in *update*) exit;; esac; set -- apt-config shell at Dir::Cache::archives/d'
        ' $(echo "$*" | grep -o -e "-o [^ ]*"); eval $("$@"); cd "$at"; touch qemu_$VERSION.deb',
    )
    mirror = Archive(tmp_path / "lab")

    def names(version: str) -> list[str]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("VERSION", version)
            found = mirror.download_with_needs([Package("qemu", version), Package("bios", "3")])
        return [path.name for path in found]

    assert names("1") == ["qemu_1.deb"]
    assert names("2") == ["qemu_2.deb"]


def test_a_disk_without_room_for_a_kernel_is_named_before_anything_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "ROOM_BYTES", 1 << 60)

    with pytest.raises(
        HostLacks, match=r"needs 1048576 TiB, but its file system on /.* has only .* free"
    ):
        kernels.fetch(Archive(tmp_path), "6.12")


def test_programs_that_are_missing_are_told_together_and_before_anything_is_fetched(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("apt-get", "apt-cache"):
        program(programs / name, f"touch {tmp_path}/fetched; exit 1")
    found = command.which
    monkeypatch.setattr(
        command, "which", lambda name: None if name in ("depmod", "strip") else found(name) or name
    )
    request = GuestRequest(argv=("true",), series="6.12", disks=(), cwd=tmp_path, programs=("sh",))

    with pytest.raises(HostLacks, match="the lab needs depmod, strip") as caught:
        run_in_guest(request, tmp_path / "lab")

    assert caught.value.hint == "apt-get install kmod binutils"
    assert not (tmp_path / "fetched").exists()


def planted(cache: Path, library: str) -> None:
    """A cache whose QEMU starts where it finds a library, as the loader does, in these places."""
    tools = tools_of(cache)
    tools.qemu.parent.mkdir(parents=True)
    program(
        tools.qemu,
        'IFS=:; for place in $LD_LIBRARY_PATH; do [ -e "$place"/libfuse3.so.3 ] && exit 0; done\n'
        "echo qemu: error while loading shared libraries: libfuse3.so.3: cannot open >&2; exit 127",
    )
    (cache / "qemu" / library).mkdir(parents=True)
    (cache / "qemu" / library / "libfuse3.so.3").touch()


@pytest.mark.parametrize("library", ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"])
def test_libraries_that_were_fetched_are_found_where_debian_12_has_them(
    library: str, tmp_path: Path
) -> None:
    planted(tmp_path, library)

    assert tools_of(tmp_path).fault() == ""


def test_check_starts_the_qemu_that_was_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSDBENCH_LAB_CACHE", str(tmp_path))
    monkeypatch.setattr(command, "which", lambda name: name)
    assert not next(one for one in installed() if one.command == "lab run").missing

    planted(tmp_path, "opt")

    assert "libfuse3.so.3" in tools_of(tmp_path).fault()
    (lab,) = (one for one in installed() if one.command == "lab run")
    assert (lab.missing, lab.install) == ((QEMU,), "apt-get install qemu-system-x86")
