import platform
import struct
from pathlib import Path

import pytest

from ssdbench.host import kernel_source
from ssdbench.host.kernel_source import (
    StructureLayout,
    compared,
    header_version,
    layout_check,
    structure_layouts,
    version_of,
)


def btf() -> bytes:
    """An int, `struct elevator_queue` of two members and a bit field, and two that nobody wants."""
    text = b"\0int\0elevator_queue\0type\0flags\0bits\0other\0"

    def at(name: bytes) -> int:
        return text.index(b"\0" + name + b"\0") + 1

    def struct_of(name: bytes, size: int, members: list[tuple[bytes, int]], packed: int) -> bytes:
        head = struct.pack("<III", at(name), packed << 31 | 4 << 24 | len(members), size)
        return head + b"".join(struct.pack("<III", at(n), 1, place) for n, place in members)

    types = struct.pack("<IIII", at(b"int"), 1 << 24, 4, 32)
    types += struct_of(
        b"elevator_queue", 48, [(b"type", 0), (b"flags", 64), (b"bits", 3 << 24 | 96)], packed=1
    )
    types += struct_of(b"other", 8, [(b"type", 0)], packed=0)
    types += struct.pack("<III", 0, 4 << 24, 16)  # without a name
    head = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(types), len(types), len(text))
    return head + types + text


def test_the_places_of_members_come_from_btf_and_are_checked_in_the_build() -> None:
    found = structure_layouts(btf(), ["elevator_queue", "elevator_type"])

    assert found == {"elevator_queue": StructureLayout(48, {"type": 0, "flags": 8})}
    check = layout_check(found)
    assert "static_assert(sizeof(struct elevator_queue) == 48," in check
    assert "static_assert(offsetof(struct elevator_queue, flags) == 8," in check
    with pytest.raises(ValueError, match="not BTF"):
        structure_layouts(b"\x7fELF" + bytes(64), ["elevator_queue"])


@pytest.fixture
def headers(tmp_path: Path) -> Path:
    directory = tmp_path / "linux-headers-6.1.0-50-amd64"
    version = directory / "include/generated/uapi/linux/version.h"
    version.parent.mkdir(parents=True)
    version.write_text(
        "#define LINUX_VERSION_CODE 393648\n#define LINUX_VERSION_MAJOR 6\n"
        "#define LINUX_VERSION_PATCHLEVEL 1\n#define LINUX_VERSION_SUBLEVEL 176\n"
    )
    release = directory / "include/generated/utsrelease.h"
    release.write_text('#define UTS_RELEASE "6.1.0-50-amd64"\n')
    return directory


MAKEFILE = "# SPDX\nVERSION = 6\nPATCHLEVEL = 1\nSUBLEVEL = {}\nEXTRAVERSION =\n"


@pytest.mark.parametrize(
    ("runs", "private", "told"),
    [
        ("6.1.0-50-amd64", ["elevator_queue"], True),
        ("6.1.0-50-amd64", ["elevator_queue", "elevator_type"], False),
        ("6.1.0-5", ["elevator_queue"], False),
    ],
)
def test_the_kernel_that_runs_tells_of_all_structures_and_of_no_other_headers_but_its_own(
    runs: str,
    private: list[str],
    told: bool,
    headers: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The release of one may be the beginning of another's."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source/Makefile").write_text(MAKEFILE.format(170))
    (tmp_path / "btf").write_bytes(btf())
    (tmp_path / "bpref").mkdir()
    monkeypatch.setattr(kernel_source, "PRIVATE", private)
    monkeypatch.setattr(kernel_source, "RUNNING", tmp_path / "btf")
    monkeypatch.setattr(platform, "release", lambda: runs)

    refused = compared(tmp_path, headers, tmp_path / "source")

    assert ("without BTF" in refused) == (not told)
    assert (tmp_path / "bpref/layout.c").exists() == told


@pytest.mark.parametrize(("runs", "told"), [("6.1.0-50-amd64", True), ("6.1.0-51-amd64", False)])
def test_a_source_of_the_same_number_is_compared_where_something_tells_and_taken_elsewhere(
    runs: str, *, told: bool, headers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A vendor may have changed its kernel, and not its number."""
    for name in ("source", "bpref"):
        (tmp_path / name).mkdir()
    (tmp_path / "source/Makefile").write_text(MAKEFILE.format(176))
    (tmp_path / "btf").write_bytes(btf())
    monkeypatch.setattr(kernel_source, "PRIVATE", ["elevator_queue"])
    monkeypatch.setattr(kernel_source, "RUNNING", tmp_path / "btf")
    monkeypatch.setattr(platform, "release", lambda: runs)

    assert compared(tmp_path, headers, tmp_path / "source") == ""
    assert (tmp_path / "bpref/layout.c").exists() == told


def test_a_source_of_another_patch_level_is_refused_where_nothing_compares_it(
    headers: Path, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.mkdir()

    (source / "Makefile").write_text(MAKEFILE.format(176))
    same = compared(tmp_path, headers, source)
    (source / "Makefile").write_text(MAKEFILE.format(170))
    other = compared(tmp_path, headers, source)
    (source / "Makefile").unlink()
    unknown = compared(tmp_path, headers, source)

    assert (header_version(headers), version_of(source)) == ("6.1.176", None)
    assert same == ""
    assert "source of Linux 6.1.170, the headers are of 6.1.176" in other
    assert "(unknown)" in unknown
